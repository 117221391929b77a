"""How early any test could answer: the bound that no way to spend evidence gets below.

Whoever answers half of the comparisons within some looks, and is wrong no more often than alpha, has a test of that many looks
whose power is a half. The most powerful one of known rates is the likelihood ratio (Neyman, Pearson), here against the point on
the edge of the other hypothesis that is hardest to tell apart. It knows all rates beforehand and looks once; a sequential test
learns the rates and may be looked at any time, so it needs more.

Of values nothing is known but the side of the limit. Where each look is on either side with a chance of 1/2, any course of n
looks on one side has a chance of 2^-n, so no test answers before that is at most alpha.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tests.core.compare.arms import RateArms, ValueArms

POWER = 0.5
_FARTHEST = 12  # standard deviations of a count that are looked at
_EDGE_POINTS = 45

_Floats = npt.NDArray[np.float64]


def fewest_looks(arms: RateArms | ValueArms, *, alpha: float, looks_max: int) -> int | None:
    """Looks after which half of such comparisons may be answered; None for more than `looks_max`, or if rates change before."""
    if isinstance(arms, ValueArms):
        return math.ceil(-math.log2(alpha))
    until = arms.grows_at - 1 if arms.grows_at else looks_max
    return next((looks for looks in range(1, until + 1) if _power(arms, looks, alpha) >= POWER), None)


def _power(arms: RateArms, looks: int, alpha: float) -> float:
    """The most that a test of so many looks can have, whichever point of the edge is the truth instead."""
    stable = arms.stable_bad
    near = np.linspace(max(stable - arms.effect, 1e-6), stable + 1.2 * arms.effect, _EDGE_POINTS)
    return min(_power_against(arms, looks, alpha, float(each)) for each in near if each + arms.effect < 1)


def _power_against(arms: RateArms, looks: int, alpha: float, stable: float) -> float:
    canary_true, canary_edge = _log_chances(looks * arms.canary_requests, arms.canary_bad, stable + arms.effect)
    stable_true, stable_edge = _log_chances(looks * arms.stable_requests, arms.stable_bad, stable)
    true = (canary_true[:, None] + stable_true[None, :]).ravel()
    edge = (canary_edge[:, None] + stable_edge[None, :]).ravel()
    order = np.argsort(edge - true)
    wrong, right = np.cumsum(np.exp(edge[order])), np.cumsum(np.exp(true[order]))
    place = int(np.searchsorted(wrong, alpha))
    if place >= len(wrong):
        return float(right[-1])
    wrong_before, right_before = (float(wrong[place - 1]), float(right[place - 1])) if place else (0.0, 0.0)
    part = (alpha - wrong_before) / (float(wrong[place]) - wrong_before)  # answered by lot at the limit itself
    return right_before + part * (float(right[place]) - right_before)


def _log_chances(events: int, one: float, other: float) -> tuple[_Floats, _Floats]:
    """Logarithms of the chances of each count that can happen, under either rate."""
    most = events * max(one, other)
    counts = range(min(events, math.ceil(most + _FARTHEST * math.sqrt(most + 1))) + 1)
    ways = np.array([math.lgamma(events + 1) - math.lgamma(n + 1) - math.lgamma(events - n + 1) for n in counts])
    bad = np.array(counts, dtype=np.float64)
    return tuple(ways + bad * math.log(rate) + (events - bad) * math.log1p(-rate) for rate in (max(one, 1e-12), other))  # type: ignore[return-value]
