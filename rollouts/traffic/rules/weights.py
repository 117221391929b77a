"""Exact weights: whole numbers whose quotient is the share that was asked for, over the user's own total where it can be kept."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from rollouts.errors import Unroutable


@dataclass(frozen=True, slots=True)
class WeightPair:
    """Weights of the stable and the canary Service beside each other; never both 0."""

    stable: int
    canary: int

    @property
    def share(self) -> Fraction:
        """The canary's part of the pair, 0..1. Raises: Unroutable for 0 and 0, which routers answer with errors or with half."""
        if not self.stable + self.canary:
            raise Unroutable(
                "the weights of both Services are 0, so nobody is served; give the stable Service a weight"
            )
        return Fraction(self.canary, self.stable + self.canary)


def weights_for(share: Fraction, *, users: WeightPair, most: int, fixed_total: bool) -> WeightPair:
    """The pair that says `share` exactly: of the user's total, or of its least multiple that can.

    Args:
        users: what the user wrote.
        most: the largest weight that the API takes.
        fixed_total: other backends stand beside the pair, whose part would change with its total.

    Raises: Unroutable, with what to write instead.
    """
    if users.share == share:
        return users
    total = users.stable + users.canary
    exact = Fraction(total) * share
    if exact.denominator > 1 and fixed_total:
        raise Unroutable(
            f"{_percent(share)} of a total of {total} is no whole number, and other backends stand beside the two Services; "
            f"multiply every weight of the rule by {exact.denominator}"
        )
    total *= exact.denominator
    canary = int(total * share)
    if max(canary, total - canary) > most:
        raise Unroutable(
            f"{_percent(share)} needs a total weight of {total}, and a weight is {most} at most; "
            "write smaller weights, or ask for a rounder share"
        )
    return WeightPair(total - canary, canary)


def _percent(share: Fraction) -> str:
    return f"{float(share * 100):g} %"
