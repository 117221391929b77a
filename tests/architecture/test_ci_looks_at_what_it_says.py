"""Promise: CI runs the tests that it names, runs few of them twice, and skips none without a reason that is known."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache

import pytest

from tests.architecture.tracked import ROOT
from tests.skips import unknown

CI = (ROOT / ".ci" / "run").read_text()
RETRIED = [line for line in (ROOT / ".ci" / "retried").read_text().splitlines() if line and not line.startswith("#")]
IN_REAL_TIME = ("tests/e2e/", "tests/node/", "tests/gateways/", "tests/packaging/", "tests/contract/")
WORDS = re.compile(r"[\w-]+")
KEYWORDS = {"and", "or", "not"}


def _names(variable: str) -> list[str]:
    """The words of a `-k` expression of `.ci/run`."""
    parts = re.findall(rf'^{variable}\+?="(.*)"$', CI, re.MULTILINE)
    assert parts, variable
    return sorted(set(WORDS.findall(" ".join(parts))) - KEYWORDS)


@cache
def _collected(folder: str) -> str:
    command = [sys.executable, "-m", "pytest", folder, "--collect-only", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("folder", "variable"), [("tests/node", "node_tests"), ("tests/gateways", "gateways_tests")])
def test_each_name_that_selects_tests_finds_one(folder: str, variable: str) -> None:
    """A test that was renamed would be left out without a word."""
    assert [name for name in _names(variable) if name not in _collected(folder)] == []


def test_at_most_three_tests_of_real_time_are_run_twice() -> None:
    """A pure test that fails once is wrong, or shows that the code is."""
    assert len(RETRIED) <= 3
    assert [line for line in RETRIED if not line.startswith(IN_REAL_TIME) or " " not in line] == []


def test_a_skip_for_another_reason_is_unknown() -> None:
    """A tool that vanishes from a machine must not take its tests along."""
    known, other = "a real node is started by `make node`", "fish is not installed"

    assert unknown([other, known, other]) == [other]
