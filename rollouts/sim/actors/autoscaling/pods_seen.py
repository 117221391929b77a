"""What the controller of HorizontalPodAutoscalers sees of pods and of their usage, as values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from rollouts.metrics.kubernetes_values import go_duration_s
from rollouts.objects import Manifest
from rollouts.sim.actors.pods import seconds
from rollouts.sim.storage.quantities import milli


class UsageSample(Struct, frozen=True):
    """Usage of a pod, or of one of its containers, in thousandths of a core or byte; `at_s` is the end of its window."""

    at_s: float
    window_s: float
    milli: int


class PodUsage(Struct, frozen=True):
    """What the resource metrics API says of a pod: names of its containers, and usage by resource in thousandths."""

    name: str
    at_s: float
    window_s: float
    containers: tuple[tuple[str, Mapping[str, int]], ...]


class ScaledPod(Struct, frozen=True):
    """A pod that the target's selector selects; times are seconds since 1970.

    Args:
        ready: status of the condition Ready; None when there is none.
        ready_since_s: when that status began.
        requests: of each container that runs beside the others, by resource, in thousandths.
        pod_requests: of the pod as a whole; empty when it has none.
    """

    name: str
    is_deleted: bool
    phase: str
    started_at_s: float | None
    ready: str | None
    ready_since_s: float
    requests: Mapping[str, Mapping[str, int]]
    pod_requests: Mapping[str, int]


def pod_seen(pod: Manifest) -> ScaledPod:
    """A stored pod."""
    status, spec = pod.get("status") or {}, pod["spec"]
    conditions = status.get("conditions") or ()
    ready: Manifest = next((condition for condition in conditions if condition["type"] == "Ready"), {})
    started, changed = status.get("startTime"), ready.get("lastTransitionTime")
    sidecars = [init for init in spec.get("initContainers") or () if init.get("restartPolicy") == "Always"]
    return ScaledPod(
        pod["metadata"]["name"],
        "deletionTimestamp" in pod["metadata"],
        status.get("phase", "Pending"),
        seconds(started) if started else None,
        ready.get("status"),
        seconds(changed) if changed else 0.0,
        {container["name"]: _requests(container) for container in (*spec["containers"], *sidecars)},
        _requests(spec),
    )


def pod_usage(item: Manifest) -> PodUsage:
    """An item of a PodMetricsList. Raises: ValueError for a figure that is no quantity."""
    return PodUsage(
        item["metadata"]["name"],
        seconds(item["timestamp"]),
        go_duration_s(item["window"]) or 0.0,
        tuple((container["name"], _quantities(container["usage"])) for container in item["containers"]),
    )


def samples_of(usages: Iterable[PodUsage], resource: str, container: str | None) -> dict[str, UsageSample]:
    """The usage of each pod by its name, of one container or of all together.

    A pod without a figure is not there, nor one with a container without a figure.
    """
    samples = {}
    for pod in usages:
        figures = [used.get(resource) for name, used in pod.containers if container in (None, name)]
        known = [figure for figure in figures if figure is not None]
        if figures and len(known) == len(figures):
            samples[pod.name] = UsageSample(pod.at_s, pod.window_s, sum(known))
    return samples


def _requests(part: Manifest) -> dict[str, int]:
    return _quantities((part.get("resources") or {}).get("requests") or {})


def _quantities(given: Manifest) -> dict[str, int]:
    return {name: milli(text) for name, text in given.items()}
