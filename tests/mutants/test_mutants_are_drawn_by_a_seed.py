"""Promise: mutants are changes that run, the same ones for a seed."""

from __future__ import annotations

import ast

from tests.architecture.tracked import ROOT
from tests.mutants.draw import drawn
from tests.mutants.trial import FAILED_TEST

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
