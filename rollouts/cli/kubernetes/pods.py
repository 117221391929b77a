"""What the API server refuses in a pod template: the schema's fields, and the rules between them that people break. Pure.

Only what every release from 1.30 to this one refuses is a problem, so that nothing is refused here that a cluster takes.
Source: the validation of pods in Kubernetes 1.36, which the tests ask about each rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rollouts.cli.kubernetes.parts import (
    entries,
    entries_at,
    label_problem,
    number,
    port_name_problem,
    port_problem,
    repeated,
)
from rollouts.cli.kubernetes.schema import POD_TEMPLATE, Problem, field_problems, nearest, quantity
from rollouts.core.model.grammar import is_label_key, is_label_value
from rollouts.objects import mapping

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")
_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_USER_MOST = 2**31 - 1


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
    pod, here = mapping(mapping(template).get("spec")), f"{path}.spec"
    volumes = {volume.get("name") for _, volume in entries(pod.get("volumes"))}
    grace_s = number(pod.get("terminationGracePeriodSeconds"))
    for field in ("initContainers", "containers"):
        for at, container in entries_at(pod, field, here):
            yield from _container_problems(container, at, volumes, 30 if grace_s is None else max(grace_s, 0))
            if field == "initContainers" and container.get("restartPolicy") != "Always":
                for name in ("lifecycle", *_PROBES):
                    if container.get(name) is not None:
                        yield f"{at}.{name}", "is for containers that go on; add restartPolicy: Always, or remove it"
    if pod.get("ephemeralContainers"):
        yield f"{here}.ephemeralContainers", "cannot be in a template; kubectl debug adds them to a pod"
    yield from _volume_problems(pod, here)
    yield from _host_port_problems(pod, here)
    yield from _placement_problems(pod, here)
    yield from _user_problems(mapping(pod.get("securityContext")), f"{here}.securityContext")
    if pod.get("dnsPolicy") == "None" and not mapping(pod.get("dnsConfig")).get("nameservers"):
        yield f"{here}.dnsConfig.nameservers", "is required with dnsPolicy None; name a server, or change dnsPolicy"


def _container_problems(container: Mapping[str, Any], at: str, volumes: set[Any], grace_s: float) -> Iterator[Problem]:
    yield from label_problem(container.get("name"), f"{at}.name")
    ports = list(entries_at(container, "ports", at))
    for path, port in ports:
        yield from port_problem(port.get("containerPort"), f"{path}.containerPort")
        if port.get("hostPort") != 0:
            yield from port_problem(port.get("hostPort"), f"{path}.hostPort")
        if port.get("name"):
            yield from port_name_problem(port["name"], f"{path}.name")
    yield from repeated((f"{path}.name", port.get("name")) for path, port in ports)
    yield from _env_problems(container, at)
    yield from _mount_problems(container, at, volumes)
    yield from _resource_problems(mapping(container.get("resources")), f"{at}.resources")
    for name in _PROBES:
        if isinstance(container.get(name), dict):
            yield from _probe_problems(container[name], f"{at}.{name}", name, grace_s)
    lifecycle = mapping(container.get("lifecycle"))
    for name in ("preStop", "postStart"):
        if isinstance(lifecycle.get(name), dict):
            yield from _handler_problems(lifecycle[name], f"{at}.lifecycle.{name}", _HOOK_HANDLERS, grace_s)
    security = mapping(container.get("securityContext"))
    yield from _user_problems(security, f"{at}.securityContext")
    if security.get("privileged") is True and security.get("allowPrivilegeEscalation") is False:
        why = "cannot be false with privileged: true; remove one of them"
        yield f"{at}.securityContext.allowPrivilegeEscalation", why


def _env_problems(container: Mapping[str, Any], at: str) -> Iterator[Problem]:
    for path, variable in entries_at(container, "env", at):
        source = variable.get("valueFrom")
        if "=" in str(variable.get("name")):
            yield f"{path}.name", "must have no '='; write the value into value"
        if isinstance(source, dict):
            if variable.get("value"):
                yield f"{path}.valueFrom", "cannot stand beside value; remove one of them"
            given = [name for name, part in source.items() if part is not None]
            if len(given) != 1:
                wanted = "one of fieldRef, resourceFieldRef, configMapKeyRef and secretKeyRef"
                yield f"{path}.valueFrom", f"needs {wanted}, not {' and '.join(given) or 'none'}"
    for path, source in entries_at(container, "envFrom", at):
        if (source.get("configMapRef") is None) == (source.get("secretRef") is None):
            yield path, "needs either configMapRef or secretRef"


def _mount_problems(container: Mapping[str, Any], at: str, volumes: set[Any]) -> Iterator[Problem]:
    mounts = list(entries_at(container, "volumeMounts", at))
    for path, mount in mounts:
        name = mount.get("name")
        if isinstance(name, str) and name not in volumes:
            near = nearest(name, [volume for volume in volumes if isinstance(volume, str)])
            yield f"{path}.name", f"no volume of the pod is named {name!r}; add it to volumes{near}"
        below = str(mount.get("subPath") or "")
        if below.startswith("/") or ".." in below.split("/"):
            yield f"{path}.subPath", "must be a path inside the volume, without / in front and without .."
        if mount.get("subPath") and mount.get("subPathExpr"):
            yield f"{path}.subPathExpr", "cannot stand beside subPath; remove one of them"
    yield from repeated((f"{path}.mountPath", mount.get("mountPath")) for path, mount in mounts)


def _resource_problems(resources: Mapping[str, Any], path: str) -> Iterator[Problem]:
    limits = mapping(resources.get("limits"))
    for field in ("limits", "requests"):
        for name, value in mapping(resources.get(field)).items():
            amount = quantity(value)
            if "/" not in name and name not in _RESOURCES and not name.startswith("hugepages-"):
                yield f"{path}.{field}.{name}", f"is no resource of a container; there are {', '.join(_RESOURCES)}"
            elif amount is not None and amount < 0:
                yield f"{path}.{field}.{name}", f"must be 0 or more, not {value}"
            elif field == "requests" and amount is not None:
                limit = quantity(limits.get(name))
                if limit is not None and amount > limit:
                    why = f"is {value}, more than its limit {limits[name]}; raise the limit, or request less"
                    yield f"{path}.{field}.{name}", why


def _probe_problems(probe: Mapping[str, Any], path: str, name: str, grace_s: float) -> Iterator[Problem]:
    yield from _handler_problems(probe, path, _PROBE_HANDLERS, grace_s)
    for field in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        if (number(probe.get(field)) or 0) < 0:
            yield f"{path}.{field}", f"must be 0 or more, not {probe[field]}"
    own_grace_s = number(probe.get("terminationGracePeriodSeconds"))
    if name != "readinessProbe" and probe.get("successThreshold") not in (None, 0, 1):
        yield f"{path}.successThreshold", "must be 1; only a readinessProbe may need more"
    if own_grace_s is not None and name == "readinessProbe":
        yield f"{path}.terminationGracePeriodSeconds", "must not be set: a readinessProbe ends no container; remove it"
    elif own_grace_s is not None and own_grace_s <= 0:
        yield f"{path}.terminationGracePeriodSeconds", f"must be more than 0, not {own_grace_s}"


def _handler_problems(
    handler: Mapping[str, Any], path: str, known: tuple[str, ...], grace_s: float
) -> Iterator[Problem]:
    given = [name for name in known if handler.get(name) is not None]
    if len(given) != 1:
        yield path, f"needs exactly one of {', '.join(known)}; it has {' and '.join(given) or 'none'}"
    for name in ("httpGet", "tcpSocket", "grpc"):
        if isinstance(handler.get(name), dict):
            yield from port_problem(handler[name].get("port"), f"{path}.{name}.port")
    if isinstance(handler.get("exec"), dict) and not handler["exec"].get("command"):
        yield f"{path}.exec.command", "is required: the program and its arguments, as a list"
    seconds = number(mapping(handler.get("sleep")).get("seconds")) or 0
    if not 0 <= seconds <= grace_s:
        told = f"must be 0 to terminationGracePeriodSeconds, which is {grace_s}; change one of them"
        yield f"{path}.sleep.seconds", told


def _volume_problems(pod: Mapping[str, Any], here: str) -> Iterator[Problem]:
    volumes = list(entries_at(pod, "volumes", here))
    for path, volume in volumes:
        yield from label_problem(volume.get("name"), f"{path}.name")
        given = [name for name, part in volume.items() if name != "name" and part is not None]
        if len(given) > 1:
            yield path, f"may have one source only; it has {' and '.join(given)}"
        if isinstance(volume.get("secret"), dict) and not volume["secret"].get("secretName"):
            yield f"{path}.secret.secretName", "is required"
        if isinstance(volume.get("configMap"), dict) and not volume["configMap"].get("name"):
            yield f"{path}.configMap.name", "is required"
    yield from repeated((f"{path}.name", volume.get("name")) for path, volume in volumes)


def _host_port_problems(pod: Mapping[str, Any], here: str) -> Iterator[Problem]:
    found: list[tuple[str, object]] = []
    for at, container in entries_at(pod, "containers", here):
        for path, port in entries_at(container, "ports", at):
            host = port.get("hostPort")
            if host:
                found.append((f"{path}.hostPort", (host, port.get("protocol") or "TCP", port.get("hostIP") or "")))
            if pod.get("hostNetwork") is True and host not in (None, 0, port.get("containerPort")):
                yield f"{path}.hostPort", "must be the same as containerPort with hostNetwork: true; remove it"
    yield from repeated(iter(found))


def _placement_problems(pod: Mapping[str, Any], here: str) -> Iterator[Problem]:
    for key, value in mapping(pod.get("nodeSelector")).items():
        if not is_label_key(str(key)) or (isinstance(value, str) and not is_label_value(value)):
            yield f"{here}.nodeSelector.{key}", "is no label that a node can have; correct the key or the value"
    for path, toleration in entries_at(pod, "tolerations", here):
        if toleration.get("operator") == "Exists" and toleration.get("value"):
            yield f"{path}.value", "must be empty with operator Exists; remove it, or write operator: Equal"
        if not toleration.get("key") and toleration.get("operator", "Equal") == "Equal":
            yield f"{path}.operator", "must be Exists where no key is given; write operator: Exists, or a key"
        if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
            yield f"{path}.effect", "must be NoExecute with tolerationSeconds"
    for path, constraint in entries_at(pod, "topologySpreadConstraints", here):
        if (number(constraint.get("maxSkew")) or 1) < 1 or constraint.get("maxSkew") == 0:
            yield f"{path}.maxSkew", f"must be 1 or more, not {constraint['maxSkew']}"
    affinity = mapping(pod.get("affinity"))
    for name in ("nodeAffinity", "podAffinity", "podAntiAffinity"):
        own, where = mapping(affinity.get(name)), f"{here}.affinity.{name}"
        for path, preference in entries_at(own, "preferredDuringSchedulingIgnoredDuringExecution", where):
            weight = number(preference.get("weight"))
            if weight is not None and not 1 <= weight <= 100:
                yield f"{path}.weight", f"must be 1 to 100, not {weight}"


def _user_problems(security: Mapping[str, Any], path: str) -> Iterator[Problem]:
    for name in ("runAsUser", "runAsGroup", "fsGroup"):
        found = number(security.get(name))
        if found is not None and not 0 <= found <= _USER_MOST:
            yield f"{path}.{name}", f"must be 0 to {_USER_MOST}, not {found}"
