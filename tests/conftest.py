"""What all tests share: the fixtures of the real control plane (`control_plane`, `namespace`, `controller_kubeconfig`)."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Generator, Iterator
from itertools import chain, groupby, islice
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

pytest_plugins = ["tests.lab.pytest_plugin", "tests.seed", "tests.skips", "tests.virtual_time"]

_TESTS = Path(__file__).parent
WAITING = (
    _TESTS / "cli" / "test_the_demo_keeps_its_promises.py",
    _TESTS / "cli" / "test_commands_on_a_cluster.py",
    _TESTS / "cli" / "test_a_live_picture_comes_and_goes.py",
    _TESTS / "cli" / "test_an_analysed_update_goes_on_by_commands.py",
    _TESTS / "cli" / "test_lint_agrees_with_the_api_server.py",
    _TESTS / "cli" / "test_what_migrates_is_taken_by_a_cluster.py",
    _TESTS / "e2e",
    _TESTS / "packaging",
    _TESTS / "contract",
)
"""Folders and files whose tests wait for most of their time: for a control plane, or for a controller in real time. The last ones
are quick, so that no worker waits for another's at the end."""
GC_THRESHOLD = 50_000  # objects; as in the controller

if os.environ.get("ROLLOUTS_DEEP") == "1" or int(os.environ.get("ROLLOUTS_WORLDS", "0")) > 600:
    os.environ.setdefault("PYTEST_TIMEOUT", "0")  # what is played in depth may take an hour

# Time says nothing about an example while other tests share the machine. Where `CI` is set, Hypothesis would play the same
# examples for ever; the seed is in seed.py.
settings.register_profile(
    "beside others",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=False,
    database=DirectoryBasedExampleDatabase(_TESTS.parent / ".hypothesis" / "examples"),
    print_blob=True,
)
settings.load_profile("beside others")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under pytest-xdist half of the workers begin with tests that wait, whole files of them; the others with long ones.

    Behind the others, the last of them would be waited for alone. pytest-xdist gives each worker one stretch of the list to begin
    with, and a worker that has nothing left takes from the end of another's.
    """
    workers: int = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers == 1:
        return
    waiting: list[tuple[int, list[pytest.Item]]] = []
    long: list[pytest.Item] = []
    rest: list[pytest.Item] = []
    for path, of_file in groupby(items, key=lambda item: item.path):
        tests = list(of_file)
        if (turn := _turn(path)) is not None:
            waiting.append((turn, tests))
        else:
            for test in tests:
                (long if test.get_closest_marker("long") else rest).append(test)
    files = [tests for _, tests in sorted(waiting, key=lambda each: each[0])]
    others = iter(rest)
    parts = (workers + 1) // 2
    ordered: list[pytest.Item] = []
    for number in range(workers):
        of_files = chain.from_iterable(files[number::parts])  # tests of a file may share a control plane
        first = list(of_files) if number < parts else long[number - parts :: workers - parts]
        stretch = (len(items) - len(ordered)) // (workers - number)
        ordered += [*first, *islice(others, max(0, stretch - len(first)))]
    items[:] = [*ordered, *others]


def _turn(path: Path) -> int | None:
    """The place in WAITING of a file's tests; None for those that compute."""
    return next((turn for turn, each in enumerate(WAITING) if path.is_relative_to(each)), None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays to the end, so the garbage collector need not look at it, now or later.

    Nor so often at the rest: simulations and worlds make few cycles.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD)
        gc.enable()


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
