"""Whether requests follow a split, judged by the proxies' counters of requests since the routes were written. Pure.

Counters show what was done with requests, not what is configured, so they need enough requests: as many as distinguish the new
share from the one before in 999 of 1,000 cases. The counted share must be the wanted one, within that chance. At 0 and 1 no
request at all may have gone to the Service that gets none.

Each proxy (a target that Prometheus scrapes) with enough requests is judged by itself, so that others do not hide one that lags.
Proxies with few requests are judged together, and matter if they had more than 1 % of all requests. The latest requests of each
count, as many as are needed: requests right after the write may follow the old weights. Proxies without requests are ignored.

Missing data is no evidence: no series, few requests, a proxy that is not scraped any more. But between 0 and 1, proxies with at
most 1 % of the requests hold up nothing, because callers in a mesh come and go. Requests that reach the two Services in another
way count as the route's, so the share then differs from the wanted one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

from msgspec import Struct

from rollouts.metrics.prometheus import Series
from rollouts.ports import LiveQuestion
from rollouts.probes.counter_series import Counters, SentTo, side_of
from rollouts.probes.verdict import Judgement, percent_of

SKEW_S = 5.0
"""Requests count from this time after the write: clocks differ, and no proxy needs to be quicker."""

WINDOW_MOST_S = 600.0
BEFORE_S = 120.0
"""Samples are read from this time before the write, so that proxies that were not scraped since are known."""

REQUESTS_LEAST = 50
FEW = 0.01  # part of all counted requests
STALE_INTERVALS = 3  # the behaviour of a proxy that was not scraped for so many intervals is unknown

_Z = 3.29  # two-sided, 999 of 1,000
_CHANCE = 0.001


def window_s(question: LiveQuestion, *, now_s: float) -> int:
    """How far back samples are needed, in whole seconds."""
    return math.ceil(min(max(now_s - question.since_s, 0.0) + BEFORE_S, WINDOW_MOST_S))


def requests_needed(share: Fraction, before: Fraction | None) -> int:
    """The number of requests that distinguish `share` from `before` in 999 of 1,000 cases.

    When `before` is not known, or equal, they distinguish `share` from half of it (at 0 and 1, from one request in a hundred).
    """
    wanted = float(share)
    if before is None or before == share:
        least = min(wanted, 1 - wanted)
        other = wanted - least / 2 if least else abs(wanted - 0.01)
    else:
        other = float(before)
    apart = abs(wanted - other)
    if share not in (0, 1):
        spread = math.sqrt(wanted * (1 - wanted)) + math.sqrt(other * (1 - other))
        # The least n for which n · apart is at least the chance of both plus the one request of `_follows`.
        root = (_Z * spread + math.sqrt((_Z * spread) ** 2 + 4 * apart)) / (2 * apart)
        return max(REQUESTS_LEAST, math.ceil(root**2))
    if apart == 1:
        return REQUESTS_LEAST
    return max(REQUESTS_LEAST, math.ceil(math.log(_CHANCE) / math.log1p(-apart)))


def judged_by_requests(
    series: Iterable[Series], question: LiveQuestion, counters: Counters, *, now_s: float
) -> Judgement:
    """Whether the proxies' requests follow the split; its managed routes are not judged.

    Args:
        now_s: when they were read, on the clock of `question.since_s`.
    """
    if any(rule.meets_the_pair if rule.users else rule.copied_percents for rule in question.rules):
        return _nothing(
            "a rule of the user's leads to one of its two Services, or copies requests to the canary: the counters cannot tell "
            "these requests from the others"
        )
    proxies, untold = _proxies(series, question, counters)
    if untold:
        return _nothing(f"it cannot be known whether {untold} counts the canary's requests")
    start_s = question.since_s + SKEW_S
    # A proxy that was gone before the write does not count.
    seen = [proxy for proxy in proxies if proxy.times[-1] >= start_s or not proxy.is_stale(now_s)]
    share, needed = question.split.share, requests_needed(question.split.share, question.before)
    some = FEW if share not in (0, 1) else 0.0
    unclear = {proxy: why for proxy in seen if (why := proxy.unclear(start_s, now_s))}
    if sum(proxy.requests for proxy in unclear) > some * sum(proxy.requests for proxy in seen):
        return _nothing(unclear[max(unclear, key=lambda proxy: proxy.requests)])
    counts = [proxy.since(start_s) for proxy in seen if proxy not in unclear]
    busy = [count for count in counts if count.requests]
    if not busy:
        return _nothing("no requests were counted since the last change")
    few: list[_Interval] = []
    wrong: list[str] = []
    for proxy in busy:
        latest = _latest(proxy.intervals, needed)
        if latest is None:
            few += proxy.intervals
        elif not _follows(latest, share):
            wrong.append(f"{proxy.name} gave the canary {_told(latest)}, not {percent_of(share)}")
    together = _latest(few, needed)
    if together is not None and not _follows(together, share):
        wrong.append(f"the proxies with few requests gave the canary {_told(together)}, not {percent_of(share)}")
    wrong += [] if share not in (0, 1) else _strays(busy, share)
    if wrong:
        return Judgement(False, "; ".join(dict.fromkeys(wrong[:_SHOWN])))
    counted = sum(interval.total for interval in few)
    if together is None and counted > some * sum(proxy.requests for proxy in busy):
        return _nothing(f"{counted:g} of the {needed} requests that are needed were counted")
    return Judgement(True)


_SHOWN = 3  # problems in a message
_SCRAPES = 2  # scrapes make one interval


class _Interval(Struct, frozen=True):
    """The requests that were counted between two scrapes."""

    start_s: float
    stable: float
    canary: float

    @property
    def total(self) -> float:
        return self.stable + self.canary


class _Proxy(Struct, frozen=True, eq=False):
    """One target's scrapes, and the values of its series at each of them, by side."""

    name: str
    times: tuple[float, ...]
    series: tuple[tuple[SentTo, Mapping[float, float]], ...]

    def times_since(self, start_s: float) -> list[float]:
        return [at_s for at_s in self.times if at_s >= start_s]

    def is_stale(self, now_s: float) -> bool:
        gap_s = max((after - before for before, after in pairwise(self.times)), default=0.0)
        return now_s - self.times[-1] > STALE_INTERVALS * gap_s + SKEW_S

    def unclear(self, start_s: float, now_s: float) -> str:
        """Why its current behaviour cannot be judged, "" when it can."""
        if len(self.times_since(start_s)) < _SCRAPES:
            return f"Prometheus has not scraped {self.name} twice since the last change"
        return f"Prometheus has not scraped {self.name} for {STALE_INTERVALS} intervals" if self.is_stale(now_s) else ""

    @property
    def requests(self) -> float:
        """All requests in its samples, including those before the write; if it was scraped once, all that it ever counted."""
        if len(self.times) < _SCRAPES:
            return sum(value for _, samples in self.series for value in samples.values())
        return self.since(self.times[0]).requests

    def since(self, start_s: float) -> _Counted:
        """The requests that it counted between its scrapes from `start_s` on."""
        times = self.times_since(start_s)
        counts = {at_s: {SentTo.STABLE: 0.0, SentTo.CANARY: 0.0} for at_s in times[:-1]}
        for side, samples in self.series:
            last = max((item for item in samples.items() if item[0] <= times[0]), default=(0.0, 0.0))[1]
            for before_s, now_s in pairwise(times):
                # A series that is new has begun at 0; one whose value fell has begun again.
                value = samples.get(now_s, last)
                counts[before_s][side] += value if value < last else value - last
                last = value
        intervals = [_Interval(at_s, sides[SentTo.STABLE], sides[SentTo.CANARY]) for at_s, sides in counts.items()]
        return _Counted(self.name, tuple(intervals))


class _Counted(Struct, frozen=True):
    """The requests that one proxy counted, the latest interval last."""

    name: str
    intervals: tuple[_Interval, ...]

    @property
    def requests(self) -> float:
        return sum(interval.total for interval in self.intervals)


def _proxies(series: Iterable[Series], question: LiveQuestion, counters: Counters) -> tuple[list[_Proxy], str]:
    """The proxies, by target; and the first series whose requests may be the canary's, which cannot be known, "" for none."""
    found: dict[tuple[str, str], list[tuple[SentTo, Mapping[float, float]]]] = {}
    for counter in series:
        side = side_of(counters, counter.labels, question)
        if side is SentTo.UNKNOWN:
            return [], ", ".join(f"{name} {text}" for name, text in sorted(counter.labels.items()) if "service" in name)
        if side is not None and counter.samples:
            target = counter.labels.get("job", ""), counter.labels.get("instance", "the proxy")
            found.setdefault(target, []).append((side, dict(counter.samples)))
    return [
        _Proxy(instance, tuple(sorted({at_s for _, samples in theirs for at_s in samples})), tuple(theirs))
        for (_, instance), theirs in found.items()
    ], ""


def _latest(intervals: Sequence[_Interval], needed: int) -> _Interval | None:
    """The sum of the latest intervals with enough requests together; None when all have too few."""
    stable = canary = 0.0
    for interval in sorted(intervals, key=lambda interval: interval.start_s, reverse=True):
        stable, canary = stable + interval.stable, canary + interval.canary
        if stable + canary >= needed:
            return _Interval(interval.start_s, stable, canary)
    return None


def _follows(counted: _Interval, share: Fraction) -> bool:
    """Whether the count is off by less than chance (none, at 0 and 1) plus one request, which proxies that take turns miss."""
    wanted = float(share)
    band = _Z * math.sqrt(counted.total * wanted * (1 - wanted)) + 1
    return abs(counted.canary - counted.total * wanted) < band


def _strays(proxies: Iterable[_Counted], share: Fraction) -> Iterator[str]:
    """Proxies that sent any request to the Service that gets none, in their latest interval."""
    for proxy in proxies:
        last = proxy.intervals[-1]
        if not _follows(last, share):
            yield f"{proxy.name} gave the canary {_told(last)}, not {percent_of(share)}"


def _nothing(why: str) -> Judgement:
    return Judgement(False, why, evidence=False)


def _told(counted: _Interval) -> str:
    return f"{100 * counted.canary / counted.total:.3g} % of {counted.total:g} requests"
