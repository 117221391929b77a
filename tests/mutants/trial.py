"""Tries a mutant in a copy of the project: the nearest tests first, and all of the quick ones where it lives."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.architecture.tracked import ROOT, tracked
from tests.mutants.draw import Mutant

NEAREST_CPU_S = 300
WHOLE_CPU_S = 1_800
"""CPU that the tests may take before a mutant counts as one that never ends; a busy machine changes nothing about it."""
EXAMPLES = {"ROLLOUTS_WORLDS": "200", "ROLLOUTS_MORE_WORLDS": "60", "ROLLOUTS_LAWS": "10"}
"""How many random worlds and laws are played."""
_FOUND_NOTHING, _UNKNOWN_TEST = 5, 4  # pytest's exit codes
FAILED_TEST = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
"""The name of a case may have spaces; what comes after the dash is the reason."""
OF_ALL_MODULES = ["tests/architecture/test_a_default_is_a_value_of_its_field.py"]
"""These look at the defaults and constants of every module, and import none by its name."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one mutant.

    Args:
        by: the test that saw it; "" where it lives, or where it never ended.
    """

    mutant: Mutant
    lives: bool
    by: str
    took_s: float


class Lane:
    """A copy of the project, in which one mutant after the other is tried."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        for path in tracked():
            copy = folder / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)
        for command in (["init", "--quiet"], ["add", "--all"]):  # some tests ask git which files there are
            subprocess.run(["git", *command], cwd=folder, check=True)

    def tried(self, mutant: Mutant, *, whole: bool) -> Verdict:
        """The verdict of the nearest tests, and with `whole` of `make unit`."""
        began_s = time.monotonic()
        file = self._folder / mutant.path
        file.write_text(mutant.code)
        try:
            for arguments, cpu_s in self._stages(mutant, whole=whole):
                if (by := self._killer(mutant, arguments, cpu_s)) is not None:
                    return Verdict(mutant, lives=False, by=by, took_s=time.monotonic() - began_s)
            return Verdict(mutant, lives=True, by="", took_s=time.monotonic() - began_s)
        finally:
            shutil.copy2(ROOT / mutant.path, file)

    def _stages(self, mutant: Mutant, *, whole: bool) -> Iterator[tuple[list[str], int]]:
        yield OF_ALL_MODULES, NEAREST_CPU_S
        if importers := _importers(mutant.path):
            yield importers, NEAREST_CPU_S
        yield [str(_nearest(mutant.path)), "-m", "not controlplane and not long"], NEAREST_CPU_S
        if whole:
            yield unit(), WHOLE_CPU_S

    def _killer(self, mutant: Mutant, arguments: list[str], cpu_s: int) -> str | None:
        """The first test that fails and does not fail without the change: random tests may find something else."""
        arguments = [*arguments]
        while (by := self._failed(arguments, cpu_s)) is not None:
            if not self._fails_anyway(mutant, by):
                return by
            arguments += ["--deselect", by]
        return None

    def _failed(self, arguments: list[str], cpu_s: int) -> str | None:
        """The first test that fails, "" for a process that has to be ended; None when all pass."""
        done = self._run(arguments, cpu_s)
        if done.returncode in (0, _FOUND_NOTHING):
            return None
        found = FAILED_TEST.search(done.stdout)
        return found[1] if found else ("" if done.returncode < 0 else done.stdout.strip()[-200:])

    def _fails_anyway(self, mutant: Mutant, test: str) -> bool:
        """Whether the test fails without the change, too.

        Raises: RuntimeError: pytest knows no test of this name, or cannot read a whole file of tests.
        """
        if not test.startswith("tests/"):
            return False
        file = self._folder / mutant.path
        shutil.copy2(ROOT / mutant.path, file)
        try:
            done = self._run([test], NEAREST_CPU_S)
            if done.returncode != 0 and "::" not in test:
                raise RuntimeError(f"{test} cannot be read, with or without a change: {done.stdout[-200:]}")
            if done.returncode == _UNKNOWN_TEST:
                raise RuntimeError(f"pytest does not know {test}, which it named: {done.stderr[-200:]}")
            return done.returncode != 0
        finally:
            file.write_text(mutant.code)

    def _run(self, arguments: list[str], cpu_s: int) -> subprocess.CompletedProcess[str]:
        pytest = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *arguments]
        command = ["sh", "-c", f'ulimit -t {cpu_s}; exec "$@"', "sh", *pytest]
        environment = {**os.environ, **EXAMPLES}
        return subprocess.run(command, cwd=self._folder, env=environment, capture_output=True, text=True, check=False)


def _nearest(path: Path) -> Path:
    """The folder of tests that is named as the room of the module, or as the one around it."""
    place = Path("tests", *path.parts[1:-1])
    while not (ROOT / place).is_dir():
        place = place.parent
    return place


def _importers(path: Path) -> list[str]:
    """Test modules that import the module by its name."""
    return _by_import().get(".".join(path.with_suffix("").parts), [])


@cache
def _by_import() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in tracked():
        if path.suffix == ".py" and path.name.startswith("test_") and "controlplane" not in (text := path.read_text()):
            for module in set(re.findall(r"^(?:from|import) (rollouts[\w.]*)", text, re.MULTILINE)):
                found.setdefault(module, []).append(str(path.relative_to(ROOT)))
    return found


def unit() -> list[str]:
    """The arguments of `make unit`, as the Makefile gives them."""
    printed = subprocess.run(
        ["make", "--dry-run", "unit", "UNIT_ARGS="], cwd=ROOT, capture_output=True, text=True, check=True
    )
    line = next(line for line in printed.stdout.splitlines() if " -m pytest " in line)
    return shlex.split(line.partition(" -m pytest ")[2])
