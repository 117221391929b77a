"""The smallest sensible JSON Patch (RFC 6902) from one version of an object to another.

A `test` precedes each value that is replaced or removed. The driver's precondition already turns a change in between into a
conflict; the tests are a second safety net, for a patch that is applied by hand, or after a mistake of ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any

from rollouts.json_pointer import json_pointer
from rollouts.objects import Manifest
from rollouts.traffic.codec import Op, PatchUser


def patch_of(before: Manifest, after: Manifest) -> tuple[Op, ...]:
    """The write that turns the user's object `before` into `after`; () when they are equal."""
    found = operations(before, after)
    return (PatchUser(found),) if found else ()


def operations(before: Manifest, after: Manifest) -> tuple[Mapping[str, Any], ...]:
    """The operations that turn `before` into `after`; () when they are equal."""
    return tuple(_between(before, after, ""))


def _between(before: Any, after: Any, path: str) -> Iterator[Mapping[str, Any]]:
    if before == after and type(before) is type(after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _in_map(before, after, path)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _in_list(before, after, path)
    else:
        yield {"op": "test", "path": path, "value": before}
        yield {"op": "replace", "path": path, "value": after}


def _in_map(before: Manifest, after: Manifest, path: str) -> Iterator[Mapping[str, Any]]:
    for name, value in before.items():
        there = path + json_pointer(name)
        if name in after:
            yield from _between(value, after[name], there)
        else:
            yield {"op": "test", "path": there, "value": value}
            yield {"op": "remove", "path": there}
    for name, value in after.items():
        if name not in before:
            yield {"op": "add", "path": path + json_pointer(name), "value": value}


def _in_list(before: list[Any], after: list[Any], path: str) -> Iterator[Mapping[str, Any]]:
    """Changes of a list, from the end to the beginning, so that each index is still right when its operation runs."""
    old, new = ([json.dumps(item, sort_keys=True) for item in items] for items in (before, after))
    for tag, i1, i2, j1, j2 in reversed(SequenceMatcher(None, old, new, autojunk=False).get_opcodes()):
        if tag != "equal":
            yield from _in_block(before[i1:i2], after[j1:j2], path, first=i1)


def _in_block(before: list[Any], after: list[Any], path: str, *, first: int) -> Iterator[Mapping[str, Any]]:
    """Changes of one block: the shorter list is compared with the most similar part of the longer, the rest added or removed."""
    paired = min(len(before), len(after))
    offsets = range(abs(len(before) - len(after)) + 1)
    if len(before) > len(after):
        skip = max(offsets, key=lambda at: _likeness(before[at : at + paired], after))
        yield from _removed(before, range(skip + paired, len(before)), path, first=first)
        yield from _pairs(before[skip : skip + paired], after, path, first=first + skip)
        yield from _removed(before, range(skip), path, first=first)
        return
    skip = max(offsets, key=lambda at: _likeness(before, after[at : at + paired]))
    for item in reversed(after[skip + paired :]):
        yield {"op": "add", "path": path + json_pointer(first + paired), "value": item}
    yield from _pairs(before, after[skip : skip + paired], path, first=first)
    for item in reversed(after[:skip]):
        yield {"op": "add", "path": path + json_pointer(first), "value": item}


def _pairs(before: list[Any], after: list[Any], path: str, *, first: int) -> Iterator[Mapping[str, Any]]:
    for at, (old, new) in enumerate(zip(before, after, strict=True), start=first):
        yield from _between(old, new, path + json_pointer(at))


def _removed(items: list[Any], places: range, path: str, *, first: int) -> Iterator[Mapping[str, Any]]:
    for at in reversed(places):
        yield {"op": "test", "path": path + json_pointer(first + at), "value": items[at]}
        yield {"op": "remove", "path": path + json_pointer(first + at)}


def _likeness(before: list[Any], after: list[Any]) -> int:
    return sum(
        sum(1 for name in old if name in new and old[name] == new[name])
        for old, new in zip(before, after, strict=True)
        if isinstance(old, dict) and isinstance(new, dict)
    )
