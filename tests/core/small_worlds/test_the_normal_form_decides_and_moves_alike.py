"""Promise: a world and its normal form decide alike, and what happens to them leaves them alike; so the search loses nothing.

Random walks go through worlds as they are: nothing is normalized on the way, and time passes by fractions, too.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec
import pytest

from rollouts.core.decide import decide
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import CreateAnalysisRun, Decision, EvictPod, PatchReplicaSet, TerminateAnalysisRun
from rollouts.core.model.status import RolloutStatus
from tests.core.model import T0, World, snapshot
from tests.core.small_worlds import normal_status
from tests.core.small_worlds.moves import BY_THEMSELVES, DISTURBANCES, PASS, TICK_S, Move, passes, time_passes
from tests.core.small_worlds.normal_form import (
    OF_ITS_OWN,
    PARTS,
    REST_NOT_HERE,
    WORLD_DROPPED,
    NormalForm,
    as_if_asked_now,
)
from tests.core.small_worlds.normal_status import (
    STATUS_COUNTS,
    STATUS_DROPPED,
    STATUS_KEPT,
    STATUS_NOT_HERE,
    STATUS_SHAPED,
    STATUS_WITH_RUNS,
)
from tests.core.small_worlds.world_list import ALL, DEEP, PLAYED
from tests.core.worlds import later

STEPS = 5_000 if DEEP else 250
WALK = 60  # moves; then it begins again
FAR = 10**6
"""Where versions begin in worlds as they are: the names of pods sort by age as long as their numbers have the same digits."""

SECONDS = (TICK_S, 0.25, 0.25 + TICK_S, 1.5, 4 + 7 * TICK_S, 5.0, 9.75, 13.0, 30.0, 700.0)


def test_every_field_of_a_world_has_a_line() -> None:
    """A new field changes what a world is: somebody has to say what the normal form does with it."""
    of_parts = [name for fields, _ in PARTS.values() for name in fields]

    said = [*of_parts, *REST_NOT_HERE, *WORLD_DROPPED, *OF_ITS_OWN]

    assert sorted(said) == sorted(World.__struct_fields__)


def test_every_field_of_status_has_a_line() -> None:
    """Status is the only memory: a field that is dropped may be a decision that is lost."""
    said = [*STATUS_KEPT, *STATUS_DROPPED, *STATUS_COUNTS, *STATUS_NOT_HERE, *STATUS_SHAPED, *STATUS_WITH_RUNS]

    assert sorted(said) == sorted(RolloutStatus.__struct_fields__)


@pytest.mark.parametrize("name", PLAYED)
def test_a_world_and_its_normal_form_decide_and_move_alike(name: str) -> None:
    """The writes, which of them is first, and what status remembers; then the world after each move."""
    assert unlike(name, steps=STEPS) is None


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "field", "instead"),
    [
        ("blue-green 1, an edit", "gate_started_at_s", None),
        ("route 1, an edit", "step_started_at_s", None),
        ("route 1, an edit", "step_started_at_s", T0),  # an age: capped at 0, a pause would never be over, or always
        ("ratio 2, a command", "commands", ()),
        ("ratio 2, a command", "abort", None),
        ("blue-green 1, an edit", "scale_downs", ()),
        ("route 1, an edit", "traffic", None),
    ],
)
def test_a_field_that_is_dropped_by_mistake_is_found(
    name: str, field: str, instead: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise these walks would say nothing."""
    shaped = {**STATUS_SHAPED, field: lambda value, _: None if value is None else instead}
    monkeypatch.setattr(normal_status, "STATUS_SHAPED", shaped)

    assert unlike(name, steps=3_000) is not None


def unlike(name: str, *, steps: int) -> str | None:
    """What a world and its normal form do otherwise, on random walks of so many moves in all; None when nothing is."""
    random = Random(name)  # noqa: S311
    form = NormalForm()
    there = start = replace(ALL[name].start(), version=FAR)
    for step in range(steps):
        if step % WALK == 0:
            there = start
        moves = list(_moves(there, random))
        chosen, move = moves[random.randrange(len(moves))]
        if (found := _compared(form, there, chosen, move)) is not None:
            return f"step {step}: {found}"
        there = later(move(there), TICK_S)  # no two ReplicaSets are made at one moment
    return None


def _compared(form: NormalForm, there: World, chosen: str, move: Callable[[World], World]) -> str | None:
    normal, as_it_is = form.of(there), as_if_asked_now(there)
    if form.key(normal) != form.key(there):
        return "the normal form of a normal form is another"
    said, said_of_normal = _said(form, as_it_is), _said(form, normal)
    if said != said_of_normal:
        return f"decisions differ: {said} and {said_of_normal}"
    for what, act in ((chosen, move), (PASS, _full_pass)):
        if form.key(act(normal)) != form.key(act(as_it_is)):
            return f"{what} leads elsewhere: {act(normal)} and {act(as_it_is)}"
    return None


def _said(form: NormalForm, there: World) -> tuple[object, ...]:
    """What is decided, without questions, versions and texts."""
    decision = decide(snapshot(there))
    writes = [_bare(each) for each in decision.intents if not type(each).__name__.startswith("Ask")]
    remembered = form.of(replace(there, status=decision.status)).status
    return writes, decision.status_first, remembered


def _bare(intent: msgspec.Struct) -> msgspec.Struct:
    changes: dict[str, object] = {name: "" for name in ("uid", "resource_version") if name in intent.__struct_fields__}
    if isinstance(intent, EvictPod | CreateAnalysisRun | TerminateAnalysisRun):
        changes["name"] = ""  # which pod or run that is, the world after the pass tells
    if isinstance(intent, PatchReplicaSet) and intent.abort_note is not None:
        changes["abort_note"] = replace(intent.abort_note, at_s=0.0, started_at_s=0.0)
    return msgspec.structs.replace(intent, **changes)


def _moves(there: World, random: Random) -> list[tuple[str, Callable[[World], World]]]:
    """What can happen; passes and what happens by itself more often than disturbances."""
    of_themselves: list[Move] = [each for each in BY_THEMSELVES if each.enabled(there)]
    others = [each for moves in DISTURBANCES.values() for each in moves if each.enabled(there)]
    seconds = random.choice(SECONDS)
    wake_s = time_passes(there, decide(snapshot(there)).requeue_at_s).now_s - there.now_s
    calls = random.randrange(4)
    return [
        *[(PASS, _full_pass)] * 6,
        (f"a pass that crashes after call {calls}", lambda world: _passed(world, calls=calls)),
        *[(each.name, each.apply) for each in of_themselves] * 2,
        *[(f"{wait_s} s pass", _passing(wait_s)) for wait_s in (seconds, wake_s)],
        *[(each.name, each.apply) for each in random.sample(others, min(2, len(others)))],
    ]


def _passing(seconds: float) -> Callable[[World], World]:
    return lambda there: later(there, seconds)


def _full_pass(there: World) -> World:
    return _passed(there, calls=None)


def _passed(there: World, *, calls: int | None) -> World:
    view = snapshot(there)
    decision: Decision = decide(view)
    after = [world for _, world in passes(there, view, decision)]
    return after[0] if calls is None or calls >= len(after) else after[calls]
