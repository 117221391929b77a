"""Who runs the tests of one gateway builds that one: all of them take a quarter of an hour on a new machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

# In a process of its own, as one pytest does not collect within another.
_TOLD = """
import sys
from tests.gateways.selection import programs_of, selected
print(*(each.name for each in programs_of(selected(sys.argv[1:]))))
"""


def _programs(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", _TOLD, *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "programs"),
    [
        ("whole_canary and envoy-gateway", {"envoy-gateway"}),
        ("requests_tell and contour", {"contour"}),
        ("what_chance_allows", set()),
    ],
)
def test_the_selected_tests_decide(words: str, programs: set[str]) -> None:
    """By their parameters, so that a new test needs no list."""
    assert _programs("tests/gateways", "-k", words) == programs


def test_without_a_choice_everything_is_needed() -> None:
    """`make gateways` alone runs them all."""
    assert _programs("tests/gateways") == {"envoy-gateway", "contour", "traefik"}


def test_what_pytest_does_not_understand_is_told() -> None:
    """With its own words and exit code, and nothing is built for it."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.gateways", "tests/gateways", "-k", "and and"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == int(pytest.ExitCode.USAGE_ERROR)
    assert "and and" in done.stderr
