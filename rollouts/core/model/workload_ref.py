"""What `spec.workloadRef` says: which workload, what is taken of it, and how it is held between updates.

`mode: Template` takes the pod template alone, as in Argo Rollouts: the pods are the Rollout's own. `mode: InPlace` leaves the
pods to the workload and steps its own controller.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from rollouts.objects import DAEMON_SET, DEPLOYMENT, NAMED_REPLICA_SET, POD_TEMPLATE, STATEFUL_SET, Kind


class WorkloadKind(StrEnum):
    """The kinds that a Rollout may name; StatefulSets and DaemonSets only to update them in place."""

    DEPLOYMENT = "Deployment"
    STATEFUL_SET = "StatefulSet"
    DAEMON_SET = "DaemonSet"
    REPLICA_SET = "ReplicaSet"
    POD_TEMPLATE = "PodTemplate"

    @property
    def resource(self) -> Kind:
        """The resource of the API server."""
        return _RESOURCES[self]


_RESOURCES = {
    WorkloadKind.DEPLOYMENT: DEPLOYMENT,
    WorkloadKind.STATEFUL_SET: STATEFUL_SET,
    WorkloadKind.DAEMON_SET: DAEMON_SET,
    WorkloadKind.REPLICA_SET: NAMED_REPLICA_SET,
    WorkloadKind.POD_TEMPLATE: POD_TEMPLATE,
}
WORKLOAD_RESOURCES = tuple(_RESOURCES.values())
"""The resources that are watched for workloads that Rollouts name."""


class WorkloadMode(StrEnum):
    """What is taken of the workload: its template, or its pods where they are."""

    TEMPLATE = "Template"
    IN_PLACE = "InPlace"


class Hold(StrEnum):
    """What keeps a new template from its pods until the update begins.

    A policy of the API server pauses the workload in the write that changes the template; or else the workload is paused between
    updates. `Auto` takes the policy where a dry run shows that it works.
    """

    AUTO = "Auto"
    POLICY = "Policy"
    AT_REST = "AtRest"


class ScaleDownWorkload(StrEnum):
    """When a Deployment that gives its template alone loses its own pods."""

    NEVER = "never"
    ON_SUCCESS = "onsuccess"
    PROGRESSIVELY = "progressively"


class OnAbort(StrEnum):
    """What becomes of a DaemonSet's nodes that have the new revision when its update is aborted.

    `Hold` leaves them as they are. `RevertTemplate` writes the stable template into the DaemonSet, and replaces their pods.
    """

    HOLD = "Hold"
    REVERT_TEMPLATE = "RevertTemplate"


class NamedWorkload(Struct, frozen=True, kw_only=True):
    """`spec.workloadRef`. `hold` is for `InPlace`, `scale_down` for a Deployment by `Template`.

    Args:
        on_abort: of a DaemonSet.
        canary_nodes: the label selector of a DaemonSet's nodes that are updated first; "" for none.
    """

    kind: WorkloadKind
    name: str
    mode: WorkloadMode = WorkloadMode.TEMPLATE
    hold: Hold = Hold.AUTO
    scale_down: ScaleDownWorkload = ScaleDownWorkload.NEVER
    on_abort: OnAbort = OnAbort.HOLD
    canary_nodes: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
