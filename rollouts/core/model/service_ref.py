"""How a strategy refers to a Service: by its name, or as a subset of a DestinationRule, which the core treats as a Service."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct


class SubsetName(Struct, frozen=True):
    """One subset. Its text is `rule/subset`, which cannot be the name of a Service (RFC 1123 labels).

    Args:
        rule: name of the DestinationRule.
        subset: its name in the rule.
    """

    rule: str
    subset: str

    def __str__(self) -> str:
        return f"{self.rule}/{self.subset}"


ServiceRef: TypeAlias = str | SubsetName


def service_ref(text: str) -> ServiceRef:
    """Parses the text of a Service's or a subset's name."""
    rule, _, subset = text.partition("/")
    return SubsetName(rule, subset) if subset else text
