"""The Mann-Whitney U test of two samples, by scipy, which is imported with the first test: it takes about a second.

Corrected for ties; exact for small samples without ties. Its error holds for one test, of a number of samples that was fixed
before, and for samples that do not depend on each other. So it is not repeated until it says something.
Source: https://docs.scipy.org/doc/scipy/reference/generated/scipy.stats.mannwhitneyu.html
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from rollouts.core.compare.stakes import Conclusion
from rollouts.metrics.samples import Absence, NoEvidence

SAMPLES_MIN = 10
"""Of each arm; of fewer, hardly any difference is told."""
MISSING = (
    "the test mannWhitney needs scipy, which the controller does not have here: make image REQUIREMENTS=requirements-stats.lock,"
    " or pip install 'rollouts-dev[stats]'"
)


class RankAnswer(Struct, frozen=True):
    """What the test says.

    Args:
        p_worse: chance of ranks at least as high as the canary's, were it not worse; p_not_worse: as low, were it worse.
    """

    answer: Conclusion
    p_worse: float
    p_not_worse: float


def ranks_compared(canary: Sequence[float], limits: Sequence[float], *, alpha: float) -> RankAnswer | NoEvidence:
    """Whether the canary's values tend to be above the limits, or below.

    Args:
        canary: finite, where more is worse.
        limits: stable's values, moved by the effect.
    """
    fewest = min(len(canary), len(limits))
    if fewest < SAMPLES_MIN:
        return NoEvidence(f"an arm has {fewest} of the {SAMPLES_MIN} values that are needed")
    try:
        from scipy.stats import mannwhitneyu  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        return NoEvidence(MISSING, Absence.ERROR)
    p_worse = float(mannwhitneyu(canary, limits, alternative="greater").pvalue)
    p_not_worse = float(mannwhitneyu(canary, limits, alternative="less").pvalue)
    if p_worse <= alpha:
        return RankAnswer(Conclusion.WORSE, p_worse, p_not_worse)
    return RankAnswer(Conclusion.NOT_WORSE if p_not_worse <= alpha else Conclusion.UNDECIDED, p_worse, p_not_worse)
