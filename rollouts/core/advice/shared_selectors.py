"""Two workloads of a namespace of which one finds the other's pods by its selector. Pure.

Each of our ReplicaSets selects its own revision, so no pod changes hands. But a Service, an autoscaler, a budget or a query that
goes by those labels takes the pods of both for one. Only `matchLabels` are compared: a selector with expressions is left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from rollouts.objects import mapping


class Workload(Struct, frozen=True):
    """What finds pods, and what its own pods are found by.

    Args:
        selector: its `matchLabels`; {} for a selector that has expressions, or that cannot be read.
    """

    kind: str
    name: str
    selector: Mapping[str, str]
    labels: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def workload_of(manifest: object) -> Workload | None:
    """A Rollout, or another workload with pods; None for anything without `spec.selector` and `spec.template`."""
    spec, metadata = mapping(manifest).get("spec"), mapping(mapping(manifest).get("metadata"))
    selector, template = mapping(spec).get("selector"), mapping(mapping(spec).get("template"))
    name = metadata.get("name")
    if not isinstance(name, str) or not isinstance(selector, Mapping) or not template:
        return None
    expressions = selector.get("matchExpressions")
    return Workload(
        kind=str(mapping(manifest).get("kind")),
        name=name,
        selector={} if expressions else _texts(selector.get("matchLabels")),
        labels=_texts(mapping(template.get("metadata")).get("labels")),
    )


def share_pods(one: Workload, other: Workload) -> bool:
    """Whether one of two different workloads finds the other's pods."""
    if (one.kind, one.name) == (other.kind, other.name):
        return False
    return _finds(one, other) or _finds(other, one)


def shared_text(others: list[str]) -> str:
    """What it means and what helps.

    Args:
        others: what shares pods with the Rollout, as `Rollout cart`.
    """
    names = " and ".join(sorted(others)[:NAMED_MAX])
    more = f" and {len(others) - NAMED_MAX} more" if len(others) > NAMED_MAX else ""
    return (
        f"{names}{more} and this Rollout find each other's pods: Services, autoscalers and budgets that go by these labels take "
        "them for one; give each a label of its own in spec.selector and spec.template"
    )


NAMED_MAX = 3


def _finds(one: Workload, other: Workload) -> bool:
    return bool(one.selector) and all(other.labels.get(key) == value for key, value in one.selector.items())


def _texts(value: object) -> dict[str, str]:
    return {key: text for key, text in mapping(value).items() if isinstance(text, str)}
