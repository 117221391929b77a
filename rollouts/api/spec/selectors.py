"""Label selectors: checks them, matches labels, and writes them as `kubectl -l` does."""

from __future__ import annotations

from collections.abc import Mapping

from rollouts.api.problems import Problems, path_of
from rollouts.api.spec.reading import check_needed
from rollouts.api.v1alpha1.analysis import ExpressionOfLabels, LabelSelector
from rollouts.core.model.grammar import is_label_key, is_label_value


def check_selector(selector: LabelSelector, path: str, problems: Problems) -> None:
    """Adds what the API server refuses in a ReplicaSet's selector, and a selector that is empty."""
    if not selector.match_labels and not selector.match_expressions:
        problems.add_missing(path, "is empty and would select every pod in the namespace; give it matchLabels")
    for key, value in (selector.match_labels or {}).items():
        if not is_label_key(key):
            problems.add(path_of(("matchLabels", key), root=path), "is not a label key")
        if not is_label_value(value):
            problems.add(path_of(("matchLabels", key), root=path), f"{value!r} is not a label value")
    for index, expression in enumerate(selector.match_expressions or ()):
        _check_expression(expression, f"{path}.matchExpressions[{index}]", problems)


def selected_keys(selector: LabelSelector) -> frozenset[str]:
    """The label keys that the selector uses."""
    return frozenset(selector.match_labels or ()) | {
        expression.key for expression in selector.match_expressions or () if expression.key
    }


def matches(selector: LabelSelector, labels: Mapping[str, object]) -> bool:
    """Whether all requirements of the selector hold for `labels`."""
    if any(labels.get(key) != value for key, value in (selector.match_labels or {}).items()):
        return False
    for expression in selector.match_expressions or ():
        key, values = expression.key or "", expression.values or ()
        match expression.operator:
            case "In":
                holds = labels.get(key) in values and key in labels
            case "NotIn":
                holds = key not in labels or labels[key] not in values
            case "Exists":
                holds = key in labels
            case _:
                holds = key not in labels
        if not holds:
            return False
    return True


def selector_text(selector: LabelSelector) -> str:
    """The selector as text for `kubectl -l` and the scale subresource, always in the same order.

    Sorted by key, as apimachinery's `labels.Selector.String` does: `app=cart,tier in (back,front),!old`.
    """
    parts = [(key, f"{key}={value}") for key, value in (selector.match_labels or {}).items()]
    for expression in selector.match_expressions or ():
        key, values = expression.key or "", ",".join(sorted(expression.values or ()))
        match expression.operator:
            case "In":
                parts.append((key, f"{key} in ({values})"))
            case "NotIn":
                parts.append((key, f"{key} notin ({values})"))
            case "DoesNotExist":
                parts.append((key, f"!{key}"))
            case _:
                parts.append((key, key))
    return ",".join(text for _, text in sorted(parts))


def _check_expression(expression: ExpressionOfLabels, path: str, problems: Problems) -> None:
    check_needed(expression, path, problems, "key")
    if expression.key is not None and not is_label_key(expression.key):
        problems.add(f"{path}.key", f"{expression.key!r} is not a label key")
    for value in expression.values or ():
        if not is_label_value(value):
            problems.add(f"{path}.values", f"{value!r} is not a label value")
    match expression.operator:
        case "In" | "NotIn":
            if not expression.values:
                problems.add_missing(f"{path}.values", f"is required for {expression.operator}")
        case "Exists" | "DoesNotExist":
            if expression.values:
                problems.add(f"{path}.values", f"must be empty for {expression.operator}")
        case None:
            problems.add_missing(f"{path}.operator", "is required: In, NotIn, Exists or DoesNotExist")
