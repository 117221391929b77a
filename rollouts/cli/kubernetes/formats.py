"""Which texts and numbers a field takes where Kubernetes' schema names only their type, by the object that holds them. Pure.

Only what every release from 1.30 to this one refuses is wrong here; the tests ask the API server about each format.

Sources: kubernetes, pkg/apis/core/validation/validation.go · apimachinery, pkg/util/validation/validation.go
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from rollouts.core.model.grammar import is_label_key, is_label_value, is_object_name

Format: TypeAlias = Callable[[Any], str]
"""What is wrong with a value and how to mend it; "" for one that is right."""

KEY_WORDS = "at most 63 letters, digits, '-', '_' and '.', after an optional DNS name and '/'"
VALUE_WORDS = "at most 63 letters, digits, '-', '_' and '.'"
LABEL_WORDS = "lower-case letters, digits and '-', 63 at most"
_PORTS = range(1, 65_536)
_ID_MOST = 2**31 - 1
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_PORT_NAME = re.compile(r"(?=.*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")
_CONFIG_KEY = re.compile(r"(?!\.\.)(?!\.$)[-._a-zA-Z0-9]{1,253}")
_ZEROS = re.compile(r"\b0+(?=\d)")
_HEADER = re.compile(r"[-A-Za-z0-9]+")
_ENV_NAME = re.compile(r"[ -<>-~]+")  # printable ASCII without "="
_SYSCTL_PART = re.compile(r"[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?")
_SEARCH_PART = re.compile(r"[a-z0-9_](?:[-a-z0-9_]*[a-z0-9_])?")
_DOMAIN = re.compile(r"[^\\/:*?\"<>|.][^\\/:*?\"<>|]{0,14}|[A-Za-z0-9](?:[A-Za-z0-9.-]{0,253}[A-Za-z0-9])?")
_NOT_IN_WINDOWS_NAMES = frozenset('"/\\:;|=,+*?<>@[]')


def _format(is_right: Callable[[Any], object], words: str) -> Format:
    return lambda value: "" if is_right(value) else f"must be {words}, not {value!r}"


def between(least: int, most: int) -> Format:
    """A number in a range, both ends in it."""
    return lambda value: "" if least <= value <= most else f"must be {least} to {most}, not {value}"


def one_of(*known: str) -> Format:
    """One of a few texts."""
    return _format(lambda value: value in known, f"one of {', '.join(known)}")


def port(value: int | str) -> str:
    """A port's number, or its name where the field takes both."""
    if isinstance(value, str):
        return port_name(value)
    return "" if value in _PORTS else f"must be a port from 1 to 65535, not {value}"


def port_name(value: str) -> str:
    """A port's name."""
    if value.isdigit():
        return "must be a number without quotes, or the name of a port; remove the quotes"
    words = "a port's name is lower-case letters, digits and single '-', 15 at most"
    return "" if not value or _PORT_NAME.fullmatch(value) else f"{words}, not {value!r}"


def file_mode(value: int) -> str:
    """The permissions of a file."""
    return "" if 0 <= value <= 0o777 else f"must be 0 to 0777 (511 in decimals), not {value}; write it as 0644"


def at_least(least: int) -> Format:
    """A number without an upper end."""
    return lambda value: "" if value >= least else f"must be {least} or more, not {value}"


def _is_ip(value: str) -> bool:
    try:
        ipaddress.ip_address(_ZEROS.sub("", value))  # zeros in front were always taken
    except ValueError:
        return False
    return "%" not in value


def _is_search(value: str) -> bool:
    parts = value.removesuffix(".").split(".")
    return value == "." or (len(value) <= 254 and all(_SEARCH_PART.fullmatch(part) for part in parts))


def _is_sysctl(value: str) -> bool:
    return len(value) <= 253 and all(_SYSCTL_PART.fullmatch(part) for part in value.replace("/", ".").split("."))


def _is_windows_user(value: str) -> bool:
    domain, slash, user = value.rpartition("\\")
    if slash and not _DOMAIN.fullmatch(domain):
        return False
    is_blank = not user.strip(". ")
    return not is_blank and len(user) <= 104 and user.isprintable() and not _NOT_IN_WINDOWS_NAMES & set(user)


dns_label = _format(
    lambda value: not value or _LABEL.fullmatch(value), "lower-case letters, digits and '-', 63 at most"
)
object_name = _format(
    lambda value: not value or is_object_name(value), "a name: lower-case letters, digits, '-' and '.', 253 at most"
)
key = _format(is_label_key, KEY_WORDS)
label_value = _format(is_label_value, VALUE_WORDS)
config_key = _format(_CONFIG_KEY.fullmatch, "a key: letters, digits, '-', '_' and '.', 253 at most")
env_name = _format(lambda value: not value or _ENV_NAME.fullmatch(value), "printable ASCII without '='")
inside = _format(
    lambda value: not value.startswith(("/", "..")) and ".." not in value.split("/"),
    "a path inside the volume, without / in front and without ..",
)
below = _format(
    lambda value: not value.startswith("/") and ".." not in value.split("/"),
    "a path inside the volume, without / in front and without ..",
)
without_steps_back = _format(lambda value: ".." not in value.split("/"), "a path without ..")
absolute = _format(lambda value: value.startswith("/"), "a path that begins with /")
ip = _format(_is_ip, "an IP address")
_IDS = {name: between(0, _ID_MOST) for name in ("runAsUser", "runAsGroup", "fsGroup", "supplementalGroups")}
_REFERENCE: Mapping[str, Format] = {"name": object_name}
_MODE: Mapping[str, Format] = {"defaultMode": file_mode}
_POLICY = one_of("Always", "Never", "OnFailure")

FORMATS: Mapping[str, Mapping[str, Format]] = {
    "CSIVolumeSource": {
        "driver": _format(
            lambda value: len(value) <= 63 and is_object_name(value.lower()), "a DNS name, 63 characters at most"
        )
    },
    "ClusterTrustBundleProjection": {"path": inside},
    "ConfigMapEnvSource": _REFERENCE,
    "ConfigMapKeySelector": {"name": object_name, "key": config_key},
    "ConfigMapVolumeSource": _MODE,
    "Container": {"name": dns_label, "restartPolicy": _POLICY},
    "ContainerPort": {"containerPort": port, "hostPort": lambda value: value and port(value), "name": port_name},
    "ContainerResizePolicy": {
        "resourceName": one_of("cpu", "memory"),
        "restartPolicy": one_of("NotRequired", "RestartContainer"),
    },
    "DownwardAPIVolumeFile": {"path": inside, "mode": file_mode},
    "DownwardAPIVolumeSource": _MODE,
    "EnvFromSource": {"prefix": env_name},
    "EnvVar": {"name": env_name},
    "GRPCAction": {"port": port},
    "HTTPGetAction": {"port": port},
    "HTTPHeader": {"name": _format(_HEADER.fullmatch, "a header's name: letters, digits and '-'")},
    "HostAlias": {"ip": ip, "hostnames": object_name},
    "HostPathVolumeSource": {"path": without_steps_back},
    "KeyToPath": {"path": inside, "mode": file_mode},
    "LabelSelectorRequirement": {
        "key": key,
        "operator": one_of("In", "NotIn", "Exists", "DoesNotExist"),
        "values": label_value,
    },
    "NFSVolumeSource": {"path": absolute},
    "NodeSelectorRequirement": {"key": key},
    "PodAffinityTerm": {"topologyKey": key, "namespaces": dns_label, "matchLabelKeys": key, "mismatchLabelKeys": key},
    "PodDNSConfig": {"nameservers": ip, "searches": _format(_is_search, "a DNS name, 253 characters at most")},
    "PodOS": {"name": one_of("linux", "windows")},
    "PodReadinessGate": {"conditionType": key},
    "PodResourceClaim": {
        "name": dns_label,
        "resourceClaimName": object_name,
        "resourceClaimTemplateName": object_name,
    },
    "PodSchedulingGate": {"name": key},
    "PodSecurityContext": _IDS,
    "PodSpec": {
        "hostname": dns_label,
        "hostnameOverride": object_name,
        "nodeName": object_name,
        "priorityClassName": object_name,
        "runtimeClassName": object_name,
        "serviceAccount": object_name,
        "serviceAccountName": object_name,
        "subdomain": dns_label,
    },
    "Probe": {
        "initialDelaySeconds": at_least(0),
        "timeoutSeconds": at_least(0),
        "periodSeconds": at_least(0),
        "successThreshold": at_least(0),
        "failureThreshold": at_least(0),
        "terminationGracePeriodSeconds": at_least(1),
    },
    "PreferredSchedulingTerm": {"weight": between(1, 100)},
    "ProjectedVolumeSource": _MODE,
    "SeccompProfile": {"localhostProfile": below},
    "SecretEnvSource": _REFERENCE,
    "SecretKeySelector": {"name": object_name, "key": config_key},
    "SecretVolumeSource": _MODE,
    "SecurityContext": _IDS,
    "ServiceAccountTokenProjection": {"path": inside, "expirationSeconds": between(600, 2**32)},
    "ServicePort": {"name": dns_label, "port": port, "targetPort": port},
    "Sysctl": {
        "name": _format(_is_sysctl, "a sysctl's name: lower-case letters, digits, '-' and '_' between '.' or '/'")
    },
    "TCPSocketAction": {"port": port},
    "Toleration": {"key": lambda value: value and key(value)},
    "TopologySpreadConstraint": {"maxSkew": at_least(1), "minDomains": at_least(1), "matchLabelKeys": key},
    "Volume": {"name": dns_label},
    "VolumeDevice": {"devicePath": without_steps_back},
    "VolumeMount": {"subPath": below, "subPathExpr": below},
    "WeightedPodAffinityTerm": {"weight": between(1, 100)},
    "WindowsSecurityContextOptions": {
        "gmsaCredentialSpecName": _format(is_object_name, "a name: lower-case letters, digits, '-' and '.'"),
        "runAsUserName": _format(
            _is_windows_user, 'USER or DOMAIN\\USER, without any of " / : ; | = , + * ? < > @ [ ]'
        ),
    },
}
"""By definition and field; of a list each entry, of an object nothing."""
