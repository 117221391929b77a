"""What the store keeps of an object that was decoded: what decisions read, once for all objects that have the same."""

from __future__ import annotations

import sys
from functools import lru_cache

import msgspec

from rollouts.cluster.structs import (
    AnalysisTemplateObject,
    ConfigContent,
    ConfigMapMetadata,
    ConfigMapObject,
    EndpointSliceObject,
    KubernetesObject,
    PodTemplate,
    ReplicaSetObject,
    RolloutObject,
    ServiceObject,
    SpecAndStatus,
    T,
    WorkloadObject,
    annotators_of,
)
from rollouts.core.model.frozen import one_for_all
from rollouts.core.model.revision import DEPLOYMENT_REVISION_ANNOTATION, POD_TEMPLATE_HASH_LABEL, REVISION_LABEL
from rollouts.manifests.ownership import MANAGED_BY, REVISION_NUMBER
from rollouts.objects import ROLLOUT

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""kubectl's copy of the whole manifest. It is not kept, because it doubles the memory and contains nothing new."""

OUR_PREFIX = f"{ROLLOUT.group}/"
"""Of our own labels and annotations."""

KRUISE_PREFIX = "rollouts.kruise.io/"
"""Of the marks of OpenKruise Rollouts on a workload."""

_NO_JSON = msgspec.Raw()
_REVISIONS = (REVISION_LABEL, POD_TEMPLATE_HASH_LABEL)
_READ_PREFIXES = (OUR_PREFIX, KRUISE_PREFIX)
_READ_NAMES = (POD_TEMPLATE_HASH_LABEL, DEPLOYMENT_REVISION_ANNOTATION)
_REPEATED = (MANAGED_BY, DEPLOYMENT_REVISION_ANNOTATION, REVISION_NUMBER)
"""Annotations whose values many objects have: the name of a Rollout, and small numbers."""


def as_kept(kept: T) -> T:
    """The object as the store keeps it: parts that point into the answer are copied, equal strings shared between objects."""
    metadata, put = kept.metadata, msgspec.structs.force_setattr
    _share_names(kept)
    # A bookmark has no name, and its annotation is its meaning.
    if isinstance(kept, ConfigMapObject | ConfigContent) and metadata.name:
        _shrink(kept.metadata)
    if isinstance(kept, WorkloadObject | ReplicaSetObject | ServiceObject | EndpointSliceObject) and metadata.name:
        put(metadata, "annotations", _read(metadata.annotations))
    if metadata.labels:
        _intern(metadata.labels)
    if metadata.annotations and LAST_APPLIED in metadata.annotations:
        del metadata.annotations[LAST_APPLIED]
    if isinstance(kept, RolloutObject):
        annotators = annotators_of(kept.metadata.managed_fields, metadata.annotations, prefix=OUR_PREFIX)
        put(metadata, "annotators", annotators)
        put(metadata, "managed_fields", _NO_JSON)  # larger than the spec
    match kept:
        case SpecAndStatus():
            # A Raw points into the line that it was read from, and would keep the whole line in memory.
            put(kept, "spec", kept.spec.copy())
            put(kept, "status", kept.status.copy())
        case AnalysisTemplateObject():
            put(kept, "spec", kept.spec.copy())
        case WorkloadObject(spec=spec):
            put(metadata, "labels", _shared(tuple((_read(metadata.labels) or {}).items())))
            put(metadata, "creation_timestamp", None)
            put(kept, "template", kept.template.copy())
            put(kept, "status", one_for_all(kept.status))
            put(spec, "selector", spec.selector.copy())
            put(spec, "template", spec.template.copy())
            put(spec, "strategy", one_for_all(spec.strategy))
            put(spec, "update_strategy", one_for_all(spec.update_strategy))
        case ConfigContent():
            put(kept, "data", kept.data.copy())
            put(kept, "binary_data", kept.binary_data.copy())
        case ReplicaSetObject(spec=spec):
            if metadata.is_in_a_deployment:  # the Deployment says which labels its pods have
                put(spec, "template", one_for_all(PodTemplate(spec=spec.template.spec)))
            if labels := spec.template.metadata.labels:
                _intern(labels)
            put(spec, "selector", spec.selector.copy() if metadata.controller_uid is None else _NO_JSON)
    return kept


def _share_names(kept: KubernetesObject) -> None:
    """Of namespaces and owners, and of Rollouts and their workloads, which labels, annotations and owner references repeat."""
    metadata, put = kept.metadata, msgspec.structs.force_setattr
    put(metadata, "namespace", sys.intern(metadata.namespace))
    if isinstance(kept, RolloutObject | WorkloadObject):
        put(metadata, "name", sys.intern(metadata.name))
    for owner in metadata.owner_references or ():
        put(owner, "api_version", sys.intern(owner.api_version))
        put(owner, "kind", sys.intern(owner.kind))
        if isinstance(kept, ReplicaSetObject):  # of a pod it has a revision in it
            put(owner, "name", sys.intern(owner.name))


def _shrink(metadata: ConfigMapMetadata) -> None:
    """Drops what nobody reads: a cluster has tens of thousands of ConfigMaps that are not ours."""
    created = metadata.creation_timestamp or ""
    changed_at = created  # one string for both, unless it has changed since
    for field in metadata.managed_fields or ():
        changed_at = max(changed_at, field.time)
    put = msgspec.structs.force_setattr
    put(metadata, "managed_fields", None)
    put(metadata, "changed_at", changed_at or None)
    put(metadata, "labels", _read(metadata.labels))
    put(metadata, "annotations", _read(metadata.annotations))


def _read(marks: dict[str, str] | None) -> dict[str, str] | None:
    """The labels or annotations that decisions read; a change of any other wakes nobody."""
    marks = marks or {}
    kept = (key for key in marks if key.startswith(_READ_PREFIXES) or key in _READ_NAMES)
    return {sys.intern(key): sys.intern(marks[key]) if key in _REPEATED else marks[key] for key in kept} or None


@lru_cache(maxsize=256)
def _shared(marks: tuple[tuple[str, str], ...]) -> dict[str, str] | None:
    """The labels of most workloads: ours are the same."""
    return dict(marks) or None


def _intern(labels: dict[str, str]) -> None:
    """Shares values with other objects. Not revisions: each update brings one, and Python's table of shared texts grows by it."""
    for key, value in labels.items():
        if key not in _REVISIONS:
            labels[key] = sys.intern(value)
