"""How many pods each ReplicaSet should have: rounding, canaries by the ratio of pods, canaries with traffic routing.

Only whole numbers: shares of pods are compared in hundredths of a pod, so no result depends on how a float rounds. The rules are
Argo Rollouts' (docs/features/canary, "Mimicking Rolling Update" and "Dynamic Stable Scale"), so a manifest from there scales the
same way here; a docstring says where we differ. Weights are percentages, 0..100.

`canary_pass` promises, for any sizes: it never grows the sum of all specs past replicas + maxSurge, and it never takes the
available pods below replicas − maxUnavailable. The second promise relies on ReplicaSets removing their unready pods first.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from rollouts.core.model.limits import ceil_percent, surge_and_unavailable
from rollouts.core.model.rollout import IntOrPercent, Percent, ProgressThreshold
from rollouts.core.model.steps import SetCanaryReplicas, SetCanaryScalePercent, WeightPercent


class Size(Struct, frozen=True):
    """One ReplicaSet's size.

    Args:
        available: pods available, as its status says; more than `spec` while it shrinks.
    """

    spec: int
    available: int

    @property
    def staying_available(self) -> int:
        """Available pods that will stay: those above `spec` are about to be deleted."""
        return min(self.spec, self.available)


class Pair(Struct, frozen=True):
    """Pods of the new revision and of the stable one."""

    canary: int
    stable: int


class CanaryPass(Struct, frozen=True):
    """The `spec.replicas` of each ReplicaSet after one pass; `older` in the order of the argument."""

    canary: int
    stable: int
    older: tuple[int, ...]


def target_pair(*, replicas: int, weight_percent: WeightPercent, surge: int) -> Pair:
    """The two sizes whose ratio is nearest to the weight, with `replicas` pods in total, or one more where surge allows it.

    Between weights 1 and 99 each side keeps at least one pod, unless there is only one pod and no surge. Of two equally near
    results with the same sum the larger canary wins; of two sums the smaller. Source: Argo Rollouts, docs/features/canary.
    """
    if replicas == 0:
        return Pair(0, 0)
    # Splits to compare, (canary, total), in the order in which equally good ones win.
    down, up = replicas * weight_percent // 100, ceil_percent(replicas, weight_percent)
    may_be_empty = weight_percent in (0, 100) or (replicas == 1 and surge == 0)
    splits = [(up, replicas)] if up < replicas or may_be_empty else []
    splits += [(down, replicas)] if down > 0 or may_be_empty else []
    if surge > 0:
        splits.append((up, replicas + 1))
        splits += [(down, replicas + 1)] if down > 0 or may_be_empty else []
    common = replicas * (replicas + 1)  # makes errors in shares of N and of N + 1 comparable without fractions

    def error(split: tuple[int, int]) -> WeightPercent:
        canary, total = split
        off = 100 * canary - weight_percent * total
        return max(off, -off) * (common // total)

    canary, total = min(splits, key=error)
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
    """The next sizes of a canary by the ratio of pods; repeated calls with the sizes seen since lead to `target_pair`.

    Both sides may grow at once; then old revisions shrink; the pair shrinks only when no old revision has pods. Unlike in Argo
    Rollouts, unavailable pods of the pair may also go when old revisions have pods but the pass would otherwise change
    nothing: a broken stable revision must not occupy the room that its replacement needs.

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

    # Both sides grow; stable first, as it serves most of the traffic.
    room = ceiling - sum(size.spec for size in (canary, kept, *older))
    to_stable = max(0, min(target.stable - kept.spec, room))
    to_canary = max(0, min(target.canary - canary.spec, room - to_stable))
    grown = Pair(canary.spec + to_canary, kept.spec + to_stable)
    # Old revisions lose their unavailable pods and, oldest first, the available ones that can be spared.
    spare = sum(size.staying_available for size in (canary, kept, *older)) - floor
    after = []
    for size in older:
        taken = max(0, min(size.staying_available, spare))
        spare -= taken
        after.append(size.staying_available - taken)
    before = [size.spec for size in older]
    if any(before) and (after != before or grown != Pair(canary.spec, kept.spec)):
        return CanaryPass(grown.canary, grown.stable, tuple(after))
    held = sum(after)  # nothing changed, so all these pods are available and the floor needs every one of them
    floor, ceiling = floor - held, ceiling - held
    # Stable gives up pods while the canary grows, else the canary does.
    if target.canary >= canary.spec:
        stable_size, canary_size = _drained(
            kept, canary, grown=(grown.stable, grown.canary), target=target.stable, floor=floor, ceiling=ceiling
        )
    else:
        canary_size, stable_size = _drained(
            canary, kept, grown=(grown.canary, grown.stable), target=target.canary, floor=floor, ceiling=ceiling
        )
    return CanaryPass(canary_size, stable_size, tuple(after))


def routed_canary_replicas(
    *,
    replicas: int,
    weight_percent: WeightPercent,
    min_pods: int,
    pinned: SetCanaryReplicas | SetCanaryScalePercent | None,
) -> int:
    """Pods of the canary when traffic is moved by weights: enough for its share, rounded up.

    A canary with any pod has at least `min_pods`, but this rule alone never asks for more than `replicas`.

    Args:
        pinned: the `setCanaryScale` in effect: a number of pods is taken exactly; a percentage stands in for the weight.
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
        recorded_weight_percent: the canary's weight that was in effect before this pass, from status. The stable revision keeps
            pods for the larger of its two shares, so it shrinks after traffic has left and grows before it comes back.
    """
    if not dynamic:
        return replicas
    return ceil_percent(replicas, 100 - min(weight_percent, recorded_weight_percent))


def least_met(*, desired: int, threshold: ProgressThreshold | None) -> int:
    """The fewest available pods of `desired` that are enough to go on: all of them, or `replicaProgressThreshold`'s part.

    A threshold below 0 is no threshold. One above `desired` means all pods: otherwise no step could ever meet it.
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

    Its `spec.replicas` is `desired`, and exactly as many pods are available (more would still have to go), or, with a
    threshold, enough of them.
    """
    if spec != desired:
        return False
    least = None if threshold is None else threshold.value
    if least is None or (least.value if isinstance(least, Percent) else least) < 0:
        return available == desired
    return available >= least_met(desired=desired, threshold=threshold)


def _drained(
    draining: Size, other: Size, *, grown: tuple[int, int], target: int, floor: int, ceiling: int
) -> tuple[int, int]:
    """(draining side, other side) after this pass: the draining one shrinks towards `target`, the other one may have grown.

    The draining side counts by its spec, not by its available pods: its unavailable pods go first, and this frees the room that
    the other side needs to grow.
    """
    grown_draining, grown_other = grown
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
