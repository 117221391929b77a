"""Promise: no regular expression of the package takes longer for a text than the text is long, whoever wrote the text."""

from __future__ import annotations

import re
import signal
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from tests.hostile.patterns import Used, hostile_texts, used_patterns

SIZE = 10_000
"""Characters. A pattern that looks once at each takes a millisecond or two, one that begins again at each 100 and more."""

CPU_MAX_S = 0.04

BOUNDED = {
    "rollouts.api.v1alpha1.wire._DURATION": 32,
    "rollouts.expression_cost._CALL": 1_024,
    "rollouts.metrics.kubernetes_values._GO_PART": 64,
}
"""Patterns that are used only on texts of at most so many characters, or on what another pattern has taken (`_GO_PART`)."""

METHODS_ELSEWHERE = {
    "rollouts.cli.kubernetes.yaml_text._FLOAT": {"match"},
    "rollouts.cli.kubernetes.yaml_text._INTEGER": {"match"},
    "rollouts.cli.kubernetes.yaml_text._pattern": {"match"},
}
"""Patterns that a library is given, and what it does with them."""

OWN_TEXTS = {"rollouts.cli.picture._WEB_FONTS": "a picture that the line before drew"}

_METHODS = {"match", "fullmatch", "search", "sub", "findall", "finditer", "split"}


class TooLong(Exception):
    """The pattern still tries."""


@contextmanager
def a_second_of_cpu() -> Iterator[None]:
    """Ends what takes more: the engine looks for signals."""

    def end(number: int, frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


def cpu_s(pattern: re.Pattern[Any], method: str, text: str) -> float:
    """CPU seconds of one use; infinity for more than a second."""
    given: Any = text.encode("latin-1", "replace") if isinstance(pattern.pattern, bytes) else text
    began_s = time.process_time()
    try:
        with a_second_of_cpu():
            if method == "sub":
                pattern.sub("", given)
            elif method == "finditer":
                deque(pattern.finditer(given), maxlen=0)
            else:
                getattr(pattern, method)(given)
    except TooLong:
        return float("inf")
    return time.process_time() - began_s


def slowest(used: Used, size: int) -> tuple[float, str, str]:
    """CPU seconds, the method and the text that take most."""
    pattern, flags = used.pattern.pattern, used.pattern.flags
    if isinstance(pattern, bytes):
        pattern = pattern.decode()
    methods = METHODS_ELSEWHERE.get(used.where) or (used.methods & _METHODS) or {"fullmatch", "search"}
    worst = (0.0, "", "")
    for text in dict.fromkeys(hostile_texts(pattern, flags, size)):
        for method in sorted(methods):
            took_s = cpu_s(used.pattern, method, text)
            if took_s > CPU_MAX_S:  # or was it a pause of the machine?
                took_s = min(took_s, cpu_s(used.pattern, method, text))
            worst = max(worst, (took_s, method, text[:60]))
            if worst[0] > CPU_MAX_S:
                return worst
    return worst


@pytest.mark.parametrize(
    "used", [each for each in used_patterns() if each.where not in OWN_TEXTS], ids=lambda each: each.where
)
def test_a_pattern_looks_at_each_character_a_few_times(used: Used) -> None:
    """A flag of a container's shell, a duration, a quote in a router's rule: 100 KB of them stopped the loop for minutes.

    CPU is measured, as the engine counts nothing: what is linear takes a tenth of the bound at most.
    """
    took_s, method, text = slowest(used, min(SIZE, BOUNDED.get(used.where, SIZE)))

    assert took_s < CPU_MAX_S, f"{used.where}.{method} takes {took_s:.3f} s for {text!r}…"


def test_exceptions_are_patterns_that_are_there() -> None:
    """An entry that is left over would hide the next pattern of that name."""
    assert {*BOUNDED, *METHODS_ELSEWHERE, *OWN_TEXTS} <= {each.where for each in used_patterns()}


@pytest.mark.long
@pytest.mark.parametrize(
    "pattern", [r"(?:a|aa)+$", r"(a*)*b", r"\s+x", r"-[a-z]*c[a-z]*", r'"(?:[^"\\]|\\.)*"', r"(\d+(?:\.\d*)?)(s|m)"]
)
def test_patterns_that_are_known_to_be_slow_are_found(pattern: str) -> None:
    """The search for hostile texts finds what it is for: repetitions in repetitions, beside each other, and restarts."""
    used = Used("planted", "PATTERN", re.compile(pattern), frozenset({"fullmatch", "search"}))

    assert slowest(used, SIZE)[0] > CPU_MAX_S
