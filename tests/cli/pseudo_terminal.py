"""Programs on pseudo-terminals, as people see and type them."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import termios
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE_S

UNSEEN = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x08")  # styles and moves of the cursor


class Terminal:
    """A process on a pseudo-terminal, and what it has shown so far."""

    def __init__(self, process: asyncio.subprocess.Process, master: int) -> None:
        self._process = process
        self._master = master
        self._shown = b""
        self._more = asyncio.Event()
        asyncio.get_running_loop().add_reader(master, self._read)

    def types(self, text: str) -> None:
        """Presses keys."""
        os.write(self._master, text.encode())

    async def shows(self, text: str) -> None:
        """Waits until the text has come since the last thing that was waited for. Raises: AssertionError."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while text.encode() not in UNSEEN.sub(b"", self._shown):
                    self._more.clear()
                    await self._more.wait()
        except TimeoutError:
            raise AssertionError(f"{text!r} was not shown; this was: {self._shown.decode(errors='replace')}") from None
        self._shown = b""

    async def ends(self) -> int:
        """Waits for the exit code."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._process.wait()

    async def close(self) -> None:
        """Ends what still runs."""
        asyncio.get_running_loop().remove_reader(self._master)
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        os.close(self._master)

    def _read(self) -> None:
        try:
            self._shown += os.read(self._master, 65_536)
        except OSError:  # Linux says EIO when the other end is closed
            asyncio.get_running_loop().remove_reader(self._master)
        self._more.set()


@contextlib.asynccontextmanager
async def on_a_terminal(*command: str, env: Mapping[str, str], cwd: Path | None = None) -> AsyncIterator[Terminal]:
    """Runs a program on a pseudo-terminal of 100 columns and 40 lines."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), slave)
    process = await asyncio.create_subprocess_exec(
        *command, **streams, env=env, cwd=cwd, start_new_session=True, preexec_fn=_at_the_terminal
    )
    os.close(slave)
    shown = Terminal(process, master)
    try:
        yield shown
    finally:
        await shown.close()


def _at_the_terminal() -> None:
    """Runs in the child: what a shell at a terminal does. A test run in the background of a script ignores Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
