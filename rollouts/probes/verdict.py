"""Whether a proxy follows a split: one rule for every kind of proxy.

A reader (`envoy.py`, `traefik.py`) turns a proxy's own configuration into `Entry` values, which are compared with the split here.
The entries that a proxy replaces as a whole are one `group`, so a group never has old and new entries side by side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TypeAlias

from msgspec import Struct

from rollouts.core.model.traffic import IDLE_HEADER, IDLE_VALUE, MatchKind, RequestMatch, RuleSaid, Split, TextMatch


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
        group: the entries that the proxy replaces together.
        stable, canary: weights, on the same scale.
        experiments: those of the Services of Experiments, in the order of the split; None for one that the entry does not name,
            where a proxy names every Service that a rule has, also with weight 0.
        unknown: what the reader could not find out; "" for nothing.
        mirror_percents: for each mirror to the canary Service, the percentage of requests that it copies.
        path: the paths that it takes; None for all of them.
        redirects: it answers requests itself, by sending clients elsewhere.
    """

    where: str
    group: str
    stable: Fraction = Fraction(0)
    canary: Fraction = Fraction(0)
    experiments: tuple[Fraction | None, ...] = ()
    conditions: frozenset[RequestCondition] = frozenset()
    mirror_percents: tuple[Fraction, ...] = ()
    unknown: str = ""
    path: TextMatch | None = None
    redirects: bool = False

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The canary's part of its requests, and that of each Experiment; () when it leads to none of the Services."""
        weights = [self.canary, *[each or Fraction(0) for each in self.experiments]]
        total = self.stable + sum(weights)
        return tuple([weight / total for weight in weights]) if total else ()


class Judgement(Struct, frozen=True):
    """Whether a proxy follows a split; the message says what it does instead, or which parts of the split were not compared.

    Args:
        evidence: False when nothing could be found out; then `live` is False too.
    """

    live: bool
    message: str = ""
    evidence: bool = True


def judged(entries: Sequence[Entry], split: Split, rules: Sequence[RuleSaid] = ()) -> Judgement:
    """Compares the entries of a route with its split.

    * An entry that does what a rule of the user's says is the user's: it is neither judged nor taken for evidence.
    * An entry with both Services, or with an Experiment's, must have exactly the shares; each group has one, or, for 0 and 1, one
      with the right Service.
    * An entry with the canary alone must be one of `split.matches`, unless the share is 1. So at `ALL_TO_STABLE` none is allowed.
    * An entry with stable alone is ignored beside one with the right share: it is a rule that the user keeps for stable.
    * Each group must have each match and each mirror of the split, and no other mirror but the user's own.
    * An idle rule is ignored, but while the route has one, the entry must exist and lead somewhere.

    Args:
        rules: of the route's object, in the version that says the split.
    """
    problems = list(dict.fromkeys(_problems(entries, split, FiledRules(rules))))
    if problems:
        return Judgement(False, "; ".join(problems[:_SHOWN]) + ("; and more" if len(problems) > _SHOWN else ""))
    loose = [
        route.name
        for route in split.matches
        if route.match.path is not None
        or route.match.cookies
        or any(condition.value is None for condition in _conditions(route.match))
    ]
    notes = [f"the matches of paths, cookies and patterns in {', '.join(loose)} were not compared"] if loose else []
    if any(mirror.matches for mirror in split.mirrors):
        notes.append("the matches of mirrored requests were not compared")
    return Judgement(True, "; ".join(notes))


class FiledRules:
    """The rules of a route's object, filed so that the one of an entry is found without a look at each of them."""

    def __init__(self, rules: Sequence[RuleSaid]) -> None:
        def specificity(pair: tuple[RuleSaid, RequestMatch]) -> tuple[int, int, bool]:
            rule, request = pair
            count = (request.method is not None) + len(request.headers) + len(request.query)
            return len(request.path.value) if request.path is not None else 0, count, not rule.users

        pairs = [(rule, request) for rule in rules for request in rule.requests]
        pairs.sort(key=specificity, reverse=True)  # stable: of two alike the first
        self._filed: dict[tuple[_Paths, _Condition | None], list[_Filed]] = {}
        self._lengths: set[int] = set()
        asked = [_Asked.of(request) for _, request in pairs]
        often = Counter(condition for match in asked for condition in match.all)
        for place, ((rule, request), match) in enumerate(zip(pairs, asked, strict=True)):
            paths = _paths_of(request.path, below=rule.below)
            if paths[0] == MatchKind.PREFIX:
                self._lengths.add(len(paths[1]))
            rarest = min(match.all, key=lambda condition: often[condition], default=None)
            self._filed.setdefault((paths, rarest), []).append(_Filed(place, rule, request, match))

    def of(self, entry: Entry) -> RuleSaid | None:
        """The most specific rule that takes all requests of an entry; of two alike not the user's. None when no rule does.

        So an entry of an older version that no rule of the object has any more belongs to the rule that gets its requests now,
        and has to do what that rule does.
        """
        named = frozenset((condition.name, condition.query) for condition in entry.conditions)
        conditions: tuple[_Condition | None, ...] = (None, *entry.conditions, *named)
        best: _Filed | None = None
        for paths in self._paths_for(entry):
            for condition in conditions:
                for filed in self._filed.get((paths, condition), ()):
                    if best is not None and filed.place > best.place:
                        break
                    if filed.asked.are_of(entry.conditions, named) and _within(
                        entry, filed.request.path, below=filed.rule.below
                    ):
                        best = filed
                        break
        return best.rule if best is not None else None

    def is_users(self, entry: Entry) -> bool:
        """Whether an entry does what a rule of the user's says, which is not a part of the split."""
        rule = self.of(entry)
        return rule is not None and rule.users and _does(entry, rule)

    def _paths_for(self, entry: Entry) -> Iterator[_Paths]:
        """Where the rules are filed that may take the entry's paths."""
        yield _ANY_PATH
        if entry.path is None:
            return
        yield _BELOW
        there = entry.path.value.rstrip("/")
        match entry.path.kind:
            case MatchKind.REGEX:
                yield MatchKind.REGEX, ""
                return
            case MatchKind.EXACT:
                yield MatchKind.EXACT, entry.path.value
            case MatchKind.PREFIX:
                pass
        for length in self._lengths:
            if length <= len(there) and there[length : length + 1] in ("", "/"):
                yield MatchKind.PREFIX, there[:length]


_Condition: TypeAlias = RequestCondition | tuple[str, bool]
_Paths: TypeAlias = tuple[str, str]
_ANY_PATH, _BELOW = ("any", ""), ("below", "")


class _Asked(Struct, frozen=True):
    """The conditions of a match but its path: those with a value, and the names of the others."""

    exact: frozenset[RequestCondition]
    named: frozenset[tuple[str, bool]]

    @classmethod
    def of(cls, match: RequestMatch) -> _Asked:
        """As far as they can be compared."""
        wanted = _conditions(match)
        exact = frozenset(condition for condition in wanted if condition.value is not None)
        return cls(exact, frozenset((condition.name, condition.query) for condition in wanted - exact))

    @property
    def all(self) -> tuple[_Condition, ...]:
        """Each of them."""
        return (*self.exact, *self.named)

    def are_of(self, conditions: frozenset[RequestCondition], named: frozenset[tuple[str, bool]]) -> bool:
        """Whether an entry with those conditions has them all."""
        return self.exact <= conditions and self.named <= named


class _Filed(Struct, frozen=True):
    """One match of a rule; `place` is smaller for what is more specific."""

    place: int
    rule: RuleSaid
    request: RequestMatch
    asked: _Asked


def _paths_of(path: TextMatch | None, *, below: bool) -> _Paths:
    if path is None:
        return _ANY_PATH
    match path.kind:
        case MatchKind.REGEX:
            return MatchKind.REGEX, ""
        case _ if below:
            return _BELOW
        case MatchKind.PREFIX:
            return MatchKind.PREFIX, path.value.rstrip("/")
        case MatchKind.EXACT:
            return MatchKind.EXACT, path.value


_SHOWN = 3  # problems in a message
_IDLE = RequestCondition(IDLE_HEADER, IDLE_VALUE)


def _problems(entries: Sequence[Entry], split: Split, rules: FiledRules) -> Iterator[str]:
    if not entries:
        yield "it does not have the route yet"
    judged_entries: dict[str, list[Entry]] = {}
    for entry in entries:
        rule = rules.of(entry)
        if rule is not None and rule.users and _does(entry, rule):
            continue
        judged_entries.setdefault(entry.group, []).append(entry)
        if entry.unknown:
            yield f"{entry.where}: {entry.unknown}"
        if _IDLE in entry.conditions:
            continue
        yield from _entry_problems(entry, split, rule)
    # A listener that only redirects, for example to HTTPS, need not have the split, unless there is no other.
    leading = dict.fromkeys(entry.group for entry in entries if not entry.redirects)
    for group in leading or dict.fromkeys(entry.group for entry in entries):
        yield from _lacks(judged_entries.get(group, []), group, split)


def _within(entry: Entry, path: TextMatch | None, *, below: bool) -> bool:
    """Whether all paths of the entry are paths of a rule. Two patterns count as the same: proxies write them in many ways."""
    if path is None:
        return True
    if entry.path is None:
        return False
    there, wanted = entry.path.value.rstrip("/"), path.value.rstrip("/")
    match path.kind, entry.path.kind:
        case MatchKind.REGEX, MatchKind.REGEX:
            return True
        case MatchKind.PREFIX, (MatchKind.PREFIX | MatchKind.EXACT):
            return f"{there}/".startswith(f"{wanted}/") or (below and there.endswith(wanted))
        case MatchKind.EXACT, MatchKind.EXACT:
            return entry.path.value == path.value or (below and entry.path.value.endswith(path.value))
        case _:
            return False


def _does(entry: Entry, rule: RuleSaid) -> bool:
    """Whether an entry shares and copies requests as the rule says; one that leads nowhere that could be found out may do so."""
    if entry.unknown and not entry.stable and not entry.canary:
        return True
    same = entry.stable * rule.canary == entry.canary * rule.stable and not any(entry.experiments)
    leads = (entry.stable > 0, entry.canary > 0) == (rule.stable > 0, rule.canary > 0)
    return same and leads and sorted(entry.mirror_percents) == sorted(rule.copied_percents)


def _entry_problems(entry: Entry, split: Split, rule: RuleSaid | None) -> Iterator[str]:
    """What the entry does that neither the split nor its rule says."""
    if (entry.canary > 0 and entry.stable > 0) or any(entry.experiments):
        if entry.shares != split.shares:
            wanted_shares = " and ".join(map(percent_of, split.shares))
            yield f"{entry.where} gives {_shares_text(split, entry.shares)}, not {wanted_shares}"
    elif entry.canary > 0 and split.share != 1 and not any(_is_for(entry, route.match) for route in split.matches):
        yield f"{entry.where} leads to the canary alone"
    wanted = {Fraction(mirror.percent) for mirror in split.mirrors}.union(rule.copied_percents if rule else ())
    for percent in entry.mirror_percents:
        if percent not in wanted:
            yield f"{entry.where} copies {percent.numerator / percent.denominator:g} % of its requests to the canary"


def _lacks(entries: Sequence[Entry], group: str, split: Split) -> Iterator[str]:
    """What every group must have and this one lacks."""
    if split.idle and not any(_IDLE in entry.conditions for entry in entries):
        yield f"{group}: the idle rule is not there yet"
    entries = [entry for entry in entries if _IDLE not in entry.conditions]
    if why := _lacks_shares(entries, split):
        yield f"{group}: {why}"
    for match in split.matches:
        if not any(entry.stable == 0 and entry.canary > 0 and _is_for(entry, match.match) for entry in entries):
            yield f"{group}: header route {match.name} is not there"
    for mirror in split.mirrors:
        if not any(Fraction(mirror.percent) in entry.mirror_percents for entry in entries):
            yield f"{group}: mirror route {mirror.name} is not there"


def _lacks_shares(entries: Sequence[Entry], split: Split) -> str:
    """What the entries of a group do instead of the shares; "" when one has them."""
    right = [entry for entry in entries if entry.shares == split.shares]
    if any(None not in entry.experiments for entry in right):
        return ""
    if right:
        return "no rule has the Services of the Experiment yet"
    to_stable = any(entry.stable > 0 for entry in entries)
    stale = "all requests go to stable" if to_stable else "it leads to neither Service"
    return f"no rule gives {_shares_text(split, split.shares)}: {stale}"


def _shares_text(split: Split, shares: Sequence[Fraction]) -> str:
    names = ("the canary", *[f"Service {each.service}" for each in split.experiments])
    return " and ".join([f"{name} {percent_of(share)}" for name, share in zip(names, shares, strict=True)])


def _is_for(entry: Entry, match: RequestMatch) -> bool:
    """Whether the entry has all conditions of the match but its path, as far as the two can be compared."""
    return _Asked.of(match).are_of(
        entry.conditions, frozenset((condition.name, condition.query) for condition in entry.conditions)
    )


def _conditions(match: RequestMatch) -> frozenset[RequestCondition]:
    found = [(":method", match.method, False)] if match.method is not None else []
    found += [(header.name, header.value, False) for header in match.headers]
    found += [(parameter.name, parameter.value, True) for parameter in match.query]
    return frozenset(
        RequestCondition(name, text.value if text.kind is MatchKind.EXACT else None, query)
        for name, text, query in found
    )


def percent_of(share: Fraction) -> str:
    """The share in percent, for people."""
    return f"{100 * share.numerator / share.denominator:g} %"
