"""What the cluster itself measures: usage of containers (metrics.k8s.io) and HorizontalPodAutoscalers, read when somebody asks.

One list of each kind for each namespace and interval, for everybody who asks meanwhile. Nothing is polled, and nothing is kept
longer than the interval. What a server does is an answer, never an exception.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import partial
from typing import Generic, TypeAlias, TypeVar
from weakref import WeakValueDictionary

import structlog
from msgspec import Struct

from rollouts.cluster.client import Client
from rollouts.controller.facts.in_place import InPlaceOf
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
from rollouts.metrics.container_use import ListedPod, PodSample, listed_pods, pod_samples, use_by_revision
from rollouts.objects import AUTOSCALER, POD, POD_METRICS, ROLLOUT, Key, Kind
from rollouts.ports import Clock

INTERVAL_S = 15.0
"""metrics-server's resolution, and the period in which the autoscaler looks: asked more often, both say the same."""

log = structlog.get_logger()

T = TypeVar("T")
_K = TypeVar("_K", bound=Hashable)


class Unread(Struct, frozen=True):
    """Something could not be read; `why` says in words of ours what to do."""

    why: str
    at_s: float


class Read(Struct, Generic[T], frozen=True):
    """What was read. It is not older than `at_s`, seconds since 1970, when it was asked for."""

    value: T
    at_s: float


Answered: TypeAlias = Read[T] | Unread
UseByRevision: TypeAlias = Mapping[str, ContainerUse]


class ClusterMetrics:
    """Reads what metrics.k8s.io and autoscalers say; an answer is good for INTERVAL_S for everybody who asks.

    Args:
        in_place: the Deployment that a Rollout updates in place: it is the target of autoscalers, and has the pods.
    """

    def __init__(self, client: Client, clock: Clock, in_place: InPlaceOf = lambda _: None) -> None:
        self._client = client
        self._clock = clock
        self.in_place = in_place
        self._autoscalers: Shared[str, Answered[tuple[ListedAutoscaler, ...]]] = Shared(INTERVAL_S)
        # By namespace, and the label or the selector by which they were listed.
        self._samples: Shared[tuple[str, str], Answered[tuple[PodSample, ...]]] = Shared(INTERVAL_S)
        self._pods: Shared[tuple[str, str], Answered[tuple[ListedPod, ...]]] = Shared(INTERVAL_S)

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
        answers = [answer for answer in (autoscalers, use) if answer is not None]
        return AutoscalingSeen(
            at_s=min((answer.at_s for answer in answers), default=self._clock.now_s()),
            autoscalers=autoscalers.value if isinstance(autoscalers, Read) else None,
            use=use.value if isinstance(use, Read) else None,
            message="; ".join(answer.why for answer in answers if isinstance(answer, Unread)),
        )

    async def autoscalers(self, key: Key, *, name: str = "") -> Answered[tuple[AutoscalerSeen, ...]]:
        """Autoscalers whose target has the Rollout's pods; with a name the one of that name in its namespace.

        The Rollout's name may be one that its pods' label has shortened.
        """
        read = partial(self._pages, AUTOSCALER, key.namespace, listed_autoscalers)
        listed = await self._autoscalers.of(key.namespace, read)
        if isinstance(listed, Unread):
            return listed
        if name:
            wanted = [autoscaler.seen for autoscaler in listed.value if autoscaler.seen.name == name]
        else:
            target = (ROLLOUT.group, ROLLOUT.kind, name_label(key.name))
            if (found := self.in_place(key)) is not None:
                target = (found.kind.resource.group, found.kind.resource.kind, name_label(found.name))
            wanted = [
                autoscaler.seen
                for autoscaler in listed.value
                if (autoscaler.target_group, autoscaler.target_kind, name_label(autoscaler.target_name)) == target
            ]
        return Read(tuple(wanted), listed.at_s)

    async def pods(self, key: Key) -> Answered[tuple[ListedPod, ...]]:
        """Pods of the Rollout; a name that their label has shortened finds the same."""
        labels, found = NAME, self.in_place(key)
        if found is not None:
            labels = found.selector
        page_of = partial(listed_pods, rollout_label=NAME)
        read = partial(self._pages, POD, key.namespace, page_of, labels=labels)
        listed = await self._pods.of((key.namespace, labels), read)
        if isinstance(listed, Unread) or found is not None:
            return listed
        return Read(tuple(pod for pod in listed.value if pod.rollout == name_label(key.name)), listed.at_s)

    async def container_use(
        self, key: Key, container: str, resource: ContainerMetric, *, max_age_s: float = SAMPLE_MAX_AGE_S
    ) -> Answered[UseByRevision]:
        """What one container of the Rollout's pods uses, by revision; a revision without a ready pod is not there."""
        found = self.in_place(key)
        labels = NAME if found is None else found.selector
        read = partial(self._pages, POD_METRICS, key.namespace, lambda body: (pod_samples(body), ""), labels=labels)
        samples = await self._samples.of((key.namespace, labels), read)
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

    async def _pages(
        self, kind: Kind, namespace: str, page_of: Callable[[bytes], tuple[tuple[T, ...], str]], *, labels: str = ""
    ) -> Answered[tuple[T, ...]]:
        """A whole list.

        Args:
            page_of: what is in a page, and the token of the next; raises ValueError when the page cannot be read.
        """
        at_s = self._clock.now_s()
        listed: list[T] = []
        token = ""
        try:
            while True:
                body = await self._client.list_page(kind, namespace, label_selector=labels, continue_token=token)
                items, token = page_of(body)
                listed += items
                if not token:
                    return Read(tuple(listed), at_s)
        except (ValueError, RolloutsError) as exc:
            error = type(exc).__name__
            log.warning("cluster_metrics_unread", kind=kind.kind, namespace=namespace, error=error, why=str(exc))
            return Unread(_why(kind, exc), at_s)


class Shared(Generic[_K, T]):
    """Answers, each kept for some seconds; whoever asks meanwhile gets the same one, an answer of failure too."""

    def __init__(self, kept_s: float) -> None:
        self._kept_s = kept_s
        self._kept: dict[_K, T] = {}
        self._asking: WeakValueDictionary[_K, asyncio.Lock] = WeakValueDictionary()

    async def of(self, about: _K, read: Callable[[], Awaitable[T]]) -> T:
        """The answer. If the one who asks is cancelled, or fails, the next one asks."""
        lock = self._asking.setdefault(about, asyncio.Lock())
        async with lock:
            kept = self._kept.get(about)
            if kept is None:
                kept = self._kept[about] = await read()
                asyncio.get_running_loop().call_later(self._kept_s, self._kept.pop, about, None)
            return kept


def _why(kind: Kind, exc: ValueError | RolloutsError) -> str:
    """Why a list could not be read, and what to do; no text of the server."""
    cannot = f"{kind.group if kind == POD_METRICS else kind.plural} cannot be read"
    match exc:
        case ValueError():
            return f"{cannot}: the answer is no list"
        case ApiNotFound() if kind == POD_METRICS:
            return f"{cannot}: the cluster does not have it; install metrics-server"
        case ApiNotFound():
            return f"{cannot}: the cluster does not have {kind.api_version}"
        case ApiForbidden():
            right = f"list {kind.plural} of {kind.group}" if kind.group else f"list {kind.plural}"
            return f"{cannot}: the controller may not {right}; kubectl rollouts doctor says more"
        case ApiUnavailable() | ApiThrottled() if kind == POD_METRICS:
            service = f"{kind.version}.{kind.group}"
            return f"{cannot}: it does not answer; see kubectl get apiservice {service}"
        case _:
            return f"{cannot}: the API server does not answer as it must ({type(exc).__name__})"
