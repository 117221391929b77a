"""The evidence of a sequential test, as two stakes that began at 1, and what follows from them. Pure."""

from __future__ import annotations

import math
from enum import Enum

from msgspec import Struct


class Conclusion(Enum):
    """What a comparison says."""

    WORSE = "worse"
    NOT_WORSE = "not worse"
    UNDECIDED = "undecided"


class Stakes(Struct, frozen=True, kw_only=True):
    """Evidence for each answer (e-values), as logarithms: 0 is none, and below 0 speaks against it."""

    log_worse: float = 0.0
    log_not_worse: float = 0.0

    def answer(self, alpha: float) -> Conclusion:
        """What they say.

        Args:
            alpha: chance that an answer is wrong, whenever it is given; above 0 and below 1.
        """
        needed = -math.log(alpha)
        if self.log_worse >= needed and self.log_worse >= self.log_not_worse:
            return Conclusion.WORSE
        return Conclusion.NOT_WORSE if self.log_not_worse >= needed else Conclusion.UNDECIDED
