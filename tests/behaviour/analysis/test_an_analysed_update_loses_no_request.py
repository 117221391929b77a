"""Promise: the moves of an update with an analysis lose no request, whichever way the verdict goes.

A request that a bad version answers with an error is not lost: the network brought it there and back.
"""

from __future__ import annotations

import pytest

from rollouts.core.model.frozen import replace
from tests.behaviour.analysed import ANALYSED, RATE_PER_S, Users

SLICE_LAG_S = 0.3
SETTLING_S = 15.0
JUDGED_BAD = {name for name, each in ANALYSED.items() if "Failed" in each.verdicts}
"""Their bad version answers some requests before its analysis fails."""


def users_of(name: str, **spec: object) -> Users:
    """Those of the scenario, with EndpointSlices that are written late, until well after its end."""
    scenario = replace(ANALYSED[name], spec=spec)
    users = Users()
    scenario.play(users=users, slice_lag_s=SLICE_LAG_S, settling_s=SETTLING_S).assert_clean()
    return users


@pytest.mark.parametrize("name", ANALYSED)
def test_no_request_is_lost(name: str) -> None:
    """Users' requests through promotions and aborts; those of tests to a preview are nobody's."""
    users = users_of(name)

    assert users.sent > RATE_PER_S * SETTLING_S
    assert users.lost == 0
    assert (users.failed > 0) == (name in JUDGED_BAD)


@pytest.mark.parametrize("name", ("canary bad", "background that fails late"))
def test_a_loss_would_be_seen(name: str) -> None:
    """The same aborts without the project's care for pods that end."""
    assert users_of(name, drain={"mode": "Off"}).lost > 0
