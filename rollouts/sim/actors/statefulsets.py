"""The StatefulSet controller: pods with ordinals, their claims, and updates from the top ordinal down to the partition.

It replaces one pod at a time, also with `Parallel`: the feature gate MaxUnavailableStatefulSet is off by default. `OrderedReady`
waits for a pod that is not available, so one that cannot start is not replaced when the template is repaired. The status counts
the pods as they were before the writes of a sync.
Source: k8s.io/kubernetes pkg/controller/statefulset/{stateful_set_control.go,stateful_set_utils.go,stateful_pod_control.go}.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from rollouts.objects import POD, STATEFUL_SET, Manifest
from rollouts.sim.actors import pods as pod_facts
from rollouts.sim.actors.revisions import REVISION_LABEL, RevisionedController
from rollouts.sim.storage.history import ObjectKey, Stored
from rollouts.sim.storage.refusals import Refused
from rollouts.sim.storage.registry import CLAIM
from rollouts.sim.storage.statefulset_rules import DELETE, ON_DELETE, ORDERED_READY, ROLLING_UPDATE

RETRY_S = 1.0
"""Time until a write is tried again that was not possible: a name is taken, or an old claim has not gone yet."""
_NAME = re.compile(r"(.*)-([0-9]+)")


class _Turn:
    """One StatefulSet as a sync finds it: what it asks for, its two revisions, and its pods by ordinal."""

    def __init__(self, stored: Stored, pods: list[Stored], *, current: Stored, update: Stored, now_s: float) -> None:
        spec = stored.manifest["spec"]
        self.stored, self.spec, self.current, self.update, self.now_s = stored, spec, current, update, now_s
        self.wait_s: int = spec.get("minReadySeconds", 0)
        self.is_ordered = spec["podManagementPolicy"] == ORDERED_READY
        start: int = (spec.get("ordinals") or {}).get("start", 0)
        self.ordinals = range(start, start + spec["replicas"])
        self.pods: dict[int, Stored] = {}
        for pod in pods:
            name = _NAME.fullmatch(pod.metadata["name"])
            if name and name[1] == stored.metadata["name"]:
                self.pods[int(name[2])] = pod

    @cached_property
    def condemned(self) -> list[int]:
        """The ordinals of the pods that are too many, top down."""
        return sorted(self.pods.keys() - set(self.ordinals), reverse=True)

    @property
    def first_unavailable(self) -> int | None:
        """The lowest ordinal without an available pod; those that are too many come last."""
        ordinals = (*self.ordinals, *reversed(self.condemned))
        return next((ordinal for ordinal in ordinals if not self.is_available(ordinal)), None)

    def is_available(self, ordinal: int) -> bool:
        """Whether there is a pod that stays, and has been ready for minReadySeconds."""
        pod = self.pods.get(ordinal)
        if pod is None or pod_facts.is_terminating(pod):
            return False
        return pod_facts.is_available(pod, self.wait_s, self.now_s)

    def revision_for(self, ordinal: int) -> Stored:
        """The ControllerRevision of a pod that is made now."""
        strategy = self.spec["updateStrategy"]
        if strategy["type"] == ON_DELETE:
            return self.update
        rolling = strategy.get("rollingUpdate")
        kept = rolling["partition"] if rolling else (self.stored.manifest.get("status") or {}).get("currentReplicas", 0)
        return self.current if ordinal < self.ordinals.start + kept else self.update

    def claims(self, ordinal: int) -> Iterator[tuple[str, Manifest]]:
        """The claims of a pod: the name of the volume, and the claim as it is made."""
        selected = self.spec["selector"].get("matchLabels") or {}
        for template in self.spec.get("volumeClaimTemplates") or ():
            given = template["metadata"]
            metadata = {
                "name": f"{given['name']}-{self.stored.metadata['name']}-{ordinal}",
                "labels": {**(given.get("labels") or {}), **selected},
                "annotations": given.get("annotations") or {},
            }
            yield given["name"], {"metadata": metadata, "spec": template["spec"]}

    def new_pod(self, ordinal: int) -> Manifest:
        """The pod of an ordinal that has none."""
        revision = self.revision_for(ordinal)
        template = revision.manifest["data"]["spec"]["template"]
        given = template.get("metadata") or {}
        name = f"{self.stored.metadata['name']}-{ordinal}"
        own = {
            "apps.kubernetes.io/pod-index": f"{ordinal}",
            REVISION_LABEL: revision.metadata["name"],
            "statefulset.kubernetes.io/pod-name": name,
        }
        volumes = {
            volume: {"name": volume, "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
            for volume, claim in self.claims(ordinal)
        }
        others = [each for each in template["spec"].get("volumes") or () if each["name"] not in volumes]
        metadata = {
            **{field: given[field] for field in ("annotations", "finalizers") if given.get(field)},
            "name": name,
            "labels": {**(given.get("labels") or {}), **own},
            "ownerReferences": [pod_facts.owner_reference(STATEFUL_SET, self.stored)],
        }
        spec = {**template["spec"], "hostname": name}
        if volumes:
            spec["volumes"] = [*volumes.values(), *others]
        if self.spec.get("serviceName"):
            spec["subdomain"] = self.spec["serviceName"]
        return {"metadata": metadata, "spec": spec}


class StatefulSetController(RevisionedController):
    """Creates, replaces and deletes the pods of StatefulSets, and creates their claims."""

    name = "kube-controller-manager"
    kind = STATEFUL_SET
    hash_label = "controller.kubernetes.io/hash"

    def sync(self, key: ObjectKey) -> None:
        """Syncs one StatefulSet."""
        stored = self.world.history.get(STATEFUL_SET, *key)
        if stored is None:
            return
        pods, revisions = self.pods_of(stored), self.revisions_of(stored)
        update, collisions = self.latest(stored, revisions)
        named = (stored.manifest.get("status") or {}).get("currentRevision")
        current = next((each for each in revisions if each.metadata["name"] == named), update)
        turn = _Turn(stored, pods, current=current, update=update, now_s=self.world.now_s())
        replaced = 0
        if not pod_facts.is_terminating(stored) and self._keep(turn) and self._shrink(turn):
            replaced = self._replace(turn)
        self._write_status(turn, collisions, replaced)
        live = {current.metadata["name"], update.metadata["name"], *(pod.labels.get(REVISION_LABEL) for pod in pods)}
        history = [each for each in revisions if each.metadata["name"] not in live]
        limit = turn.spec["revisionHistoryLimit"]
        if limit >= 0:
            self.forget(history, len(history) - limit, live=())

    def may_adopt(self, owner: Stored, orphan: Stored) -> bool:
        """A pod must have the name of an ordinal, too."""
        name = _NAME.fullmatch(orphan.metadata["name"])
        is_member = name is not None and name[1] == owner.metadata["name"]
        return super().may_adopt(owner, orphan) and (is_member or orphan.manifest["kind"] != POD.kind)

    def _keep(self, turn: _Turn) -> bool:
        """Sees to the pods that there must be, lowest first; whether the rest of the sync may go on."""
        for ordinal in turn.ordinals:
            pod = turn.pods.get(ordinal)
            goes_on = self._create(turn, ordinal) if pod is None else self._keep_pod(turn, ordinal, pod)
            if not goes_on or (turn.is_ordered and not turn.is_available(ordinal)):
                return False
        return True

    def _keep_pod(self, turn: _Turn, ordinal: int, pod: Stored) -> bool:
        if pod_facts.phase(pod) in ("Failed", "Succeeded"):
            if not pod_facts.is_terminating(pod):
                self.delete_pod(pod)
            return not turn.is_ordered
        if pod_facts.phase(pod) == "Pending" and not self._make_claims(turn, ordinal):
            return False
        if not turn.is_ordered or turn.is_available(ordinal):
            self._own_claims(turn, ordinal, pod)
        return True

    def _shrink(self, turn: _Turn) -> bool:
        """Deletes pods that are too many, highest first; whether the rest of the sync may go on."""
        for ordinal in turn.condemned:
            self._own_claims(turn, ordinal, turn.pods[ordinal])
        for ordinal in turn.condemned:
            pod = turn.pods[ordinal]
            waits = not turn.is_available(ordinal) and ordinal != turn.first_unavailable
            if turn.is_ordered and (pod_facts.is_terminating(pod) or waits):
                return False
            if not pod_facts.is_terminating(pod):
                self.delete_pod(pod)
            if turn.is_ordered:
                return False
        return True

    def _replace(self, turn: _Turn) -> int:
        """Deletes the highest pod of another revision at or above the partition, if those above it are available; how many."""
        strategy = turn.spec["updateStrategy"]
        if strategy["type"] == ON_DELETE:
            return 0
        least = (strategy.get("rollingUpdate") or {}).get("partition", 0)
        for ordinal in reversed(turn.ordinals[least:]):
            pod = turn.pods.get(ordinal)
            if pod is None:
                return 0
            is_old = pod.labels.get(REVISION_LABEL) != turn.update.metadata["name"]
            if is_old and not pod_facts.is_terminating(pod):
                self.delete_pod(pod)
                return 1
            if not turn.is_available(ordinal):
                return 0
        return 0

    def _create(self, turn: _Turn, ordinal: int) -> bool:
        namespace = turn.stored.key[0]
        pod = turn.new_pod(ordinal)
        if self._has_claims_of_another(turn, ordinal, pod["metadata"]["name"]) or not self._make_claims(turn, ordinal):
            self.enqueue(turn.stored.key, RETRY_S)
            return False
        try:
            created = self.world.verbs.create(self.world.resource(POD), namespace, pod, self.options)
        except Refused:
            self.enqueue(turn.stored.key, RETRY_S)
            return False
        self._own_claims(turn, ordinal, created)
        return True

    def _claim(self, turn: _Turn, claim: Manifest) -> Stored | None:
        return self.world.history.get(CLAIM, turn.stored.key[0], claim["metadata"]["name"])

    def _has_claims_of_another(self, turn: _Turn, ordinal: int, name: str) -> bool:
        """Whether a claim goes with a former pod of this name: the new one must get a new claim."""
        if turn.spec["persistentVolumeClaimRetentionPolicy"]["whenScaled"] != DELETE:
            return False
        found = [self._claim(turn, claim) for _, claim in turn.claims(ordinal)]
        owners = [owner for each in found if each for owner in each.metadata.get("ownerReferences") or ()]
        return any((owner["kind"], owner["name"]) == (POD.kind, name) for owner in owners)

    def _make_claims(self, turn: _Turn, ordinal: int) -> bool:
        """Creates the claims that a pod lacks; False while one of them is being deleted."""
        for _, claim in turn.claims(ordinal):
            found = self._claim(turn, claim)
            if found is None:
                self.world.verbs.create(self.world.resource(CLAIM), turn.stored.key[0], claim, self.options)
            elif pod_facts.is_terminating(found):
                self.enqueue(turn.stored.key, RETRY_S)
                return False
        return True

    def _own_claims(self, turn: _Turn, ordinal: int, pod: Stored) -> None:
        """Makes a pod's claims go with the StatefulSet, with the pod, or stay, as the retention policy says."""
        policy = turn.spec["persistentVolumeClaimRetentionPolicy"]
        wanted: list[Manifest] = []
        if ordinal not in turn.ordinals and policy["whenScaled"] == DELETE:
            wanted = [pod_facts.owner_reference(POD, pod)]
        elif policy["whenDeleted"] == DELETE:
            wanted = [pod_facts.owner_reference(STATEFUL_SET, turn.stored)]
        ours = {turn.stored.metadata["uid"], pod.metadata["uid"]}
        for _, claim in turn.claims(ordinal):
            found = self._claim(turn, claim)
            if found is None:
                continue
            before = found.metadata.get("ownerReferences") or []
            after = [*(owner for owner in before if owner["uid"] not in ours), *wanted]
            if after != before:
                metadata = {**found.metadata, "ownerReferences": after}
                manifest = {**found.manifest, "metadata": metadata}
                self.world.verbs.update(self.world.resource(CLAIM), found, manifest, self.options)

    def _write_status(self, turn: _Turn, collisions: int, replaced: int) -> None:
        pods = list(turn.pods.values())
        ready = [pod for pod in pods if pod_facts.phase(pod) == "Running" and pod_facts.is_ready(pod)]
        due_in_s = [pod_facts.available_in_s(pod, turn.wait_s, turn.now_s) for pod in ready]
        staying = [pod.labels.get(REVISION_LABEL) for pod in pods if not pod_facts.is_terminating(pod)]
        current, update = turn.current.metadata["name"], turn.update.metadata["name"]
        counts = {
            "readyReplicas": len(ready),
            "currentReplicas": max(0, staying.count(current) - replaced),
            "updatedReplicas": staying.count(update),
        }
        replicas = turn.spec["replicas"]
        is_over = [len(pods), counts["readyReplicas"], counts["updatedReplicas"]] == [replicas] * 3
        if is_over and turn.spec["updateStrategy"]["type"] == ROLLING_UPDATE:
            current, counts["currentReplicas"] = update, counts["updatedReplicas"]
        status: dict[str, Any] = {
            "observedGeneration": turn.stored.metadata["generation"],
            "replicas": len(pods),
            "availableReplicas": sum(due_s <= 0 for due_s in due_in_s),
            "currentRevision": current,
            "updateRevision": update,
            "collisionCount": collisions,
        }
        self.write_status(STATEFUL_SET, turn.stored, status | {name: count for name, count in counts.items() if count})
        later = [due_s for due_s in due_in_s if due_s > 0]
        if later:
            self.enqueue(turn.stored.key, min(later) + 0.001)
