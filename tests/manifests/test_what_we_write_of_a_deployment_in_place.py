"""Promise: an update in place writes the fields of the Deployment that it names, and gives back what the user had."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.in_place_intents import CreateInDeployment, LabelReplicaSet, MoveReplicaSet, StepDeployment
from rollouts.core.model.intents import ReleaseWorkload
from rollouts.core.model.revision import canonical_json
from rollouts.core.model.rollout import Canary, Percent, Rollout
from rollouts.core.model.workload import Held, UpdateFields, WorkloadSeen
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.manifests.in_place import (
    controller_patch,
    deployment_patch,
    disowned,
    held_of,
    held_text,
    label_patch,
    limit_of,
    replica_set_in,
)
from rollouts.manifests.json_patch import PatchDoesNotFit, json_patch
from rollouts.manifests.named_workload import release_workload
from tests.core.model import world

TEMPLATE = {"metadata": {"labels": {"app": "cart"}, "annotations": {"note": "mine"}}, "spec": {"containers": []}}
SELECTOR = {"matchLabels": {"app": "cart"}, "matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]}
WORKLOAD = WorkloadSeen(
    kind=WorkloadKind.DEPLOYMENT, name="cart", uid="d-1", resource_version="7", managed_by="carts", watched=True
)
FIELDS = UpdateFields(max_surge=Percent(25), max_unavailable=1, min_ready_s=5, progress_deadline_s=600)
HELD = Held(number=3, replicas=4, own=FIELDS)
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cart", "uid": "d-1"}
CONTROLS = {"controller": True, "blockOwnerDeletion": True}


def _rollout() -> Rollout:
    there = world(Canary(), revision="abc").rollout
    spec = replace(there.spec, selector_json=canonical_json(SELECTOR), template_json=canonical_json(TEMPLATE))
    return replace(there, name="carts", uid="r-1", spec=spec)


def _step(**changes: Any) -> StepDeployment:
    step = StepDeployment(name="cart", uid="d-1", resource_version="7", paused=False, fields=FIELDS, held=HELD)
    return replace(step, **changes)


def test_a_step_is_one_write_of_its_fields_and_the_note() -> None:
    """The uid and the version refuse it if somebody has written in between."""
    assert deployment_patch(_step()) == {
        "metadata": {
            "uid": "d-1",
            "resourceVersion": "7",
            "labels": {"rollouts.dev/own-fields": "s25p.u1.m5.d600"},
            "annotations": {"rollouts.dev/held": '{"number":3,"replicas":4}'},
        },
        "spec": {
            "paused": None,
            "minReadySeconds": 5,
            "progressDeadlineSeconds": 600,
            "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
        },
    }


def test_a_pause_is_written_and_a_field_that_the_user_left_out_is_removed() -> None:
    """The API server fills in the default of what is removed."""
    patch = deployment_patch(_step(paused=True, fields=UpdateFields(), held=None))

    assert patch["spec"] == {
        "paused": True,
        "minReadySeconds": None,
        "progressDeadlineSeconds": None,
        "strategy": {"rollingUpdate": {"maxSurge": None, "maxUnavailable": None}},
    }
    assert patch["metadata"]["annotations"] == {"rollouts.dev/held": None}
    assert patch["metadata"]["labels"] == {"rollouts.dev/own-fields": None}


def test_the_new_replica_set_is_the_deployments_and_has_no_pods() -> None:
    """Its template differs from the Deployment's by one label: that is how the Deployment's controller knows its own new one."""
    hashed = {"app": "cart", "pod-template-hash": "abc"}

    made = replica_set_in(WORKLOAD, _rollout(), CreateInDeployment(revision="abc"))

    assert made == {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": "cart-abc",
            "namespace": "shop",
            "labels": {**hashed, "rollouts.dev/name": "carts"},
            "ownerReferences": [{**DEPLOYMENT, **CONTROLS}],
        },
        "spec": {
            "replicas": 0,
            "selector": {**SELECTOR, "matchLabels": hashed},
            "template": {**TEMPLATE, "metadata": {"labels": hashed, "annotations": {"note": "mine"}}},
        },
    }


def test_one_beside_the_deployment_is_the_rollouts_and_counts_as_the_user_says() -> None:
    """Else it is the same, so that the Deployment can take it over."""
    rollout = _rollout()
    rollout = replace(rollout, spec=replace(rollout.spec, min_ready_s=20))
    made = replica_set_in(WORKLOAD, rollout, CreateInDeployment(revision="abc", beside=True))
    inside = replica_set_in(WORKLOAD, rollout, CreateInDeployment(revision="abc"))

    (owner,) = made["metadata"].pop("ownerReferences")
    assert (owner["kind"], owner["controller"]) == ("Rollout", True)
    assert made["spec"].pop("minReadySeconds") == 20
    assert inside["metadata"].pop("ownerReferences") != [owner]
    assert made == inside


def test_nulls_of_a_template_that_the_api_server_wrote_are_not_written() -> None:
    """Older servers answer with `creationTimestamp: null`; in the canonical JSON of a revision there is none."""
    served = json.loads(canonical_json(TEMPLATE))
    served["metadata"]["creationTimestamp"] = None
    rollout, intent = _rollout(), CreateInDeployment(revision="abc")
    as_served = replace(rollout, spec=replace(rollout.spec, template_json=json.dumps(served).encode()))

    assert replica_set_in(WORKLOAD, as_served, intent) == replica_set_in(WORKLOAD, rollout, intent)


def test_our_label_is_on_the_replica_set_and_not_on_its_pods() -> None:
    """A template with it would be another one than the Deployment's."""
    assert label_patch(_rollout(), LabelReplicaSet("cart-5d", "s-1")) == {
        "metadata": {"uid": "s-1", "labels": {"rollouts.dev/name": "carts"}}
    }


@pytest.mark.parametrize(
    ("into", "owner"),
    [
        (True, DEPLOYMENT),
        (False, {"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "name": "carts", "uid": "r-1"}),
    ],
    ids=["into the Deployment", "out of it"],
)
def test_a_replica_set_that_changes_hands_has_one_owner(into: bool, owner: dict[str, str]) -> None:
    """A merge patch replaces the whole list, so nobody else keeps it."""
    move = MoveReplicaSet(name="cart-abc", uid="s-1", resource_version="9", revision="abc", into=into)

    patch = controller_patch(WORKLOAD, _rollout(), move)

    assert patch["metadata"]["ownerReferences"] == [{**owner, **CONTROLS}]
    assert (patch["metadata"]["uid"], patch["metadata"]["resourceVersion"]) == ("s-1", "9")
    assert patch["metadata"]["labels"] == {"rollouts.dev/name": "carts"}


RELEASE = ReleaseWorkload(kind=WorkloadKind.DEPLOYMENT, name="cart", uid="d-1", resource_version="7")
MARKS = {
    "uid": "d-1",
    "resourceVersion": "7",
    "labels": {"rollouts.dev/managed": None, "rollouts.dev/hold": None, "rollouts.dev/own-fields": None},
    "annotations": {
        "rollouts.dev/managed-by": None,
        "rollouts.dev/scaled-down": None,
        "rollouts.dev/held": None,
        "rollouts.dev/partition": None,
    },
}


def test_a_release_in_an_update_gives_the_fields_back_and_pauses() -> None:
    """With the user's own fields its controller would replace every pod of the stable revision at once."""
    own = UpdateFields(max_surge=Percent(25), progress_deadline_s=600)

    assert release_workload(replace(RELEASE, own=own, paused=True)) == {
        "metadata": MARKS,
        "spec": {
            "paused": True,
            "minReadySeconds": None,
            "progressDeadlineSeconds": 600,
            "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": None}},
        },
    }


def test_a_release_between_updates_ends_the_pause_of_a_hold() -> None:
    """Its own controller rolls out what comes next."""
    assert release_workload(replace(RELEASE, paused=False)) == {"metadata": MARKS, "spec": {"paused": None}}


@pytest.mark.parametrize(
    ("ours", "paused", "becomes"),
    [
        pytest.param({"f:spec": {"f:strategy": {}}}, False, None, id="nothing but the spec"),
        pytest.param({"f:metadata": {}, "f:spec": {"f:strategy": {}}}, False, {"f:metadata": {}}, id="marks stay"),
        pytest.param(
            {"f:spec": {"f:paused": {}, "f:strategy": {}}}, True, {"f:spec": {"f:paused": {}}}, id="a pause stays"
        ),
    ],
)
def test_fields_that_were_given_back_are_owned_no_more(ours: Any, paused: bool, becomes: Any) -> None:
    """The entries of others, also that of a scale of ours, stay; and another write in between makes the patch fail."""
    owned = {"manager": "rollouts", "operation": "Update", "fieldsV1": ours}
    others = [
        {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {}}},
        {**owned, "subresource": "scale"},
    ]
    seen = {"metadata": {"uid": "d-1", "managedFields": [*others, owned]}, "spec": {"paused": paused}}

    patch = disowned(seen)
    assert patch is not None
    applied = json_patch(seen, patch)["metadata"]["managedFields"]
    assert applied == [*others, *([{**owned, "fieldsV1": becomes}] if becomes else [])]
    with pytest.raises(PatchDoesNotFit):
        json_patch({**seen, "metadata": {"uid": "d-1", "managedFields": others}}, patch)
    assert disowned({**seen, "metadata": {"managedFields": applied}}) is None


def test_a_release_between_updates_changes_no_field() -> None:
    """It takes the marks alone."""
    assert release_workload(RELEASE) == {"metadata": MARKS}


OWNS = [
    FIELDS,
    UpdateFields(),
    UpdateFields(max_surge=0, max_unavailable=Percent(0), min_ready_s=0),
    UpdateFields(max_surge=2**31 - 1, max_unavailable=2**31 - 1, min_ready_s=2**31 - 1, progress_deadline_s=2**31 - 1),
    UpdateFields(max_surge=Percent(9_999_999_999), max_unavailable=Percent(100)),
]


@pytest.mark.parametrize("own", OWNS, ids=str)
def test_a_note_is_read_as_it_was_written(own: UpdateFields) -> None:
    """0 is a value; a field that is absent stays absent; and the longest one is a value of a label."""
    held = replace(HELD, own=own, written=own)
    metadata = deployment_patch(_step(held=held))["metadata"]

    assert held_of(metadata["labels"], metadata["annotations"]) == held
    assert re.fullmatch(r"([a-z0-9]([a-z0-9.]{0,61}[a-z0-9])?)?", metadata["labels"]["rollouts.dev/own-fields"])


def test_without_the_label_no_update_is_under_way() -> None:
    """The annotation alone is a copy of an earlier update, which `kubectl rollout undo` brings back from a ReplicaSet."""
    assert held_of({"rollouts.dev/hold": "true"}, {"rollouts.dev/held": held_text(HELD)}) is None


def _noted(**changes: Any) -> str:
    return json.dumps({**json.loads(held_text(HELD)), **changes})


UNREADABLE = {
    "nothing": "",
    "no JSON": "}",
    "a list": "[]",
    "null": "null",
    "a text": '"x"',
    "no number": '{"replicas":4}',
    "no replicas": '{"number":1}',
    "a deep one": "[" * 100_000,
    "a number without an end": '{"number":1' + "0" * 5_000 + ',"replicas":4}',
    "a number below 0": _noted(number=-1),
    "a fraction": _noted(replicas=1.5),
    "a truth": _noted(replicas=True),
    "a text of digits": _noted(number="1"),
    "no infinity": '{"number":Infinity,"replicas":4}',
    "written fields in a list": _noted(written=[1]),
    "written fields in a text": _noted(written="x"),
    "a limit that is no percentage": _noted(written={"maxSurge": "25"}),
    "a limit below 0": _noted(written={"maxSurge": -1}),
    "a limit below 0%": _noted(written={"maxSurge": "-1%"}),
    "a limit in a list": _noted(written={"maxUnavailable": [1]}),
    "a limit that is a truth": _noted(written={"maxUnavailable": True}),
    "a limit that the API server refuses": _noted(written={"maxSurge": 2**31}),
    "seconds that the API server refuses": _noted(written={"minReadySeconds": 2**31}),
    "seconds in a text": _noted(written={"progressDeadlineSeconds": "600"}),
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
def test_an_annotation_that_cannot_be_read_is_one_that_was_lost(text: str) -> None:
    """The update goes on with the user's fields; the next write notes the rest again."""
    labels = {"rollouts.dev/own-fields": "s25p.u1.m5.d600"}

    assert held_of(labels, {"rollouts.dev/held": text}) == held_of(labels, {}) == Held(number=0, replicas=0, own=FIELDS)


NO_FIELDS = (
    "x1",
    "s",
    "s-1",
    "sp",
    "s25pp",
    "s1..u1",
    "25p",
    "m5p",
    "s2147483648",
    "d2147483648",
    "s10000000000000p",
    "s1.u",
)


@pytest.mark.parametrize("text", NO_FIELDS)
def test_a_label_that_cannot_be_read_is_an_error_that_names_it(text: str) -> None:
    """To guess would give a user's Deployment limits that it never had."""
    with pytest.raises(ValueError, match=r"label rollouts\.dev/own-fields cannot be read"):
        held_of({"rollouts.dev/own-fields": text}, {"rollouts.dev/held": held_text(HELD)})


@pytest.mark.parametrize(("text", "limit"), [(None, None), (0, 0), (3, 3), ("0%", Percent(0)), ("150%", Percent(150))])
def test_a_limit_is_a_number_or_a_percentage(text: object, limit: object) -> None:
    """None stands for one that is left out."""
    assert limit_of(text) == limit
