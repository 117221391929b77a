"""Ctrl-C at a question ends the command at once, and nothing is done."""

from __future__ import annotations

import io
import signal
import sys

import pytest
import typer

from rollouts.cli.exits import Exit
from rollouts.cli.terminal.options import finish
from rollouts.cli.terminal.prompt import confirmed


class Terminal(io.StringIO):
    """Somebody presses Ctrl-C, and then the key that was meant at first."""

    def readline(self, _: int | None = -1, /) -> str:  # type: ignore[override]
        """Raises: KeyboardInterrupt, if the handler of SIGINT does."""
        signal.raise_signal(signal.SIGINT)
        return "y\n"


def ended(monkeypatch: pytest.MonkeyPatch, terminal: io.StringIO) -> tuple[int, list[str]]:
    """The exit code of a command that asks, and what it has done."""
    done: list[str] = []

    async def command() -> Exit:
        if not confirmed("deletes shop/cart. Go on?"):
            return Exit.BAD
        done.append("deleted")
        return Exit.OK

    monkeypatch.setattr(sys, "stdin", terminal)
    with pytest.raises(typer.Exit) as exit_:
        finish(command())
    return exit_.value.exit_code, done


def test_ctrl_c_at_a_prompt_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio takes SIGINT for itself: the first Ctrl-C was swallowed, and the prompt stood there as before."""
    before = signal.getsignal(signal.SIGINT)

    assert ended(monkeypatch, Terminal()) == (130, [])
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(("typed", "end"), [("", (1, [])), ("y\n", (0, ["deleted"]))], ids=["Ctrl-D", "y"])
def test_only_a_yes_goes_on(monkeypatch: pytest.MonkeyPatch, typed: str, end: tuple[int, list[str]]) -> None:
    """Ctrl-D answers nothing, so nothing is done; the exit code is that of a no."""
    assert ended(monkeypatch, io.StringIO(typed)) == end
