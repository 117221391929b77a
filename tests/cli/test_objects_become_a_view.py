"""API objects, whole or broken, become the values that the tree is drawn from; a broken Rollout is when people look."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.cli.commands.get import verdict_of
from rollouts.cli.view.history import history_rows
from rollouts.cli.view.objects import (
    RolloutObjects,
    belongs_to,
    controlled_by,
    event_lines,
    pod_line,
    step_words,
    traffic_words,
    view_of,
)
from rollouts.core.model.frozen import replace
from rollouts.core.model.status import Traffic
from rollouts.core.model.traffic import VerifiedBy
from rollouts.objects import Manifest

ROLLOUT: Manifest = {"metadata": {"name": "cart", "namespace": "shop", "uid": "u1", "generation": 3}}
CANARY = {"replicas": 4, "strategy": {"canary": {"steps": [{"setWeight": 25}, {"pause": {}}]}}}


def condition(kind: str, status: str, message: str = "why", reason: str = "Healthy") -> Manifest:
    """One condition as the server keeps it."""
    return {"type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-11-21T10:00:00Z", "observedGeneration": 3}  # fmt: skip


def rollout(status: Any, spec: Manifest | None = None) -> Manifest:
    """A Rollout with this status."""
    return {**ROLLOUT, "spec": spec or CANARY, "status": status}


def replica_set(revision: str, number: int, *, replicas: int = 1, ready: int = 1) -> Manifest:
    """One revision's ReplicaSet."""
    return {
        "metadata": {"name": f"cart-{revision}", "uid": revision, "labels": {"rollouts.dev/revision": revision},
                     "annotations": {"rollouts.dev/revision-number": str(number)},
                     "ownerReferences": [{"uid": "u1", "controller": True}]},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"image": f"cart:{number}"}]}}},
        "status": {"readyReplicas": ready},
    }  # fmt: skip


def seen(status: Any, *sets: Manifest, spec: Manifest | None = None) -> RolloutObjects:
    """A Rollout with this status, and its ReplicaSets."""
    return RolloutObjects(rollout=rollout(status, spec), replica_sets=sets)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"setWeight": 20}, "setWeight 20"),
        ({"pause": {}}, "pause until promoted"),
        ({"pause": None}, "pause until promoted"),
        ({"pause": {"duration": 90}}, "pause 1m30s"),
        ({"pause": {"duration": "5m"}}, "pause 5m"),
        ({"setCanaryScale": {"replicas": 3}}, "setCanaryScale replicas 3"),
        ({"analysis": {"templates": []}}, "analysis"),
        ({"unheard": ["of"]}, "unheard"),
        ({}, "(empty)"),
    ],
)
def test_a_step_is_told_in_the_manifests_words(step: Manifest, words: str) -> None:
    """People look for the line of their own file; a step that this version does not know is shown too."""
    assert step_words(step) == words


@pytest.mark.parametrize(
    "status", [None, "text", {}, {"phase": 7, "conditions": "", "waitingFor": []}, {"commands": [1]}]
)
def test_a_status_that_cannot_be_read_is_still_drawn(status: Any) -> None:
    """Anybody with edit rights may have written nonsense there."""
    view = view_of(seen(status))

    assert (view.name, view.phase, view.desired, view.stale) == ("cart", "", 4, True)


def test_revisions_carry_their_roles_newest_first() -> None:
    """The canary is what is being watched, so it stands on top; scaled-down old ones are history."""
    status = {"currentRevision": "c", "stableRevision": "b", "observedGeneration": 3}
    old = replica_set("a", 1, replicas=0, ready=0)

    view = view_of(seen(status, old, replica_set("b", 2), replica_set("c", 3)))

    assert [(line.revision, line.roles, line.images) for line in view.revisions] == [
        ("c", ("canary",), ("cart:3",)),
        ("b", ("stable",), ("cart:2",)),
    ]


def test_blue_green_has_active_and_preview() -> None:
    """The words of the Services: what serves, and what waits beside it."""
    status = {"currentRevision": "c", "stableRevision": "b", "observedGeneration": 3,
              "blueGreen": {"activeRevision": "b", "previewRevision": "c"}}  # fmt: skip
    spec = {"strategy": {"blueGreen": {"activeService": "cart"}}}

    view = view_of(seen(status, replica_set("b", 2), replica_set("c", 3), spec=spec))

    assert [line.roles for line in view.revisions] == [("preview",), ("active",)]
    assert view.weight_percent is None
    assert view.desired == 1, "spec.replicas defaults to 1"


def test_conditions_that_say_the_same_are_one_line() -> None:
    """An abort sets four conditions with one message; four equal lines hide the one that differs."""
    conditions = [
        condition("Ready", "False", "held back"),
        condition("Stalled", "True", "held back"),
        condition("Aborted", "True", "held back"),
        condition("Available", "True", "fine"),
        condition("InvalidCommand", "True", "promote: what?"),
    ]

    view = view_of(seen({"phase": "Aborted", "observedGeneration": 3, "conditions": conditions}))

    assert [(line.type, line.message) for line in view.conditions] == [
        ("Ready, Stalled, Aborted", "held back"),
        ("InvalidCommand", "promote: what?"),
    ]


@pytest.mark.parametrize("kind", ["DrainUnsafe", "DrainTimedOut", "ServiceUnsafe", "Paused"])
def test_what_is_unsafe_is_shown_of_a_healthy_rollout(kind: str) -> None:
    """It is about the next update, so a healthy Rollout is where people have the time to mend it; True is the bad news."""
    there, gone = (condition(kind, status, "need 6 s, have none") for status in ("True", "False"))
    status = {"phase": "Healthy", "observedGeneration": 3}

    assert [line.type for line in view_of(seen({**status, "conditions": [there]})).conditions] == [kind]
    assert view_of(seen({**status, "conditions": [gone]})).conditions == ()


BAD_SPEC = [condition("InvalidSpec", "True", "spec.x: bad")]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ({"phase": "Healthy", "observedGeneration": 3}, 0),
        ({"phase": "Healthy", "observedGeneration": 2}, 3),
        ({"phase": "Progressing", "observedGeneration": 3}, 3),
        ({"phase": "Paused", "observedGeneration": 3}, 3),
        ({"phase": "Degraded", "observedGeneration": 3}, 1),
        ({"phase": "Aborted", "observedGeneration": 3}, 1),
        ({"phase": "RolledBack", "observedGeneration": 3}, 1),
        ({"phase": "Degraded", "observedGeneration": 3, "conditions": BAD_SPEC}, 1),
        ({"phase": "Degraded", "observedGeneration": 2}, 3),
        ({}, 3),
    ],
)
def test_the_exit_code_follows_the_phase_of_the_latest_spec(status: Manifest, code: int) -> None:
    """A phase of an older spec is no verdict on the one that was just applied (kubectl rollout status does the same)."""
    assert verdict_of(view_of(seen(status))) == code


@pytest.mark.parametrize(
    ("status", "ready", "problem"),
    [
        ({"conditions": [{"type": "Ready", "status": "True"}]}, True, ""),
        ({}, False, ""),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}, False, ""),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}}]}, False,
         "ImagePullBackOff: no"),
        ({"initContainerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}, False, "CrashLoopBackOff"),
        ({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]},
         False, "Unschedulable: 0/3 nodes"),
        ({"phase": "Failed", "reason": "Evicted", "message": "disk"}, False, "Evicted: disk"),
    ],
)  # fmt: skip
def test_a_pod_says_what_keeps_it_from_being_ready(status: Manifest, ready: bool, problem: str) -> None:
    """While it is simply starting there is no problem to report."""
    pod = {"metadata": {"name": "p", "creationTimestamp": "2026-11-21T10:00:00Z"}, "status": status}

    line = pod_line(pod)

    assert (line.ready, line.problem) == (ready, problem)


def test_events_and_replica_sets_of_a_namesake_are_not_ours() -> None:
    """A Rollout that was deleted and made again has another uid; so does whatever borrowed our label."""
    about = {"regarding": {"kind": "Rollout", "name": "cart", "uid": "u0"}}
    stranger = {"metadata": {"ownerReferences": [{"uid": "u0", "controller": True}]}}

    assert not belongs_to(about, ROLLOUT)
    assert belongs_to({"regarding": {"kind": "Rollout", "name": "cart", "uid": "u1"}}, ROLLOUT)
    assert not controlled_by(stranger, ROLLOUT)
    assert controlled_by(replica_set("a", 1), ROLLOUT)


def test_events_are_in_the_order_of_their_time() -> None:
    """Names of Events say nothing about order; some carry only the older field for the time."""
    second = {"metadata": {}, "eventTime": "2026-11-21T10:00:02.000000Z", "reason": "B", "note": "second"}
    created = {"creationTimestamp": "2026-11-21T10:00:01Z"}
    lines = event_lines([second, {"metadata": created, "reason": "A", "note": "first", "type": "Warning"}])

    assert [(line.reason, line.warning) for line in lines] == [("A", True), ("B", False)]


ENTRY = {"revision": "a", "number": 1, "startedAt": "2026-11-21T10:00:00Z", "finishedAt": "2026-11-21T10:01:00Z",
         "outcome": "Promoted"}  # fmt: skip


def test_history_joins_what_is_kept_with_what_is_told() -> None:
    """A ReplicaSet without a history entry, and an entry without a ReplicaSet, are revisions all the same."""
    status = {"currentRevision": "b", "stableRevision": "b", "history": [ENTRY]}

    rows = history_rows(seen(status, replica_set("b", 2)))

    assert [(row.number, row.revision, row.kept, row.outcome, row.took_s) for row in rows] == [
        (2, "b", True, "", None),
        (1, "a", False, "Promoted", 60.0),
    ]


def test_what_is_under_way_has_no_outcome_yet_and_what_never_served_is_nothing_to_go_back_to() -> None:
    """An undo runs to revision a, whose first update was superseded; revision c never had a pod that was available."""
    ended = [{**ENTRY, "outcome": "Superseded"}, {**ENTRY, "revision": "c", "number": 3, "outcome": "Aborted"}]
    status = {"currentRevision": "a", "stableRevision": "b", "history": ended}

    rows = history_rows(seen(status, *(replica_set(each, number) for number, each in enumerate("abc", 1))))

    told = {row.revision: (row.outcome, row.finished_at_s, row.rollback) for row in rows}
    assert told["a"] == ("", None, False) and told["b"] == ("", None, False)
    assert (told["c"][0], told["c"][2]) == ("Aborted", False)


def test_history_says_who_gave_commands() -> None:
    """Of an update that is under way too; and a field manager is told as what it is."""
    told = {"command": "promote", "by": "alice", "byKind": "User"}
    now = {"command": "abort", "by": "kubectl-annotate", "byKind": "FieldManager"}
    history = [{**ENTRY, "authors": [told]}]
    status = {"currentRevision": "b", "stableRevision": "a", "history": history, "authors": [now]}

    rows = history_rows(seen(status, replica_set("b", 2)))

    assert [row.commands for row in rows] == ["abort by field manager kubectl-annotate", "promote by alice"]


BETA = Traffic(desired_percent=5, desired_routes=("beta",), observed_percent=1)


@pytest.mark.parametrize(
    ("traffic", "words"),
    [
        (None, ""),
        (Traffic(desired_percent=5), ""),
        (Traffic(desired_percent=5, observed_percent=1), ""),
        (Traffic(desired_percent=5, observed_percent=5, verified_by=VerifiedBy.CONFIG), "confirmed (Config)"),
        (BETA, "route beta desired, no route confirmed"),
        (replace(BETA, observed_routes=("beta",)), ""),
        (replace(BETA, observed_routes=("beta",), observed_percent=5), "route beta confirmed"),
        (replace(BETA, desired_routes=(), observed_routes=("beta",)), "no route desired, route beta confirmed"),
    ],
)
def test_beside_the_weights_stands_what_they_do_not_say(traffic: Traffic | None, words: str) -> None:
    """That a weight is on its way is said by the weight itself: `now 1 % canary, wanted 5 %`."""
    assert traffic_words(traffic) == words
