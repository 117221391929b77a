"""What the cluster itself measures: usage of containers (metrics.k8s.io) and HorizontalPodAutoscalers, read when somebody asks.

One list of each kind for each namespace and interval, for everybody who asks meanwhile. Nothing is polled, and nothing is kept
longer than the interval. What a server does is an answer, never an exception.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeAlias, TypeVar
from weakref import WeakValueDictionary

import structlog
from msgspec import Struct

from rollouts.cluster.client import Client
from rollouts.core.model.autoscaling import (
    SAMPLE_MAX_AGE_S,
    AutoscalerSeen,
    AutoscalingGate,
    AutoscalingSeen,
    ContainerMetric,
    ContainerUse,
)
from rollouts.errors import ApiForbidden, ApiNotFound, ApiThrottled, ApiUnavailable, RolloutsError
from rollouts.manifests.ownership import NAME, name_label
from rollouts.metrics.autoscalers import ListedAutoscaler, listed_autoscalers
from rollouts.metrics.container_use import (
    ListedPod,
    PodSample,
    listed_pods,
    pod_samples,
    use_by_revision,
)
from rollouts.objects import AUTOSCALER, POD, POD_METRICS, ROLLOUT, Key, Kind
from rollouts.ports import Clock

INTERVAL_S = 15.0
"""metrics-server's resolution, and the period in which the autoscaler looks: asked more often, both say the same."""

log = structlog.get_logger()

T = TypeVar("T")


class Unread(Struct, frozen=True):
    """Something could not be read.

    Args:
        why: in words of ours, and what to do.
    """

    why: str
    at_s: float


class Read(Struct, Generic[T], frozen=True):
    """What was read.

    Args:
        at_s: when it was asked for, seconds since 1970: it is not older than that.
    """

    value: T
    at_s: float


Answered: TypeAlias = Read[T] | Unread
UseByRevision: TypeAlias = Mapping[str, ContainerUse]


class ClusterMetrics:
    """Reads what metrics.k8s.io and autoscalers say.

    Args:
        interval_s: how long an answer is good for everybody who asks.
    """

    def __init__(self, client: Client, clock: Clock, *, interval_s: float = INTERVAL_S) -> None:
        self._client = client
        self._clock = clock
        self._autoscalers: _Shared[tuple[ListedAutoscaler, ...]] = _Shared(interval_s)
        self._samples: _Shared[tuple[PodSample, ...]] = _Shared(interval_s)
        self._pods: _Shared[tuple[ListedPod, ...]] = _Shared(interval_s)

    async def seen(self, key: Key, gate: AutoscalingGate) -> AutoscalingSeen:
        """What the gate of a Rollout asks for, and no more.

        Cancellation: safe. Raises: nothing that a server could cause.
        """
        autoscalers: Answered[tuple[AutoscalerSeen, ...]] | None = None
        use: Answered[UseByRevision] | None = None
        if gate.settled or gate.min_headroom_percent is not None:
            autoscalers = await self.autoscalers(key)
        if (limit := gate.container) is not None:
            use = await self.container_use(key, limit.container, limit.resource)
        parts = [each for each in (autoscalers, use) if each is not None]
        return AutoscalingSeen(
            at_s=min((each.at_s for each in parts), default=self._clock.now_s()),
            autoscalers=autoscalers.value if isinstance(autoscalers, Read) else None,
            use=use.value if isinstance(use, Read) else None,
            message="; ".join(each.why for each in parts if isinstance(each, Unread)),
        )

    async def autoscalers(self, key: Key, *, name: str = "") -> Answered[tuple[AutoscalerSeen, ...]]:
        """Autoscalers whose target is the Rollout; with a name the one of that name in its namespace.

        Args:
            key: of the Rollout; a name that its pods' label has shortened finds the same.
        """
        found = await self._autoscalers.of(key.namespace, lambda: self._list_autoscalers(key.namespace))
        if isinstance(found, Unread):
            return found
        asked = (each.seen for each in found.value if (each.seen.name == name if name else _is_target(key, each)))
        return Read(tuple(asked), found.at_s)

    async def pods(self, key: Key) -> Answered[tuple[ListedPod, ...]]:
        """Pods of the Rollout; a name that their label has shortened finds the same."""
        namespace, label = key.namespace, name_label(key.name)
        found = await self._pods.of(namespace, lambda: self._list_pods(namespace))
        if isinstance(found, Unread):
            return found
        return Read(tuple(each for each in found.value if each.rollout == label), found.at_s)

    async def container_use(
        self, key: Key, container: str, resource: ContainerMetric, *, max_age_s: float = SAMPLE_MAX_AGE_S
    ) -> Answered[UseByRevision]:
        """What one container of the Rollout's pods uses, by revision; a revision without a ready pod is not there.

        Args:
            max_age_s: of a sample that counts.
        """
        namespace = key.namespace
        samples = await self._samples.of(namespace, lambda: self._list_samples(namespace))
        if isinstance(samples, Unread):
            return samples
        pods = await self.pods(key)  # afterwards: it knows later restarts
        if isinstance(pods, Unread):
            return pods
        use = use_by_revision(
            pods.value,
            samples.value,
            container=container,
            resource=resource,
            now_s=self._clock.now_s(),
            max_age_s=max_age_s,
        )
        return Read(use, min(samples.at_s, pods.at_s))

    async def _list_autoscalers(self, namespace: str) -> Answered[tuple[ListedAutoscaler, ...]]:
        return await self._pages(AUTOSCALER, namespace, listed_autoscalers)

    async def _list_samples(self, namespace: str) -> Answered[tuple[PodSample, ...]]:
        return await self._pages(POD_METRICS, namespace, lambda body: (pod_samples(body), ""), labels=NAME)

    async def _list_pods(self, namespace: str) -> Answered[tuple[ListedPod, ...]]:
        return await self._pages(POD, namespace, lambda body: listed_pods(body, rollout_label=NAME), labels=NAME)

    async def _pages(
        self, kind: Kind, namespace: str, page_of: Callable[[bytes], tuple[tuple[T, ...], str]], *, labels: str = ""
    ) -> Answered[tuple[T, ...]]:
        """A whole list.

        Args:
            page_of: what is in a page, and the token of the next; raises ValueError when the page cannot be read.
        """
        at_s = self._clock.now_s()
        found: list[T] = []
        token = ""
        try:
            while True:
                body = await self._client.list_page(kind, namespace, label_selector=labels, continue_token=token)
                items, token = page_of(body)
                found += items
                if not token:
                    return Read(tuple(found), at_s)
        except ValueError as exc:
            return Unread(
                f"{_named(kind)} cannot be read: the answer is no list", self._logged(kind, namespace, exc, at_s)
            )
        except RolloutsError as exc:
            return Unread(_why(kind, exc), self._logged(kind, namespace, exc, at_s))

    def _logged(self, kind: Kind, namespace: str, exc: Exception, at_s: float) -> float:
        log.warning(
            "cluster_metrics_unread",
            kind=kind.kind,
            namespace=namespace,
            error=type(exc).__name__,
            why=str(exc),
        )
        return at_s


class _Shared(Generic[T]):
    """Answers by namespace, each for an interval; whoever asks meanwhile gets the same one, an answer of failure too."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._kept: dict[str, Answered[T]] = {}
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def of(self, namespace: str, read: Callable[[], Awaitable[Answered[T]]]) -> Answered[T]:
        """The namespace's answer. If the one who asks is cancelled, the next one asks."""
        lock = self._asking.setdefault(namespace, asyncio.Lock())
        async with lock:
            kept = self._kept.get(namespace)
            if kept is None:
                kept = self._kept[namespace] = await read()
                asyncio.get_running_loop().call_later(self._interval_s, self._kept.pop, namespace, None)
            return kept


def _is_target(key: Key, listed: ListedAutoscaler) -> bool:
    """Whether the autoscaler scales the Rollout."""
    target = (listed.target_group, listed.target_kind, name_label(listed.target_name))
    return target == (ROLLOUT.group, ROLLOUT.kind, name_label(key.name))


def _why(kind: Kind, exc: RolloutsError) -> str:
    """Why a list could not be read, and what to do; no text of the server."""
    named = _named(kind)
    match exc:
        case ApiNotFound() if kind == POD_METRICS:
            return f"{named} cannot be read: the cluster does not have it; install metrics-server"
        case ApiNotFound():
            return f"{named} cannot be read: the cluster does not have {kind.api_version}"
        case ApiForbidden():
            right = f"the controller may not list {kind.plural}{_in(kind)}"
            return f"{named} cannot be read: {right}; kubectl rollouts doctor says more"
        case ApiUnavailable() | ApiThrottled() if kind == POD_METRICS:
            service = f"{kind.version}.{kind.group}"
            return f"{named} cannot be read: it does not answer; see kubectl get apiservice {service}"
        case _:
            return f"{named} cannot be read: the API server does not answer as it must ({type(exc).__name__})"


def _named(kind: Kind) -> str:
    return kind.group if kind == POD_METRICS else kind.plural


def _in(kind: Kind) -> str:
    return f" of {kind.group}" if kind.group else ""
