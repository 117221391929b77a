"""Forks of a process that has collected all tests: each begins with everything imported, and changes nothing for the next."""

from __future__ import annotations

import os
import resource
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest


def forked(work: Callable[..., object], *arguments: Any, cpu_s: int = 0) -> Callable[[], str | None]:
    """Begins the work in a child process.

    Args:
        work: what it gives is the text that comes back; None for none.
        cpu_s: CPU after which the system ends it; 0 for no limit.

    Returns: what waits for its end, and gives its text; None for a child that was ended.
    """
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reads)
        try:
            if cpu_s:
                resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
            said = work(*arguments)
            os.write(writes, f"+{said or ''}".encode())
        except BaseException:
            os.write(writes, f"!{traceback.format_exc()}".encode())
        finally:
            os._exit(0)
    os.close(writes)

    def wait() -> str | None:
        with os.fdopen(reads, "rb") as said:
            text = said.read().decode()
        os.waitpid(child, 0)
        if text.startswith("!"):
            raise RuntimeError(text[1:])
        return text[1:] if text else None

    return wait


def run(items: Sequence[pytest.Item], plugin: object) -> Iterator[pytest.Item]:
    """Runs tests, and gives each once it is over. Nothing that they print is seen.

    Args:
        plugin: of pytest, which hears of them.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nowhere, number)
    for number, item in enumerate(items, 1):
        if number == 1:
            item.config.pluginmanager.unregister(name="terminalreporter")
            item.config.pluginmanager.register(plugin)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=items[number] if number < len(items) else None)
        yield item
