"""Promise: the rule that an entry of a proxy belongs to is the most specific one, and is found without a look at all rules."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import pytest

from rollouts.core.model.traffic import MatchKind, NamedMatch, RequestMatch, RuleSaid, Split, TextMatch
from rollouts.probes.verdict import Entry, FiledRules, RequestCondition, judged
from tests.hostile.work import lines_of

PATHS = ("", "/", "/a", "/a/", "/a/b", "/a/bc", "/b", "a", "//", "/a/b/c")
HEADERS = ("x", "y", "z")


def on_path(kind: MatchKind, number: int) -> tuple[RequestMatch, Entry]:
    path = TextMatch(kind, f"/p{number}")
    return RequestMatch(path=path), Entry(where="w", group="g", path=path)


def on_header(number: int) -> tuple[RequestMatch, Entry]:
    """A header of its own, beside one that all have."""
    both = ("all", "1"), ("x", str(number))
    request = RequestMatch(headers=tuple(NamedMatch(name, TextMatch(MatchKind.EXACT, value)) for name, value in both))
    conditions = frozenset(RequestCondition(name, value) for name, value in both)
    return request, Entry(where="w", group="g", conditions=conditions)


def in_group(number: int) -> tuple[RequestMatch, Entry]:
    return RequestMatch(), Entry(where="w", group=f"g{number}", stable=Fraction(1))


@pytest.mark.parametrize(
    "make",
    [partial(on_path, MatchKind.PREFIX), partial(on_path, MatchKind.EXACT), on_header, in_group],
    ids=["on a path", "on an exact path", "on a header", "in a group"],
)
def test_twice_the_rules_and_entries_are_twice_the_work(make: Callable[[int], tuple[RequestMatch, Entry]]) -> None:
    """A tenant may write 512 rules, and each is an entry of the proxy: that each looked at each was half a second."""

    def judge(size: int) -> None:
        both = [make(number) for number in range(size)]
        rules = [RuleSaid(users=True, requests=(request,), stable=Fraction(1)) for request, _ in both]
        judged([entry for _, entry in both], Split(Fraction(1, 2)), rules)

    half, whole = (lines_of(partial(judge, size)) for size in (128, 256))

    assert whole < 2.3 * half


def rule_of(entry: Entry, rules: list[RuleSaid]) -> RuleSaid | None:
    """The oracle: all that take the entry, and of these the most specific one, the first of several."""
    found = [
        ((len(request.path.value) if request.path else 0, len(request.headers), not rule.users), -place, rule)
        for place, (rule, request) in enumerate((rule, request) for rule in rules for request in rule.requests)
        if takes(entry, request, below=rule.below)
    ]
    return max(found, key=lambda each: each[:2])[2] if found else None


def takes(entry: Entry, request: RequestMatch, *, below: bool) -> bool:
    """Whether all requests of the entry meet the match."""
    there = {(each.name, each.value) for each in entry.conditions}
    for each in request.headers:
        value = each.value.value if each.value.kind is MatchKind.EXACT else None
        if (each.name, value) not in there and not (value is None and each.name in {name for name, _ in there}):
            return False
    if request.path is None:
        return True
    if entry.path is None:
        return False
    kinds = (request.path.kind, entry.path.kind)
    mine, its = request.path.value, entry.path.value
    if kinds == (MatchKind.REGEX, MatchKind.REGEX):
        return True
    if kinds == (MatchKind.EXACT, MatchKind.EXACT):
        return mine == its or (below and its.endswith(mine))
    if request.path.kind is MatchKind.PREFIX and entry.path.kind is not MatchKind.REGEX:
        mine, its = mine.rstrip("/"), its.rstrip("/")
        return its == mine or its.startswith(mine + "/") or (below and its.endswith(mine))
    return False


def test_it_is_the_one_that_a_look_at_all_finds() -> None:
    """Whatever the paths, headers and ranks are."""
    rng = random.Random(8)  # noqa: S311 - a test's
    found = 0
    for _ in range(3_000):
        rules = [a_rule(rng) for _ in range(rng.randrange(8))]
        conditions = frozenset(
            RequestCondition(name, rng.choice([None, "1", "2"])) for name in HEADERS if rng.random() < 0.5
        )
        entry = Entry(where="w", group="g", path=a_path(rng), conditions=conditions)
        expected = rule_of(entry, rules)
        found += expected is not None

        assert FiledRules(rules).of(entry) is expected

    assert found > 500


def a_rule(rng: random.Random) -> RuleSaid:
    requests = tuple(a_request(rng) for _ in range(rng.randrange(3)))
    return RuleSaid(users=rng.random() < 0.5, below=rng.random() < 0.2, requests=requests)


def a_request(rng: random.Random) -> RequestMatch:
    headers = tuple(
        NamedMatch(name, TextMatch(rng.choice([MatchKind.EXACT, MatchKind.REGEX]), rng.choice("12")))
        for name in HEADERS
        if rng.random() < 0.3
    )
    return RequestMatch(path=a_path(rng), headers=headers)


def a_path(rng: random.Random) -> TextMatch | None:
    return None if rng.random() < 0.3 else TextMatch(rng.choice(list(MatchKind)), rng.choice(PATHS))
