"""The real node of one test run: skipped where none can be, refused calls told at its end, the logs of a failed run kept."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.lab import binaries
from tests.lab.pytest_plugin import refused_to_the_controller
from tests.node import machine
from tests.node.real_node import RealNode, started

ROOT = Path(__file__).parent.parent.parent


@contextmanager
def node_of(
    session: pytest.Session, *, command: str, more_programs: Sequence[binaries.Program] = ()
) -> Iterator[RealNode]:
    """A node for all tests of a session of `make COMMAND`; the logs of a failed one stay in build/lab-logs/COMMAND.

    It fails at the end when the chart has granted the controller less than it asked for.
    """
    if machine.INSIDE not in os.environ:
        pytest.skip(f"a real node is started by `make {command}`")
    folder = ROOT / "build" / "lab" / os.environ[machine.INSIDE]
    kept = ROOT / "build" / "lab-logs" / command
    programs = binaries.folder(programs=(*binaries.PROGRAMS, *binaries.NODE_PROGRAMS, *more_programs))
    complete = False
    try:
        with started(folder, programs=programs) as one:
            yield one
            refused = refused_to_the_controller(one.plane.audit_events())
        complete = True
    finally:
        if not complete or session.testsfailed:
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(folder / "logs", kept)
        shutil.rmtree(folder)
    assert refused == [], f"the chart grants the controller too little: {refused}"


@dataclass(frozen=True)
class Report:
    """The figures of a run: `path` for programs, and beside it a table for people."""

    path: Path

    def forget(self) -> None:
        """Figures of an earlier run must not be taken for this one's."""
        if machine.INSIDE in os.environ:
            for suffix in (".json", ".md", ".svg"):
                self.path.with_suffix(suffix).unlink(missing_ok=True)

    def write(self, cases: Sequence[Mapping[str, Any]], table: Sequence[str]) -> None:
        """Writes both, the JSON whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".new")
        part.write_text(json.dumps({"cases": cases}, indent=1))
        part.replace(self.path)
        self.path.with_suffix(".md").write_text("\n".join([*table, ""]))

    def show(self, terminal: Any) -> None:
        """The table, under the results."""
        if machine.INSIDE in os.environ and (table := self.path.with_suffix(".md")).exists():
            terminal.write(f"\n{table.read_text()}")
