"""Sees every request of the controllers at the API server's door and holds each write to the invariants, on the true state.

The rules of `tests/invariants` look at a world and one intent. Here the world is what the API server has at the moment
of the write, not what the controller believed, and the intent is read back from the request that arrived. What cannot be told
from one write and the truth is left to the tests of the core: whether one-way decisions are written alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from rollouts.core.model.config import SourceAbsent, SourceKnown
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Intent, ReleaseRoute, ReleaseService, ReleaseWorkload
from rollouts.core.model.revision import canonical_json, short_hash
from rollouts.core.model.rollout import Canary, Strategy
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import RolloutStatus, Verb
from rollouts.core.model.steps import SetWeight, WeightPercent
from rollouts.objects import ANALYSIS_RUN, ROLLOUT, SERVICE, TRAFFIC_PROVIDER, Key
from rollouts.ports import Request, Response, WatchStream
from rollouts.sim.apiserver.server import RequestTarget
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.faults import WRITES, is_rollout_write
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from rollouts.sim.storage.refusals import NoSuchPath
from tests.behaviour.departures import Departures
from tests.behaviour.in_place_truth import FieldsLetGo
from tests.behaviour.in_place_witness import InPlaceWitness
from tests.behaviour.meanings import ExperimentWrite, Meaning, Meanings, RunStatusWrite, StatusWrite
from tests.behaviour.reading import ALLOW_FROM, MANAGED_BY
from tests.behaviour.truth import Truth
from tests.invariants.every import broken_by_status, broken_by_write
from tests.invariants.violation import Violation, in_their_roles


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request that reached the API server.

    Args:
        at_s: loop time.
        sender: the process that sent it.
        what: verb, plural and subresource, as in `PATCH rollouts/status`; watches are `WATCH`.
        status: of the answer.
    """

    at_s: float
    sender: str
    what: str
    status: int

    @property
    def is_rollout_write(self) -> bool:
        """A write other than a Lease's or an Event's, whatever the answer."""
        method, _, rest = self.what.partition(" ")
        return method in WRITES and rest not in ("leases", "events")


class Witness:
    """What all doors of one cluster have seen. The rules are those of one Rollout, `key`.

    Args:
        grace_s: how long after an edit or a deletion by somebody else a pass may still act on what was before.
    """

    def __init__(self, cluster: SimulatedCluster, key: Key, *, grace_s: float) -> None:
        self.cluster = cluster
        self.key = key
        self.grace_s = grace_s
        self.truth = Truth(cluster, by_us=lambda: bool(self.sender))
        self.meanings = Meanings(cluster, self.truth)
        self._departures = Departures(cluster, self.truth, key)
        self.in_place = InPlaceWitness(cluster, self.truth, key, weights=self._weights, tell=self.tell)
        self.arrivals: list[Arrival] = []
        self.violations: list[str] = []
        self.sender = ""
        """The controller whose request is being carried out; "" when what changes is somebody else's doing."""
        self.seamless: set[int] = set()
        """Numbers of the writes, as a `FaultTape` counts them, before which nothing has happened since the write before."""
        self._writes = 0
        self._under_way = 0
        self._left: tuple[float, int, int] | None = None
        self._digest = hashlib.sha256()

    def door(self, sender: str) -> Door:
        """The API server for one process."""
        return Door(self, sender)

    def effects(self) -> Counter[str]:
        """Writes that took effect, by verb and kind; without the Lease's."""
        return Counter(
            each.what
            for each in self.arrivals
            if each.status < 300 and (each.is_rollout_write or each.what == "POST events")
        )

    @contextmanager
    def numbered(self) -> Iterator[None]:
        """Around a write that a `FaultTape` counts: tells whether it is seamless."""
        if self._left is not None and self._left == self._moment():
            self.seamless.add(self._writes)
        number, self._left = self._writes, None
        self._writes += 1
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
        if not self._under_way and number == self._writes - 1:
            self._left = self._moment()

    def _moment(self) -> tuple[float, int, int]:
        """Changes with everything that happens: the time, the changes of objects, and the requests so far."""
        return asyncio.get_running_loop().time(), self.cluster.api.history.version, len(self.arrivals)

    def last_write_s(self) -> float:
        """Loop time of the last write to anything but Leases and Events, refused or not; 0 for none."""
        return next((each.at_s for each in reversed(self.arrivals) if each.is_rollout_write), 0.0)

    def digest(self) -> str:
        """SHA-256 over the time, sender, content and answer of every request so far."""
        return self._digest.hexdigest()

    def note(self, sender: str, what: str, status: int, *content: bytes) -> None:
        arrival = Arrival(asyncio.get_running_loop().time(), sender, what, status)
        self.arrivals.append(arrival)
        self._digest.update(repr(arrival).encode())
        for part in content:
            self._digest.update(part)

    def judge_place(self, request: Request) -> None:
        """Holds one write to the rule about namespaces; before it takes effect.

        A write outside the namespace of `key` is for a Rollout that lives there, or lived there by the object's own mark; or for
        `key` itself, whose spec or record names the object, and whose namespace the object's owner allows. Writes within the
        namespace are held to what `key` may do, by `judge`.
        """
        target = self.cluster.api.target(request.path)
        if target is None or not target.home or target.home == self.key.namespace:
            return
        if (target.resource.kind, target.part) == (ANALYSIS_RUN, "status"):  # a run may be anybody's
            return
        stored = self.cluster.api.history.get(target.resource.kind, target.home, target.name or "")
        rollout = self.cluster.get(ROLLOUT, self.key.namespace, self.key.name) or {}
        said = [rollout.get("spec", {}).get("strategy"), *(rollout.get("status") or {}).get("routesElsewhere", ())]
        named = any(_mentions(each, {target.name or "", target.home}) for each in said)
        annotations = (stored.metadata.get("annotations") or {}) if stored is not None else {}
        allowed = self.key.namespace in annotations.get(ALLOW_FROM, "").replace(" ", "").split(",")
        marked = annotations.get(MANAGED_BY, "/")
        theirs = bool(self.cluster.list(ROLLOUT, target.home)) or "/" not in marked
        if not theirs and not (named and allowed):
            self.tell([Violation("S28", f"a write to another namespace that nobody there asked for: {request.path}")])

    def judge(self, seen: list[Snapshot], meaning: Meaning | None) -> None:
        """Holds one write that took effect to every rule that can be told from it.

        Args:
            seen: the world just before, with the spec that there was and those that a pass under way may have seen.
        """
        if isinstance(meaning, RunStatusWrite):  # a run may be anybody's
            again = f"AnalysisRun {meaning.name} had a verdict, and its status is written again"
            self.tell([Violation("S7", again)] if meaning.was_over else [])
            return
        if isinstance(meaning, ExperimentWrite):
            self.tell(self._broken_by_experiment(meaning))
            return
        if not seen and not isinstance(meaning, ReleaseService | ReleaseRoute | ReleaseWorkload | StatusWrite):
            gone_for_s = asyncio.get_running_loop().time() - self.truth.deleted_at_s
            if gone_for_s > self.grace_s:
                self.tell([Violation("S13", f"for a Rollout that is gone or cannot be read: {meaning}")])
        broken: list[Violation] = []
        for each in seen:
            if not (found := self._broken_by(each, meaning)):
                return
            broken = broken or found
        self.tell(broken)

    def _broken_by_experiment(self, meaning: ExperimentWrite) -> list[Violation]:
        """S24: pods and Services of an Experiment leave once no route names one of the Services."""
        if not meaning.leaves:
            return []
        services = {
            each["metadata"]["name"]
            for each in self.cluster.list(SERVICE, self.key.namespace)
            if any(owner["name"] == meaning.experiment for owner in each["metadata"].get("ownerReferences") or ())
        }
        routes = [each["spec"] for each in self.cluster.list(HTTP_ROUTE, self.key.namespace)]
        named = [each for each in services if any(_mentions(route, {each}) for route in routes)]
        why = f"pods or a Service of Experiment {meaning.experiment} leave, and a route names {', '.join(named)}"
        return [Violation("S24", why)] if named else []

    def _weights(self) -> dict[str, WeightPercent]:
        """The largest weight that a pass may record now, by the revision that it is for."""
        seen, weights = self.truth.snapshot(self.key), dict[str, WeightPercent]()
        for each in may_record(seen) if seen is not None else ():
            if each.abort is None:
                weights[each.current_revision] = max(weights.get(each.current_revision, 0), each.weight_percent or 0)
        return weights

    def _broken_by(self, before: Snapshot, meaning: Intent | StatusWrite | FieldsLetGo | None) -> list[Violation]:
        match meaning:
            case None:
                return [Violation("S13", "a write that no pass makes")]
            case FieldsLetGo():
                return []
            case StatusWrite():
                after = self.truth.status(self.key)
                return [*broken_by_status(before, after), *self.in_place.broken_by_status(before.status, after)]
            case intent:
                world = in_their_roles(before)
                found = [broken_by_write(world, intent, status) for status in may_record(before)]
                return [*min(found, key=len), *self._departures.broken_by(world, intent)]

    def tell(self, violations: Iterable[Violation]) -> None:
        """Notes what is broken, and when."""
        at_s = asyncio.get_running_loop().time()
        self.violations += [f"{at_s:.3f} s: {each.rule}: {each.message}" for each in violations]


def may_record(before: Snapshot) -> list[RolloutStatus]:
    """What a pass may record after its writes: the status that stands, with the weight of its step, or that of a new update.

    What else it records stands before its writes, or is written alone.
    """
    status, spec = before.status, before.rollout.spec
    back = [each.target for each in status.commands if each.verb is Verb.ROLLBACK and each.holds]
    begins = [each for each in (_revision_of_now(before), *back) if each != status.current_revision]
    if not begins and status.strategy_hash != spec.strategy_hash:
        begins = [status.current_revision]
    begun = replace(status, strategy_hash=spec.strategy_hash, step_index=0, abort=None)
    weights = {_weight(begun, spec.strategy)} | ({100} if spec.rollback_window_revisions is not None else set())
    return [
        status,
        replace(status, weight_percent=_weight(status, spec.strategy)),
        *(replace(begun, current_revision=each, weight_percent=weight) for each in begins for weight in weights),
    ]


def _weight(status: RolloutStatus, strategy: Strategy) -> WeightPercent:
    """The weight of the step on record; all of it after the last one, and for who promoted the revision past everything."""
    full = any(each.promotes(status) and each.passes is None for each in status.commands)
    if not isinstance(strategy, Canary) or full or status.step_index >= len(strategy.steps):
        return 100
    so_far = strategy.steps[: status.step_index + 1]
    return ([0] + [each.weight_percent for each in so_far if isinstance(each, SetWeight)])[-1]


def _revision_of_now(before: Snapshot) -> str:
    """The revision of the template with what its sources contain."""
    spec, uses = before.rollout.spec, []
    for ref in spec.config_refs:
        match before.sources.get((ref.kind, ref.name)):
            case SourceKnown(content=content):
                uses.append([ref.kind.value, ref.name, content])
            case SourceAbsent():
                uses.append([ref.kind.value, ref.name, ""])
    named = canonical_json({"template": spec.template_hash, "config": sorted(uses)})
    return short_hash(named) if uses else spec.template_hash


def _mentions(value: Any, texts: set[str]) -> bool:
    """Whether every text stands somewhere in a JSON value."""
    found = json.dumps(value)
    return all(f'"{each}"' in found for each in texts)


class Door:
    """An `ApiServer` for one process; what goes through it is noted and judged."""

    def __init__(self, witness: Witness, sender: str) -> None:
        self._witness = witness
        self._server = witness.cluster.api
        self._sender = sender

    async def request(self, request: Request, *, deadline_s: float) -> Response:  # noqa: ARG002 - it answers at once
        """Carries a request out, with a look at the truth just before and just after."""
        with self._witness.numbered() if is_rollout_write(request) else nullcontext():
            return await self._carry_out(request)

    async def _carry_out(self, request: Request) -> Response:
        await asyncio.sleep(0)
        witness, write = self._witness, is_rollout_write(request) and f"/{TRAFFIC_PROVIDER.plural}/" not in request.path
        if write and "dryRun" not in request.query:
            witness.judge_place(request)
        target = self._target(request)
        write = write and (target is None or target.home in ("", witness.key.namespace))
        meaning = witness.meanings.of(request, witness.key) if write else None
        judged = write and not isinstance(meaning, RunStatusWrite | ExperimentWrite)
        seen = witness.truth.snapshots(witness.key, grace_s=witness.grace_s) if judged else []
        broken, version = witness.in_place.broken_by(meaning) if judged else [], witness.in_place.version
        witness.sender = self._sender
        response = self._server.answer(request)
        witness.sender = ""
        witness.note(self._sender, self._what(request), response.status, _content(request), response.body)
        if write and response.status < 300:
            witness.judge(seen, meaning)
            witness.tell([*broken, *witness.in_place.needless(meaning, version)])
        await asyncio.sleep(0)
        return response

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        self._witness.note(self._sender, f"WATCH {request.path}", 200, _content(request))
        return await self._server.open_watch(request, deadline_s=deadline_s, silence_s=silence_s)

    async def aclose(self) -> None:
        """Leaves the server open: it belongs to the cluster."""

    def _target(self, request: Request) -> RequestTarget | None:
        """What the request is about; None for what another server answers, or nobody."""
        try:
            return self._server.target(request.path)
        except NoSuchPath:
            return None

    def _what(self, request: Request) -> str:
        target = self._target(request)
        if target is None:
            return f"{request.method} {request.path}"
        part = f"/{target.part}" if target.part else ""
        if "dryRun" in request.query:
            return f"TRY {target.resource.kind.plural}{part}"
        return f"{request.method} {target.resource.kind.plural}{part}"


def _content(request: Request) -> bytes:
    """All of a request but its fence, whose text has an address in it and so differs from run to run."""
    parts = (request.method, request.path, request.query, request.body, request.content_type, request.accept)
    return repr(parts).encode()
