"""What should happen to a workload that is updated in place, and to what its own controller has; a part of `intents.py`."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from rollouts.core.model.nodes import HeldNodes
from rollouts.core.model.workload import Held, PartitionFields, PartitionHeld, UpdateFields


class CreateInDeployment(Struct, frozen=True, kw_only=True):
    """Creates the ReplicaSet of the Deployment's template inside the paused Deployment, without pods.

    Its controller takes it for its own new one: it looks for the template, not for the name.

    Args:
        beside: the Rollout controls it, until it takes the place of the Deployment's own.
    """

    revision: str
    beside: bool = False


class MoveReplicaSet(Struct, frozen=True, kw_only=True):
    """Changes the controller of a ReplicaSet, if it has not changed since: into the Deployment, or out of it to the Rollout."""

    name: str
    uid: str
    resource_version: str
    revision: str
    into: bool


class LabelReplicaSet(Struct, frozen=True):
    """Gives a ReplicaSet of the Deployment our label, by which it is watched."""

    name: str
    uid: str


class StepDeployment(Struct, frozen=True, kw_only=True):
    """Gives a Deployment these fields, if it has not changed since.

    Args:
        held: the note of the update; None removes it.
    """

    name: str
    uid: str
    resource_version: str
    paused: bool
    fields: UpdateFields
    held: Held | None


class StepStatefulSet(Struct, frozen=True, kw_only=True):
    """Gives a StatefulSet this `updateStrategy`, if it has not changed since.

    Args:
        held: the note of what its user's fields were; None removes it.
    """

    name: str
    uid: str
    resource_version: str
    fields: PartitionFields
    held: PartitionHeld | None


class StepDaemonSet(Struct, frozen=True, kw_only=True):
    """Gives the `updateStrategy` of a DaemonSet that type, if it has not changed since.

    Args:
        held: the note of the update; None removes it.
    """

    name: str
    uid: str
    resource_version: str
    on_delete: bool
    held: HeldNodes | None


class RevertTemplate(Struct, frozen=True, kw_only=True):
    """Gives a DaemonSet the template of one of its ControllerRevisions, if it has not changed since.

    Args:
        controller_revision: its name.
    """

    name: str
    uid: str
    resource_version: str
    controller_revision: str


class DeletePod(Struct, frozen=True, kw_only=True):
    """Deletes one pod of a StatefulSet or DaemonSet, if it has not changed since: its controller makes it again."""

    name: str
    uid: str
    resource_version: str


DeploymentIntent: TypeAlias = CreateInDeployment | MoveReplicaSet | LabelReplicaSet | StepDeployment
DaemonSetIntent: TypeAlias = StepDaemonSet | RevertTemplate
InPlaceIntent: TypeAlias = DeploymentIntent | StepStatefulSet | DaemonSetIntent | DeletePod
