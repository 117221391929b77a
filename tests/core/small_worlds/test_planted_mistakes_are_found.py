"""Promise: the search has teeth: a mistake in one rule of the policy is found in a small world, by the right invariant.

`pytest -rP` prints the table.
"""

from __future__ import annotations

import re

import pytest

from rollouts.core.model.frozen import replace
from tests.core.small_worlds.paths import assert_path_is_safe
from tests.core.small_worlds.planted import MISTAKES, NOT_HERE
from tests.core.small_worlds.search import FoundError, explored
from tests.core.small_worlds.world_list import ALL, QUICK


def test_each_rule_has_its_planted_mistake() -> None:
    """Each safety invariant, and that everything comes to rest; not S14 and S21: no configuration and no autoscaling is here."""
    rules = {f"S{number}" for number in (*range(1, 11), 12, 13, 15, 24, 25, 29)} | {"L3", "not at rest", "no end"}

    assert {each.found[0] for each in MISTAKES.values()} == rules
    assert {each.found[1] for each in MISTAKES.values()} <= QUICK.keys()


def test_each_published_outage_has_its_planted_mistake() -> None:
    """P1 to P26, those of our peers, or a word why no small world can have it."""
    told = {peer for each in MISTAKES.values() for peer in re.findall(r"\bP\d+", each.peer)}

    print(*(f"{peer} is not here: {why}" for peer, why in NOT_HERE.items()), sep="\n")
    assert sorted([*told, *NOT_HERE]) == sorted(f"P{number}" for number in range(1, 27))


@pytest.mark.long
@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the rule that it breaks, with a shortest path; and that leads to it in the world as it is, which nothing normalizes."""
    mistake = MISTAKES[name]
    rule, world, moves = mistake.found
    start = ALL[world].start()  # an update that begins in a world that is right
    small = replace(ALL[world], start=lambda: start)
    mistake.plant(monkeypatch)

    with pytest.raises(FoundError) as found:
        explored(small)

    peer = f" (like {mistake.peer})" if mistake.peer else ""
    print(f"{name}{peer}: {found.value.rule} in {world!r} after {len(found.value.path)} moves")
    assert (found.value.rule, len(found.value.path)) == (rule, moves)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        assert_path_is_safe(small, found.value.path)
