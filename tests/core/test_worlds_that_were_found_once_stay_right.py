"""Promise: a world that a search has found once is played every time."""

from __future__ import annotations

from rollouts.core.model.drain import DrainSpec
from tests.core.coming_to_rest import assert_comes_to_rest
from tests.core.test_any_world_is_safe_and_comes_to_rest import DRAINS, gone_back, played, start
from tests.core.test_any_world_with_more_of_one_kind_is_safe_and_comes_to_rest import gated, measuring


def test_a_retry_while_the_weight_that_was_gone_back_to_is_live() -> None:
    """Status says 0 from the retry on, and the route sends half: the pause came before it was told. Stable may stay a half."""
    tape = [("retry", 1, 0), ("crash", 1, 0), ("pause", 0, 0), ("crash", 1, 0)]

    assert_comes_to_rest(played(gone_back(22, 2, DRAINS[0]), tape))


def test_a_new_template_right_after_an_eviction() -> None:
    """The ReplicaSet still counts the evicted pod, and the restart is no longer asked for: the canary kept a pod too few."""
    tape = [("restart", 1, 0), ("crash", 1, 0), ("crash", 1, 0), ("crash", 1, 0), ("a new template", 0, 0)]

    assert_comes_to_rest(played(gone_back(20, 4, DrainSpec()), tape))


def test_a_preview_is_judged_although_its_gate_was_passed_at_0_replicas() -> None:
    """A Rollout that was switched off while its preview started, and on again, sent it all requests and promoted it unjudged."""
    tape = [("crash", 1, 0), ("another number of replicas", 0, 0), ("pass", 0, 0), ("another number of replicas", 1, 0)]

    assert_comes_to_rest(played(start(27, 1, DRAINS[0]), tape))


def test_a_restart_at_a_weight_whose_pods_the_user_has_pinned() -> None:
    """One pod takes a quarter, as the steps say. The second one, which the restart has added, goes when the restart is over."""
    tape = [("another strategy", 1, 2), ("restart", 0, 0), ("crash", 1, 0)]

    assert_comes_to_rest(played(gone_back(20, 5, DRAINS[0]), tape))


def test_an_autoscaler_whose_maximum_was_lowered_below_the_pods_that_there_are() -> None:
    """Its status still wants them: nothing in an autoscaler told that its controller had not looked since. The step was done."""
    begins = [("crash", 1, 0), ("all pods are ready", 0, 0), ("the load changes", 1, 6), ("pass", 0, 0)]

    assert_comes_to_rest(played(gated(0, 5, 2), [*begins, ("time passes", 3, 0), ("crash", 1, 0)]))


def test_the_one_stable_pod_fails_while_an_analysis_measures_all_the_traffic() -> None:
    """Its ReplicaSet went to 0, and with `pingPong` the promotion waited forever for a pod behind the Service that it left."""
    assert_comes_to_rest(played(measuring(22, 4), [("pods fail", 0, 0)]))


def test_the_last_step_ends_at_0_replicas_before_the_services_change_roles() -> None:
    """The stable Service, gone to the new revision at 0, came back to the stable one as that lost all of its pods (S2)."""
    assert_comes_to_rest(played(measuring(22, 4), [("scaled to 0 and back", 3, 0)]))


def test_a_service_that_somebody_has_made_again_is_not_waited_for_at_0_replicas() -> None:
    """Its slices went with it. No wait keeps a pod at 0 replicas for requests that nobody brings."""
    assert_comes_to_rest(
        played(gone_back(21, 1, DRAINS[0]), [("a service is put back", 0, 0), ("scaled to 0", 0, 0), ("pass", 0, 0)])
    )


def test_a_promotion_in_full_is_taken_back_after_it_has_passed_the_gate() -> None:
    """A person gave it, and the gate is on record as passed: without the annotation its command goes, and the update goes on."""
    assert_comes_to_rest(played(measuring(27, 1), [("promote", 1, 0), ("crash", 3, 0)]))


def test_a_background_analysis_has_not_begun_when_the_stable_service_leads_to_the_new_revision() -> None:
    """It went there at 0 replicas, and all requests with it. The analysis waited forever for a share of the canary Service."""
    assert_comes_to_rest(played(measuring(21, 1), [("other steps", 0, 1), ("scaled to 0 and back", 5, 0)]))


def test_a_weight_that_was_gone_back_from_is_not_written_again_after_0_replicas() -> None:
    """No request has shown that the 0 of that time is live. The 100 from before was written again, past the 50 (S7)."""
    assert_comes_to_rest(played(measuring(22, 2), [("a run ends", 0, 5), ("scaled to 0 and back", 4, 0)]))


def test_routes_are_dropped_from_the_spec_while_the_stable_service_leads_to_a_revision_without_pods() -> None:
    """The release of the route waited for pods behind that Service, and the Service, as all others, waited for the release."""
    assert_comes_to_rest(played(measuring(22, 6), [("scaled to 0 and back", 1, 0), ("another strategy", 0, 1)]))


def test_a_stable_revision_without_pods_waits_for_its_copy_until_somebody_restores_it() -> None:
    """Scaled to 0 and back, it can have none before; the judge had restored sources alone."""
    tape = [("a copy is deleted", 0, 0), ("a source is edited, or created", 1, 0), ("scaled to 0 and back", 0, 0)]

    assert_comes_to_rest(played(start(0, 1, DRAINS[0]), tape))


def test_an_abort_at_0_replicas_asks_for_no_stable_pod() -> None:
    """The judge of S4 wanted one of the surge."""
    tape = [("abort", 1, 0), ("another number of replicas", 0, 0)]

    assert_comes_to_rest(played(start(1, 2, DRAINS[0]), tape))


def test_a_clock_that_is_set_back_while_an_autoscaler_is_waited_for() -> None:
    """What was measured after it seems older than the step; the judge of S21 took it for that."""
    assert_comes_to_rest(played(gated(0, 1, 0), [("crash", 2, 0), ("the clock jumps", 0, 0)]))


def test_other_steps_for_a_revision_that_is_stable_already_need_no_new_verdict() -> None:
    """Its verdicts stay on record; the judge of S7 wanted them gone."""
    tape = [("promote without a verdict", 1, 0), ("scaled to 0 and back", 5, 0), ("another strategy", 0, 0)]

    assert_comes_to_rest(played(measuring(22, 1), tape))
