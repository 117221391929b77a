"""The parts of Kubernetes objects that this program reads, as msgspec structs: the decoder skips all fields that are not here.

All structs are frozen, and the garbage collector ignores them (`gc=False`; none can be part of a cycle), so that tens of
thousands of them cost nothing in a collection. Every list is optional: the API server writes `"endpoints": null`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol, TypeVar

import msgspec

from rollouts.core.model.service_traits import ServicePort
from rollouts.objects import (
    ANALYSIS_RUN,
    ANALYSIS_TEMPLATE,
    CLUSTER_ANALYSIS_TEMPLATE,
    CONFIG_MAP,
    DAEMON_SET,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    EXPERIMENT,
    EXPERIMENT_REPLICA_SET,
    METRIC_PROVIDER,
    NAMED_REPLICA_SET,
    POD,
    POD_TEMPLATE,
    REPLICA_SET,
    ROLLOUT,
    SERVICE,
    STATEFUL_SET,
    TRAFFIC_PROVIDER,
    Kind,
)


class Partial(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The options that all structs here share."""


class OwnerReference(Partial, frozen=True):
    """One of `.metadata.ownerReferences`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Metadata(Partial, frozen=True):
    """`.metadata` without managedFields and the like. Times are RFC 3339 as the server wrote them."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None

    @property
    def version(self) -> int:
        """The resourceVersion as a number: comparable between objects of one resource (KEP-5504)."""
        return int(self.resource_version)

    @property
    def controller_uid(self) -> str | None:
        """uid of the owner that controls the object."""
        for owner in self.owner_references or ():
            if owner.controller:
                return owner.uid
        return None

    @property
    def is_in_a_deployment(self) -> bool:
        """Whether a Deployment controls the object."""
        return any(owner.controller and owner.kind == DEPLOYMENT.kind for owner in self.owner_references or ())


class ObjectCondition(Partial, frozen=True):
    """One of `.status.conditions`."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class RolloutMetadata(Metadata, frozen=True):
    """`.metadata` of a Rollout. `managed_fields` is dropped when it is decoded; `annotators` says who set our annotations."""

    managed_fields: msgspec.Raw = msgspec.Raw()
    annotators: dict[str, str] | None = None


class SpecAndStatus(Partial, frozen=True):
    """An object whose `spec` and `status` are JSON bytes (empty when absent), parsed where their meaning is known."""

    metadata: Metadata = Metadata()
    spec: msgspec.Raw = msgspec.Raw()
    status: msgspec.Raw = msgspec.Raw()


class RolloutObject(SpecAndStatus, frozen=True):
    """A Rollout."""

    metadata: RolloutMetadata = RolloutMetadata()


class RouteObject(SpecAndStatus, frozen=True):
    """A route of any kind."""


class ProviderObject(SpecAndStatus, frozen=True):
    """A TrafficProvider or a MetricProvider."""


class AnalysisRunObject(SpecAndStatus, frozen=True):
    """An AnalysisRun."""


class ExperimentObject(SpecAndStatus, frozen=True):
    """An Experiment."""


class AnalysisTemplateObject(Partial, frozen=True):
    """An AnalysisTemplate or a ClusterAnalysisTemplate; `spec` is JSON bytes, as in a Rollout."""

    metadata: Metadata = Metadata()
    spec: msgspec.Raw = msgspec.Raw()


class TemplateMetadata(Partial, frozen=True):
    """`.spec.template.metadata`, of which only the labels are kept."""

    labels: dict[str, str] | None = None


class TemplateSpec(Partial, frozen=True):
    """`.spec.template.spec`, of which only the grace period is kept: a policy may have changed it."""

    termination_grace_period_seconds: int | None = None


class PodTemplate(Partial, frozen=True):
    """`.spec.template`, of which only the labels and the grace period are kept; in a Deployment the grace period alone."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: TemplateSpec = TemplateSpec()


class ReplicaSetSpec(Partial, frozen=True):
    """`.spec` of a ReplicaSet; the selector, JSON bytes of its own, is kept only if the ReplicaSet has no controller."""

    replicas: int = 1
    min_ready_seconds: int = 0
    template: PodTemplate = PodTemplate()
    selector: msgspec.Raw = msgspec.Raw()


class ReplicaSetStatus(Partial, frozen=True):
    """`.status` of a ReplicaSet. `terminating_replicas` is None if the server does not count them (KEP-3973)."""

    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[ObjectCondition, ...] | None = None


class ReplicaSetObject(Partial, frozen=True):
    """A ReplicaSet."""

    metadata: Metadata = Metadata()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class RollingUpdate(Partial, frozen=True):
    """`rollingUpdate` of a Deployment or StatefulSet; a limit is a number, or a text such as `25%`."""

    max_surge: int | str | None = None
    max_unavailable: int | str | None = None
    partition: int | None = None


class DeploymentStrategy(Partial, frozen=True):
    """`.spec.strategy` of a Deployment, `.spec.updateStrategy` of a StatefulSet."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class Ordinals(Partial, frozen=True):
    """`.spec.ordinals` of a StatefulSet."""

    start: int = 0


class WorkloadSpec(Partial, frozen=True):
    """`.spec` of a Deployment, ReplicaSet or StatefulSet; `selector` and `template` are JSON bytes of their own."""

    replicas: int = 1
    selector: msgspec.Raw = msgspec.Raw()
    template: msgspec.Raw = msgspec.Raw()
    paused: bool = False
    min_ready_seconds: int | None = None
    progress_deadline_seconds: int | None = None
    strategy: DeploymentStrategy = DeploymentStrategy()
    update_strategy: DeploymentStrategy = DeploymentStrategy()
    pod_management_policy: str = "OrderedReady"
    ordinals: Ordinals | None = None


class WorkloadStatus(Partial, frozen=True):
    """`.status` of a Deployment, ReplicaSet or StatefulSet; the numbers are a DaemonSet's, in nodes."""

    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    available_replicas: int = 0
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    updated_number_scheduled: int = 0
    number_ready: int = 0
    number_available: int = 0
    observed_generation: int = 0


class WorkloadObject(Partial, frozen=True):
    """A workload or PodTemplate that a Rollout names; `template` is that of a PodTemplate, as JSON bytes."""

    metadata: Metadata = Metadata()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()
    template: msgspec.Raw = msgspec.Raw()


class NodeObject(Partial, frozen=True):
    """A node, of which only the name is read."""

    metadata: Metadata = Metadata()


class ControllerRevisionObject(Partial, frozen=True):
    """A ControllerRevision, without its data; `revision` is its number."""

    metadata: Metadata = Metadata()
    revision: int = 0


class ClientIPConfig(Partial, frozen=True):
    """`.spec.sessionAffinityConfig.clientIP` of a Service."""

    timeout_seconds: int | None = None


class SessionAffinityConfig(Partial, frozen=True):
    """`.spec.sessionAffinityConfig` of a Service."""

    client_ip: ClientIPConfig | None = msgspec.field(default=None, name="clientIP")


class ServiceSpec(Partial, frozen=True):
    """`.spec` of a Service."""

    selector: dict[str, str] | None = None
    ports: tuple[ServicePort, ...] | None = None
    type: str = "ClusterIP"
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    publish_not_ready_addresses: bool = False
    internal_traffic_policy: str = "Cluster"
    external_traffic_policy: str = "Cluster"
    traffic_distribution: str | None = None
    session_affinity: str = "None"
    session_affinity_config: SessionAffinityConfig | None = None


class ServiceObject(Partial, frozen=True):
    """A Service."""

    metadata: Metadata = Metadata()
    spec: ServiceSpec = ServiceSpec()


class EndpointConditions(Partial, frozen=True):
    """`.conditions` of an endpoint; None is "unknown", which consumers treat as ready."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class TargetRef(Partial, frozen=True):
    """The object that an endpoint stands for, usually a pod."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class Endpoint(Partial, frozen=True):
    """One of an EndpointSlice's endpoints, without its addresses."""

    conditions: EndpointConditions = EndpointConditions()
    target_ref: TargetRef | None = None


class EndpointSliceObject(Partial, frozen=True):
    """An EndpointSlice."""

    metadata: Metadata = Metadata()
    endpoints: tuple[Endpoint, ...] | None = None


class Waiting(Partial, frozen=True):
    """Why a container waits: `ImagePullBackOff`, `CrashLoopBackOff`."""

    reason: str = ""
    message: str = ""


class ContainerState(Partial, frozen=True):
    """`.state` of a container."""

    waiting: Waiting | None = None


class ContainerStatus(Partial, frozen=True):
    """One of a pod's container statuses."""

    name: str = ""
    state: ContainerState = ContainerState()


class PodStatus(Partial, frozen=True):
    """`.status` of a pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: tuple[ObjectCondition, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None


class ClaimSource(Partial, frozen=True):
    """`.persistentVolumeClaim` of a volume."""

    claim_name: str = ""


class PodVolume(Partial, frozen=True):
    """One of a pod's volumes."""

    persistent_volume_claim: ClaimSource | None = None


class PodSpec(Partial, frozen=True):
    """`.spec` of a pod: where it runs, and its claims."""

    node_name: str = ""
    volumes: tuple[PodVolume, ...] | None = None


class PodObject(Partial, frozen=True):
    """A pod, with little of its spec."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class FieldsEntry(Partial, frozen=True):
    """One of `.metadata.managedFields`, of which only the time is read."""

    time: str = ""


class ConfigMapMetadata(Metadata, frozen=True):
    """`.metadata` of a ConfigMap or a Secret, as little as possible: of labels and annotations those of `rollouts.dev` are kept.

    `managed_fields` is dropped when it is decoded. `changed_at` is the newest time in it, or the time of creation: the last
    change of anything but ownership. It is None for an object without both.
    """

    managed_fields: tuple[FieldsEntry, ...] | None = None
    changed_at: str | None = None


class ConfigMapObject(Partial, frozen=True):
    """A ConfigMap without its data: the controller watches metadata only. Also what a look at a Secret shows."""

    metadata: ConfigMapMetadata = ConfigMapMetadata()


class ConfigContent(Partial, frozen=True):
    """A whole ConfigMap or Secret; `data` and `binary_data` are JSON bytes of their own, empty when absent.

    It is read to be hashed or copied, and is not kept.
    """

    metadata: ConfigMapMetadata = ConfigMapMetadata()
    type: str = ""
    immutable: bool = False
    data: msgspec.Raw = msgspec.Raw()
    binary_data: msgspec.Raw = msgspec.Raw()


class KubernetesObject(Protocol):
    """The part of an object that watches and the store need."""

    @property
    def metadata(self) -> Metadata:
        """The object's metadata."""
        ...


T = TypeVar("T", bound=KubernetesObject)

STRUCTS: dict[Kind, type[Any]] = {
    ROLLOUT: RolloutObject,
    REPLICA_SET: ReplicaSetObject,
    SERVICE: ServiceObject,
    ENDPOINT_SLICE: EndpointSliceObject,
    POD: PodObject,
    ANALYSIS_RUN: AnalysisRunObject,
    EXPERIMENT: ExperimentObject,
    EXPERIMENT_REPLICA_SET: ReplicaSetObject,
    ANALYSIS_TEMPLATE: AnalysisTemplateObject,
    CLUSTER_ANALYSIS_TEMPLATE: AnalysisTemplateObject,
    TRAFFIC_PROVIDER: ProviderObject,
    METRIC_PROVIDER: ProviderObject,
    CONFIG_MAP: ConfigMapObject,
    DEPLOYMENT: WorkloadObject,
    STATEFUL_SET: WorkloadObject,
    DAEMON_SET: WorkloadObject,
    NAMED_REPLICA_SET: WorkloadObject,
    POD_TEMPLATE: WorkloadObject,
}


class _OwnedMetadata(msgspec.Struct, frozen=True, gc=False):
    annotations: dict[str, Any] = msgspec.field(default_factory=dict, name="f:annotations")


class _OwnedFields(msgspec.Struct, frozen=True, gc=False):
    metadata: _OwnedMetadata = msgspec.field(default_factory=_OwnedMetadata, name="f:metadata")


class _Entry(msgspec.Struct, frozen=True, gc=False):
    manager: str = ""
    time: str = ""
    fields: _OwnedFields = msgspec.field(default_factory=_OwnedFields, name="fieldsV1")


_ENTRIES = msgspec.json.Decoder(list[_Entry])


def annotators_of(
    managed_fields: msgspec.Raw, annotations: Collection[str] | None, *, prefix: str
) -> dict[str, str] | None:
    """The field manager in `.metadata.managedFields` that set each annotation with that prefix, the last one if several did.

    {} if it cannot be read; None when there is no such annotation: then the JSON of managedFields, which is long, is not read.

    Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management. A manager is no user.

    Raises: nothing: the result is only shown to people, and nothing is decided on it.
    """
    asked = [key for key in annotations or () if key.startswith(prefix)]
    if not asked:
        return None
    try:
        entries = _ENTRIES.decode(managed_fields)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    found: dict[str, str] = {}
    for entry in sorted(entries, key=lambda field: field.time):
        for key in asked:
            if f"f:{key}" in entry.fields.metadata.annotations:
                found[key] = entry.manager
    return found
