"""Observe: store and inbox to core values, nothing guessed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from rollouts.cluster.decoding import UnreadableObject, decode
from rollouts.cluster.structs import PodObject, ReplicaSetObject
from rollouts.controller.observe.observer import Gone, Seen, Unreadable
from rollouts.controller.observe.pods import pod_of, pod_page, pods_of_workload, pods_seen
from rollouts.controller.observe.replica_sets import labels_on_record, replica_set_seen
from rollouts.controller.workqueue.inbox import ServiceAnswer
from rollouts.core.model.frozen import replace
from rollouts.core.model.service_traits import PLAIN, ServiceTraits, read_traits
from rollouts.core.model.snapshot import Pod, ReplicaSet, ServiceAbsent, ServiceSeen, ServiceUnasked, Snapshot
from rollouts.manifests.ownership import REVISION
from rollouts.objects import REPLICA_SET, SERVICE, Key
from rollouts.sim.clock import EPOCH_S
from tests.controller.world import CART, World, metadata, obj, owned, replica_set, rollout, service, slice_of, spec_of
from tests.typed import misfit

pytestmark = pytest.mark.virtual_time

SPEC = {**spec_of(), "strategy": {"blueGreen": {"activeService": "web"}}}


@pytest.fixture
def world(world: World) -> World:
    """With a Rollout that can be carried out."""
    world.rollouts.put("", rollout(spec=SPEC))
    return world


def snapshot(world: World) -> Snapshot:
    """What is observed of Rollout cart, which can be carried out."""
    seen = world.observer().observe(CART)
    assert isinstance(seen, Seen)
    assert misfit(seen.snapshot, Snapshot) == ""
    return seen.snapshot


async def test_no_rollout_is_gone(world: World) -> None:
    """A key may outlive its object."""
    assert world.observer().observe(Key("shop", "gone")) == Gone()


async def test_a_spec_that_cannot_be_read_is_a_value(world: World) -> None:
    """A user's mistake is no exception: status, and nothing else, is written about it."""
    world.rollouts.put("", rollout(version=2, spec={"replicas": -1}, status={"stableRevision": "v1"}))
    seen = world.observer().observe(CART)

    assert isinstance(seen, Unreadable)
    assert seen.snapshot.status.stable_revision == "v1"
    assert "spec.replicas" in [problem.path for problem in seen.problems]


LIES = (
    {"name": "other"},
    {"kind": "Deployment"},
    {"apiVersion": "apps/v1"},
    {"apiVersion": "rollouts.development/v1"},
    {"controller": False},
    {"uid": "of an earlier Rollout of the name"},
)


@pytest.mark.parametrize(
    ("meta", "stops"),
    [
        ({}, True),
        ({"labels": {}}, True),
        ({"ownerReferences": None}, True),
        ({"ownerReferences": owned(uid="another")}, False),
        ({"ownerReferences": None, "labels": {"rollouts.dev/name": "other"}}, False),
    ],
    ids=["ours", "ours, without its label", "nobody's, with our label", "another Rollout's", "nobody's"],
)
async def test_a_replica_set_that_cannot_be_read_stops_the_rollout_that_may_own_it(
    meta: dict[str, Any], stops: bool, world: World
) -> None:
    """It may have pods; a pass that took it for none would make it again."""
    world.rollouts.put("", rollout(version=2, spec=SPEC))
    world.replica_sets.put_unreadable("", UnreadableObject(replica_set(**meta).metadata, "it has more than 8 MiB"))

    seen = world.observer().observe(CART)

    assert isinstance(seen, Seen)
    assert (seen.trouble is not None) is stops


@pytest.mark.parametrize(
    "metadata", [*({"ownerReferences": [{**owned()[0], **lie}]} for lie in LIES), {"namespace": "mallory"}], ids=str
)
async def test_a_replica_set_whose_owner_reference_lies_is_nobodys(metadata: dict[str, Any], world: World) -> None:
    """All of it has to be true, not its uid alone, which whoever may read the Rollout knows; and it is of one namespace."""
    world.replica_sets.put("", replica_set("cart-v1", **metadata))
    assert snapshot(world).replica_sets == ()


async def test_a_replica_set_has_the_grace_period_with_which_it_was_admitted(world: World) -> None:
    """A policy may cap it on the way: what was asked for is in the spec, what its pods get is here."""
    capped = {"template": {"spec": {"terminationGracePeriodSeconds": 20}}}
    labels = {"rollouts.dev/name": "cart", "rollouts.dev/revision": "v1"}
    meta = metadata("cart-v1", version=1, ownerReferences=owned(), labels=labels)
    world.replica_sets.put("", obj(REPLICA_SET, {"metadata": meta, "spec": capped}))
    world.replica_sets.put("", replica_set("cart-v2"))
    assert [each.grace_s for each in sorted(snapshot(world).replica_sets, key=lambda each: each.name)] == [20, None]


async def test_a_replica_set_is_stale_until_its_controller_has_seen_its_spec(world: World) -> None:
    """Counts of the size before are no evidence about the size that was asked for."""
    status = {"observedGeneration": 1, "replicas": 3, "readyReplicas": 2, "availableReplicas": 1}
    failed = [{"type": "ReplicaFailure", "status": "True", "message": "quota"}]
    world.replica_sets.put("", replica_set("cart-v1", generation=2, status=status))
    world.replica_sets.put("", replica_set("cart-v2", status=status | {"conditions": failed}))
    stale, failing = sorted(snapshot(world).replica_sets, key=lambda each: each.name)

    assert (stale.observed, stale.replicas, stale.ready, stale.available) == (False, 3, 2, 1)
    assert (failing.observed, failing.failure) == (True, "quota")


@pytest.mark.parametrize(
    ("answer", "expected"), [(None, ServiceUnasked("web")), (ServiceAnswer(None, 0.0), ServiceAbsent("web", EPOCH_S))]
)
async def test_a_service_that_is_not_watched_is_known_only_by_asking(
    answer: ServiceAnswer | None, expected: ServiceUnasked | ServiceAbsent, world: World
) -> None:
    """Not to be in our filtered watch is not to be absent."""
    if answer is not None:
        world.inbox.put_service(CART, "web", answer)
    assert snapshot(world).services == {"web": expected}


async def test_ready_endpoints_are_counted_once_a_pod_and_by_revision(world: World) -> None:
    """A dual-stack Service has two slices with the same pods; pods of nobody count as strangers."""
    selector: dict[str, Any] = {"rollouts.dev/revision": "v2"}
    web = service("web", managed_by="cart", **selector)
    world.replica_sets.put("", replica_set("cart-v1"))
    world.replica_sets.put("", replica_set("cart-v2"))
    world.services.put("", web)
    world.managed.learn(None, web)
    pods = ("cart-v1-abcde", "cart-v2-fghij", "cart-v2-klmno", "cart-v2-else-pqrst")
    world.slices.put("", slice_of("web", *pods, name="web-ipv4"))
    world.slices.put("", slice_of("web", *pods, name="web-ipv6"))
    seen = snapshot(world).services["web"]

    assert isinstance(seen, ServiceSeen)
    assert (seen.revision, seen.managed_by, seen.watched, seen.selects_template) == ("v2", "cart", True, True)
    assert seen.ready_by_revision == {"v1": 1, "v2": 2, "": 1}


BENDING = {
    "selector": {"app": "cart"},
    "type": "NodePort",
    "clusterIP": "None",
    "publishNotReadyAddresses": True,
    "internalTrafficPolicy": "Local",
    "externalTrafficPolicy": "Local",
    "trafficDistribution": "PreferClose",
    "sessionAffinity": "ClientIP",
    "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
}
BENT = ServiceTraits(
    type="NodePort",
    headless=True,
    publish_not_ready_addresses=True,
    internal_traffic_policy="Local",
    external_traffic_policy="Local",
    traffic_distribution="PreferClose",
    client_ip_s=60,
)


@pytest.mark.parametrize(
    ("fields", "traits"), [(BENDING, BENT), ({"selector": {"app": "cart"}}, PLAIN)], ids=["all", "none"]
)
async def test_the_fields_that_bend_traffic_are_seen_as_a_manifest_has_them(
    world: World, fields: dict[str, Any], traits: ServiceTraits
) -> None:
    """`rollouts plan` reads them from a manifest: a condition that said something else would be one too many."""
    world.services.put("", obj(SERVICE, {"metadata": metadata("web"), "spec": fields}))
    seen = snapshot(world).services["web"]

    assert isinstance(seen, ServiceSeen)
    assert seen.traits == read_traits(fields) == traits


async def test_a_service_that_we_steer_is_seen_though_the_spec_no_longer_names_it(world: World) -> None:
    """It has to be given back."""
    old = service("old", managed_by="cart")
    world.services.put("", old)
    world.managed.learn(None, old)
    assert set(snapshot(world).services) == {"web", "old"}


async def test_a_selector_that_does_not_match_the_template_is_seen(world: World) -> None:
    """Steering it would take it away from the pods that it was made for."""
    world.services.put("", service("web", managed_by="cart", tier="front"))
    seen = snapshot(world).services["web"]

    assert isinstance(seen, ServiceSeen)
    assert (seen.selects_template, seen.has_selector) == (False, True)


OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "cart-a", "uid": "uid-a", "controller": True}


def _pod(
    name: str, *, owner: dict[str, Any] | None = OWNER, phase: str = "Running", revision: str = "a"
) -> dict[str, Any]:
    labels = {"app": "cart"} | ({REVISION: revision} if revision else {})
    metadata = {"namespace": "shop", "name": name, "uid": f"uid-{name}", "resourceVersion": "1", "labels": labels}
    return {"metadata": {**metadata, "ownerReferences": [owner] if owner else []}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("0/3 nodes: pod has unbound immediate PersistentVolumeClaims", " (data-db-2, wal-db-2)"),
        ('persistentvolumeclaim "data-db-2" not found', " (data-db-2, wal-db-2)"),
        ("0/3 nodes: insufficient cpu", ""),
    ],
)
def test_a_pod_that_waits_for_its_volumes_names_its_claims(message: str, problem: str) -> None:
    """The controller may not look at claims; whoever reads the status can."""
    claims = [{"name": name, "persistentVolumeClaim": {"claimName": f"{name}-db-2"}} for name in ("data", "wal")]
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    pod = _pod("db-2") | {"spec": {"volumes": [*claims, {"name": "tmp", "emptyDir": {}}]}}
    pod["status"] = {"phase": "Pending", "conditions": [condition]}
    page = {"metadata": {"resourceVersion": "1"}, "items": [pod]}

    seen = pods_of_workload(pod_page(msgspec.json.encode(page)).items, str(OWNER["uid"]), at_s=7.0)

    assert [(each.problem, each.claims) for each in seen.pods] == [
        (f"Unschedulable: {message}{problem}", ("data-db-2", "wal-db-2"))
    ]


@pytest.mark.parametrize(
    ("other", "ours", "unowned"),
    [
        (_pod("x", owner={**OWNER, "name": "cart-x", "uid": "uid-x"}), ["mine"], 1),
        (_pod("x", owner={**OWNER, "uid": "an earlier one of that name"}), ["mine"], 1),
        (_pod("x", owner=None), ["mine"], 1),
        (_pod("x", owner=None, phase="Succeeded"), ["mine"], 0),
        (_pod("x", owner=None, revision=""), ["mine"], 0),
        (_pod("x"), ["mine", "x"], 0),
    ],
)
def test_a_running_pod_without_a_replica_set_is_counted(other: dict[str, Any], ours: list[str], unowned: int) -> None:
    """It is neither touched nor taken for a pod of a revision; its copy of a ConfigMap must stay."""
    page = {"metadata": {"resourceVersion": "1"}, "items": [_pod("mine"), other]}
    meta = {"namespace": "shop", "name": "cart-a", "uid": "uid-a", "resourceVersion": "1"}
    owner = obj(REPLICA_SET, {"metadata": meta, "spec": {}})

    seen = pods_seen(pod_page(msgspec.json.encode(page)).items, (owner,), at_s=7.0)

    assert seen.unowned == unowned
    assert [each.name for each in seen.pods] == ours


CREATED, CREATED_S = "2026-09-21T14:13:20Z", 1_790_000_000.0
META: dict[str, Any] = {"name": "cart", "namespace": "shop", "uid": "u-1", "resourceVersion": "7", "generation": 3}


def test_a_replica_set_is_what_its_object_says() -> None:
    """The number of a surge is never more than its pods; only a failure that is true is one."""
    failures = [
        {"type": "Other", "status": "True", "message": "no"},
        {"type": "ReplicaFailure", "status": "False", "message": "was"},
        {"type": "ReplicaFailure", "status": "True", "message": "quota"},
    ]
    status = {
        "replicas": 5, "readyReplicas": 4, "availableReplicas": 3, "terminatingReplicas": 2, "observedGeneration": 3,
        "conditions": failures,
    }  # fmt: skip
    labels = {"rollouts.dev/revision": "v1"}
    meta = META | {"creationTimestamp": CREATED, "labels": labels, "annotations": None}
    template = {"metadata": {"labels": {"app": "cart"}}, "spec": {"terminationGracePeriodSeconds": 40}}
    of = {"replicas": 6, "minReadySeconds": 9, "template": template}
    found: ReplicaSetObject = decode(REPLICA_SET, json.dumps({"metadata": meta, "spec": of, "status": status}).encode())

    bare = replica_set_seen(found)
    wanted = ReplicaSet(
        name="cart", uid="u-1", resource_version="7", revision="v1", number=bare.number, created_at_s=CREATED_S,
        spec_replicas=6, replicas=5, ready=4, available=3, terminating=2, observed=True, min_ready_s=9,
        pods_carry_metadata=bare.pods_carry_metadata, injection=bare.injection, grace_s=40, failure="quota",
        config=bare.config,
    )  # fmt: skip
    assert bare == wanted
    assert replica_set_seen(found, inside=True) == replace(wanted, inside=True)
    meta |= {"deletionTimestamp": CREATED, "generation": 4, "annotations": {"rollouts.dev/restart-surge": "9"}}
    changed: ReplicaSetObject = decode(
        REPLICA_SET, json.dumps({"metadata": meta, "spec": of, "status": status}).encode()
    )
    assert replica_set_seen(changed) == replace(wanted, deleting=True, observed=False, restart_surge=6)
    assert labels_on_record([found], "v1") == {"app": "cart"}
    assert labels_on_record([found], "v2") == {}


def test_a_pod_is_what_its_object_says() -> None:
    """When it is ready it has no problem, and says since when."""
    ready = [{"type": "Ready", "status": "True", "lastTransitionTime": CREATED}]
    waiting = [{"state": {"waiting": {"reason": "CrashLoopBackOff", "message": "x" * 300}}}]
    meta: dict[str, Any] = {
        "name": "cart-1", "uid": "u-2", "resourceVersion": "8", "creationTimestamp": CREATED,
        "labels": {"rollouts.dev/revision": "v1"}, "annotations": {"a": "b"},
    }  # fmt: skip
    of = {"nodeName": "n1", "volumes": [{"persistentVolumeClaim": {"claimName": "data"}}, {"emptyDir": {}}]}

    def seen(**changes: Any) -> Pod:
        status = {"conditions": ready, "containerStatuses": waiting}
        wire = {"metadata": meta, "spec": of, "status": status} | changes
        return pod_of(msgspec.json.decode(json.dumps(wire), type=PodObject))

    wanted = Pod(
        name="cart-1", uid="u-2", revision="v1", created_at_s=CREATED_S, ready=True, deleting=False,
        ready_since_s=CREATED_S, resource_version="8", node="n1", claims=("data",), labels=meta["labels"],
        annotations={"a": "b"},
    )  # fmt: skip
    assert seen() == wanted
    crashes = replace(wanted, ready=False, ready_since_s=None, problem=f"CrashLoopBackOff: {'x' * 300}"[:300])
    assert seen(status={"containerStatuses": waiting}) == crashes
    failed = {"phase": "Failed", "reason": "Evicted", "message": "disk", "containerStatuses": waiting}
    assert seen(status=failed).problem == "Evicted: disk"
    assert seen(status={"phase": "Failed"}).problem == "Failed"
    bare = seen(metadata={"name": "a", "uid": "b", "deletionTimestamp": CREATED}, spec={}, status={})
    assert bare == Pod(
        name="a", uid="b", revision="", created_at_s=0.0, ready=False, deleting=True, resource_version="0"
    )
