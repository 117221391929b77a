"""The normal form of a world of `tests/core/model.py`: worlds that differ only in what no rule reads have one, and one key.

The search goes on from normal forms, so "these two worlds are alike" is a claim that is tested
(`test_the_normal_form_decides_and_moves_alike.py`). Why each part may be changed:

- *Now* is always `T0`, and other times shift with it: no rule reads an absolute time.
- *Ages* are capped at the largest bound that they are compared with (`Bounds`), as in the regions of timed automata: all values
  beyond it decide alike. Of a deadline the rest is kept, at least 0. Times that are only compared with each other are constants.
- *Texts*, conditions and counts of status are dropped: they are for people, and each pass works them out again. The clock of the
  progress deadline is dropped, too, unless the deadline aborts.
- *Versions, uids and generations* are constants: they are compared with what the same pass has seen. Within a transition the real
  ones are used, so conflicts are refused.
- *Pods* are named by their age in their ReplicaSet, which is what its controller sorts by.
- *Answers* do not get old, and that a data plane is not live yet is forgotten: `as_if_asked_now` says what that changes.

A part whose objects are normal already is recognized by their identity, and not worked out again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec

from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Rollout, RolloutSpec
from rollouts.core.model.snapshot import Pod, PodsSeen, ReplicaSet, ServiceSeen
from rollouts.core.model.traffic import LiveSeen, RouteName, RouteSeen
from rollouts.core.scale.restarts import PODS_FRESH_S
from tests.core.model import ANSWER_S, T0, World
from tests.core.small_worlds.normal_status import (
    BEFORE,
    EARLIER,
    VERSION,
    Frame,
    assert_not_here,
    frame_of,
    normal_status,
)
from tests.core.sources import Configs

Key: TypeAlias = tuple[int, ...]


def _replica_sets(there: World, frame: Frame) -> tuple[tuple[ReplicaSet, ...]]:
    """Their times of creation are compared with each other only."""
    times = sorted({each.created_at_s for each in there.replica_sets})
    created = {at_s: T0 - (len(times) - rank) for rank, at_s in enumerate(times)}
    return (tuple([_replica_set(each, frame, created[each.created_at_s]) for each in there.replica_sets]),)


def _replica_set(replica_set: ReplicaSet, frame: Frame, created_at_s: float) -> ReplicaSet:
    note = replica_set.abort_note
    if note is not None and frame.began_s is not None:
        of_this_update = note.started_at_s == frame.started_at_s
        note = replace(
            note,
            started_at_s=frame.began_s if of_this_update else BEFORE,
            at_s=frame.aged(note.at_s, frame.bounds.command_s),
        )
    return replace(
        replica_set,
        uid=f"rs-{replica_set.revision}",
        resource_version=str(VERSION),
        created_at_s=created_at_s,
        abort_note=note,
    )


def _pods(there: World, frame: Frame) -> tuple[Any, ...]:
    """Pods that exist and pods that the ReplicaSet controller has heard of, in the order in which it sorts them."""
    listed = there.pods_seen if frame.evicts else None
    known = {each.uid: each for each in (*(listed.pods if listed else ()), *there.heard, *there.pods)}
    ordered = sorted(known.values(), key=lambda each: (_owner(each), each.created_at_s, each.name))
    numbers: dict[str, int] = {}
    names: dict[str, str] = {}
    for each in ordered:
        owner = _owner(each)
        numbers[owner] = numbers.get(owner, 0) + 1
        names[each.uid] = f"{owner}-{numbers[owner]:02}"
    ready_since = {
        names[each.uid]: frame.aged(there.ready_since[each.uid], frame.bounds.ready_s)
        for each in ordered
        if each.uid in there.ready_since
    }
    pods = _renamed(there.pods, names, frame)
    heard = pods if there.heard is there.pods else _renamed(there.heard, names, frame)
    if listed is not None:
        listed = PodsSeen(frame.aged(listed.at_s, PODS_FRESH_S), _renamed(listed.pods, names, frame))
    return pods, heard, there.expecting, ready_since, listed


def _renamed(pods: tuple[Pod, ...], names: Mapping[str, str], frame: Frame) -> tuple[Pod, ...]:
    """The pods, which are old unless they were made since a restart was asked for, in its second or later."""
    new_since_s = math.inf if frame.restart_s is None else math.floor(frame.restart_s)
    renamed = [
        Pod(
            name=names[each.uid],
            uid=names[each.uid],
            revision=each.revision,
            created_at_s=T0 if each.created_at_s >= new_since_s else T0 - 100.0,
            ready=each.ready,
            deleting=each.deleting,
            labels=each.labels,
            annotations=each.annotations,
        )
        for each in pods
    ]
    return tuple(sorted(renamed, key=lambda each: each.name))


def _owner(pod: Pod) -> str:
    return pod.name.rpartition("-")[0]


def _services(there: World, frame: Frame) -> tuple[Any, ...]:
    services = {name: _service(each) for name, each in sorted(there.services.items(), key=lambda item: str(item[0]))}
    answers = {}
    for name, (at_s, answer) in sorted(there.answers.items(), key=lambda item: str(item[0])):
        now = there.services.get(name)
        if (now is not None and now.watched) or frame.now_s - at_s > ANSWER_S:
            continue
        if answer is None or (now is not None and answer.resource_version == now.resource_version):
            answers[name] = (T0, None if answer is None else _service(answer))
    return services, answers


def _service(service: ServiceSeen) -> ServiceSeen:
    ready = {revision: count for revision, count in sorted(service.ready_by_revision.items()) if count}
    return replace(service, uid=f"uid-{service.name}", resource_version=str(VERSION), ready_by_revision=ready)


def _routes(there: World, frame: Frame) -> tuple[Any, ...]:
    routes = {name: _route(each) for name, each in sorted(there.routes.items(), key=lambda item: str(item[0]))}
    planes = dict(sorted(there.planes.items(), key=lambda item: str(item[0])))
    answers = {}
    for name, (at_s, answer) in sorted(there.route_answers.items(), key=lambda item: str(item[0])):
        now = there.routes.get(name)
        if (now is not None and now.managed_by) or frame.now_s - at_s > ANSWER_S:
            continue
        if answer is None or (now is not None and answer.resource_version == now.resource_version):
            answers[name] = (T0, None if answer is None else _route(answer))
    return routes, planes, answers


def _route(route: RouteSeen) -> RouteSeen:
    assert route.refused is None, "no small world has a refused route"
    live = route.live
    if live is not None:
        about_this = live.resource_version == route.resource_version and live.live
        live = LiveSeen(at_s=T0, resource_version=str(VERSION), live=True, by=live.by) if about_this else None
    return replace(route, uid=f"uid-{route.route.name}", resource_version=str(VERSION), live=live)


REST_NOT_HERE = (
    "orphaned", "drains", "refused", "patient", "held", "unmeasured", "templates_wrong", "templates_missing",
    "budget", "load", "load_seen", "sight", "workload", "spread",
)  # fmt: skip
"""No small world has these so far; `as_if_asked_now` and the bounds know nothing of their times."""

REST_KEPT = ("unheard", "supported", "probed", "bad")


def _rest(there: World, frame: Frame) -> tuple[Any, ...]:
    assert_not_here(there, World(now_s=T0, rollout=there.rollout), REST_NOT_HERE)
    assert there.configs == Configs(), "no small world has a configuration"
    return tuple([getattr(there, name) for name in REST_KEPT])


class _Part:
    """One part of the world: its fields, its shape, and all of its values that were met, each once."""

    def __init__(self, fields: tuple[str, ...], shape: Callable[[World, Frame], tuple[Any, ...]]) -> None:
        self.fields = fields
        self.shape = shape
        self.of = attrgetter(*fields) if len(fields) > 1 else lambda there: (getattr(there, fields[0]),)
        self.numbers: dict[bytes, int] = {}
        self.values: list[tuple[Any, ...]] = []
        self.known: dict[tuple[int, ...], int] = {}

    def number(self, there: World, frame: Frame, *, standard: bool) -> int:
        """The number of the part's normal form.

        Args:
            standard: the time is `T0` and the update began when the normal form says: then a normal part stays as it is.
        """
        if standard:
            found = self.known.get((frame.restart_s is None, frame.evicts, *map(id, self.of(there))))
            if found is not None:
                return found
        values = self.shape(there, frame)
        text = _ENCODER.encode([_plain(each) for each in values])
        number = self.numbers.get(text)
        if number is None:
            number = self.numbers[text] = len(self.values)
            self.values.append(values)  # which keeps these objects, so no other has their identities
        self.known[frame.restart_s is None, frame.evicts, *map(id, self.values[number])] = number
        return number


def _plain(value: Any) -> Any:
    """A mapping as a list of its items: the encoder takes only texts as keys."""
    return [[str(key), each] for key, each in value.items()] if isinstance(value, Mapping) else value


def _encoded(value: Any) -> Any:
    if isinstance(value, Fraction):
        return [value.numerator, value.denominator]
    if isinstance(value, RouteName):
        return str(value)
    raise TypeError(type(value))


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_encoded, order="deterministic")

PARTS: Mapping[str, tuple[tuple[str, ...], Callable[[World, Frame], tuple[Any, ...]]]] = {
    "status": (("status", "runs"), normal_status),
    "ReplicaSets": (("replica_sets",), _replica_sets),
    "pods": (("pods", "heard", "expecting", "ready_since", "pods_seen"), _pods),
    "Services": (("services", "answers"), _services),
    "routes": (("routes", "planes", "route_answers"), _routes),
    "the rest": (REST_KEPT, _rest),
}
WORLD_DROPPED = ("writes", "notices", "configs", "version")
"""What was done; no small world has a configuration."""

OF_ITS_OWN = ("now_s", "rollout")


class NormalForm:
    """The normal forms that one search has met. Two worlds are alike when their keys are equal."""

    def __init__(self) -> None:
        self._parts = [_Part(fields, shape) for fields, shape in PARTS.values()]
        self._specs: list[RolloutSpec] = []
        self._rollouts: list[Rollout] = []
        self._rollout_numbers: dict[tuple[Any, ...], int] = {}

    def key(self, there: World) -> Key:
        """The key of a world's normal form."""
        frame = frame_of(there)
        standard = (
            there.now_s == T0 and there.status.started_at_s in (None, EARLIER) and frame.began_s in (None, EARLIER)
        )
        return (self._rollout(there), *[part.number(there, frame, standard=standard) for part in self._parts])

    def world(self, key: Key) -> World:
        """The normal form with that key."""
        values: dict[str, Any] = {}
        for part, number in zip(self._parts, key[1:], strict=True):
            values.update(zip(part.fields, part.values[number], strict=True))
        return World(now_s=T0, rollout=self._rollouts[key[0]], version=VERSION, **values)

    def of(self, there: World) -> World:
        """The normal form of a world."""
        return self.world(self.key(there))

    def _rollout(self, there: World) -> int:
        rollout = there.rollout
        assert rollout.restart_asked_at_s is None, "no small world has a restart at a named time"
        spec = self._spec(rollout.spec)
        key = (spec, *sorted(rollout.annotations.items()))
        if key not in self._rollout_numbers:
            self._rollout_numbers[key] = len(self._rollouts)
            self._rollouts.append(
                replace(
                    rollout,
                    spec=self._specs[spec],
                    resource_version=str(VERSION),
                    generation=1,
                    created_at_s=BEFORE,
                    annotated_by={},
                )
            )
        return self._rollout_numbers[key]

    def _spec(self, spec: RolloutSpec) -> int:
        for number, each in enumerate(self._specs):
            if each is spec or each == spec:
                return number
        self._specs.append(spec)
        return len(self._specs) - 1


def as_if_asked_now(there: World) -> World:
    """The world with what the normal form takes for granted of answers, which are only in the controller's memory.

    Good answers about Services and routes that are not managed yet are new; old ones, and those about another version, are gone.
    That a data plane does not follow is forgotten: a pass may ask again at once, as it will when its time has come.

    Of a list of pods nothing is known, except after evictions, because otherwise it gives texts only; and no wait for pods is so
    long that a list is asked for. Pods that were made before a restart was asked for are a second older: the API gives that time
    in whole seconds, and a restart does not touch pods of its own second.
    """
    frame = frame_of(there)
    waiting = there.status.waiting_for
    if waiting is not None and waiting.reason is Reason.PODS_NOT_AVAILABLE:
        there = replace(there, status=replace(there.status, waiting_for=replace(waiting, since_s=there.now_s)))
    if frame.restart_s is None:
        there = replace(there, pods=_older(there.pods), heard=_older(there.heard))
        if there.pods_seen is not None:
            there = replace(there, pods_seen=replace(there.pods_seen, pods=_older(there.pods_seen.pods)))
    routes = {
        name: replace(each, live=None)
        if each.live is not None and not (each.live.live and each.live.resource_version == each.resource_version)
        else each
        for name, each in there.routes.items()
    }
    return replace(
        there,
        answers=_fresh(there, there.answers, there.services),
        routes=routes,
        route_answers=_fresh(there, there.route_answers, there.routes),
        pods_seen=there.pods_seen if frame.evicts else None,
    )


def _fresh(there: World, answers: Mapping[Any, tuple[float, Any]], objects: Mapping[Any, Any]) -> dict[Any, Any]:
    return {
        name: (there.now_s, answer)
        for name, (at_s, answer) in answers.items()
        if there.now_s - at_s <= ANSWER_S
        and (answer is None or objects[name].resource_version == answer.resource_version)
    }


def _older(pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
    return tuple([replace(each, created_at_s=each.created_at_s - 1.0) for each in pods])
