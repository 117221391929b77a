"""The laws of `traffic.codec.Provider`, each a function that fails when a provider breaks it: for every provider the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import Split
from rollouts.objects import Manifest
from rollouts.traffic.codec import LEDGER, PatchUser
from tests.traffic.cases.case import Case
from tests.traffic.situation import Situation


def what_is_planned_is_read_back(case: Case, start: Situation, wants: Sequence[Split]) -> None:
    """read(apply(plan(want))) == want; a plan of what is there already is empty."""
    now = start
    for want in wants:
        now = now.managed(want)
        assert now.read() == want
        assert now.plan(want) == ()


def undo_gives_the_users_object_back(case: Case, start: Situation, wants: Sequence[Split]) -> None:
    """From wherever it is given back, it is what the user wrote; and that of an untouched one is nothing."""
    assert start.release() == ()
    now = start
    for want in wants:
        now = now.managed(want)
        assert now.given_back().objects == start.objects
        assert now.given_back().release() == ()


def nothing_else_is_touched(case: Case, start: Situation, wants: Sequence[Split]) -> None:
    """Without the pair's weights, the canary's backends, the managed routes and the ledger, it is the same object."""
    now = start
    for want in wants:
        now = now.managed(want)
        before, after = (case.scrubbed(each.objects.user) for each in (start, now))
        if want.matches or want.mirrors or want.sticky:
            assert _is_within(before, after)
        else:
            assert before == after


def a_share_changes_no_managed_route(case: Case, start: Situation, wants: Sequence[Split]) -> None:
    """And a managed route changes no share."""
    for one, other in pairwise(wants):
        now = moved = start.managed(one)
        for moved in now.towards(replace(one, share=other.share, experiments=other.experiments)):
            assert (moved.read().matches, moved.read().mirrors) == (one.matches, one.mirrors)
        assert case.canary_only(moved.objects) == case.canary_only(now.objects)
        turned = now.managed(replace(other, share=one.share, experiments=one.experiments))
        assert set(case.pairs(turned.objects)) == set(case.pairs(now.objects))


def what_another_wrote_is_never_lost(case: Case, start: Situation, wants: Sequence[Split]) -> None:
    """What comes before the next pass is kept, also when all is given back. Between read and write the driver guards it."""
    for one, other in pairwise(wants):
        now = start.managed(one)
        for edit in case.edits:
            done = now.edited(edit(now.objects.user)).managed(other)
            assert done.read() == other
            assert done.given_back().objects.user == edit(start.objects.user)


def weights_that_a_user_wrote_since_are_theirs(case: Case, start: Situation, wants: Sequence[Split]) -> None:
    """Weights that are not those that we wrote are given back as they are, not as they were before us."""
    for experiments in ((), wants[0].experiments):
        now = start.managed(Split(wants[0].share, experiments=experiments))
        mine = case.reweighed(now.objects.user)
        assert now.edited(mine).given_back().objects.user == case.without_experiments(without_ledger(mine))


def a_gitops_tool_may_write_its_own_again(case: Case, start: Situation, wants: Sequence[Split]) -> None:
    """Then it is told from what is wanted, asserted again, and given back as ever."""
    for want in wants:
        now = start.managed(want)
        again = now.edited(case.applied_again(now.objects.user, start.objects.user))
        if again.objects.user != now.objects.user:
            assert again.read() != want
        done = again.managed(want)
        assert done.read() == want
        assert done.given_back().objects == start.objects


def what_is_replaced_is_tested_first(case: Case, start: Situation, wants: Sequence[Split]) -> None:
    """The safety net under the driver's guard: a patch that meets another object fails."""
    now = start
    for want in wants:
        for op in now.plan(want):
            if isinstance(op, PatchUser):
                tested = [each["path"] for each in op.operations if each["op"] == "test"]
                unsafe = [each["path"] for each in op.operations if each["op"] in ("replace", "remove")]
                assert sorted(unsafe) == sorted(tested)
        now = now.managed(want)


def a_change_of_the_share_alone_is_one_write(case: Case, start: Situation, wants: Sequence[Split]) -> None:
    """On a quiet cluster a step is one request to the API server."""
    for one, other in pairwise(wants):
        now = start.managed(one)
        room = Fraction(1) - sum(each.share for each in one.experiments)
        assert len(now.plan(replace(one, share=min(other.share, room)))) <= 1


def an_experiment_comes_and_goes_at_0(case: Case, start: Situation, wants: Sequence[Split]) -> None:
    """So proxies know its Service before requests come to it, and as long as any proxy may send it requests."""
    now = start
    for want in wants:
        for after in now.towards(want):
            before, shares = _experiments(now), _experiments(after)
            assert all(not shares[each] for each in shares.keys() - before.keys())
            assert all(not before[each] for each in before.keys() - shares.keys())
            now = after


LAWS = (
    what_is_planned_is_read_back, undo_gives_the_users_object_back, nothing_else_is_touched,
    a_share_changes_no_managed_route, what_another_wrote_is_never_lost, weights_that_a_user_wrote_since_are_theirs,
    a_gitops_tool_may_write_its_own_again, what_is_replaced_is_tested_first, a_change_of_the_share_alone_is_one_write,
    an_experiment_comes_and_goes_at_0,
)  # fmt: skip


def _experiments(now: Situation) -> Mapping[str, Fraction]:
    return {each.service: each.share for each in now.read().experiments}


def _is_within(part: Any, whole: Any) -> bool:
    """Whether `whole` is `part` with items put into its lists, in any place."""
    match part, whole:
        case dict(), dict():
            return part.keys() == whole.keys() and all(_is_within(part[name], whole[name]) for name in part)
        case list(), list():
            rest = iter(whole)
            return all(any(item == there for there in rest) for item in part)
        case _:
            return bool(part == whole)


def without_ledger(user: Manifest) -> Manifest:
    """The object without our annotation, and without annotations when that was the only one."""
    metadata = dict(user.get("metadata", {}))
    annotations = {name: value for name, value in metadata.pop("annotations", {}).items() if name != LEDGER}
    return {**user, "metadata": {**metadata, **({"annotations": annotations} if annotations else {})}}
