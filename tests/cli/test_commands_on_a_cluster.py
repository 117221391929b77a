"""The commands as people type them, on a simulated cluster over HTTP with the real controller on it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import sys
import termios
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from rollouts.cli.demo.manifests import BAD, IMAGE, SECOND, rollout, service, with_image
from rollouts.cli.demo.stage import DemoStage, simulated_stage
from rollouts.cli.main import main
from rollouts.cli.view.objects import RolloutObjects, status_of
from rollouts.objects import Manifest

STEPS = {"canary": {"maxSurge": 1, "maxUnavailable": 0, "steps": [{"setWeight": 50}, {"pause": {}}]}}
PATIENCE_S = 20.0


@dataclass(frozen=True)
class Shop:
    """A cluster with one Rollout, and its kubeconfig."""

    stage: DemoStage
    kubeconfig: Path

    async def run(self, *words: str) -> int:
        """One command line, in a thread of its own, as a process of its own would run it."""
        return await asyncio.to_thread(main, [*words, "--kubeconfig", str(self.kubeconfig)])

    async def reaches(self, phase: str) -> RolloutObjects:
        """Waits for the Rollout's phase, of the latest spec."""

        def holds(seen: RolloutObjects) -> bool:
            status = status_of(seen.rollout)
            return status.phase == phase and status.observed_generation == seen.rollout["metadata"]["generation"]

        return await self.stage.until("cart", holds, deadline_s=PATIENCE_S, what=phase)


@contextlib.asynccontextmanager
async def shop(
    tmp_path: Path, *, strategy: Manifest = STEPS, templates: Iterable[Manifest] = ()
) -> AsyncIterator[Shop]:
    """One Rollout of two pods, Healthy, and AnalysisTemplates."""
    kubeconfig = tmp_path / "kubeconfig"
    async with simulated_stage(serve=kubeconfig, seed=3) as stage:
        manifest = rollout(stage.namespace, "cart", strategy)
        manifest["spec"]["replicas"] = 2
        await stage.install([*templates, service(stage.namespace, "cart", app="cart"), manifest])
        there = Shop(stage, kubeconfig)
        await there.reaches("Healthy")
        yield there


async def test_an_update_is_watched_promoted_and_rolled_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The life of an update by commands alone, with the exit codes that a script would go by."""
    async with shop(tmp_path) as there:
        assert await there.run("status", "cart") == 0
        await there.stage.change("cart", with_image(SECOND))
        await there.reaches("Paused")
        capsys.readouterr()

        assert await there.run("status", "cart") == 3
        assert "step 1/2 (pause until promoted), weight 50 %" in capsys.readouterr().out
        assert await there.run("status", "cart", "-w", "--timeout", "1s") == 3
        assert "not finished after 1 s" in capsys.readouterr().out

        assert await there.run("promote", "cart") == 0
        said = capsys.readouterr().out
        assert "@1: lets revision" in said and "the controller has recorded the command" in said
        assert await there.run("status", "cart", "-w") == 0

        capsys.readouterr()
        assert await there.run("history", "cart") == 0
        assert "possible" in capsys.readouterr().out
        assert await there.run("rollback", "cart", "--to", "1") == 0
        await there.reaches("Paused")
        assert await there.run("promote", "cart", "--full") == 0
        seen = await there.reaches("RolledBack")
        assert await there.run("status", "cart") == 1
        assert "rolled back from revision" in capsys.readouterr().out
        serving = status_of(seen.rollout).stable_revision
        assert (
            next(each for each in seen.replica_sets if each["metadata"]["name"].endswith(serving))["spec"]["template"][
                "spec"
            ]["containers"][0]["image"]
            != f"{IMAGE}:{SECOND}"
        )


async def test_an_update_is_aborted_and_retried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A script must say --yes: a prompt that nobody answers is a job that hangs."""
    async with shop(tmp_path) as there:
        await there.stage.change("cart", with_image(BAD))
        await there.reaches("Progressing")

        assert await there.run("abort", "cart") == 2
        assert "add --yes" in capsys.readouterr().err
        assert await there.run("abort", "cart", "--yes") == 0
        assert await there.run("status", "cart", "-w") == 1
        assert await there.run("abort", "cart", "--yes") == 0, "an abort that stands is as good as done"
        assert await there.run("promote", "cart") == 1
        assert "retry it first" in capsys.readouterr().err
        assert await there.run("retry", "cart") == 0
        assert await there.run("status", "cart") == 3


async def test_pause_resume_and_restart_are_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command's record is what the CLI waits for, also the absence of one."""
    async with shop(tmp_path) as there:
        for words in (("pause", "cart"), ("resume", "cart"), ("restart", "cart")):
            assert await there.run(*words) == 0, words
            assert "the controller has recorded the command" in capsys.readouterr().out
        assert await there.run("resume", "cart") == 1


async def test_rollouts_are_listed_and_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A table for people, whole manifests for programs."""
    async with shop(tmp_path) as there:
        capsys.readouterr()
        assert await there.run("get") == 0
        header, row = capsys.readouterr().out.splitlines()
        assert header.startswith("NAME") and row.split()[:2] == ["cart", "Healthy"]

        assert await there.run("list", "-l", "app=other") == 0
        assert "no Rollouts found in namespace rollouts-demo with labels app=other" in capsys.readouterr().err
        await there.stage.change("cart", [{"op": "add", "path": "/metadata/labels", "value": {"tier": "web"}}])
        assert await there.run("list", "-A", "-l", "tier=web") == 0
        assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["rollouts-demo", "cart"]

        assert await there.run("get", "-A", "-o", "json") == 0
        listed = json.loads(capsys.readouterr().out)
        assert [(item["kind"], item["metadata"]["name"]) for item in listed["items"]] == [("Rollout", "cart")]
        assert await there.run("get", "cart", "-o", "yaml") == 0
        document = yaml.safe_load(capsys.readouterr().out)
        assert document["status"]["phase"] == "Healthy"
        assert "managedFields" not in document["metadata"]

        assert await there.run("get", "cart") == 0
        tree = capsys.readouterr().out
        assert "stable  2/2 ready" in tree and tree.count(" Ready ") == 2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("get", "nobody"), 4, "there is no Rollout nobody in namespace rollouts-demo"),
        (("status", "nobody", "-w"), 4, "there is no Rollout nobody"),
        (("promote", "nobody"), 4, "there is no Rollout nobody in namespace rollouts-demo, nor any other"),
        (("undo", "nobody"), 4, "there is no Rollout nobody"),
        (("set", "image", "nobody", "app=x:1"), 4, "there is no Rollout nobody"),
        (("set", "image", "cart", "app"), 2, "write CONTAINER=IMAGE"),
        (("delete", "nobody"), 2, "no terminal to confirm the deletion: add --yes"),
        (("diff",), 2, "name a Rollout, or give -f FILE"),
        (("promote", "cart", "--full", "--step", "1"), 2, "cannot be combined"),
        (("promote", "cart", "--full", "--gate", "background"), 2, "cannot be combined"),
        (("get", "cart", "-A"), 2, "remove -A"),
        (("get", "cart", "-l", "a=b"), 2, "remove -l"),
        (("get", "-w", "-o", "yaml"), 2, "cannot be combined"),
        (("status", "cart", "--timeout", "soon"), 2, "not a duration"),
        (("get", "--context", "elsewhere"), 4, "elsewhere"),
    ],
)
async def test_what_cannot_be_done_is_said_with_its_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, said: str
) -> None:
    """2 is the caller's command line, 4 the cluster's answer; a script may retry only one of them."""
    async with simulated_stage(serve=tmp_path / "kubeconfig", seed=3) as stage:
        there = Shop(stage, tmp_path / "kubeconfig")

        assert await there.run(*words) == code
        error = " ".join(capsys.readouterr().err.replace("│", " ").split())
        assert said in error


@pytest.mark.long
async def test_on_a_terminal_the_tree_lives_and_an_abort_asks(tmp_path: Path) -> None:
    """A real pseudo-terminal: the live tree is drawn again when the Rollout moves, and Enter alone does not abort."""
    async with shop(tmp_path) as there, terminal(there, "get", "cart", "-w") as live:
        await live.shows("cart  rollouts-demo  Canary  Healthy")
        await there.stage.change("cart", with_image(SECOND))
        await live.shows("▶ pause until promoted")
        await live.shows("canary  1/1 ready")

        async with terminal(there, "abort", "cart") as asked:
            await asked.shows("Go on? [y/N]")
            asked.types("\n")
            await asked.shows("nothing was changed")
            assert await asked.ends() == 1
        async with terminal(there, "abort", "cart") as asked:
            await asked.shows("Go on? [y/N]")
            asked.types("y\n")
            await asked.shows("the controller has recorded the command")
            assert await asked.ends() == 0
        await live.shows("Aborted")
        live.types("\x03")
        assert await live.ends() == 130


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
                while text.encode() not in without_escapes(self._shown):
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
async def terminal(there: Shop, *words: str) -> AsyncIterator[Terminal]:
    """Runs a command on a pseudo-terminal of 100 columns and 40 lines."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "PYTHONUTF8": "1", "NO_COLOR": "1"}
    environment.pop("CI", None)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rollouts", words[0], "--kubeconfig", str(there.kubeconfig), *words[1:],
        stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True,
        preexec_fn=_at_the_terminal,
    )  # fmt: skip
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


def without_escapes(shown: bytes) -> bytes:
    """What a terminal would show of it: styles, cursor moves and line ends taken out."""
    return re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", shown)
