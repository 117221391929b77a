"""Promise: what anybody writes costs work in proportion to its length, up to a length that is bounded: nobody stops the others.

Work is counted in lines of the package that run, so no clock is asked. `python -m tests.hostile` looks for slow inputs by CPU.
"""

from __future__ import annotations

import copy
from fractions import Fraction
from functools import partial
from typing import Any

import pytest

from rollouts.core.model.traffic import Split
from rollouts.errors import Unroutable
from tests.hostile.entry_points import ELSEWHERE, ENTRY_POINTS, OF_A_BROKEN_SERVER, EntryPoint
from tests.hostile.work import TooMuch, lines_of
from tests.traffic.cases.all_cases import CASES
from tests.traffic.cases.case import Case
from tests.traffic.situation import Situation

SIZE_MAX = 2_000
"""Characters or items of the largest input: what is not linear shows long before."""

STEPS = 300
"""Lines that do not grow with the input: a first import, a cache that is filled, a message that begins at some length."""


def costs(entry: EntryPoint) -> list[int]:
    """Lines for an input of a quarter of the size, of half of it, and of all of it."""
    most = min(entry.most, SIZE_MAX)
    entry.call(entry.make(8))  # what is made once
    return [lines_of(partial(entry.call, entry.make(size))) for size in (most // 4, most // 2, most)]


@pytest.mark.parametrize("entry", (*ENTRY_POINTS, *ELSEWHERE, *OF_A_BROKEN_SERVER), ids=lambda each: each.name)
def test_twice_the_input_is_at_most_twice_the_work(entry: EntryPoint) -> None:
    """A tenant may write 256 KiB into an annotation, and 1.5 MiB into an object: what is quadratic in that takes hours."""
    quarter, half, whole = costs(entry)

    assert half <= 2.2 * quarter + STEPS
    assert whole <= 2.2 * half + STEPS


def test_what_is_quadratic_is_found() -> None:
    """The count sees loops in loops of the package's own code; patterns have a test of their own."""

    one = ENTRY_POINTS[0]

    def quadratic(text: str) -> None:
        for _ in range(len(text) ** 2 // 10_000):
            one.call(one.make(200))

    planted = EntryPoint("planted", lambda size: "x" * size, quadratic, 1_000)
    quarter, half, whole = costs(planted)

    assert whole > 3 * half > 9 * quarter


def test_what_has_no_end_is_ended() -> None:
    """Services of Traefik that lead to services had 4^9 ways, and a tenant's own 20^9."""
    entry = next(each for each in ENTRY_POINTS if each.name.startswith("services in services"))

    assert lines_of(partial(entry.call, entry.make(36))) < 20_000
    with pytest.raises(TooMuch):
        lines_of(partial(entry.call, entry.make(900)), most=100)


LONG_LISTS = {
    "VirtualService": ("spec", "http"),
    "ApisixRoute": ("spec", "http"),
    "RouteTable": ("spec", "routes"),
    "declared ApisixRoute": ("spec", "http"),
}


@pytest.mark.parametrize("case", [each for each in CASES if each.name in LONG_LISTS], ids=lambda each: each.name)
def test_a_route_with_hundreds_of_rules_is_read_in_proportion_and_one_with_thousands_is_refused(case: Case) -> None:
    """Gateway API has 16 rules; a VirtualService has as many as 1 MiB holds, and each pass compares all of them."""

    def there(rules: int) -> Situation:
        user = copy.deepcopy(case.example)
        user["metadata"] |= {"namespace": "shop", "annotations": {}}
        found: Any = user
        for step in LONG_LISTS[case.name]:
            found = found[step]
        found += [copy.deepcopy(found[-1]) for _ in range(rules - len(found))]
        return Situation.of(case.provider, case.settings, user, case.context)

    def passes(route: Situation) -> None:
        managed = route.managed(Split(Fraction(1, 4)))
        managed.read()
        managed.plan(Split(Fraction(1, 2)))
        managed.release()

    few, many = (lines_of(partial(passes, there(rules)), most=50_000_000) for rules in (100, 200))

    assert many <= 2.2 * few
    with pytest.raises(Unroutable, match="512 are followed"):
        there(10_000).read()
