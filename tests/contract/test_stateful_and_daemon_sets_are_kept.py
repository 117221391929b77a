"""Promise: StatefulSets, DaemonSets, their revisions and claims get the same defaults and refusals from both servers."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.objects import CONTROLLER_REVISION, DAEMON_SET, STATEFUL_SET, Kind, Manifest
from rollouts.ports import MERGE_PATCH
from rollouts.sim.storage.registry import CLAIM
from tests import build
from tests.contract.conversation import Conversation

CLAIM_SPEC: Manifest = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
DATA: Manifest = {"metadata": {"name": "data"}, "spec": {**CLAIM_SPEC, "storageClassName": "none"}}
ROLLING = "RollingUpdate"


def workload(**spec: Any) -> Manifest:
    """One of either kind that gets no pods: nobody has the node that they name."""
    usual: Manifest = {"selector": {"matchLabels": {"app": "db"}}, "template": template()}
    return {"metadata": {"name": "db"}, "spec": {**usual, **spec}}


def template(**pod: Any) -> Manifest:
    return build.pod_template("db", image="app:1", nodeSelector={"nobody": "has"}, **pod)


def strategy(kind: str | None = None, **rolling: Any) -> Manifest:
    return {"updateStrategy": {**({"type": kind} if kind else {}), **({"rollingUpdate": rolling} if rolling else {})}}


ALL_RETAINED = {"whenDeleted": "Retain", "whenScaled": "Retain"}
USUAL: dict[Kind, Manifest] = {
    STATEFUL_SET: {
        "replicas": 1,
        "podManagementPolicy": "OrderedReady",
        "persistentVolumeClaimRetentionPolicy": ALL_RETAINED,
        "revisionHistoryLimit": 10,
    },
    DAEMON_SET: {"revisionHistoryLimit": 10},
}


@pytest.mark.parametrize(
    ("kind", "given", "filled"),
    [
        (STATEFUL_SET, {}, strategy(ROLLING, partition=0)),
        (STATEFUL_SET, strategy(ROLLING), strategy(ROLLING)),
        (STATEFUL_SET, strategy("OnDelete"), strategy("OnDelete")),
        (STATEFUL_SET, strategy(maxUnavailable=2), strategy(ROLLING, partition=0)),
        (STATEFUL_SET, strategy(ROLLING, partition=2, maxUnavailable="50%"), strategy(ROLLING, partition=2)),
        (
            STATEFUL_SET,
            {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}},
            {
                **strategy(ROLLING, partition=0),
                "persistentVolumeClaimRetentionPolicy": {**ALL_RETAINED, "whenScaled": "Delete"},
            },
        ),
        (DAEMON_SET, {}, strategy(ROLLING, maxSurge=0, maxUnavailable=1)),
        (DAEMON_SET, strategy("OnDelete"), strategy("OnDelete")),
        (DAEMON_SET, strategy(ROLLING, maxSurge=1, maxUnavailable=0), strategy(ROLLING, maxSurge=1, maxUnavailable=0)),
    ],
)
async def test_they_get_defaults(api: Conversation, kind: Kind, given: Manifest, filled: Manifest) -> None:
    """What was there before a step is put back after it, so what the server fills in must be known."""
    made = await api.made(kind, workload(**given))

    spec = {name: value for name, value in made["spec"].items() if name not in ("selector", "template", "serviceName")}
    assert spec == {**USUAL[kind], **filled}
    assert made["metadata"]["generation"] == 1


async def test_a_claim_template_gets_defaults(api: Conversation) -> None:
    """They are immutable, so one without them would look changed."""
    made = await api.made(STATEFUL_SET, workload(volumeClaimTemplates=[DATA]))

    (claim,) = made["spec"]["volumeClaimTemplates"]
    assert {name: claim[name] for name in ("apiVersion", "kind", "status")} == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "status": {"phase": "Pending"},
    }
    assert claim["spec"] == {**DATA["spec"], "volumeMode": "Filesystem"}


INVALID, FORBIDDEN, UNSUPPORTED, REQUIRED = (
    f"FieldValue{name}" for name in ("Invalid", "Forbidden", "NotSupported", "Required")
)
NO_MODES = {**DATA, "spec": {**DATA["spec"], "accessModes": []}}
ODD_RETENTION = {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Keep"}}


@pytest.mark.parametrize(
    ("kind", "given", "cause"),
    [
        (STATEFUL_SET, {"replicas": -1}, (INVALID, "spec.replicas")),
        (STATEFUL_SET, {"minReadySeconds": -1}, (INVALID, "spec.minReadySeconds")),
        (STATEFUL_SET, {"ordinals": {"start": -1}}, (INVALID, "spec.ordinals.start")),
        (STATEFUL_SET, {"podManagementPolicy": "Wild"}, (INVALID, "spec.podManagementPolicy")),
        (STATEFUL_SET, strategy("Recreate"), (INVALID, "spec.updateStrategy")),
        (STATEFUL_SET, strategy("OnDelete", partition=1), (INVALID, "spec.updateStrategy.rollingUpdate")),
        (STATEFUL_SET, strategy(ROLLING, partition=-1), (INVALID, "spec.updateStrategy.rollingUpdate.partition")),
        (STATEFUL_SET, ODD_RETENTION, (UNSUPPORTED, "spec.persistentVolumeClaimRetentionPolicy.whenScaled")),
        (
            STATEFUL_SET,
            {"volumeClaimTemplates": [NO_MODES]},
            (REQUIRED, "spec.volumeClaimTemplates[0].spec.accessModes"),
        ),
        (
            STATEFUL_SET,
            {"template": template(restartPolicy="Never")},
            (UNSUPPORTED, "spec.template.spec.restartPolicy"),
        ),
        (STATEFUL_SET, {"selector": {"matchLabels": {"app": "x"}}}, (INVALID, "spec.template.metadata.labels")),
        (STATEFUL_SET, {"selector": {}}, (INVALID, "spec.selector")),
        (DAEMON_SET, {"minReadySeconds": -1}, (INVALID, "spec.minReadySeconds")),
        (DAEMON_SET, {"template": template(restartPolicy="Never")}, (UNSUPPORTED, "spec.template.spec.restartPolicy")),
        (DAEMON_SET, {"selector": {"matchLabels": {"app": "x"}}}, (INVALID, "spec.template.metadata.labels")),
        (
            DAEMON_SET,
            strategy(ROLLING, maxSurge=1, maxUnavailable=1),
            (INVALID, "spec.updateStrategy.rollingUpdate.maxSurge"),
        ),
        (
            DAEMON_SET,
            strategy(ROLLING, maxSurge="0%", maxUnavailable=0),
            (REQUIRED, "spec.updateStrategy.rollingUpdate.maxUnavailable"),
        ),
        (
            DAEMON_SET,
            strategy(ROLLING, maxUnavailable=-1),
            (INVALID, "spec.updateStrategy.rollingUpdate.maxUnavailable"),
        ),
        (
            DAEMON_SET,
            strategy(ROLLING, maxUnavailable="150%"),
            (INVALID, "spec.updateStrategy.rollingUpdate.maxUnavailable"),
        ),
        (DAEMON_SET, strategy("Recreate"), (UNSUPPORTED, "spec.updateStrategy")),
    ],
)
async def test_what_is_wrong_is_refused(api: Conversation, kind: Kind, given: Manifest, cause: tuple[str, str]) -> None:
    """A step that writes something like it must fail in the simulation, too."""
    answer = await api.create(kind, workload(**given))

    assert answer.status == 422, answer.body
    assert cause in answer.causes


@pytest.mark.parametrize(
    ("kind", "change", "cause"),
    [
        (
            STATEFUL_SET,
            {"replicas": 0, "minReadySeconds": 3, "ordinals": {"start": 2}, "revisionHistoryLimit": 2},
            None,
        ),
        (STATEFUL_SET, strategy("OnDelete") | {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}, None),
        (STATEFUL_SET, {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}, None),
        (STATEFUL_SET, {"serviceName": "other"}, (FORBIDDEN, "spec")),
        (STATEFUL_SET, {"podManagementPolicy": "Parallel"}, (FORBIDDEN, "spec")),
        (STATEFUL_SET, {"volumeClaimTemplates": []}, (FORBIDDEN, "spec")),
        (STATEFUL_SET, {"selector": {"matchLabels": {"tier": "x"}}}, (FORBIDDEN, "spec")),
        (DAEMON_SET, {"minReadySeconds": 3}, None),
        (
            DAEMON_SET,
            {"selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}},
            (INVALID, "spec.selector"),
        ),
    ],
)
async def test_some_fields_cannot_be_changed(
    api: Conversation, kind: Kind, change: Manifest, cause: tuple[str, str] | None
) -> None:
    """Claim templates above all: a bigger disk takes another StatefulSet."""
    await api.made(kind, workload(**({"volumeClaimTemplates": [DATA]} if kind == STATEFUL_SET else {})))

    answer = await api.patch(kind, "db", {"spec": change}, MERGE_PATCH)

    assert answer.status == (422 if cause else 200), answer.body
    assert cause is None or cause in answer.causes


async def test_a_revision_keeps_its_data(api: Conversation) -> None:
    """Only its number and its labels change."""
    made = await api.made(
        CONTROLLER_REVISION, {"metadata": {"name": "db-1"}, "revision": 1, "data": {"spec": {"a": 1}}}
    )

    # By PUT: the real server compares bytes, and a patch leaves out the spaces that this test's JSON has.
    numbered = await api.put(CONTROLLER_REVISION, "db-1", {**made, "revision": 4})
    changed = await api.put(CONTROLLER_REVISION, "db-1", {**numbered.body, "data": {"spec": {"a": 2}}})
    empty = await api.create(CONTROLLER_REVISION, {"metadata": {"name": "db-2"}, "revision": 1})

    assert numbered.status == 200, numbered.body
    assert (numbered.body["revision"], "generation" in numbered.metadata) == (4, False)
    assert (changed.status, changed.causes) == (422, [(INVALID, "data")])
    assert (empty.status, empty.causes) == (422, [(REQUIRED, "data")])


async def test_a_claim_keeps_its_spec(api: Conversation) -> None:
    """Nobody makes a volume of this class, so the claim stays unbound; even its size is fixed until it is bound."""
    metadata = {"name": "disk", "annotations": {"sim.rollouts.dev/unbound": "true"}}
    spec = {**CLAIM_SPEC, "storageClassName": "none"}
    made = await api.made(CLAIM, {"metadata": metadata, "spec": spec})

    bigger = await api.patch(CLAIM, "disk", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}, MERGE_PATCH)
    other = await api.patch(CLAIM, "disk", {"spec": {"accessModes": ["ReadOnlyMany"]}}, MERGE_PATCH)
    labelled = await api.patch(CLAIM, "disk", {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH)
    incomplete = await api.create(CLAIM, {"metadata": {"name": "none"}, "spec": {}})

    assert made["spec"] == {**spec, "volumeMode": "Filesystem"}
    assert (made["status"], made["metadata"]["finalizers"]) == ({"phase": "Pending"}, ["kubernetes.io/pvc-protection"])
    assert [(each.status, each.causes) for each in (bigger, other)] == [(422, [(FORBIDDEN, "spec")])] * 2
    assert labelled.status == 200
    assert incomplete.causes == [(REQUIRED, "spec.accessModes"), (REQUIRED, "spec.resources[storage]")]
