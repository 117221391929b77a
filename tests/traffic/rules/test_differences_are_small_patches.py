"""Promise: the JSON Patch between two versions of an object makes one of the other, and says no more than it must."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rollouts.json_pointer import json_pointer, steps_of
from rollouts.sim.storage.patches import json_patch
from rollouts.traffic.rules.difference import operations

NAMES = st.sampled_from(["a", "b/c", "d~e", "weight"])
VALUES = st.recursive(
    st.integers(0, 3) | st.sampled_from(["x", "y"]) | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)


@given(before=OBJECTS, after=OBJECTS)
@settings(max_examples=200, deadline=None)
def test_a_patch_makes_one_of_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Whatever was put in, taken out or changed, in whichever order of a list."""
    patch = [dict(each) for each in operations(before, after)]

    assert json_patch(before, patch) == after
    assert bool(patch) == (before != after)


def test_a_weight_is_one_number() -> None:
    """Not the list, and not the backend: what others change beside it in a later version is not ours to write."""
    before = {"rules": [{"refs": [{"name": "a", "weight": 100}, {"name": "b", "weight": 0}]}]}
    after = {"rules": [{"refs": [{"name": "a", "weight": 95}, {"name": "b", "weight": 0}]}]}

    assert operations(before, after) == (
        {"op": "test", "path": "/rules/0/refs/0/weight", "value": 100},
        {"op": "replace", "path": "/rules/0/refs/0/weight", "value": 95},
    )


def test_an_item_put_into_a_list_leaves_the_others_where_they_are() -> None:
    """A managed route before a rule whose weights change in the same write, and a canary behind a stable backend."""
    before = {"rules": [{"match": "x", "weight": 1}, {"match": "y", "weight": 1}]}
    after = {"rules": [{"header": "h"}, {"match": "x", "weight": 2}, {"match": "y", "weight": 1}]}

    assert [each["op"] for each in operations(before, after)] == ["test", "replace", "add"]


def test_a_pointer_escapes_what_has_a_meaning() -> None:
    """RFC 6901: annotations have slashes in their names."""
    assert (
        json_pointer("metadata", "annotations", "rollouts.dev/a~b", 3) == "/metadata/annotations/rollouts.dev~1a~0b/3"
    )


@given(steps=st.lists(st.text()))
def test_what_is_read_of_a_pointer_is_what_was_written(steps: list[str]) -> None:
    """An escape that is undone in the wrong order would make `~1` of `~01`."""
    assert steps_of(json_pointer(*steps)) == steps
