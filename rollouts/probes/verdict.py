"""Whether a proxy follows a split: one rule for every kind of proxy.

A reader (`envoy.py`, `traefik.py`) turns a proxy's own configuration into `Entry` values, which are compared with the split here.
The entries that a proxy replaces as a whole are one `group`, so a group never has old and new entries side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from msgspec import Struct

from rollouts.core.model.traffic import IDLE_HEADER, IDLE_VALUE, MatchKind, MatchRoute, RequestMatch, Split


class RequestCondition(Struct, frozen=True):
    """A header, or a query parameter, that an entry asks for. Header names are lower case; the method is header `:method`.

    Args:
        value: the exact value; None when it is matched in another way.
    """

    name: str
    value: str | None
    query: bool = False


class Entry(Struct, frozen=True, kw_only=True):
    """One entry of a proxy's table of routes, as far as it concerns the two Services.

    Args:
        where: its name for messages.
        group: the entries that the proxy replaces together.
        stable, canary: weights, on the same scale.
        unknown: what the reader could not find out; "" for nothing.
        mirror_percents: for each mirror to the canary Service, the percentage of requests that it copies.
    """

    where: str
    group: str
    stable: Fraction = Fraction(0)
    canary: Fraction = Fraction(0)
    conditions: frozenset[RequestCondition] = frozenset()
    mirror_percents: tuple[Fraction, ...] = ()
    unknown: str = ""


class Judgement(Struct, frozen=True):
    """Whether a proxy follows a split; the message says what it does instead, or which parts of the split were not compared.

    Args:
        evidence: False when nothing could be found out; then `live` is False too.
    """

    live: bool
    message: str = ""
    evidence: bool = True


def judged(entries: Sequence[Entry], split: Split) -> Judgement:
    """Compares the entries of a route with its split.

    * An entry with both Services must have exactly the share; each group has one, or, for 0 and 1, one with the right Service.
    * An entry with the canary alone must be one of `split.matches`, unless the share is 1. So at `ALL_TO_STABLE` none is allowed.
    * An entry with stable alone is ignored beside one with the right share: it is a rule that the user keeps for stable.
    * Each group must have each match and each mirror of the split, and no other mirror.
    * An idle rule is ignored, but while the route has one, the entry must exist and lead somewhere.
    """
    problems = list(dict.fromkeys(_problems(entries, split)))
    if problems:
        return Judgement(False, "; ".join(problems[:_SHOWN]) + ("; and more" if len(problems) > _SHOWN else ""))
    return Judgement(True, _not_compared(split))


_SHOWN = 3  # problems in a message
_IDLE = RequestCondition(IDLE_HEADER, IDLE_VALUE)


def _problems(entries: Sequence[Entry], split: Split) -> Iterator[str]:
    if not entries:
        yield "it does not have the route yet"
    for entry in entries:
        if entry.unknown:
            yield f"{entry.where}: {entry.unknown}"
        if _IDLE in entry.conditions:
            continue
        yield from _weight_problems(entry, split)
        yield from _mirror_problems(entry, split)
    for group in dict.fromkeys(each.group for each in entries):
        yield from _lacks([each for each in entries if each.group == group], group, split)


def _weight_problems(entry: Entry, split: Split) -> Iterator[str]:
    if entry.canary == 0:
        return
    if entry.stable > 0:
        if (share := _share(entry)) != split.share:
            yield f"{entry.where} gives the canary {_percent(share)}, not {_percent(split.share)}"
    elif split.share != 1 and not any(_is_for(entry, each) for each in split.matches):
        yield f"{entry.where} leads to the canary alone"


def _mirror_problems(entry: Entry, split: Split) -> Iterator[str]:
    wanted = {Fraction(each.percent) for each in split.mirrors}
    for percent in entry.mirror_percents:
        if percent not in wanted:
            yield f"{entry.where} copies {percent.numerator / percent.denominator:g} % of its requests to the canary"


def _lacks(entries: Sequence[Entry], group: str, split: Split) -> Iterator[str]:
    """What every group must have and this one lacks."""
    if split.idle and not any(_IDLE in each.conditions for each in entries):
        yield f"{group}: the idle rule is not there yet"
    entries = [each for each in entries if _IDLE not in each.conditions]
    if not any(each.stable + each.canary > 0 and _share(each) == split.share for each in entries):
        stale = (
            "all requests go to stable" if any(each.stable > 0 for each in entries) else "it leads to neither Service"
        )
        yield f"{group}: no rule gives the canary {_percent(split.share)}: {stale}"
    for match in split.matches:
        if not any(each.stable == 0 and each.canary > 0 and _is_for(each, match) for each in entries):
            yield f"{group}: header route {match.name} is not there"
    for mirror in split.mirrors:
        if not any(Fraction(mirror.percent) in each.mirror_percents for each in entries):
            yield f"{group}: mirror route {mirror.name} is not there"


def _share(entry: Entry) -> Fraction:
    return entry.canary / (entry.stable + entry.canary)


def _is_for(entry: Entry, route: MatchRoute) -> bool:
    """Whether the entry has all conditions of the match, as far as the two can be compared."""
    wanted = _conditions(route.match)
    if not wanted:
        return True  # a match by path or cookie, which proxies write in many ways
    exact = {each for each in wanted if each.value is not None}
    named = {(each.name, each.query) for each in wanted - exact}
    return exact <= entry.conditions and named <= {(each.name, each.query) for each in entry.conditions}


def _conditions(match: RequestMatch) -> frozenset[RequestCondition]:
    found = [(":method", match.method, False)] if match.method is not None else []
    found += [(each.name, each.value, False) for each in match.headers]
    found += [(each.name, each.value, True) for each in match.query]
    return frozenset(
        RequestCondition(name, text.value if text.kind is MatchKind.EXACT else None, query)
        for name, text, query in found
    )


def _not_compared(split: Split) -> str:
    """The parts of the split that have an entry whose conditions cannot all be compared."""
    loose = [
        each.name
        for each in split.matches
        if each.match.path is not None
        or each.match.cookies
        or any(one.value is None for one in _conditions(each.match))
    ]
    notes = [f"the matches of paths, cookies and patterns in {', '.join(loose)} were not compared"] if loose else []
    if any(each.matches for each in split.mirrors):
        notes.append("the matches of mirrored requests were not compared")
    return "; ".join(notes)


def _percent(share: Fraction) -> str:
    return f"{100 * share.numerator / share.denominator:g} %"
