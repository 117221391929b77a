"""Paths through a small world: played again by the names of their moves, and printed as a test that one can paste."""

from __future__ import annotations

from collections.abc import Iterable

from rollouts.core.decide import decide
from tests.core.model import World, snapshot
from tests.core.small_worlds.ends import assert_is_an_end
from tests.core.small_worlds.moves import BY_THEMSELVES, PASS, TIME, moved_by
from tests.core.small_worlds.normal_form import NormalForm
from tests.core.small_worlds.search import FoundError, SmallWorld, broken_in

FAIR_STEPS = 1_000


def assert_path_is_safe(small: SmallWorld, path: Iterable[str]) -> None:
    """Every decision on the path holds to the invariants, and the fair run from its end comes to rest.

    It is played in the world as it is: nothing is normalized. So a test of it stays true when the normal form changes.
    """
    there = small.start()
    assert broken_in(small, there) == []
    for move in path:
        there = moved_by(there, move)
        assert broken_in(small, there) == [], move
    assert_is_an_end(fair_end(there))


def fair_end(there: World) -> World:
    """The world in which a fair run ends: the controller acts, then what happens by itself, then time passes.

    Raises: AssertionError when it does not end.
    """
    form = NormalForm()
    for _ in range(FAIR_STEPS):
        after = _fair_move(form, there)
        if after is None:
            return there
        there = after
    raise AssertionError(f"no end after {FAIR_STEPS} moves: {decide(snapshot(there)).status}")


def _fair_move(form: NormalForm, there: World) -> World | None:
    key = form.key(there)
    for name in (PASS, *(each.name for each in BY_THEMSELVES if each.enabled(there)), TIME):
        after = moved_by(there, name)
        if form.key(after) != key:
            return after
    return None


def as_a_test(name: str, found: FoundError) -> str:
    """The path as a test, for `test_paths_that_were_found_once_stay_safe.py`."""
    moves = "".join(f"            {move!r},\n" for move in found.path).replace("'", '"')
    return (
        f"{found}\n\n"
        f"def test_…() -> None:\n"
        f'    """{found.rule}: …"""\n'
        f"    assert_path_is_safe(\n"
        f'        ALL["{name}"],\n'
        f"        [\n{moves}        ],\n"
        f"    )\n"
    )
