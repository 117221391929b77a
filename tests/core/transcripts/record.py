"""What the core decides in a play, pass by pass, as a text that people read in a diff."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from rollouts.core.analysis.metric import MetricRules
from rollouts.core.decide import decide
from rollouts.core.forecast import rehearse
from rollouts.core.model.intents import Decision
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import RolloutStatus
from tests.core.analysis.tapes import play
from tests.core.analysis.test_a_run_says_why_it_ended import SAID
from tests.core.analysis.test_sequences_of_measurements_give_argos_phases import NO_SUCCESS, ONE_METRIC
from tests.core.model import World, snapshot
from tests.core.transcripts.plays import PLAYS, REHEARSED
from tests.said import said, said_of

FOLDER = Path(__file__).parent


Lines: TypeAlias = Callable[[], Iterator[str]]


def transcript(parts: Mapping[str, Lines]) -> str:
    """One text of several parts, each below its name."""
    return "\n".join("\n".join([f"# {name}", "", *lines(), ""]) for name, lines in parts.items())


def of_runs(table: Iterable[tuple[Mapping[str, Any], str]]) -> Iterator[str]:
    """How a run of one metric ends, and when it asked for what."""
    for rules, tape in table:
        played = play((MetricRules(name="m", **rules),), {"m": tape})
        yield f"{said(rules)} {tape}: {said(played.status)}"
        yield f"  {', '.join(f'{at_s:g} s {said(due)}' for at_s, due in played.asked[:4])}, {len(played.statuses)} passes"


def of_rehearsal(start: Callable[[], World]) -> Iterator[str]:
    """What people are told before an update, of pods that are ready after 10 s."""
    told_before = rehearse(snapshot(start()), startup_s=10.0)
    yield f"{told_before.stable_before} to {told_before.revision}, stuck at {said(told_before.stuck)}"
    yield from (f"  {said(stage)}" for stage in told_before.stages)


def of_play(play: Callable[[], Iterable[Snapshot]]) -> Iterator[str]:
    """What each pass decides."""
    yield from told(play())


def all_transcripts() -> Mapping[str, Mapping[str, Lines]]:
    """The parts of each file."""
    plays = {name: {title: partial(of_play, each) for title, each in parts.items()} for name, parts in PLAYS.items()}
    said_of_runs = [(rules, tape) for rules, tape, _ in (*ONE_METRIC, *NO_SUCCESS, *SAID)]
    rehearsals = {title: partial(of_rehearsal, start) for title, start in REHEARSED.items()}
    return {**plays, "runs": {"of one metric": partial(of_runs, said_of_runs)}, "rehearsals": rehearsals}


def told(seen: Iterable[Snapshot]) -> Iterator[str]:
    """The lines about these passes, one after the other: nothing about one that decides what the one before did."""
    last: tuple[str, ...] = ()
    for view in seen:
        decision = decide(view)
        lines = tuple(_shortened(decision.status.message, _lines(view.status, decision)))
        if lines != last:
            yield f"{said(view.now_s)}: {lines[0]}"
            yield from (f"  {line}" for line in lines[1:])
        last = lines


def _lines(before: RolloutStatus, decision: Decision) -> Iterator[str]:
    """First when the next pass is and what has changed in numbers and words of one value, then a line for everything else."""
    values, entries = [], []
    for name in RolloutStatus.__struct_fields__:
        old, new = getattr(before, name), getattr(decision.status, name)
        if old == new:
            continue
        if isinstance(new, tuple):
            gone = {_identity(each) for each in old} - {_identity(each) for each in new}
            changed = [*(said(each) for each in new if each not in old), *(f"no {each}" for each in sorted(gone))]
            entries.append(f"{name}: {'; '.join(changed)}")
        elif isinstance(new, msgspec.Struct) or name == "message":
            entries.append(f"{name}: {said(new)}")
        else:
            values.append(f"{name} {said_of(name, new)}")
    again = "no pass" if decision.requeue_at_s is None else f"again at {said(decision.requeue_at_s)}"
    yield ", ".join([again, *(["status first"] if decision.status_first else []), *values])
    yield from (said(each) for each in decision.intents)
    yield from entries
    yield from (said(each) for each in decision.notices)


def _shortened(message: str, lines: Iterable[str]) -> Iterator[str]:
    """The lines with the message of the status in one of them alone: conditions say the same."""
    text = f"message={said(message)}"
    for line in lines:
        yield line.replace(text, "message=…") if message else line


def _identity(entry: Any) -> str:
    """What an entry of a list is known by: its first field."""
    return said(getattr(entry, entry.__struct_fields__[0]) if isinstance(entry, msgspec.Struct) else entry)
