"""Promise: a spec that cannot be carried out is reported in full, and what runs goes on as it is."""

from __future__ import annotations

from collections.abc import Mapping

from rollouts.core.decide import decide_invalid
from rollouts.core.lifecycle.commands import spec_on_record
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Decision
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import ReplicaSet, Snapshot
from rollouts.core.model.status import Phase, RolloutStatus, Verb
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from rollouts.errors import SpecProblem
from tests.core.model import T0
from tests.core.updates import condition, updating, waiting, waits_for
from tests.core.worlds import reconciled, running, settled

GATED = Canary(steps=(SetWeight(50), PauseUntilPromoted()))
PROBLEMS = (SpecProblem("spec.replicas", "is negative"), SpecProblem("spec.strategy", "names nothing"))


def _told(
    status: RolloutStatus, *sets: ReplicaSet, all_seen: bool = True, given: Mapping[str, str] | None = None
) -> Decision:
    rollout = replace(running(Canary()).rollout, spec=spec_on_record(status), generation=9, annotations=given or {})
    seen = Snapshot(now_s=T0 + 50, rollout=rollout, status=status, replica_sets=sets)
    return decide_invalid(seen, problems=PROBLEMS, all_seen=all_seen)


def test_every_problem_is_in_the_condition_and_in_one_event() -> None:
    """Not only the first: people mend them all at once. It is waited for since the spec became so, and no deadline ends that."""
    decision = _told(running(Canary()).status)
    again = _told(decision.status)

    told = condition(decision, "InvalidSpec")
    assert told.message == "spec.replicas: is negative; spec.strategy: names nothing"
    assert (told.status, told.observed_generation, decision.status.phase) == (True, 9, Phase.DEGRADED)
    assert [(each.reason, each.warning) for each in decision.notices] == [(Reason.INVALID_SPEC, True)]
    assert waits_for(decision) is Reason.INVALID_SPEC
    assert (waiting(decision).since_s, waiting(decision).deadline_s) == (T0 + 50, None)
    assert (again.status, again.notices) == (decision.status, ()), "the second look changes nothing and sends no Event"
    assert _told(RolloutStatus()).status.phase is Phase.DEGRADED, "a first spec that is wrong"


def test_nothing_is_done_about_it() -> None:
    """The running revision is left as it is, and so is all memory of the update."""
    there = updating(GATED)

    decision = _told(there.status)

    assert decision.intents == ()
    kept = ("current_revision", "stable_revision", "step_index", "step_started_at_s", "history", "commands")
    assert [getattr(decision.status, name) for name in kept] == [getattr(there.status, name) for name in kept]


def test_a_mended_spec_goes_on_where_it_was() -> None:
    """The conditions about the wrong one are gone."""
    there = running(Canary())
    there = reconciled(replace(there, status=_told(there.status).status))

    assert there.status.phase is Phase.HEALTHY
    assert {"InvalidSpec", "Stalled"}.isdisjoint({each.type for each in there.status.conditions})


def test_pods_are_counted() -> None:
    """Those that there are, and not those of the last spec that was valid; as before until every ReplicaSet can be seen."""
    there = updating(GATED)
    sets = [replace(each, replicas=1, ready=1, available=0) for each in there.replica_sets]

    status = _told(there.status, *sets).status

    counts = (status.replicas, status.ready_replicas, status.available_replicas, status.updated_replicas)
    assert counts == (len(sets), len(sets), 0, 1)
    assert (status.selector, status.hpa_replicas) == (there.status.selector, there.status.hpa_replicas)
    assert _told(there.status, all_seen=False).status.replicas == there.status.replicas > 0


def test_commands_are_put_on_record_if_status_alone_can_judge_them() -> None:
    """An abort, a pause and a restart are done when the spec is repaired; what depends on the spec is refused."""
    there = updating(GATED)

    given = {"abort": "true", "pause": "true", "restart": "2026-11-21T10:00:00Z", "promote": "true", "retry": "true"}
    status = _told(there.status, given=given).status

    holds = {each.verb: each.refusal is None for each in status.commands}
    refused = {each.verb: each.refusal.reason for each in status.commands if each.refusal is not None}
    assert holds == {Verb.ABORT: True, Verb.PAUSE: True, Verb.RESTART: False, Verb.PROMOTE: False, Verb.RETRY: False}
    assert refused[Verb.PROMOTE] is Reason.INVALID_SPEC
    assert {"InvalidSpec", "InvalidCommand"} <= {each.type for each in status.conditions}


def test_a_promotion_by_name_is_judged_once_the_spec_is_repaired() -> None:
    """It may stay in Git, so the refusal must not stay with it; a `true` was given about something that nobody knows any more."""
    there = updating(GATED)
    by_name = {"promote": f"{there.status.current_revision}@full"}
    status = _told(there.status, given=by_name).status
    assert [each.refusal is not None for each in status.commands] == [True]

    rollout = replace(there.rollout, annotations=by_name)
    mended = settled(replace(there, rollout=rollout, status=status))

    assert (mended.status.phase, mended.status.stable_revision) == (Phase.HEALTHY, "b")
