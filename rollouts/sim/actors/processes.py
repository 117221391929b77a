"""What the processes in a pod's containers do, and how a container's status tells it: run on, end, crash, run out of memory.

A pod says it by annotations; `Kubelets.crash` does it to one that runs. The first container is the one that ends.
Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-restarts
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from rollouts.objects import Manifest
from rollouts.sim.storage.history import Stored

CRASH_AFTER = "sim.rollouts.dev/crash-after-seconds"
"""Pod annotation: the process ends with an error whenever it has run for so long."""
OUT_OF_MEMORY_AFTER = "sim.rollouts.dev/out-of-memory-after-seconds"
"""Pod annotation: the process is killed for memory whenever it has run for so long."""
RUN_SECONDS = "sim.rollouts.dev/run-seconds"
"""Annotation of pods that end, as those of Jobs: how long the process runs, default 1; a list goes as that of `EXIT_CODES`."""
EXIT_CODES = "sim.rollouts.dev/exit-codes"
"""Annotation of pods that end: `1,0` for the pod of the index, or of the attempt, 0 and 1; the last one goes for the rest."""
ATTEMPT = "sim.rollouts.dev/attempt"
"""Annotation that the Job controller gives to a pod without an index: how many there were before it."""
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"

BACK_OFF_S, BACK_OFF_MAX_S = 10.0, 300.0
BACK_OFF_RESET_S = 600.0
RESTART_S = 1.0
"""Until the first restart, which has no back-off: the kubelet looks once a second."""
CRASH_LOOP = "CrashLoopBackOff"


class End(Struct, frozen=True):
    """How a process ends, with the kubelet's word for it."""

    exit_code: int
    reason: str

    @property
    def is_success(self) -> bool:
        """Exit code 0."""
        return self.exit_code == 0


CRASHED = End(1, "Error")
OUT_OF_MEMORY = End(137, "OOMKilled")
COMPLETED = End(0, "Completed")


def planned_end(pod: Stored) -> tuple[float, End] | None:
    """After how many seconds the process of a pod will end, and how; None for one that runs on."""
    given = pod.metadata.get("annotations") or {}
    if OUT_OF_MEMORY_AFTER in given:
        return float(given[OUT_OF_MEMORY_AFTER]), OUT_OF_MEMORY
    if CRASH_AFTER in given:
        return float(given[CRASH_AFTER]), CRASHED
    if pod.manifest["spec"].get("restartPolicy", "Always") == "Always":
        return None
    number = int(given.get(COMPLETION_INDEX, given.get(ATTEMPT, 0)))
    code = int(_at(given.get(EXIT_CODES, "0"), number))
    return float(_at(given.get(RUN_SECONDS, "1"), number)), COMPLETED if code == 0 else End(code, "Error")


def restarts_after(pod: Stored, end: End) -> bool:
    """Whether the kubelet starts the process again."""
    policy = pod.manifest["spec"].get("restartPolicy", "Always")
    return policy == "Always" or (policy == "OnFailure" and not end.is_success)


def back_off_s(crashes: int) -> float:
    """Time until the next start after so many crashes in a row, 1 or more."""
    return RESTART_S if crashes == 1 else min(BACK_OFF_S * 2.0 ** (crashes - 2), BACK_OFF_MAX_S)


def started(pod: Stored, *, ready: bool, now: str) -> list[Manifest]:
    """The container statuses of a pod whose processes run; what began before goes on."""
    return [
        _status(
            container,
            before,
            ready=ready,
            state=before["state"] if "running" in before.get("state", {}) else {"running": {"startedAt": now}},
        )
        for container, before in _containers(pod)
    ]


def waiting(pod: Stored, reason: str, message: str) -> list[Manifest]:
    """The container statuses of a pod whose processes cannot run."""
    state = {"waiting": {"reason": reason, "message": message}}
    return [_status(container, before, ready=False, state=state) for container, before in _containers(pod)]


def ended(pod: Stored, end: End, *, backs_off: bool, now: str) -> list[Manifest]:
    """The container statuses of a pod whose first process has ended, and those of the others as they were."""
    (container, before), *others = _containers(pod)
    began = before.get("state", {}).get("running", {}).get("startedAt", now)
    how = {"exitCode": end.exit_code, "reason": end.reason, "startedAt": began, "finishedAt": now}
    status = _status(container, before, ready=False, state={"terminated": how})
    if backs_off:
        waits = {"reason": CRASH_LOOP, "message": "back-off restarting failed container"}
        status |= {"state": {"waiting": waits}, "lastState": {"terminated": how}}
    return [status, *(other for _, other in others)]


def restarted(pod: Stored, *, now: str) -> list[Manifest]:
    """The container statuses of a pod whose first process runs again."""
    (container, before), *others = _containers(pod)
    last = before["state"] if "terminated" in before["state"] else before["lastState"]
    status = _status(container, before, ready=False, state={"running": {"startedAt": now}})
    again = {"restartCount": before["restartCount"] + 1, "lastState": last}
    return [{**status, **again}, *(other for _, other in others)]


def waiting_reason(pod: Stored) -> str | None:
    """Why a container waits; None when none does."""
    states = (status.get("state", {}) for _, status in _containers(pod))
    return next((str(state["waiting"]["reason"]) for state in states if state.get("waiting")), None)


def restarts(pod: Stored) -> int:
    """How often the processes of a pod were started again, together."""
    return sum(status.get("restartCount", 0) for _, status in _containers(pod))


def _at(items: str, number: int) -> str:
    every = items.split(",")
    return every[min(number, len(every) - 1)]


def _containers(pod: Stored) -> list[tuple[Manifest, Manifest]]:
    """Each container with its status, {} for none yet."""
    statuses = (pod.manifest.get("status") or {}).get("containerStatuses") or ()
    by_name = {status["name"]: status for status in statuses}
    return [(container, by_name.get(container["name"], {})) for container in pod.manifest["spec"]["containers"]]


def _status(container: Manifest, before: Manifest, *, ready: bool, state: dict[str, Any]) -> Manifest:
    status: Manifest = {
        "name": container["name"],
        "image": container.get("image", ""),
        "ready": ready,
        "started": "running" in state,
        "restartCount": before.get("restartCount", 0),
        "state": state,
    }
    return {**status, "lastState": before["lastState"]} if "lastState" in before else status
