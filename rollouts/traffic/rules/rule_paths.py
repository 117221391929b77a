"""Where rules stand in an object: the paths of their lists, read and written."""

from __future__ import annotations

from typing import Any, TypeAlias

from rollouts.objects import Manifest

RulePath: TypeAlias = tuple[str | int, ...]
RulePlace: TypeAlias = tuple[RulePath, int]
"""The place of a rule: its list, and its index there."""


def rules_at(user: Manifest, path: RulePath) -> list[Manifest]:
    """The rules at a path: those of a list, or the single object there."""
    found: Any = user
    for step in path:
        found = found.get(step) if isinstance(found, dict) else found[step] if isinstance(step, int) and found else None
    if isinstance(found, dict):
        return [found]
    return found if isinstance(found, list) else []


def put_rules(value: Any, path: RulePath, rules: list[Manifest]) -> Any:
    """A copy with those rules at that path; unchanged when nothing is there."""
    if not path:
        return rules if isinstance(value, list) else rules[0] if isinstance(value, dict) else value
    step, rest = path[0], path[1:]
    if isinstance(value, list) and isinstance(step, int):
        return [*value[:step], put_rules(value[step], rest, rules), *value[step + 1 :]]
    if not isinstance(value, dict) or step not in value:
        return value
    return {**value, step: put_rules(value[step], rest, rules)}
