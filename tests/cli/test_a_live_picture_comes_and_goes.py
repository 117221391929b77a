"""`get -w` on terminals: one that redraws shows one picture and leaves it there; a dumb one gets a line for each change."""

from __future__ import annotations

import asyncio
import io
import shlex
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from rich.console import Console

from rollouts.cli.commands.get import show
from rollouts.cli.demo.manifests import BAD, SECOND, rollout, with_image
from rollouts.cli.view.follow import Collection, following
from rollouts.objects import ROLLOUT
from tests.cli.runs import Served
from tests.cli.shop import Shop
from tests.patience import PATIENCE_S


class Pane:
    """One command in a tmux of its own, of 80 columns and 24 lines."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def tmux(self, *words: str) -> str:
        """What tmux answers."""
        process = await asyncio.create_subprocess_exec(
            "tmux", "-S", str(self._socket), "-f", "/dev/null", *words,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        answer, _ = await process.communicate()
        assert process.returncode == 0, answer
        return answer.decode()

    async def shows(self, text: str) -> list[str]:
        """The lines of the screen, as soon as the text is among them. Raises: AssertionError."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + PATIENCE_S
        while loop.time() < deadline_s:
            screen = await self.tmux("capture-pane", "-p", "-t", "0")
            if text in screen:
                return screen.rstrip("\n").splitlines()
            await asyncio.sleep(0.1)
        raise AssertionError(f"{text!r} was not shown; this was:\n{screen}")


@asynccontextmanager
async def pane(folder: Path, script: str) -> AsyncIterator[Pane]:
    """Runs a script of a shell on the pane."""
    shown = Pane(folder / "tmux")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONUTF8", "1")
        environment.setenv("LC_ALL", "C.UTF-8")
        for name in ("CI", "COLUMNS"):
            environment.delenv(name, raising=False)
        await shown.tmux("new-session", "-d", "-x", "80", "-y", "40", script)
    try:
        yield shown
    finally:
        await shown.tmux("kill-server")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed: apt-get install tmux")
async def test_the_live_tree_leaves_what_was_there_and_its_last_picture(healthy: Shop, tmp_path: Path) -> None:
    """It is drawn in its place, above nothing that scrolled: one tree, the shell's lines around it, and the cursor below."""
    command = shlex.join([sys.executable, "-m", "rollouts", "get", "cart", "-w"])
    script = f"cd {shlex.quote(str(Path.cwd()))}; echo before; KUBECONFIG={tmp_path}/kubeconfig {command}; echo after $?; cat"
    async with pane(tmp_path, script) as shown:
        await shown.shows("Healthy")
        await healthy.stage.change("cart", with_image(SECOND))
        await shown.shows("▶ pause until promoted")
        await healthy.stage.change("cart", with_image(BAD))
        await shown.shows("podinfo:bad")
        await shown.tmux("send-keys", "-t", "0", "C-c")
        lines = await shown.shows("after 130")

    assert lines[0] == "before"
    assert lines[1].startswith("cart  rollouts-demo  Canary")
    assert sum("cart  rollouts-demo" in line for line in lines) == 1
    assert lines[-1] == "after 130"


async def test_a_dumb_terminal_gets_a_line_for_each_change(there: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Emacs' shell and some CI consoles cannot move the cursor. A picture that is never drawn looks like a hang."""
    monkeypatch.setenv("TERM", "dumb")
    out = io.StringIO()
    console = Console(file=out, force_terminal=True)
    session = there.session
    async with following(session, Collection(kind=ROLLOUT, namespace="default")) as followed:

        def names() -> list[str]:
            return [each["metadata"]["name"] for each in followed.all(ROLLOUT)]

        showing = asyncio.create_task(
            show(session, followed, console=console, seen=names, picture=lambda *_: "", text=lambda seen, _: seen,
                 ended=lambda seen: len(seen) == 2)
        )  # fmt: skip
        for name in ("a", "b"):
            await there.create(ROLLOUT, rollout("default", name, {"canary": {}}))
        async with asyncio.timeout(PATIENCE_S):
            await showing

    assert out.getvalue().split() == ["a", "b"]
