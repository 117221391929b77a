"""Which revision each Service should select, and whether the cluster shows that it does.

A selector says what is wanted; proxies follow the EndpointSlices. A Service is confirmed only when its slices show ready pods of
the wanted revision and of no other (KEP-752, EndpointSlice API), and when as many pods of the ReplicaSet are available. Both are
checked because either may be the later one to show that pods have failed.

A subset of a DestinationRule is a Service here (docs/decisions/0025-a-subset-is-a-service.md): it selects a revision, and
slices show the pods that it finds.
"""

from __future__ import annotations

from collections.abc import Iterable

from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait, pods_text, pods_wait
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskService, Intent, Notice, ReleaseService, SwitchService
from rollouts.core.model.reasons import Reason
from rollouts.core.model.service_ref import ServiceRef, SubsetName
from rollouts.core.model.snapshot import ReplicaSet, ServiceAbsent, ServiceSeen, ServiceUnasked

ASK_FIRST_S, ASK_MOST_S = 1.0, 10.0
"""A missing Service is not watched. It is read again after 1 s (`kubectl apply` of one file creates it a moment after the
Rollout), then each time the wait has doubled, at the latest after 10 s. Argo Rollouts looks every 20 s."""

STILL_TRUE_S = 1.0
"""For so long the answer that a Service is missing, or cannot be used, is good enough to take pods away.

Reads of one object take less (99 % of them, by Kubernetes' SLO for API calls). On a slower API server the pods stay."""


NEEDS_A_PERSON = frozenset({Reason.SERVICE_NOT_FOUND, Reason.SERVICE_NOT_USABLE})
"""Waits for a Service that only a person can end: no step completes meanwhile."""


class ServiceSwitch(Contribution, frozen=True, kw_only=True):
    """What one Service needs in this pass.

    Args:
        confirmed: its slices show the wanted revision and no other, and enough pods are available.
        selects: the revision in its selector as it was seen; "" for none or unknown.
    """

    confirmed: bool = False
    selects: str = ""


def switch_to(ctx: PassContext, name: ServiceRef, target: ReplicaSet | None, *, at_least: int) -> ServiceSwitch:
    """Makes Service `name` select `target`, once `at_least` of its pods are available.

    A Service that is not managed yet changes only when all of the target's pods are available: until then its own selector
    finds at least as many.
    """
    service, unusable = ctx.seen.services.get(name, ServiceUnasked(name)), not_usable(ctx, name)
    if isinstance(service, ServiceUnasked):
        return ServiceSwitch(intents=(AskService(name),), wait=unusable)
    if isinstance(service, ServiceAbsent):
        again_s = ask_again_s(ctx, Reason.SERVICE_NOT_FOUND, asked_at_s=service.at_s)
        if ctx.now_s >= again_s:
            return ServiceSwitch(intents=(AskService(name),), wait=unusable)
        return ServiceSwitch(wait=unusable, wake_at_s=again_s)
    selects = service.revision
    if unusable is not None:
        # No event comes for a Service that is not watched, so it is read again once the answer is too old.
        wake_at_s = None if service.watched else ctx.now_s + ASK_MOST_S
        return ServiceSwitch(wait=unusable, selects=selects, wake_at_s=wake_at_s)
    if target is None:
        return ServiceSwitch(selects=selects)
    managed = service.managed_by == ctx.seen.rollout.name and service.watched
    if managed and selects == target.revision:
        return _confirmation(service, target, at_least=at_least)
    shown, needed = display_name(name), at_least if managed else max(at_least, target.spec_replicas)
    if target.staying_available < needed:
        pods = pods_wait(target.revision, wanted=needed, available=target.staying_available)
        wait = Wait(Reason.PODS_NOT_AVAILABLE, f"{pods.message}; then {shown} will select them")
        return ServiceSwitch(wait=wait, selects=selects)
    version, revision = service.resource_version, target.revision
    return ServiceSwitch(
        intents=(SwitchService(name=name, uid=service.uid, resource_version=version, revision=revision),),
        wait=Wait(Reason.SERVICE_SWITCHING, f"making {shown} select revision {revision}"),
        selects=selects,
    )


def not_usable(ctx: PassContext, name: ServiceRef) -> Wait | None:
    """Why no Service of that name can be used now: it is not read yet, missing, or another one than the spec needs."""
    service = ctx.seen.services.get(name, ServiceUnasked(name))
    if isinstance(service, ServiceUnasked):
        return Wait(Reason.SERVICE_SWITCHING, f"reading {display_name(name)}")
    if isinstance(service, ServiceAbsent):
        missing = f"{display_name(name)} does not exist: create it, or remove it from the strategy"
        return Wait(Reason.SERVICE_NOT_FOUND, service.message or missing)
    owner = service.managed_by
    if owner and owner != ctx.seen.rollout.name:
        message = f"{display_name(name)} belongs to Rollout {owner}: name another one in the strategy"
    elif service.problem:
        return Wait(Reason.SERVICE_NOT_USABLE, f"{display_name(name)}: {service.problem}")
    elif service.traits.type == "ExternalName":
        message = (
            f"{display_name(name)} is of type ExternalName, a name outside the cluster that has no pods: "
            "give it a selector and type ClusterIP, or name another Service in the strategy"
        )
    elif not service.has_selector or not service.selects_template:
        message = (
            f"the selector of {display_name(name)} does not match the labels of spec.template: change one of the two"
        )
    else:
        return None
    return Wait(Reason.SERVICE_NOT_USABLE, message, spec_is_wrong=True)


def read_before_pods_leave(ctx: PassContext) -> tuple[AskService, ...]:
    """Questions about the Services of the spec that may select any pod by now, although they did not when they were read.

    One that is missing, or whose selector finds no pods, has no watch. Somebody may have made or mended it since.
    """
    asked = []
    for name in ctx.named_services:
        match ctx.seen.services.get(name):
            case ServiceAbsent(at_s=at_s) | ServiceSeen(read_at_s=at_s):
                too_old = at_s is not None and ctx.now_s - at_s > STILL_TRUE_S
                asked += [AskService(name)] if too_old and not_usable(ctx, name) is not None else []
            case ServiceUnasked() | None:
                asked.append(AskService(name))
    return tuple(asked)


def ask_again_s(ctx: PassContext, reason: Reason, *, asked_at_s: float) -> float:
    """When to read again an object that was missing at `asked_at_s`: soon at first, then less often; no watch reports it.

    Args:
        reason: that of the wait for it.
    """
    since_s = ctx.waiting_since_s(reason, default_s=asked_at_s)
    return asked_at_s + min(ASK_MOST_S, max(ASK_FIRST_S, asked_at_s - since_s))


def _confirmation(service: ServiceSeen, target: ReplicaSet, *, at_least: int) -> ServiceSwitch:
    shown = service.ready_by_revision.get(target.revision, 0)
    others = sum(service.ready_by_revision.values()) - shown
    if shown < at_least or others:
        wanted = f"to show {pods_text(at_least)} of revision {target.revision} as ready, and no others"
        shows = f"they show {shown}, and {others} of other revisions"
        message = f"waiting for the EndpointSlices of {display_name(service.name)} {wanted}; {shows}"
        return ServiceSwitch(wait=Wait(Reason.SERVICE_SWITCHING, message), selects=service.revision)
    if target.staying_available < at_least:
        pods = pods_wait(target.revision, wanted=at_least, available=target.staying_available)
        wait = replace(pods, message=f"{pods.message}; {display_name(service.name)} needs them")
        return ServiceSwitch(wait=wait, selects=service.revision)
    return ServiceSwitch(confirmed=True, selects=service.revision)


def display_name(name: ServiceRef) -> str:
    """The name of a Service or of a subset, for messages."""
    return f"subset {name.subset} of DestinationRule {name.rule}" if isinstance(name, SubsetName) else f"Service {name}"


def one_at_a_time(
    stable: ServiceSwitch, canary: ServiceSwitch, *, names: tuple[ServiceRef, ServiceRef]
) -> ServiceSwitch:
    """`canary`, without its write if the stable one writes the same DestinationRule: a second write would be of an old view."""
    if not stable.intents or len({name.rule for name in names if isinstance(name, SubsetName)}) != 1:
        return canary
    writes = any(isinstance(intent, SwitchService) for intent in stable.intents)
    return replace(canary, intents=()) if writes else canary


def switches(ctx: PassContext, written: Iterable[Intent]) -> tuple[Notice, ...]:
    """An Event for each Service that is switched from one revision to another. The first selection needs none."""
    return tuple(
        [
            Notice(Reason.SWITCH_SERVICE, f"{display_name(each.name)} selects revision {each.revision}")
            for each in written
            if isinstance(each, SwitchService) and selected_revision(ctx, each.name)
        ]
    )


def releases(ctx: PassContext) -> tuple[ReleaseService, ...]:
    """Releases Services that are managed although the spec no longer names them: else they would select one revision forever."""
    ours = ctx.seen.rollout.name
    return tuple(
        [
            ReleaseService(name=service.name, uid=service.uid, resource_version=service.resource_version)
            for service in ctx.services_seen.values()
            if service.managed_by == ours
            and service.name not in ctx.named_services
            and not isinstance(service.name, SubsetName)
        ]
    )


def selected_revision(ctx: PassContext, name: ServiceRef | None) -> str:
    """The revision in the selector of Service `name`; "" when the selector has none or the Service was not seen."""
    service = ctx.services_seen.get(name or "")
    return service.revision if service is not None else ""


def no_worse(ctx: PassContext, name: ServiceRef, target: ReplicaSet | None) -> int:
    """Pods that `target` needs so that Service `name` serves no worse than with the revision it selects now.

    One at least, and never more than must be available.
    """
    service, least = ctx.services_seen.get(name), min(1, ctx.spec.replicas)
    if service is None or target is None or service.revision == target.revision:
        return least
    pods = [other.staying_available for other in ctx.seen.replica_sets if other.revision == service.revision]
    return max(least, min(ctx.promised, sum(pods)))
