"""Label and field selectors in queries, and label selectors in objects.

Source of the grammar: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#api
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from rollouts.objects import Manifest
from rollouts.sim.storage.refusals import bad_request

LabelTest: TypeAlias = Callable[[Mapping[str, str]], bool]

_SETS = re.compile(r"^(\S+)\s+(in|notin)\s+\(([^)]*)\)$")
_PARTS = re.compile(r"(?:[^,(]|\([^)]*\))+")


@lru_cache(maxsize=4096)
def label_test(selector: str) -> LabelTest:
    """The test for a `labelSelector` query; an empty selector selects everything.

    Raises: Refused (400) when it cannot be read.
    """
    tests = [_requirement(part.strip()) for part in _PARTS.findall(selector) if part.strip()]
    if len(tests) == 1:
        return tests[0]
    return lambda labels: all(test(labels) for test in tests)


@lru_cache(maxsize=4096)
def required_label(selector: str) -> tuple[str, str] | None:
    """A label that every object has which a `labelSelector` query selects; None where no single one is needed."""
    for part in map(str.strip, _PARTS.findall(selector)):
        if "=" in part and "!=" not in part and not _SETS.match(part):
            name, _, wanted = part.replace("==", "=").partition("=")
            return name.strip(), wanted.strip()
    return None


def _requirement(part: str) -> LabelTest:
    if sets := _SETS.match(part):
        key, word, values = sets[1], sets[2], {value.strip() for value in sets[3].split(",")}
        if word == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    sign = next((sign for sign in ("!=", "==", "=") if sign in part), None)
    if sign:
        name, wanted = (piece.strip() for piece in part.split(sign, 1))
        if sign == "!=":
            return lambda labels: labels.get(name) != wanted
        return lambda labels: labels.get(name) == wanted
    if part.startswith("!"):
        return lambda labels: part[1:].strip() not in labels
    if " " in part:
        raise bad_request(f"unable to parse requirement: {part!r}")
    return lambda labels: part in labels


@lru_cache(maxsize=4096)
def field_test(selector: str, supported: frozenset[str]) -> Callable[[Manifest], bool]:
    """The test for a `fieldSelector` query.

    Raises: Refused (400) for a field that the resource does not support.
    """
    wanted: list[tuple[str, bool, str]] = []
    for part in filter(None, selector.split(",")):
        sign = "!=" if "!=" in part else "==" if "==" in part else "="
        field, _, value = (piece.strip() for piece in part.partition(sign))
        if field not in supported:
            raise bad_request(
                f'Unable to find "{field}" that matches label selector: field label not supported: {field}'
            )
        wanted.append((field, sign != "!=", value))
    return lambda manifest: all(((value_at(manifest, path) or "") == value) is equal for path, equal, value in wanted)


def value_at(manifest: Manifest, path: str) -> Any:
    """The value at a dotted path; None where there is none."""
    value: Any = manifest
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def selects(selector: Manifest | None, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector object (`matchLabels`, `matchExpressions`) selects `labels`; none selects nothing."""
    return selector is not None and label_test(selector_text(selector))(labels)


def selector_text(selector: Manifest | None) -> str:
    """A LabelSelector as a query, as `status.selector` of a scale has it."""
    parts = [f"{key}={value}" for key, value in sorted(((selector or {}).get("matchLabels") or {}).items())]
    for expression in (selector or {}).get("matchExpressions") or ():
        key, values = expression["key"], ",".join(sorted(expression.get("values") or []))
        match expression["operator"]:
            case "In":
                parts.append(f"{key} in ({values})")
            case "NotIn":
                parts.append(f"{key} notin ({values})")
            case "Exists":
                parts.append(key)
            case _:
                parts.append(f"!{key}")
    return ",".join(parts)
