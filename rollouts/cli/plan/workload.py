"""The workload that a Rollout in a file names, for `rollouts plan`: as it will be once the file is applied. GET only."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rollouts.api.spec.parse import WorkloadTemplate
from rollouts.cli.kubernetes.parts import is_a
from rollouts.cli.kubernetes.schema import quantity
from rollouts.cli.plan.config import SourceReader
from rollouts.cluster.decoding import manifest_from
from rollouts.cluster.kept import LAST_APPLIED
from rollouts.core.model.workload import NO_POD
from rollouts.core.model.workload_ref import WorkloadKind, WorkloadMode
from rollouts.errors import ApiForbidden, ApiNotFound, RolloutsError
from rollouts.manifests.ownership import HELD, HOLD, MANAGED, MANAGED_BY, MANAGED_VALUE
from rollouts.objects import Manifest, mapping, mappings

_MERGED_BY = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
"""Lists of a pod template whose entries kubectl merges, and by which field. Source: `patchMergeKey` in k8s.io/api core/v1."""
_QUANTITY = "a quantity"
NEW_TEMPLATE = "newTemplate"
"""Marks a workload whose template the file changes; no field of the API."""
FIRST, NEXT = "(first)", "(next)"
"""Stand for the revisions of templates that do not exist yet."""
_STEPPED = ("strategy", "minReadySeconds", "progressDeadlineSeconds", "paused", "updateStrategy")
"""What an update in place writes: a manifest that is applied in it does not change these."""


async def with_its_workload(
    reader: SourceReader, rollout: Manifest, *, namespace: str
) -> tuple[Manifest, Manifest | None]:
    """The Rollout, and the workload that it updates in place.

    With `mode: Template` the first is as if the template, and the selector, of its workload stood in it; without `workloadRef`
    it is `rollout` itself.

    Raises: RolloutsError, when there is no such workload; what `Client` raises.
    """
    spec = mapping(rollout["spec"])
    if (reference := spec.get("workloadRef")) is None:
        return rollout, None
    kind, name = WorkloadKind(reference["kind"]), reference["name"]
    in_place = reference.get("mode") == WorkloadMode.IN_PLACE.value
    found = await _as_applied(reader, kind, name, namespace)
    if in_place:
        metadata = found["metadata"]
        marks = {
            "labels": {**mapping(metadata.get("labels")), MANAGED: MANAGED_VALUE, HOLD: MANAGED_VALUE},
            "annotations": {**mapping(metadata.get("annotations")), MANAGED_BY: str(rollout["metadata"].get("name"))},
        }
        marked = {**found, "metadata": {**metadata, **marks, "namespace": namespace}}
        return rollout, _as_its_controller_will_see(kind, marked)
    workload = mapping(found.get("spec"))
    joined = {
        "template": found.get("template") or workload.get("template"),
        "selector": workload.get("selector"),
        **{key: value for key, value in spec.items() if key != "workloadRef"},
    }
    return {**rollout, "spec": {key: value for key, value in joined.items() if value is not None}}, None


def applied_over(live: Any, file: Any, last: Any, name: str = "") -> Any:
    """A part of a pod template after `kubectl apply`: `file` over `live`; what only `last`, the manifest before, had goes.

    So the API server's defaults stay, and the revision of a template that says the same keeps its name.

    Args:
        name: of the field whose value it is.
    """
    match live, file:
        case Mapping(), Mapping():
            return _fields_over(live, file, mapping(last), name)
        case [*_], [*_] if name in _MERGED_BY:
            return _entries_over(live, file, last, _MERGED_BY[name])
        case _, _ if name == _QUANTITY and quantity(live) == quantity(file) is not None:
            return live  # `cpu: 1000m` is stored as `1`
        case _:
            return file


def _fields_over(
    live: Mapping[str, Any], file: Mapping[str, Any], last: Mapping[str, Any], name: str
) -> dict[str, Any]:
    applied = {key: value for key, value in live.items() if key not in file and key not in last}
    for key, value in file.items():
        if value is not None:
            part = _QUANTITY if name in ("requests", "limits") else key
            applied[key] = applied_over(live.get(key), value, last.get(key), part)
    return applied


def _entries_over(live: Sequence[Any], file: Sequence[Any], last: Any, field: str) -> Sequence[Any]:
    """The entries of a list, which are told apart by that field; those of the file come last."""
    there, own, before = (
        {each[field]: each for each in mappings(entries) if field in each} for entries in (live, file, last)
    )
    if (len(there), len(own)) != (len(live), len(file)):
        return file
    kept = [value for key, value in there.items() if key not in own and key not in before]
    return [*kept, *(applied_over(there.get(key), value, before.get(key)) for key, value in own.items())]


def template_in(workload: Manifest) -> WorkloadTemplate:
    """The pod template of a workload, and its selector."""
    spec = mapping(workload.get("spec"))
    return WorkloadTemplate(mapping(spec.get("template")), mapping(spec.get("selector")))


async def _as_applied(reader: SourceReader, kind: WorkloadKind, name: str, namespace: str) -> Manifest:
    """The workload as it is in the cluster, with what the file says of it."""
    in_file = next((each for each in reader.manifests if _is_the_workload(each, kind, name, namespace, reader)), None)
    try:
        live = manifest_from(await reader.session.client.get(kind.resource, namespace, name))
    except ApiNotFound as absent:
        if in_file is None:
            what = f"{kind} {name}, which workloadRef names, is neither in the file nor in the cluster"
            raise RolloutsError(what) from absent
        live = None
    except ApiForbidden:
        if in_file is None:
            raise
        live = None
    if live is None:
        made = {"uid": "not-created", "resourceVersion": "1", "generation": 1}
        return {**mapping(in_file), "metadata": {**mapping(in_file)["metadata"], **made}}
    if in_file is None:
        return live
    applied = _over(live, in_file)
    if mapping(applied.get("spec")).get("template") != mapping(live.get("spec")).get("template"):
        applied[NEW_TEMPLATE] = True
    return applied


def _as_its_controller_will_see(kind: WorkloadKind, applied: Manifest) -> Manifest:
    """The workload, once its controller has seen the file. A template that is new is held, so it has no pods.

    Its revision in a StatefulSet or a DaemonSet is called `NEXT`.

    Raises: RolloutsError for a DaemonSet that is not there: nobody knows how many nodes it gets.
    """
    metadata, spec, status = applied["metadata"], mapping(applied.get("spec")), dict(mapping(applied.get("status")))
    if kind is WorkloadKind.DEPLOYMENT:
        return {**applied, "status": {**status, **({"updatedReplicas": 0} if applied.get(NEW_TEMPLATE) else {})}}
    if not status:
        if kind is WorkloadKind.DAEMON_SET:
            what = f"{kind} {metadata['name']} is not in the cluster, so nobody knows on how many nodes it will run"
            raise RolloutsError(f"{what}: apply it first")
        status = {"currentRevision": FIRST, "updateRevision": FIRST}
    elif applied.get(NEW_TEMPLATE):
        counts = {"updateRevision": NEXT, "updatedReplicas": 0}
        status |= {"updatedNumberScheduled": 0} if kind is WorkloadKind.DAEMON_SET else counts
        strategy = mapping(spec.get("updateStrategy"))
        if kind is WorkloadKind.STATEFUL_SET and strategy.get("type") != "OnDelete":  # what holds the new template
            spec = {**spec, "updateStrategy": {**strategy, "rollingUpdate": {"partition": NO_POD}}}
    status["observedGeneration"] = metadata["generation"]
    return {**applied, "spec": spec, "status": status}


def _over(live: Manifest, file: Manifest) -> Manifest:
    annotations = mapping(mapping(live.get("metadata")).get("annotations"))
    try:
        last = mapping(json.loads(annotations.get(LAST_APPLIED) or "{}"))
    except (ValueError, TypeError, RecursionError):
        last = {}  # somebody has edited it: what the file leaves out stays
    applied = dict(live)
    if "template" in file:  # a PodTemplate
        applied["template"] = applied_over(live.get("template"), file["template"], last.get("template"))
    own, before = mapping(file.get("spec")), mapping(last.get("spec"))
    if own:
        held = _STEPPED if HELD in annotations else ()
        spec = mapping(live.get("spec"))
        given = {key: value for key, value in own.items() if key not in held and value is not None}
        if "template" in given:
            given["template"] = applied_over(spec.get("template"), own["template"], before.get("template"))
        applied["spec"] = {**spec, **given}
    return applied


def _is_the_workload(manifest: Manifest, kind: WorkloadKind, name: str, namespace: str, reader: SourceReader) -> bool:
    metadata = mapping(manifest.get("metadata"))
    where = metadata.get("namespace") or reader.session.namespace
    return is_a(manifest, kind.resource) and (metadata.get("name"), where) == (name, namespace)
