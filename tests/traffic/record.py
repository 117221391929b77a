"""What each router's codec writes for splits of every kind, as texts that people read in a diff.

`python -m tests.traffic.record` writes them anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import groupby
from pathlib import Path

from rollouts.core.model.traffic import (
    ALL_TO_STABLE,
    ExperimentShare,
    MatchKind,
    MatchRoute,
    MirrorRoute,
    NamedMatch,
    RequestMatch,
    Split,
    Sticky,
    TextMatch,
)
from rollouts.errors import Unroutable
from rollouts.traffic.codec import ApplyOwned, Op, PatchUser
from tests.said import said
from tests.traffic.cases.all_cases import CASES
from tests.traffic.cases.case import Case
from tests.traffic.situation import A_TENTH, TESTERS, Situation, by_header, by_path

FILE = Path(__file__).parent / "written.txt"
_STAFF = MatchRoute("staff", by_header("x-staff", "y.*", MatchKind.REGEX))
_PREFIXED = MatchRoute("prefixed", by_header("x-user", "a.b", MatchKind.PREFIX))
_BY_PATH = MatchRoute("path", by_path("/cart", method=TextMatch(MatchKind.EXACT, "GET")))
_EXACTLY = MatchRoute("page", by_path("/cart/a.b", MatchKind.EXACT))
_COOKIE = MatchRoute(
    "cookie",
    RequestMatch(cookies=(NamedMatch("beta", TextMatch(MatchKind.EXACT, "yes")),), headers=TESTERS.match.headers),
)
_QUERY = MatchRoute("query", RequestMatch(query=(NamedMatch("beta", TextMatch(MatchKind.EXACT, "1")),)))
WANTS = (
    A_TENTH,
    Split(Fraction(1, 3)),
    Split(Fraction(1)),
    *(Split(Fraction(1, 4), (each,)) for each in (TESTERS, _STAFF, _PREFIXED, _BY_PATH, _EXACTLY, _COOKIE, _QUERY)),
    Split(Fraction(0), (TESTERS, _BY_PATH), (MirrorRoute("copies", (TESTERS.match,)),)),
    Split(Fraction(1, 2), (), (MirrorRoute("copies", percent=30),)),
    Split(Fraction(1, 4), experiments=(ExperimentShare("cart-try", Fraction(1, 20)),)),
    Split(Fraction(1, 4), sticky=Sticky("sid", "0123456789abcdef", "r1")),
    ALL_TO_STABLE,
)
"""Each is wanted after the one before."""


def written(case: Case) -> Iterator[str]:
    """The lines about one router."""
    now = Situation.of(case.provider, case.settings, case.example, case.context)
    provider, objects, target = now.provider, now.objects, now.target
    yield f"  features {said(provider.features(objects, target))}, gateways {said(provider.gateways(objects, target))}"
    yield f"  {said(provider.accepted(objects, target))}"
    for want in WANTS:
        yield f"{said(want)}:"
        try:
            for after in now.towards(want):
                yield from map(_op, now.plan(want))
                now = after
                yield f"  reads {said(now.read())}"
        except Unroutable as why:
            yield f"  refused: {why}"
            continue
        yield from (f"  rule {said(each)}" for each in provider.rules(now.objects, target, now.context))
    yield "given back:"
    yield from map(_op, now.release())


def in_order(lines: Iterable[str]) -> list[str]:
    """The lines, with the operations of each write by their paths: a map of CEL has no order, so they may come in any."""
    found: list[str] = []
    for is_operation, part in groupby(lines, key=lambda line: line.startswith('  {"op"')):
        ordered = [*part]
        if is_operation:
            ordered.sort(key=lambda line: str(json.loads(line)["path"]))
        found += ordered
    return found


def _op(op: Op) -> str:
    match op:
        case PatchUser(operations):
            return "\n".join(f"  {json.dumps(each, ensure_ascii=False, sort_keys=True)}" for each in operations)
        case ApplyOwned(manifest):
            return f"  applies {json.dumps(manifest, ensure_ascii=False, sort_keys=True)}"
        case _:
            return "  deletes its own object"


def text() -> str:
    """All routers, one after the other."""
    return "\n".join("\n".join([f"# {case.name}", "", *written(case), ""]) for case in CASES)


if __name__ == "__main__":
    FILE.write_text(text())
