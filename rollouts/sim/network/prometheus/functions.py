"""The arithmetic of PromQL's functions, on numbers only. Source: Prometheus v3, promql/functions.go and promql/quantile.go."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from rollouts.sim.network.prometheus.samples import Point

_EXTRAPOLATED = 1.1  # of the mean time between two samples: so near to its edge a range is taken to be full
_SMALL_DELTA = 1e-12  # of two buckets, relative: less is an error of rounding


def extrapolated(
    points: Sequence[Point], *, start_ms: int, end_ms: int, is_counter: bool, per_second: bool
) -> float | None:
    """`rate`, `increase` and `delta` of the samples in a range; None for fewer than two."""
    if len(points) < 2:
        return None
    (first_ms, first), (last_ms, last) = points[0], points[-1]
    grown = last - first
    if is_counter:
        grown += sum(before for (_, before), (_, now) in pairwise(points) if now < before)
    to_start_s, to_end_s = (first_ms - start_ms) / 1000, (end_ms - last_ms) / 1000
    sampled_s = (last_ms - first_ms) / 1000
    mean_s = sampled_s / (len(points) - 1)
    if to_start_s >= mean_s * _EXTRAPOLATED:
        to_start_s = mean_s / 2
    if is_counter and grown > 0 and first >= 0:
        to_start_s = min(to_start_s, sampled_s * (first / grown))  # a counter was never below 0
    if to_end_s >= mean_s * _EXTRAPOLATED:
        to_end_s = mean_s / 2
    factor = (sampled_s + to_start_s + to_end_s) / sampled_s
    if per_second:
        factor /= (end_ms - start_ms) / 1000
    return grown * factor


def instant_rate(points: Sequence[Point]) -> float | None:
    """`irate`: from the last two samples; None for fewer."""
    if len(points) < 2:
        return None
    (before_ms, before), (now_ms, now) = points[-2:]
    return (now if now < before else now - before) / ((now_ms - before_ms) / 1000)


def _numbers(values: Sequence[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def _total(values: Sequence[float]) -> float:
    return math.fsum(values) if all(map(math.isfinite, values)) else sum(values)


AGGREGATED: Mapping[str, Callable[[Sequence[float]], float]] = {
    "sum": _total,
    "avg": lambda values: _total(values) / len(values),
    "min": lambda values: min(_numbers(values), default=math.nan),
    "max": lambda values: max(_numbers(values), default=math.nan),
    "count": len,
    "group": lambda _: 1.0,
}
"""The least and the greatest are NaN only when there is no other number."""

OVER_TIME: Mapping[str, Callable[[Sequence[float]], float]] = {
    **{f"{name}_over_time": AGGREGATED[name] for name in ("sum", "avg", "min", "max", "count")},
    "last_over_time": lambda values: values[-1],
}

ROUNDED: Mapping[str, Callable[[float], float]] = {
    "abs": abs,
    "ceil": lambda value: float(math.ceil(value)) if math.isfinite(value) else value,
    "floor": lambda value: float(math.floor(value)) if math.isfinite(value) else value,
}


def bucket_quantile(share: float, buckets: Mapping[float, float]) -> float:
    """`histogram_quantile` of counts by their upper bounds."""
    if math.isnan(share):
        return math.nan
    if not 0 <= share <= 1:
        return math.copysign(math.inf, share)
    bounds = sorted(buckets)
    if len(bounds) < 2 or bounds[-1] != math.inf:
        return math.nan
    counts = _rising([buckets[bound] for bound in bounds])
    if not counts[-1] or math.isnan(counts[-1]):
        return math.nan
    rank = share * counts[-1]
    place = next((place for place, count in enumerate(counts[:-1]) if count >= rank), len(counts) - 1)
    if place == len(counts) - 1:
        return bounds[-2]
    if place == 0:
        return bounds[0] if bounds[0] <= 0 else bounds[0] * (rank / counts[0])
    begin, below = bounds[place - 1], counts[place - 1]
    return begin + (bounds[place] - begin) * ((rank - below) / (counts[place] - below))


def _rising(counts: Sequence[float]) -> list[float]:
    """Counts that never fall from one bucket to the next, as rates of buckets that were scraped apart may."""
    rising = [counts[0]]
    for count in counts[1:]:
        before = rising[-1]
        close = abs(count - before) <= _SMALL_DELTA * (abs(count) + abs(before)) / 2
        rising.append(before if close or count < before else count)
    return rising


def _divided(left: float, right: float) -> float:
    if right:
        return left / right
    return math.nan if not left or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1.0, right)


def _power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        odd = exponent == math.floor(exponent) and exponent % 2 == 1
        return -math.inf if base < 0 and odd else math.inf
    except ValueError:  # of a negative base with a broken exponent; 0 with a negative one
        return math.inf if base == 0 else math.nan


ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divided,
    "%": lambda left, right: math.nan if math.isinf(left) or right == 0 else math.fmod(left, right),
    "^": _power,
}
"""As IEEE 754 and Go have them: nothing raises."""
COMPARES: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
"""NaN is different from everything."""
