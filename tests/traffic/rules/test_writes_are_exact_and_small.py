"""Promise: what is written says exactly what is wanted, and no more than it must.

Weights are two whole numbers whose quotient is the share, over the user's own total where that can be. The JSON Patch between two
versions of an object makes one of the other.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rollouts.errors import Unroutable
from rollouts.json_pointer import json_pointer, steps_of
from rollouts.sim.storage.patches import json_patch
from rollouts.traffic.rules.difference import operations
from rollouts.traffic.rules.weights import Weights, weights_for

MOST = 1_000_000
SHARES = st.fractions(0, 1, max_denominator=1000)
PAIRS = st.builds(Weights, st.integers(0, 500), st.integers(0, 500)).filter(lambda pair: pair.stable + pair.canary > 0)


@given(share=SHARES, users=PAIRS)
@example(share=Fraction(1, 1000), users=Weights(100, 0))
@example(share=Fraction(1, 2), users=Weights(3, 1))
@example(share=Fraction(0), users=Weights(0, 7))
def test_the_share_is_said_exactly_over_the_least_multiple_of_the_users_total(share: Fraction, users: Weights) -> None:
    """Rounding is what a canary is not for, and whoever reads the object finds their own numbers again."""
    total = users.stable + users.canary
    found = weights_for(share, users=users, most=MOST, fixed_total=False)
    scale, rest = divmod(found.stable + found.canary, total)

    assert (found.share, rest) == (share, 0)
    assert found.stable >= 0
    assert found.canary >= 0
    assert not any((total * smaller * share).denominator == 1 for smaller in range(1, scale))


@given(share=SHARES, experiments=st.lists(SHARES, min_size=1, max_size=3), users=PAIRS)
@example(share=Fraction(0), experiments=[Fraction(1, 20), Fraction(1, 3)], users=Weights(100, 0))
def test_experiments_have_their_shares_exactly_beside_the_canarys(
    share: Fraction, experiments: list[Fraction], users: Weights
) -> None:
    """Whatever is left is the stable Service's; more than all is refused."""
    if share + sum(experiments) > 1:
        with pytest.raises(Unroutable, match="more than all requests"):
            weights_for(share, experiments, users=users, most=MOST**4, fixed_total=False)
        return
    found = weights_for(share, experiments, users=users, most=MOST**4, fixed_total=False)

    assert found.shares == (share, *experiments)
    assert min(found.stable, found.canary, *found.experiments) >= 0
    assert (found.stable + found.canary + sum(found.experiments)) % (users.stable + users.canary) == 0


def test_an_experiment_that_is_not_there_yet_is_not_told_of() -> None:
    """Its backend has weight 0 first; a share that cannot be said is the canary's then, or it is its own."""
    with pytest.raises(Unroutable, match=r"^33\.3333 % needs a total"):
        weights_for(Fraction(1, 3), [Fraction(0)], users=Weights(MOST, 0), most=MOST, fixed_total=False)
    with pytest.raises(Unroutable, match=r"^0 % and 66\.6667 % needs a total weight of 3000000"):
        weights_for(Fraction(0), [Fraction(2, 3)], users=Weights(MOST, 0), most=MOST, fixed_total=False)


def test_other_backends_keep_their_part() -> None:
    """Beside others the pair's total must stay: 2.5 % of 90 is no whole number, 10 % is."""
    assert weights_for(Fraction(1, 10), users=Weights(90, 0), most=MOST, fixed_total=True) == Weights(81, 9)
    with pytest.raises(Unroutable, match="multiply every weight of the rule by 4"):
        weights_for(Fraction(1, 40), users=Weights(90, 0), most=MOST, fixed_total=True)


def test_a_weight_that_the_api_would_refuse_is_refused_in_words() -> None:
    """422 from the API server would say nothing about the step that asked for it."""
    with pytest.raises(Unroutable, match="total weight of 3000000"):
        weights_for(Fraction(1, 3), users=Weights(1_000_000, 0), most=MOST, fixed_total=False)
    largest = weights_for(Fraction(1, 2), users=Weights(2 * MOST, 0), most=MOST, fixed_total=False)
    assert largest == Weights(MOST, MOST)


def test_0_and_0_is_nobody() -> None:
    """Envoy Gateway answers 500, Traefik 503, and Contour shares half and half."""
    with pytest.raises(Unroutable, match="both Services are 0"):
        weights_for(Fraction(1, 2), users=Weights(0, 0), most=MOST, fixed_total=False)


NAMES = st.sampled_from(["a", "b/c", "d~e", "weight"])
VALUES = st.recursive(
    st.integers(0, 3) | st.sampled_from(["x", "y"]) | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)


@given(before=OBJECTS, after=OBJECTS)
@settings(max_examples=200, deadline=None)
def test_a_patch_makes_one_of_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Whatever was put in, taken out or changed, in whichever order of a list."""
    patch = [dict(each) for each in operations(before, after)]

    assert json_patch(before, patch) == after
    assert bool(patch) == (before != after)


def test_a_weight_is_one_number() -> None:
    """Not the list, and not the backend: what others change beside it in a later version is not ours to write."""
    before = {"rules": [{"refs": [{"name": "a", "weight": 100}, {"name": "b", "weight": 0}]}]}
    after = {"rules": [{"refs": [{"name": "a", "weight": 95}, {"name": "b", "weight": 0}]}]}

    assert operations(before, after) == (
        {"op": "test", "path": "/rules/0/refs/0/weight", "value": 100},
        {"op": "replace", "path": "/rules/0/refs/0/weight", "value": 95},
    )


def test_an_item_put_into_a_list_leaves_the_others_where_they_are() -> None:
    """A managed route before a rule whose weights change in the same write, and a canary behind a stable backend."""
    before = {"rules": [{"match": "x", "weight": 1}, {"match": "y", "weight": 1}]}
    after = {"rules": [{"header": "h"}, {"match": "x", "weight": 2}, {"match": "y", "weight": 1}]}

    assert [each["op"] for each in operations(before, after)] == ["test", "replace", "add"]


def test_a_pointer_escapes_what_has_a_meaning() -> None:
    """RFC 6901: annotations have slashes in their names."""
    assert (
        json_pointer("metadata", "annotations", "rollouts.dev/a~b", 3) == "/metadata/annotations/rollouts.dev~1a~0b/3"
    )


@given(steps=st.lists(st.text()))
def test_what_is_read_of_a_pointer_is_what_was_written(steps: list[str]) -> None:
    """An escape that is undone in the wrong order would make `~1` of `~01`."""
    assert steps_of(json_pointer(*steps)) == steps
