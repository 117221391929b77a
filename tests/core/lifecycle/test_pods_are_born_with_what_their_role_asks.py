"""Promise: pods are born with what their role asks for, and labels and annotations follow the role without a restart.

So is the rule of `antiAffinity` against the stable one's nodes.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import CreateReplicaSet
from rollouts.core.model.rollout import AntiAffinity, BlueGreen, Canary, PodMetadata, Strategy
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import World, annotated, snapshot, world
from tests.core.updates import updating
from tests.core.worlds import edited, reconciled, running, settled

NEW = PodMetadata(labels={"role": "new"}, annotations={"trace": "all"})
OLD = PodMetadata(labels={"role": "old"})
CANARY = Canary(steps=(SetWeight(50), PauseUntilPromoted()), canary_metadata=NEW, stable_metadata=OLD)
GREEN = BlueGreen(active_service="cart", auto_promotion_enabled=False, preview_metadata=NEW, active_metadata=OLD)
BOTH = pytest.mark.parametrize("strategy", [CANARY, GREEN])


def _roles(there: World, revision: str) -> set[tuple[str | None, str | None]]:
    return {(pod.labels.get("role"), pod.annotations.get("trace")) for pod in there.pods if pod.revision == revision}


@BOTH
def test_each_side_carries_its_own(strategy: Strategy) -> None:
    """Pods are born with it: it is in the ReplicaSet's template before there is a pod."""
    there = updating(strategy)

    assert (_roles(there, "a"), _roles(there, "b")) == ({("old", None)}, {("new", "all")})


@BOTH
def test_a_promotion_changes_it_on_running_pods(strategy: Strategy) -> None:
    """The same pods: what the other role had is taken off."""
    there = updating(strategy)

    there = settled(annotated(there, "promote", "b"))

    assert (there.status.phase, _roles(there, "b")) == (Phase.HEALTHY, {("old", None)})


@BOTH
def test_a_change_of_the_metadata_is_no_new_revision(strategy: Strategy) -> None:
    """It reaches the pods that run."""
    there = running(strategy)
    uids = {pod.uid for pod in there.pods}
    mended = PodMetadata(labels={"role": "veteran"})
    changed = replace(CANARY, stable_metadata=mended) if strategy is CANARY else replace(GREEN, active_metadata=mended)

    there = settled(edited(there, strategy=changed))

    assert (_roles(there, "a"), {pod.uid for pod in there.pods}) == ({("veteran", None)}, uids)


@BOTH
def test_a_crash_between_any_two_writes_loses_nothing(strategy: Strategy) -> None:
    """The mark that all pods have it is written after the last pod."""
    there = annotated(updating(strategy), "promote", "b")
    for count in range(6):
        there = reconciled(there, writes=count)

    there = settled(there)

    assert _roles(there, "b") == {("old", None)}


APART_GREEN = BlueGreen(active_service="cart", anti_affinity=AntiAffinity(required=True))
APART = Canary(anti_affinity=AntiAffinity(required=True))
WORLDS: dict[str, tuple[Callable[[], World], str]] = {
    "a new revision of a canary": (lambda: edited(running(APART), revision="b"), "a"),
    "a new revision of a blue-green update": (lambda: edited(running(APART_GREEN), revision="b"), "a"),
    "the first revision keeps away from nobody": (lambda: world(APART), ""),
    "nor does the first one of blue-green": (lambda: world(APART_GREEN), ""),
    "without the field there is no rule": (lambda: edited(running(Canary()), revision="b"), ""),
}


@pytest.mark.parametrize(("there", "away_from"), WORLDS.values(), ids=list(WORLDS))
def test_a_new_revision_keeps_away_from_the_stable_one(there: Callable[[], World], away_from: str) -> None:
    """Named in the intent, so that the template that is made says it from the start."""
    created = next(each for each in decide(snapshot(there())).intents if isinstance(each, CreateReplicaSet))

    assert created.anti_affinity_revision == away_from
