"""With `--rollout-series` each Rollout has a series with its name, phase and reason, up to a bound that is told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rollouts.controller.wiring import EXIT_STOPPED
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import Condition, Phase, RolloutStatus
from rollouts.objects import ROLLOUT, Key
from rollouts.ports import Request
from rollouts.sim.cluster import SimulatedCluster
from rollouts.telemetry import Telemetry
from tests import build
from tests.controller.test_the_process_outlives_what_objects_hold import (
    Running,
    annotate,
    healthy,
    holder,
    served,
    until,
    waits_for,
)

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


def _in(phase: Phase, ready_reason: Reason) -> RolloutStatus:
    """A status with that phase; `ready_reason` is that of the condition Ready."""
    reasons = {"Available": Reason.AVAILABLE, "Ready": ready_reason}
    conditions = (
        Condition(type=kind, status=True, reason=reason, message="", since_s=0.0, observed_generation=1)
        for kind, reason in reasons.items()
    )
    return RolloutStatus(phase=phase, conditions=tuple(conditions))


HEALTHY = _in(Phase.HEALTHY, Reason.HEALTHY)
NEW = RolloutStatus()


def named(telemetry: Telemetry) -> list[tuple[str, ...]]:
    """Namespace, name, phase and reason of each series, as Prometheus reads them."""
    (family,) = (
        each for each in text_string_to_metric_families(telemetry.exposition().decode()) if each.name == "rollouts_info"
    )
    assert {sample.value for sample in family.samples} <= {1.0}
    return [
        tuple(sample.labels[label] for label in ("namespace", "name", "phase", "reason")) for sample in family.samples
    ]


def told(telemetry: Telemetry, metric: str) -> float:
    """The value of a metric without labels."""
    lines = telemetry.exposition().decode().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{metric} ")))


def test_a_series_has_the_phase_and_why() -> None:
    """The reason is that of the condition Ready, which changes with the phase and not with every pod."""
    telemetry = Telemetry(rollout_series=10)
    telemetry.show(Key("shop", "cart"), NEW)
    assert named(telemetry) == [("shop", "cart", "Progressing", "")]

    telemetry.show(Key("shop", "cart"), HEALTHY)

    assert named(telemetry) == [("shop", "cart", "Healthy", "Healthy")]


def test_the_page_shows_a_series_as_it_is() -> None:
    """People write queries by it."""
    telemetry = Telemetry(rollout_series=10)
    telemetry.show(Key("shop", "cart"), _in(Phase.PAUSED, Reason.PROMOTION_NEEDED))
    shown = [line for line in PAGE.read_text().splitlines() if line.startswith("rollouts_info{")]

    assert shown == [line for line in telemetry.exposition().decode().splitlines() if line.startswith("rollouts_info{")]


def test_without_the_flag_nothing_is_named() -> None:
    """A series for each Rollout is for the administrator to ask for."""
    telemetry = Telemetry()
    telemetry.show(Key("shop", "cart"), HEALTHY)

    assert named(telemetry) == []
    assert (told(telemetry, "rollouts_info_limit"), told(telemetry, "rollouts_info_omitted")) == (0, 1)


def test_the_bound_holds_and_is_told() -> None:
    """Prometheus pays for each series; who is left out must not look as if nothing were wrong with it."""
    telemetry = Telemetry(rollout_series=2)
    for name in ("a", "b", "c", "d"):
        telemetry.show(Key("shop", name), NEW)
    telemetry.show(Key("shop", "a"), HEALTHY)  # it keeps its place

    assert [name for _, name, *_ in named(telemetry)] == ["a", "b"]
    assert (told(telemetry, "rollouts_info_limit"), told(telemetry, "rollouts_info_omitted")) == (2, 2)


def test_one_that_was_left_out_takes_the_place_of_one_that_is_deleted() -> None:
    """Otherwise a cluster where Rollouts come and go would run out of series."""
    telemetry = Telemetry(rollout_series=2)
    for name in ("a", "b", "c"):
        telemetry.show(Key("shop", name), NEW)
    telemetry.show(Key("shop", "c"), HEALTHY)

    telemetry.show(Key("shop", "a"), None)

    assert [(name, phase) for _, name, phase, _ in named(telemetry)] == [("b", "Progressing"), ("c", "Healthy")]
    assert told(telemetry, "rollouts_info_omitted") == 0


@pytest.mark.parametrize("name", ['"} 0\nup{job="other"} 1', "back\\slash", "line\nfeed", "{}", "\u2028", ""])
def test_no_name_breaks_the_exposition(name: str) -> None:
    """The API server refuses such names today; the page must not depend on it."""
    telemetry = Telemetry(rollout_series=10)
    telemetry.show(Key(name, name), HEALTHY)

    assert named(telemetry) == [(name, name, "Healthy", "Healthy")]


def test_a_process_that_no_longer_leads_tells_nothing_of_rollouts() -> None:
    """Two processes would tell two phases, and the old one would be wrong."""
    telemetry = Telemetry(rollout_series=10)
    telemetry.show(Key("shop", "cart"), HEALTHY)
    telemetry.show(Key("shop", "till"), NEW)

    telemetry.forget_objects()

    assert named(telemetry) == []
    assert "rollouts_phase{" not in telemetry.exposition().decode()
    telemetry.show(Key("shop", "cart"), NEW)
    assert 'rollouts_phase{namespace="shop",phase="Progressing"} 1.0' in telemetry.exposition().decode()


@pytest.mark.virtual_time(limit_s=1_200)
async def test_the_series_follow_the_leader_and_the_cluster(cluster: SimulatedCluster) -> None:
    """The standby has none; who takes over has all that exist, and who led has none."""
    first = Running(cluster, leader_elect=True, identity="first", rollout_series=10)
    await asyncio.sleep(1)
    second = Running(cluster, leader_elect=True, identity="second", rollout_series=10)
    for name in ("cart", "till"):
        served(cluster, name)
        await until(cluster, name, healthy)
    assert {each[1:] for each in named(first.telemetry[0])} == {
        (name, "Healthy", "Healthy") for name in ("cart", "till")
    }
    assert named(second.telemetry[0]) == []
    assert told(second.telemetry[0], "rollouts_queue_depth") == 0, "what waits for the lead waits for no worker"

    cluster.api.answer(Request("DELETE", ROLLOUT.path("default", "till")))
    await asyncio.sleep(5)
    assert named(first.telemetry[0]) == [("default", "cart", "Healthy", "Healthy")]
    assert await first.stopped() == EXIT_STOPPED
    await asyncio.sleep(3)

    assert holder(cluster) == "second"
    assert named(first.telemetry[0]) == []
    assert named(second.telemetry[0]) == [("default", "cart", "Healthy", "Healthy")]
    await second.stopped()


@pytest.mark.virtual_time(limit_s=1_200)
async def test_a_pause_says_whether_the_clock_or_a_person_ends_it(cluster: SimulatedCluster) -> None:
    """The chart's alert for a pause of a day goes by these words."""
    strategy = build.canary({"pause": {"duration": "1m"}}, {"pause": {}})
    running = Running(cluster, rollout_series=10)
    cluster.apply(build.rollout(strategy, "cart", "default", image="cart:1"))
    await until(cluster, "cart", healthy)

    cluster.apply(build.rollout(strategy, "cart", "default", image="cart:2"))
    await until(cluster, "cart", lambda status: waits_for(status) == "TimedPause")
    await asyncio.sleep(1)
    assert named(running.telemetry[0]) == [("default", "cart", "Paused", "TimedPause")]

    await until(cluster, "cart", lambda status: waits_for(status) == "PromotionNeeded")
    await asyncio.sleep(1)
    assert named(running.telemetry[0]) == [("default", "cart", "Paused", "PromotionNeeded")]

    annotate(cluster, ROLLOUT, "cart", "rollouts.dev/abort", "true")
    await until(cluster, "cart", lambda status: status.get("phase") == "Aborted")
    await asyncio.sleep(1)
    assert named(running.telemetry[0]) == [("default", "cart", "Aborted", "RolloutAborted")]
    await running.stopped()
