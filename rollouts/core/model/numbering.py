"""How a step is numbered in texts that people read."""

from __future__ import annotations


def step_number(index: int) -> int:
    """Its number for people, who count from 1.

    The API counts from 0: `currentStepIndex`, `REVISION@STEP` in an annotation, the label and the name of an AnalysisRun.
    """
    return index + 1
