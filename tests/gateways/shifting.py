"""A Rollout whose requests a gateway moves, under load: what it was told, and what its clients got."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import httpx

from tests.e2e.stage import Stage, slices_of
from tests.gateways.asking import Answer, asking
from tests.gateways.report import Case, Share, spread
from tests.gateways.routes import CANARY, STABLE, Manifest, Route
from tests.lab.chart import CONTROLLER_USER
from tests.node.moves import DONE_WITHIN_S
from tests.node.real_node import RealNode
from tests.node.traffic import ERROR, Outcome, traffic
from tests.node.workload import NAME, canary, new_version, service

RATE = 400  # requests a second
APP_PORT = 8080

WRITE_TAKES_S = 0.2  # a write is in force before it is answered
HELD = "8s"  # how long a weight is held: some 2,400 requests in whole seconds

BY_HEADER, MIRRORED = "by-header", "mirrored"
HEADER = {"X-Canary": "always"}

WEIGHTS = (1, 5, 25, 50, 100)
_MATCH = [{"headerName": "X-Canary", "headerValue": {"exact": "always"}}]
_HEADER_ON = {"setHeaderRoute": {"name": BY_HEADER, "match": _MATCH}}
_MIRROR_ON = {"setMirrorRoute": {"name": MIRRORED, "match": [{"path": {"prefix": "/"}}]}}
_OFF = {"header": {"setHeaderRoute": {"name": BY_HEADER}}, "mirror": {"setMirrorRoute": {"name": MIRRORED}}}
_ON = {"header": _HEADER_ON, "mirror": _MIRROR_ON}


@dataclass(frozen=True)
class Moment:
    """A Rollout as it was seen at a time, seconds since 1970."""

    at: float
    rollout: Manifest

    @property
    def traffic(self) -> Manifest:
        found: Manifest = self.rollout.get("status", {}).get("traffic") or {}
        return found

    @property
    def live_weight(self) -> float | None:
        """What is both wanted and confirmed; None while the one is not yet the other."""
        desired, observed = self.traffic.get("desired"), self.traffic.get("observed")
        return float(desired["weight"]) if desired and desired == observed else None

    @property
    def wanted_routes(self) -> frozenset[str]:
        return frozenset((self.traffic.get("desired") or {}).get("routes", ()))

    @property
    def live_routes(self) -> frozenset[str]:
        """Managed routes that are both wanted and confirmed."""
        return self.wanted_routes & frozenset((self.traffic.get("observed") or {}).get("routes", ()))


@dataclass(repr=False)  # a failed test would print every request of it
class Shifting:
    """One Rollout with its route on the node, and everything that was seen of it."""

    node: RealNode
    stage: Stage
    route: Route
    moments: list[Moment] = field(default_factory=list)  # every state of the Rollout from the update on
    by_header: Sequence[Answer] = ()  # the answers to clients that send HEADER
    _outcome: Outcome | None = None
    _hits: list[tuple[float, int]] = field(default_factory=list)
    _writes: list[float] = field(default_factory=list)

    def set_up(self, steps: Sequence[Manifest]) -> None:
        """Applies the user's objects, and waits until version 1 is served."""
        managed = [{"name": BY_HEADER}, {"name": MIRRORED}]
        rollout = canary(
            "dies",
            "auto",
            steps=steps,
            stableService=STABLE,
            canaryService=CANARY,
            # The pods go as soon as the drain lets them: half a minute more would hide what it forgets.
            scaleDownDelaySeconds=0,
            abortScaleDownDelaySeconds=1,  # 0 keeps them
            trafficRouting={**self.route.router, "managedRoutes": managed},
        )
        self.stage.apply(*self.route.manifests(), service(STABLE), service(CANARY), rollout)
        self.stage.until_phase(NAME, "Healthy", within_s=DONE_WITHIN_S)

    def update(self, seen: Callable[[Moment], bool], *, version: Manifest | None = None) -> None:
        """A new version (2), under load until `seen` is true of the Rollout, which it is shown after every change."""
        mark = self.node.plane.audit_mark()
        load = traffic(self.node, self.route.url, rate=RATE, connections="kept", name=f"load-{self.stage.namespace}")
        with load as running, asking(self.route.url, headers=HEADER) as marked:
            self.stage.patch(NAME, version or new_version("2"))
            for moment in self._changes():
                self.moments.append(moment)
                self._count_copies(moment)
                if seen(moment):
                    break
            else:
                raise AssertionError(f"not within {DONE_WITHIN_S} s: {self.moments[-1].rollout.get('status')}")
            try:
                stable = str(moment.rollout["status"]["stableRevision"])
                self.stage.until_pods(NAME, {stable: moment.rollout["spec"]["replicas"]}, within_s=120)
            except AssertionError as exc:  # the numbers of the drain say how long pods may take
                drain = self.stage.get("rollouts", NAME)["status"].get("drain")
                raise AssertionError(f"{exc}; drain: {drain}") from exc
            after = time.time()
            marked.until(lambda all_: sum(one.sent_at > after for one in all_) > 20, within_s=30)
        self.by_header = marked.answers
        self._outcome = running.outcome
        self._writes = self._written(mark)

    @property
    def outcome(self) -> Outcome:
        """What became of the others' requests."""
        assert self._outcome is not None
        return self._outcome

    @property
    def failed(self) -> int:
        """Requests of all clients that were not answered with 2xx, but for errors that the app itself answered with."""
        return sum(self.outcome.lost.values()) + sum(_is_lost(one) for one in self.by_header)

    @property
    def lost(self) -> list[str]:
        """What became of requests that failed, and what status said last before."""
        found = [str(each) for each in self.outcome.failures or () if each["kind"] != ERROR]
        for one in self.by_header:
            if _is_lost(one):
                before = [moment for moment in self.moments if moment.at <= one.answered_at] or self.moments[:1]
                since_s = one.answered_at - before[-1].at
                found.append(f"{one.status} with the header, {since_s:.3f} s after {before[-1].traffic}")
        return found

    def live_time(self, name: str) -> tuple[float, float]:
        """From when until when a managed route was live: until the write that ended it, of which status tells a little later."""
        begin = self.first(lambda one: name in one.live_routes).at
        told = self.first(lambda one: one.at > begin and name not in one.wanted_routes).at
        return begin, max(one for one in self._writes if one < told) - WRITE_TAKES_S

    @property
    def mirrored_share(self) -> float:
        """Answers that the canary's pods gave, for each request that the clients sent while the mirror was surely live.

        Status tells of its end some time after the write that ended it, and the test reads status later still.
        """
        (begin, before), (_, after) = self._hits
        _, end = self.live_time(MIRRORED)
        return (after - before) / (RATE * (end - begin))

    def shares(self) -> list[Share]:
        """For each weight that was held, in order: how the requests that were due meanwhile were answered."""
        return [self._share(weight, begin, end) for weight, begin, end in self._held()]

    def answers_after(self, moment: float, version: str) -> int:
        """How many requests that were due in the seconds after this one began were answered by a version."""
        later = [one for one in self.outcome.seconds if one["at"] >= math.ceil(moment)]
        marked = sum(one.version == version for one in self.by_header if one.sent_at >= moment)
        return sum(int(one["versions"].get(version, 0)) for one in later) + marked

    def first(self, holds: Callable[[Moment], bool]) -> Moment:
        return next(one for one in self.moments if holds(one))

    def case(self, name: str) -> Case:
        held = [share for share in self.shares() if share.answers]  # some are live for less than one whole second
        shares = {f"{share.percent:g}": round(100 * share.canary / share.answers, 2) for share in held}
        return Case(
            case=name,
            gateway=self.route.gateway.name,
            route=self.route.kind,
            sent=self.outcome.sent + len(self.by_header),
            failed=self.failed,
            shares=shares,
            lag_ms=spread(self.lags_ms) if self.lags_ms else {},
        )

    def _count_copies(self, moment: Moment) -> None:
        """Reads the pods' counters when the mirror has become live, and when it is no longer wanted."""
        live = MIRRORED in (moment.wanted_routes if self._hits else moment.live_routes)
        if len(self._hits) == (0 if live else 1):
            answered = self._answered_by_canary()
            self._hits.append((time.time(), answered))

    def _answered_by_canary(self) -> int:
        """Asked of the pods: a proxy counts from 0 again when it names a cluster anew."""
        slices = self.stage.all("endpointslices", slices_of(CANARY))
        addresses = {address for one in slices for each in one["endpoints"] or [] for address in each["addresses"]}
        answers = [httpx.get(f"http://{each}:{APP_PORT}/answered", trust_env=False) for each in addresses]
        return sum(int(each.raise_for_status().text) for each in answers)

    def _changes(self) -> Iterator[Moment]:
        path = f"/apis/rollouts.dev/v1alpha1/namespaces/{self.stage.namespace}/rollouts"
        with self.node.plane.watch(path, timeout_s=DONE_WITHIN_S, fieldSelector=f"metadata.name={NAME}") as events:
            for event in events:
                yield Moment(time.time(), event["object"])

    def _held(self) -> Iterator[tuple[float, float, float]]:
        """Each weight with the time from which it was live and the time at which another one was wanted."""
        live: tuple[float, float] | None = None
        for moment in self.moments:
            desired = (moment.traffic.get("desired") or {}).get("weight")
            if live and desired != live[0]:
                yield (*live, moment.at)
                live = None
            if live is None and moment.live_weight is not None:
                live = (moment.live_weight, moment.at)

    def _share(self, weight: float, begin: float, end: float) -> Share:
        whole = [one for one in self.outcome.seconds if math.ceil(begin) <= one["at"] and one["at"] + 1 <= end]
        counts = [sum(one["versions"].get(version, 0) for one in whole) for version in ("1", "2")]
        return Share(weight, sum(counts), counts[1])

    def _written(self, mark: int) -> list[float]:
        """When each of the controller's writes to the route was answered."""
        return [
            datetime.fromisoformat(event["stageTimestamp"]).timestamp()
            for event in self.node.plane.audit_events(since=mark, user=CONTROLLER_USER)
            if event["verb"] in ("patch", "update", "create")
            and event["objectRef"]["resource"] == self.route.resource
            and event["objectRef"]["namespace"] == self.stage.namespace
            and event["responseStatus"]["code"] < 300
        ]

    @property
    def lags_ms(self) -> list[float]:
        """In ms: from each of the controller's writes to the route until status said that it is live."""
        confirmed = [one.at for one in self.moments if one.live_weight is not None]
        after = [min((at for at in confirmed if at > written), default=None) for written in self._writes]
        return [(at - written) * 1000 for written, at in zip(self._writes, after, strict=True) if at is not None]


def whole_canary(features: frozenset[str]) -> list[Manifest]:
    """All weights, and while the first is held each kind of managed route that there can be, one after the other."""
    steps: list[Manifest] = [{"setWeight": WEIGHTS[0]}, {"pause": {"duration": HELD}}]
    for each in ("header", "mirror"):
        if each in features:
            steps += [_ON[each], {"pause": {"duration": "3s"}}, _OFF[each]]
    for weight in WEIGHTS[1:]:
        steps += [{"setWeight": weight}, {"pause": {"duration": HELD}}]
    return steps


def until_a_person_decides(features: frozenset[str]) -> list[Manifest]:
    """Half of the requests and every kind of managed route: the most that an abort has to take back."""
    on = [_ON[each] for each in ("header", "mirror") if each in features]
    return [{"setWeight": 50}, *on, {"pause": {"duration": HELD}}, {"pause": {}}]


def finished(moment: Moment, phase: str) -> bool:
    """The update has ended in this phase, and that the canary Service gets nothing is live."""
    status = moment.rollout["status"]
    return (
        status["phase"] == phase
        and status["observedGeneration"] == moment.rollout["metadata"]["generation"]
        and moment.live_weight == 0
    )


def _is_lost(answer: Answer) -> bool:
    return not 200 <= answer.status < 300 and not answer.version
