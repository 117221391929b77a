"""Promise: a changed copy of a frozen value is another value of its kind, whether a struct or a dataclass."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.analysis.metric import MetricCondition
from rollouts.core.model.frozen import replace
from rollouts.core.model.status import Phase, RolloutStatus, ScaleDown

STATUS = RolloutStatus(current_revision="b", scale_downs=(ScaleDown("a", 7.0),))
CONDITION = MetricCondition(success="result < 1", failure="result > 2")


def test_a_copy_has_the_changes_and_the_rest() -> None:
    """No field may be lost on the way, and the value stays as it is. Those not printed, compared or hashed are dataclasses."""
    before = RolloutStatus(current_revision="b", scale_downs=STATUS.scale_downs)
    aborted = RolloutStatus(current_revision="b", scale_downs=STATUS.scale_downs, phase=Phase.ABORTED, replicas=3)

    assert replace(STATUS, phase=Phase.ABORTED, replicas=3) == aborted
    assert before == STATUS
    assert replace(CONDITION, failure="") == MetricCondition(success="result < 1")


@pytest.mark.parametrize("value", [STATUS, STATUS.scale_downs[0], CONDITION], ids=lambda value: type(value).__name__)
def test_a_name_that_is_no_field_is_refused(value: Any) -> None:
    """A misspelt change would else be carried along, and never written."""
    with pytest.raises(TypeError):
        replace(value, no_such_field=1)


@pytest.mark.parametrize(
    ("value", "field"), [(STATUS, "replicas"), (CONDITION, "success")], ids=["struct", "dataclass"]
)
def test_a_value_cannot_change(value: Any, field: str) -> None:
    """Whoever holds one may rely on it: the rules of a pass look at one another's values."""
    with pytest.raises(AttributeError):
        setattr(value, field, None)
