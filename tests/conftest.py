"""What all tests share: the fixtures of the real control plane (`control_plane`, `namespace`, `controller_kubeconfig`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import structlog

pytest_plugins = ["tests.lab.pytest_plugin"]


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
