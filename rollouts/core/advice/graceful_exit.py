"""The graceful-exit checklist: what in a pod template lets requests be lost when pods come and go. Pure.

It reads the template as its author wrote it; the API server refuses what Kubernetes does not accept.
Sources: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/, KEP-3960 (`preStop.sleep`), KEP-753 (native
sidecars), and `signals.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from rollouts.core.advice.findings import Finding, Rule, Severity
from rollouts.core.advice.signals import Reach, sigterm, sleep_s_of
from rollouts.core.drain.pre_stop import injection
from rollouts.core.model.drain import DrainMode, DrainNumbers, DrainSpec, PreStop
from rollouts.core.model.limits import resolved_surge
from rollouts.core.model.pod_exit import read_pod_exit
from rollouts.core.model.rollout import RolloutSpec
from rollouts.objects import Manifest

_PERIOD_S, _FAILURES, _DELAY_S = 10, 3, 0  # Kubernetes' defaults of a probe
_BARE_IMAGES = ("distroless", "chainguard", "scratch", "chiselled", "static")
_PROBES = ("readinessProbe", "livenessProbe", "startupProbe")
_POD = "spec.template.spec"


class _Container(Struct, frozen=True):
    fields: Mapping[str, Any]
    path: str

    @property
    def name(self) -> str:
        return str(self.fields.get("name", ""))

    def part(self, name: str) -> Mapping[str, Any]:
        return _mapping(self.fields.get(name))

    @property
    def ports(self) -> tuple[Mapping[str, Any], ...]:
        return _mappings(self.fields.get("ports"))


def exit_findings(
    template: Manifest, *, drain: DrainSpec, numbers: DrainNumbers, surges: bool, startup_s: float | None = None
) -> tuple[Finding, ...]:
    """The findings about a template before an update. Raises: nothing.

    Args:
        numbers: the waits that follow from `drain` in this cluster.
        surges: pods of the new revision start before old ones end.
        startup_s: seconds that the fastest pod of the earlier revision took to be ready; None when that is unknown.
    """
    pod = _mapping(template.get("spec"))
    ordinary = _containers(pod, "containers")
    sidecars = tuple(
        each for each in _containers(pod, "initContainers") if each.fields.get("restartPolicy") == "Always"
    )
    serving = (*ordinary, *sidecars)
    if not ordinary:
        return ()
    return (
        *_readiness(serving),
        *(finding for each in serving for finding in _liveness(each, startup_s=startup_s)),
        *_ending(template, ordinary, drain=drain, numbers=numbers),
        *(finding for each in serving for finding in _signals(each)),
        *_probes_elsewhere(serving),
        *_host_ports(pod, serving, surges=surges),
        _kept_connections(),
    )


def surges(spec: RolloutSpec) -> bool:
    """Whether pods of a new revision start before old ones end."""
    if not spec.strategy.by_ratio:
        return True
    return resolved_surge(spec.strategy.max_surge, replicas=spec.replicas) > 0


def _readiness(serving: tuple[_Container, ...]) -> Iterator[Finding]:
    without = [each for each in serving if not each.part("readinessProbe")]
    nobody = len(without) == len(serving)
    for each in without:
        if not each.ports and not (nobody and each is serving[0]):
            continue  # it seems to take no connections
        others = "" if nobody else " and the other containers are ready"
        yield Finding(
            Rule.NO_READINESS_PROBE,
            Severity.UNSAFE if nobody else Severity.WARNING,
            f"{each.path}.readinessProbe",
            f"without it the pod counts as ready, and gets requests, as soon as {each.name} has started{others}",
            "add a readinessProbe that succeeds when the app answers requests",
        )


def _liveness(container: _Container, *, startup_s: float | None) -> Iterator[Finding]:
    """Findings about the livenessProbe; none with a startupProbe, because the other probes wait until that has succeeded."""
    live, ready = container.part("livenessProbe"), container.part("readinessProbe")
    if not live or container.part("startupProbe"):
        return
    dies_s = _gives_up_s(live)
    severity, against = Severity.NOTE, "an app that takes longer to start is killed each time, and never gets ready"
    if startup_s is not None and dies_s <= startup_s:
        severity = Severity.UNSAFE
        against = f"even the fastest of the pods that run now took {startup_s:g} s to be ready"
    elif ready and dies_s <= _number(ready, "initialDelaySeconds", _DELAY_S):
        severity = Severity.UNSAFE
        against = (
            f"the readinessProbe asks for the first time after {_number(ready, 'initialDelaySeconds', _DELAY_S)} s"
        )
    elif ready and dies_s < _gives_up_s(ready):
        severity = Severity.WARNING
        against = f"the readinessProbe gives the app {_gives_up_s(ready)} s"
    elif startup_s is not None:
        if 2 * startup_s <= dies_s:
            return
        severity, against = (
            Severity.WARNING,
            f"the pods that run now took {startup_s:g} s, and a busy node may double that",
        )
    yield Finding(
        Rule.LIVENESS_BEFORE_READINESS,
        severity,
        f"{container.path}.livenessProbe",
        f"it kills the container {dies_s} s after its start if the app does not answer by then; {against}",
        "add a startupProbe with a failureThreshold for the slowest start: the livenessProbe then begins after it",
    )


def _ending(
    template: Manifest, ordinary: tuple[_Container, ...], *, drain: DrainSpec, numbers: DrainNumbers
) -> Iterator[Finding]:
    """Findings about the sleep before SIGTERM and the time until SIGKILL, with the injected preStop counted."""
    ends = read_pod_exit(template)
    if drain.mode is DrainMode.OFF or drain.pre_stop is PreStop.OFF:
        yield from _off(drain, sleeps=all(each.has_pre_stop for each in ends.containers))
    elif numbers.drain_s > drain.timeout_s:
        yield Finding(
            Rule.DRAIN_TIMEOUT_SHORT,
            Severity.WARNING,
            "spec.drain.timeoutSeconds",
            f"the wait for old pods ends after {drain.timeout_s:g} s, and {numbers.drain_s:g} s are needed: "
            f"{numbers.drain_why}",
            f"make it {math.ceil(numbers.drain_s)} or more",
        )
    put_in = injection(drain, ends, numbers, native=True)
    longest_s = 0
    for each in ordinary:
        if put_in is not None and each.name in put_in.containers:
            sleep_s: int | None = put_in.pre_stop_s
        else:
            pre_stop = _mapping(each.part("lifecycle").get("preStop"))
            sleep_s = _sleep_s(pre_stop)
            yield from _not_put_in(each, pre_stop, sleep_s, numbers)
        longest_s = max(longest_s, sleep_s or 0)
    yield from _grace(drain, put_in.grace_s if put_in is not None else ends.grace_s, longest_s=longest_s)


def _not_put_in(
    container: _Container, pre_stop: Mapping[str, Any], sleep_s: int | None, numbers: DrainNumbers
) -> Iterator[Finding]:
    """Findings about a container that gets no injected preStop: it has the user's, or none."""
    need_s, why = numbers.pre_stop_s, numbers.pre_stop_why
    if pre_stop:
        yield from _own_pre_stop(container, pre_stop, sleep_s=sleep_s, need_s=need_s, why=why)
    elif need_s:
        yield Finding(
            Rule.PRE_STOP_MISSING,
            Severity.UNSAFE,
            f"{container.path}.lifecycle.preStop",
            f"the app is told to end while proxies still send it connections; {need_s} s are needed: {why}",
            f"add lifecycle.preStop.sleep.seconds: {need_s}, or set spec.drain.preStop to Inject",
        )


def _grace(drain: DrainSpec, grace_s: int, *, longest_s: int) -> Iterator[Finding]:
    """Whether the grace period has room for the longest preStop and the longest request."""
    need_grace_s = longest_s + math.ceil(drain.max_request_s)
    if grace_s < need_grace_s:
        yield Finding(
            Rule.GRACE_SHORT,
            Severity.UNSAFE,
            f"{_POD}.terminationGracePeriodSeconds",
            f"pods are killed {grace_s} s after their deletion, in the middle of requests: the preStop takes {longest_s} s of "
            f"that, and the longest request {drain.max_request_s:g} s",
            f"make it {need_grace_s} or more, or set spec.drain.maxRequestSeconds to the longest request",
        )


def _off(drain: DrainSpec, *, sleeps: bool) -> Iterator[Finding]:
    """The finding about drain or preStop being Off; none if preStop is Off and every container has a preStop of its own."""
    field = "mode" if drain.mode is DrainMode.OFF else "preStop"
    if sleeps and field == "preStop":
        return
    yield Finding(
        Rule.DRAIN_OFF,
        Severity.WARNING if sleeps else Severity.UNSAFE,
        f"spec.drain.{field}",
        "Off: a pod may end before proxies stop sending it connections, so a pod that ends at once refuses the "
        "connections that still come",
        f"remove spec.drain.{field}, or let the app answer for some seconds after SIGTERM",
    )


def _own_pre_stop(
    container: _Container, pre_stop: Mapping[str, Any], *, sleep_s: int | None, need_s: int, why: str
) -> Iterator[Finding]:
    path = f"{container.path}.lifecycle.preStop"
    words = _words(_mapping(pre_stop.get("exec")).get("command"))
    if words:
        bare = any(part in str(container.fields.get("image", "")) for part in _BARE_IMAGES)
        image = "this image looks like one without" if bare else "an image without a shell (distroless, scratch) has no"
        yield Finding(
            Rule.PRE_STOP_BINARY,
            Severity.WARNING if bare else Severity.NOTE,
            f"{path}.exec.command",
            f"it may fail: {image} {words[0]}, and a preStop that fails does not wait at all",
            "use lifecycle.preStop.sleep, which needs nothing in the image (Kubernetes 1.30; stable in 1.34)",
        )
    if not need_s:
        return
    if sleep_s is None:
        yield Finding(
            Rule.PRE_STOP_UNKNOWN,
            Severity.NOTE,
            path,
            f"how long it takes is unknown; {need_s} s are needed: {why}",
            "use lifecycle.preStop.sleep, whose length can be checked",
        )
    elif sleep_s < need_s:
        yield Finding(
            Rule.PRE_STOP_SHORT,
            Severity.UNSAFE,
            path,
            f"it sleeps {sleep_s} s, and {need_s} s are needed: {why}",
            f"make it {need_s} or more, or remove it and set spec.drain.preStop to Inject",
        )


def _signals(container: _Container) -> Iterator[Finding]:
    command = _words(container.fields.get("command"))
    if not command:
        return  # the image's own command, which the manifest does not show
    reach = sigterm((*command, *_words(container.fields.get("args"))))
    if reach is Reach.REACHES:
        return
    how = (
        "a shell stays in front of the app as process 1"
        if reach is Reach.SWALLOWED
        else "many shells stay in front of it"
    )
    yield Finding(
        Rule.SHELL_SWALLOWS_SIGNALS,
        Severity.UNSAFE if reach is Reach.SWALLOWED else Severity.WARNING,
        f"{container.path}.command",
        f"the app may never get SIGTERM: {how}, and a shell does not pass it on; the app is then killed at the end of the grace "
        "period with requests in flight",
        "write exec before the app's command, or run it under an init (tini, dumb-init), or without a shell",
    )


def _probes_elsewhere(serving: tuple[_Container, ...]) -> Iterator[Finding]:
    for each in serving:
        for probe in _PROBES:
            for kind in ("httpGet", "tcpSocket", "grpc"):
                yield from _probe_elsewhere(each, f"{probe}.{kind}", _mapping(each.part(probe).get(kind)), serving)


def _probe_elsewhere(
    container: _Container, path: str, asked: Mapping[str, Any], serving: tuple[_Container, ...]
) -> Iterator[Finding]:
    port, field = asked.get("port"), "name" if isinstance(asked.get("port"), str) else "containerPort"
    if port is None or asked.get("host") or any(each.get(field) == port for each in container.ports):
        return
    other = next((each for each in serving if any(one.get(field) == port for one in each.ports)), None)
    if other is None:
        return
    by_name = field == "name"
    what = (
        f"the port {port!r} belongs to container {other.name}, and a name is looked up in the probe's own container only, so the "
        "probe never succeeds"
        if by_name
        else f"port {port} belongs to container {other.name}, so the probe checks {other.name} and not {container.name}; when "
        f"{other.name} ends first, the pod gets no more requests although {container.name} still works"
    )
    yield Finding(
        Rule.PROBE_THROUGH_SIDECAR,
        Severity.UNSAFE if by_name else Severity.WARNING,
        f"{container.path}.{path}.port",
        what,
        f"probe {container.name} on a port of its own, and make {other.name} a native sidecar (an init container with "
        "restartPolicy: Always), which ends last",
    )


def _host_ports(pod: Mapping[str, Any], serving: tuple[_Container, ...], *, surges: bool) -> Iterator[Finding]:
    host = pod.get("hostNetwork") is True
    path = f"{_POD}.hostNetwork" if host else ""
    for each in serving:
        for index, port in enumerate(each.ports):
            if port.get("hostPort") and not path:
                path = f"{each.path}.ports[{index}].hostPort"
    if not path or not surges or (host and not any(each.ports for each in serving)):
        return
    yield Finding(
        Rule.HOST_PORT_AND_SURGE,
        Severity.WARNING,
        path,
        "two pods of this Rollout cannot share a node, so the new revision's pods stay Pending where every node has an old one; "
        "clients of the node's port bypass Services, so no switch and no drain reaches them",
        "use maxSurge: 0 with maxUnavailable: 1, keep a free node for each surge pod, or serve through a Service",
    )


def _kept_connections() -> Finding:
    return Finding(
        Rule.KEPT_CONNECTIONS,
        Severity.NOTE,
        _POD,
        "connections that clients keep open stay with their pod: no proxy of a Service can move them. So each loses at most the "
        "request in flight when its pod ends, and a canary's share holds only for new connections",
        "close connections on SIGTERM (Connection: close, GOAWAY), limit their age (maxConnectionAge), or use a gateway",
    )


def _sleep_s(pre_stop: Mapping[str, Any]) -> int | None:
    seconds = _mapping(pre_stop.get("sleep")).get("seconds")
    if type(seconds) is int:
        return seconds
    return sleep_s_of(_words(_mapping(pre_stop.get("exec")).get("command")))


def _gives_up_s(probe: Mapping[str, Any]) -> int:
    delay_s = _number(probe, "initialDelaySeconds", _DELAY_S)
    return delay_s + _number(probe, "failureThreshold", _FAILURES) * _number(probe, "periodSeconds", _PERIOD_S)


def _number(fields: Mapping[str, Any], name: str, default: int) -> int:
    value = fields.get(name)
    return value if type(value) is int and value > 0 else default


def _containers(pod: Mapping[str, Any], field: str) -> tuple[_Container, ...]:
    listed = pod.get(field)
    if not isinstance(listed, list):
        return ()
    return tuple(
        _Container(each, f"{_POD}.{field}[{index}]") for index, each in enumerate(listed) if isinstance(each, Mapping)
    )


def _words(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: object) -> tuple[Mapping[str, Any], ...]:
    return tuple(each for each in value if isinstance(each, Mapping)) if isinstance(value, list) else ()
