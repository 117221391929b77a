"""Rules about metrics by regular expressions of their names: which are measured only, and how many measurements are kept.

The expressions are RE2's, as in Argo Rollouts, and may match anywhere in a name. A tenant writes them, so they are matched in
linear time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache

from rollouts.api.problems import Problems
from rollouts.api.spec.reading import check_needed
from rollouts.api.v1alpha1.analysis import DryRun, MeasurementRetention
from rollouts.core.analysis.metric import KEPT_MAX, MEASUREMENTS_KEPT
from rollouts.errors import ExpressionFailed, ExpressionInvalid
from rollouts.expressions import Result, compiled
from rollouts.pattern_cost import steps_of

PATTERN_STEPS_MAX = 1_000
"""A millisecond: patterns are matched where specs are read, each with each name."""

_PLAIN = re.compile(r"[A-Za-z0-9_ -]+")
_EVERY = (".*", "^.*$", ".+")


def check_rules(
    dry_run: Sequence[DryRun], retention: Sequence[MeasurementRetention], root: str, problems: Problems
) -> None:
    """Adds what is wrong with the rules, whatever metrics there are."""
    for field, rules in _by_field(dry_run, retention):
        seen: set[str] = set()
        for index, rule in enumerate(rules):
            path = f"{root}.{field}[{index}]"
            check_needed(rule, path, problems, "metricName")
            if rule.metric_name is None:
                continue
            if rule.metric_name in seen:
                problems.add(f"{path}.metricName", f"{rule.metric_name!r} is the name of another rule too")
            seen.add(rule.metric_name)
            try:
                matches(rule.metric_name, "")
            except ValueError as error:
                problems.add(f"{path}.metricName", str(error))
    for index, kept in enumerate(retention):
        path = f"{root}.measurementRetention[{index}]"
        check_needed(kept, path, problems, "limit")
        if kept.limit is not None and kept.limit > KEPT_MAX:
            problems.add(f"{path}.limit", f"must be {KEPT_MAX} or less, not {kept.limit}")


def check_matched(
    dry_run: Sequence[DryRun],
    retention: Sequence[MeasurementRetention],
    names: Sequence[str],
    root: str,
    problems: Problems,
) -> None:
    """Adds rules that are about no metric: their author meant one. Those that `check_rules` refuses are left out."""
    for field, rules in _by_field(dry_run, retention):
        for index, rule in enumerate(rules):
            pattern = rule.metric_name
            try:
                matched = pattern is None or any(matches(pattern, name) for name in names)
            except ValueError:
                continue
            if not matched:
                known = ", ".join(sorted(names)[:10]) or "none"
                path = f"{root}.{field}[{index}].metricName"
                problems.add(path, f"{pattern!r} matches no metric; there are: {known}")


def _by_field(
    dry_run: Sequence[DryRun], retention: Sequence[MeasurementRetention]
) -> tuple[tuple[str, Sequence[DryRun | MeasurementRetention]], ...]:
    return ("dryRun", dry_run), ("measurementRetention", retention)


def is_dry_run(name: str, rules: Sequence[DryRun]) -> bool:
    """Whether a metric is measured only."""
    return any(matches(rule.metric_name or "", name) for rule in rules)


def kept_of(name: str, rules: Sequence[MeasurementRetention]) -> int:
    """Measurements that are kept of a metric; the last rule about it counts, and 0 is the default."""
    kept = 0
    for rule in rules:
        if matches(rule.metric_name or "", name):
            kept = rule.limit or 0
    return kept or MEASUREMENTS_KEPT


@lru_cache(maxsize=1024)
def matches(pattern: str, name: str) -> bool:
    """Whether the pattern is found in the name. Raises: ValueError that says what is wrong with the pattern."""
    if pattern in _EVERY:
        return True
    if _PLAIN.fullmatch(pattern):
        return pattern in name
    if steps_of(pattern) > PATTERN_STEPS_MAX:
        raise ValueError(
            f"{pattern[:100]!r} is too large for a regular expression: write a shorter one, without large repetitions"
        )
    quoted = json.dumps(pattern, ensure_ascii=False)
    try:
        return compiled(f"name.matches({quoted})", variables=("name",), result=Result.TRUTH).truth({"name": name})
    except (ExpressionFailed, ExpressionInvalid) as error:
        raise ValueError(f"{pattern!r} cannot be used as a regular expression (RE2): {error}") from error
