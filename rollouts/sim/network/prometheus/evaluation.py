"""The value of a tree at a time, from the samples that are there. Source: Prometheus v3, promql/engine.go."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeAlias, assert_never

from msgspec import Struct

from rollouts.sim.network.prometheus import functions
from rollouts.sim.network.prometheus.samples import NAME, Labels, Point, SampleStore
from rollouts.sim.network.prometheus.tree import (
    COMPARISONS,
    SETS,
    Aggregate,
    Negated,
    QueryBinary,
    QueryCall,
    QueryNode,
    QueryNumber,
    QueryRefused,
    Selector,
)

LOOKBACK_MS = 300_000
"""Source: Prometheus' `--query.lookback-delta`."""

Vector: TypeAlias = dict[Labels, float]
QueryValue: TypeAlias = float | Vector


class Evaluator(Struct, frozen=True):
    """Evaluates at one time, in milliseconds since 1970."""

    store: SampleStore
    at_ms: int

    def value(self, node: QueryNode) -> QueryValue:
        """A number, or a number for each series. The node must give no range. Raises: QueryRefused."""
        match node:
            case QueryNumber(value):
                return value
            case Selector():
                return self._instant(node)
            case QueryCall():
                return self._call(node)
            case Aggregate():
                return self._aggregate(node)
            case QueryBinary():
                return self._binary(node)
            case Negated(inner):
                negated = self.value(inner)
                if isinstance(negated, dict):
                    return _renamed((labels, -value) for labels, value in negated.items())
                return -negated
            case _:
                assert_never(node)

    def matrix(self, selector: Selector) -> dict[Labels, list[Point]]:
        """The samples of each series in a selector's range."""
        until_ms = self.at_ms - selector.offset_ms
        after_ms = until_ms - (selector.range_ms or 0)
        all_series = self.store.select(selector.matchers)
        by_labels = {series.labels: series.between(after_ms, until_ms) for series in all_series}
        return {labels: points for labels, points in by_labels.items() if points}

    def vector(self, node: QueryNode) -> Vector:
        """The value of a node that gives series. Raises: QueryRefused."""
        value = self.value(node)
        if not isinstance(value, dict):
            raise TypeError(f"the parser lets no number stand here: {node}")
        return value

    def number(self, node: QueryNode) -> float:
        """The value of a node that gives a number. Raises: QueryRefused."""
        value = self.value(node)
        if isinstance(value, dict):
            raise TypeError(f"the parser lets no series stand here: {node}")
        return value

    def _instant(self, selector: Selector) -> Vector:
        at_ms = self.at_ms - selector.offset_ms
        values: Vector = {}
        for series in self.store.select(selector.matchers):
            point = series.latest(at_ms, LOOKBACK_MS)
            if point is not None:
                values[series.labels] = point[1]
        return values

    def _call(self, call: QueryCall) -> QueryValue:
        name, given = call.function, call.arguments
        match name:
            case "time":
                return self.at_ms / 1000
            case "vector":
                return {(): self.number(given[0])}
            case "scalar":
                values = list(self.vector(given[0]).values())
                return values[0] if len(values) == 1 else math.nan
            case "absent":
                return {} if self.vector(given[0]) else {_absent_labels(given[0]): 1.0}
            case "abs" | "ceil" | "floor":
                rounded = functions.ROUNDED[name]
                return _renamed((labels, rounded(value)) for labels, value in self.vector(given[0]).items())
            case "clamp_min" | "clamp_max":
                limit = self.number(given[1])
                choose = max if name == "clamp_min" else min
                return _renamed(
                    (labels, value if math.isnan(value) else choose(value, limit))
                    for labels, value in self.vector(given[0]).items()
                )
            case "histogram_quantile":
                return _quantiles(self.number(given[0]), self.vector(given[1]))
            case _:
                return self._over_range(name, given[0])

    def _over_range(self, name: str, argument: QueryNode) -> Vector:
        if not isinstance(argument, Selector) or argument.range_ms is None:
            raise TypeError("the parser lets only ranges stand here")
        end_ms = self.at_ms - argument.offset_ms
        start_ms = end_ms - argument.range_ms
        values: list[tuple[Labels, float]] = []
        for labels, points in self.matrix(argument).items():
            if name in functions.OVER_TIME:
                value: float | None = functions.OVER_TIME[name]([value for _, value in points])
            elif name == "irate":
                value = functions.instant_rate(points)
            else:
                value = functions.extrapolated(
                    points, start_ms=start_ms, end_ms=end_ms, is_counter=name != "delta", per_second=name == "rate"
                )
            if value is not None:
                values.append((labels, value))
        return dict(values) if name == "last_over_time" else _renamed(values)

    def _aggregate(self, node: Aggregate) -> Vector:
        groups: dict[Labels, list[float]] = {}
        for labels, value in self.vector(node.inner).items():
            key = _without(labels, (*node.labels, NAME)) if node.without else _only(labels, node.labels)
            groups.setdefault(key, []).append(value)
        work = functions.AGGREGATED[node.operator]
        return {labels: float(work(values)) for labels, values in groups.items()}

    def _binary(self, node: QueryBinary) -> QueryValue:
        if node.sign in SETS:
            return _set(node, self.vector(node.left), self.vector(node.right))
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(left, dict):
            if isinstance(right, dict):
                return _matched(node, left, right)
            limit = right
            return _with_number(node, left, lambda value: (value, limit))
        if isinstance(right, dict):
            number = left
            return _with_number(node, right, lambda value: (number, value))
        if node.sign in COMPARISONS:
            return float(functions.COMPARES[node.sign](left, right))
        return functions.ARITHMETIC[node.sign](left, right)


def _applied(node: QueryBinary, left: float, right: float, *, kept: float) -> float | None:
    """What a sign makes of two numbers. A comparison that keeps values gives `kept` where it is true, else None."""
    if node.sign not in COMPARISONS:
        return functions.ARITHMETIC[node.sign](left, right)
    holds = functions.COMPARES[node.sign](left, right)
    if not node.keeps:
        return float(holds)
    return kept if holds else None


def _with_number(node: QueryBinary, vector: Vector, sides: Callable[[float], tuple[float, float]]) -> Vector:
    made = ((labels, _applied(node, *sides(value), kept=value)) for labels, value in vector.items())
    results = [(labels, value) for labels, value in made if value is not None]
    return dict(results) if node.keeps else _renamed(results)


def _matched(node: QueryBinary, left: Vector, right: Vector) -> Vector:
    """Two series each, by their labels. Raises: QueryRefused when one fits two."""
    by_key: dict[Labels, float] = {}
    for labels, value in right.items():
        key = _key(node, labels)
        if key in by_key:
            raise QueryRefused(
                f"found duplicate series for the match group {dict(key)} on the right hand-side of the operation",
                kind="execution",
            )
        by_key[key] = value
    results: Vector = {}
    taken: set[Labels] = set()
    for labels, value in left.items():
        key = _key(node, labels)
        if key not in by_key:
            continue
        if key in taken:
            raise QueryRefused(
                "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)",
                kind="execution",
            )
        taken.add(key)
        made = _applied(node, value, by_key[key], kept=value)
        if made is None:
            continue
        if not node.keeps:
            results[_key(node, _without(labels, (NAME,)))] = made
        elif node.labels is None:
            results[labels] = made
        else:  # the left side stays, with its name
            results[_only(labels, (*(name for name, _ in key), NAME))] = made
    return results


def _set(node: QueryBinary, left: Vector, right: Vector) -> Vector:
    keys = {_key(node, labels) for labels in right}
    match node.sign:
        case "and":
            return {labels: value for labels, value in left.items() if _key(node, labels) in keys}
        case "unless":
            return {labels: value for labels, value in left.items() if _key(node, labels) not in keys}
        case _:
            left_keys = {_key(node, labels) for labels in left}
            added = {labels: value for labels, value in right.items() if _key(node, labels) not in left_keys}
            return {**left, **added}


def _key(node: QueryBinary, labels: Labels) -> Labels:
    if node.labels is None:
        return _without(labels, (NAME,))
    return _only(labels, node.labels) if node.on else _without(labels, (*node.labels, NAME))


def _quantiles(share: float, vector: Vector) -> Vector:
    groups: dict[Labels, dict[float, float]] = {}
    for labels, value in vector.items():
        try:
            bound = float(dict(labels)["le"])
        except (KeyError, ValueError):
            continue  # no bucket of a histogram
        buckets = groups.setdefault(_without(labels, ("le", NAME)), {})
        buckets[bound] = buckets.get(bound, 0.0) + value
    return {labels: functions.bucket_quantile(share, buckets) for labels, buckets in groups.items()}


def _absent_labels(node: QueryNode) -> Labels:
    """Labels that a selector asks for by `=`, but for the name."""
    if not isinstance(node, Selector):
        return ()
    equal = [matcher for matcher in node.matchers if matcher.sign == "=" and matcher.name != NAME]
    return tuple(sorted((matcher.name, matcher.value) for matcher in equal if matcher.value))


def _renamed(items: Iterable[tuple[Labels, float]]) -> Vector:
    """Series without their metric's name. Raises: QueryRefused when two become the same."""
    renamed: Vector = {}
    for labels, value in items:
        bare = _without(labels, (NAME,))
        if bare in renamed:
            raise QueryRefused("vector cannot contain metrics with the same labelset", kind="execution")
        renamed[bare] = value
    return renamed


def _without(labels: Labels, names: Iterable[str]) -> Labels:
    gone = frozenset(names)
    return tuple((name, value) for name, value in labels if name not in gone)


def _only(labels: Labels, names: Iterable[str]) -> Labels:
    kept = frozenset(names)
    return tuple((name, value) for name, value in labels if name in kept)
