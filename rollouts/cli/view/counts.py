"""Counts with their nouns, for people: `1 pod`, `3 pods`. Pure."""

from __future__ import annotations


def count_of(count: int, noun: str) -> str:
    """The count and its noun, given in the singular, with an `s` unless the count is 1."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
