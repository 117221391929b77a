"""Command lines as people type them, in the test's own process: what they print, and the exit code with which they end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from rollouts.cli.main import main
from rollouts.objects import Manifest
from tests.patience import PATIENCE_S


class Said(NamedTuple):
    """What a command has printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The errors on one line, without the box that usage errors stand in."""
        return " ".join(self.err.replace("│", " ").split())


@dataclass(frozen=True)
class CommandLine:
    """Where commands are typed, with a folder for files; `kubeconfig` is added to each, if there is one."""

    folder: Path
    printed: pytest.CaptureFixture[str]
    kubeconfig: Path | None

    def file(self, *objects: Manifest | str, name: str = "file.yaml") -> str:
        """The path of a file with these objects, or texts of some."""
        texts = (each if isinstance(each, str) else yaml.safe_dump(each) for each in objects)
        (self.folder / name).write_text("---\n".join(texts), encoding="utf-8")
        return str(self.folder / name)

    def __call__(self, *words: str, code: int | None = 0) -> Said:
        """What a command prints that ends with this exit code; None for any."""
        self.printed.readouterr()
        said = Said(self._ended(*words), *self.printed.readouterr())
        assert code in (None, said.code), said
        return said

    async def run(self, *words: str, code: int | None = 0) -> Said:
        """The same in a thread of its own, as a process of its own would run it."""
        return await asyncio.to_thread(self, *words, code=code)

    def begin(self, *words: str) -> asyncio.Task[int]:
        """A command that goes on: its exit code. `prints` waits for what it says."""
        self.printed.readouterr()
        return asyncio.create_task(asyncio.to_thread(self._ended, *words))

    async def prints(self, text: str) -> str:
        """Waits until a command that goes on has printed the text; all that it has printed since the last wait."""
        shown = ""
        async with asyncio.timeout(PATIENCE_S):
            while text not in (shown := shown + self.printed.readouterr().out):  # noqa: ASYNC110 - what is printed sets no event
                await asyncio.sleep(0.01)  # without a pause the loop would use a whole core
        return shown

    def _ended(self, *words: str) -> int:
        given = () if self.kubeconfig is None else ("--kubeconfig", str(self.kubeconfig))
        return main([*words, *given])
