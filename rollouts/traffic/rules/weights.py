"""Exact weights: whole numbers whose proportion is the wanted shares, with the user's own total if that is possible."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm

from msgspec import Struct

from rollouts.errors import Unroutable


class Weights(Struct, frozen=True):
    """The weights of the stable and the canary Service in one rule, and of the Services of Experiments; never all 0."""

    stable: int
    canary: int
    experiments: tuple[int, ...] = ()

    @property
    def share(self) -> Fraction:
        """The canary's part, 0..1. Raises: Unroutable."""
        return self.shares[0]

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The canary's part and that of each Experiment.

        Raises: Unroutable when all are 0: some routers return errors, some split in half.
        """
        total = self.stable + self.canary + sum(self.experiments)
        if not total:
            raise Unroutable(
                "the weights of both Services are 0, so no request is served; give the stable Service a weight"
            )
        return tuple([Fraction(weight, total) for weight in (self.canary, *self.experiments)])


def weights_for(
    share: Fraction, experiments: Sequence[Fraction] = (), *, users: Weights, most: int, fixed_total: bool
) -> Weights:
    """The weights that express `share` and those of Experiments exactly: the user's total, or its least multiple that can.

    Raises: Unroutable, with what to write instead.
    """
    if users.share == share and not any(experiments):
        return Weights(users.stable, users.canary, (0,) * len(experiments))
    shares = (share, *experiments)
    told = " and ".join([f"{float(each * 100):g} %" for each in (share, *filter(None, experiments))])
    if sum(shares) > 1:
        raise Unroutable(f"{told} are more than all requests; lower the weight of the canary, or of the Experiment")
    total = users.stable + users.canary
    times = lcm(*[(total * each).denominator for each in shares])
    if times > 1 and fixed_total:
        raise Unroutable(
            f"{told} of a total of {total} is not a whole number, and the rule has other backends as well; "
            f"multiply every weight of the rule by {times}"
        )
    total *= times
    canary, *others = [int(total * each) for each in shares]
    weights = Weights(total - canary - sum(others), canary, tuple(others))
    if max(weights.stable, canary, *others) > most:
        raise Unroutable(
            f"{told} needs a total weight of {total}, and a weight can be at most {most}; "
            "write smaller weights, or use a rounder percentage"
        )
    return weights
