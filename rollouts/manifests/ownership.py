"""The names of our labels and annotations, and which fields of which objects are ours.

* ReplicaSet (ours): everything at its creation (POST); later `spec.replicas`, `spec.minReadySeconds`, the role metadata of its
  template and our annotations (merge patch with its uid). One that nobody controls: an owner reference (JSON Patch with its uid
  and resourceVersion).
* Deployment (the user's, updated in place): `spec.paused`, `spec.minReadySeconds`, `spec.progressDeadlineSeconds`,
  `spec.strategy.rollingUpdate` and the annotation `rollouts.dev/held` (merge patch with its uid and resourceVersion). Its
  ReplicaSet of a new template (ours to make, its controller's to keep): everything at its creation (POST). The controller of one
  that leaves it or returns, and label `rollouts.dev/name` (merge patch with its uid and resourceVersion).
* StatefulSet (the user's, updated in place): `spec.updateStrategy.type`, `spec.updateStrategy.rollingUpdate.partition` and the
  annotation `rollouts.dev/held` (merge patch with its uid and resourceVersion). Its pods: deletion (with both).
* Service (the user's): `spec.selector[rollouts.dev/revision]`, or `[pod-template-hash]` of a Deployment in place; label
  `rollouts.dev/managed`, annotation `rollouts.dev/managed-by` (merge patch with its uid and resourceVersion).
* Workload that `workloadRef` names (the user's): label `rollouts.dev/managed`, annotation `rollouts.dev/managed-by`; with
  `scaleDown`, a Deployment's `spec.replicas` and annotation `rollouts.dev/scaled-down` (merge patch with its uid and
  resourceVersion).
* Route (the user's): label `rollouts.dev/managed`, annotations `rollouts.dev/managed-by`, `rollouts.dev/router`,
  `rollouts.dev/beside` and the codec's `rollouts.dev/route`; the weights of the stable and the canary Service, and the rules of
  managed routes (JSON Patch with its resourceVersion).
  A route in another namespace than the Rollout's needs its owner's `rollouts.dev/allow-rollouts-from`, which we never write.
* DestinationRule (the user's): the same marks, and label `rollouts.dev/revision` of the two subsets that the spec names (JSON
  Patch with its resourceVersion). The Service that is its host: the label and annotation of a Service.
* Route (ours, beside the user's): everything (server-side apply).
* Route (ours, of `trafficRouting.own`): everything at its creation (POST); later the fields of a user's route, and, when its
  manifest in the spec has changed, `spec`, the manifest's labels and annotations and `rollouts.dev/made-from` (JSON Patch with
  its resourceVersion).
* Copy of a ConfigMap (ours): everything at its creation (POST); it is immutable. One that nobody controls: an owner reference
  (JSON Patch with its uid and resourceVersion). The source (the user's): nothing.
* Copy of a Secret (ours), and the key of a namespace: everything at its creation (POST); both are immutable.
* AnalysisRun, and Experiment of a step (ours): everything but its status at its creation (POST); later `spec.terminate`, and an
  Experiment's annotation `rollouts.dev/keep-pods` (merge patch with its uid).
* Of an Experiment (the user's): `status` (merge patch). Its ReplicaSets (ours): everything at their creation (POST); later
  `spec.replicas` and `spec.minReadySeconds` (merge patch with its uid). Its Services (ours): everything (POST), and deletion.
* Pod (the ReplicaSet's): labels and annotations of its role (merge patch with its uid).
* Rollout (the user's): `status` (merge patch); the annotation of a recorded `true` is removed (JSON Patch).
* Event (ours): everything (POST).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from rollouts.core.model.config import ConfigKind, ConfigUse
from rollouts.core.model.pod_exit import Injection, injection_fields, read_injection
from rollouts.core.model.revision import (
    DEPLOYMENT_REVISION_ANNOTATION,
    POD_TEMPLATE_HASH_LABEL,
    REVISION_LABEL,
    short_hash,
)
from rollouts.core.model.rollout import PodMetadata, Rollout
from rollouts.core.model.status import AbortNote
from rollouts.objects import ROLLOUT, Kind, Manifest, mapping, name_problem, whole_number

FIELD_MANAGER = "rollouts"
PREFIX = "rollouts.dev/"

NAME = f"{PREFIX}name"
REVISION = REVISION_LABEL
MANAGED = f"{PREFIX}managed"
HOLD = f"{PREFIX}hold"
HELD = f"{PREFIX}held"
OWN_FIELDS = f"{PREFIX}own-fields"
"""The user's fields of a Deployment, while an update is under way. A label: `kubectl rollout undo` replaces all annotations."""
PARTITION = f"{PREFIX}partition"
"""The partition that a user's manifest gives a StatefulSet, as the policy notes it when it sets another one; "" for none."""
SCALED_DOWN = f"{PREFIX}scaled-down"
MANAGED_VALUE = "true"
HASH_SCHEME_LABEL = f"{PREFIX}hash-scheme"

REVISION_NUMBER = f"{PREFIX}revision-number"
MANAGED_BY = f"{PREFIX}managed-by"
ROUTER = f"{PREFIX}router"
BESIDE = f"{PREFIX}beside"
MADE_FROM = f"{PREFIX}made-from"
ALLOW_FROM = f"{PREFIX}allow-rollouts-from"
EPHEMERAL_METADATA = f"{PREFIX}ephemeral-metadata"
PRE_STOP = f"{PREFIX}pre-stop"
RESTART_SURGE = f"{PREFIX}restart-surge"
ABORT_ACCEPTED = f"{PREFIX}abort-accepted"
PODS_METADATA = f"{PREFIX}pods-metadata"
ANALYSIS = f"{PREFIX}analysis"
STEP = f"{PREFIX}step"
ATTEMPT = f"{PREFIX}attempt"
KEEP_PODS = f"{PREFIX}keep-pods"
"""Until when an Experiment keeps its pods: `true` until its Rollout lets them go, then seconds since 1970."""
KEEP_PODS_VALUE = "true"
EXPERIMENT = f"{PREFIX}experiment"
EXPERIMENT_TEMPLATE = f"{PREFIX}experiment-template"
"""Labels of what belongs to an Experiment: its name as `name_label` gives it, and the name of the template."""
PODS_WITHOUT_METADATA = "false"
CONFIG_NOTE = f"{PREFIX}config"
CONFIG_VERSIONING = f"{PREFIX}config-versioning"
CONFIG_VERSIONING_OFF = "off"
CONFIG_COPY = f"{PREFIX}config-copy"
CONFIG_COPY_VALUE = "true"
CONFIG_SOURCE = f"{PREFIX}config-source"
CONTENT = f"{PREFIX}content"
CONFIG_KEY_NAME = "rollouts-config-key"
"""The Secret in each namespace whose key the hashes of Secrets are made with: who may not read it learns nothing from them."""

LABEL_VALUE_MAX = 63  # characters


def owner_reference(rollout: Rollout) -> Manifest:
    """The owner reference that makes the Rollout the controller of an object, which is deleted with the Rollout."""
    return controller_reference(ROLLOUT, name=rollout.name, uid=rollout.uid)


def controller_reference(kind: Kind, *, name: str, uid: str) -> Manifest:
    """The owner reference that makes an object of that kind the controller."""
    return {**kind.head, "name": name, "uid": uid, "controller": True, "blockOwnerDeletion": True}


POD_TEMPLATE_HASH = POD_TEMPLATE_HASH_LABEL
"""The label by which a Deployment's controller tells its ReplicaSets and their pods apart: a revision's name in place."""


CONTROLLER_REVISION_HASH = "controller-revision-hash"
"""The same of a StatefulSet (the name of a ControllerRevision) and a DaemonSet."""

DEPLOYMENT_REVISION = DEPLOYMENT_REVISION_ANNOTATION


def revision_of(labels: Mapping[str, str]) -> str:
    """The revision of a ReplicaSet or a pod; "" when no label says it."""
    return labels.get(REVISION) or labels.get(POD_TEMPLATE_HASH) or labels.get(CONTROLLER_REVISION_HASH, "")


def name_label(rollout: str) -> str:
    """Value of the label `rollouts.dev/name`: the Rollout's name, shortened with a hash if it is too long."""
    if len(rollout) <= LABEL_VALUE_MAX:
        return rollout
    return f"{rollout[:52]}-{short_hash(rollout.encode())}"


def pods_selector(rollout: str) -> str:
    """Label selector of all pods of the named Rollout."""
    return f"{NAME}={name_label(rollout)}"


def allows(annotations: Mapping[str, str], namespace: str) -> bool:
    """Whether an object's owner lets Rollouts of that namespace change it: `rollouts.dev/allow-rollouts-from: shop, checkout`.

    There are no patterns: each namespace is named, as in a ReferenceGrant of the Gateway API.
    """
    return namespace in [name.strip() for name in annotations.get(ALLOW_FROM, "").split(",")]


def pod_metadata_text(metadata: PodMetadata) -> str | None:
    """Value of `rollouts.dev/ephemeral-metadata`; None when there is no metadata."""
    noted = {"annotations": dict(metadata.annotations), "labels": dict(metadata.labels)}
    return json.dumps(noted, sort_keys=True, separators=(",", ":"), ensure_ascii=False) if metadata else None


def pod_metadata_of(annotations: Mapping[str, str]) -> PodMetadata:
    """The role metadata that a ReplicaSet's annotations note; what cannot be read counts as none."""
    try:
        noted = mapping(json.loads(annotations.get(EPHEMERAL_METADATA) or "{}"))
    except (ValueError, RecursionError):
        return PodMetadata()
    return PodMetadata(labels=_strings(noted.get("labels")), annotations=_strings(noted.get("annotations")))


def pods_carry_metadata(annotations: Mapping[str, str]) -> bool:
    """Whether a ReplicaSet's pods have the metadata that its template has now."""
    return annotations.get(PODS_METADATA, "true") == "true"


def injection_text(injection: Injection) -> str:
    """Value of `rollouts.dev/pre-stop`: what was added to a ReplicaSet's template."""
    return json.dumps(injection_fields(injection), separators=(",", ":"), ensure_ascii=False)


def injection_of(annotations: Mapping[str, str]) -> Injection | None:
    """What was added to a ReplicaSet's template, from its annotations; None for nothing, and when unreadable."""
    return _injection_noted(annotations.get(PRE_STOP, ""))


@lru_cache(maxsize=1024)  # every pass reads it, and few differ
def _injection_noted(text: str) -> Injection | None:
    try:
        return read_injection(json.loads(text))
    except (ValueError, RecursionError):
        return None


def abort_note_text(note: AbortNote) -> str:
    """Value of `rollouts.dev/abort-accepted`."""
    return json.dumps(asdict(note), separators=(",", ":"), ensure_ascii=False)


def abort_note_of(annotations: Mapping[str, str]) -> AbortNote | None:
    """The abort that a ReplicaSet grew for; None for none, and when unreadable."""
    return _abort_noted(annotations.get(ABORT_ACCEPTED, ""))


@lru_cache(maxsize=1024)
def _abort_noted(text: str) -> AbortNote | None:
    try:
        match json.loads(text):
            case {
                "revision": str(revision),
                "attempt": int(attempt),
                "started_at_s": float(started_at_s) | int(started_at_s),
                "at_s": float(at_s) | int(at_s),
                "by": str(by),
            } if math.isfinite(at_s):
                return AbortNote(revision, attempt, started_at_s, float(at_s), by)
            case _:
                return None
    except (ValueError, RecursionError, OverflowError):
        return None


class _NotedUse(
    Struct, frozen=True, omit_defaults=True, rename={"content": "hash", "resource_version": "resourceVersion"}
):
    """A `ConfigUse` as `rollouts.dev/config` has it."""

    kind: ConfigKind
    source: str
    content: str
    copy: str
    uid: str
    resource_version: str
    made: object = False


def is_left_alone(annotations: Mapping[str, object]) -> bool:
    """Whether the annotations of a ConfigMap or Secret say that references to it stay: `off`, or `Off` as in a spec."""
    return str(annotations.get(CONFIG_VERSIONING)).lower() == CONFIG_VERSIONING_OFF


def config_note_text(uses: Iterable[ConfigUse]) -> str:
    """Value of `rollouts.dev/config`: what a ReplicaSet's revision has of each source of its configuration."""
    return msgspec.json.encode([_NotedUse(**asdict(use)) for use in uses]).decode()


def config_note_of(annotations: Mapping[str, str]) -> tuple[ConfigUse, ...] | None:
    """The uses that a ReplicaSet's annotations note; None for no note, and when any of it is unreadable."""
    return _config_noted(annotations.get(CONFIG_NOTE, ""))


@lru_cache(maxsize=1024)
def _config_noted(text: str) -> tuple[ConfigUse, ...] | None:
    try:
        noted = msgspec.json.decode(text, type=list[_NotedUse])
    except (ValueError, RecursionError):
        return None
    if any(name_problem(use.source) or (use.copy and name_problem(use.copy)) for use in noted):
        return None
    return tuple(ConfigUse(**asdict(use) | {"made": use.made is True}) for use in noted)


def revision_number_of(annotations: Mapping[str, str]) -> int:
    """A ReplicaSet's revision number, in a Deployment that of its controller; 0 when it cannot be read."""
    text = annotations.get(REVISION_NUMBER) or annotations.get(DEPLOYMENT_REVISION, "")
    return whole_number(text, digits=18) or 0


def kept_until_s(annotations: Mapping[str, str]) -> float:
    """Until when an Experiment keeps its pods: infinity for no time yet, and when it cannot be read; 0 without the annotation."""
    text = annotations.get(KEEP_PODS)
    if text is None:
        return 0.0
    until_s = whole_number(text, digits=12)
    return math.inf if until_s is None else float(until_s)


def restart_surge_of(annotations: Mapping[str, str]) -> int:
    """How many extra pods a ReplicaSet has for a restart; 0 when unreadable."""
    return whole_number(annotations.get(RESTART_SURGE, ""), digits=9) or 0


def _strings(value: object) -> Mapping[str, str]:
    return {key: item for key, item in mapping(value).items() if isinstance(item, str)}
