"""Promise: whatever a pass is shown, it keeps within surge and above the floor, and repeated passes arrive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollouts.core.model.frozen import replace
from rollouts.core.model.limits import surge_and_unavailable
from rollouts.core.model.rollout import IntOrPercent, Percent
from rollouts.core.scale.replicas import CanaryPass, Pair, Size, canary_pass, target_pair

LIMITS = st.integers(0, 12) | st.integers(0, 100).map(Percent)
SIZES = st.builds(Size, spec=st.integers(0, 14), available=st.integers(0, 16))
MANY = settings(max_examples=400, deadline=None)  # cheap, and what they look for is rare
UNHURRIED = settings(deadline=None)  # hundreds of passes an example, on machines that are busy
ENOUGH_PASSES = (
    400  # the worlds below have at most 70 pods and 12 replicas; each pass but the last moves or starts a pod
)


@dataclass(frozen=True)
class World:
    """What a pass is shown."""

    replicas: int
    weight_percent: int
    max_surge: IntOrPercent
    max_unavailable: IntOrPercent
    canary: Size
    stable: Size | None
    older: tuple[Size, ...]

    @property
    def sizes(self) -> tuple[Size, ...]:
        """Canary, stable, and the older ones, oldest first."""
        return (self.canary, self.stable or Size(0, 0), *self.older)

    @property
    def limits(self) -> tuple[int, int]:
        """Surge and unavailable, in pods."""
        return surge_and_unavailable(
            max_surge=self.max_surge, max_unavailable=self.max_unavailable, replicas=self.replicas
        )

    @property
    def target(self) -> Pair:
        """Where repeated passes are to arrive."""
        if self.stable is None:
            return Pair(self.replicas, 0)
        surge, _ = self.limits
        return target_pair(replicas=self.replicas, weight_percent=self.weight_percent, surge=surge)


def worlds(sizes: st.SearchStrategy[Size]) -> st.SearchStrategy[World]:
    """Any spec, over any sizes: also those that another spec, another controller or a person left behind."""
    return st.builds(
        World,
        replicas=st.integers(0, 12),
        weight_percent=st.integers(0, 100),
        max_surge=LIMITS,
        max_unavailable=LIMITS,
        canary=sizes,
        stable=st.none() | sizes,
        older=st.lists(sizes, max_size=3).map(tuple),
    )


def one_pass(world: World) -> CanaryPass:
    """What the pass under test makes of the world."""
    return canary_pass(
        replicas=world.replicas,
        weight_percent=world.weight_percent,
        max_surge=world.max_surge,
        max_unavailable=world.max_unavailable,
        canary=world.canary,
        stable=world.stable,
        older=world.older,
    )


def settled(world: World, cluster: Callable[[list[Size]], list[Size]]) -> World:
    """The world that passes leave alone; `cluster` says what became available of the sizes that a pass told."""
    for _ in range(ENOUGH_PASSES):
        told = specs(one_pass(world))
        canary, stable, *older = cluster(
            [Size(spec, staying_available(size, spec)) for size, spec in zip(world.sizes, told, strict=True)]
        )
        seen = replace(world, canary=canary, stable=None if world.stable is None else stable, older=tuple(older))
        if seen == world:
            return world
        world = seen
    raise AssertionError(f"still moving after {ENOUGH_PASSES} passes: {world}")


def told_pair(world: World) -> Pair:
    """The specs of the two sides."""
    return Pair(world.canary.spec, (world.stable or Size(0, 0)).spec)


def specs(after: CanaryPass) -> tuple[int, ...]:
    """In the order of `World.sizes`."""
    return (after.canary, after.stable, *after.older)


def staying_available(size: Size, spec: int) -> int:
    """Available pods that a ReplicaSet keeps when told to have `spec`: it removes unavailable ones first."""
    return min(size.available, size.spec, spec)


@given(world=worlds(SIZES))
@MANY
def test_no_pass_grows_past_surge_shrinks_below_the_floor_or_goes_past_its_target(world: World) -> None:
    """Surge is what the cluster has room for, or what the user pays for; a sum that others made larger may only fall.

    Writes of a pass are separate and a crash may come between them: those that grow may land without those that shrink.
    `maxUnavailable` holds at every write; where the floor is broken already no available pod is taken.
    """
    (surge, unavailable), after = world.limits, one_pass(world)
    pairs = list(zip(world.sizes, specs(after), strict=True))

    most = max(sum(size.spec for size in world.sizes), world.replicas + surge)
    assert sum(specs(after)) <= sum(max(size.spec, spec) for size, spec in pairs) <= most
    least = min(sum(staying_available(size, size.spec) for size in world.sizes), world.replicas - unavailable)
    assert sum(staying_available(size, spec) for size, spec in pairs) >= least
    assert min(specs(after)) >= 0
    assert after.canary <= max(world.canary.spec, world.target.canary)
    assert after.stable <= max((world.stable or Size(0, 0)).spec, world.target.stable)
    assert all(spec <= size.spec for size, spec in zip(world.older, after.older, strict=True))


@given(world=worlds(SIZES))
@UNHURRIED
def test_passes_arrive_at_the_target_when_pods_become_available(world: World) -> None:
    """No livelock and no dead end: any start, any limits (both 0 too), and the target is left alone once it is reached."""
    end = settled(world, lambda told: [Size(size.spec, size.spec) for size in told])

    assert told_pair(end) == end.target
    assert not any(size.spec for size in end.older)


@given(world=worlds(SIZES), random=st.randoms(use_true_random=False))
@UNHURRIED
def test_passes_arrive_when_pods_become_available_one_at_a_time(world: World, random: Random) -> None:
    """Real pods start in any order: a pass that sees only some of them available must not undo what the last one did."""

    def one_more(told: list[Size]) -> list[Size]:
        """One starting pod of any ReplicaSet becomes available."""
        starting = [place for place, size in enumerate(told) if size.available < size.spec]
        if starting:
            place = random.choice(starting)
            told[place] = Size(told[place].spec, told[place].available + 1)
        return told

    end = settled(world, one_more)

    assert told_pair(end) == end.target
    assert not any(size.spec for size in end.older)


@given(world=worlds(SIZES))
@UNHURRIED
def test_a_good_revision_replaces_broken_ones_at_weight_100(world: World) -> None:
    """Stable and old revisions whose pods never become available again may not block the fix for them."""
    end = settled(replace(world, weight_percent=100), lambda told: [Size(told[0].spec, told[0].spec), *told[1:]])

    assert [size.spec for size in end.sizes] == [world.replicas, 0, *(0 for _ in world.older)]


@given(world=worlds(SIZES))
@UNHURRIED
def test_an_abort_replaces_a_canary_that_never_becomes_available(world: World) -> None:
    """Weight 0 from any point of a rollout gives stable every pod, without a canary or old pod having to become available."""
    world = replace(world, weight_percent=0, stable=world.stable or Size(0, 0))

    end = settled(world, lambda told: [told[0], Size(told[1].spec, told[1].spec), *told[2:]])

    assert [size.spec for size in end.sizes] == [0, world.replicas, *(0 for _ in world.older)]


def size(text: str) -> Size:
    """`7/8`: told to have 7, 8 available."""
    spec, available = text.split("/")
    return Size(int(spec), int(available))


@pytest.mark.parametrize(
    ("replicas", "weight_percent", "surge", "unavailable", "stable", "canary", "stable_after", "canary_after"),
    [
        (10, 20, 2, 0, "10/10", "0/0", 10, 2), (10, 20, Percent(20), 0, "10/10", "2/2", 8, 2),
        (10, 20, 0, 2, "10/10", "0/0", 8, 0), (10, 50, 2, 1, "10/10", "0/0", 9, 2),
        (10, 100, 3, 0, "7/8", "6/3", 7, 6), (10, 30, 0, 3, "8/5", "4/4", 7, 3),
        (10, 100, 1, 0, "10/2", "10/8", 2, 9), (1, 51, 0, 1, "1/1", "0/0", 0, 0), (1, 51, 0, 1, "0/0", "0/0", 0, 1),
        (3, 99, 0, 2, "3/3", "0/0", 1, 0), (3, 99, 0, 2, "1/1", "0/0", 1, 2), (4, 100, 1, 0, "4/1", "1/1", 3, 1),
        (4, 0, 1, 0, "0/0", "4/4", 1, 4), (4, 0, 1, 0, "1/0", "4/4", 1, 4), (4, 0, 1, 0, "1/1", "4/4", 1, 3),
        (4, 100, 3, 0, "4/4", "0/0", 4, 3), (10, 10, Percent(0), Percent(0), "10/10", "0/0", 9, 0),
    ],
)  # fmt: skip
def test_a_pass_scales_the_pair_as_argo_rollouts_does(
    replicas: int,
    weight_percent: int,
    surge: int,
    unavailable: int,
    stable: str,
    canary: str,
    stable_after: int,
    canary_after: int,
) -> None:
    """Each row is one pass, told from what was seen; the next row of the same rollout starts where it ended."""
    after = canary_pass(
        replicas=replicas,
        weight_percent=weight_percent,
        max_surge=surge,
        max_unavailable=unavailable,
        canary=size(canary),
        stable=size(stable),
        older=[],
    )

    assert after == CanaryPass(canary=canary_after, stable=stable_after, older=())


@pytest.mark.parametrize(
    ("surge", "unavailable", "stable", "canary", "older", "expected"),
    [
        (1, 0, "1/1", "0/0", ["3/3"], CanaryPass(canary=1, stable=7, older=(3,))),
        (0, 1, "8/6", "4/2", ["3/3"], CanaryPass(canary=4, stable=8, older=(1,))),
    ],
)
def test_while_old_revisions_have_pods_the_pair_grows_and_does_not_shrink(
    surge: int, unavailable: int, stable: str, canary: str, older: list[str], expected: CanaryPass
) -> None:
    """Old revisions go first: what the pair gave up now it would only have to start again."""
    after = canary_pass(
        replicas=10,
        weight_percent=30,
        max_surge=surge,
        max_unavailable=unavailable,
        canary=size(canary),
        stable=size(stable),
        older=[size(text) for text in older],
    )

    assert after == expected


@pytest.mark.parametrize(
    ("older", "after"),
    [
        (["3/3", "3/3"], (1, 3)),
        (["1/1", "5/5"], (0, 4)),
        (["4/2", "5/4"], (0, 4)),
        (["4/0", "3/0"], (0, 0)),
        (["2/3", "6/4"], (0, 4)),
    ],
)
def test_old_revisions_lose_unavailable_pods_first_and_then_the_oldest_lose_what_can_be_spared(
    older: list[str], after: tuple[int, ...]
) -> None:
    """Unavailable pods serve nobody and cost room; the floor of 8 (10 minus 2) is kept by stable's 4 and the newest old pods."""
    result = canary_pass(
        replicas=10,
        weight_percent=50,
        max_surge=0,
        max_unavailable=2,
        canary=Size(0, 0),
        stable=Size(4, 4),
        older=[size(text) for text in older],
    )

    assert result.older == after


def test_without_a_stable_revision_the_canary_takes_over_from_the_old_ones() -> None:
    """A first rollout that was replaced before it was stable: no weight applies, and capacity moves as in a rolling update."""
    after = canary_pass(
        replicas=10,
        weight_percent=5,
        max_surge=2,
        max_unavailable=1,
        canary=Size(3, 3),
        stable=None,
        older=[Size(3, 3), Size(5, 5)],
    )

    assert after == CanaryPass(canary=4, stable=0, older=(1, 5))


def test_a_first_rollout_starts_all_its_pods_at_once() -> None:
    """There is nothing to compare with and nobody to protect, so steps and weights do not slow it."""
    after = canary_pass(
        replicas=10,
        weight_percent=5,
        max_surge=0,
        max_unavailable=1,
        canary=Size(0, 0),
        stable=None,
        older=[],
    )

    assert after == CanaryPass(canary=10, stable=0, older=())


def test_a_rollout_scaled_down_mid_step_is_cut_to_its_new_size_on_both_sides() -> None:
    """From 10 to 4 replicas at 50 %: the pair shrinks at once, because 2 and 2 are available pods enough."""
    after = canary_pass(
        replicas=4,
        weight_percent=50,
        max_surge=0,
        max_unavailable=1,
        canary=Size(6, 6),
        stable=Size(12, 12),
        older=[],
    )

    assert after == CanaryPass(canary=2, stable=2, older=())


@pytest.mark.parametrize(
    ("stable", "stable_after", "canary_after"),
    [
        ("10/10", 9, 1),
        ("10/9", 9, 1),
        ("10/8", 8, 2),
        ("10/6", 7, 3),
    ],
)
def test_an_excess_is_not_taken_from_available_pods_that_the_floor_needs(
    stable: str, stable_after: int, canary_after: int
) -> None:
    """Surge was lowered to 0 under a crashing canary: its pods make up for what stable (floor 9) cannot give.

    Pods that are unavailable are never given back: with 6 of stable's 10 available, the 3 of the excess are unavailable ones.
    """
    after = canary_pass(
        replicas=10,
        weight_percent=20,
        max_surge=0,
        max_unavailable=1,
        canary=Size(4, 0),
        stable=size(stable),
        older=[],
    )

    assert after == CanaryPass(canary=canary_after, stable=stable_after, older=())


def test_a_broken_stable_revision_does_not_hold_the_room_that_its_replacement_needs() -> None:
    """With an old revision serving and stable crashing nothing could move; stable's unavailable pod makes room for the fix."""
    after = canary_pass(
        replicas=10,
        weight_percent=100,
        max_surge=1,
        max_unavailable=0,
        canary=Size(0, 0),
        stable=Size(5, 0),
        older=[Size(6, 6)],
    )

    assert after == CanaryPass(canary=0, stable=4, older=(6,))


def test_an_excess_beside_old_revisions_is_paid_with_unavailable_pods() -> None:
    """13 pods where 10 may be, 8 available and 9 the floor: only the 5 that crash can go, and 3 of them do."""
    after = canary_pass(
        replicas=10,
        weight_percent=50,
        max_surge=0,
        max_unavailable=1,
        canary=Size(5, 5),
        stable=Size(5, 0),
        older=[Size(3, 3)],
    )

    assert after == CanaryPass(canary=5, stable=2, older=(3,))


def test_a_pair_that_can_only_wait_is_left_alone() -> None:
    """All 11 pods are in use and 8 of the 9 that the floor needs are available: moving pods across would only restart them."""
    after = canary_pass(
        replicas=10,
        weight_percent=40,
        max_surge=1,
        max_unavailable=1,
        canary=Size(3, 2),
        stable=Size(4, 2),
        older=[Size(4, 4)],
    )

    assert after == CanaryPass(canary=3, stable=4, older=(4,))
