"""Promise: with rights to Deployments the controller's account steps them in place, and can do nothing else to them.

As in test_the_controllers_account_is_fenced.py the account has every right in a namespace, so that only fences refuse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.in_place_intents import CreateInDeployment, LabelReplicaSet, MoveReplicaSet, StepDeployment
from rollouts.core.model.intents import ReleaseWorkload
from rollouts.core.model.revision import canonical_json
from rollouts.core.model.rollout import Canary
from rollouts.core.model.workload import Held, NamedReplicaSet, UpdateFields, WorkloadSeen
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.manifests.in_place import (
    controller_patch,
    deployment_patch,
    disowned,
    label_patch,
    replica_set_in,
    unmarked,
)
from rollouts.manifests.named_workload import release_workload
from rollouts.objects import DEPLOYMENT, REPLICA_SET, ROLLOUT, Kind
from rollouts.ports import JSON_PATCH, MERGE_PATCH
from tests import build
from tests.core.model import world
from tests.lab.chart import FENCED, RELEASE_NAMESPACE, another_account, as_user, every_right, wait_until_fenced
from tests.lab.control_plane import ControlPlane

pytestmark = pytest.mark.controlplane

Object = dict[str, Any]
ACCOUNT = "fenced-in-place"
OF_APP = {"app": "web"}
TEMPLATE: Object = {"metadata": {"labels": OF_APP}, "spec": {"containers": [{"name": "app", "image": "web:1"}]}}
EVIL: Object = {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "evil"}]}}}}
MARKS: Object = {
    "labels": {**OF_APP, "rollouts.dev/managed": "true", "rollouts.dev/hold": "true"},
    "annotations": {"rollouts.dev/managed-by": "web"},
}
TAKEN: Object = {"labels": MARKS["labels"] | {"rollouts.dev/hold": None}}
CONTROLS = {"controller": True, "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u"}
INSIDE: Object = {"labels": {**OF_APP, "rollouts.dev/name": "web"}, "ownerReferences": [CONTROLS]}
UNLABELLED: Object = {"labels": OF_APP, "ownerReferences": [CONTROLS]}
STEP: Object = {
    "paused": True,
    "minReadySeconds": 9,
    "progressDeadlineSeconds": 99,
    "strategy": {"rollingUpdate": {"maxSurge": 1}},
}


def deployment(**metadata: Any) -> Object:
    """One without pods, which a Rollout updates in place."""
    spec = {"replicas": 0, "selector": {"matchLabels": OF_APP}, "template": TEMPLATE}
    return {"metadata": {**MARKS, **metadata}, "spec": spec}


def replica_set(metadata: Object) -> Object:
    """One without pods."""
    # The owner does not exist, and without a finalizer the garbage collector would delete it.
    spec = {"replicas": 0, "selector": {"matchLabels": OF_APP}, "template": TEMPLATE}
    return {"metadata": {**metadata, "finalizers": ["example.com/stays"]}, "spec": spec}


def spec(**fields: Any) -> Object:
    """A merge patch of the spec."""
    return {"spec": fields}


def labels(**values: str | None) -> Object:
    """A merge patch of labels."""
    return {"metadata": {"labels": values}}


FORGED: Mapping[str, tuple[Kind, Object, Object]] = {
    "the image of a held Deployment": (DEPLOYMENT, deployment(), EVIL),
    "a question about a hold that is no dry run": (
        DEPLOYMENT,
        deployment(),
        {"spec": {"template": {"metadata": {"annotations": {"rollouts.dev/hold-question": "1"}}}}},
    ),
    "another strategy": (DEPLOYMENT, deployment(), spec(strategy={"type": "Recreate", "rollingUpdate": None})),
    "how much history it keeps": (DEPLOYMENT, deployment(), spec(revisionHistoryLimit=0)),
    "a step of one that nobody holds": (DEPLOYMENT, deployment(labels=OF_APP), spec(**STEP)),
    "a pause of one that nobody holds": (DEPLOYMENT, deployment(labels=OF_APP), spec(paused=True)),
    "another label": (DEPLOYMENT, deployment(), labels(app="evil")),
    "another annotation": (DEPLOYMENT, deployment(), {"metadata": {"annotations": {"a.b/c": "d"}}}),
    "an owner": (DEPLOYMENT, deployment(), {"metadata": {"ownerReferences": [{**CONTROLS, "name": "evil"}]}}),
    "a finalizer": (DEPLOYMENT, deployment(), {"metadata": {"finalizers": ["example.com/stays"]}}),
    "the image of a ReplicaSet inside": (REPLICA_SET, replica_set(INSIDE), EVIL),
    "another label of a ReplicaSet inside": (REPLICA_SET, replica_set(INSIDE), labels(app="evil")),
    "the finalizer of a ReplicaSet inside": (REPLICA_SET, replica_set(INSIDE), {"metadata": {"finalizers": None}}),
    "a ReplicaSet inside without a controller": (
        REPLICA_SET,
        replica_set(INSIDE),
        {"metadata": {"ownerReferences": None}},
    ),
    "the size of a ReplicaSet that no Rollout steps": (REPLICA_SET, replica_set(UNLABELLED), spec(replicas=1)),
}
"""Objects of a user, and the merge patches of them that the controller never sends."""


@pytest.fixture(scope="module")
def account(control_plane: ControlPlane, controller_kubeconfig: Path) -> Iterator[tuple[httpx.Client, str]]:
    """Writes as an account with the fences for Deployments, in a namespace in which it has every right."""
    assert controller_kubeconfig.exists()
    another_account(control_plane, ACCOUNT, "--set", "workloads={deployments},admission.holds=false")
    user = f"system:serviceaccount:{RELEASE_NAMESPACE}:{ACCOUNT}"
    with control_plane.fresh_namespace(stays=True) as namespace, as_user(control_plane, user) as client:
        control_plane.apply(every_right(user, namespace))
        wait_until_fenced(client, namespace)
        yield client, namespace


def made(plane: ControlPlane, kind: Kind, namespace: str, one: Object, name: str) -> Object:
    """The object as its user has made it."""
    called = {**one, "metadata": {**one["metadata"], "name": name}}
    answer = plane.api.post(kind.path(namespace), json=called).raise_for_status()
    return dict(answer.json())


def patched(
    client: httpx.Client, kind: Kind, namespace: str, name: str, body: Any, form: str = MERGE_PATCH
) -> httpx.Response:
    """The answer to a patch, by the controller's field manager."""
    query, content = {"fieldManager": "rollouts"}, {"Content-Type": form}
    return client.patch(kind.path(namespace, name), params=query, json=body, headers=content)


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_write_is_refused(control_plane: ControlPlane, account: tuple[httpx.Client, str], name: str) -> None:
    """The same write is taken from an administrator: it is not refused for another reason."""
    (kind, there, body), (client, namespace) = FORGED[name], account
    called = re.sub("[^a-z]+", "-", name.lower())
    made(control_plane, kind, namespace, there, called)

    refused = patched(client, kind, namespace, called, body)
    assert (refused.status_code, FENCED in refused.text) == (403, True), refused.text
    taken = patched(control_plane.api, kind, namespace, called, body)
    assert taken.is_success, taken.text


@pytest.mark.parametrize(
    ("kind", "there"), [(DEPLOYMENT, deployment()), (REPLICA_SET, replica_set(INSIDE))], ids=["deployment", "set"]
)
def test_what_a_rollout_updates_in_place_is_not_deleted(
    control_plane: ControlPlane, account: tuple[httpx.Client, str], kind: Kind, there: Object
) -> None:
    """Nor is a Deployment made, or a ReplicaSet inside one that has pods at once."""
    client, namespace = account
    made(control_plane, kind, namespace, there, "stays")
    gone = client.delete(kind.path(namespace, "stays"))
    assert (gone.status_code, FENCED in gone.text) == (403, True), gone.text

    with_pods = {**there, "metadata": {**there["metadata"], "name": "new"}, "spec": {**there["spec"], "replicas": 1}}
    new = client.post(kind.path(namespace), json=with_pods)
    assert (new.status_code, FENCED in new.text) == (403, True), new.text


def _disown(client: httpx.Client, namespace: str, seen: Any) -> None:
    """As the controller does it: it looks again when the Deployment's own controller has written meanwhile."""
    for _ in range(10):
        patch = disowned(seen)
        assert patch is not None
        answer = patched(client, DEPLOYMENT, namespace, "whole", patch, JSON_PATCH)
        if answer.status_code != 422:  # the operations fit only the entries that were seen
            break
        seen = client.get(DEPLOYMENT.path(namespace, "whole")).json()
    assert answer.is_success, answer.text


def test_all_that_the_controller_writes_is_taken(
    control_plane: ControlPlane, controller_kubeconfig: Path, account: tuple[httpx.Client, str]
) -> None:
    """A step and the way back, a ReplicaSet that is made, labelled, given to the Rollout and returned, and the releases.

    The Rollout is there: else the garbage collector would take the ReplicaSet that it owns.
    """
    assert controller_kubeconfig.exists()  # the CRDs are installed
    client, namespace = account
    uid = made(control_plane, DEPLOYMENT, namespace, deployment(), "whole")["metadata"]["uid"]
    there = world(Canary(), revision="abc").rollout
    selector, template = canonical_json({"matchLabels": OF_APP}), canonical_json(TEMPLATE)
    owner = made(control_plane, ROLLOUT, namespace, build.rollout({"canary": {}}), there.name)["metadata"]["uid"]
    rollout = replace(
        there, namespace=namespace, uid=owner, spec=replace(there.spec, selector_json=selector, template_json=template)
    )
    workload = WorkloadSeen(
        kind=WorkloadKind.DEPLOYMENT, name="whole", uid=uid, resource_version="", managed_by="web", watched=True
    )
    own = UpdateFields(max_surge=1, max_unavailable=0, min_ready_s=2, progress_deadline_s=60)
    held = Held(number=1, replicas=0, own=own)
    for paused, fields, note in ((True, own, held), (False, replace(own, max_surge=3), held), (False, own, None)):
        step = StepDeployment(name="whole", uid=uid, resource_version="", paused=paused, fields=fields, held=note)
        answer = patched(client, DEPLOYMENT, namespace, "whole", _unguarded(deployment_patch(step)))
        assert answer.is_success, answer.text
    _disown(client, namespace, answer.json())

    new = replica_set_in(workload, rollout, CreateInDeployment(revision="abc"))
    set_uid = client.post(REPLICA_SET.path(namespace), json=new).raise_for_status().json()["metadata"]["uid"]
    name = new["metadata"]["name"]
    for into in (False, True):
        move = MoveReplicaSet(name=name, uid=set_uid, resource_version="", revision="abc", into=into)
        moved = patched(client, REPLICA_SET, namespace, name, _unguarded(controller_patch(workload, rollout, move)))
        assert moved.is_success, moved.text
    stray = made(control_plane, REPLICA_SET, namespace, replica_set(UNLABELLED), "stray")["metadata"]["uid"]
    assert patched(
        client, REPLICA_SET, namespace, "stray", label_patch(rollout, LabelReplicaSet("stray", stray))
    ).is_success
    assert patched(client, REPLICA_SET, namespace, "stray", unmarked(NamedReplicaSet("stray", stray))).is_success
    release = ReleaseWorkload(
        kind=WorkloadKind.DEPLOYMENT, name="whole", uid=uid, resource_version="", own=own, paused=True
    )
    assert patched(client, DEPLOYMENT, namespace, "whole", _unguarded(release_workload(release))).is_success


def _unguarded(body: Object) -> Object:
    """Without a version: its own controller writes status meanwhile."""
    metadata = {name: part for name, part in body["metadata"].items() if name != "resourceVersion"}
    return {**body, "metadata": metadata}
