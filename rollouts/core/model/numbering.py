"""How steps and revisions are numbered in texts that people read."""

from __future__ import annotations


def step_number(index: int) -> int:
    """Its number for people, who count from 1.

    The API counts from 0: `currentStepIndex`, `REVISION@STEP` in an annotation, the label and the name of an AnalysisRun.
    """
    return index + 1


def revision_title(number: int, revision: str) -> str:
    """A revision whose number is known: `#4 f7w2k9xq4c`. Commands take `f7w2k9xq4c`, `4` and `#4`."""
    return f"#{number or '?'} {revision}"


def told_title(number: int, revision: str) -> str:
    """The same in a sentence; only the revision where nobody numbers it, as those of a StatefulSet and a DaemonSet."""
    return revision_title(number, revision) if number else revision
