"""Promise: the pods of a step's Experiment get requests only while they can answer them, and stay as long as some may come."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.analysis import Analysis, AnalysisPhase, RunSeen
from rollouts.core.model.drain import DrainSpec
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import LetPodsGo, SetTraffic
from rollouts.core.model.rollout import Canary
from rollouts.core.model.steps import RunExperiment, SetWeight, TemplateWeight
from rollouts.core.model.traffic import Split
from tests.core.departures import PROXY_LAG_S
from tests.core.measured_runs import pods_of_experiments, runs_measured
from tests.core.model import World, annotated, snapshot
from tests.core.updates import ASKED, routed
from tests.core.worlds import edited, reconciled, running, settled

CHECKED = Analysis(path="spec.strategy.canary.steps[1].experiment", settings={}, templates=())
TO_BOTH = (TemplateWeight("blue", 10), TemplateWeight("green", 5))
TRIED = RunExperiment(CHECKED, TO_BOTH)
REQUEST_S = 10.0
STEPS = (SetWeight(25), TRIED, SetWeight(50))


def served(strategy: Canary | None = None) -> World:
    """The Experiment of the second step runs, and the data plane sends it its shares."""
    there = replace(running(strategy or routed(*STEPS), drain=DrainSpec(max_request_s=REQUEST_S)), unmeasured=True)
    there = settled(runs_measured(settled(edited(there, revision="b"))))
    assert shares(there) == {"blue": Fraction(1, 10), "green": Fraction(1, 20)}
    assert there.planes[ASKED] == split(there)
    return there


def split(there: World) -> Split:
    """What the route says."""
    found = there.routes[ASKED].split
    assert found is not None
    return found


def shares(there: World) -> dict[str, Fraction]:
    """What the route says of the templates."""
    return {each.service.rpartition("-")[2]: each.share for each in split(there).experiments}


def the_run(there: World) -> RunSeen:
    """The Experiment."""
    return there.runs[-1]


def with_run(there: World, **changes: Any) -> World:
    """The Experiment, changed."""
    return replace(there, runs=(*there.runs[:-1], replace(the_run(there), **changes)))


def lets_go(there: World) -> list[LetPodsGo]:
    """What a pass tells Experiments about their pods."""
    return [each for each in decide(snapshot(there)).intents if isinstance(each, LetPodsGo)]


def test_the_canary_keeps_its_weight_beside_them() -> None:
    """The stable Service gets what is left."""
    assert split(served()).share == Fraction(1, 4)


def test_status_has_a_share_before_a_route_has_it() -> None:
    """A crash after the write of the route must not hide from the next controller what proxies may send."""
    there = replace(running(routed(*STEPS), drain=DrainSpec()), unmeasured=True)
    there = runs_measured(settled(edited(there, revision="b")))

    first = decide(snapshot(there))
    there = reconciled(there)

    assert not any(isinstance(each, SetTraffic) for each in first.intents)
    assert first.status.traffic is not None
    assert [each.percent for each in first.status.traffic.desired_experiments] == [10, 5]
    assert any(isinstance(each, SetTraffic) for each in decide(snapshot(there)).intents)


def test_a_service_without_a_ready_pod_loses_its_share_at_once() -> None:
    """And gets it again with a pod."""
    there = served()
    blue, green = the_run(there).services

    failing = reconciled(with_run(there, services=(replace(blue, ready=0), green), resource_version="f"))
    well = settled(pods_of_experiments(failing, ready=1))

    assert shares(failing) == {"green": Fraction(1, 20)}
    assert shares(well) == {"blue": Fraction(1, 10), "green": Fraction(1, 20)}


@pytest.mark.parametrize(
    "changes",
    [
        {"terminate": True, "generation": 2},
        {"phase": AnalysisPhase.FAILED},
        {"phase": AnalysisPhase.SUCCESSFUL},
        {"kept_until_s": 1.0},
        {"spec_hash": "other"},
        {"uid": "other"},
        {"deleting": True},
    ],
)
def test_what_is_not_the_experiment_on_record_or_ends_gets_nothing(
    changes: dict[str, Any],
) -> None:
    """Also one whose pods were let go: they may leave at any moment. A verdict is recorded first, alone."""
    there = reconciled(reconciled(with_run(served(), resource_version="c", **changes)))

    assert shares(there) == {}


def test_an_experiment_that_somebody_deletes_loses_its_shares_with_the_next_pass() -> None:
    """Its pods go now, and no wait of ours keeps them."""
    there = served()

    assert shares(reconciled(replace(there, runs=there.runs[:-1]))) == {}


def test_a_pause_keeps_shares_and_brings_none() -> None:
    """As it does with the canary's weight."""
    there = served()
    before = replace(running(routed(*STEPS)), unmeasured=True)
    before = settled(edited(before, revision="b"))

    assert shares(settled(annotated(there, "pause", "true"))) == shares(there)
    assert shares(settled(runs_measured(annotated(before, "pause", "true")))) == {}


def test_pods_are_let_go_once_the_data_plane_sends_them_nothing_and_then_drain() -> None:
    """Not while it was not asked yet, although the route says so."""
    there = reconciled(reconciled(with_run(served(), phase=AnalysisPhase.FAILED, resource_version="c")))

    before = lets_go(there)
    after = settled(there)

    assert shares(there) == {}
    assert before == []
    assert the_run(after).kept_until_s >= there.now_s + PROXY_LAG_S + REQUEST_S
    assert math.isfinite(the_run(after).kept_until_s)


def test_what_does_not_fit_beside_the_canary_waits() -> None:
    """Without stable pods the canary keeps the 90 % that it may have: with 80 % for an Experiment that is too much."""
    wide = RunExperiment(CHECKED, (TemplateWeight("blue", 60), TemplateWeight("green", 20)))
    there = replace(running(routed(SetWeight(20), wide, SetWeight(50)), drain=DrainSpec()), unmeasured=True)
    there = settled(runs_measured(settled(edited(there, revision="b"))))
    assert sum(shares(there).values()) == Fraction(4, 5)

    traffic = there.status.traffic
    assert traffic is not None
    held = replace(there, status=replace(there.status, traffic=replace(traffic, desired_percent=90)))
    stable = replace(
        held,
        replica_sets=tuple(replace(each, available=0) if each.revision == "a" else each for each in held.replica_sets),
    )
    said = [each.split for each in decide(snapshot(stable)).intents if isinstance(each, SetTraffic)]

    assert [(one.share, one.experiments) for one in said] == [(Fraction(9, 10), ())]
