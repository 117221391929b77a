"""Keeps answers to the questions of passes until the next pass reads them. In RAM only: a lost answer is asked for again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, MutableMapping
from typing import Any

from msgspec import Struct

from rollouts.cluster.store import NamespacedName
from rollouts.cluster.structs import RouteObject, ServiceObject
from rollouts.controller.workqueue.askers import Askers
from rollouts.core.model.autoscaling import AutoscalingGate, AutoscalingSeen
from rollouts.core.model.config import CopyLook
from rollouts.core.model.frozen import replace
from rollouts.core.model.snapshot import CreationRefused, DrainSeen, EvictionRefused, PodsSeen
from rollouts.core.model.traffic import LiveSeen, RouteName, RouteRefused
from rollouts.objects import Key, Kind
from rollouts.ports import Clock

SERVICE_ANSWER_S = 10.0  # a Service that is not watched may change unseen
POD_LISTS_MAX = 1_000  # Rollouts whose lists are kept; the least recently used one is dropped first
COPY_LOOKS_MAX = 100  # copies of Secrets of one Rollout; the oldest answer is dropped first, and asked for again


class ServiceAnswer(Struct, frozen=True):
    """The API server's answer about one Service.

    Args:
        service: None when it does not exist.
        asked_s: monotonic time of the question; the answer is at least as new.
    """

    service: ServiceObject | None
    asked_s: float


class RouteAnswer(Struct, frozen=True, kw_only=True):
    """The API server's answer about one route.

    Args:
        kind, owned_kind: in the version that the server has; None when it has none.
        user, owned: the user's object and ours beside it; None when it does not exist.
        message: why there is no route; "" when simply no object has its name.
        asked_s: monotonic time of the question; the answer is at least as new.
    """

    asked_s: float
    kind: Kind | None = None
    user: RouteObject | None = None
    owned_kind: Kind | None = None
    owned: RouteObject | None = None
    message: str = ""


class Inbox:
    """The answers for every Rollout."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._services: dict[Key, dict[str, ServiceAnswer]] = {}
        self._service_askers: Askers[NamespacedName] = Askers()
        self._pods: OrderedDict[Key, PodsSeen] = OrderedDict()
        self._refusals: dict[Key, EvictionRefused] = {}
        self._creations: dict[Key, CreationRefused] = {}
        self._routes: dict[Key, dict[RouteName, RouteAnswer]] = {}
        self._route_askers: Askers[NamespacedName] = Askers()
        self._live: dict[Key, dict[RouteName, LiveSeen]] = {}
        self._refused_routes: dict[Key, dict[RouteName, RouteRefused]] = {}
        self._drained: dict[Key, dict[str, DrainSeen]] = {}
        self._autoscaling: dict[Key, tuple[AutoscalingGate, AutoscalingSeen]] = {}
        self._copies: dict[Key, dict[str, CopyLook]] = {}

    def put_service(self, key: Key, name: str, answer: ServiceAnswer) -> None:
        """Takes the answer to a question about Service `name`."""
        self._services.setdefault(key, {})[name] = answer
        self._service_askers.asks_also(key, (key.namespace, name))

    def put_pods(self, key: Key, pods: PodsSeen) -> None:
        """Takes the list of a Rollout's pods."""
        self._pods[key] = pods
        self._pods.move_to_end(key)
        if len(self._pods) > POD_LISTS_MAX:
            self._pods.popitem(last=False)

    def put_route(self, key: Key, route: RouteName, answer: RouteAnswer) -> None:
        """Takes the answer to a question about a route."""
        self._routes.setdefault(key, {})[route] = answer
        self._route_askers.asks_also(key, (route.namespace, route.name))

    def put_live(self, key: Key, route: RouteName, answer: LiveSeen) -> bool:
        """Takes the answer of a route's data planes; whether it is news: they follow, or it says something else than before."""
        answers = self._live.setdefault(key, {})
        before, answers[route] = answers.get(route), answer
        return answer.live or before is None or replace(before, at_s=answer.at_s) != answer

    def put_drained(self, key: Key, revision: str, answer: DrainSeen) -> None:
        """Takes the answer of the drain probes about a revision."""
        self._drained.setdefault(key, {})[revision] = answer

    def put_autoscaling(self, key: Key, gate: AutoscalingGate, answer: AutoscalingSeen) -> bool:
        """Takes the answer to a gate's question; whether it is another than the last one. All of a namespace share its lists."""
        before = self._autoscaling.get(key)
        self._autoscaling[key] = gate, answer
        return before != (gate, answer)

    def put_copy(self, key: Key, name: str, look: CopyLook) -> None:
        """Takes the answer whether a copy of a Secret is there, or that it was made."""
        looks = self._copies.get(key, {})
        others = [other for other in looks.items() if other[0] != name]
        self._copies[key] = {**dict(others[1 - COPY_LOOKS_MAX :]), name: look}

    def put_refusal(self, key: Key, refusal: EvictionRefused) -> None:
        """Remembers that a PodDisruptionBudget refused an eviction."""
        self._refusals[key] = refusal

    def put_route_refused(self, key: Key, route: RouteName, refused: RouteRefused) -> None:
        """Remembers that a write of a route was refused."""
        self._refused_routes.setdefault(key, {})[route] = refused

    def put_creation_refused(self, key: Key, refused: CreationRefused) -> None:
        """Remembers that the ReplicaSet of a revision was refused."""
        self._creations[key] = refused

    def service(self, key: Key, name: str) -> ServiceAnswer | None:
        """The answer about Service `name`; None when there is none, or when it says that the Service exists and is over 10 s old.

        How long "it does not exist" remains valid is for `decide` to judge.
        """
        answer = self._services.get(key, {}).get(name)
        if answer is None or (answer.service is not None and self.age_s(answer) > SERVICE_ANSWER_S):
            return None
        return answer

    def route(self, key: Key, route: RouteName) -> RouteAnswer | None:
        """The answer about a route; None when there is none, or when it says that the route exists and is over 10 s old."""
        answer = self._routes.get(key, {}).get(route)
        if answer is None or (answer.user is not None and self.age_s(answer) > SERVICE_ANSWER_S):
            return None
        return answer

    def live(self, key: Key, route: RouteName) -> LiveSeen | None:
        """The last answer of the data planes; `decide` judges whether it is about this version of the route."""
        return self._live.get(key, {}).get(route)

    def route_refused(self, key: Key, route: RouteName) -> RouteRefused | None:
        """The last refusal of a write of a route; `decide` judges whether it is about this version and this split."""
        return self._refused_routes.get(key, {}).get(route)

    def drained(self, key: Key) -> Mapping[str, DrainSeen]:
        """The last answers of the drain probes, by revision; `decide` judges how old they may be."""
        return self._drained.get(key, {})

    def autoscaling(self, key: Key, gate: AutoscalingGate) -> AutoscalingSeen | None:
        """The last answer to this gate's question; `decide` judges how old it may be."""
        asked, answer = self._autoscaling.get(key, (None, None))
        return answer if asked == gate else None

    def copies(self, key: Key) -> Mapping[str, CopyLook]:
        """The last answers about copies of Secrets, by name; `decide` judges how old they may be."""
        return self._copies.get(key, {})

    def age_s(self, answer: ServiceAnswer | RouteAnswer) -> float:
        """Seconds since the question was sent."""
        return self._clock.monotonic_s() - answer.asked_s

    def pods(self, key: Key) -> PodsSeen | None:
        """The last list of the Rollout's pods; `decide` judges how old it may be."""
        return self._pods.get(key)

    def refusal(self, key: Key) -> EvictionRefused | None:
        """The last refusal of an eviction."""
        return self._refusals.get(key)

    def creation_refused(self, key: Key) -> CreationRefused | None:
        """The last refusal of a ReplicaSet; `decide` judges whether it is about this revision."""
        return self._creations.get(key)

    def askers(self, namespace: str, service: str) -> frozenset[Key]:
        """Rollouts that asked about a Service: they get a pass when some Rollout begins to manage it."""
        return self._service_askers.of((namespace, service))

    def route_askers(self, namespace: str, name: str) -> frozenset[Key]:
        """Rollouts that asked about a route of that name, of whatever kind."""
        return self._route_askers.of((namespace, name))

    def route_changed(self, key: Key, route: RouteName) -> None:
        """Drops the answer about a route after a write to it."""
        self._routes.get(key, {}).pop(route, None)

    def service_changed(self, key: Key, name: str) -> None:
        """Drops the answer about a Service after a write to it, or when it is watched now."""
        self._services.get(key, {}).pop(name, None)

    def pods_changed(self, key: Key) -> None:
        """Drops the list of pods after a write to one of them."""
        self._pods.pop(key, None)

    def forget(self, key: Key) -> None:
        """Forgets a Rollout that is gone."""
        self._service_askers.rests(key)
        self._route_askers.rests(key)
        answers: MutableMapping[Key, Any]
        for answers in (
            self._services,
            self._routes,
            self._pods,
            self._refusals,
            self._creations,
            self._live,
            self._refused_routes,
            self._drained,
            self._autoscaling,
            self._copies,
        ):
            answers.pop(key, None)
