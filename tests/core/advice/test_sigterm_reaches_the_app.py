"""A command line says whether a shell will keep SIGTERM from the app."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from shutil import which

import pytest

from rollouts.core.advice.graceful_exit import Reach, sigterm, sleep_s_of


@pytest.mark.parametrize(
    ("script", "reach"),
    [
        ("exec app --port 80", Reach.REACHES),
        ("migrate && exec app", Reach.REACHES),
        ('echo "a; b" && exec app', Reach.REACHES),
        ("if ready; then exec app; fi", Reach.REACHES),
        ("trap 'kill $p' TERM; app & p=$!; wait", Reach.REACHES),
        ("app", Reach.DEPENDS),
        ("migrate; app", Reach.DEPENDS),
        (". /env\n# comment\nFOO=1 app", Reach.DEPENDS),
        ("app 2>&1 | tee /log", Reach.SWALLOWED),
        ("app > /log", Reach.SWALLOWED),
        ("app & wait", Reach.SWALLOWED),
        ("while true; do app; done", Reach.SWALLOWED),
        ("echo 'not closed", Reach.REACHES),
    ],
)
def test_what_a_script_does_with_a_signal(script: str, reach: Reach) -> None:
    """Only what is certain in the text is called swallowed: advice that is often wrong is read by nobody."""
    assert sigterm(["/bin/sh", "-c", script]) is reach
    assert sigterm(["bash", "-e", "-c", script]) is reach


@pytest.mark.parametrize(
    "words",
    [
        ["app", "-c", "x | y"],
        ["tini", "--", "sh", "-c", "app | tee"],
        ["sh", "/start.sh"],
        ["sh", "/start.sh", "-c", "x"],
        ["sh", "-c"],
        ["sh", "-c", "app | tee;" * 1_000],  # too long to be judged in a pass
        ["sh", "-" + "c" * 100_000, "app | tee"],
        [],
    ],
)
def test_without_a_shell_script_as_process_1_nothing_speaks_against_it(words: list[str]) -> None:
    """A script in the image, or the image's own command, cannot be seen from a manifest."""
    assert sigterm(words) is Reach.REACHES


@pytest.mark.skipif(
    which("dash") is None or not sys.platform.startswith("linux"), reason="needs dash, the sh of Debian's images"
)
@pytest.mark.parametrize(
    ("shell", "script", "gives_way"),
    [("dash", "exec sleep 9", True), ("dash", "true; sleep 9", False), ("bash", "true; sleep 9", True),
     ("bash", "sleep 9 | cat", False), ("bash", "sleep 9 > /dev/null", False)],
)  # fmt: skip
def test_shells_behave_as_the_rule_says(shell: str, script: str, gives_way: bool) -> None:
    """The difference between `depends` and `swallowed` is a measured one: real shells, asked by what their process became."""
    program = which(shell)
    assert program is not None
    with subprocess.Popen([program, "-c", script]) as process:
        try:
            seen = _name_when_settled(process.pid)
        finally:
            process.kill()

    assert (seen == "sleep") is gives_way


def _name_when_settled(pid: int) -> str:
    """The process's name once a `sleep` runs, in it or below it."""
    deadline_s = time.monotonic() + 5
    while time.monotonic() < deadline_s:
        names = [Path(f"/proc/{each}/comm").read_text(encoding="utf-8").strip() for each in (pid, *_children(pid))]
        if "sleep" in names:
            return names[0]
    raise AssertionError(f"no sleep was started: {names}")


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        (["sleep", "5"], 5),
        (["/bin/sleep", "5s"], 5),
        (["sh", "-c", "sleep 15"], 15),
        (["/bin/sh", "-c", "exec sleep 15"], 15),
        (["sh", "-c", "flush; sleep 15"], None),
        (["sleep", "$X"], None),
        (["sleep", "9" * 5_000], None),  # Python reads no number of over 4,300 digits: it ended each pass
        (["sleep", "²"], None),
        ([], None),
    ],
)
def test_the_length_of_a_sleep_is_read_where_it_is_plain(words: list[str], seconds: int | None) -> None:
    """A preStop of five seconds is too short whether it is written as `sleep` or as `exec`."""
    assert sleep_s_of(words) == seconds
