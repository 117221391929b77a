"""Counts with their nouns, for people: `1 pod`, `3 pods`. Pure."""

from __future__ import annotations


def count_of(count: int, noun: str) -> str:
    """The count and its noun, in the plural unless the count is 1.

    Args:
        noun: in the singular; its plural ends in `s`.
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
