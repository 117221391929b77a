"""Promise: mutants are changes that run, the same ones for a seed, and each is tried by the tests that reach it."""

from __future__ import annotations

import ast
from pathlib import Path
from types import FunctionType

from rollouts import recent
from tests.architecture.tracked import ROOT
from tests.mutants.draw import Mutant, drawn
from tests.mutants.forks import forked
from tests.mutants.trial import FAILED_TEST
from tests.mutants.trials import exchanged, statement

ROOM = "core/drain"


def test_a_seed_names_the_mutants() -> None:
    """Two people who speak of a seed speak of the same changes."""
    assert drawn([ROOM], count=20, seed=3) == drawn([ROOM], count=20, seed=3)
    assert drawn([ROOM], count=20, seed=3) != drawn([ROOM], count=20, seed=4)


def test_a_mutant_is_another_program() -> None:
    """Where only an annotation or a space differed, or nothing could be read, no test could say anything."""
    for mutant in drawn([ROOM], count=40, seed=1):
        before = (ROOT / mutant.path).read_text()
        assert ast.dump(ast.parse(mutant.code)) != ast.dump(ast.parse(before)), (mutant.before, mutant.after)


def test_a_killer_is_known_by_its_whole_name() -> None:
    """Cut off at the space it was no test, so what it had seen counted for nothing."""
    found = FAILED_TEST.search("FAILED tests/a.py::test_b[two words] - AssertionError: 1 - 2")
    assert found is not None and found[1] == "tests/a.py::test_b[two words]"


def test_the_code_of_a_function_is_exchanged_and_what_no_function_runs_is_left() -> None:
    """A default is made when its module is imported: such a change is tried in a copy of the project."""
    path = Path("rollouts/recent.py")
    text = (ROOT / path).read_text()
    method = recent.Recent.__setitem__
    assert isinstance(method, FunctionType)
    functions = {str(ROOT / path): [method]}

    def changed(before: str, after: str) -> list[str]:
        assert before in text
        mutant = Mutant(path, 1, before, after, text.replace(before, after))
        return [function.__qualname__ for function, _ in exchanged(mutant, functions)]

    assert changed("if len(self) > self.most", "if len(self) >= self.most") == ["Recent.__setitem__"]
    assert changed('_K = TypeVar("_K", bound=Hashable)', '_K = TypeVar("_K")') == []
    assert changed('_K = TypeVar("_K", bound=Hashable)', '_K = TypeVar(\n    "_K"\n)') == []  # what follows only moves


def test_the_lines_of_a_statement_are_those_that_run_with_it() -> None:
    """Of one with a block only its head; a line within several is of the innermost."""
    source = ROOT / "rollouts" / "recent.py"
    lines = source.read_text().splitlines()
    head = next(number for number, line in enumerate(lines, 1) if "if len(self) > self.most" in line)

    assert statement(source, head) == range(head, head + 1)
    assert statement(source, head + 1) == range(head + 1, head + 2)


def test_a_fork_says_what_it_found_and_is_ended_when_it_goes_on() -> None:
    """A mutant may never end."""

    def for_ever() -> None:
        while True:
            pass

    assert (forked(lambda: "a test")(), forked(lambda: "")(), forked(for_ever, cpu_s=1)()) == ("a test", "", None)
