"""Promise: the laws hold something. Each mistake that a provider could make breaks one of them."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rollouts.errors import Unroutable
from rollouts.sim.storage.refusals import Refused
from tests.traffic.broken import BROKEN, Broken, DropsManagedRoutes, RestoresASnapshot, TestsNothing
from tests.traffic.cases.all_cases import CASES
from tests.traffic.cases.case import Case
from tests.traffic.laws import LAWS
from tests.traffic.situation import Situation

QUIET = (HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large)


@pytest.mark.parametrize("mistake", BROKEN, ids=lambda mistake: mistake.__name__)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_mistake_breaks_a_law(case: Case, mistake: type[Broken]) -> None:
    """A suite that a broken provider passes would be decoration."""
    if mistake is DropsManagedRoutes and not case.features:
        pytest.skip("this router has no managed routes to lose")
    if mistake in (RestoresASnapshot, TestsNothing) and case.keeps_user_as_is:
        pytest.skip("the user's object is not written")
    broken = mistake(case.provider)

    assert _is_found_out(case, broken)


def _is_found_out(case: Case, provider: Broken) -> bool:
    """Whether some law fails for some of a few hundred objects; the first one is enough, so nothing is made smaller."""

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

    try:
        keeps_the_laws()
    except (AssertionError, Refused):  # Refused: a patch that does not fit the object
        return True
    return False
