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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from queue import SimpleQueue
from typing import Any

import pytest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tests.architecture.tracked import ROOT
from tests.mutants.draw import Mutant, drawn
from tests.mutants.trial import EXAMPLES, Lane, Verdict, unit
from tests.mutants.trials import Trials

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
    parser.add_argument("--count", type=int, default=80, help="mutants; default 80")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="which ones; printed")
    parser.add_argument("--whole", action="store_true", help="try constants and defaults on all of `make unit`, too")
    parser.add_argument(
        "--resume", action="store_true", help="leave out those that the report of this seed has already"
    )
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="of which tests; default: those of `make unit`")
    parser.add_argument("--lanes", type=int, default=os.cpu_count() or 1, help="so many at once")
    parser.add_argument("--at-least", type=int, default=0, metavar="PERCENT", help="end with 1 when fewer die")
    asked = parser.parse_args()
    console = Console(stderr=True)
    console.print(f"seed {asked.seed}: {asked.count} mutants of {', '.join(asked.rooms)}")
    mutants = drawn(asked.rooms, count=asked.count, seed=asked.seed)
    verdicts = _read(mutants, seed=asked.seed) if asked.resume else []
    known = {each.mutant for each in verdicts}

    def tell(verdict: Verdict) -> None:
        verdicts.append(verdict)
        verdicts.sort(key=lambda each: (each.mutant.path, each.mutant.line))
        _write(verdicts, seed=asked.seed)

    tests = unit() if asked.tests is None else [*asked.tests, "-m", "not controlplane and not long"]
    waiting = [each for each in mutants if each not in known]
    _try_all(waiting, tests, tell, console=console, lanes=asked.lanes, whole=asked.whole)
    _print(verdicts)
    died = sum(not each.lives for each in verdicts)
    percent = died * 100 // len(verdicts)
    print(f"{died} of {len(verdicts)} died ({percent} %); seed {asked.seed}; written: {REPORT.relative_to(ROOT)}")
    return int(percent < asked.at_least)


def _try_all(
    mutants: list[Mutant],
    tests: list[str],
    tell: Callable[[Verdict], None],
    *,
    console: Console,
    lanes: int,
    whole: bool,
) -> None:
    """Tries them in forks, and those that change no function in copies of the project; each verdict is told as it comes."""
    columns = (TextColumn("mutants"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    left: list[Mutant] = []
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("mutants", total=len(mutants))

        def take(verdict: Verdict) -> None:
            progress.advance(task)
            tell(verdict)
            if verdict.lives:
                console.print(_words(verdict), soft_wrap=True, markup=False, highlight=False)

        os.environ.update(EXAMPLES)  # before any test is imported
        # Some modules of tests are imported already, and a fork leaves what it has open to the system.
        quiet = ["-q", "--no-header", "--no-summary", "-p", "no:cacheprovider", "-p", "no:unraisableexception"]
        trials = Trials(mutants, lanes=lanes, tell=take, left=left.append)
        rewritten = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        if (code := pytest.main([*quiet, *rewritten, *tests], plugins=[trials])) is not pytest.ExitCode.OK:
            raise SystemExit(f"pytest ends with {code!r} before all mutants are tried")
        free: SimpleQueue[Lane] = SimpleQueue()
        for number in range(min(lanes, len(left))):
            free.put(Lane(FOLDER / str(number)))

        def tried(mutant: Mutant) -> Verdict:
            lane = free.get()
            try:
                return lane.tried(mutant, whole=whole)
            finally:
                free.put(lane)

        with ThreadPoolExecutor(lanes) as pool:
            for done in as_completed([pool.submit(tried, each) for each in left]):
                take(done.result())


def _words(verdict: Verdict) -> str:
    mutant = verdict.mutant
    return f"lives: {mutant.path}:{mutant.line}\n  - {mutant.before}\n  + {mutant.after}"


def _print(verdicts: list[Verdict]) -> None:
    table = Table("room", "mutants", "killed", "live")
    rooms = Counter("/".join(each.mutant.path.parts[1:3]) for each in verdicts)
    living = Counter("/".join(each.mutant.path.parts[1:3]) for each in verdicts if each.lives)
    for room, count in sorted(rooms.items()):
        table.add_row(room, str(count), str(count - living[room]), str(living[room]))
    Console().print(table)
    for each in verdicts:
        if each.lives:
            print(_words(each))


def _write(verdicts: list[Verdict], *, seed: int) -> None:
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "path": str(each.mutant.path), "line": each.mutant.line, "before": each.mutant.before, "after": each.mutant.after,
            "lives": each.lives, "by": each.by, "seconds": round(each.took_s, 1),
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
        Verdict(each, row["lives"], row["by"], row["seconds"])
        for each, key in keys.items()
        if (row := found.get(key)) is not None
    ]


if __name__ == "__main__":
    sys.exit(main())
