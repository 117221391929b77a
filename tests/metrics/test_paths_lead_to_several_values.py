"""Promise: a path of a recipe leads to what it says, in order, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.errors import ExpressionInvalid
from rollouts.metrics.member_paths import PATH_MAX, NotThereError, found_at, values_at

VALUE = {"a": [{"b": [1, 2], "t": "x"}, {"b": [3], "t": "y"}], "d.e": {"f": None}, "n": 5}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("", [VALUE]),
        ("n", [5]),
        ("a[*].b[*]", [1, 2, 3]),
        ("a[*].b[0]", [1, 3]),
        ("a[-1].b", [[3]]),
        ("a[?t=y].b[*]", [3]),
        ("a[?t=z].b[*]", []),
        ("['d.e'].f", [None]),
    ],
)
def test_a_path_leads_to_its_values(path: str, values: list[Any]) -> None:
    """Members, items, every item, and items with a member of some value."""
    assert values_at(VALUE, path) == values


@pytest.mark.parametrize("path", ["x", "a.b", "n[*]", "n.x", "a[5]", "a[*].x", "n[?t=x]", "['d.e'].f.g"])
def test_what_is_not_there_is_told(path: str) -> None:
    """Another form of answer is no empty one: nothing of it may be taken for numbers."""
    with pytest.raises(NotThereError):
        values_at(VALUE, path)
    assert found_at(VALUE, path) == []


@pytest.mark.parametrize("path", ["a[", "a[x]", "a..b", "a[*", "a b", "[?t]", "a" * (PATH_MAX + 1), "a." * 25 + "a"])
def test_what_is_no_path_is_refused(path: str) -> None:
    """Without a part of it in the message."""
    with pytest.raises(ExpressionInvalid):
        values_at(VALUE, path)


def test_what_is_nothing_is_not_found() -> None:
    """A refusal is something that stands there: null, false, 0 and what is empty are none."""
    nothing: list[Any] = [None, False, 0, "", [], {}]
    assert [found_at({"e": value}, "e") for value in nothing] == [[]] * 6
    assert found_at({"e": "no"}, "e") == ["no"]
