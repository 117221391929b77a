"""Reads what limits the pods of a Rollout for `rollouts plan`: autoscalers, ResourceQuotas, LimitRanges, and the pods themselves.

GET and LIST only. What may not be read is not checked, and the plan says so.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any

from rollouts.api.times import parse_time
from rollouts.cli.kubernetes.limit_ranges import defaults_of
from rollouts.cli.kubernetes.parts import entries, is_a
from rollouts.cli.kubernetes.quotas import quota_of
from rollouts.cli.kubernetes.requests import as_created
from rollouts.cli.plan.limits import NamespaceLimits, PodSpecs, PresentPods
from rollouts.cli.plan.live import Live
from rollouts.cli.view.follow import Collection, list_all
from rollouts.cli.view.objects import revision_of
from rollouts.cli.view.session import Session
from rollouts.errors import ApiForbidden, ApiNotFound
from rollouts.metrics.autoscalers import listed_autoscalers
from rollouts.objects import AUTOSCALER, DEPLOYMENT, LIMIT_RANGE, RESOURCE_QUOTA, ROLLOUT, Key, Kind, Manifest, mapping

_ENDED = ("Succeeded", "Failed")


async def read_limits(
    session: Session, key: Key, manifests: Iterable[Manifest], *, in_place: Manifest | None = None
) -> NamespaceLimits:
    """What limits the pods of one Rollout; an autoscaler among the objects in the file counts as it will be.

    Args:
        in_place: the workload that it updates in place, which autoscalers target then.

    Raises: what `Client` raises, other than for a kind that may not be listed or is not there.
    """

    async def listed(kind: Kind) -> tuple[Manifest, ...] | None:
        try:
            return (await list_all(session, Collection(kind=kind, namespace=key.namespace)))[0]
        except (ApiForbidden, ApiNotFound):
            return None

    kinds = (AUTOSCALER, RESOURCE_QUOTA, LIMIT_RANGE)
    autoscalers, quotas, limit_ranges = await asyncio.gather(*map(listed, kinds))
    found = zip(kinds, (autoscalers, quotas, limit_ranges), strict=True)
    applied = {autoscaler["metadata"]["name"]: autoscaler for autoscaler in autoscalers or ()}
    for manifest in manifests:
        metadata = mapping(manifest.get("metadata"))
        if is_a(manifest, AUTOSCALER) and metadata.get("namespace", key.namespace) == key.namespace:
            name = str(metadata.get("name"))
            applied[name] = {**applied.get(name, {}), **manifest}
    try:
        known, _ = listed_autoscalers(json.dumps({"items": list(applied.values()), "metadata": {}}).encode())
    except ValueError:  # one of the file is none; `lint` says what is wrong with it
        known = ()
    target = (ROLLOUT.group, ROLLOUT.kind, key.name)
    if in_place is not None:
        target = (DEPLOYMENT.group, in_place["kind"], in_place["metadata"]["name"])
    own = [scaler for scaler in known if (scaler.target_group, scaler.target_kind, scaler.target_name) == target]
    return NamespaceLimits(
        autoscalers=tuple(scaler.seen for scaler in own),
        quotas=tuple(map(quota_of, quotas or ())),
        limit_ranges=limit_ranges or (),
        unread=tuple(kind for kind, objects in found if objects is None),
    )


def pod_specs(template: Manifest, live: Live, limits: NamespaceLimits, *, now_s: float) -> PodSpecs:
    """The pods of the update as the API server creates them.

    What admission has added to a running pod, such as a mesh's sidecar, it is taken to add to the new ones too.
    """
    defaults = defaults_of(limits.limit_ranges)
    running = {revision_of(pod): _known(pod) for pod in live.pods if not _ends(pod)}
    templates = {
        revision_of(replica_set): mapping(mapping(replica_set["spec"].get("template")).get("spec"))
        for replica_set in live.replica_sets
    }
    created = {revision: as_created(spec, defaults) for revision, spec in templates.items()}
    new = mapping(template.get("spec"))
    for revision, spec in running.items():
        if revision in templates:
            new = _as_admitted(new, templates[revision], spec)
            break
    present = [PresentPods(_known(pod), ended=_has_ended(pod, now_s)) for pod in live.pods]
    if not live.pods:  # they may not be read
        counted = (
            (revision_of(replica_set), mapping(replica_set.get("status")).get("replicas") or 0)
            for replica_set in live.replica_sets
        )
        present = [PresentPods(created[revision], count) for revision, count in counted if count]
    return PodSpecs(new=as_created(new, defaults), by_revision=created | running, present=tuple(present))


def _known(pod: Manifest) -> Mapping[str, Any]:
    """The spec of a pod that is there: one without a priority class has none."""
    return {"priorityClassName": "", **mapping(pod.get("spec"))}


def _ends(pod: Manifest) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp")) or mapping(pod.get("status")).get("phase") in _ENDED


def _has_ended(pod: Manifest, now_s: float) -> bool:
    """Whether quotas no longer count what a pod requests.

    Source: kubernetes, pkg/quota/v1/evaluator/core/pods.go (`QuotaV1Pod`).
    """
    if mapping(pod.get("status")).get("phase") in _ENDED:
        return True
    deleted, grace_s = (pod["metadata"].get(name) for name in ("deletionTimestamp", "deletionGracePeriodSeconds"))
    return bool(deleted) and grace_s is not None and now_s > parse_time(deleted) + grace_s


def _as_admitted(new: Mapping[str, Any], before: Mapping[str, Any], pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """A pod's spec with what admission added to `pod`, which is of the template `before`."""
    added = dict(new)
    for field in ("initContainers", "containers"):
        own = {container.get("name") for spec in (new, before) for _, container in entries(spec.get(field))}
        injected = [container for _, container in entries(pod.get(field)) if container.get("name") not in own]
        if injected:
            added[field] = [*(container for _, container in entries(new.get(field))), *injected]
    if not before.get("priorityClassName"):
        added.setdefault("priorityClassName", pod.get("priorityClassName", ""))
    if pod.get("overhead") and pod.get("runtimeClassName") == new.get("runtimeClassName"):
        added.setdefault("overhead", pod["overhead"])
    return added
