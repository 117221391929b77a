"""Answers to what passes asked for, until the next pass looks. RAM only: whatever is lost here is asked again."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from rollouts.cluster.structs import ServiceObject
from rollouts.core.snapshot import EvictionRefused, PodsSeen
from rollouts.objects import Key
from rollouts.ports import Clock

SERVICE_ANSWER_S = 10.0  # a Service that is not watched may have changed since
POD_LISTS_MAX = 1_000  # of Rollouts at once; the longest unused one goes first


@dataclass(frozen=True, slots=True)
class ServiceAnswer:
    """What the API server said of one Service.

    Args:
        service: None when it does not exist.
        asked_s: monotonic, when the question was sent: the answer is at least as new.
    """

    service: ServiceObject | None
    asked_s: float


class Inbox:
    """The answers for every Rollout."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._services: dict[Key, dict[str, ServiceAnswer]] = {}
        self._asked: dict[Key, set[str]] = {}  # names of Services; _askers is the way back
        self._askers: dict[tuple[str, str], set[Key]] = {}
        self._pods: OrderedDict[Key, PodsSeen] = OrderedDict()
        self._refusals: dict[Key, EvictionRefused] = {}

    def put_service(self, key: Key, name: str, answer: ServiceAnswer) -> None:
        """Takes the answer to a question about Service `name`."""
        self._services.setdefault(key, {})[name] = answer
        self._asked.setdefault(key, set()).add(name)
        self._askers.setdefault((key.namespace, name), set()).add(key)

    def put_pods(self, key: Key, pods: PodsSeen) -> None:
        """Takes the list of a Rollout's pods."""
        self._pods[key] = pods
        self._pods.move_to_end(key)
        if len(self._pods) > POD_LISTS_MAX:
            self._pods.popitem(last=False)

    def put_refusal(self, key: Key, refusal: EvictionRefused) -> None:
        """Remembers that a PodDisruptionBudget said no."""
        self._refusals[key] = refusal

    def service(self, key: Key, name: str) -> ServiceAnswer | None:
        """The answer about Service `name`; None when there is none, or it describes a Service as it was 10 s ago.

        How long "there is none" may be believed is for `decide` to judge.
        """
        answer = self._services.get(key, {}).get(name)
        if answer is None or (answer.service is not None and self.age_s(answer) > SERVICE_ANSWER_S):
            return None
        return answer

    def age_s(self, answer: ServiceAnswer) -> float:
        """Seconds since the question was sent."""
        return self._clock.monotonic_s() - answer.asked_s

    def pods(self, key: Key) -> PodsSeen | None:
        """The last list of the Rollout's pods; how old it may be is for `decide` to judge."""
        return self._pods.get(key)

    def refusal(self, key: Key) -> EvictionRefused | None:
        """The last refusal of an eviction."""
        return self._refusals.get(key)

    def askers(self, namespace: str, service: str) -> frozenset[Key]:
        """Rollouts that asked about a Service: they want to know when it comes under somebody's steering."""
        return frozenset(self._askers.get((namespace, service), ()))

    def service_changed(self, key: Key, name: str) -> None:
        """We wrote to the Service, or it is watched now: an older answer says nothing any more."""
        self._services.get(key, {}).pop(name, None)

    def pods_changed(self, key: Key) -> None:
        """We wrote to a pod: the list must be read again."""
        self._pods.pop(key, None)

    def forget(self, key: Key) -> None:
        """The Rollout is gone."""
        self._services.pop(key, None)
        for name in self._asked.pop(key, ()):
            askers = self._askers[(key.namespace, name)]
            askers.discard(key)
            if not askers:
                del self._askers[(key.namespace, name)]
        self._pods.pop(key, None)
        self._refusals.pop(key, None)
