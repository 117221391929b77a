"""JSON Pointers (RFC 6901): how JSON Patch, and the tools that ignore fields by path, name a place in a JSON value."""

from __future__ import annotations


def json_pointer(*steps: str | int) -> str:
    """The pointer from the root along these steps: names in objects, indexes in lists."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)


def steps_of(pointer: str) -> list[str]:
    """The steps of a pointer; [] for the root."""
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
