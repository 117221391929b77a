"""What the program reads of Kubernetes objects is right, small, and its own."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from rollouts.cluster.decoding import (
    Decoder,
    decode,
    decode_config,
    decode_route,
    json_object,
    metadata_of,
)
from rollouts.cluster.kept import LAST_APPLIED
from rollouts.cluster.structs import ConfigMapObject, ReplicaSetObject, RolloutObject, WorkloadObject
from rollouts.core.model.revision import POD_TEMPLATE_HASH_LABEL, REVISION_LABEL
from rollouts.errors import ApiUnavailable
from rollouts.objects import CONFIG_MAP, DEPLOYMENT, ENDPOINT_SLICE, POD, REPLICA_SET, ROLLOUT, SERVICE, Kind


def wire(**fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def test_a_rollout_keeps_its_spec_and_status_as_bytes_of_their_own() -> None:
    """A Raw that points into the answer would keep whole watch lines alive: 9 KB a Rollout instead of 4."""
    stored = {"metadata": {"name": "cart"}, "spec": {"replicas": 3}, "status": {"phase": "Healthy"}}
    line = wire(type="ADDED", object=stored)
    references = sys.getrefcount(line)

    rollout = Decoder(RolloutObject).event(line).object

    assert rollout is not None
    assert bytes(rollout.spec) == b'{"replicas":3}'
    assert bytes(rollout.status) == b'{"phase":"Healthy"}'
    assert sys.getrefcount(line) == references


def test_an_absent_status_is_empty_bytes() -> None:
    """A new Rollout has no status; that is not the JSON null."""
    assert bytes(decode(ROLLOUT, wire(metadata={"name": "cart"}, spec={})).status) == b""


def test_kubectls_copy_of_the_manifest_is_dropped() -> None:
    """The annotation doubles the memory of every applied Rollout and is never used."""
    annotations = {LAST_APPLIED: "{}" * 1000, "rollouts.dev/promote": "abc"}
    rollout = decode(ROLLOUT, wire(metadata={"annotations": annotations}))

    assert rollout.metadata.annotations == {"rollouts.dev/promote": "abc"}


def test_labels_that_repeat_are_one_string() -> None:
    """Ten thousand objects carry the same few label values; sharing them saves a quarter of a ReplicaSet's memory."""
    one, two = (decode(SERVICE, wire(metadata={"labels": {"team": "payments-of-the-shop"}})) for _ in range(2))

    assert one.metadata.labels["team"] is two.metadata.labels["team"]


def test_revisions_take_no_place_in_pythons_table_of_shared_texts() -> None:
    """Each update brings one, and the table is made twice as large when it is full: a megabyte, once, after 5,000 updates."""
    labels = {REVISION_LABEL: "of-one-update-alone", POD_TEMPLATE_HASH_LABEL: "of-another", "app": "of-all-updates"}
    kept = decode(SERVICE, wire(metadata={"labels": labels})).metadata.labels

    def shared(text: str) -> bool:
        probe = "".join([*text])
        return sys.intern(probe) is not probe

    found = {key: shared(value) for key, value in kept.items()}
    assert found == {REVISION_LABEL: False, POD_TEMPLATE_HASH_LABEL: False, "app": True}


def test_what_owners_and_workloads_have_in_common_is_kept_once() -> None:
    """A thousand Deployments have one strategy, one namespace and the same counts: sharing them saves a fifth of each."""
    metadata = {"namespace": "of-the-shop", "ownerReferences": [{"apiVersion": "apps/v2", "kind": "Owner"}]}
    spec = {"strategy": {"rollingUpdate": {"maxSurge": "25%"}}}
    status = {"replicas": 2, "currentRevision": ""}
    one, two = (decode(DEPLOYMENT, wire(metadata=metadata, spec=spec, status=status)) for _ in range(2))
    other = decode(DEPLOYMENT, wire(metadata=metadata, spec={"strategy": {"type": "Recreate"}}, status={"replicas": 3}))

    assert one.metadata.namespace is two.metadata.namespace
    assert one.metadata.owner_references[0].kind is two.metadata.owner_references[0].kind
    assert one.metadata.owner_references[0].api_version is two.metadata.owner_references[0].api_version
    assert one.spec.strategy is two.spec.strategy
    assert one.status is two.status
    assert (other.spec.strategy.type, other.status.replicas) == ("Recreate", 3)


def test_the_name_of_a_rollout_is_kept_once() -> None:
    """Its object, its workload, what that is managed by and the owner references of its ReplicaSets have one text."""
    name = "of-the-shop-alone"
    managed = {"name": name, "annotations": {"rollouts.dev/managed-by": name}}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": "u", "controller": True}
    rollout, deployment = (decode(kind, wire(metadata=managed)).metadata for kind in (ROLLOUT, DEPLOYMENT))
    replica_set = decode(REPLICA_SET, wire(metadata={"name": "set", "ownerReferences": [owner]})).metadata

    texts = [deployment.name, deployment.annotations["rollouts.dev/managed-by"], replica_set.owner_references[0].name]
    assert rollout.name == name
    assert all(text is rollout.name for text in texts)


def test_of_a_deployments_replica_set_the_template_is_not_kept() -> None:
    """A decision reads the labels of a template in our ReplicaSets alone, and the grace period in all."""
    template = {"metadata": {"labels": {"app": "cart"}}, "spec": {"terminationGracePeriodSeconds": 60}}

    def template_of(owner: str) -> Any:
        owners = [{"apiVersion": "x/v1", "kind": owner, "name": "cart", "uid": "u", "controller": True}]
        return decode(
            REPLICA_SET, wire(metadata={"name": "set", "ownerReferences": owners}, spec={"template": template})
        ).spec.template

    ours, inside, another = template_of("Rollout"), template_of("Deployment"), template_of("Deployment")
    assert ours.metadata.labels == {"app": "cart"}
    assert inside.metadata.labels is None
    assert [each.spec.termination_grace_period_seconds for each in (ours, inside)] == [60, 60]
    assert another is inside


def test_null_lists_are_accepted() -> None:
    """The API server writes `"endpoints": null` for an empty slice."""
    endpoint_slice = decode(ENDPOINT_SLICE, wire(metadata={"name": "cart-x"}, endpoints=None, ports=None))

    assert endpoint_slice.endpoints is None


def test_endpoints_keep_their_conditions_and_pods() -> None:
    """Which pods of a revision a Service reaches is decided from exactly these."""
    endpoint = {
        "addresses": ["10.0.0.1"],
        "conditions": {"ready": False, "serving": True, "terminating": True},
        "targetRef": {"kind": "Pod", "name": "cart-1", "uid": "u1"},
    }

    (seen,) = decode(ENDPOINT_SLICE, wire(endpoints=[endpoint])).endpoints

    assert (seen.conditions.ready, seen.conditions.serving, seen.conditions.terminating) == (False, True, True)
    assert (seen.target_ref.name, seen.target_ref.uid) == ("cart-1", "u1")


def test_a_replica_sets_numbers_and_template_labels_are_read() -> None:
    """They are what the decision counts."""
    seen = decode(
        REPLICA_SET,
        wire(
            metadata={"ownerReferences": [{"uid": "a"}, {"uid": "b", "controller": True}], "resourceVersion": "12"},
            spec={"replicas": 4, "minReadySeconds": 5, "template": {"metadata": {"labels": {"app": "cart"}}}},
            status={"replicas": 4, "readyReplicas": 3, "availableReplicas": 2, "terminatingReplicas": 1},
        ),
    )

    assert seen.metadata.controller_uid == "b"
    assert seen.metadata.version == 12
    assert (seen.spec.replicas, seen.spec.min_ready_seconds) == (4, 5)
    assert seen.spec.template.metadata.labels == {"app": "cart"}
    assert (seen.status.ready_replicas, seen.status.available_replicas, seen.status.terminating_replicas) == (3, 2, 1)


def test_a_replica_sets_selector_is_kept_only_where_nobody_controls_it() -> None:
    """It tells whether an orphan is ours; ten thousand others need none."""
    owner = {"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "name": "cart", "uid": "u", "controller": True}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "cart"}}}
    line = wire(type="ADDED", object={"metadata": {"name": "cart-a"}, "spec": spec})
    references = sys.getrefcount(line)

    orphan = Decoder(ReplicaSetObject).event(line).object
    controlled = decode(REPLICA_SET, wire(metadata={"name": "cart-a", "ownerReferences": [owner]}, spec=spec))

    assert orphan is not None
    assert bytes(orphan.spec.selector) == b'{"matchLabels":{"app":"cart"}}'
    assert bytes(controlled.spec.selector) == b""
    assert sys.getrefcount(line) == references


def test_a_pod_says_why_it_waits() -> None:
    """`ImagePullBackOff` in a condition is worth more than "not ready"."""
    waits = {"name": "app", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    status = {"phase": "Pending", "containerStatuses": [waits]}

    (container,) = decode(POD, wire(status=status, spec={"containers": []})).status.container_statuses

    assert container.state.waiting.reason == "ImagePullBackOff"


@pytest.mark.parametrize("struct", [RolloutObject, ReplicaSetObject])
@pytest.mark.parametrize("status_first", [True, False])
def test_an_error_event_is_recognised_whatever_its_shape(
    struct: type[RolloutObject | ReplicaSetObject], status_first: bool
) -> None:
    """An ERROR event carries a Status, whose `status` is a string where objects have a struct."""
    said = {"reason": "Expired", "message": "too old", "code": 410}
    status = {"kind": "Status", "metadata": {}, "status": "Failure", **said}
    line = wire(object=status, type="ERROR") if status_first else wire(type="ERROR", object=status)

    event = Decoder(struct).event(line)

    assert event.object is None
    assert event.error is not None
    assert (event.error.code, event.error.reason) == (410, "Expired")


@pytest.mark.parametrize(
    "answer", [b"", b"<html>502</html>", b'{"type":"ADDED","object":{"metadata":{"na', b'"\xff"', b"[]"]
)
def test_an_answer_that_cannot_be_read_is_no_answer(answer: bytes) -> None:
    """A proxy's page or a cut-off object says nothing about the cluster, and must not crash a watch."""
    decoder = Decoder(ReplicaSetObject)

    for read in (decoder.event, decoder.object, decoder.page, metadata_of):
        with pytest.raises(ApiUnavailable):
            read(answer)


def test_a_route_of_any_kind_is_its_metadata_and_bytes() -> None:
    """Only its codec knows what is in it; a Raw that points into the answer would keep the whole of it alive."""
    answer = wire(
        metadata={"name": "cart", "resourceVersion": "7", "annotations": {LAST_APPLIED: "{}", "note": "x"}},
        spec={"rules": []},
        status={"parents": []},
    )
    references = sys.getrefcount(answer)

    route = decode_route(answer)

    assert (bytes(route.spec), bytes(route.status)) == (b'{"rules":[]}', b'{"parents":[]}')
    assert (route.metadata.version, route.metadata.annotations) == (7, {"note": "x"})
    assert sys.getrefcount(answer) == references
    assert bytes(decode_route(wire(metadata={"name": "cart"})).status) == b""


MANAGED = [
    {"manager": "argocd-controller", "operation": "Apply", "time": "2026-11-21T09:00:00Z",
     "fieldsV1": {"f:metadata": {"f:annotations": {"f:rollouts.dev/promote": {}, "f:team": {}}}, "f:spec": {"f:replicas": {}}}},
    {"manager": "kubectl-annotate", "operation": "Update", "time": "2026-11-21T10:00:00Z",
     "fieldsV1": {"f:metadata": {"f:annotations": {".": {}, "f:rollouts.dev/promote": {}}}}},
    {"manager": "rollouts-controller", "operation": "Update", "subresource": "status", "time": "2026-11-21T11:00:00Z",
     "fieldsV1": {"f:status": {}}},
]  # fmt: skip


def test_who_set_a_command_is_kept_and_the_rest_of_managed_fields_is_not() -> None:
    """It is larger than the spec, and all that is told of it is who gave a command; the last one of several."""
    annotations = {"rollouts.dev/promote": "abc", "team": "shop"}
    rollout = decode(ROLLOUT, wire(metadata={"annotations": annotations, "managedFields": MANAGED}))

    assert rollout.metadata.annotators == {"rollouts.dev/promote": "kubectl-annotate"}
    assert bytes(rollout.metadata.managed_fields) == b""


def test_managed_fields_are_not_read_without_a_command() -> None:
    """Ten thousand Rollouts have none."""
    rollout = decode(ROLLOUT, wire(metadata={"annotations": {"team": "shop"}, "managedFields": MANAGED}))

    assert rollout.metadata.annotators is None


@pytest.mark.parametrize("managed", [[{"manager": 3}], "text", [{"fieldsV1": {"f:metadata": []}}], [[[]]]])
def test_managed_fields_that_cannot_be_read_name_nobody(managed: Any) -> None:
    """Who it was is told to people; nothing depends on it."""
    rollout = decode(ROLLOUT, wire(metadata={"annotations": {"rollouts.dev/abort": "b"}, "managedFields": managed}))

    assert rollout.metadata.annotators == {}


def config_map(*times: str, created: str | None = "2026-11-20T09:00:00Z", **metadata: Any) -> bytes:
    """The metadata of a ConfigMap that managers wrote at those times."""
    managed = [{"manager": "helm", "time": each, "fieldsV1": {"f:data": {"f:a": {}}}} for each in times]
    own = {"name": "settings", "namespace": "shop", "uid": "u", "resourceVersion": "7"}
    dated = {} if created is None else {"creationTimestamp": created}
    return wire(metadata={**own, **dated, "managedFields": managed, **metadata})


@pytest.mark.parametrize(
    ("times", "created", "changed_at"),
    [
        (("2026-11-20T09:00:00Z",), "2026-11-20T09:00:00Z", "2026-11-20T09:00:00Z"),
        (("2026-11-22T10:00:00Z", "2026-11-21T09:59:59Z"), "2026-11-20T09:00:00Z", "2026-11-22T10:00:00Z"),
        (("", "2026-11-21T09:00:00Z"), "2026-11-20T09:00:00Z", "2026-11-21T09:00:00Z"),
        ((), "2026-11-20T09:00:00Z", "2026-11-20T09:00:00Z"),
        (("2026-11-21T09:00:00Z",), None, "2026-11-21T09:00:00Z"),
        ((), None, None),
    ],
    ids=["never", "by one of two", "without a time", "nobody managed it", "not created", "nothing known"],
)
def test_a_config_map_says_when_it_last_changed(
    times: tuple[str, ...], created: str | None, changed_at: str | None
) -> None:
    """Changes close together are one revision, so somebody waits until the last one is some seconds old."""
    seen = decode(CONFIG_MAP, config_map(*times, created=created))

    assert seen.metadata.changed_at == changed_at
    assert seen.metadata.managed_fields is None


def test_of_a_config_map_only_what_is_ours_is_kept() -> None:
    """A cluster has tens of thousands that nobody asks about: their labels, annotations and data would fill the memory."""
    owner = {"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "name": "cart", "uid": "r", "controller": True}
    labels = {"rollouts.dev/name": "cart", "app": "cart"}
    annotations = {"rollouts.dev/content": "abc", LAST_APPLIED: "{}", "note": "x"}
    copy = decode(CONFIG_MAP, config_map(labels=labels, annotations=annotations, ownerReferences=[owner]))
    foreign = decode(CONFIG_MAP, config_map(labels={"app": "cart"}, annotations={"note": "x"}))

    assert copy.metadata.labels == {"rollouts.dev/name": "cart"}
    assert copy.metadata.annotations == {"rollouts.dev/content": "abc"}
    assert (copy.metadata.controller_uid, copy.metadata.version) == ("r", 7)
    assert (foreign.metadata.labels, foreign.metadata.annotations) == (None, None)


@pytest.mark.parametrize("kind", [DEPLOYMENT, REPLICA_SET, SERVICE, ENDPOINT_SLICE], ids=lambda kind: kind.plural)
def test_annotations_that_nobody_reads_are_not_kept(kind: Kind) -> None:
    """They are a third of a ReplicaSet that a Deployment's controller made, and change with each of its updates."""
    read = {"rollouts.dev/held": "a", "rollouts.kruise.io/b": "c", "deployment.kubernetes.io/revision": "1"}
    unread = {LAST_APPLIED: "{}", "deployment.kubernetes.io/desired-replicas": "2", "note": "x"}
    one = decode(kind, wire(metadata={"name": "cart", "annotations": read | unread}))
    other = decode(kind, wire(metadata={"name": "till", "annotations": unread}))

    assert one.metadata.annotations == read
    assert other.metadata.annotations is None


def test_workloads_at_rest_have_one_set_of_labels() -> None:
    """Those that are read are the same for all; an update in place and a ReplicaSet have labels of their own."""
    ours = {"rollouts.dev/managed": "true", "rollouts.dev/hold": "true"}
    one, two = (decode(DEPLOYMENT, wire(metadata={"name": name, "labels": {"app": name} | ours})) for name in "ab")
    updated = decode(DEPLOYMENT, wire(metadata={"name": "c", "labels": ours | {"rollouts.dev/own-fields": "s1"}}))
    listed = Decoder(WorkloadObject).object(wire(metadata={"name": "d", "labels": {POD_TEMPLATE_HASH_LABEL: "f"}}))

    assert one.metadata.labels == ours
    assert one.metadata.labels is two.metadata.labels
    assert updated.metadata.labels == ours | {"rollouts.dev/own-fields": "s1"}
    assert listed.metadata.labels == {POD_TEMPLATE_HASH_LABEL: "f"}


def test_config_maps_share_what_they_have_in_common() -> None:
    """Thousands are in one namespace, and most never changed: 600 bytes each instead of 750."""
    one, two = (decode(CONFIG_MAP, config_map("2026-11-20T09:00:00Z")).metadata for _ in range(2))

    assert one.namespace is two.namespace
    assert one.changed_at is one.creation_timestamp


def test_the_bookmark_of_a_list_of_config_maps_keeps_its_mark() -> None:
    """It is an annotation that is not ours, and says that the list is complete."""
    mark = {"metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}}

    event = Decoder(ConfigMapObject).event(wire(type="BOOKMARK", object=mark))

    assert event.object is not None
    assert event.object.metadata.annotations == {"k8s.io/initial-events-end": "true"}


def test_the_content_of_a_config_map_is_bytes_of_its_own() -> None:
    """It is hashed and copied as it is; nothing of the answer stays in memory with it."""
    answer = wire(metadata={"name": "a", "uid": "u"}, data={"k": "größe <&>"}, binaryData={"b": "AAE="}, immutable=True)
    references = sys.getrefcount(answer)

    content = decode_config(answer)

    assert json_object(content.data) == {"k": "größe <&>"}
    assert json_object(content.binary_data) == {"b": "AAE="}
    assert (content.immutable, content.metadata.uid, content.type) == (True, "u", "")
    assert sys.getrefcount(answer) == references


def test_an_absent_content_is_empty() -> None:
    """A ConfigMap without data, and a Secret, which says its type."""
    content = decode_config(wire(metadata={"name": "a"}, type="Opaque", data=None))

    assert (json_object(content.data), json_object(content.binary_data)) == ({}, {})
    assert (content.immutable, content.type) == (False, "Opaque")
