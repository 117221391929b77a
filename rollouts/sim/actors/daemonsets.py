"""The DaemonSet controller: a pod on every node that it fits, replaced node by node, or when somebody deletes it.

The order of the nodes is random, as with the real controller. A node that joins gets the new template. An old pod that is not
available is replaced at once, whatever `maxUnavailable` says; with a minReadySeconds that no pod reaches, that is every pod. Not
carried out: the back-off of failed pods, and with `maxSurge` the deletion from a node that got a taint of effect NoSchedule.
Source: k8s.io/kubernetes pkg/controller/daemon/{daemon_controller.go,update.go}, daemon/util/daemonset_util.go.
"""

from __future__ import annotations

from rollouts.objects import DAEMON_SET, POD, Manifest
from rollouts.sim.actors import pods as pod_facts
from rollouts.sim.actors.revisions import REVISION_LABEL, RevisionedController
from rollouts.sim.actors.scheduling import NO_EXECUTE, NO_SCHEDULE, fits, node_of, tolerates
from rollouts.sim.storage.history import CommittedWrite, ObjectKey, Stored
from rollouts.sim.storage.registry import NODE
from rollouts.sim.storage.statefulset_rules import ROLLING_UPDATE

_TOLERATED = (
    *((f"node.kubernetes.io/{name}", NO_EXECUTE) for name in ("not-ready", "unreachable")),
    *((f"node.kubernetes.io/{name}-pressure", NO_SCHEDULE) for name in ("disk", "memory", "pid")),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
)
"""Taints that every pod of a DaemonSet tolerates."""


class _Turn:
    """One DaemonSet as a sync finds it: its nodes, its pods on them, and the hash of its template."""

    def __init__(self, stored: Stored, pods: list[Stored], nodes: list[Stored], *, latest: str, now_s: float) -> None:
        self.stored, self.latest, self.now_s = stored, latest, now_s
        self.spec = stored.manifest["spec"]
        self.wait_s: int = self.spec.get("minReadySeconds", 0)
        template = self.spec["template"]["spec"]
        own = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in _TOLERATED]
        given = template.get("tolerations") or []
        self.pod_spec = {**template, "tolerations": [*given, *(each for each in own if each not in given)]}
        self.wanted = {node.metadata["name"] for node in nodes if self._runs_on(node, NO_SCHEDULE, NO_EXECUTE)}
        self.kept = {node.metadata["name"] for node in nodes if self._runs_on(node, NO_EXECUTE)}
        self.names = [node.metadata["name"] for node in nodes]
        self.pods: dict[str, list[Stored]] = {}
        for pod in sorted(pods, key=_oldest_first):
            self.pods.setdefault(node_of(pod.manifest["spec"]), []).append(pod)
        limits = self.spec["updateStrategy"].get("rollingUpdate") or {}
        self.surge = _scaled(limits.get("maxSurge", 0), len(self.wanted))
        self.unavailable = _scaled(limits.get("maxUnavailable", 0), len(self.wanted))

    def _runs_on(self, node: Stored, *effects: str) -> bool:
        return fits(self.pod_spec, node) and tolerates(self.pod_spec, node, *effects)

    def staying(self, node: str) -> list[Stored]:
        """The pods on a node that are not being deleted, oldest first."""
        return [pod for pod in self.pods.get(node, ()) if not pod_facts.is_terminating(pod)]

    def is_latest(self, pod: Stored) -> bool:
        """Whether the pod is of the template of now."""
        return pod.labels.get(REVISION_LABEL) == self.latest

    def is_available(self, pod: Stored) -> bool:
        """Whether the pod has been ready for minReadySeconds."""
        return pod_facts.is_available(pod, self.wait_s, self.now_s)

    def excess(self, active: list[Stored]) -> list[Stored]:
        """Those of a node's pods that are too many. With maxSurge a ready old pod stays until the new one is available."""
        if not self.surge:
            return active[1:]
        new, old = ([pod for pod in active if self.is_latest(pod) is latest] for latest in (True, False))
        over = [*new[1:], *old[1:]]
        if new and old and (not pod_facts.is_ready(old[0]) or self.is_available(new[0])):
            over.append(old[0])
        return over

    def on_node(self, node: str) -> tuple[bool, list[Stored]]:
        """Whether a node lacks a pod, and which of its pods must go, whatever the update strategy says."""
        staying = self.staying(node)
        if node not in self.kept:
            return False, staying
        active = [pod for pod in staying if pod_facts.is_active(pod)]
        ended = [pod for pod in staying if pod not in active]
        is_free = not active if self.surge else node not in self.pods
        return is_free and node in self.wanted, [*ended, *self.excess(active)]

    def new_pod(self, node: str) -> Manifest:
        """A pod for a node; the scheduler finds the node in its affinity."""
        given = self.spec["template"].get("metadata") or {}
        affinity = self.pod_spec.get("affinity") or {}
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        pinned = {
            **(affinity.get("nodeAffinity") or {}),
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
        }
        metadata = {
            **{field: given[field] for field in ("annotations", "finalizers") if given.get(field)},
            "generateName": f"{self.stored.metadata['name']}-",
            "labels": {**(given.get("labels") or {}), REVISION_LABEL: self.latest},
            "ownerReferences": [pod_facts.owner_reference(DAEMON_SET, self.stored)],
        }
        return {"metadata": metadata, "spec": {**self.pod_spec, "affinity": {**affinity, "nodeAffinity": pinned}}}


class DaemonSetController(RevisionedController):
    """Creates, replaces and deletes the pods of DaemonSets."""

    name = "kube-controller-manager"
    kind = DAEMON_SET
    hash_label = REVISION_LABEL

    def follow_more(self) -> None:
        """Subscribes to pods and nodes."""
        super().follow_more()
        self.listen(NODE, self._on_node)

    def sync(self, key: ObjectKey) -> None:
        """Syncs one DaemonSet."""
        stored = self.world.history.get(DAEMON_SET, *key)
        if stored is None or pod_facts.is_terminating(stored):
            return
        revisions = self.revisions_of(stored)
        latest, collisions = self.latest(stored, revisions)
        turn = self._turn(stored, latest)
        if not self._keep(turn) and turn.spec["updateStrategy"]["type"] == ROLLING_UPDATE:
            if turn.surge:
                self._surge(turn)
            else:
                self._replace(turn)
        hashes = {pod.labels.get(REVISION_LABEL) for pods in turn.pods.values() for pod in pods}
        old = [each for each in revisions if each.metadata["name"] != latest.metadata["name"]]
        live = {each.metadata["name"] for each in old if each.labels.get(REVISION_LABEL) in hashes}
        self.forget(old, len(old) - turn.spec["revisionHistoryLimit"], live=live)
        self._write_status(self._turn(stored, latest), collisions)

    def _turn(self, stored: Stored, latest: Stored) -> _Turn:
        nodes = list(self.world.history.select(NODE))
        hashed = latest.labels[REVISION_LABEL]
        return _Turn(stored, self.pods_of(stored), nodes, latest=hashed, now_s=self.world.now_s())

    def _on_node(self, change: CommittedWrite) -> None:
        old, new = change.old, change.new
        specs = [(each.manifest.get("spec") or {}) for each in (old, new) if each is not None]
        if old is None or change.event == "DELETED" or old.labels != new.labels or specs[0] != specs[-1]:
            self.sync_all()

    def _keep(self, turn: _Turn) -> bool:
        """Sees to a pod on each node that there must be one on, and to none elsewhere; whether it wrote something."""
        missing: list[str] = []
        too_many: list[Stored] = []
        for node in turn.names:
            lacks, over = turn.on_node(node)
            missing += [node] if lacks else []
            too_many += over
        for node, pods in turn.pods.items():
            if node not in turn.names:  # it was never scheduled, and its node has gone
                too_many += [pod for pod in pods if not pod.manifest["spec"].get("nodeName")]
        self._write(turn, missing, too_many)
        return bool(missing or too_many)

    def _replace(self, turn: _Turn) -> None:
        """Deletes old pods: all that are not available, and of the others as many as maxUnavailable leaves."""
        unavailable = 0
        broken: list[Stored] = []
        candidates: list[Stored] = []
        for node in sorted(turn.wanted | turn.pods.keys()):
            staying = turn.staying(node)
            if len(staying) != 1:
                unavailable += 1
                continue
            (pod,) = staying
            if not turn.is_available(pod):
                unavailable += 1
                broken += [] if turn.is_latest(pod) else [pod]
            elif not turn.is_latest(pod):
                candidates.append(pod)
        allowed = max(0, (turn.unavailable or 1) - unavailable)
        chosen = self.world.rng.sample(candidates, min(allowed, len(candidates)))
        self._write(turn, [], [*broken, *chosen])

    def _surge(self, turn: _Turn) -> None:
        """Creates new pods beside old ones: beside all that are not available, and of the others as many as maxSurge leaves."""
        surging = 0
        broken: list[str] = []
        candidates: list[str] = []
        for node in sorted(turn.wanted):
            staying = turn.staying(node)
            if len(staying) == 2:
                surging += 1  # the new one is not available yet, or else the old one would be one too many
            elif staying and not turn.is_latest(staying[0]):
                (candidates if turn.is_available(staying[0]) else broken).append(node)
        chosen = self.world.rng.sample(candidates, min(max(0, turn.surge - surging), len(candidates)))
        self._write(turn, [*broken, *chosen], [])

    def _write(self, turn: _Turn, nodes: list[str], pods: list[Stored]) -> None:
        resource, namespace = self.world.resource(POD), turn.stored.key[0]
        for node in nodes:
            self.world.verbs.create(resource, namespace, turn.new_pod(node), self.options)
        for pod in pods:
            self.delete_pod(pod)

    def _write_status(self, turn: _Turn, collisions: int) -> None:
        oldest = {node: turn.pods[node][0] for node in turn.names if node in turn.pods}
        scheduled = [oldest[node] for node in sorted(turn.wanted & oldest.keys())]
        ready = [pod for pod in scheduled if pod_facts.is_ready(pod)]
        due_in_s = [pod_facts.available_in_s(pod, turn.wait_s, turn.now_s) for pod in ready]
        available = sum(due_s <= 0 for due_s in due_in_s)
        counts = {
            "updatedNumberScheduled": sum(map(turn.is_latest, scheduled)),
            "numberAvailable": available,
            "numberUnavailable": len(turn.wanted) - available,
            "collisionCount": collisions,
        }
        status = {
            "currentNumberScheduled": len(scheduled),
            "numberMisscheduled": len(oldest.keys() - turn.wanted),
            "desiredNumberScheduled": len(turn.wanted),
            "numberReady": len(ready),
            "observedGeneration": turn.stored.metadata["generation"],
        }
        self.write_status(DAEMON_SET, turn.stored, status | {name: count for name, count in counts.items() if count})
        later = [due_s for due_s in due_in_s if due_s > 0]
        if later:
            self.enqueue(turn.stored.key, min(later) + 0.001)


def _oldest_first(pod: Stored) -> tuple[bool, str, str]:
    return not pod.manifest["spec"].get("nodeName"), pod.metadata["creationTimestamp"], pod.metadata["name"]


def _scaled(limit: int | str, total: int) -> int:
    """A number of pods, or a share of all of them, rounded up."""
    return limit if isinstance(limit, int) else -(-int(limit.rstrip("%")) * total // 100)
