"""Each thing in a pod template that loses requests is found, with its place and the remedy, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.advice.findings import Finding, Rule, Severity
from rollouts.core.advice.graceful_exit import exit_findings
from rollouts.core.context.drain_numbers import drain_numbers
from rollouts.core.model.drain import DrainMode, DrainSpec, PreStop, ProxyFacts, ProxyMode

IPTABLES = ProxyFacts(mode=ProxyMode.IPTABLES)
READY = {"httpGet": {"path": "/ready", "port": 80}}
VALIDATE = DrainSpec(pre_stop=PreStop.VALIDATE, max_request_s=10.0)


def found(
    *containers: dict[str, Any],
    drain: DrainSpec = DrainSpec(),  # noqa: B008 - a frozen value
    surges: bool = True,
    startup_s: float | None = None,
    **pod: Any,
) -> dict[Rule, Finding]:
    """The findings of a pod of these containers by rule, without the note that every pod gets; each says what helps."""
    template = {"spec": {"containers": list(containers), **pod}}
    numbers = drain_numbers(drain, IPTABLES)
    findings = exit_findings(template, drain=drain, numbers=numbers, surges=surges, startup_s=startup_s)
    assert findings[-1].rule is Rule.KEPT_CONNECTIONS
    assert findings[-1].severity is Severity.NOTE
    assert all(each.path and each.what and each.fix for each in findings)
    return {each.rule: each for each in findings[:-1]}


def app(**fields: Any) -> dict[str, Any]:
    """A container with nothing to find in it."""
    given = {
        "name": "app",
        "image": "cart:1",
        "ports": [{"name": "http", "containerPort": 80}],
        "readinessProbe": READY,
    }
    return {**given, **fields}


def without(container: dict[str, Any], *fields: str) -> dict[str, Any]:
    """The container with some fields left out."""
    return {key: value for key, value in container.items() if key not in fields}


def _sleeping(**pre_stop: Any) -> dict[str, Any]:
    return app(lifecycle={"preStop": pre_stop})


def _asking(port: int | str) -> tuple[dict[str, Any], dict[str, Any]]:
    """An app whose probe asks that port, beside a sidecar."""
    ports = [{"name": "status", "containerPort": 15021}]
    sidecar = {"name": "proxy", "image": "envoy", "ports": ports, "readinessProbe": {"tcpSocket": {"port": 15021}}}
    return app(readinessProbe={"httpGet": {"port": port}}), sidecar


SLEEPS_6 = {"sleep": {"seconds": 6}}
HOST_PORT = app(ports=[{"containerPort": 80, "hostPort": 80}])
STARTS = {"livenessProbe": {**READY, "periodSeconds": 1}, "startupProbe": {**READY, "failureThreshold": 60}}
NOTE, WARNING, UNSAFE = Severity.NOTE, Severity.WARNING, Severity.UNSAFE
BINARY, SHORT, UNKNOWN = Rule.PRE_STOP_BINARY, Rule.PRE_STOP_SHORT, Rule.PRE_STOP_UNKNOWN
LONG = {"terminationGracePeriodSeconds": 60}
PODS: dict[str, tuple[tuple[dict[str, Any], ...], dict[str, Any], dict[Rule, Severity]]] = {
    "a good pod": ((app(),), {}, {}),
    "a startupProbe holds the livenessProbe back": ((app(**STARTS),), {}, {}),
    "an injected sleep raises a short grace period": ((app(),), {"terminationGracePeriodSeconds": 5}, {}),
    "a timeout that is less than lag and request": ((app(),), {"drain": DrainSpec(timeout_s=20.0)},
        {Rule.DRAIN_TIMEOUT_SHORT: WARNING}),
    "a sleep of 6 s, as iptables needs": ((_sleeping(**SLEEPS_6),), LONG, {}),
    "one of 5 s": ((_sleeping(sleep={"seconds": 5}),), LONG, {SHORT: UNSAFE}),
    "one by a program": ((_sleeping(exec={"command": ["sleep", "6"]}),), LONG, {BINARY: NOTE}),
    "one in a shell": ((_sleeping(exec={"command": ["sh", "-c", "sleep 2"]}),), LONG, {BINARY: NOTE, SHORT: UNSAFE}),
    "a program of its own": ((_sleeping(exec={"command": ["/drain"]}),), LONG, {BINARY: NOTE, UNKNOWN: NOTE}),
    "a request": ((_sleeping(httpGet={"path": "/drain", "port": 80}),), LONG, {UNKNOWN: NOTE}),
    "a sleep of its own, and none is put in": ((_sleeping(**SLEEPS_6),), {**LONG, "drain": DrainSpec(pre_stop=PreStop.OFF)}, {}),
    "the same, and no switch is waited for": ((_sleeping(**SLEEPS_6),), {**LONG, "drain": DrainSpec(mode=DrainMode.OFF)},
        {Rule.DRAIN_OFF: WARNING}),
    "15 s, and 6 s of sleep and 10 s of request": ((_sleeping(**SLEEPS_6),),
        {"drain": VALIDATE, "terminationGracePeriodSeconds": 15}, {Rule.GRACE_SHORT: UNSAFE}),
    "16 s": ((_sleeping(**SLEEPS_6),), {"drain": VALIDATE, "terminationGracePeriodSeconds": 16}, {}),
    "the default of 30 s": ((_sleeping(**SLEEPS_6),), {"drain": VALIDATE}, {}),
    "a shell that keeps SIGTERM": ((app(command=["sh", "-c", "app | tee /log"]),), {},
        {Rule.SHELL_SWALLOWS_SIGNALS: UNSAFE}),
    "a shell that may keep it": ((app(command=["sh", "-c"], args=["app"]),), {}, {Rule.SHELL_SWALLOWS_SIGNALS: WARNING}),
    "a shell that is replaced": ((app(command=["sh", "-c", "exec app"]),), {}, {}),
    "an init that passes it on": ((app(command=["dumb-init", "sh", "-c", "app"]),), {}, {}),
    "arguments of a command in the image": ((app(args=["sh", "-c", "app"]),), {}, {}),
    "a probe by number": (_asking(80), {}, {}),
    "a probe by name": (_asking("http"), {}, {}),
    "a probe of a port that is nobody's": (_asking(9000), {}, {}),
    "a probe that says how the sidecar is": (_asking(15021), {}, {Rule.PROBE_THROUGH_SIDECAR: WARNING}),
    "a name of another container's port never succeeds": (_asking("status"), {}, {Rule.PROBE_THROUGH_SIDECAR: UNSAFE}),
    "a host's port, and the old pod has it still": ((HOST_PORT,), {}, {Rule.HOST_PORT_AND_SURGE: WARNING}),
    "a host's port without a surge": ((HOST_PORT,), {"surges": False}, {}),
    "the host's network": ((app(),), {"hostNetwork": True}, {Rule.HOST_PORT_AND_SURGE: WARNING}),
    "the host's network without a surge": ((app(),), {"hostNetwork": True, "surges": False}, {}),
}  # fmt: skip


@pytest.mark.parametrize(("containers", "pod", "rules"), PODS.values(), ids=list(PODS))
def test_what_loses_requests_is_found_and_nothing_else(
    containers: tuple[dict[str, Any], ...], pod: dict[str, Any], rules: dict[Rule, Severity]
) -> None:
    """The note about kept connections is for everybody: no template can show that the app closes them."""
    assert {rule: each.severity for rule, each in found(*containers, **pod).items()} == rules


NO_PROBE = Rule.NO_READINESS_PROBE
PROXY = {"name": "proxy", "image": "envoy"}
NATIVE = {**PROXY, "restartPolicy": "Always", "ports": [{"containerPort": 15001}]}
PLACES: dict[str, tuple[tuple[dict[str, Any], ...], dict[str, Any], Severity, str]] = {
    "it gets requests when its process has started, which is before it listens":
        ((without(app(), "readinessProbe"),), {}, UNSAFE, "containers[0]"),
    "a sidecar alone is asked, and nobody asks the app":
        (({**PROXY, "readinessProbe": READY}, without(app(), "readinessProbe")), {}, WARNING, "containers[1]"),
    "an init container that is always restarted serves as long as the others; any other has ended":
        ((app(),), {"initContainers": [{"name": "migrate", "image": "m"}, NATIVE]}, WARNING, "initContainers[1]"),
}  # fmt: skip


@pytest.mark.parametrize(("containers", "pod", "severity", "place"), PLACES.values(), ids=list(PLACES))
def test_a_container_that_nobody_asks_is_told_with_its_place(
    containers: tuple[dict[str, Any], ...], pod: dict[str, Any], severity: Severity, place: str
) -> None:
    """And one that takes no connections is none."""
    finding = found(*containers, **pod)[NO_PROBE]

    assert (finding.severity, finding.path) == (severity, f"spec.template.spec.{place}.readinessProbe")
    assert NO_PROBE not in found(app(), {"name": "logs", "image": "logs"})


@pytest.mark.parametrize(
    ("live", "ready", "startup_s", "severity"),
    [
        ({}, {}, None, Severity.NOTE),  # 30 s, as the readinessProbe gives
        ({"periodSeconds": 5}, {}, None, Severity.WARNING),  # 15 s against 30 s
        ({}, {"initialDelaySeconds": 30}, None, Severity.UNSAFE),  # killed before it is asked for the first time
        ({"initialDelaySeconds": 60}, {"initialDelaySeconds": 30}, None, Severity.NOTE),
        ({}, {}, 31.0, Severity.UNSAFE),  # nothing that runs was that fast
        ({}, {}, 20.0, Severity.WARNING),
        ({}, {}, 3.0, None),
    ],
)
def test_a_liveness_probe_must_not_fire_before_the_first_readiness(
    live: dict[str, int], ready: dict[str, int], startup_s: float | None, severity: Severity | None
) -> None:
    """It then kills each pod while it starts, for ever: initialDelay + failureThreshold * period against the start."""
    finding = found(app(livenessProbe={**READY, **live}, readinessProbe={**READY, **ready}), startup_s=startup_s).get(
        Rule.LIVENESS_BEFORE_READINESS
    )

    assert (finding.severity if finding else None) is severity


def test_without_injection_a_missing_sleep_is_unsafe() -> None:
    """With `Validate` the template stays as it is."""
    finding = found(app(), drain=VALIDATE)[Rule.PRE_STOP_MISSING]

    assert finding.severity is Severity.UNSAFE
    assert "preStop.sleep.seconds: 6" in finding.fix


def test_a_binary_that_the_image_may_lack_is_said_with_may() -> None:
    """A name like `distroless` makes it likely, and nothing in a manifest makes it certain."""
    pre_stop = {"preStop": {"exec": {"command": ["sleep", "9"]}}}
    likely = found(app(image="gcr.io/distroless/static:nonroot", lifecycle=pre_stop))[Rule.PRE_STOP_BINARY]
    possible = found(app(lifecycle=pre_stop))[Rule.PRE_STOP_BINARY]

    assert (likely.severity, possible.severity) == (Severity.WARNING, Severity.NOTE)
    assert "may" in likely.what and "may" in possible.what
    assert likely.path == "spec.template.spec.containers[0].lifecycle.preStop.exec.command"


@pytest.mark.parametrize(
    ("drain", "path"),
    [(DrainSpec(mode=DrainMode.OFF), "spec.drain.mode"), (DrainSpec(pre_stop=PreStop.OFF), "spec.drain.preStop")],
)
def test_no_drain_is_unsafe(drain: DrainSpec, path: str) -> None:
    """Somebody wrote it down, so it is said once, and not again as a missing sleep."""
    findings = found(app(), drain=drain)

    assert {each.path for each in findings.values()} == {path}
    assert findings[Rule.DRAIN_OFF].severity is Severity.UNSAFE


@pytest.mark.parametrize("broken", [None, 3, {"containers": "x"}, {"containers": [3]}, {"containers": [{"ports": 3}]}])
def test_a_broken_template_raises_nothing(broken: object) -> None:
    """The API server refuses it; the checklist must not hide that behind a traceback."""
    numbers = drain_numbers(DrainSpec(), IPTABLES)

    findings = exit_findings({"spec": broken}, drain=DrainSpec(), numbers=numbers, surges=True)

    assert all(isinstance(each, Finding) for each in findings)
