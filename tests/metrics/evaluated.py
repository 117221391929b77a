"""Whether a condition can be evaluated, for tests of conditions that users copy."""

from __future__ import annotations

from rollouts.errors import ExpressionFailed
from rollouts.metrics.conditions import condition_of

RESULTS = ([0.5, 0.5], 0.5, "text", True, {"data": {"value": 0.5}})
"""What providers give: a vector, a number, and what an answer of `web` may have."""
NO_SUCH_MEMBER = "there is no such member"


def assert_can_be_evaluated(source: str) -> None:
    """It is true or false of some result, or asks for a member that only the author's own answers have."""
    condition, reasons = condition_of(source, defaults=False), []
    for result in RESULTS:
        try:
            assert condition.holds(result, now_s=1_800_000_000.0) in (True, False)
        except ExpressionFailed as error:
            reasons.append(str(error))
    assert len(reasons) < len(RESULTS) or NO_SUCH_MEMBER in reasons, (source, reasons)
