"""Promise: what the core decides is on record, pass by pass: writes, status, words, events, moments, and what it foretells.

A change that must not alter decisions alters no line of a transcript; of one that is meant to, a reviewer sees in the diff all
that it does. `python -m tests.core.transcripts` writes them anew.
"""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Decision
from rollouts.core.model.snapshot import Snapshot
from tests.core.transcripts.plays import PLAYS
from tests.core.transcripts.record import FOLDER, all_transcripts

TRANSCRIPTS = all_transcripts()


def _on_record(name: str) -> dict[str, list[str]]:
    """The lines of each play of a file."""
    found: dict[str, list[str]] = {}
    for part in (FOLDER / f"{name}.txt").read_text().removeprefix("# ").split("\n# "):
        title, *lines = part.rstrip("\n").split("\n")
        found[title] = lines[1:]
    return found


@pytest.mark.parametrize(("name", "part"), [(name, part) for name, parts in TRANSCRIPTS.items() for part in parts])
def test_each_pass_decides_what_is_on_record(name: str, part: str) -> None:
    """The first line that differs is the pass in which another decision was made."""
    assert [*TRANSCRIPTS[name][part]()] == _on_record(name)[part]


def _the_other_way_round(seen: Snapshot) -> Snapshot:
    """Routes stay in the order of the spec, which a pass tells of them in."""
    names = ("replica_sets", "runs", "copies", "orphans", "left_workloads")
    pods = None if seen.pods is None else replace(seen.pods, pods=seen.pods.pods[::-1])
    services = dict(reversed([*seen.services.items()]))
    return replace(seen, services=services, pods=pods, **{name: getattr(seen, name)[::-1] for name in names})


def _unordered(made: Decision) -> Decision:
    sets: dict[str, Any] = {name: tuple(sorted(getattr(made, name), key=repr)) for name in ("intents", "notices")}
    return replace(made, **sets)


@pytest.mark.parametrize(("name", "part"), [(name, part) for name, parts in PLAYS.items() for part in parts])
def test_the_order_in_which_a_store_gives_objects_decides_nothing(name: str, part: str) -> None:
    """It is another one after each restart: whoever takes the first of several must mean any of them."""
    for seen in PLAYS[name][part]():
        assert _unordered(decide(_the_other_way_round(seen))) == _unordered(decide(seen))


def test_no_transcript_is_of_a_play_that_is_gone() -> None:
    """Nobody would compare it."""
    assert {path.stem: list(_on_record(path.stem)) for path in sorted(FOLDER.glob("*.txt"))} == {
        name: list(parts) for name, parts in sorted(TRANSCRIPTS.items())
    }
