"""The Deployment controller: it gives each template its ReplicaSet, and moves the pods from the old ones to the new one.

A pass reads everything once, and writes with the versions that it has read. What it has written itself it writes no second time:
that is a conflict, and the next pass goes on. So a ReplicaSet that has just got another `minReadySeconds` is still seen with the
count of available pods that it had before.

It writes no Events, and does not roll back by `deprecated.deployment.rollback.to`, which apps/v1 no longer has.
Source: k8s.io/kubernetes pkg/controller/deployment/{deployment_controller.go,sync.go,rolling.go,recreate.go}.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rollouts.objects import DEPLOYMENT, POD, REPLICA_SET, Manifest
from rollouts.sim.actors import pods as pod_facts
from rollouts.sim.actors.deployments import progress, sizes
from rollouts.sim.actors.deployments import replica_sets as facts
from rollouts.sim.actors.deployments.replica_sets import replicas
from rollouts.sim.actors.work import Actor, World
from rollouts.sim.apiserver.verbs import DeleteOptions
from rollouts.sim.storage.deployment_rules import RECREATE
from rollouts.sim.storage.history import DELETED, CommittedWrite, ObjectKey, Stored
from rollouts.sim.storage.refusals import Refused
from rollouts.sim.storage.selectors import selector_text, selects

_RETRY_S, _RETRIES_MAX = 0.005, 15
_LAG_S = (0.0005, 0.004)
"""Shortest and longest time from a change to a pass: before or after the ReplicaSet controller's answer, as in a real cluster."""


@dataclass(slots=True)
class _Pass:
    """A Deployment and its ReplicaSets as a pass has read them.

    Args:
        status, annotations: of the Deployment, with what this pass has changed.
        written: whether it has written all of that.
    """

    deployment: Stored
    owned: Sequence[Stored]
    status: Manifest
    annotations: dict[str, str]
    time: progress.StatusTime
    written: bool = True

    @property
    def spec(self) -> Manifest:
        spec: Manifest = self.deployment.manifest["spec"]
        return spec

    @property
    def limits(self) -> sizes.RolloutLimits:
        return sizes.limits_of(self.spec)

    def note_progress(self, value: str, reason: str, message: str) -> None:
        self.status = progress.with_condition(self.status, progress.PROGRESSING, value, reason, message, self.time)
        self.written = False

    def note_revision(self, number: str) -> None:
        if self.annotations.get(facts.REVISION) != number:
            self.annotations[facts.REVISION] = number
            self.written = False


class DeploymentController(Actor):
    """Carries out Deployments. It follows ReplicaSets once there is a Deployment, and pods once one recreates its pods."""

    name = "kube-controller-manager"

    def __init__(self, world: World) -> None:
        super().__init__(world, lag_s=_LAG_S[0])
        self._deployments: dict[str, ObjectKey] = {}  # by uid
        self._owned: defaultdict[str | None, set[ObjectKey]] = defaultdict(set)
        """Keys of ReplicaSets by their controller's uid; None for those without one."""
        self._failures: Counter[ObjectKey] = Counter()
        self._follows_replica_sets = self._follows_pods = False

    def start(self) -> None:
        """Subscribes to Deployments."""
        self.listen(DEPLOYMENT, self._on_deployment)

    def sync(self, key: ObjectKey) -> None:
        """Makes one pass over a Deployment; one that was refused something is repeated, later each time."""
        stored = self.world.history.get(DEPLOYMENT, *key)
        if stored is None:
            self._failures.pop(key, None)
            return
        try:
            self._sync(stored)
        except Refused:
            self._failures[key] += 1
            if self._failures[key] <= _RETRIES_MAX:
                self.enqueue(key, _RETRY_S * 2.0 ** (self._failures[key] - 1))
                return
        self._failures.pop(key, None)

    def _notice(self, key: ObjectKey) -> None:
        self.enqueue(key, self.world.rng.uniform(*_LAG_S))

    def _on_deployment(self, change: CommittedWrite) -> None:
        stored = change.new
        if change.event == DELETED:
            self._deployments.pop(stored.metadata["uid"], None)
            return
        self._deployments[stored.metadata["uid"]] = stored.key
        if not self._follows_replica_sets:
            self._follows_replica_sets = True
            self.listen(REPLICA_SET, self._on_replica_set)
        if not self._follows_pods and stored.manifest["spec"]["strategy"]["type"] == RECREATE:
            self._follows_pods = True
            self.listen(POD, self._on_pod)
        self._notice(stored.key)

    def _on_replica_set(self, change: CommittedWrite) -> None:
        new, old = change.new, change.old
        owner = pod_facts.controller_uid(new)
        before = pod_facts.controller_uid(old) if old else None
        self._owned[before].discard(new.key)
        if change.event == DELETED:
            self._owned[owner].discard(new.key)
        else:
            self._owned[owner].add(new.key)
        for uid in (owner, before):
            if uid is not None and uid in self._deployments:
                self._notice(self._deployments[uid])
        is_news = old is None or before is not None or old.labels != new.labels
        if owner is None and is_news and change.event != DELETED:
            for deployment in self.world.history.select(DEPLOYMENT, new.key[0]):
                if selects(deployment.manifest["spec"]["selector"], new.labels):
                    self._notice(deployment.key)

    def _on_pod(self, change: CommittedWrite) -> None:
        """The last old pod of a Deployment may have gone."""
        for owner in change.new.metadata.get("ownerReferences") or () if change.event == DELETED else ():
            replica_set = self.world.history.get(REPLICA_SET, change.new.key[0], owner["name"])
            uid = pod_facts.controller_uid(replica_set) if replica_set else None
            if uid is not None and uid in self._deployments:
                self._notice(self._deployments[uid])

    def _sync(self, stored: Stored) -> None:
        time = progress.StatusTime(self.world.now_s(), self.world.verbs.now())
        known = stored.manifest.get("status") or {}
        look = _Pass(stored, self._claimed(stored), known, dict(facts.annotations_of(stored)), time)
        if pod_facts.is_terminating(stored):
            new, old = self._new_and_old(look)
            self._write_status(look, new, old, judge=False)
            return
        self._note_pause(look)
        if look.spec.get("paused") or self._is_scaled(look):
            self._sync_sizes(look)
        elif look.limits.is_rolling:
            self._roll(look)
        else:
            self._recreate(look)

    def _claimed(self, deployment: Stored) -> list[Stored]:
        """The ReplicaSets of a Deployment: it adopts those that it selects and nobody owns, and releases what it does not select.

        Source: pkg/controller/controller_ref_manager.go `ClaimReplicaSets`.
        """
        uid, dying = deployment.metadata["uid"], pod_facts.is_terminating(deployment)
        claimed = []
        for key in sorted(self._owned[uid] | {key for key in self._owned[None] if key[0] == deployment.key[0]}):
            stored = self.world.history.get(REPLICA_SET, *key)
            if stored is None:
                continue
            selected = selects(deployment.manifest["spec"]["selector"], stored.labels)
            owners = stored.metadata.get("ownerReferences") or []
            if key in self._owned[uid] and selected:
                claimed.append(stored)
            elif dying or (selected and pod_facts.is_terminating(stored)):
                continue
            elif selected:
                own = pod_facts.owner_reference(DEPLOYMENT, deployment)
                claimed.append(self._put(stored, metadata={"ownerReferences": [*owners, own]}))
            elif key in self._owned[uid]:
                self._put(stored, metadata={"ownerReferences": [each for each in owners if each["uid"] != uid]})
        return claimed

    def _note_pause(self, look: _Pass) -> None:
        """A pause stops the clock of the deadline, and its end starts it again."""
        reason = progress.condition(look.status, progress.PROGRESSING).get("reason")
        if not progress.has_deadline(look.spec) or reason == progress.TIMED_OUT:
            return
        if look.spec.get("paused") and reason != progress.PAUSED:
            look.note_progress("Unknown", progress.PAUSED, "Deployment is paused")
            self._put_status(look)
        elif not look.spec.get("paused") and reason == progress.PAUSED:
            look.note_progress("Unknown", progress.RESUMED, "Deployment is resumed")
            self._put_status(look)

    def _new_and_old(self, look: _Pass) -> tuple[Stored | None, list[Stored]]:
        """The ReplicaSet with the Deployment's template, with its annotations and `minReadySeconds`, and all others."""
        new = facts.with_template(look.spec["template"], look.owned)
        old = [each for each in look.owned if each is not new]
        if new is None:
            return None, old
        noted = facts.new_annotations(look.annotations, facts.annotations_of(new), _next_revision(old))
        spec = facts.with_min_ready(new.manifest["spec"], look.spec.get("minReadySeconds", 0))
        if noted != facts.annotations_of(new) or spec != new.manifest["spec"]:
            return self._put(new, metadata={"annotations": noted}, spec=spec), old
        look.note_revision(noted[facts.REVISION])
        if progress.has_deadline(look.spec) and not progress.condition(look.status, progress.PROGRESSING):
            look.note_progress("True", progress.FOUND, f'Found new replica set "{new.metadata["name"]}"')
        self._put_status(look)
        return new, old

    def _created(self, look: _Pass, old: Sequence[Stored]) -> Stored:
        """A new ReplicaSet. Raises: Refused, with one collision more in the status when its name is taken."""
        limits, number = look.limits, _next_revision(old)
        manifest = facts.new_replica_set(look.deployment, collisions=look.status.get("collisionCount", 0))
        manifest["spec"]["replicas"] = sizes.grown(limits, 0, sum(map(replicas, old)))
        noted = facts.new_annotations(look.annotations, {}, number) | self._size_annotations(limits)
        manifest["metadata"]["annotations"] = noted
        try:
            resource, namespace = self.world.resource(REPLICA_SET), look.deployment.key[0]
            new = self.world.verbs.create(resource, namespace, manifest, self.options)
        except Refused as refused:
            if refused.reason == "AlreadyExists":
                look.status = {**look.status, "collisionCount": look.status.get("collisionCount", 0) + 1}
                look.written = False
                self._put_status(look)
            raise
        look.note_revision(str(number))
        if progress.has_deadline(look.spec):
            look.note_progress("True", progress.CREATED, f'Created new replica set "{new.metadata["name"]}"')
        self._put_status(look)
        return new

    def _is_scaled(self, look: _Pass) -> bool:
        new, old = self._new_and_old(look)
        return sizes.is_scaled(look.limits, _active(new, old))

    def _sync_sizes(self, look: _Pass) -> None:
        """What happens after a scale, and while the Deployment is paused: no step of an update."""
        new, old = self._new_and_old(look)
        self._scale_all(look, new, old)
        if look.spec.get("paused"):
            self._clean_up(look, old)
        self._write_status(look, new, old, judge=False)

    def _scale_all(self, look: _Pass, new: Stored | None, old: Sequence[Stored]) -> None:
        limits, active = look.limits, _active(new, old)
        if len(active) <= 1:
            newest = new or max(old, key=facts.by_age, default=None)
            for each in active or ([newest] if newest else []):
                self._scale(look, each, limits.replicas)
        elif sizes.is_saturated(limits, new):
            for each in old:
                self._scale(look, each, 0)
        elif limits.is_rolling:
            shares = sizes.proportional(limits, active, counted_pods=look.status.get("replicas", 0))
            for each in active:
                self._scale(look, each, shares[each.metadata["name"]], always_note=True)

    def _roll(self, look: _Pass) -> None:
        """One step of a rolling update: the new ReplicaSet grows; where it cannot, old ones shrink."""
        new, old = self._new_and_old(look)
        new = new or self._created(look, old)
        if not self._scale(look, new, sizes.grown(look.limits, replicas(new), sum(map(replicas, old)))):
            shares = sizes.shrunk(look.limits, new, [each for each in old if replicas(each)])
            for each in old:
                self._scale(look, each, shares.get(each.metadata["name"], replicas(each)))
            if not shares and progress.is_complete(look.deployment, look.status):
                self._clean_up(look, old)
        self._write_status(look, new, old, judge=True)

    def _recreate(self, look: _Pass) -> None:
        """The new pods come when the last old one has gone."""
        new, old = self._new_and_old(look)
        shrank = [self._scale(look, each, 0) for each in old]
        if not any(shrank) and not self._old_pods_run(look, old):
            new = new or self._created(look, old)
            self._scale(look, new, look.limits.replicas)
            if progress.is_complete(look.deployment, look.status):
                self._clean_up(look, old)
        self._write_status(look, new, old, judge=True)

    def _old_pods_run(self, look: _Pass, old: Sequence[Stored]) -> bool:
        if any(facts.counted(each, "replicas") for each in old):
            return True
        uids = {each.metadata["uid"] for each in old}
        selector = selector_text(look.spec["selector"])
        pods = self.world.history.candidates(POD, look.deployment.key[0], selector)
        return any(
            pod_facts.controller_uid(pod) in uids and pod_facts.phase(pod) not in ("Failed", "Succeeded")
            for pod in pods
        )

    def _scale(self, look: _Pass, stored: Stored, size: int, *, always_note: bool = False) -> bool:
        """Gives a ReplicaSet its size, and notes for which size of the Deployment that was; whether its size changes."""
        changes = replicas(stored) != size
        noted = {**facts.annotations_of(stored), **self._size_annotations(look.limits)}
        if changes or (always_note and noted != facts.annotations_of(stored)):
            self._put(stored, metadata={"annotations": noted}, spec={**stored.manifest["spec"], "replicas": size})
        return changes

    def _size_annotations(self, limits: sizes.RolloutLimits) -> dict[str, str]:
        return {facts.DESIRED_REPLICAS: str(limits.replicas), facts.MAX_REPLICAS: str(limits.most)}

    def _clean_up(self, look: _Pass, old: Sequence[Stored]) -> None:
        limit = progress.history_limit(look.spec)
        if limit is None:
            return
        for each in facts.oldest_revisions(old, limit=limit):
            self.world.verbs.delete(
                self.world.resource(REPLICA_SET), *each.key, DeleteOptions(propagation="Background")
            )

    def _write_status(self, look: _Pass, new: Stored | None, old: Sequence[Stored], *, judge: bool) -> None:
        """Writes the counts, and with `judge` whether the update makes progress; looks again when the deadline has passed."""
        every = [*old, *([new] if new else [])]
        counted = progress.counted_status(look.deployment, look.status, every, new, look.time)
        if judge:
            counted = progress.with_progress(look.deployment, look.status, counted, new, look.time)
        if counted != look.status:
            look.status, look.written = counted, False
            self._put_status(look)
        elif judge and (left_s := progress.next_look_s(look.deployment, counted, look.time)) is not None:
            self.enqueue(look.deployment.key, left_s)

    def _put(self, stored: Stored, *, metadata: Manifest, spec: Manifest | None = None) -> Stored:
        """Replaces parts of a ReplicaSet. Raises: Refused (409) when it has changed since it was read."""
        manifest = {**stored.manifest, "metadata": {**stored.metadata, **metadata}}
        manifest["spec"] = stored.manifest["spec"] if spec is None else spec
        return self.world.verbs.replace(self.world.resource(REPLICA_SET), *stored.key, manifest, self.options)

    def _put_status(self, look: _Pass) -> None:
        """Writes status and annotations, if they differ. Raises: Refused (409) when the Deployment has changed since."""
        if look.written:
            return
        stored, look.written = look.deployment, True
        manifest = {**stored.manifest, "status": look.status}
        manifest["metadata"] = {**stored.metadata, "annotations": look.annotations}
        self.world.verbs.replace(self.world.resource(DEPLOYMENT), *stored.key, manifest, self.options, "status")


def _active(new: Stored | None, old: Sequence[Stored]) -> list[Stored]:
    return [each for each in (*old, *([new] if new else [])) if replicas(each)]


def _next_revision(old: Sequence[Stored]) -> int:
    return 1 + max(map(facts.revision, old), default=0)
