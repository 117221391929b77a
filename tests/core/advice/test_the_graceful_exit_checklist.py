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
    """The findings of a pod of these containers by rule, without the note that every pod gets."""
    template = {"spec": {"containers": list(containers), **pod}}
    numbers = drain_numbers(drain, IPTABLES)
    findings = exit_findings(template, drain=drain, numbers=numbers, surges=surges, startup_s=startup_s)
    assert findings[-1].rule is Rule.KEPT_CONNECTIONS
    assert findings[-1].severity is Severity.NOTE
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


def test_a_good_pod_has_one_note_only() -> None:
    """The note about kept connections is for everybody: no template can show that the app closes them."""
    assert found(app()) == {}


def test_a_pod_without_a_readiness_probe_is_unsafe() -> None:
    """It gets requests when its process has started, which is before it listens."""
    finding = found(without(app(), "readinessProbe"))[Rule.NO_READINESS_PROBE]

    assert finding.severity is Severity.UNSAFE
    assert finding.path == "spec.template.spec.containers[0].readinessProbe"


def test_a_serving_container_whose_sidecar_alone_is_asked_is_a_warning() -> None:
    """The pod is not ready too early because of the sidecar, but nobody asks the app."""
    sidecar = {"name": "proxy", "image": "envoy", "readinessProbe": READY}

    finding = found(sidecar, without(app(), "readinessProbe"))[Rule.NO_READINESS_PROBE]

    assert (finding.severity, finding.path) == (Severity.WARNING, "spec.template.spec.containers[1].readinessProbe")
    assert Rule.NO_READINESS_PROBE not in found(app(), {"name": "logs", "image": "logs"}), "it takes no connections"


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


def test_a_startup_probe_holds_the_liveness_probe_back() -> None:
    """Kubernetes does not ask the others before it has succeeded."""
    probes = {"livenessProbe": {**READY, "periodSeconds": 1}, "startupProbe": {**READY, "failureThreshold": 60}}

    assert found(app(**probes)) == {}


def test_an_injected_sleep_needs_nothing_of_the_template() -> None:
    """The grace period is raised with it, so a short one is no finding."""
    assert found(app(), terminationGracePeriodSeconds=5) == {}


def test_without_injection_a_missing_sleep_is_unsafe() -> None:
    """With `Validate` the template stays as it is."""
    finding = found(app(), drain=VALIDATE)[Rule.PRE_STOP_MISSING]

    assert finding.severity is Severity.UNSAFE
    assert "preStop.sleep.seconds: 6" in finding.fix


@pytest.mark.parametrize(
    ("pre_stop", "rules"),
    [
        ({"sleep": {"seconds": 6}}, set()),
        ({"sleep": {"seconds": 5}}, {Rule.PRE_STOP_SHORT}),
        ({"exec": {"command": ["sleep", "6"]}}, {Rule.PRE_STOP_BINARY}),
        ({"exec": {"command": ["sh", "-c", "sleep 2"]}}, {Rule.PRE_STOP_BINARY, Rule.PRE_STOP_SHORT}),
        ({"exec": {"command": ["/drain"]}}, {Rule.PRE_STOP_BINARY, Rule.PRE_STOP_UNKNOWN}),
        ({"httpGet": {"path": "/drain", "port": 80}}, {Rule.PRE_STOP_UNKNOWN}),
    ],
)
def test_a_sleep_of_the_users_own_is_measured_against_the_proxies(pre_stop: dict[str, Any], rules: set[Rule]) -> None:
    """kube-proxy in iptables mode needs 6 s: twice a sync of a second and two to be safe."""
    assert set(found(app(lifecycle={"preStop": pre_stop}), terminationGracePeriodSeconds=60)) == rules


def test_a_binary_that_the_image_may_lack_is_said_with_may() -> None:
    """A name like `distroless` makes it likely, and nothing in a manifest makes it certain."""
    pre_stop = {"preStop": {"exec": {"command": ["sleep", "9"]}}}
    likely = found(app(image="gcr.io/distroless/static:nonroot", lifecycle=pre_stop))[Rule.PRE_STOP_BINARY]
    possible = found(app(lifecycle=pre_stop))[Rule.PRE_STOP_BINARY]

    assert (likely.severity, possible.severity) == (Severity.WARNING, Severity.NOTE)
    assert "may" in likely.what and "may" in possible.what


@pytest.mark.parametrize(("grace_s", "unsafe"), [(15, True), (16, False), (None, False)])
def test_the_grace_period_holds_the_sleep_and_the_longest_request(grace_s: int | None, unsafe: bool) -> None:
    """6 s of sleep and 10 s of request: at 15 s the last request is cut, and the default of 30 s is enough."""
    pod: dict[str, Any] = {} if grace_s is None else {"terminationGracePeriodSeconds": grace_s}

    findings = found(app(lifecycle={"preStop": {"sleep": {"seconds": 6}}}), drain=VALIDATE, **pod)

    assert (Rule.GRACE_SHORT in findings) is unsafe


@pytest.mark.parametrize(
    ("drain", "path"),
    [
        (DrainSpec(mode=DrainMode.OFF), "spec.drain.mode"),
        (DrainSpec(pre_stop=PreStop.OFF), "spec.drain.preStop"),
    ],
)
def test_no_drain_is_unsafe(drain: DrainSpec, path: str) -> None:
    """Somebody wrote it down, so it is said once, and not again as a missing sleep."""
    findings = found(app(), drain=drain)

    assert {each.path for each in findings.values()} == {path}
    assert findings[Rule.DRAIN_OFF].severity is Severity.UNSAFE


@pytest.mark.parametrize(
    ("drain", "severities"),
    [(DrainSpec(pre_stop=PreStop.OFF), []), (DrainSpec(mode=DrainMode.OFF), [Severity.WARNING])],
)
def test_pods_that_sleep_by_themselves_need_no_sleep_put_in(drain: DrainSpec, severities: list[Severity]) -> None:
    """`preStop: Off` is then right, and `mode: Off` leaves out the waits of a switch only."""
    pod: dict[str, Any] = {"terminationGracePeriodSeconds": 60}

    findings = found(app(lifecycle={"preStop": {"sleep": {"seconds": 9}}}), drain=drain, **pod)

    assert [each.severity for each in findings.values()] == severities


def test_a_timeout_below_what_the_wait_needs_is_a_warning() -> None:
    """3 s of proxy lag and 30 s of request cannot be waited for in 20 s."""
    assert found(app(), drain=DrainSpec(timeout_s=20.0))[Rule.DRAIN_TIMEOUT_SHORT].severity is Severity.WARNING


@pytest.mark.parametrize(
    ("fields", "severity"),
    [
        ({"command": ["sh", "-c", "app | tee /log"]}, Severity.UNSAFE),
        ({"command": ["sh", "-c"], "args": ["app"]}, Severity.WARNING),
        ({"command": ["sh", "-c", "exec app"]}, None),
        ({"command": ["dumb-init", "sh", "-c", "app"]}, None),
        ({"args": ["sh", "-c", "app"]}, None),  # arguments of a command that is in the image
    ],
)
def test_a_shell_that_swallows_sigterm_is_found(fields: dict[str, Any], severity: Severity | None) -> None:
    """The app then works until it is killed, and cuts the requests that it has."""
    finding = found(app(**fields)).get(Rule.SHELL_SWALLOWS_SIGNALS)

    assert (finding.severity if finding else None) is severity


@pytest.mark.parametrize(
    ("port", "severity"),
    [(80, None), ("http", None), (9000, None), (15021, Severity.WARNING), ("status", Severity.UNSAFE)],
)
def test_a_probe_that_asks_a_sidecar_is_found(port: int | str, severity: Severity | None) -> None:
    """By number it says how the sidecar is; by name it never succeeds, as names are the container's own. 9000 is nobody's."""
    sidecar = {
        "name": "proxy",
        "image": "envoy",
        "ports": [{"name": "status", "containerPort": 15021}],
        "readinessProbe": {"tcpSocket": {"port": 15021}},
    }
    finding = found(app(readinessProbe={"httpGet": {"port": port}}), sidecar).get(Rule.PROBE_THROUGH_SIDECAR)

    assert (finding.severity if finding else None) is severity


def test_native_sidecars_are_looked_at_too() -> None:
    """An init container that is always restarted serves as long as the others; any other has ended by then."""
    sidecar = {"name": "proxy", "image": "envoy", "restartPolicy": "Always", "ports": [{"containerPort": 15001}]}

    finding = found(app(), initContainers=[{"name": "migrate", "image": "m"}, sidecar])[Rule.NO_READINESS_PROBE]

    assert finding.path == "spec.template.spec.initContainers[1].readinessProbe"


@pytest.mark.parametrize(("surges", "expected"), [(True, True), (False, False)])
def test_host_ports_and_a_surge_do_not_go_together(surges: bool, expected: bool) -> None:
    """The port of a node is taken by the old pod until it has gone."""
    by_port = app(ports=[{"containerPort": 80, "hostPort": 80}])

    assert (Rule.HOST_PORT_AND_SURGE in found(by_port, surges=surges)) is expected
    assert (Rule.HOST_PORT_AND_SURGE in found(app(), surges=surges, hostNetwork=True)) is expected


@pytest.mark.parametrize("broken", [None, 3, {"containers": "x"}, {"containers": [3]}, {"containers": [{"ports": 3}]}])
def test_a_broken_template_raises_nothing(broken: object) -> None:
    """The API server refuses it; the checklist must not hide that behind a traceback."""
    numbers = drain_numbers(DrainSpec(), IPTABLES)

    findings = exit_findings({"spec": broken}, drain=DrainSpec(), numbers=numbers, surges=True)

    assert all(isinstance(each, Finding) for each in findings)
