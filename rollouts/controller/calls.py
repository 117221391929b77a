"""What `render` produces and `act` performs: closed unions of calls to the API server, all in the Rollout's namespace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rollouts.objects import Kind, Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """POSTs a ReplicaSet. One that exists, is controlled by `owner_uid` and has the same `revision` is as good."""

    kind: Kind
    name: str
    manifest: Manifest
    owner_uid: str
    revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """Patches an object other than the Rollout.

    Args:
        body: a merge patch, or the operations of a JSON Patch; preconditions are in it.
        content_type: which of the two; a constant of ports.py.
        leaves_watch: afterwards our label-filtered watch shows the object no more.
    """

    kind: Kind
    name: str
    uid: str
    body: Mapping[str, Any] | Sequence[Any]
    content_type: str
    leaves_watch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Deletes an object exactly as it was seen."""

    kind: Kind
    name: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """Evicts a pod; a refusal by a PodDisruptionBudget is an answer, not an error."""

    pod: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveRolloutAnnotation:
    """Removes an annotation of the Rollout while it has this value and the Rollout is the version that was decided on."""

    annotation: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatus:
    """Merge patch of `.status` of the Rollout while it is the version that was decided on."""

    patch: Manifest


Write: TypeAlias = Create | Patch | Delete | Evict | RemoveRolloutAnnotation | WriteStatus


@dataclass(frozen=True, slots=True)
class ReadService:
    """GETs one Service."""

    name: str


@dataclass(frozen=True, slots=True)
class ListPods:
    """Lists the pods of the Rollout's ReplicaSets."""

    label_selector: str


Ask: TypeAlias = ReadService | ListPods
