"""How many pods one metric asks for. Pure.

Pods without a sample count as idle where the rest asks for more pods, and as busy where it asks for fewer.
Source: k8s.io/kubernetes pkg/controller/podautoscaler/{replica_calculator.go,metrics/utilization.go}.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from rollouts.core.model.frozen import replace
from rollouts.sim.actors.autoscaling.pods_seen import ScaledPod, UsageSample
from rollouts.sim.actors.autoscaling.spec import AutoscalerFlags, AutoscalerSpec, ResourceTarget


class NoProposal(Struct, frozen=True):
    """Why there is no number, in the controller's words."""

    message: str


class Proposal(Struct, frozen=True):
    """What a metric asks for, with the usage of a pod on average. Only a target of a utilization has a percentage."""

    replicas: int
    average_milli: int
    utilization_percent: int | None


class PodsMeasured(Struct, frozen=True):
    """What is known at one moment of the pods of a target that asks for `current` pods."""

    pods: Sequence[ScaledPod]
    current: int
    spec: AutoscalerSpec
    flags: AutoscalerFlags
    now_s: float

    def holds(self, ratio: float) -> bool:
        """Whether usage is so near to the target that nothing is scaled: as the spec says, else the flags (KEP-4951)."""
        behavior, usual = self.spec.behavior, self.flags.tolerance
        up, down = (behavior.up.tolerance, behavior.down.tolerance) if behavior else (None, None)
        return 1.0 - (usual if down is None else down) <= ratio <= 1.0 + (usual if up is None else up)


class _Scale(Struct, frozen=True):
    """How usage compares with the target. Where that is an average there are no requests, which are in thousandths."""

    target: ResourceTarget
    requests: Mapping[str, int] | None

    def of(self, used: Mapping[str, int]) -> tuple[float, Proposal] | NoProposal:
        """The ratio to the target, and the figures that the status shows."""
        if self.requests is None:
            average = _quotient(sum(used.values()), len(used))
            return average / (self.target.average_milli or 1), Proposal(0, average, None)
        known = [name for name in used if name in self.requests]
        requested = sum(self.requests[name] for name in known)
        if not requested:
            return NoProposal("no metrics returned matched known pods")
        total = sum(used[name] for name in known)
        percent = _quotient(total * 100, requested)
        return percent / (self.target.utilization_percent or 1), Proposal(0, _quotient(total, len(known)), percent)

    def busy(self, name: str) -> int:
        """What a pod without a sample is taken to use while the rest asks for fewer pods."""
        if self.requests is None:
            return self.target.average_milli or 0
        return _quotient(self.requests[name] * max(100, self.target.utilization_percent or 0), 100)


def proposal_of(
    target: ResourceTarget, samples: Mapping[str, UsageSample], measured: PodsMeasured
) -> Proposal | NoProposal:
    """The size that a metric asks for; samples are by names of pods."""
    if not measured.pods:
        return NoProposal("no pods returned by selector while calculating replica count")
    ready, unready, missing, ignored = _grouped(target.resource, samples, measured)
    used = {name: sample.milli for name, sample in samples.items() if name not in ignored | unready}
    if not used:
        return NoProposal("did not receive metrics for targeted pods (pods might be unready)")
    requests = _requests(target, measured.pods) if target.utilization_percent is not None else None
    if isinstance(requests, NoProposal):
        return requests
    scale = _Scale(target, requests)
    first = scale.of(used)
    if isinstance(first, NoProposal):
        return first
    ratio, figures = first
    up_with_unready = bool(unready) and ratio > 1.0
    if not up_with_unready and not missing:
        wanted = measured.current if measured.holds(ratio) else math.ceil(ratio * ready)
        return replace(figures, replicas=wanted)
    if ratio < 1.0:
        used |= {name: scale.busy(name) for name in missing}
    elif ratio > 1.0:
        used |= dict.fromkeys(missing, 0)
    if up_with_unready:
        used |= dict.fromkeys(unready, 0)
    second = scale.of(used)
    if isinstance(second, NoProposal):
        return second
    return replace(figures, replicas=_cautious(ratio, second[0], len(used), measured))


def _cautious(ratio: float, new_ratio: float, pods: int, measured: PodsMeasured) -> int:
    """The size by a ratio that has pods in it of which nothing is known: it never turns the direction."""
    if measured.holds(new_ratio) or (ratio < 1.0 < new_ratio) or (new_ratio < 1.0 < ratio):
        return measured.current
    wanted = math.ceil(new_ratio * pods)
    turns = (new_ratio < 1.0 and wanted > measured.current) or (new_ratio > 1.0 and wanted < measured.current)
    return measured.current if turns else wanted


def _grouped(
    resource: str, samples: Mapping[str, UsageSample], measured: PodsMeasured
) -> tuple[int, set[str], set[str], set[str]]:
    """How many pods count with what they use, and the names of the others.

    These are too young, or not ready, so that their samples do not count; without a sample; gone, or going.
    """
    ready = 0
    unready, missing, ignored = set(), set(), set()
    for pod in measured.pods:
        if pod.is_deleted or pod.phase == "Failed":
            ignored.add(pod.name)
        elif pod.phase == "Pending":
            unready.add(pod.name)
        elif pod.name not in samples:
            missing.add(pod.name)
        elif resource == "cpu" and _sample_is_left_out(pod, samples[pod.name], measured):
            unready.add(pod.name)
        else:
            ready += 1
    return ready, unready, missing, ignored


def _sample_is_left_out(pod: ScaledPod, sample: UsageSample, measured: PodsMeasured) -> bool:
    """Whether a sample of the CPU says nothing yet: a pod that starts uses more than one that serves."""
    flags = measured.flags
    if pod.ready is None or pod.started_at_s is None:
        return True
    if pod.started_at_s + flags.cpu_initialization_s > measured.now_s:
        return pod.ready == "False" or sample.at_s < pod.ready_since_s + sample.window_s
    return pod.ready == "False" and pod.started_at_s + flags.initial_readiness_delay_s > pod.ready_since_s


def _requests(target: ResourceTarget, pods: Sequence[ScaledPod]) -> dict[str, int] | NoProposal:
    resource, container = target.resource, target.container
    by_pod = {}
    for pod in pods:
        containers = pod.requests
        if container is None and resource in pod.pod_requests:
            containers = {"": pod.pod_requests}
        elif container is not None:
            if container not in pod.requests:
                return NoProposal(f"container {container} not found in Pod {pod.name}")
            containers = {container: pod.requests[container]}
        for name, requests in containers.items():
            if resource not in requests:
                return NoProposal(f"missing request for {resource} in container {name} of Pod {pod.name}")
        by_pod[pod.name] = sum(requests[resource] for requests in containers.values())
    return by_pod


def _quotient(number: int, divisor: int) -> int:
    """A quotient as Go has it: towards zero."""
    return abs(number) // divisor * (1 if number >= 0 else -1)
