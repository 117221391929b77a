"""The name that a subset of a DestinationRule has among Services: `rule/subset`, which no Service can have (RFC 1123 labels)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SubsetName:
    """One subset.

    Args:
        rule: name of the DestinationRule.
        subset: its name in the rule.
    """

    rule: str
    subset: str

    def __str__(self) -> str:
        return f"{self.rule}/{self.subset}"


def subset_name(name: str) -> SubsetName | None:
    """What `str` of one was made of; None for the name of a Service."""
    rule, _, subset = name.partition("/")
    return SubsetName(rule, subset) if subset else None
