"""How fast a controller reacts on a quiet cluster: one Rollout in motion, again and again.

Each round gives the Rollout a new image (`setWeight 50, pause {}`), waits for the canary's pod, then aborts. Two times are taken
per round, both by one client that watches the Rollout and its ReplicaSets:

* step: from the ReplicaSet's status with an available canary pod to the Rollout's status with the next step;
* abort: from just before the PATCH that asks for it is sent to the canary ReplicaSet with `spec.replicas: 0`.

The same is measured of Argo Rollouts where it is given: same control plane, same pods, same client.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TypeVar

from benchmarks.api import MERGE_PATCH, Api, Seen
from benchmarks.workloads import ARGO_ROLLOUTS, REPLICAS, ROLLOUTS, Object, Workload

ROUND_LIMIT_S = 60.0
REST_S = 0.3  # between rounds, so that the API server has nothing else to do

_NAME = "mover"
_STEPS = {"canary": {"maxSurge": "25%", "maxUnavailable": "25%", "steps": [{"setWeight": 50}, {"pause": {}}]}}

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Whose reactions are measured, and how its objects say what this wants to know.

    Args:
        revision_label: on its ReplicaSets.
        current, stable: fields of status with the revision's name.
        aborted_phase: once stable serves alone.
        abort_path, abort_patch: what asks for an abort; the path goes behind the object's.
    """

    workload: Workload
    revision_label: str
    current: str
    stable: str
    aborted_phase: str
    abort_path: str
    abort_patch: Object


OURS = Subject(
    workload=ROLLOUTS,
    revision_label="rollouts.dev/revision",
    current="currentRevision",
    stable="stableRevision",
    aborted_phase="Aborted",
    abort_path="",
    abort_patch={"metadata": {"annotations": {"rollouts.dev/abort": "true"}}},
)
ARGO = Subject(
    workload=ARGO_ROLLOUTS,
    revision_label="rollouts-pod-template-hash",
    current="currentPodHash",
    stable="stableRS",
    aborted_phase="Degraded",
    abort_path="/status",
    abort_patch={"status": {"abort": True}},
)


@dataclass(slots=True)
class Reactions:
    """Samples in seconds, in the order they were taken."""

    step_s: list[float] = field(default_factory=list)
    abort_s: list[float] = field(default_factory=list)


async def measure(
    api: Api, namespace: str, *, rounds: int, on_done: Callable[[int], object], subject: Subject = OURS
) -> Reactions:
    """Takes a sample of each kind in every round. Raises: TimeoutError with the state in which a round hung."""
    rollouts = subject.workload.collection(namespace)
    sets = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    world = _World(subject)
    async with asyncio.TaskGroup() as tasks:
        watchers = []
        for collection, learn in ((rollouts, world.learn_rollout), (sets, world.learn_set)):
            since = await api.version_of(collection)
            watchers.append(tasks.create_task(_follow(api.watch(collection, since=since), learn)))
        manifest = subject.workload.manifest(_NAME, image="app:0", strategy=_STEPS)
        await api.request("POST", rollouts, manifest)
        await world.until("the first revision is rolled out", lambda: world.at_rest(phase="Healthy") or None)
        reactions = Reactions()
        for number in range(1, rounds + 1):
            await _round(api, f"{rollouts}/{_NAME}", world, reactions, image=f"app:{number}")
            on_done(number)
        for watcher in watchers:
            watcher.cancel()
    await api.request("DELETE", f"{rollouts}/{_NAME}")
    return reactions


async def _round(api: Api, path: str, world: _World, reactions: Reactions, *, image: str) -> None:
    await asyncio.sleep(REST_S)
    world.begin()
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": image}]}}}}
    await api.request("PATCH", path, patch, content_type=MERGE_PATCH)
    reactions.step_s.append(await world.until("the canary waits for its promotion", lambda: world.step_s))
    await world.until("the pause is in status", lambda: world.rollout["status"]["phase"] == "Paused" or None)
    await asyncio.sleep(REST_S)
    sent_s = time.monotonic()
    subject = world.subject
    await api.request("PATCH", path + subject.abort_path, subject.abort_patch, content_type=MERGE_PATCH)
    reactions.abort_s.append(await world.until("the canary is scaled to 0", lambda: world.emptied_at_s) - sent_s)
    await world.until("the old revision is whole again", lambda: world.at_rest(phase=subject.aborted_phase) or None)


async def _follow(lines: AsyncGenerator[Seen, None], learn: Callable[[Seen], None]) -> None:
    async with aclosing(lines) as seen:
        async for line in seen:
            learn(line)


class _World:
    """What the two watches have shown of the one Rollout. Each revision has its first moments."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.rollout: Object = {}
        self._sets: dict[str, Object] = {}
        self._stepped_s: dict[str, float] = {}
        self._available_s: dict[str, float] = {}
        self._emptied_s: dict[str, float] = {}
        self._revision_before = ""
        self._changed = asyncio.Event()

    def begin(self) -> None:
        """A new round: the revision that it brings is another one."""
        self._revision_before = self._current

    def learn_rollout(self, line: Seen) -> None:
        """One line of the Rollouts' watch."""
        if line.object["metadata"]["name"] != _NAME:
            return
        self.rollout = line.object
        if self._canary and self.rollout["status"].get("currentStepIndex") == 1:
            self._stepped_s.setdefault(self._current, line.at_s)
        self._changed.set()

    def learn_set(self, line: Seen) -> None:
        """One line of the ReplicaSets' watch."""
        revision = line.object["metadata"].get("labels", {}).get(self.subject.revision_label, "")
        if not line.object["metadata"]["name"].startswith(f"{_NAME}-"):
            return
        before = self._sets.pop(revision, None)
        if line.type != "DELETED":
            self._sets[revision] = line.object
        if line.object["status"].get("availableReplicas", 0) >= 1:
            self._available_s.setdefault(revision, line.at_s)
        if before is not None and before["spec"]["replicas"] > 0 and line.object["spec"]["replicas"] == 0:
            self._emptied_s.setdefault(revision, line.at_s)
        self._changed.set()

    @property
    def step_s(self) -> float | None:
        """From the canary's first available pod to the next step in status; None until both were seen."""
        ends = self._stepped_s.get(self._canary), self._available_s.get(self._canary)
        return None if ends[0] is None or ends[1] is None else ends[0] - ends[1]

    @property
    def emptied_at_s(self) -> float | None:
        """When the canary was scaled to 0; None until it was."""
        return self._emptied_s.get(self._canary)

    def at_rest(self, *, phase: str) -> bool:
        """The Rollout is in `phase` and its stable revision alone has pods, all of them available."""
        if self.rollout.get("status", {}).get("phase") != phase:
            return False
        pods = {revision: one["status"].get("availableReplicas", 0) for revision, one in self._sets.items()}
        all_pods = sum(one["status"].get("replicas", 0) for one in self._sets.values())
        return bool(pods.get(self._stable) == REPLICAS == all_pods)

    async def until(self, what: str, value: Callable[[], T | None]) -> T:
        """Waits until the watches have shown something: `value` is no longer None. Raises: TimeoutError."""
        try:
            async with asyncio.timeout(ROUND_LIMIT_S):
                while (found := value()) is None:
                    self._changed.clear()
                    await self._changed.wait()
                return found
        except TimeoutError as exc:
            raise TimeoutError(f"not within {ROUND_LIMIT_S:g} s: {what}; status: {self.rollout.get('status')}") from exc

    @property
    def _current(self) -> str:
        revision: str = self.rollout.get("status", {}).get(self.subject.current, "")
        return revision

    @property
    def _canary(self) -> str:
        """The revision of this round; "" until the controller has taken it up."""
        return self._current if self._current not in {self._stable, self._revision_before} else ""

    @property
    def _stable(self) -> str:
        revision: str = self.rollout.get("status", {}).get(self.subject.stable, "")
        return revision
