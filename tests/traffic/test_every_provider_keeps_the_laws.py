"""Promise: whatever a user has written and whatever a Rollout wants, each provider keeps every law of its contract.

`ROLLOUTS_LAWS` says how many objects are drawn for each provider.
"""

from __future__ import annotations

import os
from fractions import Fraction
from typing import cast

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from rollouts.core.model.traffic import ExperimentShare, Feature, MirrorRoute, Split, Sticky
from rollouts.errors import Unroutable
from rollouts.sim.storage.refusals import Refused
from rollouts.traffic.codec import Provider
from tests.traffic.broken import DROPS_MANAGED_ROUTES, MISTAKES, RESTORES_A_SNAPSHOT, TESTS_NOTHING
from tests.traffic.cases.all_cases import CASES
from tests.traffic.cases.case import Case
from tests.traffic.laws import LAWS
from tests.traffic.situation import TESTERS, Situation

ASKING = (
    (Feature.HEADER, Split(Fraction(0), (TESTERS,))),
    (Feature.COOKIE, Split(Fraction(1, 4), sticky=Sticky("sid", "0123456789abcdef", "r1"))),
    (Feature.EXPERIMENT, Split(Fraction(1, 4), experiments=(ExperimentShare("cart-try", Fraction(1, 10)),))),
    (Feature.MIRROR, Split(Fraction(0), (), (MirrorRoute("copies"),))),
    (Feature.MIRROR, Split(Fraction(0), (), (MirrorRoute("copies", (TESTERS.match,)),))),
)
EXAMPLES = int(os.environ.get("ROLLOUTS_LAWS", "40"))
QUIET = (HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=QUIET)
@given(data=st.data())
def test_a_provider_keeps_every_law(case: Case, data: st.DataObject) -> None:
    """One suite for all, so that a new provider brings objects and no tests of its own."""
    start = Situation.of(case.provider, case.settings, data.draw(case.users), case.context)
    wants = data.draw(case.wants())
    try:
        for law in LAWS:
            law(case, start, wants)
    except Unroutable:  # said in words, and nothing is written: the tests of each provider hold which
        assume(False)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@settings(max_examples=5, deadline=None, suppress_health_check=QUIET)
@given(data=st.data())
def test_what_is_no_feature_is_refused_in_words(case: Case, data: st.DataObject) -> None:
    """A step that a router has no words for must not be believed done; and a feature that is offered is there."""
    start = Situation.of(case.provider, case.settings, data.draw(case.users), case.context)

    offered = case.provider.features(start.objects, start.target)

    assert offered == case.features
    for feature, want in ASKING:
        if feature not in offered:
            with pytest.raises(Unroutable):
                start.plan(want)


def _can_be_made(mistake: str, case: Case) -> bool:
    """Some routers have no managed routes to lose, and of some the user's object is not written."""
    if mistake == DROPS_MANAGED_ROUTES:
        return bool(case.features - {Feature.EXPERIMENT})
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
