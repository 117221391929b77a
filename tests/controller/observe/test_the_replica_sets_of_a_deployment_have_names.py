"""Promise: an update in place knows each ReplicaSet of its Deployment, whoever made it, before anything is decided."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from rollouts.cluster.decoding import Decoder
from rollouts.cluster.structs import ReplicaSetObject, WorkloadObject
from rollouts.controller.observe.in_place import rolled_out_revision, sets_answer, sets_inside, strays, template_hash_of
from rollouts.controller.observe.workloads import workload_seen
from rollouts.core.model.workload import NamedReplicaSet
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.manifests.ownership import OWN_FIELDS
from tests import build

UID = "uid-of-cart"


def _deployment(image: str = "web:1", **labels: str) -> WorkloadObject:
    spec = {"replicas": 4, "template": build.pod_template("cart", image=image)}
    metadata = {"name": "cart", "namespace": "shop", "uid": UID, "labels": labels}
    return msgspec.json.decode(json.dumps({"metadata": metadata, "spec": spec}), type=WorkloadObject)


def _manifest(name: str, image: str, *, size: int = 0, owner: str = UID, kind: str = "Deployment") -> dict[str, Any]:
    """As the Deployment's controller makes it: its template has one label more."""
    template = build.pod_template("cart", image=image)
    template["metadata"]["labels"]["pod-template-hash"] = name
    owners = [{"apiVersion": "apps/v1", "kind": kind, "name": "cart", "uid": owner, "controller": True}]
    labels = {"pod-template-hash": name}
    metadata = {"name": f"cart-{name}", "uid": f"uid-{name}", "labels": labels, "ownerReferences": owners}
    return {"metadata": metadata, "spec": {"replicas": size, "template": template}}


def _listed(*manifests: dict[str, Any]) -> list[WorkloadObject]:
    decoder = Decoder(WorkloadObject)
    return [decoder.object(json.dumps(each).encode()) for each in manifests]


@pytest.mark.parametrize(
    ("sets", "revision", "unseen"),
    [
        ([("old", "web:0", 0), ("native", "web:1", 4)], "native", ["uid-native"]),
        ([("old", "web:0", 2)], "", ["uid-old"]),
        ([("old", "web:0", 0)], "", []),
        ([], "", []),
    ],
    ids=["the one of its template", "another one with pods", "another one without pods", "none"],
)
def test_a_list_names_the_one_with_the_template_and_all_with_pods(
    sets: list[tuple[str, str, int]], revision: str, unseen: list[str]
) -> None:
    """Old ones without pods need no watch."""
    listed = _listed(*(_manifest(name, image, size=size) for name, image, size in sets))
    answer = sets_answer(_deployment(), listed, rollout_uid="u-rollout", asked_s=0.0)

    assert (answer.revision, [stray.uid for stray in answer.sets]) == (revision, unseen)


def test_what_another_deployment_controls_does_not_count() -> None:
    """Its selector may find the same labels, and anybody may write an owner of that name."""
    others = (_manifest("a", "web:1", size=4, owner="another"), _manifest("b", "web:1", size=4, kind="Rollout"))

    assert sets_answer(_deployment(), _listed(*others), rollout_uid="u-rollout", asked_s=0.0).sets == ()


def test_one_that_the_rollout_controls_beside_the_deployment_names_the_revision() -> None:
    """After a promotion the Rollout has the first ReplicaSet, whose name the Deployment's controller gave; a revert finds it."""
    taken = _manifest("native", "web:1", size=4, owner="u-rollout", kind="Rollout")
    answer = sets_answer(_deployment(), _listed(taken), rollout_uid="u-rollout", asked_s=0.0)

    assert (answer.revision, answer.sets) == ("native", ())


def test_nothing_is_decided_before_all_are_watched() -> None:
    """A view without one of them shows fewer pods than there are."""
    deployment = _deployment()
    seen, its_hash = workload_seen(WorkloadKind.DEPLOYMENT, deployment), template_hash_of(deployment)
    answer = sets_answer(
        deployment, _listed(_manifest("native", "web:1", size=4)), rollout_uid="u-rollout", asked_s=0.0
    )
    watched = sets_inside(
        [Decoder(ReplicaSetObject).object(json.dumps(_manifest("native", "web:1", size=4)).encode())], seen
    )

    assert strays(its_hash, seen, (), None) == ("", None)
    assert strays(its_hash, seen, (), answer) == ("", (NamedReplicaSet("cart-native", "uid-native"),))
    assert strays(its_hash, seen, watched, answer) == ("native", ())


def test_a_list_from_before_the_hold_says_nothing_about_what_was_made_since() -> None:
    """Without the policy the Deployment's controller may have made the ReplicaSet meanwhile."""
    held = workload_seen(WorkloadKind.DEPLOYMENT, _deployment(**{OWN_FIELDS: "m5"}))
    before = sets_answer(_deployment(), (), rollout_uid="u-rollout", asked_s=0.0)

    assert strays(template_hash_of(_deployment()), held, (), before) == ("", None)


@pytest.mark.parametrize(
    ("status", "numbers", "changes", "revision"),
    [
        ({}, ("3", "3"), {}, "native"),
        ({"replicas": 2, "updatedReplicas": 2}, ("3", "3"), {}, "native"),
        ({}, ("3", "2"), {}, ""),
        ({}, ("", ""), {}, ""),
        ({"updatedReplicas": 3}, ("3", "3"), {}, ""),
        ({"updatedReplicas": 0}, ("3", "3"), {}, ""),
        ({"replicas": 0, "updatedReplicas": 0}, ("3", "3"), {}, ""),
        ({"observedGeneration": 6}, ("3", "3"), {}, ""),
        ({}, ("3", "3"), {"labels": {OWN_FIELDS: "m5"}}, ""),
        ({}, ("3", "3"), {"uid": "another"}, ""),
    ],
    ids=[
        "at rest", "while it is scaled", "a view of another time", "no number", "some pods are old", "a template that is paused",
        "no pods", "a spec that was not seen", "in an update", "that of another Deployment",
    ],
)  # fmt: skip
def test_at_rest_the_number_of_the_deployments_controller_names_the_one_with_all_pods(
    status: dict[str, int], numbers: tuple[str, str], changes: dict[str, Any], revision: str
) -> None:
    """So a controller that starts lists no ReplicaSets of a Deployment that has none but this with pods."""
    noted, its_own = ({"deployment.kubernetes.io/revision": number} if number else {} for number in numbers)
    manifest = json.loads(msgspec.json.encode(_deployment()))
    manifest["metadata"] |= {"generation": 7, "annotations": noted, **changes}
    manifest["status"] = {"observedGeneration": 7, "replicas": 4, "updatedReplicas": 4, **status}
    (deployment,) = _listed(manifest)
    manifest = _manifest("native", "web:1", size=4)
    manifest["metadata"]["annotations"] = its_own
    watched = Decoder(ReplicaSetObject).object(json.dumps(manifest).encode())

    seen = workload_seen(WorkloadKind.DEPLOYMENT, deployment)
    assert rolled_out_revision(deployment, seen, [watched]) == revision
    assert rolled_out_revision(deployment, seen, []) == ""
