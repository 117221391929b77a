"""Updates in place, judged by pods: which of them leave, which are made, and what is written to bring that about.

Whose write it was does not matter for pods: a workload's own controller acts on the fields that we give it. Numbers are those of
the project's invariants: S3 for pods that are needed, S7 for pods and promotions without evidence, S11 for needless writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from rollouts.core.model.in_place_intents import (
    DeletePod,
    MoveReplicaSet,
    RevertTemplate,
    StepDaemonSet,
    StepDeployment,
    StepStatefulSet,
)
from rollouts.core.model.snapshot import Pod
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.steps import WeightPercent
from rollouts.core.model.workload import NO_POD
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.objects import POD, ROLLOUT, Key
from rollouts.sim.actors.pods import is_ready, is_terminating
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.storage.history import DELETED, CommittedWrite
from tests.behaviour.in_place_truth import InPlace
from tests.behaviour.truth import Truth
from tests.invariants.violation import Violation

Weights = Callable[[], dict[str, WeightPercent]]
"""The weight that a pass may record now, by the revision that it is for."""


class InPlaceWitness:
    """Follows the pods of the workload that the Rollout `key` updates in place, if it does.

    A scale-up makes pods of the new revision above a StatefulSet's partition, and on nodes that join: no step asked for those.
    Pods of a DaemonSet that somebody else deletes are not known here.

    Args:
        tell: gets what is broken.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        truth: Truth,
        key: Key,
        *,
        weights: Weights,
        tell: Callable[[Iterable[Violation]], None],
    ) -> None:
        self._cluster = cluster
        self._truth = truth
        self._key = key
        self._weights = weights
        self._tell = tell
        self._fewest = 0
        self._most = 0
        self._stable = {""}
        self._peaks: Counter[str] = Counter()
        cluster.api.history.listen(POD, self._follow)

    @property
    def workload(self) -> InPlace | None:
        """As it is now."""
        rollout = self._cluster.get(ROLLOUT, self._key.namespace, self._key.name)
        return None if rollout is None else self._truth.in_place.of(rollout)

    @property
    def version(self) -> str:
        """The workload's `resourceVersion`; "" for none."""
        found = self.workload
        return "" if found is None else str(found.manifest["metadata"]["resourceVersion"])

    def needless(self, intent: object, version: str) -> list[Violation]:
        """S11: a write after which the workload is what it was; `version` is that of before."""
        steps = isinstance(intent, StepDeployment | StepStatefulSet | StepDaemonSet | RevertTemplate)
        return [Violation("S11", f"nothing comes of it: {intent}")] if steps and self.version == version else []

    def broken_by(self, intent: object) -> list[Violation]:
        """What a write breaks; before it takes effect."""
        found = self.workload
        if found is None:
            return []
        stands = found.manifest["metadata"]
        match intent:
            case StepDeployment() | StepStatefulSet() | StepDaemonSet() | RevertTemplate():
                if (intent.uid, intent.resource_version) != (stands["uid"], stands["resourceVersion"]):
                    return [Violation("S13", f"not bound to what was seen: {intent}")]
            case MoveReplicaSet(resource_version="") | DeletePod(resource_version=""):
                return [Violation("S13", f"not bound to what was seen: {intent}")]
            case DeletePod(uid=uid):
                pod = next((each for each in found.pods if each.uid == uid), None)
                if pod is not None and pod.revision == _comes_back_as(found, pod):
                    return [Violation("S11", f"pod {pod.name} of {pod.revision} is deleted, and comes back as it is")]
            case _:
                pass
        if isinstance(intent, RevertTemplate) and self._truth.status(self._key).abort is None:
            return [Violation("S11", "the template is taken back, and nothing was aborted")]
        return []

    def broken_by_status(self, before: RolloutStatus, after: RolloutStatus) -> list[Violation]:
        """S7: what becomes stable has its pods: as many ready ones as the workload promises."""
        found = self.workload
        if found is None or not before.stable_revision or after.stable_revision == before.stable_revision:
            return []
        ready, needed = found.ready[after.stable_revision], found.replicas - found.unavailable
        if ready >= needed:
            return []
        return [Violation("S7", f"{after.stable_revision} became stable with {ready} ready pods, not {needed}")]

    def _follow(self, change: CommittedWrite) -> None:
        """A pod is made, or leaves."""
        if change.new.key[0] != self._key.namespace or (found := self.workload) is None:
            return
        if not found.manifest["spec"]["selector"]["matchLabels"].items() <= change.new.labels.items():
            return
        self._fewest = min(self._fewest or found.replicas, found.replicas)
        self._most = max(self._most, found.replicas)
        if change.old is None:
            self._tell(self._made(found, str(change.new.metadata["uid"])))
            return
        stood = is_ready(change.old) and not is_terminating(change.old)
        if stood and (change.event == DELETED or is_terminating(change.new)):
            self._tell(self._left(found, change.new.key[1]))

    def _left(self, found: InPlace, name: str) -> list[Violation]:
        """S3: a ready pod leaves only while enough are ready: the fewest that were ever asked for, without `maxUnavailable`."""
        ready, needed = found.ready.total(), min(self._fewest, found.replicas) - found.unavailable
        if ready >= needed:
            return []
        return [Violation("S3", f"pod {name} leaves, {dict(found.ready)} are ready, and {needed} are to stay")]

    def _made(self, found: InPlace, uid: str) -> list[Violation]:
        """S7: of a revision that is not stable there are no more pods than the step on record gives it.

        Nodes of a DaemonSet that have a revision in between get the newest one.
        """
        self._stable.add(self._truth.status(self._key).stable_revision)
        revision = next(each.revision for each in found.pods if each.uid == uid)
        if revision in self._stable or len(self._stable) == 1:
            return []
        weight = self._weights().get(revision, 0)
        most = -(-found.replicas * weight // 100)
        if 0 < weight < 100 and found.replicas > 1:
            most = min(max(most, 1), found.replicas - 1)  # no side is empty while both are to get requests
        if found.kind is not WorkloadKind.DEPLOYMENT:
            most += self._most - self._fewest
        if found.kind is WorkloadKind.DAEMON_SET:
            most = max([most, *(peak for each, peak in self._peaks.items() if each not in (revision, *self._stable))])
        self._peaks[revision] = max(self._peaks[revision], found.staying[revision])
        if found.staying[revision] <= most:
            return []
        return [Violation("S7", f"{found.staying[revision]} pods of {revision} at {weight} %: {most} are asked for")]


def _comes_back_as(found: InPlace, pod: Pod) -> str:
    """The revision of the pod that takes the place of one that is deleted."""
    if found.kind is WorkloadKind.STATEFUL_SET:
        rolling = found.manifest["spec"]["updateStrategy"].get("rollingUpdate") or {}
        if int(pod.name.rpartition("-")[2]) < int(rolling.get("partition", NO_POD)):
            return str(found.manifest["status"]["currentRevision"])
    return found.revision
