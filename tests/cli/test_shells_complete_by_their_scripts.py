"""The scripts of `rollouts completion` in real shells: what the Tab key offers."""

from __future__ import annotations

import asyncio
import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

from rollouts.cli.completion import Shell, script
from tests.cli.test_names_are_completed import program, with_path

FISH, ZSH = (shutil.which(name) for name in ("fish", "zsh"))
PATIENCE_S = 60.0


@pytest.mark.skipif(FISH is None, reason="fish is not installed")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [("rollouts get -o j", ["json"]), ("rollouts lint -f some", ["some.yaml"]), ("rollouts crds ", [])],
)
def test_fish_offers_words_and_files(tmp_path: Path, typed: str, offered: list[str]) -> None:
    """Files only where a file may come."""
    program(tmp_path / "bin", "rollouts")
    (tmp_path / "some.yaml").touch()
    line = f"{script(Shell.FISH)}\ncomplete -C '{typed}'"
    environment = with_path(tmp_path / "bin") | {"HOME": str(tmp_path)}

    done = subprocess.run(["fish", "-N", "-c", line], env=environment, cwd=tmp_path,
                          capture_output=True, text=True, check=True)  # fmt: skip

    assert [each.partition("\t")[0] for each in done.stdout.split("\n") if each] == offered, done.stderr


@pytest.mark.skipif(ZSH is None, reason="zsh is not installed")
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("get -o j", "get -o json"),
        ("lint -f some", "lint -f some.yaml"),
        ("undo cart --to-r", "undo cart --to-revision"),
    ],
)
async def test_zsh_completes_the_word_at_the_cursor(tmp_path: Path, typed: str, completed: str) -> None:
    """On a terminal of its own: the line editor answers the Tab key only there."""
    program(tmp_path / "bin", "rollouts")
    (tmp_path / "some.yaml").touch()
    setup = f"autoload -Uz compinit; compinit -D\n{script(Shell.ZSH)}\nPS1='ready> '; unsetopt zle_bracketed_paste\n"
    (tmp_path / ".zshrc").write_text(setup)
    environment = with_path(tmp_path / "bin") | {"ZDOTDIR": str(tmp_path), "HOME": str(tmp_path), "TERM": "dumb"}
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        "zsh",
        "-d",
        "-i",
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        cwd=tmp_path,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.to_thread(_read_until, ours, "ready> ")
            os.write(ours, f"rollouts {typed}\t".encode())
            assert completed in await asyncio.to_thread(_read_until, ours, completed)
    finally:
        process.kill()
        await process.wait()
        os.close(ours)


def _read_until(terminal: int, wanted: str) -> str:
    """What the shell has written when `wanted` is in it, or when it has ended."""
    text = ""
    while wanted not in text:
        try:
            text += os.read(terminal, 4096).decode(errors="replace").replace("\x08", "")
        except OSError:  # Linux: the other end is closed
            return text
    return text
