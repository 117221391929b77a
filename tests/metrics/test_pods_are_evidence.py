"""Promise: a revision whose pods restart, are killed for memory, do not start or are not ready fails without any server."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.source import PodEvidence
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.metrics.pods import pod_seen, pods_measured

SINCE_S = 1_790_000_000.0  # 2026-09-21T14:13:20Z
BEFORE, AFTER = "2026-09-21T14:00:00Z", "2026-09-21T14:15:00Z"
STRICT = PodEvidence()


def _container(name: str = "app", **changes: Any) -> dict[str, Any]:
    return {"name": name, "ready": True, "restartCount": 0, "state": {"running": {"startedAt": AFTER}}, **changes}


def _pod(*containers: dict[str, Any], ready: str = "True", created: str = AFTER, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "cart-1", "creationTimestamp": created, **metadata},
        "status": {"conditions": [{"type": "Ready", "status": ready}], "containerStatuses": list(containers)},
    }


def _ended(reason: str = "Error", at: str = AFTER) -> dict[str, Any]:
    return {"terminated": {"reason": reason, "exitCode": 1, "finishedAt": at}}


def _measured(*pods: dict[str, Any], source: PodEvidence = STRICT) -> Measurement:
    then_s = SINCE_S + 60
    return pods_measured(source, map(pod_seen, pods), since_s=SINCE_S, started_at_s=then_s, finished_at_s=then_s)


RESTARTED = _container(restartCount=1, lastState=_ended())
WAITS = _container(ready=False, state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState=_ended(), restartCount=4)
KILLED, OTHER = _container(lastState=_ended("OOMKilled"), restartCount=1), RESTARTED | {"name": "other"}
READY, UNREADY = _pod(_container()), _pod(_container(), ready="False")
LAX = PodEvidence(restarts_max=9, ready_percent_min=0)


def _waiting(reason: str) -> dict[str, Any]:
    return _container(state={"waiting": {"reason": reason}})


@pytest.mark.parametrize(
    ("pods", "source", "phase", "words"),
    [
        ([READY, READY], STRICT, AnalysisPhase.SUCCESSFUL, ""),
        ([_pod(RESTARTED)], STRICT, AnalysisPhase.FAILED, "restarted 1 times"),
        ([_pod(RESTARTED)], PodEvidence(restarts_max=1), AnalysisPhase.SUCCESSFUL, ""),
        ([_pod(RESTARTED), _pod(RESTARTED)], PodEvidence(restarts_max=1), AnalysisPhase.FAILED, "restarted 2 times"),
        ([_pod(WAITS, ready="False")], LAX, AnalysisPhase.FAILED, "CrashLoopBackOff"),
        ([_pod(KILLED)], PodEvidence(restarts_max=9), AnalysisPhase.FAILED, "killed for memory"),
        ([_pod(_container(state=_ended("OOMKilled")))], LAX, AnalysisPhase.FAILED, "killed for memory"),
        ([_pod(_waiting("ImagePullBackOff"), ready="False")], LAX, AnalysisPhase.FAILED, "ImagePullBackOff"),
        ([_pod(_waiting("ContainerCreating"), ready="False")], LAX, AnalysisPhase.SUCCESSFUL, ""),
        ([READY, UNREADY], STRICT, AnalysisPhase.FAILED, "1 of 2 pods are ready"),
        ([READY, UNREADY], PodEvidence(ready_percent_min=50), AnalysisPhase.SUCCESSFUL, ""),
        ([], STRICT, AnalysisPhase.INCONCLUSIVE, "no pods"),
        ([_pod(_container(), deletionTimestamp=AFTER)], STRICT, AnalysisPhase.INCONCLUSIVE, "no pods"),
        ([_pod()], STRICT, AnalysisPhase.INCONCLUSIVE, "no container"),
        ([READY], PodEvidence(containers=("other",)), AnalysisPhase.INCONCLUSIVE, "no container"),
        ([_pod(_container(), OTHER)], PodEvidence(containers=("app",)), AnalysisPhase.SUCCESSFUL, ""),
    ],
)
def test_pods_are_judged(pods: list[dict[str, Any]], source: PodEvidence, phase: AnalysisPhase, words: str) -> None:
    """A pod that leaves need not be ready; without pods nothing is known."""
    found = _measured(*pods, source=source)

    assert found.phase is phase
    assert words in found.message
    assert bool(found.message) is bool(words)


def _unready(*, started: str, changed: str, **container: Any) -> dict[str, Any]:
    """As a kubelet writes it: `startTime` and the first `Ready: False` in one write."""
    pod = _pod(_container(ready=False, **container), created=started)
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": changed}
    return {**pod, "status": {**pod["status"], "startTime": started, "conditions": [condition]}}


STARTED = "2026-09-21T14:14:00Z"  # 20 s before the measurement
SAME_WRITE, LATER = "2026-09-21T14:14:01Z", "2026-09-21T14:14:05Z"
STARTS = _unready(started=STARTED, changed=SAME_WRITE)
NOT_SEEN_YET = {"metadata": {"creationTimestamp": STARTED}, "status": {"phase": "Pending"}}


@pytest.mark.parametrize(
    ("pods", "phase", "words"),
    [
        ([READY, STARTS], AnalysisPhase.SUCCESSFUL, ""),
        ([READY, NOT_SEEN_YET], AnalysisPhase.SUCCESSFUL, ""),
        ([READY, UNREADY, STARTS], AnalysisPhase.FAILED, "1 of 2 pods are ready"),
        ([STARTS, NOT_SEEN_YET], AnalysisPhase.INCONCLUSIVE, "no pods that have been ready yet"),
        ([READY, _unready(started=STARTED, changed=LATER)], AnalysisPhase.FAILED, "1 of 2 pods are ready"),
        ([READY, _unready(started="2026-09-21T14:04:00Z", changed="2026-09-21T14:04:00Z")],
            AnalysisPhase.FAILED, "1 of 2 pods are ready"),
        ([READY, _unready(started=STARTED, changed=SAME_WRITE, restartCount=1)], AnalysisPhase.FAILED, "restarted 1 times"),
        ([READY, _unready(started=STARTED, changed=SAME_WRITE, state={"waiting": {"reason": "ErrImagePull"}})],
            AnalysisPhase.FAILED, "ErrImagePull"),
    ],
)  # fmt: skip
def test_a_pod_that_a_step_has_just_added_does_not_fail_the_revision(
    pods: list[dict[str, Any]], phase: AnalysisPhase, words: str
) -> None:
    """It counts as soon as it was ready once, restarts, waits in vain, or has not become ready within ten minutes."""
    found = _measured(*pods)

    assert found.phase is phase
    assert words in found.message


def _over(pod: dict[str, Any], phase: str = "Failed", changed: str = BEFORE, **status: Any) -> dict[str, Any]:
    """A pod that was evicted, or that a kubelet did not take: it stays for people, and its ReplicaSet has made another one."""
    conditions = [{"type": "Ready", "status": "False", "lastTransitionTime": changed}]
    return {**pod, "status": {**pod["status"], "conditions": conditions, "phase": phase, **status}}


@pytest.mark.parametrize(
    "gone",
    [
        _over(_pod(_container(state=_ended(at=BEFORE)), created=BEFORE), reason="Evicted"),
        _over(_pod(_container(state=_ended(at=BEFORE)), created=BEFORE), "Succeeded"),
        _over(_pod(created=BEFORE), reason="OutOfcpu", conditions=None),
        _over(_pod(_container(state={"waiting": {"reason": "ImagePullBackOff"}}), created=BEFORE)),
    ],
)
def test_a_pod_that_was_over_before_the_run_is_no_evidence_of_it(gone: dict[str, Any]) -> None:
    """An evicted pod stays until somebody deletes it: it would fail each run of the revision, a retry's too."""
    assert _measured(_pod(_container()), gone).phase is AnalysisPhase.SUCCESSFUL
    assert _measured(gone).phase is AnalysisPhase.INCONCLUSIVE


@pytest.mark.parametrize(
    "gone",
    [
        _over(_pod(_container(state=_ended(at=AFTER)), created=BEFORE), reason="Evicted"),
        _over(_pod(_container(state={"terminated": {"reason": "Unknown"}}), created=BEFORE), changed=AFTER),
        _over(_pod(created=AFTER), reason="OutOfcpu", conditions=None),
        _over({"metadata": {}, "status": {}}, conditions=None),
    ],
)
def test_a_pod_that_ended_since_the_run_began_counts_as_one_that_is_not_ready(gone: dict[str, Any]) -> None:
    """It may have been evicted for what the revision uses. So does one of which nobody knows when it ended."""
    found = _measured(_pod(_container()), gone)

    assert (found.phase, found.message) == (AnalysisPhase.FAILED, "1 of 2 pods are ready, 100 % are needed")


def test_what_was_before_the_run_is_not_its_own() -> None:
    """A pod that is older counts when it ended since; nobody can tell how often it had before."""
    old: dict[str, Any] = {"restartCount": 7, "lastState": _ended("OOMKilled", BEFORE)}

    assert _measured(_pod(_container(**old), created=BEFORE)).phase is AnalysisPhase.SUCCESSFUL
    since = _measured(_pod(_container(**{**old, "lastState": _ended(at=AFTER)}), created=BEFORE))
    assert (since.phase, since.value) == (AnalysisPhase.FAILED, "[7, 1, 1]")


def _of(container: dict[str, Any], **metadata: str) -> dict[str, Any]:
    return {"metadata": metadata, "status": {"containerStatuses": [container]}}


@pytest.mark.parametrize(
    "pod",
    [
        {},
        {"metadata": None, "status": None},
        {"metadata": {"creationTimestamp": 5}, "status": {"conditions": "x", "containerStatuses": [None, "x", {}]}},
        _of(_container(state=[], restartCount="9"), creationTimestamp="soon"),
        _of({"state": {"terminated": {"finishedAt": "9999-99-99"}, "waiting": {"reason": 5}}}),
    ],
)
def test_a_status_that_is_not_there_is_no_success(pod: dict[str, Any]) -> None:
    """Whatever is missing, or of another type, is not ready."""
    assert _measured(pod).phase in (AnalysisPhase.FAILED, AnalysisPhase.INCONCLUSIVE)
