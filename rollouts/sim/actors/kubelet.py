"""Scheduler and kubelets in one: pods get a node and an address, start, become Ready or crash, end or terminate.

A terminating pod serves until its preStop sleep ends, stops serving at SIGTERM (the app handles no signal), and is gone
`shutdown_s` later, all within its grace period. A sleep that takes the whole grace period leaves 2 s for the rest.
Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from msgspec import Struct

from rollouts.objects import CONFIG_MAP, POD, SECRET, Kind, Manifest
from rollouts.sim.actors import pods as pod_facts
from rollouts.sim.actors import processes
from rollouts.sim.actors.pod_configuration import WAITS, FindSource, MissingError, PodConfiguration, configuration
from rollouts.sim.actors.processes import CRASH_LOOP, CRASHED, End
from rollouts.sim.actors.scheduling import NO_EXECUTE, NO_SCHEDULE, fits, tolerates
from rollouts.sim.actors.volumes import claim_names, is_bound
from rollouts.sim.actors.work import Actor, World
from rollouts.sim.apiserver.verbs import DeleteOptions
from rollouts.sim.storage.history import DELETED, CommittedWrite, ObjectKey, Stored
from rollouts.sim.storage.registry import CLAIM, NODE

STARTUP_SECONDS = "sim.rollouts.dev/startup-seconds"
"""Pod annotation: seconds from running to Ready, instead of a random time."""

_SCHEDULER = "default-scheduler"
"""Pods that name another one stay without a node."""

GONE_NODE_S = 40.0
"""From the deletion of a node until its pods are deleted. Source: k8s.io/kubernetes pkg/controller/podgc, `quarantineTime`."""

EXTENSION_S = 2.0
"""The shortest time between SIGTERM and SIGKILL after a preStop, even if less is left of the grace period."""


class KubeletSettings(Struct, frozen=True, kw_only=True):
    """How fast the nodes are; times are seconds of loop time.

    Args:
        startup_s: shortest and longest time from running to Ready.
        shutdown_s: time from SIGTERM to the end of the process.
        mount_s: time from a change of a ConfigMap or Secret until mounted volumes show it; real kubelets take a minute and more.
        configured_again_s: time from one look for a ConfigMap or Secret that is missing to the next.
        kernel: kernel version of every node.
    """

    nodes: int = 5
    startup_s: tuple[float, float] = (0.5, 2.0)
    shutdown_s: float = 0.1
    mount_s: float = 3.0
    configured_again_s: float = 2.0
    kernel: str = "6.1.0-sim"


_SCHEDULE_S, _PULL_S = 0.01, 0.05  # from a pod's creation until it has a node, and from then until it runs
_KEEP_OUT = (NO_SCHEDULE, NO_EXECUTE)
_IMAGE_BACK_OFF = "ImagePullBackOff"
_NEVER_READY = {
    "bad": (CRASH_LOOP, "back-off restarting failed container"),
    "missing": (_IMAGE_BACK_OFF, "back-off pulling image"),
}
"""Why containers never become Ready, by a word in the tag of their image."""


@dataclass(slots=True)
class _Process:
    """The process of a pod's first container; times are loop seconds, inf for what does not come. Crashes are those in a row."""

    began_s: float
    ready_at_s: float = math.inf
    ends_at_s: float = math.inf
    end: End = CRASHED
    restarts_at_s: float = math.inf
    crashes: int = 0

    def next_s(self) -> float:
        """When it does something."""
        return min(self.ready_at_s, self.ends_at_s, self.restarts_at_s)


class Kubelets(Actor):
    """Runs the pods of every node."""

    name = "kubelet"

    def __init__(self, world: World, settings: KubeletSettings) -> None:
        super().__init__(world, lag_s=0.0)
        self.settings = settings
        self._serving: set[str] = set()
        self._ends_at: dict[str, float] = {}
        self._processes: dict[str, _Process] = {}
        self._configurations: dict[str, PodConfiguration] = {}
        self._next_address = 0
        self._nodes: dict[str, Stored] = {}
        self._unscheduled: set[ObjectKey] = set()

    def start(self) -> None:
        """Creates the nodes, then subscribes to pods, and to what they wait for."""
        self.listen(NODE, self._on_node)
        self.listen(CLAIM, lambda _: self._schedule_again())
        for name in self.nodes:
            if self.world.history.get(NODE, "", name) is None:
                status = {
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "nodeInfo": {"kernelVersion": self.settings.kernel},
                }
                manifest = {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "status": status}
                self.world.verbs.create(self.world.resource(NODE), "", manifest, self.options)
        self.listen(POD, self._on_pod)
        for kind in (CONFIG_MAP, SECRET):
            self.listen(kind, partial(self._on_source, kind))

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes that it makes; more may join."""
        return [f"node-{number}" for number in range(self.settings.nodes)]

    def serves(self, uid: str) -> bool:
        """Whether a pod would answer a request now."""
        return uid in self._serving

    def configuration(self, uid: str) -> PodConfiguration:
        """What the containers of a pod read from ConfigMaps and Secrets. Raises: KeyError when they have not begun."""
        return self._configurations[uid]

    def sync(self, key: ObjectKey) -> None:
        """Does the next step in the life of one pod."""
        pod = self.world.history.get(POD, *key)
        if pod is None:
            return
        if pod_facts.is_terminating(pod):
            self._end(pod)
        elif not pod.manifest["spec"].get("nodeName"):
            self._schedule(pod)
        elif pod_facts.phase(pod) == "Pending" and processes.waiting_reason(pod) in (None, *WAITS):
            self._run(pod)
        elif pod.metadata["uid"] in self._processes:
            self._live(pod, self._processes[pod.metadata["uid"]])

    def crash(self, key: ObjectKey, end: End = CRASHED) -> None:
        """Ends the process of a pod's first container now. Raises: KeyError when it does not run."""
        pod = self.world.history.get(POD, *key)
        process = self._processes[pod.metadata["uid"]] if pod is not None else None
        if process is None or process.restarts_at_s < math.inf:
            raise KeyError(key)
        process.ends_at_s, process.end = self.world.loop.time(), end
        self.sync(key)

    def _schedule(self, pod: Stored) -> None:
        spec = pod.manifest["spec"]
        claims = (self.world.history.get(CLAIM, pod.key[0], name) for name in claim_names(pod))
        free = [name for name, node in self._nodes.items() if fits(spec, node) and tolerates(spec, node, *_KEEP_OUT)]
        if not all(claim is not None and is_bound(claim) for claim in claims):
            self._wait(pod, "pod has unbound immediate PersistentVolumeClaims")
        elif not free:
            self._wait(pod, "no node has what the pod selects and taints that it tolerates")
        else:
            self._unscheduled.discard(pod.key)
            bound = {**spec, "nodeName": self.world.rng.choice(free)}
            self.world.verbs.update(self.world.resource(POD), pod, {**pod.manifest, "spec": bound}, self.options)
            self.enqueue(pod.key, _PULL_S)

    def _wait(self, pod: Stored, why: str) -> None:
        self._unscheduled.add(pod.key)
        message = f"0/{len(self._nodes)} nodes are available: {why}."
        if pod_facts.condition(pod, "PodScheduled").get("message") != message:
            condition = {
                "type": "PodScheduled",
                "status": "False",
                "lastTransitionTime": self.world.verbs.now(),
                "reason": "Unschedulable",
                "message": message,
            }
            self.write_status(POD, pod, {**pod.manifest["status"], "conditions": [condition]})

    def _schedule_again(self) -> None:
        for key in self._unscheduled:
            self.enqueue(key, _SCHEDULE_S)

    def _on_node(self, change: CommittedWrite) -> None:
        name = change.new.metadata["name"]
        if change.event == DELETED:
            del self._nodes[name]
            self.world.loop.call_later(GONE_NODE_S, self._forget, name)
            for pod in self._pods_on(name):
                self._serving.discard(pod.metadata["uid"])
        else:
            self._nodes[name] = change.new
            self._schedule_again()

    def _pods_on(self, node: str) -> list[Stored]:
        return [pod for pod in self.world.history.select(POD) if pod.manifest["spec"].get("nodeName") == node]

    def _forget(self, node: str) -> None:
        """Deletes the pods of a node that has gone, as the garbage collector of pods does."""
        if node not in self._nodes:
            for pod in self._pods_on(node):
                options = DeleteOptions(uid=pod.metadata["uid"], grace_s=0)
                self.world.verbs.delete(self.world.resource(POD), *pod.key, options)

    def _on_pod(self, change: CommittedWrite) -> None:
        pod, uid = change.new, change.new.metadata["uid"]
        if change.event == DELETED:
            self._unscheduled.discard(pod.key)
            self._serving.discard(uid)
            self._ends_at.pop(uid, None)
            self._processes.pop(uid, None)
            self._configurations.pop(uid, None)
        elif pod_facts.is_terminating(pod):
            self.enqueue(pod.key, 0.0)
        elif change.event == "ADDED" and pod.manifest["spec"].get("schedulerName") == _SCHEDULER:
            self.enqueue(pod.key, _SCHEDULE_S)

    def _run(self, pod: Stored) -> None:
        tags = [str(container.get("image", "")).rpartition(":")[2] for container in pod.manifest["spec"]["containers"]]
        never = next((why for tag in tags for word, why in _NEVER_READY.items() if word in tag), None)
        self._next_address += 1
        number = self._next_address
        address = f"10.{64 + number // 65_536 % 64}.{number // 256 % 256}.{number % 256}"
        if never is not None:
            phase = "Pending" if never[0] == _IMAGE_BACK_OFF else "Running"
            self._write_status(pod, processes.waiting(pod, *never), phase=phase, ready=False, address=address)
            return
        try:
            self._configurations[pod.metadata["uid"]] = configuration(pod.manifest["spec"], self._find_in(pod))
        except MissingError as exc:
            # It says once what is missing, and looks for it again.
            self.enqueue(pod.key, self.settings.configured_again_s)
            if processes.waiting_reason(pod) != exc.reason:
                statuses = processes.waiting(pod, exc.reason, str(exc))
                self._write_status(pod, statuses, phase="Pending", ready=False, address=address)
            return
        statuses = processes.started(pod, ready=False, now=self.world.verbs.now())
        self._write_status(pod, statuses, phase="Running", ready=False, address=address)
        process = self._processes[pod.metadata["uid"]] = _Process(self.world.loop.time())
        self._begin(pod, process)

    def _find_in(self, pod: Stored) -> FindSource:
        def find(kind: Kind, name: str) -> Manifest | None:
            source = self.world.history.get(kind, pod.key[0], name)
            return source.manifest if source is not None else None

        return find

    def _on_source(self, kind: Kind, change: CommittedWrite) -> None:
        if change.old is not None and self._configurations:
            self.world.loop.call_later(self.settings.mount_s, self._mount_again, kind, *change.new.key)

    def _mount_again(self, kind: Kind, namespace: str, name: str) -> None:
        """Every volume of a ConfigMap or Secret shows what is in it now."""
        for pod in self.world.history.select(POD, namespace):
            read = self._configurations.get(pod.metadata["uid"])
            if read is not None:
                read.follow(pod.manifest["spec"], kind, name, self._find_in(pod))

    def _begin(self, pod: Stored, process: _Process) -> None:
        now_s = self.world.loop.time()
        fixed = (pod.metadata.get("annotations") or {}).get(STARTUP_SECONDS)
        startup_s = float(fixed) if fixed is not None else self.world.rng.uniform(*self.settings.startup_s)
        if pod.manifest["spec"].get("restartPolicy", "Always") != "Always":
            startup_s = 0.0  # no probe says when it is ready
        process.began_s, process.ready_at_s = now_s, now_s + startup_s
        planned = processes.planned_end(pod)
        if planned is not None:
            process.ends_at_s, process.end = now_s + planned[0], planned[1]
        self.enqueue(pod.key, process.next_s() - now_s)

    def _live(self, pod: Stored, process: _Process) -> None:
        due_s = self.world.loop.time() + 1e-6
        if process.restarts_at_s <= due_s:
            self._restart(pod, process)
        elif process.ends_at_s <= due_s:
            self._stop(pod, process)
        elif process.ready_at_s <= due_s:
            process.ready_at_s = math.inf
            self._serving.add(pod.metadata["uid"])
            statuses = processes.started(pod, ready=True, now=self.world.verbs.now())
            self._write_status(pod, statuses, phase="Running", ready=True, address=pod_facts.address(pod))
        if process.next_s() < math.inf:
            self.enqueue(pod.key, max(process.next_s() - self.world.loop.time(), 0.0))

    def _stop(self, pod: Stored, process: _Process) -> None:
        now_s, end, uid = self.world.loop.time(), process.end, pod.metadata["uid"]
        process.ready_at_s = process.ends_at_s = math.inf
        self._serving.discard(uid)
        again = processes.restarts_after(pod, end)
        if again:
            process.crashes = 1 if now_s - process.began_s >= processes.BACK_OFF_RESET_S else process.crashes + 1
            process.restarts_at_s = now_s + processes.back_off_s(process.crashes)
        else:
            del self._processes[uid]
        statuses = processes.ended(pod, end, backs_off=again and process.crashes > 1, now=self.world.verbs.now())
        phase = "Running" if again else "Succeeded" if end.is_success else "Failed"
        self._write_status(pod, statuses, phase=phase, ready=False, address=pod_facts.address(pod))

    def _restart(self, pod: Stored, process: _Process) -> None:
        process.restarts_at_s = math.inf
        try:
            self._configurations[pod.metadata["uid"]] = configuration(pod.manifest["spec"], self._find_in(pod))
        except MissingError:
            process.restarts_at_s = self.world.loop.time() + self.settings.configured_again_s
            return
        statuses = processes.restarted(pod, now=self.world.verbs.now())
        self._write_status(pod, statuses, phase="Running", ready=False, address=pod_facts.address(pod))
        self._begin(pod, process)

    def _end(self, pod: Stored) -> None:
        uid, now_s = pod.metadata["uid"], self.world.loop.time()
        grace_s = float(pod.metadata.get("deletionGracePeriodSeconds") or 0)
        if uid not in self._ends_at:
            hooks = [
                (container.get("lifecycle") or {}).get("preStop") or {}
                for container in pod.manifest["spec"]["containers"]
            ]
            # The containers sleep at the same time.
            sleep_s = min(float(max((hook.get("sleep", {}).get("seconds", 0) for hook in hooks), default=0)), grace_s)
            left_s = max(grace_s - sleep_s, EXTENSION_S) if sleep_s else grace_s
            self._ends_at[uid] = now_s + sleep_s + min(self.settings.shutdown_s, left_s)
            self.world.loop.call_later(sleep_s, self._serving.discard, uid)
        ends_at = min(self._ends_at[uid], now_s + grace_s + (EXTENSION_S if grace_s else 0.0))
        if ends_at - now_s > 1e-6:
            self.enqueue(pod.key, ends_at - now_s)
            return
        self._serving.discard(uid)
        options = DeleteOptions(uid=uid, grace_s=0)
        self.world.verbs.delete(self.world.resource(POD), *pod.key, options)

    def _write_status(self, pod: Stored, containers: list[Manifest], *, phase: str, ready: bool, address: str) -> None:
        now = self.world.verbs.now()
        flag = "True" if ready else "False"
        wanted = {"PodScheduled": "True", "Initialized": "True", "ContainersReady": flag, "Ready": flag}
        conditions = []
        for name, value in wanted.items():
            before = pod_facts.condition(pod, name)
            changed = {"type": name, "status": value, "lastTransitionTime": now}
            conditions.append(before if before.get("status") == value else changed)
        status: Manifest = {
            **(pod.manifest.get("status") or {}),
            "phase": phase,
            "conditions": conditions,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": (pod.manifest.get("status") or {}).get("startTime", now),
            "containerStatuses": containers,
        }
        self.write_status(POD, pod, status)
