"""How the containers of a pod template end, what is put into it so that they sleep first, and what is missing from it.

Nothing here changes the revision: its hash is that of the user's template, and a ReplicaSet that exists keeps its template.
Sources: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/ (termination), KEP-3960 (`preStop.sleep`), KEP-753
(native sidecars end after the other containers, so they need no sleep of their own).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rollouts.core.drain import DrainMode, DrainNumbers, DrainSpec, PreStop

DEFAULT_GRACE_S = 30  # of a pod whose template names none


@dataclass(frozen=True, slots=True)
class ContainerExit:
    """How one container ends.

    Args:
        has_pre_stop: the user gave it a preStop; it is left as it is.
        sleep_s: of that preStop, when it is a native sleep; None when nobody can tell how long it takes.
    """

    name: str
    has_pre_stop: bool = False
    sleep_s: int | None = None


@dataclass(frozen=True, slots=True)
class PodExit:
    """How the pods of a template end, as the user wrote it.

    Args:
        grace_s: `terminationGracePeriodSeconds`, 30 when it is not named.
        containers: the ordinary ones, in order.
    """

    grace_s: int = DEFAULT_GRACE_S
    containers: tuple[ContainerExit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """What is put into the template of a ReplicaSet that is made.

    Args:
        containers: names of those that are to sleep.
        grace_s: `terminationGracePeriodSeconds`, never less than the user's.
        native: as `preStop.sleep`; else as `preStop.exec` of `sleep`, which the image must have.
    """

    containers: tuple[str, ...]
    pre_stop_s: int
    grace_s: int
    native: bool

    def __str__(self) -> str:
        how = "" if self.native else " by exec, as the server does not know preStop.sleep"
        names = ", ".join(self.containers)
        return f"preStop sleep of {self.pre_stop_s} s in {names}{how}, terminationGracePeriodSeconds {self.grace_s}"


def injection_fields(injection: Injection) -> dict[str, Any]:
    """An injection as JSON, in the order of the alphabet: in `.status.drain.preStop`, and as text on the ReplicaSet."""
    return {
        "containers": list(injection.containers),
        "graceSeconds": injection.grace_s,
        "native": injection.native,
        "seconds": injection.pre_stop_s,
    }


def read_injection(fields: object) -> Injection | None:
    """The injection that was written like that; None for anything else. Raises: nothing."""
    noted = _object(fields)
    seconds, grace_s, names = noted.get("seconds"), noted.get("graceSeconds"), noted.get("containers")
    if type(seconds) is not int or type(grace_s) is not int or not isinstance(names, list):
        return None
    if seconds < 0 or grace_s < 0 or not all(type(each) is str for each in names):
        return None
    return Injection(containers=tuple(names), pre_stop_s=seconds, grace_s=grace_s, native=noted.get("native") is True)


def read_pod_exit(template: Mapping[str, Any]) -> PodExit:
    """How the pods of a template end. What Kubernetes would not take is left for the API server to refuse. Raises: nothing."""
    spec = _object(template.get("spec"))
    grace_s = spec.get("terminationGracePeriodSeconds")
    containers = spec.get("containers")
    return PodExit(
        grace_s=grace_s if type(grace_s) is int and grace_s >= 0 else DEFAULT_GRACE_S,
        containers=tuple(_container(each) for each in containers) if isinstance(containers, list) else (),
    )


def injection(spec: DrainSpec, ends: PodExit, numbers: DrainNumbers, *, native: bool) -> Injection | None:
    """What a new ReplicaSet's template gets; None when nothing is to be changed."""
    if spec.mode is DrainMode.OFF or spec.pre_stop is not PreStop.INJECT:
        return None
    names = tuple(each.name for each in ends.containers if not each.has_pre_stop)
    if not names:
        return None
    grace_s = max(ends.grace_s, numbers.grace_s, _longer_sleep(ends, numbers))
    return Injection(containers=names, pre_stop_s=numbers.pre_stop_s, grace_s=grace_s, native=native)


def unsafe(spec: DrainSpec, ends: PodExit, numbers: DrainNumbers) -> str:
    """What the pods of this spec lack to end without losing requests, as "need … have …"; "" when nothing that can be told.

    With `preStop: Inject` only a sleep of the user's own can be too short, or the grace period of a template without a container
    that takes a sleep. How long a preStop that is no native sleep takes is not known, so it is not called too short.
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
    raised = injects and any(not each.has_pre_stop for each in ends.containers)
    grace_s = max(numbers.grace_s, _longer_sleep(ends, numbers))
    if ends.containers and ends.grace_s < grace_s and not raised:
        problems.append(f"terminationGracePeriodSeconds: need {grace_s}, have {ends.grace_s}")
    return "; ".join(problems)


def _longer_sleep(ends: PodExit, numbers: DrainNumbers) -> int:
    """The grace period for a sleep of the user's own that is longer than ours; 0 when there is none."""
    longest = max((each.sleep_s or 0 for each in ends.containers), default=0)
    return numbers.grace_s + longest - numbers.pre_stop_s if longest > numbers.pre_stop_s else 0


def _container(container: object) -> ContainerExit:
    fields = _object(container)
    lifecycle = fields.get("lifecycle")
    pre_stop = _object(lifecycle).get("preStop")
    seconds = _object(_object(pre_stop).get("sleep")).get("seconds")
    return ContainerExit(
        name=str(fields.get("name", "")),
        has_pre_stop=bool(pre_stop) or not isinstance(lifecycle, Mapping | None),  # what is no object is not added to
        sleep_s=seconds if type(seconds) is int else None,
    )


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
