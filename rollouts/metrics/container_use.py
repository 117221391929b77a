"""What one container of each revision's pods uses: pods and their samples (metrics.k8s.io) put together.

A sample counts when it is fresh and was taken wholly since its container started. What does not count is missing, never zero.
Sources: https://kubernetes.io/docs/tasks/debug/debug-cluster/resource-metrics-pipeline/ · KEP-1610 (container resource metrics)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from rollouts.core.model.autoscaling import SAMPLE_MAX_AGE_S, ContainerMetric, ContainerUse
from rollouts.core.model.revision import REVISION_LABEL
from rollouts.metrics.kubernetes_values import (
    FUTURE_S,
    ListedCondition,
    ListedItems,
    ListedPage,
    ListedPart,
    decoded,
    go_duration_s,
    quantity,
    time_s,
)

_REVISION_LABELS = (REVISION_LABEL, "pod-template-hash", "controller-revision-hash")
"""Where a pod has its revision: ours, and of updates in place those of a Deployment, and of a StatefulSet or DaemonSet."""

ROUNDING_S = 1.0
"""Times of pods and of samples are whole seconds."""


class PodSample(Struct, frozen=True, kw_only=True):
    """What a pod's containers used in the time from `at_s - window_s` to `at_s`.

    Args:
        used: by container; only what is a number and not negative.
    """

    pod: str
    at_s: float
    window_s: float
    used: Mapping[str, Mapping[ContainerMetric, float]]


class ContainerAsked(Struct, frozen=True, kw_only=True):
    """One container of a pod, as its spec and its status have it.

    Args:
        requested: only what is a number above 0.
        started_at_s: seconds since 1970; None when it does not run.
    """

    requested: Mapping[ContainerMetric, float]
    started_at_s: float | None


class ListedPod(Struct, frozen=True, kw_only=True):
    """A pod of a Rollout.

    Args:
        counts: it is ready and is not being deleted.
    """

    name: str
    rollout: str
    revision: str
    counts: bool
    containers: Mapping[str, ContainerAsked]


class _Reading(Struct, frozen=True):
    used: float
    requested: float | None
    at_s: float
    window_s: float


def use_by_revision(
    pods: Iterable[ListedPod],
    samples: Iterable[PodSample],
    *,
    container: str,
    resource: ContainerMetric,
    now_s: float,
    max_age_s: float = SAMPLE_MAX_AGE_S,
) -> dict[str, ContainerUse]:
    """What the container uses, by revision; a revision without a pod that counts is not there.

    Args:
        max_age_s: an older sample does not count, nor does one of the future.
    """
    latest: dict[str, PodSample] = {}
    for sample in samples:
        known = latest.get(sample.pod)
        if known is None or known.at_s < sample.at_s:
            latest[sample.pod] = sample
    found: dict[str, list[_Reading | str]] = {}
    for pod in pods:
        if pod.counts:
            reading = _reading(pod, latest.get(pod.name), container, resource, now_s=now_s, max_age_s=max_age_s)
            found.setdefault(pod.revision, []).append(reading)
    return {revision: _together(readings) for revision, readings in found.items()}


def _reading(
    pod: ListedPod,
    sample: PodSample | None,
    container: str,
    resource: ContainerMetric,
    *,
    now_s: float,
    max_age_s: float,
) -> _Reading | str:
    """What the container of one pod uses, or why that is not known."""
    asked = pod.containers.get(container)
    if asked is None:
        return f"no container {container} (there is {', '.join(sorted(pod.containers)) or 'none'})"
    if sample is None:
        return "no sample"
    if asked.started_at_s is None:
        return f"container {container} does not run"
    if sample.at_s > now_s + FUTURE_S:
        return "its sample is of the future: a clock is wrong"
    if now_s - sample.at_s > max_age_s:
        return f"no sample of the last {max_age_s:g} s"
    if sample.at_s + ROUNDING_S - sample.window_s < asked.started_at_s:
        return f"no sample since container {container} started"
    used = sample.used.get(container, {}).get(resource)
    if used is None:
        return f"no sample of {resource} of container {container}"
    return _Reading(used, asked.requested.get(resource), sample.at_s, sample.window_s)


def _together(readings: list[_Reading | str]) -> ContainerUse:
    measured = [reading for reading in readings if isinstance(reading, _Reading)]
    requests = [reading.requested for reading in measured]
    known = [request for request in requests if request is not None]
    reasons = Counter(reading for reading in readings if isinstance(reading, str))
    return ContainerUse(
        used=sum(reading.used for reading in measured) if measured else None,
        requested=sum(known) if known and len(known) == len(requests) else None,
        pods=len(readings),
        measured=len(measured),
        oldest_at_s=min((reading.at_s for reading in measured), default=None),
        newest_at_s=max((reading.at_s for reading in measured), default=None),
        window_s=max((reading.window_s for reading in measured), default=0.0),
        message="; ".join(f"{count} of {len(readings)} pods: {why}" for why, count in sorted(reasons.items())),
    )


def pod_samples(body: bytes) -> tuple[PodSample, ...]:
    """Samples in a PodMetricsList; what cannot be read of it is no sample. Raises: ValueError when it is no list."""
    items = decoded(_SAMPLES, body).items
    return tuple(sample for item in items or () if (sample := _sample(item)) is not None)


def listed_pods(body: bytes, *, rollout_label: str) -> tuple[tuple[ListedPod, ...], str]:
    """Pods in a page of a PodList, and the token of the next page, "" for none. Raises: ValueError when it is no list."""
    page = decoded(_PODS, body)
    return tuple(_listed(item, rollout_label) for item in page.items or ()), page.metadata.continue_


def _sample(item: object) -> PodSample | None:
    """A sample whose pod, time and window are known. The API may be anybody's, so no type is taken for granted."""
    if not isinstance(item, dict):
        return None
    metadata, containers = item.get("metadata"), item.get("containers")
    at_s, window_s = time_s(item.get("timestamp")), go_duration_s(item.get("window"))
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if at_s is None or window_s is None or not isinstance(name, str) or not isinstance(containers, list):
        return None
    used: dict[str, Mapping[ContainerMetric, float]] = {}
    for part in containers:
        container = part.get("name") if isinstance(part, dict) else None
        if isinstance(container, str):
            used[container] = {} if container in used else _amounts(part.get("usage"), least=0.0)
    return PodSample(pod=name, at_s=at_s, window_s=window_s, used=used)


def _amounts(amounts: object, *, least: float) -> dict[ContainerMetric, float]:
    if not isinstance(amounts, dict):
        return {}
    found = {resource: quantity(amounts.get(resource.value)) for resource in ContainerMetric}
    return {metric: value for metric, value in found.items() if value is not None and value >= least}


class _Metadata(ListedPart, frozen=True):
    name: str = ""
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _Resources(ListedPart, frozen=True):
    requests: dict[str, Any] | None = None


class _Container(ListedPart, frozen=True):
    name: str = ""
    restart_policy: str | None = None
    resources: _Resources = _Resources()


class _Spec(ListedPart, frozen=True):
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None


class _Running(ListedPart, frozen=True):
    started_at: str | None = None


class _State(ListedPart, frozen=True):
    running: _Running | None = None


class _ContainerStatus(ListedPart, frozen=True):
    name: str = ""
    state: _State = _State()


class _Status(ListedPart, frozen=True):
    conditions: tuple[ListedCondition, ...] | None = None
    container_statuses: tuple[_ContainerStatus, ...] | None = None
    init_container_statuses: tuple[_ContainerStatus, ...] | None = None


class _Pod(ListedPart, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()


_SAMPLES = msgspec.json.Decoder(ListedItems[Any])
_PODS = msgspec.json.Decoder(ListedPage[_Pod])
_SIDECAR = "Always"  # restartPolicy of an init container that runs beside the others (KEP-753)
_LEAST_REQUEST = 1e-9  # a request of 0 asks for nothing


def _listed(pod: _Pod, rollout_label: str) -> ListedPod:
    status, labels = pod.status, pod.metadata.labels or {}
    sidecars = (container for container in pod.spec.init_containers or () if container.restart_policy == _SIDECAR)
    statuses = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    started = {
        container.name: time_s(container.state.running.started_at)
        for container in statuses
        if container.state.running is not None
    }
    return ListedPod(
        name=pod.metadata.name,
        rollout=labels.get(rollout_label, ""),
        revision=next((labels[name] for name in _REVISION_LABELS if labels.get(name)), ""),
        counts=pod.metadata.deletion_timestamp is None
        and any(condition.type == "Ready" and condition.status == "True" for condition in status.conditions or ()),
        containers={
            container.name: ContainerAsked(
                requested=_amounts(container.resources.requests, least=_LEAST_REQUEST),
                started_at_s=started.get(container.name),
            )
            for container in (*(pod.spec.containers or ()), *sidecars)
        },
    )
