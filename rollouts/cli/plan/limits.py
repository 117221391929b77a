"""What a planned update needs, beside what its namespace and its autoscaler allow. Pure.

A quota is asked when a pod is created, so each step is judged right after it grows. Pods that are ending count until they are
gone; as that wait ends by itself, the plan leaves them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any, assert_never

from msgspec import Struct

from rollouts.cli.commands.lint_autoscalers import multiplies_words
from rollouts.cli.kubernetes.limit_ranges import refusals
from rollouts.cli.kubernetes.quotas import COUNT, Quota, charge, counts, missing_amounts
from rollouts.cli.kubernetes.requests import amount_text
from rollouts.cli.view.counts import count_of
from rollouts.core.forecast import GrownSizes
from rollouts.core.model.autoscaling import AutoscalerSeen
from rollouts.objects import Kind, Manifest

_NOTHING = Fraction(0)
_COUNTS = ("pods", COUNT)


class LimitKind(StrEnum):
    """What can be outgrown."""

    QUOTA = "ResourceQuota"
    AUTOSCALER = "HorizontalPodAutoscaler"


class NamespaceLimits(Struct, frozen=True):
    """What limits the pods of a Rollout; `unread` are kinds that may not be read, or that the server does not have."""

    autoscalers: tuple[AutoscalerSeen, ...] = ()
    quotas: tuple[Quota, ...] = ()
    limit_ranges: tuple[Manifest, ...] = ()
    unread: tuple[Kind, ...] = ()


@dataclass(frozen=True, slots=True)
class PresentPods:
    """Pods of the Rollout that a quota counts now. Those that have `ended` are not deleted yet."""

    spec: Mapping[str, Any] = field(hash=False)
    count: int = 1
    ended: bool = False


class Excess(Struct, frozen=True, kw_only=True):
    """A limit that a step outgrows.

    Args:
        resource: as a quota names it; `pods` for an autoscaler.
        needs: of all pods of the Rollout together, at the moment of the step that lacks the most.
        allows: for this Rollout.
        hard: for everybody.
        others: what others use of it.
        pods: that would wait; for an autoscaler those beyond its maximum, which do not wait.
    """

    kind: LimitKind
    name: str
    resource: str
    needs: Fraction
    allows: Fraction
    hard: Fraction
    others: Fraction = _NOTHING
    pods: int


class LimitsReport(Struct, frozen=True):
    """What each stage outgrows, why no new pod would be created at all, and what could not be checked."""

    by_stage: tuple[tuple[Excess, ...], ...] = ()
    refusals: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class PodSpecs(Struct, frozen=True, kw_only=True):
    """The pods of the update as the API server creates them: new ones, those of other revisions, and what runs now."""

    new: Mapping[str, Any]
    by_revision: Mapping[str, Mapping[str, Any]]
    present: tuple[PresentPods, ...] = ()

    def of(self, revision: str) -> Mapping[str, Any]:
        """The spec of a revision's pods."""
        return self.by_revision.get(revision, self.new)


def limits_report(
    limits: NamespaceLimits,
    pods: PodSpecs,
    growths: Sequence[tuple[GrownSizes, ...]],
    *,
    replicas: int,
    adds_pods: bool = False,
) -> LimitsReport:
    """What each stage outgrows, what refuses the pods altogether, and what nobody could check.

    Args:
        growths: of each stage, from the rehearsal.
        adds_pods: the pods of the new revision serve on top of `spec.replicas`.
    """
    refused = [
        f"LimitRange {limit_range['metadata']['name']} refuses the new pods: {why}"
        for limit_range in limits.limit_ranges
        for why in refusals(pods.new, limit_range)
    ]
    checked = [quota for quota in limits.quotas if quota.known and counts(quota, pods.new) is not None]
    refused += [
        f"quota {quota.name} refuses the new pods: {why}, which it counts"
        for quota in checked
        if counts(quota, pods.new)
        for why in missing_amounts(quota, pods.new)
    ]
    rooms = [_room(quota, pods) for quota in checked]
    by_stage = tuple(tuple(_excesses(growth, rooms, limits.autoscalers)) for growth in growths)
    notes = tuple(_notes(limits, pods.new, replicas=replicas, adds_pods=adds_pods))
    return LimitsReport(by_stage=by_stage, refusals=tuple(refused), notes=notes)


def _notes(limits: NamespaceLimits, new: Mapping[str, Any], *, replicas: int, adds_pods: bool) -> Iterator[str]:
    for autoscaler in limits.autoscalers:
        most = autoscaler.max_replicas
        if replicas > most:
            yield f"the plan is for {replicas} replicas, and autoscaler {autoscaler.name} scales to its maxReplicas, {most}"
    for autoscaler in limits.autoscalers:
        if adds_pods and autoscaler.by_value:
            yield multiplies_words(f"{LimitKind.AUTOSCALER} {autoscaler.name}", autoscaler.by_value)
    if limits.unread:
        yield f"not checked: you may not list {with_and([f'{kind.kind}s' for kind in limits.unread])} here"
    for quota in limits.quotas:
        if not quota.known:
            yield f"not checked: quota {quota.name} has no status yet"
        elif counts(quota, new) is None:
            yield f"not checked: quota {quota.name}, as the template does not tell whether its scope has these pods"


class _Room(Struct, frozen=True):
    """A quota, and what others than this Rollout use of it."""

    quota: Quota
    pods: PodSpecs
    others: Mapping[str, Fraction]

    def charge_of(self, revision: str, resource: str) -> Fraction:
        return _charge(self.quota, self.pods.of(revision)).get(resource, _NOTHING)


def _charge(quota: Quota, spec: Mapping[str, Any]) -> Mapping[str, Fraction]:
    return charge(spec) if counts(quota, spec) else {}


def _room(quota: Quota, pods: PodSpecs) -> _Room:
    own: dict[str, Fraction] = {}
    for present in pods.present:
        for resource, amount in _charge(quota, present.spec).items():
            if not present.ended or resource == COUNT:
                own[resource] = own.get(resource, _NOTHING) + present.count * amount
    used = {name: quota.used.get(name, _NOTHING) - own.get(name, _NOTHING) for name in quota.hard}
    return _Room(quota, pods, {name: max(_NOTHING, amount) for name, amount in used.items()})


def _excesses(
    growths: tuple[GrownSizes, ...], rooms: Iterable[_Room], autoscalers: Iterable[AutoscalerSeen]
) -> Iterator[Excess]:
    for room in rooms:
        for resource in sorted(room.quota.hard, key=lambda resource: (resource not in _COUNTS, resource)):
            excesses = [excess for growth in growths if (excess := _over_quota(room, resource, growth)) is not None]
            if excesses:
                yield max(excesses, key=lambda excess: (excess.pods, excess.needs))
    most = max((sum(growth.sizes.values()) for growth in growths), default=0)
    for autoscaler in autoscalers:
        if most > autoscaler.max_replicas:
            kind, name, allowed = LimitKind.AUTOSCALER, autoscaler.name, Fraction(autoscaler.max_replicas)
            figures = {"needs": Fraction(most), "allows": allowed, "hard": allowed}
            yield Excess(kind=kind, name=name, resource="pods", pods=most - autoscaler.max_replicas, **figures)


def _over_quota(room: _Room, resource: str, growth: GrownSizes) -> Excess | None:
    """What a quota refuses of one growth; it refuses nothing of pods that do not count in it."""
    of_one = room.charge_of(growth.revision, resource)
    hard = room.quota.hard[resource]
    allows = max(_NOTHING, hard - room.others[resource])
    needs = sum(
        (count * room.charge_of(revision, resource) for revision, count in growth.sizes.items() if count), _NOTHING
    )
    if needs <= allows or not of_one:
        return None
    waiting = min(-((allows - needs) // of_one), growth.sizes[growth.revision])
    figures = {"needs": needs, "allows": allows, "hard": hard, "others": room.others[resource]}
    return Excess(kind=LimitKind.QUOTA, name=room.quota.name, resource=resource, pods=int(waiting), **figures)


def excess_text(names: str, excess: Excess, *, several: bool) -> str:
    """A limit that steps outgrow, as one line: `step 3 needs 14 pods; quota team allows 12: 2 pods would wait`."""
    pods = count_of(excess.pods, "pod")
    match excess.kind:
        case LimitKind.AUTOSCALER:
            have = "have" if several else "has"
            return (
                f"{names} {have} {excess.needs} pods; autoscaler {excess.name} has maxReplicas {excess.allows},"
                " which bounds spec.replicas and not these"
            )
        case LimitKind.QUOTA:
            figures = (excess.needs, excess.allows, excess.hard, excess.others)
            needs, allows, hard, others = (quantity_of(excess.resource, figure) for figure in figures)
            what = f"{needs} pods" if excess.resource == "pods" else f"{excess.resource} {needs}"
            less = f" ({hard}, of which others use {others})" if excess.others else ""
            need = "need" if several else "needs"
            return f"{names} {need} {what}; quota {excess.name} allows {allows}{less}: {pods} would wait"
        case never:
            assert_never(never)


def with_and(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if parts[1:] else parts)


def quantity_of(resource: str, amount: Fraction) -> str:
    """An amount as people read it: counts of pods as whole numbers, everything else as Kubernetes writes it."""
    return str(int(amount)) if resource in _COUNTS else amount_text(resource, amount)
