"""Promise: the laws hold something. Each mistake that a provider could make breaks one of them."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rollouts.errors import Unroutable
from rollouts.sim.storage.refusals import Refused
from rollouts.traffic.codec import Provider
from tests.traffic.broken import BROKEN, Broken, DropsManagedRoutes, RestoresASnapshot, TestsNothing
from tests.traffic.cases.all_cases import CASES
from tests.traffic.cases.case import Case
from tests.traffic.laws import LAWS
from tests.traffic.situation import Situation

QUIET = (HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large)


def _can_be_made(mistake: type[Broken], case: Case) -> bool:
    """Some routers have no managed routes to lose, and of some the user's object is not written."""
    if mistake is DropsManagedRoutes:
        return bool(case.features)
    return mistake not in (RestoresASnapshot, TestsNothing) or not case.keeps_user_as_is


MISTAKES = [(case, mistake) for case in CASES for mistake in BROKEN if _can_be_made(mistake, case)]


@pytest.mark.parametrize(
    ("case", "mistake"), MISTAKES, ids=lambda each: each.name if isinstance(each, Case) else each.__name__
)
def test_a_mistake_breaks_a_law(case: Case, mistake: type[Broken]) -> None:
    """A suite that a broken provider passes would be decoration."""
    broken = mistake(case.provider)

    assert _is_found_out(case, broken)


def _is_found_out(case: Case, provider: Broken) -> bool:
    """Whether some law fails for some of a few hundred objects; the first one is enough, so nothing is made smaller."""

    @settings(max_examples=150, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=QUIET)
    @given(data=st.data())
    def keeps_the_laws(data: st.DataObject) -> None:
        start = Situation.of(cast(Provider, provider), case.settings, data.draw(case.users), case.context)
        wants = data.draw(case.wants())
        try:
            for law in LAWS:
                law(case, start, wants)
        except Unroutable:
            return

    try:
        keeps_the_laws()
    except (AssertionError, Refused):  # Refused: a patch that does not fit the object
        return True
    return False
