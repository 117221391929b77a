"""What no write of ours may break, whatever the world looks like: an oracle for the random worlds and the simulation.

Each rule looks at one write, as it was decided: the world that was seen, with the earlier writes of the same pass in it. What the
environment breaks (a node dies, a pod crashes) is no violation; making it worse is. Numbers are those of the project's catalogue
of invariants: S1-S14, S21, S24, S25, S29, L3.

The share of traffic ("weight") of a canary by the ratio of pods is its share of the pods. With `trafficRouting: {}` it is what
status records. A Service gives all of its traffic to the revision that its selector names, and to every revision that its
EndpointSlices still show. `previewService` carries no users' traffic.
"""

from __future__ import annotations

from rollouts.core.model.intents import Decision, Intent
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import Phase, RolloutStatus
from tests.invariants.analyses import (
    a_bad_experiment_aborts,
    a_failure_that_steps_back_stays_back,
    a_gate_needs_its_verdict,
    an_analysis_step_needs_its_verdict,
    evidence_comes_before_promotion,
    no_weight_rises_before_its_verdict,
    steps_back_by_one_weight,
    verdicts_are_alone,
    verdicts_are_what_runs_say,
    what_was_passed_without_a_verdict_stays_so,
)
from tests.invariants.autoscaling import no_step_ends_against_the_load
from tests.invariants.beginnings import an_update_begins_when_everything_is_there, no_pod_comes_before_its_gate
from tests.invariants.bounds import no_more_pods_than_asked_for
from tests.invariants.configs import copies_are_safe
from tests.invariants.drains import a_drain_is_recorded_as_it_is, pods_stay_until_drained
from tests.invariants.effects import left_by
from tests.invariants.experiments import (
    experiments_get_requests_while_they_can,
    experiments_keep_pods_for_their_requests,
)
from tests.invariants.ownership import (
    a_spent_true_goes_first,
    adopts_before_all_else,
    one_replica_set_per_revision,
    only_ours_and_as_seen,
    the_way_back_is_on_record,
    the_way_back_stays,
)
from tests.invariants.pods import (
    a_pause_holds_the_pods,
    capacity_leaves_after_traffic,
    enough_pods_stay,
    no_pods_go_with_their_replica_set,
    stable_stays_whole,
    traffic_goes_to_ready_pods,
)
from tests.invariants.routes import broken_by_routing, promoted_when_handed_back
from tests.invariants.steps import (
    a_gate_opens_in_time,
    a_pause_holds_a_new_revision,
    a_pause_holds_step_and_weight,
    a_step_lasts_as_long_as_asked,
    one_way_decisions_are_alone,
    promoted_when_done,
    steps_go_forward,
)
from tests.invariants.violation import Violation, as_users_count, in_their_roles
from tests.invariants.whole import named_as_seen, of_its_types, says_something, tells_what_it_writes


def broken_by(seen: Snapshot, decision: Decision) -> list[Violation]:
    """Every rule that `decision`, or a part of it that a crash leaves, breaks. Empty for a good one."""
    if wrong := of_its_types(decision):
        return wrong
    seen = as_users_count(in_their_roles(seen))
    violations = [
        *says_something(decision),
        *tells_what_it_writes(decision),
        *broken_by_status(seen, decision.status),
        *one_way_decisions_are_alone(seen, decision),
        *verdicts_are_alone(seen, decision),
        *promoted_when_handed_back(seen, decision.status),
        *says_what_it_waits_for(seen, decision),
        *no_step_ends_against_the_load(seen, decision.status),
        *adopts_before_all_else(seen, decision),
        *a_spent_true_goes_first(seen, decision),
    ]
    before = seen
    for intent in decision.intents:
        violations += broken_by_write(before, intent, decision.status)
        violations += named_as_seen(before, intent)
        violations += an_update_begins_when_everything_is_there(before, intent, decision.status)
        violations += no_pod_comes_before_its_gate(before, intent, decision.status)
        before = left_by(before, intent)
    return violations


def broken_by_write(before: Snapshot, intent: Intent, status: RolloutStatus) -> list[Violation]:
    """Every rule that one write breaks.

    Args:
        before: the world that it changes, with the Services in their roles.
        status: what the pass records.
    """
    return [
        *traffic_goes_to_ready_pods(before, intent, status),
        *no_pods_go_with_their_replica_set(before, intent),
        *capacity_leaves_after_traffic(before, intent),
        *pods_stay_until_drained(before, intent, status),
        *enough_pods_stay(before, intent),
        *stable_stays_whole(before, intent, status),
        *a_pause_holds_the_pods(before, intent, status),
        *no_more_pods_than_asked_for(before, intent, status),
        *one_replica_set_per_revision(before, intent),
        *only_ours_and_as_seen(before, intent),
        *the_way_back_stays(before, intent),
        *broken_by_routing(before, intent),
        *experiments_get_requests_while_they_can(before, intent),
        *experiments_keep_pods_for_their_requests(before, intent),
        *copies_are_safe(before, intent),
    ]


def broken_by_status(seen: Snapshot, status: RolloutStatus) -> list[Violation]:
    """Every rule that recording `status` breaks, whatever else the pass writes."""
    return [
        *steps_go_forward(seen, status),
        *promoted_when_done(seen, status),
        *a_pause_holds_a_new_revision(seen, status),
        *a_pause_holds_step_and_weight(seen, status),
        *a_step_lasts_as_long_as_asked(seen, status),
        *a_gate_opens_in_time(seen, status),
        *evidence_comes_before_promotion(seen, status),
        *an_analysis_step_needs_its_verdict(seen, status),
        *no_weight_rises_before_its_verdict(seen, status),
        *a_gate_needs_its_verdict(seen, status),
        *verdicts_are_what_runs_say(seen, status),
        *what_was_passed_without_a_verdict_stays_so(seen, status),
        *a_failure_that_steps_back_stays_back(seen, status),
        *steps_back_by_one_weight(seen, status),
        *a_bad_experiment_aborts(seen, status),
        *the_way_back_is_on_record(seen, status),
        *a_drain_is_recorded_as_it_is(seen, status),
    ]


def says_what_it_waits_for(seen: Snapshot, decision: Decision) -> list[Violation]:
    """L3: a pass after which no other follows by itself says what is waited for; the progress deadline goes by it too."""
    status = decision.status
    goes_on = bool(decision.intents) or status != seen.status
    if goes_on or status.phase is Phase.HEALTHY or status.waiting_for is not None:
        return []
    return [Violation("L3", f"{status.phase} at step {status.step_index}, and nothing says why")]


def nothing_more_to_do(seen: Snapshot, decision: Decision) -> list[Violation]:
    """S11: a world that has settled is left alone: no intents, and the status that is there.

    To be called only when nothing moves by itself any more and no moment that the Rollout waits for has come.
    """
    if decision.intents:
        return [Violation("S11", f"a settled world is changed: {decision.intents}")]
    if decision.status != seen.status:
        return [Violation("S11", f"a settled status changes: {seen.status} becomes {decision.status}")]
    return []
