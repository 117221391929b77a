"""What the API server refuses in a pod template: fields, formats, and rules between the parts of a pod. Pure.

Only what every release from 1.30 to this one refuses is a problem, so that nothing is refused here that a cluster takes. Fields
that an older release drops, as their feature gate is off there, are judged as 1.36 does.
Source: the validation of pods in Kubernetes 1.36, which the tests ask about each rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from rollouts.cli.kubernetes.definitions import label_problems, part_problems
from rollouts.cli.kubernetes.formats import KEY_WORDS
from rollouts.cli.kubernetes.parts import entries, entries_at, named, number, repeated
from rollouts.cli.kubernetes.requests import amount_text, amounts, pod_total, resources_of
from rollouts.cli.kubernetes.schema import POD_TEMPLATE, Problem, field_problems, nearest, parts_of
from rollouts.core.model.grammar import is_label_key
from rollouts.objects import mapping

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_CONTAINERS = ("initContainers", "containers")
_GRACE_S = 30  # Kubernetes' default
ANNOTATIONS_MAX = 256 * 1024
"""Bytes of all keys and values of an object's annotations. Source: apimachinery, pkg/api/validation/objectmeta.go."""
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_APP_ARMOR_PROFILES = ("runtime/default", "unconfined")
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_INT32_MOST = 2**31 - 1
_NOT_ON_WINDOWS = ("hostIPC", "hostPID", "hostUsers", "shareProcessNamespace", "resources")
_ON_WINDOWS = frozenset({"runAsNonRoot", "windowsOptions"})
"""Fields of a security context that a container on Windows may have."""


def template_problems(template: object, path: str) -> Iterator[Problem]:
    """Path and message of everything that the API server would refuse in a ReplicaSet's pods. Raises: nothing."""
    yield from unique([*field_problems(template, POD_TEMPLATE, path), *rules(template, path)])


def unique(problems: list[Problem]) -> Iterator[Problem]:
    """The first problem of each path."""
    found: dict[str, str] = {}
    for path, message in problems:
        found.setdefault(path, message)
    yield from found.items()


def rules(template: object, path: str) -> Iterator[Problem]:
    """The rules between fields."""
    pod, metadata = mapping(mapping(template).get("spec")), mapping(mapping(template).get("metadata"))
    for definition, at, part in parts_of(template, POD_TEMPLATE, path):
        yield from part_problems(definition, part, at)
    annotations = mapping(metadata.get("annotations"))
    yield from label_problems(mapping(metadata.get("labels")), f"{path}.metadata.labels")
    yield from annotation_problems(annotations, f"{path}.metadata.annotations")
    yield from pod_annotation_problems(annotations, f"{path}.metadata.annotations", pod)
    containers = [(field, at, part) for field in _CONTAINERS for at, part in entries_at(pod, field, f"{path}.spec")]
    yield from repeated((f"{at}.name", part.get("name")) for _, at, part in reversed(containers))
    for field, at, container in containers:
        for rule in (volume_references, claim_references, hook_problems, privileges):
            yield from rule(container, at, pod)
        yield from probe_problems(
            container, at, ends=field == "initContainers" and container.get("restartPolicy") != "Always"
        )
    yield from label_problems(pod.get("nodeSelector"), f"{path}.spec.nodeSelector")
    for pod_rule in (host_ports, host_namespaces, dns_problems, total_problems, system_problems):
        yield from pod_rule(pod, f"{path}.spec")
    if pod.get("ephemeralContainers"):
        yield f"{path}.spec.ephemeralContainers", "cannot be in a template; kubectl debug adds them to a pod"


def annotation_problems(annotations: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """What is wrong with the keys and the size of annotations. The API server takes capitals in the DNS name of their keys."""
    for name in annotations:
        if not is_label_key(str(name).lower()):
            yield f"{path}.{name}", f"a key is {KEY_WORDS}"
    size = sum(len(f"{name}{value}".encode()) for name, value in annotations.items())
    if size > ANNOTATIONS_MAX:
        yield path, f"are {size:,} bytes, and {ANNOTATIONS_MAX:,} is the most; put large texts into a ConfigMap"


def pod_annotation_problems(annotations: Mapping[str, Any], path: str, pod: Mapping[str, Any]) -> Iterator[Problem]:
    """Annotations that the API server reads as fields."""
    names = {*named(pod, "containers"), *named(pod, "initContainers")}
    for name, value in annotations.items():
        profile = str(value)
        if name == _DELETION_COST and not (profile.removeprefix("-").isdigit() and abs(int(profile)) <= _INT32_MOST):
            yield f"{path}.{name}", f"must be a whole number of 32 bits in quotes, not {value!r}"
        if not name.startswith(_APP_ARMOR):
            continue
        if (container := name.removeprefix(_APP_ARMOR)) not in names:
            yield f"{path}.{name}", f"no container of the pod is named {container!r}"
        elif profile and profile not in _APP_ARMOR_PROFILES and not profile.startswith("localhost/"):
            yield f"{path}.{name}", f"must be runtime/default, localhost/PROFILE or unconfined, not {value!r}"


def volume_references(container: Mapping[str, Any], at: str, pod: Mapping[str, Any]) -> Iterator[Problem]:
    """Volumes that a container names and its pod lacks, or has of another kind."""
    volumes = named(pod, "volumes")
    for field in ("volumeMounts", "volumeDevices"):
        for path, mount in entries_at(container, field, at):
            name = mount.get("name")
            if not isinstance(name, str):
                continue
            if name not in volumes:
                yield (
                    f"{path}.name",
                    f"no volume of the pod is named {name!r}; add it to volumes{nearest(name, volumes)}",
                )
            elif field == "volumeDevices" and not volumes[name].keys() & {"persistentVolumeClaim", "ephemeral"}:
                yield f"{path}.name", "must be a volume with a persistentVolumeClaim or an ephemeral one"


def claim_references(container: Mapping[str, Any], at: str, pod: Mapping[str, Any]) -> Iterator[Problem]:
    """Claims that a container names and its pod lacks."""
    claims = named(pod, "resourceClaims")
    for path, claim in entries_at(mapping(container.get("resources")), "claims", f"{at}.resources"):
        if isinstance(claim.get("name"), str) and claim["name"] not in claims:
            yield f"{path}.name", f"no claim of the pod is named {claim['name']!r}; add it to resourceClaims"


def probe_problems(container: Mapping[str, Any], at: str, *, ends: bool) -> Iterator[Problem]:
    """What only one of the probes may have; a container that ends has neither probes nor hooks."""
    for name in ("lifecycle", *_PROBES):
        if ends and container.get(name) is not None:
            yield f"{at}.{name}", "is for containers that go on; add restartPolicy: Always, or remove it"
    for name in _PROBES:
        probe = mapping(container.get(name))
        if name != "readinessProbe" and probe.get("successThreshold") not in (None, 0, 1):
            yield f"{at}.{name}.successThreshold", "must be 1; only a readinessProbe may need more"
        if name == "readinessProbe" and probe.get("terminationGracePeriodSeconds") is not None:
            why = "must not be set: a readinessProbe ends no container; remove it"
            yield f"{at}.{name}.terminationGracePeriodSeconds", why


def hook_problems(container: Mapping[str, Any], at: str, pod: Mapping[str, Any]) -> Iterator[Problem]:
    """Sleeps that are longer than the pod's time to end, and a signal without an operating system."""
    grace = number(pod.get("terminationGracePeriodSeconds"))
    grace_s = _GRACE_S if grace is None else max(grace, 0)
    lifecycle = mapping(container.get("lifecycle"))
    for name in ("preStop", "postStart"):
        seconds = number(mapping(mapping(lifecycle.get(name)).get("sleep")).get("seconds")) or 0
        if not 0 <= seconds <= grace_s:
            told = f"must be 0 to terminationGracePeriodSeconds, which is {grace_s}; change one of them"
            yield f"{at}.lifecycle.{name}.sleep.seconds", told
    if lifecycle.get("stopSignal") and not mapping(pod.get("os")).get("name"):
        yield f"{at}.lifecycle.stopSignal", "needs os.name: linux or windows of the pod"


def privileges(container: Mapping[str, Any], at: str, pod: Mapping[str, Any]) -> Iterator[Problem]:
    """What only a privileged container, or a pod with users of its own, may have; and an image, which every one has."""
    if container.get("image") == "":
        yield f"{at}.image", "is required"
    security = mapping(container.get("securityContext"))
    for path, mount in entries_at(container, "volumeMounts", at):
        if mount.get("mountPropagation") == "Bidirectional" and security.get("privileged") is not True:
            yield f"{path}.mountPropagation", "Bidirectional needs securityContext.privileged: true"
    if security.get("procMount") == "Unmasked" and pod.get("hostUsers") is not False:
        yield f"{at}.securityContext.procMount", "Unmasked needs hostUsers: false of the pod"


def host_ports(pod: Mapping[str, Any], here: str) -> Iterator[Problem]:
    """Two containers that want one port of the node, and ports that the host's network does not allow."""
    found: list[tuple[str, object]] = []
    for at, container in entries_at(pod, "containers", here):
        for path, port in entries_at(container, "ports", at):
            host = port.get("hostPort")
            if host:
                found.append((f"{path}.hostPort", (str(host), port.get("protocol") or "TCP", port.get("hostIP") or "")))
            if pod.get("hostNetwork") is True and host not in (None, 0, port.get("containerPort")):
                yield f"{path}.hostPort", "must be the same as containerPort with hostNetwork: true; remove it"
    yield from repeated(iter(found))


def host_namespaces(pod: Mapping[str, Any], here: str) -> Iterator[Problem]:
    """Namespaces of the node that exclude each other."""
    apart = [("shareProcessNamespace", "hostPID: true", pod.get("hostPID") is True)]
    apart += [(name, "hostUsers: false", pod.get("hostUsers") is False) for name in ("hostPID", "hostIPC")]
    for name, other, is_set in apart:
        if is_set and pod.get(name) is True:
            yield f"{here}.{name}", f"cannot be true with {other}; remove one of them"


def dns_problems(pod: Mapping[str, Any], here: str) -> Iterator[Problem]:
    """Name servers that lack, and more of a list than a resolver reads."""
    config = mapping(pod.get("dnsConfig"))
    servers, searches = config.get("nameservers"), config.get("searches")
    if pod.get("dnsPolicy") == "None" and not servers:
        yield f"{here}.dnsConfig.nameservers", "is required with dnsPolicy None; name a server, or change dnsPolicy"
    if isinstance(servers, list) and len(servers) > 3:
        yield f"{here}.dnsConfig.nameservers", f"has {len(servers)} servers, and 3 are the most"
    if isinstance(searches, list) and (len(searches) > 32 or len(" ".join(map(str, searches))) > 2048):
        yield f"{here}.dnsConfig.searches", "has more than 32 names, or more than 2048 characters"


def total_problems(pod: Mapping[str, Any], here: str) -> Iterator[Problem]:
    """The resources of the pod as a whole against those of its containers."""
    resources, path = mapping(pod.get("resources")), f"{here}.resources"
    stated = {side: mapping(resources.get(side)) for side in ("limits", "requests")}
    if resources.get("claims"):
        yield f"{path}.claims", "cannot be set for the pod as a whole; set it in a container"
    for side, name in [(each, name) for each, names in stated.items() for name in names]:
        if name not in ("cpu", "memory") and not name.startswith("hugepages-"):
            yield f"{path}.{side}.{name}", "cannot be set for the pod as a whole; there are cpu and memory"
    needed = pod_total({**pod, "resources": {}}, "requests", overhead=False)
    for name, own in amounts(stated["requests"]).items():
        if own < needed.get(name, own):
            yield (
                f"{path}.requests.{name}",
                f"must be {amount_text(name, needed[name])} or more, which its containers request",
            )
    for (_, container), (name, own) in product(entries(pod.get("containers")), amounts(stated["limits"]).items()):
        limit = resources_of(container, "limits").get(name, own)
        if own < limit:
            yield (
                f"{path}.limits.{name}",
                f"must be {amount_text(name, limit)} or more, which a container has as its limit",
            )


def system_problems(pod: Mapping[str, Any], here: str) -> Iterator[Problem]:
    """What Linux has and Windows has not, and the other way round."""
    system = mapping(pod.get("os")).get("name")
    owners = [(here, pod), *(found for field in _CONTAINERS for found in entries_at(pod, field, here))]
    for at, owner in owners:
        for name in mapping(owner.get("securityContext")):
            if (name == "windowsOptions") if system == "linux" else (system == "windows" and name not in _ON_WINDOWS):
                yield f"{at}.securityContext.{name}", f"cannot be set with os.name: {system}; remove one of them"
    for name in _NOT_ON_WINDOWS:
        if system == "windows" and pod.get(name) is not None:
            yield f"{here}.{name}", "cannot be set with os.name: windows; remove one of them"
