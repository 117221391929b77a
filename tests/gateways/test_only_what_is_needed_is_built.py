"""Who runs the tests of one gateway builds that one: all of them take a quarter of an hour on a new machine."""

from __future__ import annotations

import json
import sys
from functools import cache

import pytest

from tests.lab.processes import run

PROGRAMS: dict[str, set[str]] = {
    "": {"envoy-gateway", "contour", "traefik"},
    "whole_canary and envoy-gateway": {"envoy-gateway"},
    "requests_tell and contour": {"contour"},
    "what_chance_allows": set(),
}
# In a process of its own, as one pytest does not collect within another; one process for all of them.
_TOLD = """
import json, sys
from tests.gateways.selection import programs_of, selected
arguments = [["tests/gateways", "-k", words] for words in sys.argv[1:]]
print(json.dumps([[each.name for each in programs_of(selected(each))] for each in arguments]))
"""


@cache
def _programs() -> dict[str, set[str]]:
    """What is needed for the tests that words choose, and for all of them."""
    done = run(sys.executable, "-c", _TOLD, *PROGRAMS)
    return {words: set(names) for words, names in zip(PROGRAMS, json.loads(done.stdout), strict=True)}


@pytest.mark.parametrize(("words", "programs"), PROGRAMS.items())
def test_the_selected_tests_decide(words: str, programs: set[str]) -> None:
    """By their parameters, so that a new test needs no list; `make gateways` alone runs them all."""
    assert _programs()[words] == programs
