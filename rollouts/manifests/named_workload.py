"""What we write on a workload that a Rollout names in `workloadRef`: one label and one annotation.

A merge patch with the uid and the resourceVersion that were seen, as for a Service.
"""

from __future__ import annotations

from rollouts.core.model.intents import MarkWorkload, ReleaseWorkload
from rollouts.manifests.ownership import MANAGED, MANAGED_BY, MANAGED_VALUE
from rollouts.objects import Manifest


def mark_workload(intent: MarkWorkload, *, rollout: str) -> Manifest:
    """Marks the workload as managed by the Rollout named `rollout`."""
    return _patch(intent, rollout=rollout)


def release_workload(intent: ReleaseWorkload) -> Manifest:
    """Removes our label and annotation."""
    return _patch(intent, rollout=None)


def _patch(intent: MarkWorkload | ReleaseWorkload, *, rollout: str | None) -> Manifest:
    return {
        "metadata": {
            "uid": intent.uid,
            "resourceVersion": intent.resource_version,
            "labels": {MANAGED: None if rollout is None else MANAGED_VALUE},
            "annotations": {MANAGED_BY: rollout},
        }
    }
