"""Turns intents about routes into calls: the codec's operations, with our precondition and marks around them. Pure.

A subset of a DestinationRule, which is a Service to core, is written here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import assert_never

from rollouts.controller.act.calls import (
    Apply,
    AskDataPlanes,
    CreateRoute,
    Delete,
    Patch,
    ReadClasses,
    ReadRoute,
    RolloutCall,
    Write,
)
from rollouts.controller.observe.places import Place
from rollouts.controller.observe.routes import UNREADABLE, RouteRead
from rollouts.controller.observe.services import host_name, rule_of, version_of
from rollouts.controller.workqueue.managed import managed_by, managed_by_text
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    AskDrained,
    AskFeatures,
    AskLive,
    AskRoute,
    AskService,
    MakeRoute,
    ReleaseRoute,
    RouteIntent,
    SetTraffic,
    SwitchService,
)
from rollouts.core.model.rollout import Rollout
from rollouts.core.model.service_ref import SubsetName
from rollouts.core.model.snapshot import Snapshot, is_in_place
from rollouts.core.model.traffic import RouteName, RouteSeen, RuleSaid, Split
from rollouts.errors import ApiConflict, Unroutable
from rollouts.manifests.json_patch import json_patch
from rollouts.manifests.own_route import made_route, owner_operations, remade_route
from rollouts.manifests.ownership import MANAGED, MANAGED_VALUE, REVISION
from rollouts.manifests.route import Marks, marked, owned_route, route_patch, route_release, route_release_with_marks
from rollouts.manifests.service import mark_service
from rollouts.objects import SERVICE, Key, Manifest
from rollouts.ports import JSON_PATCH, MERGE_PATCH, DrainQuestion, LiveQuestion
from rollouts.traffic.codec import LEDGER, ApplyOwned, DeleteOwned, Objects, Op, PatchUser, Provider
from rollouts.traffic.istio.subsets import pointed
from rollouts.traffic.rules.difference import operations


def render_routing(
    snapshot: Snapshot,
    intent: RouteIntent | AskRoute | AskFeatures | AskLive | AskDrained,
    routes: Mapping[RouteName, RouteRead],
) -> tuple[RolloutCall, ...]:
    """The calls that carry out `intent`, in order. Raises: Unroutable; ApiConflict."""
    match intent:
        case SetTraffic(route=name, resource_version=version, split=split, settled=settled, rewrite=rewrite):
            read, provider, objects = _readable(routes, name, version)
            if rewrite:
                return (_write_anew(snapshot.rollout, read, provider, objects, split),)
            ours = marked(objects.user, marks_of(read))
            context = replace(read.context, settled=settled)
            ops = provider.plan(Objects(ours, objects.owned), read.place.target, context, split)
            return tuple(_writes(snapshot.rollout, read, objects, ops))
        case MakeRoute(route=name, split=split):
            return (_make(snapshot.rollout, routes[name], split),)
        case ReleaseRoute(route=name, resource_version=version):
            return release(*_readable(routes, name, version))
        case AskRoute(route=name):
            return (question_about(routes[name].place),)
        case AskFeatures(route=name):
            return (ReadClasses(routes[name].gateways),)
        case AskLive(route=name, resource_version=version, pace=pace):
            return (AskDataPlanes(name, version, pace, _live_question(routes[name], intent)),)
        case AskDrained(revision=revision):
            rollout = snapshot.rollout
            left = [cutover.service for cutover in snapshot.status.cutovers if cutover.from_revision == revision]
            gateways = dict.fromkeys(gateway for read in routes.values() for gateway in read.gateways)
            return (
                DrainQuestion(
                    namespace=rollout.namespace,
                    rollout=rollout.name,
                    revision=revision,
                    service=str(left[-1]) if left else "",
                    probes=rollout.spec.drain.probes,
                    gateways=tuple(gateways),
                    selector=rollout.spec.selector_text if is_in_place(snapshot) else "",
                ),
            )
        case _:
            assert_never(intent)


def _live_question(read: RouteRead, ask: AskLive) -> LiveQuestion:
    objects: tuple[Manifest, ...] = ()
    rules: tuple[RuleSaid, ...] = ()
    if read.objects is not None:
        objects = tuple(filter(None, (read.objects.user, read.objects.owned)))
        if read.place.provider is not None:
            with suppress(Unroutable):  # then nothing is told of rules, and all of them are judged
                rules = read.place.provider.rules(read.objects, read.place.target, read.context)
    return LiveQuestion(
        route=ask.route,
        resource_version=ask.resource_version,
        split=ask.split,
        stable_service=str(read.context.stable),
        canary_service=str(read.context.canary),
        namespace=read.context.namespace,
        gateways=read.gateways,
        objects=objects,
        rules=rules,
        since_s=ask.since_s,
        before=ask.before,
    )


def _make(rollout: Rollout, read: RouteRead, split: Split) -> CreateRoute:
    place = read.place
    if place.own is None or place.provider is None:
        raise ApiConflict(f"the controller does not create {place.route}: trafficRouting.own has no manifest for it")
    ours = marked(made_route(place.own, rollout), marks_of(read))
    manifest = _planned(ours, place.provider, read, split)
    return CreateRoute(kind=place.target.kinds[0], name=place.target.name, manifest=manifest, route=place.route)


def _write_anew(rollout: Rollout, read: RouteRead, provider: Provider, objects: Objects, split: Split) -> Patch:
    """Rewrites the route from its manifest, in one patch, so that the split holds while the rest changes.

    The object that we own beside the route follows in the next pass.
    """
    if read.place.own is None:
        raise ApiConflict(
            f"the controller does not rewrite {read.place.route}: trafficRouting.own has no manifest for it"
        )
    marks = marks_of(read)
    rewritten = marked(remade_route(objects.user, read.place.own, without=LEDGER), marks)
    final = _planned(rewritten, provider, read, split)
    changes = (*owner_operations(objects.user, rollout), *operations(marked(objects.user, marks), final))
    return replace(_patch(read, objects, route_patch(objects.user, changes, marks)), strict=True)


def _planned(user: Manifest, provider: Provider, read: RouteRead, split: Split) -> Manifest:
    """The object as the codec plans it, for a split without managed routes, which a codec writes at once. Raises: Unroutable."""
    try:
        ops = provider.plan(Objects(user), read.place.target, read.context, split)
    except UNREADABLE as exc:  # no API server has validated it
        why = f"the provider cannot read its manifest in trafficRouting.own ({type(exc).__name__}: {exc})"
        raise Unroutable(f"{read.place.route}: {why}") from exc
    for op in ops:
        if isinstance(op, PatchUser):
            user = json_patch(user, op.operations)
    return user


def question_about(place: Place) -> ReadRoute:
    """The question that reads the objects of a place."""
    target = place.target
    owned_kinds = (target.owned_kinds or target.kinds) if target.owned_name else ()
    return ReadRoute(route=place.route, kinds=target.kinds, owned_name=target.owned_name, owned_kinds=owned_kinds)


def release(read: RouteRead, provider: Provider, objects: Objects) -> tuple[Write, ...]:
    """The calls that release a route; () when nothing of ours is on it.

    Our marks go last: without them no pass would finish a release that broke off. When the user's object changes and one of ours
    is deleted, the change comes alone, so that the route never points at a deleted object; the pass that sees it does the rest.
    """
    ops = provider.release(objects, read.place.target, read.context)
    patched = tuple(operation for op in ops if isinstance(op, PatchUser) for operation in op.operations)
    deletes = tuple(_delete(read, objects) for op in ops if isinstance(op, DeleteOwned))
    if patched and deletes:
        return (_patch(read, objects, route_release_with_marks(objects.user, patched)),)
    body = route_release(objects.user, patched)
    return (*deletes, replace(_patch(read, objects, body), leaves_watch=True)) if body else deletes


def _writes(rollout: Rollout, read: RouteRead, objects: Objects, ops: tuple[Op, ...]) -> Iterable[Write]:
    """The writes in the codec's order; our marks go with the first patch of the user's object, or in a patch of their own."""
    marks = marks_of(read)
    target = read.place.target
    patched = False
    for op in ops:
        match op:
            case PatchUser(operations):
                # A part of a mirror that an older Gateway API drops would leave a mirror of all requests.
                yield replace(_patch(read, objects, route_patch(objects.user, operations, marks)), strict=True)
                patched = True
            case ApplyOwned(manifest):
                owned = owned_route(manifest, rollout, marks, before=objects.owned)
                yield Apply(
                    kind=read.owned_kind,
                    name=target.owned_name,
                    namespace=target.namespace,
                    manifest={**owned, **read.owned_kind.head},
                    route=read.place.route,
                )
            case DeleteOwned():
                yield _delete(read, objects)
            case _:
                assert_never(op)
    if not patched and (body := route_patch(objects.user, (), marks)):
        yield _patch(read, objects, body)


def _patch(read: RouteRead, objects: Objects, body: list[Mapping[str, object]]) -> Patch:
    return Patch(
        kind=read.kind,
        name=read.place.target.name,
        namespace=read.place.target.namespace,
        uid=objects.user["metadata"]["uid"],
        body=body,
        content_type=JSON_PATCH,
        route=read.place.route,
    )


def _delete(read: RouteRead, objects: Objects) -> Delete:
    if objects.owned is None:
        raise ApiConflict(f"the object beside {read.place.route} is gone already")
    seen = objects.owned["metadata"]
    return Delete(
        kind=read.owned_kind,
        name=read.place.target.owned_name,
        namespace=read.place.target.namespace,
        uid=seen["uid"],
        resource_version=seen["resourceVersion"],
        route=read.place.route,
    )


def _readable(
    routes: Mapping[RouteName, RouteRead], name: RouteName, resource_version: str
) -> tuple[RouteRead, Provider, Objects]:
    read = routes.get(name)
    if read is None or read.objects is None or not isinstance(read.route, RouteSeen):
        raise ApiConflict(f"the controller has not read {name} yet")
    if read.route.resource_version != resource_version:
        raise ApiConflict(f"{name} has changed since the decision")
    if read.place.provider is None:
        raise Unroutable(f"{name}: {read.route.problem}")
    return read, read.place.provider, read.objects


def marks_of(read: RouteRead) -> Marks:
    """The marks that we write on a place, besides the codec's part."""
    target = read.place.target
    rollout = Key(read.context.namespace, read.context.rollout)
    managed_by = managed_by_text(rollout, namespace=target.namespace)
    return Marks(managed_by, read.place.route.router, target.owned_name)


def render_subset(
    rollout: Rollout, intent: SwitchService | AskService, routes: Mapping[RouteName, RouteRead]
) -> tuple[RolloutCall, ...]:
    """The calls that carry out `intent` about a subset: one for each object that must change. Raises: ApiConflict."""
    rule = rule_of(routes)
    if rule is None:
        raise ApiConflict(f"the controller has not read a DestinationRule for {intent.name} yet")
    if isinstance(intent, AskService):
        host_service = host_name(rule)
        return (AskService(host_service),) if host_service else (question_about(rule.place),)
    host = rule.host
    if host is None or rule.objects is None or not isinstance(rule.route, RouteSeen):
        raise ApiConflict(f"the controller has not read {rule.place.route} yet")
    if intent.resource_version != version_of(rule.route.resource_version, host.metadata.resource_version):
        raise ApiConflict(f"{rule.place.route} has changed since the decision")
    if not isinstance(intent.name, SubsetName):
        raise ApiConflict(f"{intent.name} is not a subset of {rule.place.route}")
    writes: list[Write] = []
    user, marks = rule.objects.user, marks_of(rule)
    ops = pointed(marked(user, marks), intent.name.subset, intent.revision)
    changes = [operation for op in ops if isinstance(op, PatchUser) for operation in op.operations]
    if body := route_patch(user, changes, marks):
        # The rule first: from then on its subset is exact, whatever else its host selects.
        writes.append(_patch(rule, rule.objects, body))
    uid, version = host.metadata.uid, host.metadata.resource_version
    labelled = (host.metadata.labels or {}).get(MANAGED) == MANAGED_VALUE
    if not labelled or managed_by(host) != rollout.name or REVISION in (host.spec.selector or {}):
        mark = mark_service(uid=uid, resource_version=version, rollout=rollout.name)
        writes.append(Patch(kind=SERVICE, name=host.metadata.name, uid=uid, body=mark, content_type=MERGE_PATCH))
    return tuple(writes)
