"""Scheduler and kubelets in one: pods get a node and an address, start, become Ready or crash, and terminate.

A terminating pod serves until its preStop sleep ends, stops serving at SIGTERM (the app handles no signal), and is gone
`shutdown_s` later, all within its grace period. A sleep that takes the whole grace period leaves 2 s for the rest.
Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rollouts.objects import POD, Manifest
from rollouts.sim.actors import pods as pod_facts
from rollouts.sim.actors.work import Actor, World
from rollouts.sim.apiserver.verbs import DeleteOptions
from rollouts.sim.storage.history import DELETED, CommittedWrite, ObjectKey, Stored
from rollouts.sim.storage.registry import NODE

STARTUP_SECONDS = "sim.rollouts.dev/startup-seconds"
"""Pod annotation: seconds from running to Ready, instead of a random time."""

EXTENSION_S = 2.0
"""The shortest time between SIGTERM and SIGKILL after a preStop, even if less is left of the grace period."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSettings:
    """How fast the nodes are; times are seconds of loop time.

    Args:
        nodes: number of nodes.
        schedule_s: time from a pod's creation until it has a node.
        pull_s: time from then until it runs.
        startup_s: shortest and longest time from running to Ready.
        shutdown_s: time from SIGTERM to the end of the process.
        kernel: kernel version of every node.
        never_ready: by a word in the image tag: the waiting reason of such containers, which never become Ready.
    """

    nodes: int = 5
    schedule_s: float = 0.01
    pull_s: float = 0.05
    startup_s: tuple[float, float] = (0.5, 2.0)
    shutdown_s: float = 0.1
    kernel: str = "6.1.0-sim"
    never_ready: tuple[tuple[str, str], ...] = (("bad", "CrashLoopBackOff"), ("missing", "ImagePullBackOff"))


class Kubelets(Actor):
    """Runs the pods of every node."""

    name = "kubelet"

    def __init__(self, world: World, settings: KubeletSettings) -> None:
        super().__init__(world, lag_s=0.0)
        self.settings = settings
        self._serving: set[str] = set()
        self._ends_at: dict[str, float] = {}
        self._starts_at: dict[str, float] = {}
        self._next_address = 0

    def watch(self) -> None:
        """Creates the nodes, then subscribes to pods."""
        for name in self.nodes:
            if self.world.history.get(NODE, "", name) is None:
                status = {
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "nodeInfo": {"kernelVersion": self.settings.kernel},
                }
                manifest = {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "status": status}
                self.world.verbs.create(self.world.resource(NODE), "", manifest, self.options)
        self.listen(POD, self._on_pod)

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes."""
        return [f"node-{number}" for number in range(self.settings.nodes)]

    def serves(self, uid: str) -> bool:
        """Whether a pod would answer a request now."""
        return uid in self._serving

    def look(self, key: ObjectKey) -> None:
        """Does the next step in the life of one pod."""
        pod = self.world.history.get(POD, *key)
        if pod is None:
            return
        if pod_facts.is_terminating(pod):
            self._end(pod)
        elif not pod.manifest["spec"].get("nodeName"):
            self._bind(pod)
        elif pod_facts.phase(pod) == "Pending" and not _waiting_reason(pod):
            self._run(pod)
        elif not pod_facts.is_ready(pod) and not _waiting_reason(pod):
            self._make_ready(pod)

    def _on_pod(self, change: CommittedWrite) -> None:
        pod, uid = change.new, change.new.metadata["uid"]
        if change.event == DELETED:
            self._serving.discard(uid)
            self._ends_at.pop(uid, None)
            self._starts_at.pop(uid, None)
        elif pod_facts.is_terminating(pod):
            self.mark(pod.key, 0.0)
        elif change.event == "ADDED":
            self.mark(pod.key, self.settings.schedule_s)

    def _bind(self, pod: Stored) -> None:
        node = self.world.rng.choice(self.nodes)
        scheduled = {**pod.manifest, "spec": {**pod.manifest["spec"], "nodeName": node}}
        self.world.verbs.update(self.world.resource(POD), pod, scheduled, self.options)
        self.mark(pod.key, self.settings.pull_s)

    def _run(self, pod: Stored) -> None:
        reason = self._never_ready_reason(pod)
        self._next_address += 1
        number = self._next_address
        phase = "Pending" if reason == "ImagePullBackOff" else "Running"
        address = f"10.{64 + number // 65_536 % 64}.{number // 256 % 256}.{number % 256}"
        self._write_status(pod, phase=phase, ready=False, address=address, waiting=reason)
        if reason:
            return
        fixed = (pod.metadata.get("annotations") or {}).get(STARTUP_SECONDS)
        startup_s = float(fixed) if fixed is not None else self.world.rng.uniform(*self.settings.startup_s)
        self._starts_at[pod.metadata["uid"]] = self.world.loop.time() + startup_s
        self.mark(pod.key, startup_s)

    def _make_ready(self, pod: Stored) -> None:
        left_s = self._starts_at.get(pod.metadata["uid"], 0.0) - self.world.loop.time()
        if left_s > 1e-6:
            self.mark(pod.key, left_s)
            return
        self._serving.add(pod.metadata["uid"])
        self._write_status(pod, phase="Running", ready=True, address=pod_facts.address(pod), waiting=None)

    def _end(self, pod: Stored) -> None:
        uid, now_s = pod.metadata["uid"], self.world.loop.time()
        grace_s = float(pod.metadata.get("deletionGracePeriodSeconds") or 0)
        if uid not in self._ends_at:
            sleep_s = min(_pre_stop_sleep_s(pod), grace_s)
            left_s = max(grace_s - sleep_s, EXTENSION_S) if sleep_s else grace_s
            self._ends_at[uid] = now_s + sleep_s + min(self.settings.shutdown_s, left_s)
            self.world.loop.call_later(sleep_s, self._serving.discard, uid)
        ends_at = min(self._ends_at[uid], now_s + grace_s + (EXTENSION_S if grace_s else 0.0))
        if ends_at - now_s > 1e-6:
            self.mark(pod.key, ends_at - now_s)
            return
        self._serving.discard(uid)
        options = DeleteOptions(uid=uid, grace_s=0)
        self.world.verbs.delete(self.world.resource(POD), *pod.key, options)

    def _never_ready_reason(self, pod: Stored) -> str | None:
        for container in pod.manifest["spec"]["containers"]:
            tag = str(container.get("image", "")).rpartition(":")[2]
            for word, reason in self.settings.never_ready:
                if word in tag:
                    return reason
        return None

    def _write_status(self, pod: Stored, *, phase: str, ready: bool, address: str, waiting: str | None) -> None:
        now = self.world.verbs.now()
        flag = "True" if ready else "False"
        wanted = {"PodScheduled": "True", "Initialized": "True", "ContainersReady": flag, "Ready": flag}
        conditions = [_condition(pod, name, status, now) for name, status in wanted.items()]
        status: Manifest = {
            **(pod.manifest.get("status") or {}),
            "phase": phase,
            "conditions": conditions,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": (pod.manifest.get("status") or {}).get("startTime", now),
            "containerStatuses": [
                _container_status(container, ready=ready, waiting=waiting, now=now)
                for container in pod.manifest["spec"]["containers"]
            ],
        }
        self.world.verbs.update(
            self.world.resource(POD), pod, {**pod.manifest, "status": status}, self.options, "status"
        )


def _condition(pod: Stored, name: str, status: str, now: str) -> Manifest:
    before = pod_facts.condition(pod, name)
    if before.get("status") == status:
        return before
    return {"type": name, "status": status, "lastTransitionTime": now}


def _container_status(container: Manifest, *, ready: bool, waiting: str | None, now: str) -> Manifest:
    state: dict[str, Any] = {"running": {"startedAt": now}}
    if waiting:
        message = {
            "CrashLoopBackOff": "back-off restarting failed container",
            "ImagePullBackOff": "back-off pulling image",
        }
        state = {"waiting": {"reason": waiting, "message": message.get(waiting, waiting)}}
    name, image = container["name"], container.get("image", "")
    return {"name": name, "image": image, "ready": ready, "started": not waiting, "restartCount": 0, "state": state}


def _waiting_reason(pod: Stored) -> str | None:
    for container in (pod.manifest.get("status") or {}).get("containerStatuses") or ():
        waiting = container["state"].get("waiting")
        if waiting:
            return str(waiting["reason"])
    return None


def _pre_stop_sleep_s(pod: Stored) -> float:
    """The longest preStop sleep of a pod's containers, which sleep at the same time."""
    sleeps = [
        ((container.get("lifecycle") or {}).get("preStop") or {}).get("sleep", {}).get("seconds", 0)
        for container in pod.manifest["spec"]["containers"]
    ]
    return float(max(sleeps, default=0))
