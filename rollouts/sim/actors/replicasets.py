"""The ReplicaSet controller: it keeps the desired number of pods, and counts them in the status.

It has two watches, for pods and for ReplicaSets, each with its own lag. The status counts the pods that it knew before the writes
of this sync, with the generation of the ReplicaSet that it knows. So a pod that it has just deleted is still counted, also for a
size that was set after that. Until it has seen its own writes it creates no more pods, but it still counts.

Source: k8s.io/kubernetes pkg/controller/replicaset/replica_set.go `syncReplicaSet`, controller_utils.go
`UIDTrackingControllerExpectations` and `ActivePodsWithRanks` (which pods go first).
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections import Counter, defaultdict, deque
from contextlib import suppress
from typing import Any

from rollouts.objects import POD, REPLICA_SET
from rollouts.sim.actors import pods as pod_facts
from rollouts.sim.actors.work import Actor, World
from rollouts.sim.apiserver.verbs import DeleteOptions
from rollouts.sim.storage.history import ADDED, DELETED, CommittedWrite, ObjectKey, Stored
from rollouts.sim.storage.refusals import Refused

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASE_RANK = {"Pending": 0, "Unknown": 1, "Running": 2}


class ReplicaSetController(Actor):
    """Creates and deletes pods for ReplicaSets."""

    name = "kube-controller-manager"

    def __init__(self, world: World) -> None:
        super().__init__(world, lag_s=0.002)
        self.pods_lag_s = 0.001
        """Time from a change of a pod until it knows it."""
        self._on_their_way: deque[tuple[TimerHandle, CommittedWrite]] = deque()
        self._expected: defaultdict[str, set[ObjectKey]] = defaultdict(set)
        self._pods: defaultdict[str, dict[ObjectKey, Stored]] = defaultdict(dict)
        self._key_of: dict[str, ObjectKey] = {}

    def start(self) -> None:
        """Subscribes to ReplicaSets, and to pods by their controller's uid."""
        self.listen(POD, self._pod_changed)
        self.listen(REPLICA_SET, self._on_replica_set)

    def sync(self, key: ObjectKey) -> None:
        """Syncs one ReplicaSet."""
        stored = self.world.history.get(REPLICA_SET, *key)
        if stored is None:
            return
        # An owner is in the object's own namespace: a pod elsewhere that names this owner has none.
        seen = [pod for pod in self._pods[stored.metadata["uid"]].values() if pod.key[0] == key[0]]
        active = [pod for pod in seen if pod_facts.is_active(pod)]
        if not pod_facts.is_terminating(stored) and not self._expected[stored.metadata["uid"]]:
            self._match(stored, active)
        self._write_status(stored, active, terminating=sum(map(pod_facts.is_terminating, seen)))

    def stop(self) -> None:
        """Stops the actor and its watches."""
        super().stop()
        for timer, _ in self._on_their_way:
            timer.cancel()
        self._on_their_way.clear()

    def _pod_changed(self, change: CommittedWrite) -> None:
        if pod_facts.controller_uid(change.new) is not None:
            timer = self.world.loop.call_later(self.pods_lag_s, self._hear)
            self._on_their_way.append((timer, change))

    def _hear(self) -> None:
        _, change = self._on_their_way.popleft()  # in order, whichever of two timers at the same moment fires first
        uid = pod_facts.controller_uid(change.new)
        if uid is None:
            return
        if change.event in (DELETED, ADDED) or pod_facts.is_terminating(change.new):
            self._expected[uid].discard(change.new.key)
        if change.event == DELETED:
            self._pods[uid].pop(change.new.key, None)
        else:
            self._pods[uid][change.new.key] = change.new
        if uid in self._key_of:
            self.enqueue(self._key_of[uid])

    def _on_replica_set(self, change: CommittedWrite) -> None:
        uid, key = change.new.metadata["uid"], change.new.key
        if change.event == DELETED:
            self._key_of.pop(uid, None)
            self._pods.pop(uid, None)
            self._expected.pop(uid, None)
            return
        self._key_of[uid] = key
        status = change.new.manifest.get("status") or {}
        if change.old is None or status.get("observedGeneration") != change.new.metadata["generation"]:
            self.enqueue(key)

    def _match(self, stored: Stored, active: list[Stored]) -> None:
        missing = stored.manifest["spec"]["replicas"] - len(active)
        namespace = stored.metadata["namespace"]
        pods = self.world.resource(POD)
        expected = self._expected[stored.metadata["uid"]]
        template = stored.manifest["spec"]["template"]
        given = template.get("metadata") or {}
        owner = pod_facts.owner_reference(REPLICA_SET, stored)
        metadata = {"generateName": stored.metadata["name"] + "-", "ownerReferences": [owner]}
        metadata |= {name: given[name] for name in ("labels", "annotations", "finalizers") if given.get(name)}
        new_pod = {"metadata": metadata, "spec": template["spec"]}
        for _ in range(missing):
            expected.add(self.world.verbs.create(pods, namespace, new_pod, self.options).key)
        if missing < 0:
            for pod in _first_to_go(active)[:-missing]:
                options = DeleteOptions(uid=pod.metadata["uid"])
                with suppress(Refused):  # it is gone already, and the watch has not shown that yet
                    self.world.verbs.delete(pods, namespace, pod.metadata["name"], options)
                    expected.add(pod.key)

    def _write_status(self, stored: Stored, active: list[Stored], *, terminating: int) -> None:
        wait_s = stored.manifest["spec"].get("minReadySeconds", 0)
        now_s = self.world.now_s()
        ready = [pod for pod in active if pod_facts.is_ready(pod)]
        due_in_s = [pod_facts.available_in_s(pod, wait_s, now_s) for pod in ready]
        wanted_labels = (stored.manifest["spec"]["template"].get("metadata") or {}).get("labels") or {}
        labelled = sum(wanted_labels.items() <= pod.labels.items() for pod in active)
        available = sum(due <= 0 for due in due_in_s)
        counts = {"fullyLabeledReplicas": labelled, "readyReplicas": len(ready), "availableReplicas": available}
        status: dict[str, Any] = {"replicas": len(active)}
        status |= {name: count for name, count in counts.items() if count}
        status["terminatingReplicas"] = terminating
        status["observedGeneration"] = stored.metadata["generation"]
        before = stored.manifest.get("status") or {}
        if before.get("conditions"):
            status["conditions"] = before["conditions"]
        self.write_status(REPLICA_SET, stored, status)
        later = [due for due in due_in_s if due > 0]
        if later:
            self.enqueue(stored.key, min(later) + 0.001)


def _first_to_go(active: list[Stored]) -> list[Stored]:
    nodes = Counter(pod.manifest["spec"].get("nodeName") for pod in active)

    def rank(pod: Stored) -> tuple[object, ...]:
        node = pod.manifest["spec"].get("nodeName")
        is_ready = pod_facts.is_ready(pod)
        cost = int((pod.metadata.get("annotations") or {}).get(DELETION_COST, 0))
        young_first = -pod_facts.ready_since_s(pod) if is_ready else 0.0
        age = -pod_facts.seconds(pod.metadata["creationTimestamp"])
        phase = _PHASE_RANK.get(pod_facts.phase(pod), 1)
        return node is not None, phase, is_ready, cost, -nodes[node], young_first, age

    return sorted(active, key=rank)
