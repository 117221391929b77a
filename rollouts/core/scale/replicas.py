"""How many pods each ReplicaSet is to have: rounding, the canary by the ratio of pods, canaries with traffic routing.

Whole numbers only: a share of pods is compared in hundredths of a pod, so no result hangs on how a float rounds. Rules are those
of Argo Rollouts (docs/features/canary, "Mimicking Rolling Update" and "Dynamic Stable Scale"), so a manifest that moves from
there to here scales the same way; where we differ the docstring says so. Weights are percentages, 0..100.

What `canary_pass` promises, for any sizes it is shown: it never grows the sum of all specs past replicas + maxSurge, and it never
takes the available pods below replicas − maxUnavailable. The second rests on ReplicaSets removing their unready pods first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rollouts.core.model.limits import ceil_percent, surge_and_unavailable
from rollouts.core.model.rollout import IntOrPercent, Percent, ProgressThreshold
from rollouts.core.model.steps import SetCanaryReplicas, SetCanaryScalePercent, WeightPercent


@dataclass(frozen=True, slots=True)
class Size:
    """One ReplicaSet's size.

    Args:
        spec: pods it was told to have.
        available: pods available, as its status says; more than `spec` while it shrinks.
    """

    spec: int
    available: int

    @property
    def staying_available(self) -> int:
        """Available pods that stay: those above `spec` are already on their way out."""
        return min(self.spec, self.available)


@dataclass(frozen=True, slots=True)
class Pair:
    """Pods of the new revision and of the stable one."""

    canary: int
    stable: int


@dataclass(frozen=True, slots=True)
class CanaryPass:
    """The `spec.replicas` that each ReplicaSet is to have after one pass; `older` in the order it was given in."""

    canary: int
    stable: int
    older: tuple[int, ...]


def target_pair(*, replicas: int, weight_percent: WeightPercent, surge: int) -> Pair:
    """The two sizes whose ratio is nearest to the weight, with `replicas` pods in all, or one more where surge allows it.

    Between weights 1 and 99 each side keeps at least one pod, unless there is but one pod and no surge. Of two that are equally
    near with the same sum the larger canary wins; of two sums the smaller. Source: Argo Rollouts, docs/features/canary.
    """
    if replicas == 0:
        return Pair(0, 0)
    common = replicas * (replicas + 1)  # makes errors in shares of N and of N + 1 comparable without fractions

    def error(split: tuple[int, int]) -> WeightPercent:
        canary, total = split
        off = 100 * canary - weight_percent * total
        return max(off, -off) * (common // total)

    canary, total = min(_splits(replicas=replicas, weight_percent=weight_percent, surge=surge), key=error)
    return Pair(canary, total - canary)


def canary_pass(
    *,
    replicas: int,
    weight_percent: WeightPercent,
    max_surge: IntOrPercent,
    max_unavailable: IntOrPercent,
    canary: Size,
    stable: Size | None,
    older: Sequence[Size],
) -> CanaryPass:
    """The next sizes of a canary by the ratio of pods; called again on what was seen since, it ends at `target_pair`.

    Both sides may grow at once; then old revisions shrink; only when none of them has pods does the pair shrink. Unlike Argo
    Rollouts, unavailable pods of the pair may also go when old revisions have pods but the pass would otherwise change
    nothing: a broken stable revision must not hold the room that its replacement needs.

    Args:
        stable: None when no stable revision distinct from the new one exists; the canary then gets all `replicas`.
        older: every other revision, oldest first.
    """
    surge, unavailable = surge_and_unavailable(max_surge=max_surge, max_unavailable=max_unavailable, replicas=replicas)
    target = Pair(replicas, 0)
    if stable is not None:
        target = target_pair(replicas=replicas, weight_percent=weight_percent, surge=surge)
    kept = stable or Size(0, 0)
    ceiling, floor = replicas + surge, replicas - unavailable

    grown = _grown(canary, kept, target=target, room=ceiling - sum(size.spec for size in (canary, kept, *older)))
    before = tuple(size.spec for size in older)
    available = sum(size.staying_available for size in (canary, kept, *older))
    after = _older_after(older, spare=available - floor)
    moved = after != before or grown != Pair(canary.spec, kept.spec)
    if any(before) and moved:
        return CanaryPass(grown.canary, grown.stable, after)
    held = sum(after)  # nothing moved, so these pods are all available and the floor needs every one of them
    pair = _shrunk(canary, kept, grown=grown, target=target, floor=floor - held, ceiling=ceiling - held)
    return CanaryPass(pair.canary, pair.stable, after)


def routed_canary_replicas(
    *,
    replicas: int,
    weight_percent: WeightPercent,
    min_pods: int,
    pinned: SetCanaryReplicas | SetCanaryScalePercent | None,
) -> int:
    """Pods of the canary when traffic is moved by weights: enough for its share, rounded up.

    Once there is any, there are at least `min_pods`, though no more than `replicas` on that account.

    Args:
        pinned: the `setCanaryScale` in force: a number of pods is taken exactly; a percentage stands in for the weight.
    """
    match pinned:
        case SetCanaryReplicas(replicas=pods):
            return pods
        case SetCanaryScalePercent(percent=percent):
            share = ceil_percent(replicas, percent)
        case None:
            share = ceil_percent(replicas, weight_percent)
    return max(share, min(min_pods, replicas)) if share else 0


def routed_stable_replicas(
    *, replicas: int, weight_percent: WeightPercent, recorded_weight_percent: WeightPercent, dynamic: bool
) -> int:
    """Pods of the stable revision when traffic is moved by weights: all of them, or with `dynamic` enough for its share.

    Args:
        weight_percent: the canary's weight that is wanted.
        recorded_weight_percent: the canary's weight that status said was in force before this pass. Stable keeps pods for the
            larger of its two shares, so it shrinks only after the traffic has moved and grows before it comes back.
    """
    if not dynamic:
        return replicas
    return ceil_percent(replicas, 100 - min(weight_percent, recorded_weight_percent))


def threshold_met(*, desired: int, available: int, threshold: ProgressThreshold | None) -> bool:
    """Whether enough of `desired` pods are available to go on."""
    return available >= least_met(desired=desired, threshold=threshold)


def least_met(*, desired: int, threshold: ProgressThreshold | None) -> int:
    """The fewest available pods of `desired` that are enough to go on: all of them, or `replicaProgressThreshold`'s part.

    A threshold below 0 is none. One of more pods than are desired asks for all of them: no step could ever meet it otherwise.
    """
    match threshold:
        case ProgressThreshold(value=Percent(value=percent)) if percent >= 0:
            return ceil_percent(desired, percent)
        case ProgressThreshold(value=int(pods)) if pods >= 0:
            return min(pods, desired)
        case _:
            return desired


def at_desired(*, desired: int, spec: int, available: int, threshold: ProgressThreshold | None) -> bool:
    """Whether a ReplicaSet has the size that its step asks for.

    Told to have exactly `desired` pods, and exactly as many are available (pods above that are still on their way out), or, with
    a threshold, enough of them.
    """
    if spec != desired:
        return False
    if threshold is None or _amount(threshold.value) < 0:
        return available == desired
    return threshold_met(desired=desired, available=available, threshold=threshold)


def _splits(*, replicas: int, weight_percent: WeightPercent, surge: int) -> list[tuple[int, int]]:
    """Splits worth comparing, (canary, total), in the order in which equally good ones win; never none."""
    down, up = replicas * weight_percent // 100, ceil_percent(replicas, weight_percent)
    may_be_empty = weight_percent in (0, 100) or (replicas == 1 and surge == 0)
    splits = []
    if up < replicas or may_be_empty:
        splits.append((up, replicas))
    if down > 0 or may_be_empty:
        splits.append((down, replicas))
    if surge > 0:
        splits.append((up, replicas + 1))
        if down > 0 or may_be_empty:
            splits.append((down, replicas + 1))
    return splits


def _grown(canary: Size, stable: Size, *, target: Pair, room: int) -> Pair:
    """Both sides grown towards their targets by `room` pods in all, stable first: it serves most of the traffic."""
    to_stable = max(0, min(target.stable - stable.spec, room))
    to_canary = max(0, min(target.canary - canary.spec, room - to_stable))
    return Pair(canary.spec + to_canary, stable.spec + to_stable)


def _older_after(older: Sequence[Size], *, spare: int) -> tuple[int, ...]:
    """Old revisions without their unavailable pods and, oldest first, without `spare` available ones."""
    after = []
    for size in older:
        taken = max(0, min(size.staying_available, spare))
        spare -= taken
        after.append(size.staying_available - taken)
    return tuple(after)


def _shrunk(canary: Size, stable: Size, *, grown: Pair, target: Pair, floor: int, ceiling: int) -> Pair:
    """The pair after the side that is on its way out has given what it can: stable while the canary grows, else the canary."""
    if target.canary >= canary.spec:
        drained, other = _drained(
            stable,
            canary,
            grown_draining=grown.stable,
            grown_other=grown.canary,
            target=target.stable,
            floor=floor,
            ceiling=ceiling,
        )
        return Pair(other, drained)
    drained, other = _drained(
        canary,
        stable,
        grown_draining=grown.canary,
        grown_other=grown.stable,
        target=target.canary,
        floor=floor,
        ceiling=ceiling,
    )
    return Pair(drained, other)


def _drained(
    draining: Size, other: Size, *, grown_draining: int, grown_other: int, target: int, floor: int, ceiling: int
) -> tuple[int, int]:
    """(draining side, other side) after this pass.

    The draining side counts with its spec, not with its available pods: its unavailable ones go first, and going they free the
    room without which the other side could not grow.
    """
    spare = draining.spec + other.staying_available - floor
    if spare <= 0:
        return grown_draining, grown_other
    after = max(target, draining.spec - spare) if draining.spec > target else grown_draining
    excess = after + grown_other - ceiling
    if excess <= 0:
        return after, grown_other
    # Replicas or surge were lowered, or the other side has unavailable pods. It gives up the excess, except available pods
    # that the floor needs; the draining side makes up for those with unavailable pods of its own.
    cut = max(0, grown_other - excess)
    lost = max(0, other.staying_available - cut)
    needed = max(0, floor - min(draining.staying_available, after) - min(other.staying_available, cut))
    other_after = cut + min(lost, needed)
    return max(0, min(after, ceiling - other_after)), other_after


def _amount(limit: IntOrPercent) -> int:
    return limit.value if isinstance(limit, Percent) else limit
