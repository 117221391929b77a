"""Promise: the rules about requests for Experiments have teeth: each planted mistake is found, by the right rule."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import DeleteExperiment, LetPodsGo, SetTraffic
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.traffic import ExperimentShare, RouteSeen
from tests.core.model import snapshot
from tests.core.strategy.test_an_experiment_gets_its_share import served
from tests.core.updates import ASKED
from tests.invariants.experiments import (
    experiments_get_requests_while_they_can,
    experiments_keep_pods_for_their_requests,
)
from tests.invariants.violation import Violation


def _rules(found: list[Violation]) -> set[str]:
    return {each.rule for each in found}


def _write(seen: Snapshot, **changes: Any) -> SetTraffic:
    """The write of the split that the route has, changed."""
    route = seen.routes[ASKED]
    assert isinstance(route, RouteSeen)
    assert route.split is not None
    split = replace(route.split, **changes)
    return SetTraffic(route=ASKED, uid=route.uid, resource_version=route.resource_version, split=split)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"services": ()}, "S1"),
        ({"terminate": True}, "S1"),
        ({"kept_until_s": 5.0}, "S1"),
        ({"uid": "another"}, "S1"),
    ],
)
def test_s1_requests_for_pods_that_are_not_there_or_do_not_stay(changes: dict[str, Any], rule: str) -> None:
    """As without a ready pod, of one that is told to end, was let go, or is somebody else's."""
    seen = snapshot(served())
    wrong = replace(seen, runs=(*seen.runs[:-1], replace(seen.runs[-1], **changes)))

    assert experiments_get_requests_while_they_can(seen, _write(seen)) == []
    assert rule in _rules(experiments_get_requests_while_they_can(wrong, _write(seen)))


def test_s6_and_s24_shares_that_are_none_or_not_on_record() -> None:
    """More than all requests; and a write before status knows of it."""
    seen = snapshot(served())
    traffic = seen.status.traffic
    assert traffic is not None
    unrecorded = replace(seen, status=replace(seen.status, traffic=replace(traffic, desired_experiments=())))
    much = tuple(ExperimentShare(each.service, Fraction(1, 2)) for each in _write(seen).split.experiments)

    assert _rules(experiments_get_requests_while_they_can(seen, _write(seen, experiments=much))) == {"S6"}
    assert _rules(experiments_get_requests_while_they_can(unrecorded, _write(seen))) == {"S24"}


def test_s24_pods_that_are_let_go_too_early() -> None:
    """While a route has their share, while it runs, for too short a time; or deleted while they are to stay."""
    seen = snapshot(served())
    run = seen.runs[-1]
    ended = replace(seen, runs=(*seen.runs[:-1], replace(run, terminate=True)))
    go = LetPodsGo(name=run.name, uid=run.uid, until_s=seen.now_s + 1_000.0)
    route, traffic = seen.routes[ASKED], seen.status.traffic
    assert isinstance(route, RouteSeen)
    assert route.split is not None
    assert traffic is not None
    quiet = replace(
        ended,
        routes={ASKED: replace(route, split=replace(route.split, experiments=()))},
        status=replace(seen.status, traffic=replace(traffic, desired_experiments=(), observed_experiments=())),
    )
    delete = DeleteExperiment(name=run.name, uid=run.uid, resource_version=run.resource_version)

    assert math.isinf(run.kept_until_s)
    assert experiments_keep_pods_for_their_requests(quiet, go) == []
    for world, intent in (
        (ended, go),
        (replace(quiet, runs=seen.runs), go),
        (quiet, replace(go, until_s=seen.now_s + 1.0)),
        (replace(quiet, status=seen.status), go),
        (quiet, delete),
    ):
        assert "S24" in _rules(experiments_keep_pods_for_their_requests(world, intent))
