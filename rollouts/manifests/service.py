"""The three things we write on a user's Service: one selector key, one label, one annotation.

A merge patch with the uid and the resourceVersion that were seen: a plan from an older view gets a 409. We use no JSON Patch,
because a Service without labels or annotations has no `/metadata/labels` to add to, and a JSON Patch cannot create that parent
without deleting one that appeared since.
"""

from __future__ import annotations

from collections.abc import Mapping

from rollouts.core.model.intents import ReleaseService, SwitchService
from rollouts.manifests.ownership import MANAGED, MANAGED_BY, MANAGED_VALUE, POD_TEMPLATE_HASH, REVISION
from rollouts.objects import Manifest

_NO_REVISION: Mapping[str, str | None] = {REVISION: None, POD_TEMPLATE_HASH: None}


def switch_service(intent: SwitchService, *, rollout: str, label: str) -> Manifest:
    """Makes the Service select the intent's revision and marks it as managed by the Rollout named `rollout`.

    Args:
        label: by which the pods of a revision are known: `rollouts.dev/revision`, or `pod-template-hash` of a Deployment's pods.
    """
    selector = {**_NO_REVISION, label: intent.revision or None}
    return _patch(intent.uid, intent.resource_version, rollout=rollout, selector=selector)


def mark_service(*, uid: str, resource_version: str, rollout: str) -> Manifest:
    """Marks a Service whose pods are told apart by subsets as managed by `rollout`; it selects every revision."""
    return _patch(uid, resource_version, rollout=rollout, selector=_NO_REVISION)


def release_service(intent: ReleaseService) -> Manifest:
    """Removes our key, label and annotation; the Service then selects what its owner wrote."""
    return _patch(intent.uid, intent.resource_version, rollout=None, selector=_NO_REVISION)


def _patch(uid: str, resource_version: str, *, rollout: str | None, selector: Mapping[str, str | None]) -> Manifest:
    return {
        "metadata": {
            "uid": uid,
            "resourceVersion": resource_version,
            "labels": {MANAGED: None if rollout is None else MANAGED_VALUE},
            "annotations": {MANAGED_BY: rollout},
        },
        "spec": {"selector": selector},
    }
