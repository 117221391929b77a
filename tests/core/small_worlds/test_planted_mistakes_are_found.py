"""Promise: the search has teeth: a mistake in one rule of the policy is found in a small world, by the right invariant.

`pytest -rP` prints the table.
"""

from __future__ import annotations

import pytest

from rollouts.core.model.frozen import replace
from tests.core.small_worlds.paths import assert_path_is_safe
from tests.core.small_worlds.planted import MISTAKES
from tests.core.small_worlds.search import FoundError, explored
from tests.core.small_worlds.world_list import ALL, QUICK


def test_each_rule_has_its_planted_mistake() -> None:
    """Those of traffic, pods, steps, pauses and drains, and that everything comes to rest; in the worlds of the quick lane."""
    found = {each.rule for each in MISTAKES.values() if each.world in QUICK}

    assert found >= {"S1", "S2", "S3", "S4", "S5", "S8", "S9", "S24", "not at rest", "no end"}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the rule that it breaks, with a shortest path; and that leads to it in the world as it is, which nothing normalizes."""
    mistake = MISTAKES[name]
    start = ALL[mistake.world].start()  # an update that begins in a world that is right
    small = replace(ALL[mistake.world], start=lambda: start)
    mistake.plant(monkeypatch)

    with pytest.raises(FoundError) as found:
        explored(small)

    peer = f" (like {mistake.peer})" if mistake.peer else ""
    print(f"{name}{peer}: {found.value.rule} in {mistake.world!r} after {len(found.value.path)} moves")
    assert (found.value.rule, len(found.value.path)) == (mistake.rule, mistake.moves)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        assert_path_is_safe(small, found.value.path)
