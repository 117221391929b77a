"""Promise: what decisions read of a workload, and what an update in place makes of it, is what its object says."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from rollouts.cluster.store import Store
from rollouts.cluster.structs import ControllerRevisionObject, ReplicaSetObject, WorkloadObject
from rollouts.controller.observe.in_place import is_held, revisions_answer, spec_in_place, template_hash_of
from rollouts.controller.observe.workloads import (
    WorkloadLook,
    WorkloadReader,
    gives_the_same,
    template_of,
    workload_seen,
)
from rollouts.controller.workqueue.inbox import Inbox, RevisionsAnswer, SetsAnswer, WorkloadAnswer
from rollouts.controller.workqueue.managed import ManagedNames
from rollouts.core.model.frozen import replace
from rollouts.core.model.nodes import ChosenNodes, DaemonSetSeen, HeldNodes, NodeRevision, NodeUpdate, OwnType
from rollouts.core.model.rollout import BlueGreen, Canary, Percent, Rollout
from rollouts.core.model.snapshot import PodsSeen, Snapshot
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.workload import (
    NO_POD,
    DeploymentSeen,
    Held,
    HoldSeen,
    NamedReplicaSet,
    PartitionFields,
    PartitionHeld,
    ReferencedWorkload,
    ScaledDown,
    StatefulSetSeen,
    UpdateFields,
    WorkloadAbsent,
    WorkloadForbidden,
    WorkloadSeen,
    WorkloadUnasked,
)
from rollouts.core.model.workload_ref import WORKLOAD_RESOURCES, NamedWorkload, WorkloadKind, WorkloadMode
from rollouts.objects import REPLICA_SET, Key, Kind
from rollouts.sim.clock import EPOCH_S, SimClock
from tests import build
from tests.controller.world import parsed
from tests.core.model import spec

CART = Key("shop", "cart")
DEPLOYMENT, STATEFUL_SET, DAEMON_SET = WorkloadKind.DEPLOYMENT, WorkloadKind.STATEFUL_SET, WorkloadKind.DAEMON_SET
TEMPLATE = build.pod_template("cart", image="web:1")
CREATED, CREATED_S = "2026-09-21T14:13:20Z", 1_790_000_000.0
LABELS = {"rollouts.dev/managed": "true", "rollouts.dev/hold": "true"}
META: dict[str, Any] = {
    "name": "cart", "namespace": "shop", "uid": "u-1", "resourceVersion": "7", "generation": 3, "labels": LABELS,
    "annotations": {"rollouts.dev/managed-by": "cart", "rollouts.dev/scaled-down": '{"own":4,"to":1}'},
}  # fmt: skip
SEEN = WorkloadSeen(
    kind=DEPLOYMENT, name="cart", uid="u-1", resource_version="7", managed_by="cart", watched=True, observed=True,
    scaled_down=ScaledDown(4, 1),
)  # fmt: skip


def _workload(spec: Any = None, status: Any = None, **metadata: Any) -> WorkloadObject:
    """With the metadata of a managed one, `None` for a field that is not there, and the pod template."""
    meta = {name: value for name, value in (META | metadata).items() if value is not None}
    wire = {"metadata": meta, "spec": {"template": TEMPLATE} | (spec or {}), "status": status or {}}
    return msgspec.json.decode(json.dumps(wire), type=WorkloadObject)


def _held(note: Any) -> dict[str, Any]:
    return {"annotations": META["annotations"] | {"rollouts.dev/held": json.dumps(note)}}


def _own(text: str) -> dict[str, Any]:
    return {"labels": META["labels"] | {"rollouts.dev/own-fields": text}}


ROLLED: dict[str, Any] = {"observedGeneration": 3, "replicas": 4, "updatedReplicas": 4, "availableReplicas": 2}
LIMITS = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 2}}
FIELDS = UpdateFields(max_surge=Percent(25), max_unavailable=2, min_ready_s=9, progress_deadline_s=600)
DEPLOYED = DeploymentSeen(paused=False, by_recreate=False, fields=FIELDS, holds=True, updated=4, rolled_out=True)
OF_DEPLOYMENT = {"replicas": 4, "strategy": LIMITS, "minReadySeconds": 9, "progressDeadlineSeconds": 600}
OF_STATEFUL_SET = {
    "replicas": 5, "minReadySeconds": 9, "podManagementPolicy": "Parallel", "ordinals": {"start": 2},
    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 3, "maxUnavailable": "40%"}},
}  # fmt: skip
COUNTS = {"replicas": 5, "readyReplicas": 4, "currentReplicas": 3, "updatedReplicas": 2, "availableReplicas": 1}
STATEFUL = StatefulSetSeen(
    fields=PartitionFields(partition=3), max_unavailable=Percent(40), min_ready_s=9, ordered=False, start=2,
    current_revision="old", update_revision="new", pods=5, ready=4, current=3, updated=2, holds=True,
)  # fmt: skip
NODES = {
    "desiredNumberScheduled": 7, "currentNumberScheduled": 6, "updatedNumberScheduled": 2, "numberReady": 5,
    "numberAvailable": 4, "observedGeneration": 2, "replicas": 9, "availableReplicas": 9,
}  # fmt: skip
AGAIN = (
    "write it again, with your manifest's maxSurge, maxUnavailable, minReadySeconds and progressDeadlineSeconds after s, u, m "
    "and d (p for per cent, nothing for defaults): kubectl label deployment cart -n shop --overwrite "
    "rollouts.dev/own-fields=s25p.u25p"
)
LOST = Held(number=0, replicas=0, own=UpdateFields())


@pytest.mark.parametrize(
    ("kind", "workload", "seen"),
    [
        (DEPLOYMENT, _workload(OF_DEPLOYMENT, ROLLED), replace(SEEN, replicas=4, available=2, in_place=DEPLOYED)),
        (DEPLOYMENT, _workload({"replicas": 4, "paused": True, "strategy": {"type": "Recreate"}},
            ROLLED | {"observedGeneration": 2}, labels=None, annotations=None, deletionTimestamp=CREATED),
            replace(SEEN, replicas=4, available=2, managed_by="", watched=False, observed=False, deleting=True,
                scaled_down=None, in_place=DeploymentSeen(paused=True, by_recreate=True, fields=UpdateFields(), updated=4))),
        (DEPLOYMENT, _workload(OF_DEPLOYMENT, ROLLED | {"replicas": 5}),
            replace(SEEN, replicas=4, available=2, in_place=replace(DEPLOYED, rolled_out=False))),
        (DEPLOYMENT, _workload(OF_DEPLOYMENT, ROLLED | {"updatedReplicas": 3}),
            replace(SEEN, replicas=4, available=2, in_place=replace(DEPLOYED, updated=3, rolled_out=False))),
        (DEPLOYMENT, _workload(OF_DEPLOYMENT | {"replicas": 5}, ROLLED),
            replace(SEEN, replicas=5, available=2, in_place=replace(DEPLOYED, rolled_out=False))),
        (DEPLOYMENT, _workload(OF_DEPLOYMENT, ROLLED, **_held({"number": 2, "replicas": 3}), **_own("s1")),
            replace(SEEN, replicas=4, available=2, scaled_down=ScaledDown(4, 1),
                in_place=replace(DEPLOYED, held=Held(number=2, replicas=3, own=UpdateFields(max_surge=1))))),
        (DEPLOYMENT, _workload(OF_DEPLOYMENT, ROLLED, **_held({"number": 2, "replicas": 3})),
            replace(SEEN, replicas=4, available=2, in_place=replace(DEPLOYED, note_is_copied=True))),
        (DEPLOYMENT, _workload(OF_DEPLOYMENT, ROLLED, **_own("nonsense")),
            replace(SEEN, replicas=4, available=2, in_place=replace(DEPLOYED, held=replace(LOST, own=FIELDS)),
                problem="label rollouts.dev/own-fields cannot be read: 'nonsense' is none of s, u, m and d with a number; "
                f"{AGAIN}")),
        (DEPLOYMENT, _workload(OF_DEPLOYMENT | {"minReadySeconds": 2_147_483_646}, ROLLED, **_held({})),
            replace(SEEN, replicas=4, available=2,
                in_place=replace(DEPLOYED, fields=replace(FIELDS, min_ready_s=2_147_483_646), held=LOST),
                problem=f"label rollouts.dev/own-fields is missing; {AGAIN}")),
        (DEPLOYMENT, _workload({"strategy": {"rollingUpdate": {"maxSurge": "some"}}}, {"observedGeneration": 3}),
            replace(SEEN, replicas=1, problem="'some' is neither a number nor a percentage; repair it")),
        (STATEFUL_SET, _workload(OF_STATEFUL_SET,
            COUNTS | {"currentRevision": "old", "updateRevision": "new", "observedGeneration": 3}),
            replace(SEEN, kind=STATEFUL_SET, replicas=5, available=1, in_place=STATEFUL)),
        (STATEFUL_SET, _workload({"updateStrategy": {"type": "OnDelete"}}, labels=None,
            annotations={"rollouts.dev/partition": "4"} | _held({"number": 2, "replicas": 3, "partition": 1, "own":
            {"type": "OnDelete"}})["annotations"]),
            replace(SEEN, kind=STATEFUL_SET, replicas=1, watched=False, observed=False, in_place=StatefulSetSeen(
                fields=PartitionFields(on_delete=True), replaced=PartitionFields(partition=4),
                held=PartitionHeld(number=2, replicas=3, partition=1, own=PartitionFields(on_delete=True))))),
        (DAEMON_SET, _workload({"replicas": 3, "minReadySeconds": 9, "updateStrategy": LIMITS}, NODES,
            **_held({"number": 4, "own": {"type": "OnDelete"}})),
            replace(SEEN, kind=DAEMON_SET, replicas=7, available=4, observed=False, in_place=DaemonSetSeen(
                update=NodeUpdate(on_delete=False, max_unavailable=2, max_surge=Percent(25)), current=6, updated=2, ready=5,
                available=4, min_ready_s=9, holds=True, held=HeldNodes(number=4, own=OwnType(on_delete=True))))),
        (DAEMON_SET, _workload({"updateStrategy": {"type": "OnDelete"}}, NODES | {"observedGeneration": 4}, labels={}),
            replace(SEEN, kind=DAEMON_SET, replicas=7, available=4, watched=False, in_place=DaemonSetSeen(
                update=NodeUpdate(on_delete=True), current=6, updated=2, ready=5, available=4))),
        (WorkloadKind.REPLICA_SET, _workload({"replicas": 6}, {"availableReplicas": 5, "observedGeneration": 2}),
            replace(SEEN, kind=WorkloadKind.REPLICA_SET, replicas=6, available=5, observed=False)),
        (WorkloadKind.POD_TEMPLATE, _workload({"replicas": 6}),
            replace(SEEN, kind=WorkloadKind.POD_TEMPLATE, problem="it has no pod template")),
        (WorkloadKind.REPLICA_SET, _workload({"template": {}}),
            replace(SEEN, kind=WorkloadKind.REPLICA_SET, replicas=1, observed=False, problem="it has no pod template")),
        (WorkloadKind.REPLICA_SET, _workload(labels={"rollouts.kruise.io/x": ""}, generation=0),
            replace(SEEN, kind=WorkloadKind.REPLICA_SET, replicas=1, watched=False,
                problem="OpenKruise Rollouts manages it (rollouts.kruise.io/x): delete its Rollout first")),
        (WorkloadKind.REPLICA_SET, _workload(generation=0, ownerReferences=[
            {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1"},
            {"apiVersion": "flagger.app/v1beta1", "kind": "Canary", "name": "web", "uid": "2"}]),
            replace(SEEN, kind=WorkloadKind.REPLICA_SET, replicas=1,
                problem="Flagger's Canary web owns it: delete that first, or name another ReplicaSet")),
        (DEPLOYMENT, _workload({"strategy": {"rollingUpdate": {"maxSurge": -1}}, "template": None}, {"observedGeneration": 3}),
            replace(SEEN, replicas=1, problem="it has no pod template")),
    ],
)  # fmt: skip
def test_a_workload_is_what_its_object_says(kind: WorkloadKind, workload: WorkloadObject, seen: WorkloadSeen) -> None:
    """With the reason why it cannot be used, where it cannot."""
    assert workload_seen(kind, workload) == seen
    assert workload_seen(kind, workload, read_at_s=5.0) == replace(seen, read_at_s=5.0)


def test_a_template_comes_with_the_selector_beside_it() -> None:
    """A PodTemplate has none, and its template stands elsewhere."""
    selector = {"matchLabels": {"app": "cart"}}
    of_spec, of_template = _workload({"selector": selector}), _workload({"template": {}})
    of_template = msgspec.json.decode(json.dumps({"metadata": META, "template": TEMPLATE}), type=WorkloadObject)

    found, other = template_of(of_spec), template_of(of_template)

    assert found is not None
    assert other is not None
    assert (found.template, found.selector) == (TEMPLATE, selector)
    assert (other.template, other.selector) == (TEMPLATE, None)
    assert template_of(_workload({"template": None})) is None


def test_a_spec_is_parsed_again_for_another_template_or_selector_alone() -> None:
    """Whatever else of the workload has changed."""
    selector = {"matchLabels": {"app": "cart"}}
    known = _workload({"selector": selector})
    assert gives_the_same(known, _workload({"selector": selector, "replicas": 7, "paused": True}))
    others = [{"selector": {}}, {"selector": selector, "template": {}}, {"selector": TEMPLATE, "template": selector}]
    assert not any(gives_the_same(known, other) for other in (None, *map(_workload, others)))
    assert [gives_the_same(None, known), gives_the_same(None, None)] == [False, True]


IN_PLACE = NamedWorkload(kind=DEPLOYMENT, name="cart", mode=WorkloadMode.IN_PLACE)
ON_NODES = replace(IN_PLACE, kind=DAEMON_SET)


class Reading:
    """A reader over a store with all kinds of workloads; `unseen` are kinds that cannot be watched."""

    def __init__(self) -> None:
        self.clock = SimClock(asyncio.get_running_loop())
        self.store = Store(clock=self.clock)
        for kind in WORKLOAD_RESOURCES:
            self.store.add(kind, WorkloadObject)
        self.store.add(REPLICA_SET, ReplicaSetObject, by_owner=True)
        self.inbox = Inbox(clock=self.clock)
        self.managed = {kind: ManagedNames() for kind in WORKLOAD_RESOURCES}
        self.unseen: dict[tuple[Kind, str], str] = {}
        why = lambda kind, namespace: self.unseen.get((kind, namespace), "")  # noqa: E731
        self.reader = WorkloadReader(self.store, self.inbox, self.managed, why)

    def watched(self, kind: WorkloadKind, workload: WorkloadObject) -> None:
        self.managed[kind.resource].learn(None, workload)
        self.store.table(kind.resource).put("", workload)

    def workload(self, reference: NamedWorkload = IN_PLACE) -> Any:
        return self.reader.workload(CART, reference, now_s=EPOCH_S)

    def look(self, reference: NamedWorkload, strategy: Any = None) -> WorkloadLook:
        of = spec(strategy or Canary(), revision="h", workload_ref=reference)
        return self.reader.in_place(CART, of, (), now_s=EPOCH_S)

    def observed(self, reference: NamedWorkload | None, look: WorkloadLook | None = None) -> Snapshot:
        of = spec(Canary(), revision="h", workload_ref=reference)
        rollout: Rollout = replace(parsed(), spec=of)
        before = Snapshot(now_s=EPOCH_S, rollout=rollout, status=RolloutStatus(), pods=PodsSeen(at_s=1.0, pods=()))
        return self.reader.observed(before, look or WorkloadLook(spec=of, replica_sets=()))

    def hold(self) -> Any:
        return getattr(self.observed(IN_PLACE).workload, "hold", "unseen")


pytestmark = pytest.mark.virtual_time


async def test_a_workload_that_is_not_watched_is_known_by_asking() -> None:
    """The answer says how old it is; a kind that cannot be watched is not asked for."""
    reading = Reading()
    answer = WorkloadAnswer(kind=DEPLOYMENT, name="cart", asked_s=reading.clock.monotonic_s() - 4)
    there = _workload(OF_DEPLOYMENT, ROLLED)
    assert reading.workload() == WorkloadUnasked()

    reading.inbox.put_workload(CART, answer)
    assert reading.workload() == WorkloadAbsent(EPOCH_S - 4)
    assert reading.reader.found(CART, IN_PLACE) is None
    reading.inbox.put_workload(CART, replace(answer, forbidden="no"))
    assert reading.workload() == WorkloadForbidden("no", EPOCH_S - 4)
    reading.inbox.put_workload(CART, replace(answer, workload=there))
    seen = replace(SEEN, replicas=4, available=2, in_place=DEPLOYED, read_at_s=EPOCH_S - 4)
    assert reading.workload() == seen
    assert reading.reader.found(CART, IN_PLACE) == there

    reading.unseen = {(DEPLOYMENT.resource, "shop"): "name it"}
    assert reading.workload() == WorkloadForbidden("name it")
    reading.watched(DEPLOYMENT, there)
    assert reading.workload() == replace(seen, read_at_s=None)
    assert reading.reader.found(CART, IN_PLACE) == there


async def test_nothing_is_noted_of_a_watched_workload_that_names_its_rollout() -> None:
    """Its annotation wakes the Rollout. Until a watch shows that, any change of what the Rollout names wakes it."""
    reading, there = Reading(), _workload(OF_DEPLOYMENT, ROLLED)

    def noted(workload: ReferencedWorkload | None, reference: NamedWorkload | None = IN_PLACE) -> frozenset[Key]:
        reading.reader.follow(CART, reference, workload)
        return reading.inbox.workload_askers.of(("shop", "cart"))

    assert noted(reading.workload()) == {CART}
    assert noted(None, reference=None) == frozenset()
    reading.inbox.put_workload(CART, WorkloadAnswer(kind=DEPLOYMENT, name="cart", asked_s=0.0, workload=there))
    assert noted(workload_seen(DEPLOYMENT, there, read_at_s=EPOCH_S)) == {CART}
    reading.watched(DEPLOYMENT, there)
    assert noted(reading.workload()) == frozenset()
    assert noted(replace(reading.workload(), managed_by="till")) == {CART}


async def test_what_holds_others_of_the_namespace_holds_one_of_which_nothing_was_asked() -> None:
    """An answer of its own counts more, and so does a pause of its own."""
    reading, yes, holds = Reading(), HoldSeen(at_s=EPOCH_S, works=True), []
    reading.inbox.put_policy("shop", DEPLOYMENT, yes)
    for version, rests in enumerate(({}, {"paused": True}, {}), 1):
        reading.watched(DEPLOYMENT, _workload(OF_DEPLOYMENT | rests, ROLLED, resourceVersion=str(version)))
        holds.append(reading.hold())
    reading.inbox.put_hold(CART, META["uid"], replace(yes, works=False))
    assert (*holds, reading.hold()) == (yes, None, yes, replace(yes, works=False))


RECREATE = "its strategy is Recreate, which has no steps: make it RollingUpdate, or use mode: Template"
SURGES = "its updateStrategy has maxSurge, and batches of nodes replace a pod in its place: set maxUnavailable instead"
UNHELD = {"labels": {"rollouts.dev/managed": "true"}}
SURGE: dict[str, Any] = {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}


@pytest.mark.parametrize(
    ("kind", "workload", "watched", "problem"),
    [
        (DEPLOYMENT, _workload(), True, ""),
        (DEPLOYMENT, _workload(**UNHELD), False, ""),
        (DEPLOYMENT, _workload({"strategy": {"type": "Recreate"}}), True, RECREATE),
        (DEPLOYMENT, _workload({"strategy": {"type": "Recreate"}, "template": {}}), True, "it has no pod template"),
        (DAEMON_SET, _workload(), True, ""),
        (DAEMON_SET, _workload(SURGE), True, SURGES),
        (DAEMON_SET, _workload(SURGE | {"template": {}}), True, "it has no pod template"),
    ],
)
async def test_in_place_a_workload_counts_as_marked_when_the_policy_knows_it(
    kind: WorkloadKind, workload: WorkloadObject, watched: bool, problem: str
) -> None:
    """And one whose own controller has no steps is refused; by its template alone each of them can be used."""
    reading = Reading()
    reading.watched(kind, workload)
    seen = reading.workload(replace(IN_PLACE, kind=kind))

    assert (seen.watched, seen.problem) == (watched, problem)
    by_template = reading.workload(NamedWorkload(kind=kind, name="cart"))
    assert by_template == workload_seen(kind, workload)


async def test_those_that_the_rollout_still_manages_are_seen_beside_the_one_it_names() -> None:
    """Each is to be released; what others manage is not seen."""
    reading = Reading()
    other = _workload(name="other", uid="u-2")
    of_another = _workload(name="third", annotations={"rollouts.dev/managed-by": "web"})
    for workload in (_workload(OF_DEPLOYMENT, ROLLED), other, of_another):
        reading.watched(DEPLOYMENT, workload)
    reading.inbox.put_hold(CART, "u-1", HoldSeen(at_s=1.0, works=True))
    look = replace(reading.look(IN_PLACE), unseen=None)

    left = workload_seen(DEPLOYMENT, other)
    seen = replace(SEEN, replicas=4, available=2, in_place=DEPLOYED)
    found = reading.observed(IN_PLACE, look)
    assert found.left_workloads == (left,)
    assert found.workload == replace(seen, template_hash="h", hold=HoldSeen(at_s=1.0, works=True), strays=None)
    assert found.pods == PodsSeen(at_s=1.0, pods=())
    assert reading.observed(None).left_workloads == (seen, left)
    assert reading.observed(None).workload is None
    assert Reading().observed(None).left_workloads == ()
    pods = PodsSeen(at_s=2.0, pods=())
    assert reading.observed(IN_PLACE, replace(look, pods=pods)).pods == pods


async def test_the_spec_of_a_deployment_in_place_waits_for_the_name_of_its_template() -> None:
    """Of a workload that is watched, an answer about its ReplicaSets says it; of none that is only read anything is said."""
    reading, there = Reading(), _workload(OF_DEPLOYMENT, ROLLED)
    template_hash = template_hash_of(there)
    plain = WorkloadLook(spec=spec(Canary(), revision="h", workload_ref=IN_PLACE), replica_sets=())
    by_template = NamedWorkload(kind=DEPLOYMENT, name="cart")
    sets = SetsAnswer(asked_s=0.0, template_hash="h", held=False, revision="native", sets=())
    assert reading.look(IN_PLACE) == plain
    reading.inbox.put_workload(CART, WorkloadAnswer(kind=DEPLOYMENT, name="cart", asked_s=0.0, workload=there))
    reading.inbox.put_sets(CART, sets)
    seen = workload_seen(DEPLOYMENT, there)
    unknown = replace(plain, spec=spec_in_place(plain.spec, seen, revision=""), unseen=None)
    assert reading.look(IN_PLACE) == unknown

    reading.watched(DEPLOYMENT, there)
    assert reading.look(IN_PLACE) == replace(plain, spec=spec_in_place(plain.spec, seen, revision="native"))
    assert reading.look(by_template).spec == spec(Canary(), revision="h", workload_ref=by_template)
    stray = NamedReplicaSet("a", "u-a")
    reading.inbox.put_sets(CART, replace(sets, sets=(stray,)))
    assert reading.look(IN_PLACE) == replace(unknown, unseen=(stray,))
    reading.inbox.put_sets(CART, replace(sets, template_hash=template_hash))
    assert reading.look(IN_PLACE) == unknown


async def test_the_revision_of_a_stateful_set_is_remembered_for_its_template() -> None:
    """While its controller has not seen another field, the status is of before."""
    reading, reference = Reading(), replace(IN_PLACE, kind=STATEFUL_SET)
    status = COUNTS | {"updateRevision": "new", "observedGeneration": 3}
    plain = spec(Canary(), revision="h", workload_ref=reference)
    changes: tuple[tuple[dict[str, Any], str], ...] = (
        ({"observedGeneration": 2}, ""),
        ({}, "new"),
        ({"observedGeneration": 2, "updateRevision": "other"}, "new"),
        ({"updateRevision": ""}, ""),
    )
    for version, (change, revision) in enumerate(changes):
        workload = _workload(OF_STATEFUL_SET, status | change, resourceVersion=str(version))
        reading.watched(STATEFUL_SET, workload)
        seen = workload_seen(STATEFUL_SET, workload)
        of = spec_in_place(plain, seen, revision=revision)
        assert reading.look(reference) == WorkloadLook(spec=of, replica_sets=(), unseen=() if revision else None)


async def test_a_daemon_set_is_seen_with_its_revisions_and_chosen_nodes() -> None:
    """Its newest revision is that of its template; nodes that may not be listed make it unusable."""
    reading, reference = Reading(), replace(ON_NODES, canary_nodes="tier=canary")
    there = _workload({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}, NODES | {"observedGeneration": 3})
    reading.watched(DAEMON_SET, there)
    revisions = tuple(NodeRevision(name=f"a-{n}", revision=f"r{n}", number=n, created_at_s=0.0) for n in (1, 2))
    plain, seen = spec(Canary(), revision="h", workload_ref=reference), workload_seen(DAEMON_SET, there)
    unknown = WorkloadLook(spec=spec_in_place(plain, seen, revision=""), replica_sets=(), unseen=None)
    assert reading.look(reference) == unknown
    reading.inbox.put_revisions(CART, RevisionsAnswer(uid="u-1", template_hash="h", revisions=revisions))
    look = reading.look(reference)
    assert look == replace(
        unknown, spec=spec_in_place(plain, seen, revision="r2"), unseen=(), revisions=revisions
    )  # fmt: skip

    assert isinstance(seen.in_place, DaemonSetSeen)
    wanted = replace(seen, template_hash="h", in_place=replace(seen.in_place, revisions=revisions))
    assert reading.observed(reference, look).workload == wanted
    chosen = ChosenNodes(at_s=1.0, names=frozenset({"a"}))
    for answer, problem in ((chosen, ""), (replace(chosen, refused="grant nodes"), "grant nodes")):
        reading.inbox.put_nodes(CART, "tier=canary", answer)
        in_place = replace(seen.in_place, revisions=revisions, chosen=answer)
        assert reading.observed(reference, look).workload == replace(wanted, in_place=in_place, problem=problem)
    without = reading.observed(ON_NODES, look).workload
    assert without == wanted


OWN = UpdateFields(max_surge=Percent(30), max_unavailable=1, min_ready_s=7)


@pytest.mark.parametrize(
    ("in_place", "surge", "unavailable", "min_ready_s"),
    [
        (replace(DEPLOYED, fields=OWN), Percent(30), 1, 7),
        (replace(DEPLOYED, fields=UpdateFields()), Percent(25), Percent(25), 0),
        (replace(DEPLOYED, held=Held(number=1, replicas=1, own=OWN)), Percent(30), 1, 7),
        (replace(DEPLOYED, fields=OWN, held=Held(number=1, replicas=1, own=UpdateFields(max_surge=0, max_unavailable=3))),
            0, 3, 0),
        (STATEFUL, 0, Percent(40), 9),
        (replace(STATEFUL, max_unavailable=None), 0, 1, 9),
        (DaemonSetSeen(update=NodeUpdate(on_delete=False, max_unavailable=3), min_ready_s=8), 0, 3, 8),
        (DaemonSetSeen(update=NodeUpdate(on_delete=False, max_unavailable=0), min_ready_s=8), 0, 1, 8),
    ],
)  # fmt: skip
def test_a_spec_in_place_has_the_users_limits(in_place: Any, surge: Any, unavailable: Any, min_ready_s: int) -> None:
    """Not those that an update has written meanwhile; and it has no template while its revision is not known."""
    seen = replace(SEEN, replicas=6, in_place=in_place)
    plain = spec(Canary(), revision="h", min_ready_s=1)
    wanted = replace(
        plain, replicas=6, min_ready_s=min_ready_s, revision="native",
        strategy=replace(plain.strategy, max_surge=surge, max_unavailable=unavailable),
    )  # fmt: skip

    assert spec_in_place(plain, seen, revision="native") == wanted
    for unknown in ("", None):
        assert spec_in_place(plain, seen, revision=unknown) == replace(wanted, revision="", template_hash="")
    assert spec_in_place(plain, replace(seen, in_place=None), revision="native") == plain


@pytest.mark.parametrize(("own", "unavailable"), [(OWN, 1), (UpdateFields(), 0)])
def test_blue_green_in_place_takes_max_unavailable_alone(own: UpdateFields, unavailable: int) -> None:
    """It has no surge of its own: all new pods start beside the old ones."""
    plain = spec(BlueGreen(active_service="web", max_unavailable=0), revision="h")
    found = spec_in_place(plain, replace(SEEN, in_place=replace(DEPLOYED, fields=own)), revision="native")

    assert found.strategy == replace(plain.strategy, max_unavailable=unavailable)


@pytest.mark.parametrize(
    ("kind", "spec", "held"),
    [
        (DEPLOYMENT, {"paused": True}, True),
        (DEPLOYMENT, {}, False),
        (DAEMON_SET, {"updateStrategy": {"type": "OnDelete"}}, True),
        (DAEMON_SET, {"paused": True, "updateStrategy": {"type": "RollingUpdate"}}, False),
        (STATEFUL_SET, {"updateStrategy": {"type": "OnDelete"}}, True),
        (STATEFUL_SET, {"paused": True, "updateStrategy": {"rollingUpdate": {"partition": NO_POD}}}, True),
        (STATEFUL_SET, {"paused": True, "updateStrategy": {"rollingUpdate": {"partition": 9}}}, False),
        (STATEFUL_SET, {"paused": True}, False),
    ],
)
def test_a_write_shows_whether_the_policy_has_held_it(kind: WorkloadKind, spec: Any, held: bool) -> None:
    """As the API server answers a dry run."""
    assert is_held(kind, _workload(spec)) is held


def test_revisions_of_a_daemon_set_are_its_own_in_their_order() -> None:
    """Others of the same labels belong to somebody else."""

    def revision(number: int, labels: Any, uid: str = "u-1") -> dict[str, Any]:
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "cart", "uid": uid, "controller": True}
        meta = {"name": f"cart-{number}", "labels": labels, "ownerReferences": [owner], "creationTimestamp": CREATED}
        return {"metadata": meta, "revision": number}

    listed = [revision(3, {"controller-revision-hash": "c"}), revision(2, None), revision(4, {}, uid="another")]
    found = revisions_answer(_workload(), msgspec.json.decode(json.dumps(listed), type=list[ControllerRevisionObject]))

    assert found == RevisionsAnswer(
        uid="u-1",
        template_hash=template_hash_of(_workload()),
        revisions=(
            NodeRevision(name="cart-2", revision="", number=2, created_at_s=CREATED_S),
            NodeRevision(name="cart-3", revision="c", number=3, created_at_s=CREATED_S),
        ),
    )
