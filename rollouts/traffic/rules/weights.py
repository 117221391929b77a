"""Exact weights: whole numbers whose quotient is the wanted share, with the user's own total if that is possible."""

from __future__ import annotations

from fractions import Fraction

from msgspec import Struct

from rollouts.errors import Unroutable


class WeightPair(Struct, frozen=True):
    """The weights of the stable and the canary Service in one rule; never both 0."""

    stable: int
    canary: int

    @property
    def share(self) -> Fraction:
        """The canary's part of the pair, 0..1. Raises: Unroutable for 0 and 0: some routers return errors, some split in half."""
        if not self.stable + self.canary:
            raise Unroutable(
                "the weights of both Services are 0, so no request is served; give the stable Service a weight"
            )
        return Fraction(self.canary, self.stable + self.canary)


def weights_for(share: Fraction, *, users: WeightPair, most: int, fixed_total: bool) -> WeightPair:
    """The pair that expresses `share` exactly, with the user's total or the least multiple of it that can.

    Raises: Unroutable, with what to write instead.
    """
    if users.share == share:
        return users
    total = users.stable + users.canary
    exact = Fraction(total) * share
    if exact.denominator > 1 and fixed_total:
        raise Unroutable(
            f"{_percent(share)} of a total of {total} is not a whole number, and the rule has other backends as well; "
            f"multiply every weight of the rule by {exact.denominator}"
        )
    total *= exact.denominator
    canary = int(total * share)
    if max(canary, total - canary) > most:
        raise Unroutable(
            f"{_percent(share)} needs a total weight of {total}, and a weight can be at most {most}; "
            "write smaller weights, or use a rounder percentage"
        )
    return WeightPair(total - canary, canary)


def _percent(share: Fraction) -> str:
    return f"{float(share * 100):g} %"
