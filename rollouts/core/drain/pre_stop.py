"""What the controller adds to a pod template so that containers sleep before they end, and what is missing from a template.

Nothing here changes the revision: its hash is that of the user's template, and an existing ReplicaSet keeps its template.
Sources: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/ (termination), KEP-3960 (`preStop.sleep`), KEP-753
(native sidecars end after the other containers, so they need no sleep of their own).
"""

from __future__ import annotations

from rollouts.core.model.drain import DrainMode, DrainNumbers, DrainSpec, PreStop
from rollouts.core.model.pod_exit import Injection, PodExit
from rollouts.core.model.snapshot import ReplicaSet


def injection(spec: DrainSpec, ends: PodExit, numbers: DrainNumbers, *, native: bool) -> Injection | None:
    """What is added to a new ReplicaSet's template; None when nothing is."""
    if spec.mode is DrainMode.OFF or spec.pre_stop is not PreStop.INJECT:
        return None
    names = tuple(container.name for container in ends.containers if not container.has_pre_stop)
    if not names:
        return None
    grace_s = max(ends.grace_s, numbers.grace_s, _longer_sleep(ends, numbers))
    return Injection(containers=names, pre_stop_s=numbers.pre_stop_s, grace_s=grace_s, native=native)


def unsafe(spec: DrainSpec, ends: PodExit, numbers: DrainNumbers) -> str:
    """What the pods of this spec lack to end without losing requests, as "need … have …"; "" when nothing is known to be missing.

    With `preStop: Inject` only the user's own sleep can be too short, or the grace period of a template whose containers all have
    a preStop. The duration of a preStop that is no native sleep is unknown, so it is never reported as too short.
    """
    if spec.mode is DrainMode.OFF or spec.pre_stop is PreStop.OFF:
        return ""
    injects = spec.pre_stop is PreStop.INJECT
    need_s = numbers.pre_stop_s
    problems = []
    for each in ends.containers:
        if not each.has_pre_stop and not injects:
            problems.append(f"container {each.name}: need a preStop sleep of {need_s} s, have none")
        elif each.sleep_s is not None and each.sleep_s < need_s:
            problems.append(f"container {each.name}: need a preStop sleep of {need_s} s, have {each.sleep_s} s")
    grace_s = max(numbers.grace_s, _longer_sleep(ends, numbers))
    short = bool(ends.containers) and ends.grace_s < grace_s
    if short and not (injects and any(not container.has_pre_stop for container in ends.containers)):
        problems.append(f"terminationGracePeriodSeconds: need {grace_s}, have {ends.grace_s}")
    return "; ".join(problems)


def cut_short(replica_set: ReplicaSet, *, template: str, ends: PodExit) -> str:
    """That a ReplicaSet has a shorter grace period than was asked for, such as by a policy; "" when it has not.

    Args:
        template: the revision of the spec's template.
    """
    asked_s = ends.grace_s if replica_set.revision == template else 0
    if replica_set.injection is not None:
        asked_s = replica_set.injection.grace_s
    if replica_set.deleting or replica_set.grace_s is None or replica_set.grace_s >= asked_s:
        return ""
    what = f"terminationGracePeriodSeconds: asked for {asked_s}, and it has {replica_set.grace_s}"
    return f"ReplicaSet {replica_set.name}: {what}: something has changed it, such as a policy that caps it"


def _longer_sleep(ends: PodExit, numbers: DrainNumbers) -> int:
    """The grace period needed for a user's sleep that is longer than ours; 0 when there is none."""
    longest = max([container.sleep_s or 0 for container in ends.containers], default=0)
    return numbers.grace_s + longest - numbers.pre_stop_s if longest > numbers.pre_stop_s else 0
