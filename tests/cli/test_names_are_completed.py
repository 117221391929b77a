"""The Tab key: commands, options, values and names from the cluster, in real shells and for kubectl's plugin completion."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from rollouts.cli.completion import Shell, complete, script
from rollouts.cli.main import app, main
from rollouts.cli.view.objects import status_of
from tests.cli.command_line import CommandLine
from tests.cli.pseudo_terminal import on_a_terminal
from tests.cli.shop import Shop

ROOT = Path(__file__).parents[2]


def offered(*words: str) -> list[str]:
    """The words that may come, and the directive."""
    return [line.partition("\t")[0] for line in complete(typer.main.get_command(app), words).splitlines()]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("un",), ["undo", ":4"]),
        (("analysis", ""), ["get", "list", "providers", "terminate", ":4"]),
        (("set", ""), ["image", ":4"]),
        (("get", "-o", ""), ["wide", "name", "json", "yaml", ":4"]),
        (("completion", "z"), ["zsh", ":4"]),
        (("undo", "cart", "--to"), ["--to-revision", "--token", ":4"]),
        (("-n", "shop", "get", "rollout", "cart", ""), [":4"]),
        (("get", "--as-"), ["--as-group", "--as-uid", ":4"]),
        (("promote", "cart", "--gate", "pre"), ["pre-promotion", ":4"]),
        (("lint", "-f", ""), [":0"]),
        (("explain", "Timed"), ["TimedPause", ":4"]),
        (("crds", ""), [":4"]),
        (("promote", "cart", ""), [":4"]),
    ],
)
def test_what_may_come_next_is_offered(words: tuple[str, ...], answer: list[str]) -> None:
    """Where a file may come the shell offers files (directive 0), else nothing but what is listed (directive 4)."""
    assert offered(*words) == answer


async def test_names_come_from_the_cluster(
    healthy: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of Rollouts with their phase, of revisions with their number, of namespaces; with the options that are typed before."""
    revision = status_of((await healthy.reaches("Healthy")).rollout).current_revision
    given = ["--kubeconfig", str(healthy.kubeconfig)]

    async def asked(*words: str) -> str:
        assert await asyncio.to_thread(main, ["__complete", *words]) == 0
        return capsys.readouterr().out

    assert await asked("get", *given, "") == "cart\tHealthy\n:4\n"
    assert await asked("get", *given, "-n", "elsewhere", "") == ":4\n"
    assert await asked("undo", *given, "cart", "--to-revision", "") == f"{revision}\t#1\n:4\n"
    assert await asked("list", *given, "-n", "rollouts-d") == "rollouts-demo\tActive\n:4\n"
    monkeypatch.setenv("KUBECONFIG", str(healthy.kubeconfig))
    assert await asked("delete", "cart", "c") == "cart\tHealthy\n:4\n"


def test_without_a_cluster_nothing_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Tab key is no place for an error."""
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")

    assert offered("get", "") == [":4"]


def program(folder: Path, name: str) -> None:
    """Puts a program on a PATH that runs this source tree."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    function = "complete" if name == "kubectl_complete-rollouts" else "main"
    path.write_text(
        f"#!{sys.executable}\nimport sys\nfrom rollouts.__main__ import {function}\nsys.exit({function}())\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def with_path(folder: Path) -> dict[str, str]:
    """The environment with that folder on the PATH, and no cluster."""
    path = f"{folder}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "KUBECONFIG": "/nonexistent"}


def test_bash_completes_by_the_script(tmp_path: Path) -> None:
    """The script as it is sourced, with the variables that bash sets."""
    program(tmp_path / "bin", "rollouts")
    line = "COMP_WORDS=(rollouts get -o j); COMP_CWORD=3; _rollouts; echo ${COMPREPLY[@]}"

    done = subprocess.run(["bash", "-c", f"{script(Shell.BASH)}\n{line}"], env=with_path(tmp_path / "bin"),
                          capture_output=True, text=True, check=True)  # fmt: skip

    assert done.stdout == "json\n", done.stderr


@pytest.mark.long
def test_kubectl_completes_its_plugin(tmp_path: Path, lab_programs: Path) -> None:
    """kubectl runs `kubectl_complete-rollouts` with the words, and passes on what it prints."""
    for name in ("kubectl-rollouts", "kubectl_complete-rollouts"):
        program(tmp_path / "bin", name)

    done = subprocess.run([lab_programs / "kubectl", "__complete", "rollouts", "se"], env=with_path(tmp_path / "bin"),
                          capture_output=True, text=True, check=True)  # fmt: skip

    assert done.stdout.splitlines() == [
        "set\tset an image, which starts an update",
        ":4",
    ]


@pytest.mark.parametrize("shell", list(Shell))
def test_every_shell_has_a_script(shell: Shell, typed: CommandLine) -> None:
    """`source <(rollouts completion SHELL)`."""
    assert "rollouts __complete" in typed("completion", shell).out


FISH, ZSH = (shutil.which(name) for name in ("fish", "zsh"))


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
    async with on_a_terminal("zsh", "-d", "-i", env=environment, cwd=tmp_path) as shown:
        await shown.shows("ready> ")
        shown.types(f"rollouts {typed}\t")
        await shown.shows(completed)
