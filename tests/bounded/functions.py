"""Functions for a bounded process: it imports this module, and not what tests need besides."""

from __future__ import annotations

import json
import math
import os
import re

PIPE = "TESTS_BOUNDED_PIPE"  # names the pipe that `held_import` waits for


def endless(number: int) -> int:
    """Takes minutes, in C and without a look at signals."""
    return math.factorial(number * 10**7)


def backtracking(text: str) -> bool:
    """Takes for ever, in another library."""
    return re.match("(a*)*b", text) is not None


def decoded(text: str) -> object:
    """A value that is made there."""
    return json.loads(text)


def root_of(number: float) -> float:
    """Fails for negative numbers."""
    return math.sqrt(number)


def large(size_bytes: int) -> bytearray:
    """As much memory."""
    return bytearray(size_bytes)


def gone(code: int) -> None:
    """Ends the process."""
    os._exit(code)
