"""An always-valid test of two values that are measured side by side: is the canary's mostly above its limit? Pure.

The limit follows from stable's value of the same look, so what happens to both arms cancels out. Only the side of the limit
counts, not the distance: nothing is assumed about how values are distributed, and one outlier is one look.

If the canary is mostly not above, each look is above its limit with a chance of at most 1/2, whatever came before. Against
that a stake is bet: half of it on "all looks are above", which doubles with each look above its limit and is lost with any
other one; half of it at each q in 1/2..1 at the same time, which a look above its limit multiplies by 2 q and any other one by
2 (1 - q). The evidence depends on two numbers alone. The other answer is bet on in the same way.

Source: the sign test as a test martingale with a uniform mixture; Ramdas, Grünwald, Vovk, Shafer, "Game-theoretic statistics and
safe anytime-valid inference", 2023, https://arxiv.org/abs/2210.01948.
"""

from __future__ import annotations

import math

from msgspec import Struct

from rollouts.core.compare.stakes import Stakes


class Sides(Struct, frozen=True, kw_only=True):
    """On which side of their limits the looks were.

    Args:
        looks: all of them; one that is exactly at its limit is on neither side.
    """

    looks: int = 0
    above: int = 0
    below: int = 0

    @property
    def stakes(self) -> Stakes:
        """The evidence that the canary is mostly above its limit, and that it is mostly below."""
        return Stakes(log_worse=_log_stake(self.above, self.looks), log_not_worse=_log_stake(self.below, self.looks))


def with_values(sides: Sides, canary: float, limit: float) -> Sides:
    """With one more look.

    Args:
        canary: where more is worse.
        limit: of this look.
    """
    return Sides(looks=sides.looks + 1, above=sides.above + (canary > limit), below=sides.below + (canary < limit))


def _log_stake(won: int, looks: int) -> float:
    """Its logarithm; exact, as the integral over q in 1/2..1 of (2 q)^won (2 (1 - q))^(looks - won) is a binomial sum."""
    ways, total = 1, 0
    for taken in range(won + 1):
        total += ways
        ways = ways * (looks + 1 - taken) // (taken + 1)
    mixture = math.log(total) - math.log(looks + 1) - math.log(math.comb(looks, won))
    if won < looks:
        return mixture - math.log(2)
    doubled = looks * math.log(2)
    return doubled - math.log(2) + math.log1p(math.exp(mixture - doubled))
