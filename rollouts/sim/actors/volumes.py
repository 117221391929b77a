"""The controllers of PersistentVolumeClaims: a claim is bound at once, and one that is deleted stays until no pod uses it.

Volumes are not objects here; a bound claim only names one. Whether the size and the access modes can be had is not asked.
Source: k8s.io/kubernetes pkg/controller/volume/{persistentvolume,pvcprotection}.
"""

from __future__ import annotations

from collections.abc import Iterator

from rollouts.objects import POD
from rollouts.sim.actors import pods as pod_facts
from rollouts.sim.actors.work import Actor, World
from rollouts.sim.storage.claim_rules import IN_USE
from rollouts.sim.storage.history import DELETED, CommittedWrite, ObjectKey, Stored
from rollouts.sim.storage.registry import CLAIM

UNBOUND = "sim.rollouts.dev/unbound"
"""Annotation of a claim, or of a claim template: there is no volume for it, as long as the claim has the annotation."""


def claim_names(pod: Stored) -> Iterator[str]:
    """The claims whose volumes a pod mounts."""
    for volume in pod.manifest["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"]["claimName"]


def is_bound(claim: Stored) -> bool:
    """Whether a claim has its volume."""
    return bool((claim.manifest.get("status") or {}).get("phase") == "Bound")


class VolumeController(Actor):
    """Binds claims, and lets those go that were deleted."""

    name = "persistentvolume-binder"

    def __init__(self, world: World) -> None:
        super().__init__(world, lag_s=0.005)
        self._going: set[ObjectKey] = set()
        self._follows_pods = False

    def start(self) -> None:
        """Subscribes to claims; to pods when the first claim goes."""
        self.listen(CLAIM, self._on_claim)

    def sync(self, key: ObjectKey) -> None:
        """Binds a claim, or takes its finalizer away."""
        claim = self.world.history.get(CLAIM, *key)
        if claim is None:
            self._going.discard(key)
            return
        resource = self.world.resource(CLAIM)
        if pod_facts.is_terminating(claim):
            # A pod without a node does not count: the kubelet will not start it.
            users = (pod for pod in self.world.history.select(POD, key[0]) if pod.manifest["spec"].get("nodeName"))
            if not any(key[1] in claim_names(pod) for pod in users):
                left = [name for name in claim.metadata.get("finalizers") or () if name != IN_USE]
                metadata = {**claim.metadata, "finalizers": left}
                self.world.verbs.update(resource, claim, {**claim.manifest, "metadata": metadata}, self.options)
        elif not is_bound(claim) and UNBOUND not in (claim.metadata.get("annotations") or {}):
            spec = {"volumeName": f"pvc-{claim.metadata['uid']}", **claim.manifest["spec"]}
            bound = self.world.verbs.update(resource, claim, {**claim.manifest, "spec": spec}, self.options)
            status = {"phase": "Bound", "accessModes": spec["accessModes"], "capacity": spec["resources"]["requests"]}
            self.write_status(CLAIM, bound, status)

    def _on_claim(self, change: CommittedWrite) -> None:
        self.enqueue(change.new.key)
        if pod_facts.is_terminating(change.new):
            self._going.add(change.new.key)
            if not self._follows_pods:
                self._follows_pods = True
                self.listen(POD, self._on_pod)

    def _on_pod(self, change: CommittedWrite) -> None:
        if change.event == DELETED:
            for name in claim_names(change.new):
                if (key := (change.new.key[0], name)) in self._going:
                    self.enqueue(key)
