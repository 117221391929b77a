"""What a comparison carries from look to look, as texts in the metric's result. What cannot be read is as if there were none.

Totals, not differences: a look that is recorded twice is the same as one that is recorded once. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from rollouts.core.compare.rates import Counts, RateEvidence
from rollouts.core.compare.stakes import Stakes
from rollouts.core.compare.values import Sides

_WHOLE = ("looks", "canaryEvents", "canaryBad", "stableEvents", "stableBad", "sides", "above", "below")


class Carried(Struct, frozen=True, kw_only=True):
    """What was seen so far.

    Args:
        looks: that were taken, with evidence or without.
        until_s: what was counted goes up to here, seconds since 1970; None where nothing was.
    """

    looks: int = 0
    until_s: float | None = None
    tally: RateEvidence = field(default_factory=RateEvidence)
    sides: Sides = field(default_factory=Sides)


def carry(state: Carried) -> tuple[tuple[str, str], ...]:
    """The state as texts; without what is 0."""
    canary, stable, stakes, sides = state.tally.canary, state.tally.stable, state.tally.stakes, state.sides
    whole = (state.looks, canary.events, canary.bad, stable.events, stable.bad, sides.looks, sides.above, sides.below)
    found = {name: str(number) for name, number in zip(_WHOLE, whole, strict=True) if number}
    for name, number in (("logWorse", stakes.log_worse), ("logNotWorse", stakes.log_not_worse)):
        if number:
            found[name] = repr(number)
    if state.until_s is not None:
        found["until"] = f"{state.until_s:.3f}"
    return tuple(found.items())


def carried_of(texts: Sequence[tuple[str, str]]) -> Carried:
    """The state that was carried."""
    found = dict(texts)
    try:
        looks, events, bad, of_stable, stable_bad, seen, above, below = (_count(found, name) for name in _WHOLE)
        stakes = Stakes(log_worse=_number(found, "logWorse"), log_not_worse=_number(found, "logNotWorse"))
        until_s = _number(found, "until") if "until" in found else None
    except ValueError:
        return Carried()
    if bad > events or stable_bad > of_stable or above + below > seen:
        return Carried()
    tally = RateEvidence(canary=Counts(events, bad), stable=Counts(of_stable, stable_bad), stakes=stakes)
    return Carried(looks=looks, until_s=until_s, tally=tally, sides=Sides(looks=seen, above=above, below=below))


def _count(found: Mapping[str, str], name: str) -> int:
    text = found.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ValueError(name)
    return int(text)


def _number(found: Mapping[str, str], name: str) -> float:
    number = float(found.get(name, "0"))
    if not math.isfinite(number):
        raise ValueError(name)
    return number
