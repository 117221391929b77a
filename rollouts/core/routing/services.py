"""Which revision each Service should select, and whether the cluster shows that it does.

A selector says what is wanted; proxies follow the EndpointSlices. A Service is confirmed only when its slices show ready pods of
the wanted revision and of no other (KEP-752, EndpointSlice API), and when as many pods of the ReplicaSet are available. Both are
checked because either may be the later one to show that pods have failed.

A subset of a DestinationRule is a Service here (docs/decisions/0025-a-subset-is-a-service.md): it selects a revision, and
slices show the pods that it finds.
"""

from __future__ import annotations

from typing import assert_never

from msgspec import Struct

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


class ServiceSwitch(Struct, frozen=True, kw_only=True):
    """What one Service needs in this pass.

    Args:
        confirmed: its slices show the wanted revision and no other, and enough pods are available.
        selects: the revision in its selector as it was seen; "" for none or unknown.
    """

    intents: tuple[Intent, ...] = ()
    notices: tuple[Notice, ...] = ()
    wait: Wait | None = None
    confirmed: bool = False
    selects: str = ""
    wake_at_s: float | None = None


def switch_to(ctx: PassContext, name: ServiceRef, target: ReplicaSet | None, *, at_least: int) -> ServiceSwitch:
    """Makes Service `name` select `target`, once `at_least` of its pods are available.

    A Service that is not managed yet changes only when all of the target's pods are available: until then its own selector
    finds at least as many.
    """
    match ctx.seen.services.get(name, ServiceUnasked(name)):
        case ServiceUnasked():
            return ServiceSwitch(intents=(AskService(name),), wait=_reading(name))
        case ServiceAbsent() as absent:
            return _absent(ctx, absent)
        case ServiceSeen() as service:
            return _switch_seen(ctx, service, target, at_least=at_least)
        case never:
            assert_never(never)


def not_usable(ctx: PassContext, name: ServiceRef) -> Wait | None:
    """Why no Service of that name can be used now: it is not read yet, missing, or another one than the spec needs."""
    match ctx.seen.services.get(name, ServiceUnasked(name)):
        case ServiceUnasked():
            return _reading(name)
        case ServiceAbsent() as absent:
            return _missing(absent)
        case ServiceSeen() as service:
            return _unusable(ctx, service)
        case never:
            assert_never(never)


def read_before_pods_leave(ctx: PassContext) -> tuple[AskService, ...]:
    """Questions about the Services of the spec that may select any pod by now, although they did not when they were read.

    One that is missing, or whose selector finds no pods, has no watch. Somebody may have made or mended it since.
    """
    return tuple([AskService(name) for name in ctx.named_services if _may_have_changed(ctx, name)])


def _may_have_changed(ctx: PassContext, name: ServiceRef) -> bool:
    match ctx.seen.services.get(name, ServiceUnasked(name)):
        case ServiceUnasked():
            return True
        case ServiceAbsent(at_s=at_s):
            return ctx.now_s - at_s > STILL_TRUE_S
        case ServiceSeen(read_at_s=at_s) as service:
            return at_s is not None and ctx.now_s - at_s > STILL_TRUE_S and _unusable(ctx, service) is not None
        case never:
            assert_never(never)


def _reading(name: ServiceRef) -> Wait:
    return Wait(Reason.SERVICE_SWITCHING, f"reading {display_name(name)}")


def _missing(absent: ServiceAbsent) -> Wait:
    helps = "create it, or remove it from the strategy"
    return Wait(Reason.SERVICE_NOT_FOUND, absent.message or f"{display_name(absent.name)} does not exist: {helps}")


def _absent(ctx: PassContext, absent: ServiceAbsent) -> ServiceSwitch:
    wait = _missing(absent)
    again_s = ask_again_s(ctx, wait, asked_at_s=absent.at_s)
    if ctx.now_s >= again_s:
        return ServiceSwitch(wait=wait, intents=(AskService(absent.name),))
    return ServiceSwitch(wait=wait, wake_at_s=again_s)


def ask_again_s(ctx: PassContext, wait: Wait, *, asked_at_s: float) -> float:
    """When to read again an object that was missing at `asked_at_s`: soon at first, then less often; no watch reports it."""
    since_s = ctx.waiting_since_s(wait.reason, default_s=asked_at_s)
    return asked_at_s + min(ASK_MOST_S, max(ASK_FIRST_S, asked_at_s - since_s))


def _switch_seen(ctx: PassContext, service: ServiceSeen, target: ReplicaSet | None, *, at_least: int) -> ServiceSwitch:
    if wait := _unusable(ctx, service):
        # No event comes for a Service that is not watched, so it is read again once the answer is too old.
        return ServiceSwitch(
            wait=wait, selects=service.revision, wake_at_s=None if service.watched else ctx.now_s + ASK_MOST_S
        )
    if target is None:
        return ServiceSwitch(selects=service.revision)
    managed = service.managed_by == ctx.seen.rollout.name and service.watched
    if managed and service.revision == target.revision:
        return _confirmation(service, target, at_least=at_least)
    needed = at_least if managed else max(at_least, target.spec_replicas)
    if target.staying_available < needed:
        pods = pods_wait(target.revision, wanted=needed, available=target.staying_available)
        message = f"{pods.message}; then {display_name(service.name)} will select them"
        return ServiceSwitch(wait=Wait(Reason.PODS_NOT_AVAILABLE, message), selects=service.revision)
    intent = SwitchService(
        name=service.name, uid=service.uid, resource_version=service.resource_version, revision=target.revision
    )
    notice = Notice(Reason.SWITCH_SERVICE, f"{display_name(service.name)} selects revision {target.revision}")
    message = f"making {display_name(service.name)} select revision {target.revision}"
    return ServiceSwitch(
        intents=(intent,),
        notices=(notice,) if service.revision else (),
        wait=Wait(Reason.SERVICE_SWITCHING, message),
        selects=service.revision,
    )


def _confirmation(service: ServiceSeen, target: ReplicaSet, *, at_least: int) -> ServiceSwitch:
    shown = service.ready_by_revision.get(target.revision, 0)
    others = sum(service.ready_by_revision.values()) - shown
    if shown < at_least or others:
        wanted = f"to show {pods_text(at_least)} of revision {target.revision} as ready, and no others"
        shows = f"they show {shown}, and {others} of other revisions"
        message = f"waiting for the EndpointSlices of {display_name(service.name)} {wanted}; {shows}"
        return ServiceSwitch(wait=Wait(Reason.SERVICE_SWITCHING, message), selects=service.revision)
    if target.staying_available < at_least:
        wait = pods_wait(target.revision, wanted=at_least, available=target.staying_available)
        return ServiceSwitch(
            wait=replace(wait, message=f"{wait.message}; {display_name(service.name)} needs them"),
            selects=service.revision,
        )
    return ServiceSwitch(confirmed=True, selects=service.revision)


def _unusable(ctx: PassContext, service: ServiceSeen) -> Wait | None:
    owner = service.managed_by
    if owner and owner != ctx.seen.rollout.name:
        message = f"{display_name(service.name)} belongs to Rollout {owner}: name another one in the strategy"
        return Wait(Reason.SERVICE_NOT_USABLE, message, spec_is_wrong=True)
    if service.problem:
        return Wait(Reason.SERVICE_NOT_USABLE, f"{display_name(service.name)}: {service.problem}")
    if service.traits.type == "ExternalName":
        message = (
            f"{display_name(service.name)} is of type ExternalName, a name outside the cluster that has no pods: "
            "give it a selector and type ClusterIP, or name another Service in the strategy"
        )
        return Wait(Reason.SERVICE_NOT_USABLE, message, spec_is_wrong=True)
    if not service.has_selector or not service.selects_template:
        name = display_name(service.name)
        message = f"the selector of {name} does not match the labels of spec.template: change one of the two"
        return Wait(Reason.SERVICE_NOT_USABLE, message, spec_is_wrong=True)
    return None


def is_subset(name: ServiceRef) -> bool:
    """Whether the name is one of a subset of a DestinationRule."""
    return isinstance(name, SubsetName)


def display_name(name: ServiceRef) -> str:
    """The name of a Service or of a subset, for messages."""
    return f"subset {name.subset} of DestinationRule {name.rule}" if isinstance(name, SubsetName) else f"Service {name}"


def one_at_a_time(
    stable: ServiceSwitch, canary: ServiceSwitch, *, names: tuple[ServiceRef, ServiceRef]
) -> ServiceSwitch:
    """`canary`, without its write if the stable one writes the same DestinationRule: a second write would be of an old view."""
    if not stable.intents:
        return canary
    of_one_rule = len({each.rule for each in names if isinstance(each, SubsetName)}) == 1
    if of_one_rule and any(isinstance(each, SwitchService) for each in stable.intents):
        return replace(canary, intents=(), notices=())
    return canary


def releases(ctx: PassContext) -> tuple[ReleaseService, ...]:
    """Releases Services that are managed although the spec no longer names them: else they would select one revision forever."""
    found = []
    for service in ctx.services_seen.values():
        name, ours = service.name, service.managed_by == ctx.seen.rollout.name
        if ours and name not in ctx.named_services and not isinstance(name, SubsetName):
            found.append(ReleaseService(name=name, uid=service.uid, resource_version=service.resource_version))
    return tuple(found)


def selected_revision(ctx: PassContext, name: ServiceRef | None) -> str:
    """The revision in the selector of Service `name`; "" when the selector has none or the Service was not seen."""
    service = ctx.services_seen.get(name or "")
    return service.revision if service is not None else ""


def no_worse(ctx: PassContext, name: ServiceRef, target: ReplicaSet | None, *, enough: int) -> int:
    """Pods that `target` needs so that Service `name` serves no worse than with the revision it selects now; at most `enough`."""
    service = ctx.services_seen.get(name)
    if service is None or target is None or service.revision == target.revision:
        return 0
    pods = [each.staying_available for each in ctx.seen.replica_sets if each.revision == service.revision]
    return min(enough, sum(pods))
