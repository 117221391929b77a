"""What the objects of the simulated cluster say, in the model's nouns: their JSON is read here, by nothing of the controller."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from rollouts.api.spec.parse import WorkloadTemplate, parse_rollout, parse_spec
from rollouts.core.model.analysis import (
    AnalysisGate,
    AnalysisKind,
    AnalysisPhase,
    RunSeen,
    TemplateService,
    run_spec_hash,
)
from rollouts.core.model.config import ConfigKind, ConfigUse
from rollouts.core.model.revision import REVISION_LABEL
from rollouts.core.model.rollout import Rollout, RolloutSpec
from rollouts.core.model.service_traits import ServicePort
from rollouts.core.model.snapshot import OrphanedReplicaSet, Pod, ReplicaSet, ServiceSeen
from rollouts.core.model.status import AbortNote
from rollouts.objects import ROLLOUT, Manifest
from rollouts.sim.actors.pods import is_ready, is_terminating, seconds
from rollouts.sim.storage.history import Stored

PREFIX = "rollouts.dev/"
REVISION = REVISION_LABEL
EXPERIMENT = f"{PREFIX}experiment"
KEEP_PODS = f"{PREFIX}keep-pods"
NAME = f"{PREFIX}name"
MANAGED = f"{PREFIX}managed"
MANAGED_BY = f"{PREFIX}managed-by"
ALLOW_FROM = f"{PREFIX}allow-rollouts-from"
ROUTER, BESIDE, MADE_FROM = f"{PREFIX}router", f"{PREFIX}beside", f"{PREFIX}made-from"
RESTART_SURGE, REVISION_NUMBER = f"{PREFIX}restart-surge", f"{PREFIX}revision-number"


def _identity(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": metadata["name"], "uid": metadata["uid"], "resource_version": metadata["resourceVersion"]}


def labels_of(found: Manifest) -> Mapping[str, str]:
    return found["metadata"].get("labels") or {}


def annotations_of(found: Manifest) -> Mapping[str, str]:
    return found["metadata"].get("annotations") or {}


def controller_of(found: Manifest) -> Manifest | None:
    return next((each for each in found["metadata"].get("ownerReferences") or () if each.get("controller")), None)


def is_owned_by(found: Manifest, uid: str) -> bool:
    return (controller_of(found) or {}).get("uid") == uid


def allows(found: Manifest, namespace: str) -> bool:
    """Whether Rollouts of that namespace may change the route."""
    return found["metadata"]["namespace"] == namespace or namespace in annotations_of(found).get(
        ALLOW_FROM, ""
    ).replace(" ", "").split(",")


def manager_of(found: Manifest) -> tuple[str, str]:
    """Namespace and name of the Rollout that a mark names; ("", "") for none."""
    namespace, _, name = annotations_of(found).get(MANAGED_BY, "").rpartition("/")
    return (namespace or found["metadata"]["namespace"], name) if name else ("", "")


def rollout(found: Manifest, parsed: RolloutSpec | None = None, template: WorkloadTemplate | None = None) -> Rollout:
    """The Rollout, whose spec may have been parsed before; `template` is that of its workload. Raises: SpecInvalid."""
    metadata = found["metadata"]
    return parse_rollout(
        namespace=metadata["namespace"],
        **_identity(metadata),
        generation=metadata["generation"],
        created_at_s=seconds(metadata["creationTimestamp"]),
        annotations=annotations_of(found),
        spec=parsed or parse_spec(json.dumps(found["spec"]).encode(), template),
        deleting="deletionTimestamp" in metadata,
    )


def replica_set(found: Manifest) -> ReplicaSet:
    metadata, notes, size = found["metadata"], annotations_of(found), found["spec"]["replicas"]
    status: Mapping[str, Any] = found.get("status") or {}
    note = json.loads(notes.get(f"{PREFIX}abort-accepted") or "null")
    return ReplicaSet(
        **_identity(metadata),
        revision=labels_of(found).get(REVISION, ""),
        number=int(notes.get(REVISION_NUMBER) or 0),
        created_at_s=seconds(metadata["creationTimestamp"]),
        spec_replicas=size,
        replicas=status.get("replicas", 0),
        available=status.get("availableReplicas", 0),
        observed=status.get("observedGeneration", 0) >= metadata["generation"],
        deleting="deletionTimestamp" in metadata,
        abort_note=AbortNote(**note) if note is not None else None,
        restart_surge=min(int(notes.get(RESTART_SURGE) or 0), size),
        config=_config_of(found),
    )


def orphan(found: Manifest, of: Manifest) -> OrphanedReplicaSet:
    """A ReplicaSet that nobody controls; it is the Rollout's if its name and its selector are those of one that it makes."""
    metadata, revision = found["metadata"], labels_of(found).get(REVISION, "")
    selected = {**of["spec"]["selector"].get("matchLabels", {}), REVISION: revision}
    is_ours = found["spec"]["selector"].get("matchLabels") == selected
    named = metadata["name"] == f"{of['metadata']['name']}-{revision}"
    return OrphanedReplicaSet(
        **_identity(metadata),
        revision=revision,
        problem="" if is_ours and named else "it is a stranger's",
    )


def service(found: Manifest, ready: Mapping[str, int], *, slices_seen: bool) -> ServiceSeen:
    """A Service with the ready pods, by revision, that its EndpointSlices show, which have their mark a moment after it."""
    metadata = found["metadata"]
    return ServiceSeen(
        **_identity(metadata),
        revision=(found["spec"].get("selector") or {}).get(REVISION, ""),
        managed_by=manager_of(found)[1],
        watched=labels_of(found).get(MANAGED) == "true",
        ready_by_revision=ready,
        slices_seen=slices_seen,
    )


def pod(found: Stored) -> Pod:
    metadata = found.metadata
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        revision=found.labels.get(REVISION, ""),
        created_at_s=seconds(metadata["creationTimestamp"]),
        ready=is_ready(found),
        deleting=is_terminating(found),
    )


def run(found: Manifest, ready: Mapping[str, int]) -> RunSeen:
    """A run, or an Experiment; `ready` has the ready pods by the name of their Service."""
    metadata = found["metadata"]
    kept = (metadata.get("annotations") or {}).get(KEEP_PODS)
    groups = (found.get("status") or {}).get("templateStatuses") or ()
    served = [(each["name"], each["serviceName"]) for each in groups if each.get("serviceName")]
    phase = (found.get("status") or {}).get("phase") or AnalysisPhase.PENDING
    return RunSeen(
        **_identity(metadata),
        gate=gate(labels_of(found)),
        revision=labels_of(found).get(REVISION, ""),
        created_at_s=seconds(metadata["creationTimestamp"]),
        phase=AnalysisPhase(phase),
        terminate=bool(found["spec"].get("terminate")),
        deleting="deletionTimestamp" in metadata,
        spec_hash=run_spec_hash(json.dumps(found["spec"]).encode()),
        generation=metadata["generation"],
        services=tuple(TemplateService(name, service, ready.get(service, 0)) for name, service in served),
        kept_until_s=0.0 if kept is None else math.inf if kept == "true" else float(kept),
    )


def port(found: Manifest) -> ServicePort:
    """A port of a Service."""
    names = {
        "port": "port",
        "name": "name",
        "protocol": "protocol",
        "target": "targetPort",
        "app_protocol": "appProtocol",
    }
    return ServicePort(**{field: found[name] for field, name in names.items() if name in found})


def gate(labels: Mapping[str, str]) -> AnalysisGate | None:
    """Where in an update a run belongs; None when its labels do not say it."""
    if (kind := labels.get(f"{PREFIX}analysis")) is None:
        return None
    return AnalysisGate(AnalysisKind(kind), int(labels[f"{PREFIX}step"]) if f"{PREFIX}step" in labels else None)


def config_note(notes: Mapping[str, str]) -> tuple[ConfigUse, ...] | None:
    """What a ReplicaSet has of each source; None without a note."""
    if f"{PREFIX}config" not in notes:
        return None
    return tuple(
        ConfigUse(
            kind=ConfigKind(each["kind"]),
            source=each["source"],
            content=each["hash"],
            copy=each["copy"],
            uid=each["uid"],
            resource_version=each["resourceVersion"],
            made=bool(each.get("made")),
        )
        for each in json.loads(notes[f"{PREFIX}config"])
    )


def is_ours(found: Manifest) -> bool:
    """Made by a Rollout: nothing in it is a user's."""
    return any(each["kind"] == ROLLOUT.kind for each in found["metadata"].get("ownerReferences") or ())


def ready_endpoints(slices: Iterable[Manifest]) -> Iterable[str]:
    """Names of the pods that take requests."""
    for each in slices:
        for endpoint in each.get("endpoints") or ():
            if (endpoint.get("conditions") or {}).get("ready") is not False:
                yield endpoint["targetRef"]["name"]


def _config_of(found: Manifest) -> tuple[ConfigUse, ...] | None:
    noted = config_note(annotations_of(found))
    if noted is not None:
        return noted
    return None if labels_of(found).get(f"{PREFIX}hash-scheme") == "v2" else ()
