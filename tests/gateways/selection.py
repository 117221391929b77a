"""Which gateways the tests of a run are about: who wants one of them does not wait until the others are built."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tests.lab.binaries import GATEWAY_PROGRAMS, Program


class NotCollected(Exception):
    """pytest cannot tell which tests are meant; the message is what it says, the code its exit code."""

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        self.code = code


def selected(arguments: Sequence[str]) -> list[pytest.Item]:
    """The tests that pytest would run with these arguments; none of them is run. Raises: NotCollected."""
    seen = _Seen()
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
        code = pytest.main(["--collect-only", "-q", *arguments], plugins=[seen])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise NotCollected(said.getvalue(), code=int(code))
    return seen.items


def gateways_of(items: Iterable[pytest.Item]) -> frozenset[str]:
    """Names of the gateways that tests of this folder have as the first part of their parameter `route`."""
    specs = (getattr(each, "callspec", None) for each in items if each.path.parent == Path(__file__).parent)
    return frozenset(str(each.params["route"][0]) for each in specs if each is not None and "route" in each.params)


def programs_of(items: Iterable[pytest.Item]) -> tuple[Program, ...]:
    """What the lab must have for these tests, beside a node's programs."""
    names = gateways_of(items)
    return tuple(each for each in GATEWAY_PROGRAMS if each.name in names)


class _Seen:
    """Takes down what was collected."""

    def __init__(self) -> None:
        self.items: list[pytest.Item] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.items = list(session.items)
