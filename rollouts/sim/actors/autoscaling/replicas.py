"""How many pods one metric asks for. Pure.

Pods without a sample count as idle where the rest asks for more pods, and as busy where it asks for fewer.
Source: k8s.io/kubernetes pkg/controller/podautoscaler/{replica_calculator.go,metrics/utilization.go}.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from rollouts.core.model.frozen import replace
from rollouts.metrics.kubernetes_values import go_duration_s
from rollouts.objects import Manifest
from rollouts.sim.actors import pods as pod_facts
from rollouts.sim.actors.autoscaling.limits import AutoscalerLook
from rollouts.sim.actors.autoscaling.spec import ResourceTarget
from rollouts.sim.storage.history import Stored
from rollouts.sim.storage.quantities import milli


class PodUsage(Struct, frozen=True):
    """What the resource metrics API says of a pod: names of its containers, and usage by resource in thousandths."""

    name: str
    at_s: float
    window_s: float
    containers: tuple[tuple[str, Mapping[str, int]], ...]


class UsageSample(Struct, frozen=True):
    """Usage of a pod, or of one of its containers, in thousandths of a core or byte; `at_s` is the end of its window."""

    at_s: float
    window_s: float
    milli: int


class NoProposal(Struct, frozen=True):
    """Why there is no number, in the controller's words."""

    message: str


class Proposal(Struct, frozen=True):
    """What a metric asks for, with the usage of a pod on average. Only a target of a utilization has a percentage."""

    replicas: int
    average_milli: int
    utilization_percent: int | None


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


def pod_usage(item: Manifest) -> PodUsage:
    """An item of a PodMetricsList. Raises: ValueError for a figure that is no quantity."""
    return PodUsage(
        item["metadata"]["name"],
        pod_facts.seconds(item["timestamp"]),
        go_duration_s(item["window"]) or 0.0,
        tuple((container["name"], _quantities(container["usage"])) for container in item["containers"]),
    )


def proposal_of(
    target: ResourceTarget, usages: Iterable[PodUsage], pods: Sequence[Stored], look: AutoscalerLook
) -> Proposal | NoProposal:
    """The size that a metric asks for, from the usage of the pods that the target's selector selects."""
    if not pods:
        return NoProposal("no pods returned by selector while calculating replica count")
    samples = _samples(target, usages)
    ready, unready, missing, ignored = _grouped(target.resource, samples, pods, look)
    used = {name: sample.milli for name, sample in samples.items() if name not in ignored | unready}
    if not used:
        return NoProposal("did not receive metrics for targeted pods (pods might be unready)")
    requests = _requests(target, pods) if target.utilization_percent is not None else None
    if isinstance(requests, NoProposal):
        return requests
    scale = _Scale(target, requests)
    first = scale.of(used)
    if isinstance(first, NoProposal):
        return first
    ratio, figures = first
    up_with_unready = bool(unready) and ratio > 1.0
    if not up_with_unready and not missing:
        wanted = look.current if look.spec.tolerates(ratio, look.flags) else math.ceil(ratio * ready)
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
    return replace(figures, replicas=_cautious(ratio, second[0], len(used), look))


def _samples(target: ResourceTarget, usages: Iterable[PodUsage]) -> dict[str, UsageSample]:
    """The usage of each pod by its name, of one container or of all together.

    A pod without a figure is not there, nor one with a container without a figure.
    """
    samples = {}
    for pod in usages:
        figures = [used.get(target.resource) for name, used in pod.containers if target.container in (None, name)]
        known = [figure for figure in figures if figure is not None]
        if figures and len(known) == len(figures):
            samples[pod.name] = UsageSample(pod.at_s, pod.window_s, sum(known))
    return samples


def _cautious(ratio: float, new_ratio: float, pods: int, look: AutoscalerLook) -> int:
    """The size by a ratio that has pods in it of which nothing is known: it never turns the direction."""
    if look.spec.tolerates(new_ratio, look.flags) or (ratio < 1.0 < new_ratio) or (new_ratio < 1.0 < ratio):
        return look.current
    wanted = math.ceil(new_ratio * pods)
    turns = (new_ratio < 1.0 and wanted > look.current) or (new_ratio > 1.0 and wanted < look.current)
    return look.current if turns else wanted


def _grouped(
    resource: str, samples: Mapping[str, UsageSample], pods: Sequence[Stored], look: AutoscalerLook
) -> tuple[int, set[str], set[str], set[str]]:
    """How many pods count with what they use, and the names of the others.

    These are too young, or not ready, so that their samples do not count; without a sample; gone, or going.
    """
    ready = 0
    unready, missing, ignored = set(), set(), set()
    for pod in pods:
        name, phase = pod.key[1], pod_facts.phase(pod)
        if pod_facts.is_terminating(pod) or phase == "Failed":
            ignored.add(name)
        elif phase == "Pending":
            unready.add(name)
        elif name not in samples:
            missing.add(name)
        elif resource == "cpu" and _sample_is_left_out(pod, samples[name], look):
            unready.add(name)
        else:
            ready += 1
    return ready, unready, missing, ignored


def _sample_is_left_out(pod: Stored, sample: UsageSample, look: AutoscalerLook) -> bool:
    """Whether a sample of the CPU says nothing yet: a pod that starts uses more than one that serves."""
    condition, started = pod_facts.condition(pod, "Ready"), (pod.manifest.get("status") or {}).get("startTime")
    if not condition or not started:
        return True
    started_s, ready_since_s = pod_facts.seconds(started), pod_facts.seconds(condition["lastTransitionTime"])
    is_unready = bool(condition["status"] == "False")
    if started_s + look.flags.cpu_initialization_s > look.now_s:
        return is_unready or sample.at_s < ready_since_s + sample.window_s
    return is_unready and started_s + look.flags.initial_readiness_delay_s > ready_since_s


def _requests(target: ResourceTarget, pods: Sequence[Stored]) -> dict[str, int] | NoProposal:
    by_pod = {}
    for pod in pods:
        requested = _pod_requests(target, pod)
        if isinstance(requested, NoProposal):
            return requested
        by_pod[pod.key[1]] = requested
    return by_pod


def _pod_requests(target: ResourceTarget, pod: Stored) -> int | NoProposal:
    """What a pod requests: as a whole, or its containers that run beside the others."""
    resource, container, spec, pod_name = target.resource, target.container, pod.manifest["spec"], pod.key[1]
    if container is None and resource in (of_pod := _requested(spec)):
        return of_pod[resource]
    sidecars = [init for init in spec.get("initContainers") or () if init.get("restartPolicy") == "Always"]
    parts = [part for part in (*spec["containers"], *sidecars) if container in (None, part["name"])]
    if not parts:
        return NoProposal(f"container {container} not found in Pod {pod_name}")
    total = 0
    for part in parts:
        requests = _requested(part)
        if resource not in requests:
            return NoProposal(f"missing request for {resource} in container {part['name']} of Pod {pod_name}")
        total += requests[resource]
    return total


def _requested(part: Manifest) -> dict[str, int]:
    return _quantities((part.get("resources") or {}).get("requests") or {})


def _quantities(given: Manifest) -> dict[str, int]:
    return {name: milli(text) for name, text in given.items()}


def _quotient(number: int, divisor: int) -> int:
    """A quotient as Go has it: towards zero."""
    return abs(number) // divisor * (1 if number >= 0 else -1)
