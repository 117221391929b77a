"""Which tests reach which lines of the product. Only these can see a change of a line, so a mutant is tried on nothing else.

Found once for a tree of files, by running all tests with coverage in forks of the process that has collected them.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import coverage
import pytest

from tests.architecture.tracked import ROOT, tracked
from tests.mutants.forks import forked, run

FOLDER = ROOT / "build" / "mutants"
PRODUCT = ROOT / "rollouts"


@dataclass(frozen=True, slots=True)
class Reach:
    """What one run of all tests has shown.

    Args:
        cost_s: CPU of each test that passes, by its name.
        lines: names of tests by the lines that they have run, by file.
    """

    cost_s: Mapping[str, float]
    lines: Mapping[Path, Mapping[int, Sequence[str]]]

    def tests_of(self, path: Path, lines: range) -> list[str]:
        """The tests that pass and run one of these lines, the cheapest first."""
        found = {name for line in lines for name in self.lines.get(path, {}).get(line, ())}
        return sorted(found & self.cost_s.keys(), key=lambda name: (self.cost_s[name], name))


def reach_of(items: Sequence[pytest.Item], *, lanes: int) -> Reach:
    """What these tests reach; remembered for as long as no tracked file changes."""
    state = hashlib.sha256()
    for path in tracked():
        state.update(path.read_bytes())
    folder = FOLDER / f"reach-{state.hexdigest()[:16]}"
    parts = [folder / f"{lane}-of-{lanes}" for lane in range(lanes)]
    if not all(part.with_suffix(".json").exists() for part in parts):
        folder.mkdir(parents=True, exist_ok=True)
        waits = [
            forked(_measured, items[lane::lanes], part) for lane, part in enumerate(parts)
        ]  # they run beside each other
        for wait in waits:
            wait()
    cost_s: dict[str, float] = {}
    lines: dict[Path, dict[int, list[str]]] = {}
    for part in parts:
        cost_s |= json.loads(part.with_suffix(".json").read_text())
        data = coverage.CoverageData(basename=str(part))
        data.read()
        for file in data.measured_files():
            by_line = lines.setdefault(Path(file), {})
            for line, names in data.contexts_by_lineno(file).items():
                by_line.setdefault(line, []).extend(names)
    return Reach(cost_s, lines)


def _measured(items: Sequence[pytest.Item], part: Path) -> None:
    """Runs the tests, and writes which lines each runs and what it costs."""
    cost_s: dict[str, float] = {}
    failed: set[str] = set()
    covered = coverage.Coverage(data_file=str(part), include=[f"{PRODUCT}/*"], config_file=False)
    covered.start()
    for _ in run(items, _Contexts(covered, cost_s, failed)):
        pass
    covered.stop()
    covered.save()
    known = {name: cost for name, cost in cost_s.items() if name not in failed}
    whole = part.with_suffix(".new")
    whole.write_text(json.dumps(known))
    whole.replace(part.with_suffix(".json"))


class _Contexts:
    """Tells coverage which test runs."""

    def __init__(self, covered: coverage.Coverage, cost_s: dict[str, float], failed: set[str]) -> None:
        self._covered, self._cost_s, self._failed = covered, cost_s, failed

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        """Around one test."""
        self._covered.switch_context(item.nodeid)
        began_s = time.process_time()
        done = yield
        self._cost_s[item.nodeid] = time.process_time() - began_s
        return done

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """After each phase of a test."""
        if report.failed:
            self._failed.add(report.nodeid)
