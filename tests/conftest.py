"""What all tests share: the fixtures of the real control plane (`control_plane`, `namespace`, `controller_kubeconfig`)."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
import structlog

pytest_plugins = ["tests.lab.pytest_plugin"]

_END_TO_END = Path(__file__).parent / "e2e"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under pytest-xdist each worker begins with its part of the end-to-end tests.

    They wait for most of their time; behind the others, which compute, the last of them would be waited for alone. pytest-xdist
    gives each worker one stretch of the list to begin with.
    """
    workers: int = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers == 1:
        return
    waiting = [item for item in items if _END_TO_END in item.path.parents]
    others = iter([item for item in items if _END_TO_END not in item.path.parents])
    ordered: list[pytest.Item] = []
    for number in range(workers):
        first = waiting[number::workers]
        stretch = (len(items) - len(ordered)) // (workers - number)
        ordered += [*first, *islice(others, max(0, stretch - len(first)))]
    items[:] = [*ordered, *others]


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end, so the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _a_loop_that_is_closed() -> Iterator[None]:
    """pytest-asyncio asks the main thread for its loop, which makes one that nobody closes; so there is one already."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """A test that sets up logging must not decide what the next one can see."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)
