"""Tries mutants in forks of the process that has collected all tests: the code of its functions is exchanged there.

What no function runs, such as a default or a constant of a module, is tried in a copy of the project (`trial.py`).
"""

from __future__ import annotations

import ast
import gc
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import CodeType, FunctionType
from typing import TypeAlias

import pytest

from tests.architecture.tracked import ROOT
from tests.mutants.draw import Mutant
from tests.mutants.forks import forked, run
from tests.mutants.reach import Reach, reach_of
from tests.mutants.trial import Verdict

Exchange: TypeAlias = tuple[FunctionType, CodeType]
Functions: TypeAlias = Mapping[str, Sequence[FunctionType]]
"""By the file of their code."""


class Trials:
    """A plugin of pytest that tries mutants in place of running the tests once.

    Args:
        tell: gets each verdict, as it comes.
        left: gets each mutant that cannot be tried so.
    """

    def __init__(
        self, mutants: Sequence[Mutant], *, lanes: int, tell: Callable[[Verdict], None], left: Callable[[Mutant], None]
    ) -> None:
        self._mutants, self._lanes, self._tell, self._left = mutants, lanes, tell, left

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of pytest's own."""
        reach = reach_of(session.items, lanes=self._lanes)
        items = {item.nodeid: item for item in session.items}
        functions = _functions()
        begun = self._begun(reach, items, functions)
        running = list(islice(begun, self._lanes))
        while running:
            self._tell(running.pop(0)())
            running.extend(islice(begun, 1))
        return True

    def _begun(
        self, reach: Reach, items: Mapping[str, pytest.Item], functions: Functions
    ) -> Iterator[Callable[[], Verdict]]:
        """Begins one trial after the other; each gives what waits for its verdict."""
        for mutant in self._mutants:
            exchanges = exchanged(mutant, functions)
            tests = reach.tests_of(ROOT / mutant.path, statement(ROOT / mutant.path, mutant.line))
            if not exchanges:
                self._left(mutant)
                continue
            chosen = [items[name] for name in tests if name in items]
            most_s = 60 + 6 * int(sum(reach.cost_s[item.nodeid] for item in chosen))
            wait = forked(_killer, chosen, exchanges, cpu_s=most_s)
            began_s = time.monotonic()

            def verdict(
                mutant: Mutant = mutant, wait: Callable[[], str | None] = wait, began_s: float = began_s
            ) -> Verdict:
                by = wait()  # "" when none has failed, None when it never ended
                return Verdict(mutant, by is not None and not by, by or "", time.monotonic() - began_s)

            yield verdict


def _killer(items: Sequence[pytest.Item], exchanges: Sequence[Exchange]) -> str:
    """The first test that fails with other code in these functions; "" when all pass."""
    for function, code in exchanges:
        function.__code__ = code
    ended = _Ended()
    for _ in run(items, ended):
        if ended.failed:
            return ended.failed
    return ""


class _Ended:
    """Notes which test has failed."""

    failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """After each phase of a test."""
        if report.failed:
            self.failed = report.nodeid


def exchanged(mutant: Mutant, functions: Functions) -> list[Exchange]:
    """The functions whose code the mutant changes, with that code; [] when something else is changed, too."""
    path = str(ROOT / mutant.path)
    before, after = (_codes(compile(text, path, "exec")) for text in (Path(path).read_text(), mutant.code))
    changed = {
        name for name, codes in before.items() if [*map(_unplaced, codes)] != [*map(_unplaced, after.get(name, ()))]
    }
    found: list[Exchange] = []
    for function in functions.get(path, ()):
        name = function.__code__.co_qualname
        if name not in changed:
            continue
        at = next((at for at, code in enumerate(before.get(name, ())) if code == function.__code__), None)
        codes = after.get(name, ())
        if at is None or at >= len(codes) or codes[at].co_freevars != function.__code__.co_freevars:
            return []
        found.append((function, codes[at]))
    return found


def _unplaced(code: CodeType) -> CodeType:
    """Without its lines: what a change above it only moves is the same code."""
    inner = tuple(_unplaced(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_firstlineno=1, co_linetable=b"", co_consts=inner)


def statement(path: Path, line: int) -> range:
    """The lines of the innermost statement that the line belongs to; of one with a block the lines before that."""
    best = range(line, line + 1)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno or node.lineno
            lines = range(node.lineno, max(last, node.lineno) + 1)
            if line in lines and (len(best) == 1 or len(lines) < len(best)):
                best = lines
    return best


def _codes(module: CodeType) -> dict[str, list[CodeType]]:
    """All code below a module's, by qualified name; several of one name in their order."""
    found = defaultdict[str, list[CodeType]](list)
    waiting = [module]
    while waiting:
        for code in (each for each in waiting.pop().co_consts if isinstance(each, CodeType)):
            found[code.co_qualname].append(code)
            waiting.append(code)
    return found


def _functions() -> Functions:
    gc.unfreeze()
    found = defaultdict[str, list[FunctionType]](list)
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename.startswith(f"{ROOT}{os.sep}"):
            found[each.__code__.co_filename].append(each)
    return found
