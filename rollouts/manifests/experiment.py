"""What an Experiment makes: ReplicaSets, Services and AnalysisRuns, all of which are deleted with it.

Pods are selected by their hash, which no pods of a Rollout and of another Experiment have.
"""

from __future__ import annotations

import json
from typing import TypeAlias

from rollouts.core.experiment.model import (
    ExperimentView,
    MakeRun,
    PodGroup,
    SetReplicaSet,
    hash_of_pods,
    name_of_pods,
    name_of_service,
)
from rollouts.manifests.ownership import (
    EXPERIMENT,
    EXPERIMENT_TEMPLATE,
    MANAGED,
    MANAGED_VALUE,
    REVISION,
    controller_reference,
    name_label,
)
from rollouts.manifests.workload import revision_selector
from rollouts.objects import ANALYSIS_RUN, REPLICA_SET, SERVICE, Manifest
from rollouts.objects import EXPERIMENT as EXPERIMENT_KIND

_Owner: TypeAlias = ExperimentView


def experiment_replica_set(of: _Owner, namespace: str, group: PodGroup) -> Manifest:
    """The ReplicaSet of a template."""
    template: Manifest = json.loads(group.template_json)
    metadata: Manifest = template.setdefault("metadata", {})
    revision, ours = hash_of_pods(of.uid, group), _labels(of, group)
    metadata["labels"] = {**(metadata.get("labels") or {}), **ours}
    return {
        **REPLICA_SET.head,
        "metadata": {**_head(of, namespace, name_of_pods(of.name, of.uid, group)), "labels": ours},
        "spec": {
            "replicas": group.replicas,
            "minReadySeconds": group.min_ready_s,
            "selector": revision_selector(group.selector_json, revision),
            "template": template,
        },
    }


def experiment_service(of: _Owner, namespace: str, group: PodGroup) -> Manifest:
    """The Service of a template."""
    labels = {**_labels(of, group), MANAGED: MANAGED_VALUE}
    return {
        **SERVICE.head,
        "metadata": {**_head(of, namespace, name_of_service(of.name, of.uid, group)), "labels": labels},
        "spec": {"selector": {REVISION: hash_of_pods(of.uid, group)}, "ports": [each.manifest for each in group.ports]},
    }


def experiment_run(of: _Owner, namespace: str, intent: MakeRun) -> Manifest:
    """An AnalysisRun. Of two labels with one key, that of `analysisRunMetadata` loses."""
    return {
        **ANALYSIS_RUN.head,
        "metadata": {
            **_head(of, namespace, intent.name),
            "labels": {**intent.draft.labels, EXPERIMENT: name_label(of.name)},
            "annotations": dict(intent.draft.annotations),
        },
        "spec": json.loads(intent.draft.spec_json),
    }


def pods_patch(intent: SetReplicaSet) -> Manifest:
    """The merge patch for the intent; it conflicts with another uid."""
    return {
        "metadata": {"uid": intent.uid},
        "spec": {"replicas": intent.replicas, "minReadySeconds": intent.min_ready_s},
    }


def _labels(of: _Owner, group: PodGroup) -> dict[str, str]:
    return {
        EXPERIMENT: name_label(of.name),
        EXPERIMENT_TEMPLATE: group.name,
        REVISION: hash_of_pods(of.uid, group),
    }


def _head(of: _Owner, namespace: str, name: str) -> Manifest:
    owner = controller_reference(EXPERIMENT_KIND, name=of.name, uid=of.uid)
    return {"name": name, "namespace": namespace, "ownerReferences": [owner]}
