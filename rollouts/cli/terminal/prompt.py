"""The one question that commands ask on a terminal."""

from __future__ import annotations

import signal

import typer


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
