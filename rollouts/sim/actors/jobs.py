"""The Job controller: pods until enough of them have succeeded, or too many have failed.

What the pods do, and for how long, they say themselves (`processes.py`). `backoffLimitPerIndex`, `podFailurePolicy` and
`managedBy` are not carried out. Pods have no tracking finalizer; one that is deleted before its end counts as failed.
Source: k8s.io/kubernetes pkg/controller/job/{job_controller.go,success_policy.go,indexed_job_utils.go}.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec import Struct

from rollouts.objects import JOB, POD, Manifest
from rollouts.sim.actors import pods as pod_facts
from rollouts.sim.actors import processes
from rollouts.sim.actors.processes import ATTEMPT, COMPLETION_INDEX
from rollouts.sim.actors.work import Actor, World
from rollouts.sim.apiserver.verbs import DeleteOptions
from rollouts.sim.storage.history import DELETED, CommittedWrite, ObjectKey, Stored
from rollouts.sim.storage.job_rules import INDEXED

BACK_OFF_S, BACK_OFF_MAX_S = 10.0, 600.0
_SUCCEEDED, _FAILED = "Succeeded", "Failed"


class JobEnd(Struct, frozen=True):
    """What a Job comes to."""

    success: bool
    reason: str
    message: str


@dataclass(slots=True)
class _Seen:
    """What is known of one Job's pods.

    Args:
        pods: those that exist, by uid.
        ended: phases of those that have ended, by uid; they count when they have gone, too.
        failed_at_s: when the latest failed, loop time.
    """

    pods: dict[str, Stored] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    succeeded_indexes: set[int] = field(default_factory=set)
    failed_at_s: float = 0.0
    made: int = 0

    def count(self, phase: str) -> int:
        return sum(ended == phase for ended in self.ended.values())

    @property
    def active(self) -> list[Stored]:
        return [pod for pod in self.pods.values() if pod_facts.is_active(pod)]

    @property
    def terminating(self) -> list[Stored]:
        return [pod for pod in self.pods.values() if pod_facts.is_terminating(pod)]


class JobController(Actor):
    """Runs Jobs."""

    name = "job-controller"

    def __init__(self, world: World) -> None:
        super().__init__(world, lag_s=0.01)
        self._seen: defaultdict[str, _Seen] = defaultdict(_Seen)  # by the Job's uid
        self._key_of: dict[str, ObjectKey] = {}

    def start(self) -> None:
        """Subscribes to Jobs and to their pods."""
        self.listen(POD, self._on_pod)
        self.listen(JOB, self._on_job)

    def sync(self, key: ObjectKey) -> None:
        """Syncs one Job."""
        job = self.world.history.get(JOB, *key)
        if job is None or pod_facts.is_terminating(job):
            return
        if _condition(job, "Complete") or _condition(job, "Failed"):
            self._forget_in_time(job)
            return
        seen = self._seen[job.metadata["uid"]]
        spec, now = job.manifest["spec"], self.world.verbs.now()
        status = dict(job.manifest.get("status") or {})
        conditions = [dict(condition) for condition in status.get("conditions") or ()]
        if spec.get("suspend"):
            self._delete(seen.active)
            conditions = _with(conditions, "Suspended", "True", JobEnd(True, "JobSuspended", "Job suspended"), now)
            status.pop("startTime", None)
        else:
            if _condition(job, "Suspended"):
                conditions = _with(conditions, "Suspended", "False", JobEnd(True, "JobResumed", "Job resumed"), now)
            status.setdefault("startTime", now)
            outcome = self._outcome(job, status, seen)
            if outcome is None:
                self._match(job, seen)
            else:
                conditions = self._concluded(conditions, outcome, seen, status)
        self._write(job, {**status, "conditions": conditions} if conditions else status, seen)

    def _on_job(self, change: CommittedWrite) -> None:
        uid = change.new.metadata["uid"]
        if change.event == DELETED:
            self._key_of.pop(uid, None)
            self._seen.pop(uid, None)
            return
        self._key_of[uid] = change.new.key
        if change.old is None or change.old.manifest["spec"] != change.new.manifest["spec"]:
            self.enqueue(change.new.key)

    def _on_pod(self, change: CommittedWrite) -> None:
        pod, owner = change.new, pod_facts.controller_uid(change.new)
        if owner is None or owner not in self._key_of:
            return
        uid, seen, phase = pod.metadata["uid"], self._seen[owner], pod_facts.phase(pod)
        if change.event == DELETED:
            seen.pods.pop(uid, None)
            phase = phase if phase in (_SUCCEEDED, _FAILED) else _FAILED
        else:
            seen.pods[uid] = pod
        if phase in (_SUCCEEDED, _FAILED) and uid not in seen.ended:
            seen.ended[uid] = phase
            index = _index(pod)
            if phase == _FAILED:
                seen.failed_at_s = self.world.loop.time()
            elif index is not None:
                seen.succeeded_indexes.add(index)
        self.enqueue(self._key_of[owner])

    def _outcome(self, job: Stored, status: Manifest, seen: _Seen) -> JobEnd | None:
        """What the Job comes to, as an earlier sync has decided or as it shows now; None for one that goes on."""
        for condition in status.get("conditions") or ():
            if condition["type"] in ("SuccessCriteriaMet", "FailureTarget"):
                success = condition["type"] == "SuccessCriteriaMet"
                return JobEnd(success, condition["reason"], condition["message"])
        spec = job.manifest["spec"]
        limit_s = spec.get("activeDeadlineSeconds")
        if limit_s is not None:
            left_s = pod_facts.seconds(status["startTime"]) + limit_s - self.world.now_s()
            if left_s <= 0:
                return JobEnd(False, "DeadlineExceeded", "Job was active longer than specified deadline")
            self.enqueue(job.key, left_s)
        restarts = sum(map(processes.restarts, seen.active))
        if seen.count(_FAILED) > spec["backoffLimit"] or (restarts and restarts >= spec["backoffLimit"]):
            return JobEnd(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        for number, rule in enumerate((spec.get("successPolicy") or {}).get("rules") or ()):
            if rule_holds(rule, seen.succeeded_indexes):
                return JobEnd(True, "SuccessPolicy", f"Matched rules at index {number}")
        if _is_complete(spec, seen):
            return JobEnd(True, "CompletionsReached", "Reached expected number of succeeded pods")
        return None

    def _concluded(self, conditions: list[Manifest], outcome: JobEnd, seen: _Seen, status: Manifest) -> list[Manifest]:
        """The conditions of a Job whose end is known: it is over when its last pod has gone."""
        now = self.world.verbs.now()
        conditions = _with(
            conditions, "SuccessCriteriaMet" if outcome.success else "FailureTarget", "True", outcome, now
        )
        if seen.active or seen.terminating:
            self._delete(seen.active)
            return conditions
        if outcome.success:
            status["completionTime"] = now
        return _with(conditions, "Complete" if outcome.success else "Failed", "True", outcome, now)

    def _match(self, job: Stored, seen: _Seen) -> None:
        """Creates the pods that are missing, later when the last one has failed a moment ago."""
        spec = job.manifest["spec"]
        failed = seen.count(_FAILED)
        if failed:
            wait_s = min(BACK_OFF_S * 2.0 ** (failed - 1), BACK_OFF_MAX_S)
            left_s = seen.failed_at_s + wait_s - self.world.loop.time()
            if left_s > 1e-6:
                self.enqueue(job.key, left_s)
                return
        resource, namespace = self.world.resource(POD), job.metadata["namespace"]
        for index in _missing(spec, seen):
            pod = self.world.verbs.create(resource, namespace, _new_pod(job, seen, index), self.options)
            seen.made += 1
            seen.pods[pod.metadata["uid"]] = pod

    def _delete(self, pods: Iterable[Stored]) -> None:
        for pod in pods:
            options = DeleteOptions(uid=pod.metadata["uid"])
            self.world.verbs.delete(self.world.resource(POD), *pod.key, options)

    def _write(self, job: Stored, status: Manifest, seen: _Seen) -> None:
        counts = {"active": len(seen.active), "succeeded": seen.count(_SUCCEEDED), "failed": seen.count(_FAILED)}
        for name, count in counts.items():
            status.pop(name, None)
            status |= {name: count} if count else {}
        if job.manifest["spec"]["completionMode"] == INDEXED and seen.succeeded_indexes:
            status["completedIndexes"] = index_ranges(seen.succeeded_indexes)
        status["ready"] = sum(map(pod_facts.is_ready, seen.active))
        status["terminating"] = len(seen.terminating)
        status["uncountedTerminatedPods"] = {}
        if status != job.manifest.get("status"):
            self._forget_in_time(self.write_status(JOB, job, status))

    def _forget_in_time(self, job: Stored) -> None:
        life_s = job.manifest["spec"].get("ttlSecondsAfterFinished")
        ended = _condition(job, "Complete") or _condition(job, "Failed")
        if life_s is None or not ended:
            return
        left_s = pod_facts.seconds(ended["lastTransitionTime"]) + life_s - self.world.now_s()
        if left_s > 0:
            self.enqueue(job.key, left_s)
            return
        options = DeleteOptions(uid=job.metadata["uid"], propagation="Foreground")
        self.world.verbs.delete(self.world.resource(JOB), *job.key, options)


def rule_holds(rule: Manifest, succeeded: set[int]) -> bool:
    """Whether a rule of a `successPolicy` holds for these indexes."""
    asked = rule.get("succeededIndexes")
    matching = succeeded if asked is None else succeeded & indexes_of(asked)
    needed = rule.get("succeededCount")
    if needed is None:
        return len(matching) == len(indexes_of(asked or ""))
    return len(matching) >= int(needed)


def indexes_of(text: str) -> set[int]:
    """The indexes in `0,2-4`."""
    indexes: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        indexes |= set(range(int(first), int(last or first) + 1))
    return indexes


def index_ranges(indexes: Iterable[int]) -> str:
    """Indexes as `status.completedIndexes` has them: `0,2-4`."""
    ranges: list[list[int]] = []
    for index in sorted(indexes):
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _is_complete(spec: Manifest, seen: _Seen) -> bool:
    completions: int | None = spec.get("completions")
    if completions is None:  # a work queue: one success, and nobody is left
        return seen.count(_SUCCEEDED) > 0 and not seen.active
    done = len(seen.succeeded_indexes) if spec["completionMode"] == INDEXED else seen.count(_SUCCEEDED)
    return done >= completions


def _missing(spec: Manifest, seen: _Seen) -> list[int | None]:
    """The indexes of the pods to create; None for each pod without one."""
    parallelism, completions = spec["parallelism"], spec.get("completions")
    if spec["completionMode"] == INDEXED:
        running = {_index(pod) for pod in (*seen.active, *seen.terminating)}
        free = [index for index in range(completions or 0) if index not in running | seen.succeeded_indexes]
        return list(free[: max(0, parallelism - len(running))])
    if completions is None:
        wanted = parallelism if not seen.count(_SUCCEEDED) else len(seen.active)
    else:
        wanted = min(parallelism, completions - seen.count(_SUCCEEDED))
    return [None] * max(0, wanted - len(seen.active) - len(seen.terminating))


def _new_pod(job: Stored, seen: _Seen, index: int | None) -> Manifest:
    template, name = job.manifest["spec"]["template"], job.metadata["name"]
    given = template.get("metadata") or {}
    own = {ATTEMPT: str(seen.made)} if index is None else {COMPLETION_INDEX: str(index)}
    labels = dict(given.get("labels") or {})
    if index is not None:
        labels[COMPLETION_INDEX] = str(index)
    metadata = {
        "generateName": f"{name}-" if index is None else f"{name}-{index}-",
        "labels": labels,
        "annotations": {**(given.get("annotations") or {}), **own},
        "ownerReferences": [pod_facts.owner_reference(JOB, job)],
    }
    return {"metadata": metadata, "spec": template["spec"]}


def _index(pod: Stored) -> int | None:
    text = (pod.metadata.get("annotations") or {}).get(COMPLETION_INDEX)
    return int(text) if text is not None else None


def _condition(job: Stored, name: str) -> Manifest:
    condition = pod_facts.condition(job, name)
    return condition if condition.get("status") == "True" else {}


def _with(conditions: list[Manifest], kind: str, status: str, outcome: JobEnd, now: str) -> list[Manifest]:
    """The conditions with one of them; one that has this status already stays as it is."""
    if any(condition["type"] == kind and condition["status"] == status for condition in conditions):
        return conditions
    new = {
        "type": kind,
        "status": status,
        "lastProbeTime": now,
        "lastTransitionTime": now,
        "reason": outcome.reason,
        "message": outcome.message,
    }
    return [*(condition for condition in conditions if condition["type"] != kind), new]
