"""Promise: whatever a pass is shown, it keeps within surge and above the floor, repeated passes arrive, as in Argo Rollouts."""

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


@given(world=worlds(SIZES), random=st.none() | st.randoms(use_true_random=False))
@settings(UNHURRIED, max_examples=200)
def test_passes_arrive_at_the_target_when_pods_become_available(world: World, random: Random | None) -> None:
    """No livelock and no dead end: any start, any limits (both 0 too), and the target is left alone once it is reached.

    Real pods start in any order: a pass that sees only some of them available must not undo what the last one did.
    """

    def more(told: list[Size]) -> list[Size]:
        """All starting pods, or one of any ReplicaSet, become available."""
        starting = [place for place, size in enumerate(told) if size.available < size.spec]
        for place in [random.choice(starting)] if random and starting else starting:
            told[place] = Size(told[place].spec, told[place].available + 1 if random else told[place].spec)
        return told

    end = settled(world, more)

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


Row = tuple[int, int, IntOrPercent, IntOrPercent, str, str]
"""Replicas, weight, surge, unavailable; stable, canary and older revisions, `7/8` told to have 7 and 8 available; sizes after."""

ARGO: list[Row] = [
    (10, 20, 2, 0, "10/10 0/0", "10 2"), (10, 20, Percent(20), 0, "10/10 2/2", "8 2"), (10, 20, 0, 2, "10/10 0/0", "8 0"),
    (10, 50, 2, 1, "10/10 0/0", "9 2"), (10, 100, 3, 0, "7/8 6/3", "7 6"), (10, 30, 0, 3, "8/5 4/4", "7 3"),
    (10, 100, 1, 0, "10/2 10/8", "2 9"), (1, 51, 0, 1, "1/1 0/0", "0 0"), (1, 51, 0, 1, "0/0 0/0", "0 1"),
    (3, 99, 0, 2, "3/3 0/0", "1 0"), (3, 99, 0, 2, "1/1 0/0", "1 2"), (4, 100, 1, 0, "4/1 1/1", "3 1"),
    (4, 0, 1, 0, "0/0 4/4", "1 4"), (4, 0, 1, 0, "1/0 4/4", "1 4"), (4, 0, 1, 0, "1/1 4/4", "1 3"),
    (4, 100, 3, 0, "4/4 0/0", "4 3"), (10, 10, Percent(0), Percent(0), "10/10 0/0", "9 0"),
]  # fmt: skip
OURS: dict[str, Row] = {
    "old revisions go first: the pair grows and does not shrink": (10, 30, 1, 0, "1/1 0/0 3/3", "7 1 3"),
    "nor when it is larger than its target": (10, 30, 0, 1, "8/6 4/2 3/3", "8 4 1"),
    "the floor of 8 is kept by stable and the newest old pods": (10, 50, 0, 2, "4/4 0/0 3/3 3/3", "4 0 1 3"),
    "the oldest lose what can be spared": (10, 50, 0, 2, "4/4 0/0 1/1 5/5", "4 0 0 4"),
    "unavailable pods first": (10, 50, 0, 2, "4/4 0/0 4/2 5/4", "4 0 0 4"),
    "which serve nobody and cost room": (10, 50, 0, 2, "4/4 0/0 4/0 3/0", "4 0 0 0"),
    "counts that lag": (10, 50, 0, 2, "4/4 0/0 2/3 6/4", "4 0 0 4"),
    "no stable revision: no weight, capacity moves as in a rolling update": (10, 5, 2, 1, "- 3/3 3/3 5/5", "0 4 1 5"),
    "a first rollout starts all its pods at once": (10, 5, 0, 1, "- 0/0", "0 10"),
    "scaled from 10 to 4 at 50 %": (4, 50, 0, 1, "12/12 6/6", "2 2"),
    "surge was lowered under a crashing canary, floor 9": (10, 20, 0, 1, "10/10 4/0", "9 1"),
    "its pods make up for what stable cannot give": (10, 20, 0, 1, "10/9 4/0", "9 1"),
    "and for more": (10, 20, 0, 1, "10/8 4/0", "8 2"),
    "unavailable pods are never given back": (10, 20, 0, 1, "10/6 4/0", "7 3"),
    "a broken stable revision makes room for the fix": (10, 100, 1, 0, "5/0 0/0 6/6", "4 0 6"),
    "13 pods where 10 may be, 9 the floor: 3 of the 5 that crash go": (10, 50, 0, 1, "5/0 5/5 3/3", "2 5 3"),
    "a pair that can only wait: moving pods across would restart them": (10, 40, 1, 1, "4/2 3/2 4/4", "4 3 4"),
}  # fmt: skip


@pytest.mark.parametrize("row", [*ARGO, *OURS.values()], ids=[*map(str, ARGO), *OURS])
def test_a_pass_scales_the_pair_as_argo_rollouts_does_and_old_revisions_beside_it(row: Row) -> None:
    """Docs/features/canary of Argo Rollouts. The next row of the same rollout starts where the one before ended."""
    replicas, weight_percent, surge, unavailable, before, sizes = row
    stable, canary, *older = [None if text == "-" else Size(*map(int, text.split("/"))) for text in before.split()]
    assert canary is not None

    after = canary_pass(
        replicas=replicas, weight_percent=weight_percent, max_surge=surge, max_unavailable=unavailable,
        canary=canary, stable=stable, older=[each for each in older if each],
    )  # fmt: skip

    assert [after.stable, after.canary, *after.older] == [int(size) for size in sizes.split()]
