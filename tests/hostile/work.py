"""Counts what Python code of the package does, so that a test of time needs no clock."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from tests.hostile.patterns import ROOT

_OURS = str(ROOT)


class TooMuch(Exception):
    """More lines than a test allows."""


def lines_of(call: Callable[[], object], *, most: int = 5_000_000) -> int:
    """How many lines of the package run during the call. Raises: TooMuch."""
    lines = 0

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        if lines > most:
            raise TooMuch(f"more than {most:,} lines")
        return line

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        return line if frame.f_code.co_filename.startswith(_OURS) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(before)
    return lines
