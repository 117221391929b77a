"""Turns intents about subsets of a DestinationRule into calls. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from rollouts.cluster.structs import ServiceObject
from rollouts.controller.act.calls import Ask, Patch, ReadService, Write
from rollouts.controller.act.render_routes import marks_of, question_about
from rollouts.controller.observe.routes import RouteRead
from rollouts.controller.observe.subsets import host_name, rule_of, version_of
from rollouts.controller.workqueue.managed import managed_by
from rollouts.core.model.intents import AskService, SwitchService
from rollouts.core.model.rollout import Rollout
from rollouts.core.model.service_ref import SubsetName
from rollouts.core.model.traffic import RouteName, RouteSeen
from rollouts.errors import ApiConflict
from rollouts.manifests.ownership import MANAGED, MANAGED_VALUE, REVISION
from rollouts.manifests.route import marked, route_patch
from rollouts.manifests.service import mark_service
from rollouts.objects import SERVICE
from rollouts.ports import JSON_PATCH, MERGE_PATCH
from rollouts.traffic.codec import PatchUser
from rollouts.traffic.istio.subsets import pointed


def render_subset(
    rollout: Rollout, intent: SwitchService | AskService, routes: Mapping[RouteName, RouteRead]
) -> tuple[Write | Ask, ...]:
    """The calls that carry out `intent` about a subset: one for each object that must change. Raises: ApiConflict."""
    rule = rule_of(routes)
    if rule is None:
        raise ApiConflict(f"the controller has not read a DestinationRule for {intent.name} yet")
    match intent:
        case AskService():
            host = host_name(rule)
            return (ReadService(host),) if host else (question_about(rule.place),)
        case SwitchService():
            return _point(rollout, intent, rule)
        case _:
            assert_never(intent)


def _point(rollout: Rollout, intent: SwitchService, rule: RouteRead) -> tuple[Write, ...]:
    """The writes: the rule first, because from then on its subset is exact, whatever else its host selects."""
    host = rule.host
    if host is None or rule.objects is None or not isinstance(rule.route, RouteSeen):
        raise ApiConflict(f"the controller has not read {rule.place.route} yet")
    if intent.resource_version != version_of(rule.route.resource_version, host.metadata.resource_version):
        raise ApiConflict(f"{rule.place.route} has changed since the decision")
    name = intent.name
    if not isinstance(name, SubsetName):
        raise ApiConflict(f"{intent.name} is not a subset of {rule.place.route}")
    writes: list[Write] = []
    user, marks = rule.objects.user, marks_of(rule)
    ops = pointed(marked(user, marks), name.subset, intent.revision)
    operations = [operation for op in ops if isinstance(op, PatchUser) for operation in op.operations]
    if body := route_patch(user, operations, marks):
        writes.append(
            Patch(
                kind=rule.kind,
                name=rule.place.target.name,
                namespace=rule.place.target.namespace,
                uid=rule.route.uid,
                body=body,
                content_type=JSON_PATCH,
                route=rule.place.route,
            )
        )
    if not _is_marked(host, rollout.name):
        body_of_host = mark_service(
            uid=host.metadata.uid, resource_version=host.metadata.resource_version, rollout=rollout.name
        )
        writes.append(
            Patch(
                kind=SERVICE,
                name=host.metadata.name,
                uid=host.metadata.uid,
                body=body_of_host,
                content_type=MERGE_PATCH,
            )
        )
    return tuple(writes)


def _is_marked(host: ServiceObject, rollout: str) -> bool:
    labelled = (host.metadata.labels or {}).get(MANAGED) == MANAGED_VALUE
    return labelled and managed_by(host) == rollout and REVISION not in (host.spec.selector or {})
