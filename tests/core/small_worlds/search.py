"""Explores a small world: breadth first, over all orders of what may happen. So a path that it reports is a shortest one.

In each world that was not met before, the decision of a pass is held to the invariants; then every move is made. In a *fair run*
the controller acts first, then what happens by itself, then time passes. Its first move is one of those made anyway, so one walk
over all worlds shows that every fair run ends. Only the ends are judged one by one (`ends.py`).
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import pytest
from msgspec import Struct

from rollouts.core.decide import decide
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Decision, Intent
from rollouts.core.model.rollout import BlueGreen, Canary
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.snapshot import Snapshot
from tests.core.model import World, snapshot
from tests.core.refusal import RefusedError
from tests.core.small_worlds.ends import assert_is_an_end, kind_of
from tests.core.small_worlds.moves import (
    BY_THEMSELVES,
    DISTURBANCES,
    HEARD,
    LOOKED_AT,
    MEANWHILE,
    PASS,
    TIME,
    Move,
    passes,
    passes_meanwhile,
    time_passes,
)
from tests.core.small_worlds.normal_form import Key, NormalForm
from tests.invariants.every import broken_by, says_what_it_waits_for
from tests.invariants.violation import Violation, limits

Fact: TypeAlias = Callable[[World, Snapshot], list[Violation]]
"""What must be true of a world itself, which no decision is asked about: users have pods that answer.

Facts about pods are void where pods fail or where `replicas` changes: then less is there for a while, by no doing of ours.
"""


def enough_pods_are_ready(there: World, view: Snapshot) -> list[Violation]:
    """`replicas` - `maxUnavailable`: in all, or behind the active Service."""
    spec = there.rollout.spec
    _, unavailable = limits(view)
    revisions = {each.revision for each in there.pods}
    if isinstance(spec.strategy, BlueGreen):
        active = there.services[spec.strategy.active_service].revision
        revisions = {active} if active else revisions
    ready = sum(each.ready for each in there.pods if each.revision in revisions)
    if ready >= spec.replicas - unavailable:
        return []
    return [
        Violation("S3", f"{ready} ready pods of {sorted(revisions)}, {spec.replicas} - {unavailable} are to be there")
    ]


def each_share_meets_pods(there: World, view: Snapshot) -> list[Violation]:
    """What a data plane brings to a Service meets enough ready pods: of `replicas`, as many as its share, rounded up."""
    spec = there.rollout.spec
    strategy = spec.strategy
    if not isinstance(strategy, Canary) or not strategy.routers:
        return []
    _, unavailable = limits(view)
    violations = []
    for name, split in there.planes.items():
        for service, share in ((strategy.canary_service, split.share), (strategy.stable_service, 1 - split.share)):
            if not share or service is None:
                continue
            pods = _endpoints(there, service)
            needed = max(1, -(-spec.replicas * share // 1) - unavailable)
            if pods < needed:
                violations.append(
                    Violation("S1", f"{name} brings {share} to {service}, which has {pods} of {needed} pods")
                )
    return violations


def verdicts_are_of_this_update(there: World, view: Snapshot) -> list[Violation]:
    """What status has on record of an analysis is about the current revision. Whatever happens, so it is never void."""
    current = there.status.current_revision
    strange = [each.run for each in there.status.analyses if f"-{current}-" not in each.run]
    return [Violation("S7", f"{strange} are on record in the update to {current}")] if strange else []


def _endpoints(there: World, name: ServiceRef) -> int:
    """Ready pods that a Service leads to: those in its EndpointSlices, once these are watched, that are still there."""
    service = there.services[name]
    ready = Counter(each.revision for each in there.pods if each.ready)
    if not service.watched:
        return ready.total() if not service.revision else ready[service.revision]
    return sum(min(count, ready[revision]) for revision, count in service.ready_by_revision.items())


class SmallWorld(Struct, frozen=True, kw_only=True):
    """A world to begin with, and what an adversary may do in it.

    Args:
        budgets: how often each kind of disturbance may happen.
        ceiling: the most worlds that may come of it; with more, the search fails.
        facts: what must be true of each world, whatever was decided.
        punctual: time passes only when neither a pass nor a ReplicaSet's controller changes anything. For restarts: the policy
            takes for granted that these controllers have counted a minute after an eviction.
        overtaken: whatever may happen may also happen between the read of a pass and its writes.
    """

    start: Callable[[], World]
    budgets: Mapping[str, int]
    ceiling: int
    facts: tuple[Fact, ...] = ()
    punctual: bool = False
    overtaken: bool = False


class FoundError(Exception):
    """A path to a world, or to a decision, that breaks a rule."""

    def __init__(self, rule: str, message: str, path: tuple[str, ...]) -> None:
        super().__init__(f"{rule} after {len(path)} moves: {message}")
        self.rule = rule
        self.path = path


class Explored(Struct, frozen=True, kw_only=True):
    """What came of a small world.

    Args:
        depth: the most moves on a shortest path.
        fair_steps: the most moves of a fair run.
        ends: how many worlds there are in which fair runs end, by what the Rollout says there.
    """

    states: int
    transitions: int
    depth: int
    fair_steps: int
    ends: Mapping[str, int]


def explored(small: SmallWorld) -> Explored:
    """Everything that can come of a small world. Raises: FoundError, with a shortest path; AssertionError above its ceiling."""
    return _Search(small).done()


def told(name: str, found: Explored) -> str:
    """One line about a small world."""
    ends = ", ".join(f"{count} {kind}" for kind, count in sorted(found.ends.items()))
    return (
        f"{name}: {found.states} worlds, {found.transitions} transitions, at most {found.depth} moves away, "
        f"fair runs of at most {found.fair_steps} moves; ends: {ends}"
    )


class _Search:
    def __init__(self, small: SmallWorld) -> None:
        self.small = small
        self.form = NormalForm()
        self.kinds = tuple(small.budgets)
        self.numbers: dict[tuple[Key, tuple[int, ...]], int] = {}
        self.waiting: deque[tuple[World, tuple[int, ...]]] = deque()
        self.names: dict[str, int] = {}
        self.parents, self.by, self.fair = array("l"), array("l"), array("l")
        self.transitions = 0

    def done(self) -> Explored:
        start = self.small.start()
        self._met(self.form.key(start), tuple(self.small.budgets.values()), parent=-1, by="")
        depth, last_of_level, number = 0, 0, 0
        while self.waiting:
            there, left = self.waiting.popleft()
            self._expanded(number, there, left)
            if number == last_of_level and self.waiting:
                depth, last_of_level = depth + 1, len(self.parents) - 1
            number += 1
        ends, fair_steps = self._ends()
        kinds: Counter[str] = Counter()
        for each in ends:
            there = self._world(each)
            try:
                assert_is_an_end(there)
            except (AssertionError, pytest.fail.Exception) as wrong:
                raise FoundError("not at rest", str(wrong), self._path(each)) from wrong
            kinds[kind_of(there)] += 1
        return Explored(
            states=len(self.parents), transitions=self.transitions, depth=depth, fair_steps=fair_steps, ends=kinds
        )

    def _expanded(self, number: int, there: World, left: tuple[int, ...]) -> None:
        """Makes every move that is possible in a world."""
        view = snapshot(there)
        decision = decide(view)
        self._assert_none(number, broken_in(self.small, there, view=view, decision=decision))
        fair = -1
        acts = False
        for name, after in self._by_itself(number, there, view, decision):
            if name == TIME and acts and self.small.punctual:
                continue
            found = self._met(self.form.key(after), left, parent=number, by=name)
            if fair == -1 and found != number:
                fair, acts = found, name in (PASS, HEARD, LOOKED_AT)
            if name == PASS and found == number and not _writes(decision):
                said = says_what_it_waits_for(replace(view, status=decision.status), decision)
                self._assert_none(number, said)
        self.fair.append(fair if fair != -1 else number)
        if self.small.overtaken:
            self._overtaken(number, there, view, decision, left=left, moves=BY_THEMSELVES)
        for index, kind in enumerate(self.kinds):
            if left[index]:
                less = (*left[:index], left[index] - 1, *left[index + 1 :])
                for move in DISTURBANCES[kind]:
                    if move.enabled(there):
                        self._met(self.form.key(move.apply(there)), less, parent=number, by=move.name)
                if self.small.overtaken:
                    self._overtaken(number, there, view, decision, left=less, moves=DISTURBANCES[kind])

    def _overtaken(
        self,
        number: int,
        there: World,
        view: Snapshot,
        decision: Decision,
        *,
        left: tuple[int, ...],
        moves: tuple[Move, ...],
    ) -> None:
        for move, after in passes_meanwhile(there, view, decision, moves):
            self._met(self.form.key(after), left, parent=number, by=f"{MEANWHILE}{move.name}")

    def _by_itself(self, number: int, there: World, view: Snapshot, decision: Decision) -> Iterator[tuple[str, World]]:
        """What happens without an adversary, as a fair run would have it: full passes first, time last."""
        try:
            after_pass = list(passes(there, view, decision))
        except RefusedError as refused:
            raise FoundError("refused", str(refused), self._path(number)) from refused
        yield after_pass[0]
        for move in BY_THEMSELVES:
            if move.enabled(there) and (after := move.apply(there)) is not there:
                yield move.name, after
        if (after := time_passes(there, decision.requeue_at_s)) is not there:
            yield TIME, after
        yield from after_pass[1:]

    def _assert_none(self, number: int, broken: list[Violation]) -> None:
        if broken:
            raise FoundError(broken[0].rule, broken[0].message, self._path(number))

    def _met(self, key: Key, left: tuple[int, ...], *, parent: int, by: str) -> int:
        """The number of a world, which is put on the list if it is new."""
        self.transitions += parent >= 0
        state = (key, left)
        number = self.numbers.get(state)
        if number is None:
            number = self.numbers[state] = len(self.parents)
            ceiling = self.small.ceiling
            assert number < ceiling, f"more than {ceiling} worlds; what is new in the normal form?"
            self.parents.append(parent)
            self.by.append(self.names.setdefault(by, len(self.names)))
            self.waiting.append((self.form.world(key), left))
        return number

    def _path(self, number: int) -> tuple[str, ...]:
        names = list(self.names)
        path = []
        while self.parents[number] >= 0:
            path.append(names[self.by[number]])
            number = self.parents[number]
        return tuple(reversed(path))

    def _world(self, number: int) -> World:
        key, _ = next(state for state, found in self.numbers.items() if found == number)
        return self.form.world(key)

    def _ends(self) -> tuple[list[int], int]:
        """Where fair runs end, and the length of the longest. Raises: FoundError for one that goes in a circle."""
        steps = array("l", [-1]) * len(self.fair)  # to the end
        ends = []
        for number in range(len(self.fair)):
            run = []
            on_run = set()
            here = number
            while steps[here] == -1 and here not in on_run:
                run.append(here)
                on_run.add(here)
                if self.fair[here] == here:
                    break
                here = self.fair[here]
            if self.fair[here] == here and steps[here] == -1:
                ends.append(here)
                steps[here] = 0
                run.pop()
            elif steps[here] == -1:
                circle = run[run.index(here) :]
                raise FoundError("no end", f"a fair run comes back after {len(circle)} moves", self._path(min(circle)))
            length = steps[here]
            for each in reversed(run):
                length += 1
                steps[each] = length
        return sorted(ends), max(steps)


def broken_in(
    small: SmallWorld, there: World, *, view: Snapshot | None = None, decision: Decision | None = None
) -> list[Violation]:
    """Every rule that the next decision in a world, or the world itself, breaks."""
    view = snapshot(there) if view is None else view
    decision = decide(view) if decision is None else decision
    broken = broken_by(view, decision)
    if (true_view := without_deleted_pods(there, view)) is not view:
        broken += broken_by(true_view, decision)
    return broken + [each for fact in small.facts for each in fact(there, view)]


def _writes(decision: Decision) -> list[Intent]:
    return [each for each in decision.intents if not type(each).__name__.startswith("Ask")]


def without_deleted_pods(there: World, seen: Snapshot) -> Snapshot:
    """The view in which no ReplicaSet counts pods as available that no longer exist.

    A pod that has failed counts until its ReplicaSet has reported it: no pass can know of that sooner.
    """
    exist: dict[str, int] = {}
    for pod in there.pods:
        if pod.uid in there.ready_since:
            exist[pod.revision] = exist.get(pod.revision, 0) + 1
    if all(each.available <= exist.get(each.revision, 0) for each in seen.replica_sets):
        return seen
    sets = tuple(
        [replace(each, available=min(each.available, exist.get(each.revision, 0))) for each in seen.replica_sets]
    )
    return replace(seen, replica_sets=sets)
