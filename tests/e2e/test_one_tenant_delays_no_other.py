"""What a tenant writes into analyses costs nobody else a thing: no Lease, no health, no Rollout of another namespace."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.e2e.controllers import confined_controller
from tests.e2e.manifests import Manifest, analysis_run, canary
from tests.e2e.stage import Stage
from tests.lab.control_plane import ControlPlane
from tests.lab.loopback import answering, meanwhile
from tests.lab.processes import free_ports

pytestmark = pytest.mark.controlplane

RUNS = 20
HEALTHY_WITHIN_S = 1.0  # of a probe in the chart
LETTERS = "".join(random.Random(1).choices("ab", k=65_000))  # noqa: S311 - RE2's short cuts fail on it
ANSWERS = {
    "/attack": {"n": list(range(300)), "s": LETTERS[:2_000]},
    "/numbers": {"n": list(range(300)), "s": LETTERS[:60]},
    "/text": {"n": [1], "s": LETTERS},
}
CONDITIONS = (
    ("/attack", 'result.n.all(x, result.s.matches("[ab]*a[ab]{900}c") == false)'),  # it ended controllers
    ("/attack", 'all(result.n, {result.s matches "[ab]{9}c" || # >= 0})'),
    ("/numbers", 'all(result.n, {result.s matches "[ab]*a[ab]{9}c" || # >= 0})'),
    ("/numbers", "all(result.n, {any(result.n, {# < 0}) || # >= 0})"),
    ("/text", 'result.s matches "[ab]*a[ab]{12}c" || len(result.n) > 0'),
)
"""Near the limit of what a condition may cost for its answer, and beyond it."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of a server that is declared."""
    with answering(lambda path: (200, ANSWERS[path])) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def healthy(address: str) -> Iterator[None]:
    """Asks /healthz all the time, and fails when one answer is not 200 within a second."""
    wrong, codes = list[str](), list[int]()

    def ask(over: threading.Event) -> None:
        with httpx.Client(base_url=f"http://{address}", timeout=HEALTHY_WITHIN_S, trust_env=False) as client:
            while not over.wait(0.1):
                try:
                    codes.append(client.get("/healthz").status_code)
                except httpx.HTTPError as error:
                    wrong.append(type(error).__name__)

    with meanwhile(ask):
        yield
    assert (wrong, set(codes)) == ([], {200})


def run(name: str, url: str) -> Manifest:
    """An AnalysisRun that evaluates each of the conditions every second, whatever comes of it."""
    always = {"interval": "1s"} | dict.fromkeys(("consecutiveErrorLimit", "failureLimit", "inconclusiveLimit"), 1_000)
    metrics = [
        {"name": f"m{place}", **always, "successCondition": condition, "provider": {"web": {"url": f"{url}{path}"}}}
        for place, (path, condition) in enumerate(CONDITIONS)
    ]
    return analysis_run(name, metrics)


def ready_in_s(stage: Stage, *names: str) -> float:
    """Seconds from the creation of a Rollout until it is Ready; of several the least."""
    took_s = []
    for name in names:
        began_s = time.monotonic()
        stage.rolled_out(canary(name, replicas=1))
        took_s.append(time.monotonic() - began_s)
    return min(took_s)


def test_expressions_of_one_tenant_cost_another_nothing(
    control_plane: ControlPlane,
    controller_kubeconfig: Path,
    server: str,
    record_property: Callable[[str, object], None],
) -> None:
    """The first of them took the Lease from a controller within 19 s, and from each that came after it."""
    victim, attacker = control_plane.new_namespace(), control_plane.new_namespace()
    health = f"127.0.0.1:{free_ports(1)[0]}"
    flags = (f"--prometheus-url={server}", f"--health-address={health}")
    with confined_controller(control_plane, controller_kubeconfig, victim, attacker, flags=flags):
        mine, theirs = Stage(control_plane, victim), Stage(control_plane, attacker)
        ready_in_s(mine, "first")
        alone_s = ready_in_s(mine, "a1", "a2", "a3")
        with healthy(health):
            theirs.apply(*(run(f"run{at}", server) for at in range(RUNS)))
            theirs.until("analysisruns", "run0", lambda one: "metricResults" in one.get("status", {}))
            beside_s = ready_in_s(mine, "b1", "b2", "b3")
        record_property("alone_s", alone_s)
        record_property("beside_s", beside_s)
        assert beside_s <= 2 * alone_s + 1, f"{beside_s:.2f} s beside the runs, {alone_s:.2f} s without"
        control_plane.end_in(victim)
        control_plane.end_in(attacker)
