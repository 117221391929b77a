"""Promise: a changed copy of a frozen value is what `dataclasses.replace` makes, for less."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.status import Phase, RolloutStatus, ScaleDown

STATUS = RolloutStatus(current_revision="b", scale_downs=(ScaleDown("a", 7.0),))


@pytest.mark.parametrize(
    ("value", "changes"),
    [(STATUS, {"phase": Phase.ABORTED, "replicas": 3}), (STATUS, {}), (STATUS.scale_downs[0], {"at_s": 8.0})],
    ids=["without slots", "nothing changed", "with slots"],
)
def test_a_copy_has_the_changes_and_the_rest(value: Any, changes: dict[str, Any]) -> None:
    """The status is copied without its constructor, other values by it: no field may be lost on either way."""
    before = dataclasses.asdict(value)

    copy = replace(value, **changes)

    assert copy == dataclasses.replace(value, **changes)
    assert dataclasses.asdict(value) == before


@pytest.mark.parametrize("value", [STATUS, STATUS.scale_downs[0]])
def test_a_name_that_is_no_field_is_refused(value: Any) -> None:
    """A misspelt change would else be carried along, and never written."""
    with pytest.raises(TypeError):
        replace(value, no_such_field=1)
