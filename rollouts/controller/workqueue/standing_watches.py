"""The kinds that the controller always watches, whatever the Rollouts name, and the tables for them.

AnalysisRuns, templates, workloads and ConfigMaps have tables too. Their CRDs, or the right to see them, may be missing, so
`optional_watch.py` watches them.
"""

from __future__ import annotations

from rollouts.cluster.store import Store
from rollouts.cluster.structs import (
    AnalysisRunObject,
    AnalysisTemplateObject,
    ConfigMapObject,
    EndpointSliceObject,
    ExperimentObject,
    ReplicaSetObject,
    RolloutObject,
    ServiceObject,
    WorkloadObject,
)
from rollouts.controller.workqueue.triggers import SERVICE_NAME
from rollouts.core.model.workload_ref import WORKLOAD_RESOURCES
from rollouts.manifests.ownership import MANAGED, MANAGED_VALUE, NAME
from rollouts.objects import (
    ANALYSIS_RUN,
    ANALYSIS_TEMPLATE,
    CLUSTER_ANALYSIS_TEMPLATE,
    CONFIG_MAP,
    ENDPOINT_SLICE,
    EXPERIMENT,
    EXPERIMENT_REPLICA_SET,
    REPLICA_SET,
    ROLLOUT,
    SERVICE,
    Kind,
)
from rollouts.ports import Clock

WATCHED: tuple[tuple[Kind, str], ...] = (
    (ROLLOUT, ""),
    (REPLICA_SET, NAME),
    (SERVICE, f"{MANAGED}={MANAGED_VALUE}"),
    (ENDPOINT_SLICE, f"{MANAGED}={MANAGED_VALUE}"),  # they inherit the labels of their Service
)
"""Kinds and label selectors. Nothing is decided until all of them are listed."""

TEMPLATES = (ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE)
"""The kinds of analysis templates. Nothing but analyses waits for them."""

WATCHED_KINDS = tuple(kind for kind, _ in WATCHED)


def new_store(clock: Clock, scopes: tuple[str, ...]) -> Store:
    """An empty store with a table for each kind; `scopes` are namespaces, or "" for all."""
    store = Store(clock=clock)
    store.add(ROLLOUT, RolloutObject, namespaces=scopes)
    store.add(REPLICA_SET, ReplicaSetObject, by_owner=True, orphans_by=NAME, namespaces=scopes)
    store.add(SERVICE, ServiceObject, namespaces=scopes)
    store.add(ENDPOINT_SLICE, EndpointSliceObject, labels=(SERVICE_NAME,), namespaces=scopes)
    store.add(ANALYSIS_RUN, AnalysisRunObject, by_owner=True, namespaces=scopes, optional=True)
    store.add(ANALYSIS_TEMPLATE, AnalysisTemplateObject, namespaces=scopes, optional=True)
    store.add(CLUSTER_ANALYSIS_TEMPLATE, AnalysisTemplateObject, optional=True)
    store.add(EXPERIMENT, ExperimentObject, by_owner=True, namespaces=scopes, optional=True)
    store.add(EXPERIMENT_REPLICA_SET, ReplicaSetObject, by_owner=True, namespaces=scopes, optional=True)
    for kind in WORKLOAD_RESOURCES:
        store.add(kind, WorkloadObject, namespaces=scopes, optional=True)
    store.add(CONFIG_MAP, ConfigMapObject, labels=(NAME,), namespaces=scopes, optional=True, metadata_only=True)
    return store
