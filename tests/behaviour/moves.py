"""What people do to a Rollout at any moment, drawn at random, and what must be true of its pods and its status all the while.

The arithmetic is this module's own, and counts pods: not sizes that ReplicaSets were told, nor what status says.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rollouts.api.times import parse_time
from rollouts.manifests.ownership import PREFIX, REVISION
from rollouts.objects import ANALYSIS_TEMPLATE, POD, ROLLOUT, SERVICE, Manifest
from rollouts.ports import Request
from rollouts.sim.network.gateway import ENVOY
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from rollouts.sim.storage.history import CommittedWrite
from rollouts.traffic.nginx.settings import INGRESS_KINDS
from tests.behaviour.analysed import TEMPLATE_NAME, analysis, template
from tests.behaviour.routed import http_route, routed
from tests.behaviour.scenarios import (
    ACTIVE_AND_PREVIEW,
    HALF,
    MANUAL,
    SHORT,
    STABLE_AND_CANARY,
    blue_green,
    canary,
    rollout,
)
from tests.behaviour.stage import KEY, Behind, Stage

ANSWERED_WITHIN_S = 1.0
"""A pass takes milliseconds of virtual time; a command that is read in the next one is on record long before."""
LATE_S, LEAVING_S = 5.0, 60.0
"""So long after an edit a ReplicaSet may still make the pods of the sizes before, and so long pods may take to go."""
PAUSES_S = (0.0, 0.1, 0.5, 3.0, 12.0, 45.0)
REST_EVERY = 6
"""Moves from one rest to the next."""

Move: TypeAlias = Callable[["Play", random.Random], Awaitable[None] | None]


@dataclass(frozen=True, kw_only=True)
class World:
    """A Rollout, and how many pods it may have.

    Args:
        pinned: pods of the new revision that a step or a preview asks for, whatever `replicas` is.
        surge: pods above `replicas` in a canary by the ratio of pods; None where each revision has a number of its own.
        behind: the gateway of its route.
    """

    manifests: tuple[Manifest, ...]
    pinned: int = 0
    surge: int | None = None
    behind: Behind | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def most(self, replicas: int) -> int:
        """Pods of both live revisions together."""
        if replicas == 0:
            return 0
        return replicas + (max(replicas, self.pinned) if self.surge is None else self.surge)

    def most_of_one(self, replicas: int) -> int:
        """Pods of one revision; a restart may add one."""
        if replicas == 0:
            return 0
        return (max(replicas, self.pinned) if self.surge is None else replicas + self.surge) + 1


PINNED: Manifest = {"setCanaryScale": {"replicas": 2}}
STEPS = (PINNED, HALF, MANUAL, SHORT)
ANALYSED = canary(HALF, {"analysis": analysis()}, MANUAL)
WORLDS = {
    "by the ratio of pods": World(manifests=(rollout(canary(HALF, MANUAL, SHORT)),), surge=1),
    "with Services": World(
        manifests=(*STABLE_AND_CANARY, rollout(canary(HALF, MANUAL, services=True), replicas=3)), surge=1
    ),
    "with traffic routing": World(manifests=(rollout(canary(*STEPS, trafficRouting={})),), pinned=2),
    "with a route": World(
        manifests=(*STABLE_AND_CANARY, http_route(), routed(*STEPS, replicas=3)),
        pinned=2,
        behind=Behind(settings=ENVOY, pinned=True),
    ),
    "blue-green": World(manifests=(*ACTIVE_AND_PREVIEW, rollout(blue_green(autoPromotionEnabled=False))), pinned=1),
    "analysed": World(manifests=(template(), rollout(ANALYSED)), surge=1, options={"prometheus": {}}),
}


class Play:
    """One sequence of moves, and an eye on the pods.

    Args:
        wrong: what was seen that must not be.
    """

    def __init__(self, stage: Stage, world: World) -> None:
        self.stage = stage
        self.world = world
        self.wrong: list[str] = []
        self._since: list[tuple[float, int]] = []
        self._recorded: dict[str, float] = {}

    @property
    def spec(self) -> Manifest:
        spec: Manifest = self.stage.find(ROLLOUT)["spec"]
        return spec

    def pods(self) -> list[Manifest]:
        found = self.stage.cluster.list(POD, KEY.namespace)
        return [each for each in found if "deletionTimestamp" not in each["metadata"]]

    def scale(self, replicas: int) -> None:
        self.stage.edit({"spec": {"replicas": replicas}})

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Holds each pod that is made to what `replicas` allows."""
        history = self.stage.cluster.api.history
        unlisten = [history.listen(ROLLOUT, self._edited), history.listen(POD, self._made)]
        self._since.append((_now_s(), self.spec["replicas"]))
        try:
            yield
        finally:
            for each in unlisten:
                each()

    def _edited(self, write: CommittedWrite) -> None:
        for each in (write.new.manifest.get("status") or {}).get("commands") or ():
            self._recorded[each["verb"]] = max(self._recorded.get(each["verb"], 0.0), parse_time(each["at"]))
        replicas = write.new.manifest["spec"]["replicas"]
        if replicas != self._since[-1][1]:
            self._since.append((_now_s(), replicas))

    def _lately(self, seconds: float) -> int:
        """The largest `replicas` of the last seconds."""
        ended = [until_s for until_s, _ in self._since[1:]] + [_now_s()]
        return max(
            replicas for (_, replicas), until_s in zip(self._since, ended, strict=True) if until_s >= _now_s() - seconds
        )

    def _made(self, write: CommittedWrite) -> None:
        if write.old is not None:
            return
        of = Counter(each["metadata"]["labels"][REVISION] for each in self.pods())
        revision = write.new.manifest["metadata"]["labels"][REVISION]
        if self._lately(LATE_S) == 0:
            self.wrong.append(f"a pod of {revision} is made, and replicas has been 0 for {LATE_S:g} s")
        elif of[revision] > (most := self.world.most_of_one(self._lately(LEAVING_S))):
            self.wrong.append(f"{of[revision]} pods of {revision}, {most} at most are allowed")

    async def command(self, verb: str) -> None:
        """Gives a command by `true`, and waits for its record; not while the one before is not taken off."""
        if f"{PREFIX}{verb}" in (self.stage.find(ROLLOUT)["metadata"].get("annotations") or {}):
            return
        given_s = math.floor(self.stage.cluster.clock.now_s())
        self.stage.annotate(verb, "true")
        try:
            await self.stage.until(lambda: self._recorded.get(verb, 0.0) >= given_s, within_s=ANSWERED_WITHIN_S)
        except AssertionError:
            self.wrong.append(f"{verb} is not on record after {ANSWERED_WITHIN_S:g} s: {self.stage.status}")

    def at_rest(self) -> None:
        """Counts pods once nothing moves any more."""
        status, pods, replicas = self.stage.status, self.pods(), self.spec["replicas"]
        live = {status["currentRevision"], status.get("stableRevision", "")}
        of = Counter(each["metadata"]["labels"][REVISION] for each in pods)
        if sum(of.values()) > self.world.most(replicas):
            self.wrong.append(f"at rest {dict(of)} pods, {self.world.most(replicas)} at most for {replicas} replicas")
        if set(of) - live:
            self.wrong.append(f"at rest {dict(of)} pods, and the live revisions are {live}")
        if status["phase"] == "Healthy" and of != Counter({status["stableRevision"]: replicas}):
            self.wrong.append(f"Healthy with {dict(of)} pods, {replicas} replicas")
        counts = self._counts(pods)
        told = {name: status.get(name, 0) for name in counts}
        if counts != told:
            self.wrong.append(f"at rest status tells {told}, there are {counts}")

    def _counts(self, pods: list[Manifest]) -> dict[str, int]:
        status = self.stage.status
        active = (status.get("blueGreen") or {}).get("activeRevision")
        counted = [each for each in pods if active in (None, each["metadata"]["labels"][REVISION])]
        updated = [each for each in pods if each["metadata"]["labels"][REVISION] == status["currentRevision"]]
        ready, updated_ready = len(list(filter(_is_ready, counted))), len(list(filter(_is_ready, updated)))
        return {
            "replicas": len(counted),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "updatedReplicas": len(updated),
            "updatedReadyReplicas": updated_ready,
            "updatedAvailableReplicas": updated_ready,
            "HPAReplicas": min(len(counted), self.spec["replicas"]),
        }


def _person(verb: str) -> Move:
    return lambda play, _rng: play.command(verb)


async def _off_and_on(play: Play, rng: random.Random) -> None:
    before = play.spec["replicas"]
    play.scale(0)
    await asyncio.sleep(rng.choice(PAUSES_S))
    play.scale(before or 2)


def _pinned(play: Play, rng: random.Random) -> None:
    """Another number of pods for the new revision: of a preview, or of each `setCanaryScale`; never more than the world's."""
    strategy, pods = play.spec["strategy"], rng.randint(1, max(1, play.world.pinned))
    if "blueGreen" in strategy:
        play.stage.edit({"spec": {"strategy": {"blueGreen": {"previewReplicaCount": pods}}}})
    elif play.world.pinned:
        pinned, before = {"setCanaryScale": {"replicas": pods}}, strategy["canary"]["steps"]
        steps = [pinned if "setCanaryScale" in one else one for one in before]
        play.stage.edit({"spec": {"strategy": {"canary": {"steps": steps}}}})


def _template(play: Play, rng: random.Random) -> None:
    stage = play.stage
    if "analysis" not in repr(play.spec["strategy"]):
        return
    if rng.random() < 0.5:
        stage.cluster.api.answer(Request("DELETE", ANALYSIS_TEMPLATE.path(KEY.namespace, TEMPLATE_NAME)))
    else:
        stage.cluster.apply(template())


def _route(play: Play, rng: random.Random) -> None:
    """A third backend leaves 25 parts to the two, which a half does not divide; or the user's own route again."""
    if play.world.behind is not None:
        play.stage.cluster.apply(http_route(stable=25, old=75) if rng.random() < 0.5 else http_route())


def _service(play: Play, rng: random.Random) -> None:
    services = [each for each in play.world.manifests if each["kind"] == SERVICE.kind]
    if not services:
        return
    service = rng.choice(services)
    name = service["metadata"]["name"]
    if rng.random() < 0.5:
        play.stage.cluster.api.answer(Request("DELETE", SERVICE.path(KEY.namespace, name)))
    elif play.stage.cluster.get(SERVICE, KEY.namespace, name) is None:
        play.stage.cluster.apply(service)


def _crash(play: Play, rng: random.Random) -> None:
    if pods := play.pods():
        name = rng.choice(pods)["metadata"]["name"]
        play.stage.cluster.api.answer(Request("DELETE", POD.path(KEY.namespace, name)))


MOVES: dict[str, Move] = {
    "scale": lambda play, rng: play.scale(rng.randrange(6)),
    "scale to 0": lambda play, _rng: play.scale(0),
    "scale to 0 and back": _off_and_on,
    "image": lambda play, rng: play.stage.image(rng.choice("123")),
    "other sizes for the new revision": _pinned,
    **{verb: _person(verb) for verb in ("promote", "abort", "retry", "rollback", "restart")},
    "promote again": _person("promote"),
    "paused, or not": lambda play, rng: play.stage.edit({"spec": {"paused": rng.random() < 0.4}}),
    "a template goes, or comes back": _template,
    "a Service goes, or comes back": _service,
    "a pod goes": _crash,
    "a route is refused, or mended": _route,
}


async def played_at_random(
    play: Play,
    moves: Mapping[str, Move],
    rng: random.Random,
    *,
    count: int,
    done: list[str],
    mend: Callable[[], object] = lambda: None,
) -> None:
    """So many moves; after each few all is mended, and the Rollout comes to rest.

    Args:
        done: gets the names of the moves.
        mend: mends what `mended` does not know.
    """
    with play.watched():
        for number in range(1, count + 1):
            name = rng.choice(sorted(moves))
            done.append(name)
            if (waits := moves[name](play, rng)) is not None:
                await waits
            await asyncio.sleep(rng.choice(PAUSES_S))
            if number % REST_EVERY == 0:
                mend()
                await mended(play)
                await play.stage.until_quiet()
                play.at_rest()


async def mended(play: Play) -> None:
    """Nobody holds anything, and everything that the spec names is there."""
    for each in play.world.manifests:
        if each["kind"] != ROLLOUT.kind:
            missing = play.stage.cluster.get(_KINDS[each["kind"]], KEY.namespace, each["metadata"]["name"]) is None
            if missing or each["kind"] == HTTP_ROUTE.kind:
                play.stage.cluster.apply(each)
    play.stage.edit({"spec": {"paused": False}})


_KINDS = {each.kind: each for each in (SERVICE, ANALYSIS_TEMPLATE, HTTP_ROUTE, *INGRESS_KINDS)}


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _is_ready(pod: Manifest) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
