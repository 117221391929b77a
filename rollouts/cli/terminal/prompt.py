"""The one question that commands ask on a terminal."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console

from rollouts.cli.exits import Exit
from rollouts.cli.terminal.options import fail

YesOption = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask for confirmation.")]


def confirmation(what: str, *, yes: bool) -> Callable[[str], bool] | None:
    """Who asks; None for nobody. Raises: typer.Exit, when somebody must be asked and there is no terminal."""
    if yes:
        return None
    if not sys.stdin.isatty():
        fail(f"there is no terminal to confirm {what}: add --yes")
        raise typer.Exit(Exit.USAGE)

    def asked(meaning: str) -> bool:
        Console().print(f"{meaning}.", markup=False, highlight=False)  # wrapped between words, which the prompt is not
        return confirmed("Go on?")

    return asked


def confirmed(question: str) -> bool:
    """Whether somebody says yes. The end of the input (Ctrl-D) is a no.

    asyncio's own handler of SIGINT only cancels the task: the prompt would go on, and Ctrl-C would seem to do nothing.

    Raises: KeyboardInterrupt at Ctrl-C. Source: CPython 3.11, asyncio/runners.py, `Runner._on_sigint`.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return typer.confirm(question)
    except typer.Abort as ended:
        print()  # the prompt's line has no end yet
        if isinstance(ended.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        return False
    finally:
        signal.signal(signal.SIGINT, before)
