"""Promise: whatever a user has written and whatever a Rollout wants, each provider keeps every law of its contract.

`ROLLOUTS_LAWS` says how many objects are drawn for each provider.
"""

from __future__ import annotations

import os
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from rollouts.core.model.traffic import Feature, MirrorRoute, Split
from rollouts.errors import Unroutable
from tests.traffic.cases.all_cases import CASES
from tests.traffic.cases.case import Case
from tests.traffic.laws import LAWS
from tests.traffic.situation import TESTERS, Situation

ASKING = (
    (Feature.HEADER, Split(Fraction(0), (TESTERS,))),
    (Feature.MIRROR, Split(Fraction(0), (), (MirrorRoute("copies"),))),
    (Feature.MIRROR, Split(Fraction(0), (), (MirrorRoute("copies", (TESTERS.match,)),))),
)
EXAMPLES = int(os.environ.get("ROLLOUTS_LAWS", "40"))
QUIET = (HealthCheck.filter_too_much, HealthCheck.too_slow)


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
