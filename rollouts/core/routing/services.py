"""Which revision each Service is to select, and whether the cluster shows that it does.

A selector is a wish; the EndpointSlices are what proxies follow. A Service counts as confirmed only when its slices hold ready
pods of the wanted revision and of no other (KEP-752, EndpointSlice API), and its ReplicaSet has as many available: either may be
the later one to tell that pods have failed.

A subset of a DestinationRule, named `rule/subset`, is a Service here: it selects a revision, and slices show what it finds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait, pods_wait
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskService, Intent, Notice, PointService, ReleaseService
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import named_services
from rollouts.core.model.service_ref import ServiceRef, SubsetName
from rollouts.core.model.snapshot import ReplicaSet, ServiceAbsent, ServiceSeen, ServiceUnasked

ASK_FIRST_S, ASK_MOST_S = 1.0, 10.0
"""A missing Service is not watched: asked for again after 1 s (`kubectl apply` of one file makes it a moment after the Rollout),
then each time the wait has doubled, at most every 10 s. Argo Rollouts looks every 20 s."""


NEEDS_A_PERSON = frozenset({Reason.SERVICE_NOT_FOUND, Reason.SERVICE_NOT_USABLE})
"""Waits for a Service that only somebody else can end: no step is done meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointing:
    """What one Service needs.

    Args:
        confirmed: its slices show the wanted revision, and only that one, and the pods for it are available.
        selects: the revision in its selector as it was seen, "" for none or unknown.
    """

    intents: tuple[Intent, ...] = ()
    notices: tuple[Notice, ...] = ()
    wait: Wait | None = None
    confirmed: bool = False
    selects: str = ""
    wake_at_s: float | None = None


def point(ctx: PassContext, name: ServiceRef, target: ReplicaSet | None, *, at_least: int) -> Pointing:
    """Makes Service `name` select `target`, once `at_least` of its pods are available.

    An unsteered Service is taken over only when all of the target's pods are there: until then it serves whatever its own
    selector finds, which is at least as much.
    """
    match ctx.seen.services.get(name, ServiceUnasked(name)):
        case ServiceUnasked():
            wait = Wait(Reason.SERVICE_SWITCHING, f"reading {told(name)}")
            return Pointing(intents=(AskService(name),), wait=wait)
        case ServiceAbsent(at_s=at_s, message=message):
            return _absent(ctx, name, at_s=at_s, message=message)
        case ServiceSeen() as service:
            return _point_seen(ctx, service, target, at_least=at_least)
        case never:
            assert_never(never)


def _absent(ctx: PassContext, name: ServiceRef, *, at_s: float, message: str) -> Pointing:
    message = message or f"{told(name)} does not exist: create it, or take it out of the strategy"
    wait = Wait(Reason.SERVICE_NOT_FOUND, message)
    again_s = ask_again_s(ctx, wait, asked_at_s=at_s)
    if ctx.now_s >= again_s:
        return Pointing(wait=wait, intents=(AskService(name),))
    return Pointing(wait=wait, wake_at_s=again_s)


def ask_again_s(ctx: PassContext, wait: Wait, *, asked_at_s: float) -> float:
    """When something that was missing at `asked_at_s` is asked for again: sooner at first, as nobody tells when it comes."""
    since_s = ctx.waiting_since_s(wait.reason, default_s=asked_at_s)
    return asked_at_s + min(ASK_MOST_S, max(ASK_FIRST_S, asked_at_s - since_s))


def _point_seen(ctx: PassContext, service: ServiceSeen, target: ReplicaSet | None, *, at_least: int) -> Pointing:
    if wait := _unusable(ctx, service):
        # No event tells of one that is not watched: it is asked for again, as the answer is too old then.
        return Pointing(
            wait=wait, selects=service.revision, wake_at_s=None if service.watched else ctx.now_s + ASK_MOST_S
        )
    if target is None:
        return Pointing(selects=service.revision)
    steered = service.managed_by == ctx.seen.rollout.name and service.watched
    if steered and service.revision == target.revision:
        return _confirmation(service, target, at_least=at_least)
    needed = at_least if steered else max(at_least, target.spec_replicas)
    if lasting(target) < needed:
        when = f"when {needed} of its pods are available; {lasting(target)} are"
        message = f"{told(service.name)} will select revision {target.revision} {when}"
        return Pointing(wait=Wait(Reason.PODS_NOT_AVAILABLE, message), selects=service.revision)
    intent = PointService(
        name=service.name, uid=service.uid, resource_version=service.resource_version, revision=target.revision
    )
    notice = Notice(Reason.SWITCH_SERVICE, f"{told(service.name)} selects revision {target.revision}")
    message = f"making {told(service.name)} select revision {target.revision}"
    return Pointing(
        intents=(intent,),
        notices=(notice,) if service.revision else (),
        wait=Wait(Reason.SERVICE_SWITCHING, message),
        selects=service.revision,
    )


def lasting(replica_set: ReplicaSet) -> int:
    """Available pods that stay: those above its size, and all of one that is being deleted, are on their way out."""
    return 0 if replica_set.deleting else min(replica_set.spec_replicas, replica_set.available)


def _confirmation(service: ServiceSeen, target: ReplicaSet, *, at_least: int) -> Pointing:
    others = sum(count for revision, count in service.ready_by_revision.items() if revision != target.revision)
    shown = service.ready_by_revision.get(target.revision, 0)
    if shown < at_least or others:
        wanted = f"to show {at_least} ready pods of revision {target.revision} alone"
        message = (
            f"waiting for the EndpointSlices of {told(service.name)} {wanted}; they show {shown}, and {others} others"
        )
        return Pointing(wait=Wait(Reason.SERVICE_SWITCHING, message), selects=service.revision)
    if lasting(target) < at_least:
        wait = pods_wait(target.revision, wanted=at_least, available=lasting(target))
        return Pointing(
            wait=replace(wait, message=f"{wait.message}; {told(service.name)} needs them"), selects=service.revision
        )
    return Pointing(confirmed=True, selects=service.revision)


def _unusable(ctx: PassContext, service: ServiceSeen) -> Wait | None:
    owner = service.managed_by
    if owner and owner != ctx.seen.rollout.name:
        message = f"{told(service.name)} belongs to Rollout {owner}: name another one in the strategy"
        return Wait(Reason.SERVICE_NOT_USABLE, message, spec_is_wrong=True)
    if service.problem:
        return Wait(Reason.SERVICE_NOT_USABLE, f"{told(service.name)}: {service.problem}")
    if not service.has_selector or not service.selects_template:
        message = (
            f"the selector of {told(service.name)} does not match the labels of spec.template: change one of the two"
        )
        return Wait(Reason.SERVICE_NOT_USABLE, message, spec_is_wrong=True)
    return None


def is_subset(name: ServiceRef) -> bool:
    """Whether that is a subset of a DestinationRule."""
    return isinstance(name, SubsetName)


def told(name: ServiceRef) -> str:
    """How people are told of a Service, or of a subset."""
    return f"subset {name.subset} of DestinationRule {name.rule}" if isinstance(name, SubsetName) else f"Service {name}"


def one_at_a_time(stable: Pointing, canary: Pointing, *, names: tuple[ServiceRef, ServiceRef]) -> Pointing:
    """The canary's, but two subsets of one object are changed by two passes: the second write would be of an older view."""
    of_one_rule = len({each.rule for each in names if isinstance(each, SubsetName)}) == 1
    if of_one_rule and any(isinstance(each, PointService) for each in stable.intents):
        return replace(canary, intents=(), notices=())
    return canary


def releases(ctx: PassContext) -> tuple[ReleaseService, ...]:
    """Services that we steer though the spec no longer names them: given back, or they would select one revision for ever."""
    named = named_services(ctx.spec.strategy)
    return tuple(
        ReleaseService(name=name, uid=service.uid, resource_version=service.resource_version)
        for service in _seen(ctx.seen.services.values())
        if service.managed_by == ctx.seen.rollout.name
        and (name := service.name) not in named
        and not isinstance(name, SubsetName)
    )


def selected_revision(ctx: PassContext, name: ServiceRef | None) -> str:
    """The revision in the selector of Service `name`, "" when it names none or was not seen."""
    service = ctx.seen.services.get(name or "")
    return service.revision if isinstance(service, ServiceSeen) else ""


def none_available(ctx: PassContext) -> bool:
    """Whether the new revision has pods, and none of them is available: nobody could answer what comes to it."""
    return ctx.new is not None and ctx.new.spec_replicas > 0 and lasting(ctx.new) == 0


def no_worse(ctx: PassContext, name: ServiceRef, target: ReplicaSet | None, *, enough: int) -> int:
    """Pods that `target` needs so that Service `name` serves no worse than from where it points now; `enough` at most."""
    service = ctx.seen.services.get(name)
    if not isinstance(service, ServiceSeen) or target is None or service.revision == target.revision:
        return 0
    return min(enough, sum(lasting(each) for each in ctx.seen.replica_sets if each.revision == service.revision))


def _seen(services: Iterable[object]) -> Iterable[ServiceSeen]:
    return (service for service in services if isinstance(service, ServiceSeen))
