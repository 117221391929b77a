"""The graceful-exit checklist: what in a pod template lets requests be lost when pods come and go. Pure.

It reads the template as its author wrote it; the API server refuses what Kubernetes does not accept.
Sources: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/, KEP-3960 (`preStop.sleep`), KEP-753 (native
sidecars).

A shell that is process 1 and runs the app as its child does not pass SIGTERM on, and the kernel gives process 1 no default
action for it: the app gets no signal until the grace period is over and it is killed. Measured with `-c 'true; sleep 9'`: dash
0.5.12 (Debian's `sh`) stays in front of the last command, bash 5.2 gives way to it unless there is a pipe or a redirection.
"""

from __future__ import annotations

import itertools
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct

from rollouts.core.advice.findings import Finding, Rule, Severity
from rollouts.core.drain.pre_stop import injection
from rollouts.core.model.drain import DrainMode, DrainNumbers, DrainSpec, PreStop
from rollouts.core.model.limits import resolved_surge
from rollouts.core.model.pod_exit import read_pod_exit
from rollouts.core.model.rollout import Canary, RolloutSpec
from rollouts.objects import Manifest, mapping

_PERIOD_S, _FAILURES, _DELAY_S = 10, 3, 0  # Kubernetes' defaults of a probe
_BARE_IMAGES = ("distroless", "chainguard", "scratch", "chiselled", "static")
_PROBES = ("readinessProbe", "livenessProbe", "startupProbe")
_POD = "spec.template.spec"
_SHELLS = frozenset({"sh", "ash", "bash", "dash", "ksh", "mksh", "zsh"})
_FLAGS = re.compile(r"-[a-z]{1,32}")
_SEPARATORS = frozenset({";", "&&", "||", "|", "&", "|&"})
_BLOCK_ENDS = frozenset({"fi", "done", "esac"})
_REDIRECTION = re.compile(r"\d*[<>].*")
_SLEEP = re.compile(r"[0-9]{1,9}s?")
_GOES_ON = re.compile(r"\b(?:wait|done|fi|esac)\Z")
SCRIPT_MAX = 4_096
"""Characters of a script that is judged; splitting it into words takes two microseconds for each."""


class Reach(StrEnum):
    """Whether a SIGTERM reaches the app."""

    REACHES = "reaches"  # or the command line gives no reason for doubt
    DEPENDS = "depends"  # some shells give way to their last command, others stay
    SWALLOWED = "swallowed"  # every shell stays in front of the app


class _Container(Struct, frozen=True):
    fields: Mapping[str, Any]
    path: str

    @property
    def name(self) -> str:
        return str(self.fields.get("name", ""))

    def part(self, name: str) -> Mapping[str, Any]:
        return mapping(self.fields.get(name))

    @property
    def ports(self) -> tuple[Mapping[str, Any], ...]:
        listed = self.fields.get("ports")
        return tuple(port for port in listed if isinstance(port, Mapping)) if isinstance(listed, list) else ()


def exit_findings(
    template: Manifest,
    *,
    drain: DrainSpec,
    numbers: DrainNumbers,
    surges: bool,
    routed: bool = False,
    startup_s: float | None = None,
    may_inject: bool = True,
) -> tuple[Finding, ...]:
    """The findings about a template before an update. Raises: nothing.

    Args:
        may_inject: `spec.drain.preStop: Inject` is allowed; it is not where the template is another object's.
        numbers: the waits that follow from `drain` in this cluster.
        routed: a gateway or a mesh sends each request by itself, whatever connections its clients keep.
        startup_s: seconds that the fastest pod of the earlier revision took to be ready; None when that is unknown.
    """
    pod = mapping(template.get("spec"))
    ordinary, init = _containers(pod, "containers"), _containers(pod, "initContainers")
    serving = (*ordinary, *(container for container in init if container.fields.get("restartPolicy") == "Always"))
    if not ordinary:
        return ()
    kept_connections = Finding(
        Rule.KEPT_CONNECTIONS,
        Severity.NOTE,
        _POD,
        "connections that clients keep open stay with their pod: no proxy of a Service can move them. So each loses at most the "
        "request in flight when its pod ends, and a canary's share holds only for new connections",
        "close connections on SIGTERM (Connection: close, GOAWAY), limit their age (maxConnectionAge), or use a gateway",
    )
    return (
        *_readiness(serving),
        *(finding for container in serving for finding in _liveness(container, startup_s=startup_s)),
        *_ending(template, ordinary, drain=drain, numbers=numbers, may_inject=may_inject),
        *(finding for container in serving for finding in _signals(container)),
        *_probes_elsewhere(serving),
        *_host_ports(pod, serving, surges=surges),
        *(() if routed else (kept_connections,)),
    )


def is_routed(spec: RolloutSpec) -> bool:
    """Whether a router shares out the requests of clients, and not a Service their connections."""
    return isinstance(spec.strategy, Canary) and not spec.strategy.by_ratio


def surges(spec: RolloutSpec) -> bool:
    """Whether pods of a new revision start before old ones end."""
    if not spec.strategy.by_ratio:
        return True
    return resolved_surge(spec.strategy.max_surge, replicas=spec.replicas) > 0


def _readiness(serving: tuple[_Container, ...]) -> Iterator[Finding]:
    without = [container for container in serving if not container.part("readinessProbe")]
    nobody = len(without) == len(serving)
    for container in without:
        if not container.ports and not (nobody and container is serving[0]):
            continue  # it seems to take no connections
        others = "" if nobody else " and the other containers are ready"
        yield Finding(
            Rule.NO_READINESS_PROBE,
            Severity.UNSAFE if nobody else Severity.WARNING,
            f"{container.path}.readinessProbe",
            f"without it the pod counts as ready, and gets requests, as soon as {container.name} has started{others}",
            "add a readinessProbe that succeeds when the app answers requests",
        )


def _liveness(container: _Container, *, startup_s: float | None) -> Iterator[Finding]:
    """Findings about the livenessProbe; none with a startupProbe, because the other probes wait until that has succeeded."""
    live, ready = container.part("livenessProbe"), container.part("readinessProbe")
    if not live or container.part("startupProbe"):
        return
    dies_s, first_s = _gives_up_s(live), _number(ready, "initialDelaySeconds", _DELAY_S)
    severity, against = Severity.NOTE, "an app that takes longer to start is killed each time, and never gets ready"
    if startup_s is not None and dies_s <= startup_s:
        severity = Severity.UNSAFE
        against = f"even the fastest of the pods that run now took {startup_s:g} s to be ready"
    elif ready and dies_s <= first_s:
        severity, against = Severity.UNSAFE, f"the readinessProbe asks for the first time after {first_s} s"
    elif ready and dies_s < _gives_up_s(ready):
        severity, against = Severity.WARNING, f"the readinessProbe gives the app {_gives_up_s(ready)} s"
    elif startup_s is not None:
        if 2 * startup_s <= dies_s:
            return
        severity = Severity.WARNING
        against = f"the pods that run now took {startup_s:g} s, and a busy node may double that"
    yield Finding(
        Rule.LIVENESS_BEFORE_READINESS,
        severity,
        f"{container.path}.livenessProbe",
        f"it kills the container {dies_s} s after its start if the app does not answer by then; {against}",
        "add a startupProbe with a failureThreshold for the slowest start: the livenessProbe then begins after it",
    )


def _ending(
    template: Manifest,
    ordinary: tuple[_Container, ...],
    *,
    drain: DrainSpec,
    numbers: DrainNumbers,
    may_inject: bool,
) -> Iterator[Finding]:
    """Findings about the sleep before SIGTERM and the time until SIGKILL, with the injected preStop counted."""
    ends = read_pod_exit(template)
    if drain.mode is DrainMode.OFF or drain.pre_stop is PreStop.OFF:
        yield from _off(drain, sleeps=all(container.has_pre_stop for container in ends.containers))
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
    for container in ordinary:
        if put_in is not None and container.name in put_in.containers:
            sleep_s: int | None = put_in.pre_stop_s
        else:
            pre_stop = mapping(container.part("lifecycle").get("preStop"))
            sleep_s = mapping(pre_stop.get("sleep")).get("seconds")
            if type(sleep_s) is not int:
                sleep_s = sleep_s_of(_words(mapping(pre_stop.get("exec")).get("command")))
            yield from _pre_stop(container, pre_stop, sleep_s, numbers, may_inject=may_inject)
        longest_s = max(longest_s, sleep_s or 0)
    grace_s = put_in.grace_s if put_in is not None else ends.grace_s
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


def _pre_stop(
    container: _Container,
    pre_stop: Mapping[str, Any],
    sleep_s: int | None,
    numbers: DrainNumbers,
    *,
    may_inject: bool,
) -> Iterator[Finding]:
    """Findings about a container that gets no injected preStop: it has the user's, or none."""
    path, need_s, why = f"{container.path}.lifecycle.preStop", numbers.pre_stop_s, numbers.pre_stop_why
    injects, removes = ", or set spec.drain.preStop to Inject", ", or remove it and set spec.drain.preStop to Inject"
    if not pre_stop:
        if need_s:
            yield Finding(
                Rule.PRE_STOP_MISSING,
                Severity.UNSAFE,
                path,
                f"the app gets SIGTERM while proxies still send it connections; {need_s} s are needed: {why}",
                f"add lifecycle.preStop.sleep.seconds: {need_s}{injects if may_inject else ''}",
            )
        return
    if words := _words(mapping(pre_stop.get("exec")).get("command")):
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
            f"make it {need_s} or more{removes if may_inject else ''}",
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


def _signals(container: _Container) -> Iterator[Finding]:
    command = _words(container.fields.get("command"))
    if not command:
        return  # the image's own command, which the manifest does not show
    reach = sigterm((*command, *_words(container.fields.get("args"))))
    if reach is Reach.REACHES:
        return
    severity, how = Severity.WARNING, "many shells stay in front of it"
    if reach is Reach.SWALLOWED:
        severity, how = Severity.UNSAFE, "a shell stays in front of the app as process 1"
    yield Finding(
        Rule.SHELL_SWALLOWS_SIGNALS,
        severity,
        f"{container.path}.command",
        f"the app may never get SIGTERM: {how}, and a shell does not pass it on; the app is then killed at the end of the grace "
        "period with requests in flight",
        "write exec before the app's command, or run it under an init (tini, dumb-init), or without a shell",
    )


def _probes_elsewhere(serving: tuple[_Container, ...]) -> Iterator[Finding]:
    for container, probe, kind in itertools.product(serving, _PROBES, ("httpGet", "tcpSocket", "grpc")):
        asked = mapping(container.part(probe).get(kind))
        port = asked.get("port")
        field = "name" if isinstance(port, str) else "containerPort"
        owners = [owner for owner in serving for listed in owner.ports if listed.get(field) == port]
        if port is None or asked.get("host") or not owners or container in owners:
            continue
        other = owners[0]
        severity = Severity.WARNING
        what = (
            f"port {port} belongs to container {other.name}, so the probe checks {other.name} and not {container.name}; when "
            f"{other.name} ends first, the pod gets no more requests although {container.name} still works"
        )
        if field == "name":
            severity = Severity.UNSAFE
            what = (
                f"the port {port!r} belongs to container {other.name}, and a name is looked up in the probe's own container "
                "only, so the probe never succeeds"
            )
        yield Finding(
            Rule.PROBE_THROUGH_SIDECAR,
            severity,
            f"{container.path}.{probe}.{kind}.port",
            what,
            f"probe {container.name} on a port of its own, and make {other.name} a native sidecar (an init container with "
            "restartPolicy: Always), which ends last",
        )


def _host_ports(pod: Mapping[str, Any], serving: tuple[_Container, ...], *, surges: bool) -> Iterator[Finding]:
    host = pod.get("hostNetwork") is True
    path = f"{_POD}.hostNetwork" if host else ""
    for container in serving:
        for index, port in enumerate(container.ports):
            if port.get("hostPort") and not path:
                path = f"{container.path}.ports[{index}].hostPort"
    if not path or not surges or (host and not any(container.ports for container in serving)):
        return
    yield Finding(
        Rule.HOST_PORT_AND_SURGE,
        Severity.WARNING,
        path,
        "two pods of this Rollout cannot share a node, so the new revision's pods stay Pending where every node has an old one; "
        "clients of the node's port bypass Services, so no switch and no drain reaches them",
        "use maxSurge: 0 with maxUnavailable: 1, keep a free node for each surge pod, or serve through a Service",
    )


# --- whether SIGTERM reaches the app, judged by the shells and inits in the command line


def sigterm(words: Sequence[str]) -> Reach:
    """Whether SIGTERM reaches the app of a container with this `command` and `args`.

    Args:
        words: `command` followed by `args`; without a `command` the image decides, and the manifest does not show that.
    """
    if len(words) < 3 or _name(words[0]) not in _SHELLS:  # an init as process 1 passes signals on
        return Reach.REACHES
    flag = next((at for at, word in enumerate(words[1:], 1) if _is_script_flag(word)), None)
    if flag is None or flag + 1 >= len(words) or not all(word.startswith("-") for word in words[1:flag]):
        return Reach.REACHES
    script = words[flag + 1]
    commands = _commands(script) if len(script) <= SCRIPT_MAX else None
    if commands is None or not commands or "trap" in script:  # cannot be read, or it catches signals itself
        return Reach.REACHES
    before, last = commands[-1]
    if last[0] == "exec" or (last[0] in _BLOCK_ENDS and any("exec" in command[:2] for _, command in commands)):
        return Reach.REACHES
    script = script.rstrip()  # the shell goes on if it waits for a background command after its last command has begun
    goes_on = script.endswith("&") or _GOES_ON.search(script.removesuffix(";").rstrip()) is not None
    if goes_on or before in ("|", "&", "|&") or any(_REDIRECTION.fullmatch(word) for word in last):
        return Reach.SWALLOWED
    return Reach.DEPENDS


def sleep_s_of(words: Sequence[str]) -> int | None:
    """Seconds of `sleep 15`, also inside `sh -c`; None for any other or longer command."""
    if len(words) == 3 and _name(words[0]) in _SHELLS and _is_script_flag(words[1]):
        words = words[2].split()
    if words and words[0] == "exec":
        words = words[1:]
    if len(words) != 2 or _name(words[0]) != "sleep" or not _SLEEP.fullmatch(words[1]):
        return None
    return int(words[1].removesuffix("s"))


def _is_script_flag(word: str) -> bool:
    """Whether the word after it is a script: `-c`, `-ec`."""
    return _FLAGS.fullmatch(word) is not None and "c" in word


def _commands(script: str) -> list[tuple[str, list[str]]] | None:
    """Each simple command with the separator before it; None when the quotes do not match."""
    lines = (line for line in script.splitlines() if not line.lstrip().startswith("#"))
    lexer = shlex.shlex(" ; ".join(lines), posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    lexer.commenters = ""
    commands: list[tuple[str, list[str]]] = []
    separator, words = "", list[str]()
    try:
        for token in lexer:
            if token in _SEPARATORS or set(token) <= set(";&|"):
                if words:
                    commands.append((separator, words))
                separator, words = token, []
            else:
                words.append(token)
    except ValueError:
        return None
    return [*commands, (separator, words)] if words else commands


def _name(word: str) -> str:
    return PurePosixPath(word).name


# --- readers of a template


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
        _Container(fields, f"{_POD}.{field}[{index}]")
        for index, fields in enumerate(listed)
        if isinstance(fields, Mapping)
    )


def _words(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()
