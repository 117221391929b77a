"""Promise: the laws hold something. Each mistake that a provider could make breaks one of them."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rollouts.errors import Unroutable
from rollouts.sim.storage.refusals import Refused
from rollouts.traffic.codec import Provider
from tests.traffic.broken import DROPS_MANAGED_ROUTES, MISTAKES, RESTORES_A_SNAPSHOT, TESTS_NOTHING
from tests.traffic.cases.all_cases import CASES
from tests.traffic.cases.case import Case
from tests.traffic.laws import LAWS
from tests.traffic.situation import Situation

QUIET = (HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large)


def _can_be_made(mistake: str, case: Case) -> bool:
    """Some routers have no managed routes to lose, and of some the user's object is not written."""
    if mistake == DROPS_MANAGED_ROUTES:
        return bool(case.features)
    return mistake not in (RESTORES_A_SNAPSHOT, TESTS_NOTHING) or not case.keeps_user_as_is


@pytest.mark.parametrize(
    ("case", "mistake"),
    [
        pytest.param(case, mistake, id=f"{case.name} {mistake}")
        for case in CASES
        for mistake in MISTAKES
        if _can_be_made(mistake, case)
    ],
)
def test_a_mistake_breaks_a_law(case: Case, mistake: str) -> None:
    """A suite that a broken provider passes would be decoration. The first object is enough, so nothing is made smaller."""
    provider = cast(Provider, MISTAKES[mistake](case.provider))

    @settings(max_examples=150, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=QUIET)
    @given(data=st.data())
    def keeps_the_laws(data: st.DataObject) -> None:
        start = Situation.of(provider, case.settings, data.draw(case.users), case.context)
        wants = data.draw(case.wants())
        try:
            for law in LAWS:
                law(case, start, wants)
        except Unroutable:
            return

    with pytest.raises((AssertionError, Refused)):  # Refused: a patch that does not fit the object
        keeps_the_laws()
