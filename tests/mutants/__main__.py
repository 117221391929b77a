"""`python -m tests.mutants`: how many small changes of the product the tests see, and which they do not.

A mutant that lives is a question: what may this line do wrong that nobody would notice? It is answered by a better assertion, or
by a line of code less. Mutants are drawn by a seed, so two people who name it speak of the same ones.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from queue import SimpleQueue
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tests.architecture.tracked import ROOT
from tests.mutants.draw import Mutant, drawn
from tests.mutants.trial import End, Lane, Verdict

ROOMS = (
    "core",
    "metrics",
    "cluster",
    "traffic",
    "controller/act",
    "controller/workqueue",
    "controller/observe",
    "controller/configs",
    "api/spec",
)
FOLDER = ROOT / "build" / "mutants"
REPORT = ROOT / "build" / "reports" / "mutants.json"


def main() -> int:
    """Tries them, and prints each one that lives; ends with 1 when fewer died than were asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--rooms", nargs="+", default=list(ROOMS), metavar="ROOM", help="folders or files below rollouts/"
    )
    parser.add_argument("--count", type=int, default=80, help="mutants; default 80, which take about half an hour")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="which ones; printed")
    parser.add_argument("--whole", action="store_true", help="try those that live on all of `make unit`, too")
    parser.add_argument(
        "--resume", action="store_true", help="leave out those that the report of this seed has already"
    )
    parser.add_argument("--lanes", type=int, default=os.cpu_count() or 1, help="so many at once")
    parser.add_argument("--at-least", type=int, default=0, metavar="PERCENT", help="end with 1 when fewer die")
    asked = parser.parse_args()
    console = Console(stderr=True)
    console.print(f"seed {asked.seed}: {asked.count} mutants of {', '.join(asked.rooms)}")
    mutants = drawn(asked.rooms, count=asked.count, seed=asked.seed)
    before = _read(mutants, seed=asked.seed) if asked.resume else []
    known = {each.mutant for each in before}
    verdicts = before
    for verdict in _all_tried([each for each in mutants if each not in known], console, asked.lanes, whole=asked.whole):
        verdicts = sorted([*verdicts, verdict], key=lambda each: (each.mutant.path, each.mutant.line))
        _write(verdicts, seed=asked.seed)
    _print(verdicts)
    died = sum(each.end is not End.LIVES for each in verdicts)
    percent = died * 100 // len(verdicts)
    print(f"{died} of {len(verdicts)} died ({percent} %); seed {asked.seed}; written: {REPORT.relative_to(ROOT)}")
    return int(percent < asked.at_least)


def _all_tried(mutants: list[Mutant], console: Console, lanes: int, *, whole: bool) -> Iterator[Verdict]:
    """Their verdicts, as they come."""
    free: SimpleQueue[Lane] = SimpleQueue()
    for number in range(lanes):
        free.put(Lane(FOLDER / str(number)))

    def tried(mutant: Mutant) -> Verdict:
        lane = free.get()
        try:
            return lane.tried(mutant, whole=whole)
        finally:
            free.put(lane)

    columns = (TextColumn("mutants"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress, ThreadPoolExecutor(lanes) as pool:
        task = progress.add_task("mutants", total=len(mutants))
        for done in as_completed([pool.submit(tried, each) for each in mutants]):
            verdict = done.result()
            progress.advance(task)
            if verdict.end is End.LIVES:
                console.print(_words(verdict), soft_wrap=True, markup=False, highlight=False)
            yield verdict


def _words(verdict: Verdict) -> str:
    mutant = verdict.mutant
    return f"lives: {mutant.path}:{mutant.line}\n  - {mutant.before}\n  + {mutant.after}"


def _print(verdicts: list[Verdict]) -> None:
    table = Table("room", "mutants", *(end.value for end in End))
    rooms = Counter("/".join(each.mutant.path.parts[1:3]) for each in verdicts)
    for room, count in sorted(rooms.items()):
        ends = Counter(each.end for each in verdicts if "/".join(each.mutant.path.parts[1:3]) == room)
        table.add_row(room, str(count), *(str(ends[end]) for end in End))
    Console().print(table)
    for each in verdicts:
        if each.end is End.LIVES:
            print(_words(each))


def _write(verdicts: list[Verdict], *, seed: int) -> None:
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "path": str(each.mutant.path), "line": each.mutant.line, "before": each.mutant.before, "after": each.mutant.after,
            "end": each.end.value, "by": each.by, "seconds": round(each.took_s, 1),
        }
        for each in verdicts
    ]  # fmt: skip
    whole = REPORT.with_suffix(".new")  # so that a run that is ended leaves the report of what it had
    whole.write_text(json.dumps({"seed": seed, "mutants": rows}, indent=1))
    whole.replace(REPORT)


def _read(mutants: list[Mutant], *, seed: int) -> list[Verdict]:
    """What the report of this seed says of them; a mutant of a line that has changed since is not in it."""
    report: dict[str, Any] = json.loads(REPORT.read_text()) if REPORT.exists() else {}
    rows = report["mutants"] if report.get("seed") == seed else []
    found = {(row["path"], row["line"], row["before"], row["after"]): row for row in rows}
    keys = {each: (str(each.path), each.line, each.before, each.after) for each in mutants}
    return [
        Verdict(each, End(row["end"]), row["by"], row["seconds"])
        for each, key in keys.items()
        if (row := found.get(key)) is not None
    ]


if __name__ == "__main__":
    sys.exit(main())
