"""Promise: whatever people do to a workload in an update in place, and whenever its controller is killed, pods are there.

So many as the workload's own `maxUnavailable` promises, judged by pods. `ROLLOUTS_ORDERS=600` plays so many orders, of which
Deployments, StatefulSets and DaemonSets get a third each. The name of a test has its first seed: `-k 24` plays these again.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rollouts.manifests.ownership import HELD
from rollouts.objects import ROLLOUT
from tests.e2e.controllers import confined_controller
from tests.e2e.interceptor import Interceptor
from tests.e2e.ordered_workloads import KINDS, ordered
from tests.e2e.orders import Judge, Order
from tests.e2e.stage import Stage
from tests.lab.chart import another_account, hold_workloads
from tests.lab.control_plane import ControlPlane, is_true

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

ORDERS = int(os.environ.get("ROLLOUTS_ORDERS", "8"))
TOGETHER = 8
"""Orders beside each other, with one controller."""
KILLED = 2
"""Controllers, one after the other; the next one goes on."""
GRANTED = "workloads={deployments,statefulsets,daemonsets},revertTemplates=true"
LIVES_AT_MOST_S = 20.0
RESTS_WITHIN_S = 300


@pytest.fixture(scope="module")
def account(control_plane: ControlPlane, controller_kubeconfig: Path) -> Path:
    """An account with the rights to workloads of each kind."""
    assert controller_kubeconfig.exists()
    return another_account(control_plane, "any-order", "--set", GRANTED)


@pytest.fixture
def stage(control_plane: ControlPlane, namespace: str) -> Stage:
    """A namespace with the chart's policies, once they are effective."""
    hold_workloads(control_plane, namespace, *(each.kind for each in KINDS))
    return Stage(control_plane, namespace)


@pytest.mark.parametrize("seed", range(0, ORDERS, TOGETHER))
def test_no_order_takes_a_pod_that_is_promised(stage: Stage, account: Path, seed: int) -> None:
    """One more template in the end is promoted; without its Rollout the workload has its user's fields."""
    orders = {order.name: order for order in map(ordered, range(seed, seed + TOGETHER))}
    rng, moment = random.Random(f"kills {seed}"), threading.Event()  # noqa: S311 - a test's seed
    stage.apply(*(order.workload() for order in orders.values()))
    for order in orders.values():
        order.begun = stage.get(order.kind.plural, order.name)["spec"]
    stage.apply(*(order.rollout() for order in orders.values()))
    places = {name: order.places(KILLED) for name, order in orders.items()}
    held, judge = 0, Judge(orders)
    with ExitStack() as stack, ThreadPoolExecutor(TOGETHER) as people:
        playing: list[Any] = []
        for number in range(KILLED):
            with (
                Interceptor(stage.plane, {name: each[number] for name, each in places.items()}) as between,
                confined_controller(
                    stage.plane, between.kubeconfig(account), stage.namespace, leader_elect=False
                ) as controller,
            ):
                if not playing:
                    for name in orders:
                        stage.until(ROLLOUT.plural, name, lambda one: one.get("status", {}).get("phase") == "Healthy")
                    stack.enter_context(stage.following("pods", "ordered", judge.see))
                    playing = [people.submit(order.play, stage, moment) for order in orders.values()]
                between.arm()
                held += between.held_within(LIVES_AT_MOST_S, count=rng.randint(2, TOGETHER - 2))
                controller.kill()
        with confined_controller(stage.plane, account, stage.namespace, leader_elect=False):
            for each in playing:
                each.result()
            ends = {name: _at_rest(stage, order) for name, order in orders.items()}
    assert judge.fewest.keys() == orders.keys()
    print(f"seeds {seed}-{seed + TOGETHER - 1}: killed between two writes of {held}; pods to spare {judge.fewest}")
    assert judge.broken == []
    assert {name: end for name, end in ends.items() if end} == {}


def _at_rest(stage: Stage, order: Order) -> str:
    """Gives it one more template and promotes that, whatever it was in the midst of; what is wrong with the end, else ""."""
    order.supersede(stage)
    wanted = {order.images[-1]: order.replicas}
    pods: Counter[str] = Counter()

    def ends(one: dict[str, Any]) -> bool:
        status = one.get("status", {})
        match status.get("phase"):
            case "Paused":
                stage.annotate(order.name, "promote", f"{status['currentRevision']}@full")
            case "Aborted" | "RolledBack":
                stage.annotate(order.name, "retry", "true")
        nonlocal pods
        there = [each for each in stage.all("pods", f"app={order.name}") if is_true(each, "Ready")]
        pods = Counter(each["spec"]["containers"][0]["image"] for each in there)
        return status.get("phase") == "Healthy" and pods == wanted

    def is_free(one: dict[str, Any]) -> bool:
        return HELD not in one["metadata"].get("annotations", {}) and _own(one["spec"]) == own

    own = {**_own(order.begun), **({"replicas": order.replicas} if "replicas" in order.begun else {})}
    try:
        stage.until(ROLLOUT.plural, order.name, ends, within_s=RESTS_WITHIN_S)
        stage.plane.api.delete(ROLLOUT.path(stage.namespace, order.name)).raise_for_status()
        stage.until(order.kind.plural, order.name, is_free)
    except AssertionError as never:
        found = _own(stage.get(order.kind.plural, order.name)["spec"])
        return f"{dict(pods)}, not {wanted}, or {found}, not {own}, by {order.done}: {never}"
    return ""


def _own(spec: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if key != "template"}
