"""Where commands are typed: without a cluster, on an API server without a controller, and on one with the real controller."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.runs import Served, served
from tests.cli.shop import Shop, empty_shop, shop


@pytest.fixture
def typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """No cluster but what the words name."""
    return CommandLine(tmp_path, capsys, None)


@pytest.fixture
async def there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Served]:
    """An API server with the project's types, and nobody who looks after the objects in it. The terminal is wide."""
    monkeypatch.setenv("COLUMNS", "200")
    async with served(tmp_path, capsys) as found:
        yield found


@pytest.fixture
async def empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Shop]:
    """An empty namespace with a controller."""
    async with empty_shop(tmp_path, capsys) as found:
        yield found


@pytest.fixture
async def healthy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Shop]:
    """A namespace with a controller, in which the Rollout cart is Healthy. The terminal is wide."""
    monkeypatch.setenv("COLUMNS", "200")
    async with shop(tmp_path, capsys) as found:
        yield found
