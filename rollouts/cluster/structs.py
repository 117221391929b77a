"""The parts of Kubernetes objects that this program reads, as msgspec structs: everything not named here is skipped, not built.

All structs are frozen and invisible to the garbage collector (`gc=False`; none can be part of a cycle), so that tens of
thousands of them cost no collection. Every list is optional: the API server writes `"endpoints": null`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from rollouts.cluster.managed_fields import annotators_of
from rollouts.errors import ApiUnavailable
from rollouts.objects import ENDPOINT_SLICE, LEASE, POD, REPLICA_SET, ROLLOUT, SERVICE, TRAFFIC_PROVIDER, Kind

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""kubectl's copy of the whole manifest. It is dropped when an object is decoded: it doubles the memory and says nothing new."""


class Struct(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What all structs here have in common."""


class OwnerReference(Struct, frozen=True):
    """One of `.metadata.ownerReferences`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Metadata(Struct, frozen=True):
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


class Condition(Struct, frozen=True):
    """One of `.status.conditions`."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class RolloutMetadata(Metadata, frozen=True):
    """`.metadata` of a Rollout. `managed_fields` is dropped when it is decoded; `annotators` says who set our annotations."""

    managed_fields: msgspec.Raw = msgspec.Raw()
    annotators: dict[str, str] | None = None


class RolloutObject(Struct, frozen=True):
    """A Rollout: `spec` and `status` are JSON bytes of their own (empty when absent), parsed by whoever knows their meaning."""

    metadata: RolloutMetadata = RolloutMetadata()
    spec: msgspec.Raw = msgspec.Raw()
    status: msgspec.Raw = msgspec.Raw()


class RouteObject(Struct, frozen=True):
    """A route of whatever kind: `spec` and `status` are JSON bytes of their own (empty when absent); its codec knows them."""

    metadata: Metadata = Metadata()
    spec: msgspec.Raw = msgspec.Raw()
    status: msgspec.Raw = msgspec.Raw()


class TrafficProviderObject(Struct, frozen=True):
    """A TrafficProvider: as a Rollout."""

    metadata: Metadata = Metadata()
    spec: msgspec.Raw = msgspec.Raw()
    status: msgspec.Raw = msgspec.Raw()


class TemplateMetadata(Struct, frozen=True):
    """`.spec.template.metadata`."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class PodTemplate(Struct, frozen=True):
    """`.spec.template`, of which only the metadata is kept."""

    metadata: TemplateMetadata = TemplateMetadata()


class ReplicaSetSpec(Struct, frozen=True):
    """`.spec` of a ReplicaSet."""

    replicas: int = 1
    min_ready_seconds: int = 0
    template: PodTemplate = PodTemplate()


class ReplicaSetStatus(Struct, frozen=True):
    """`.status` of a ReplicaSet. `terminating_replicas` is None where the server does not count them (KEP-3973)."""

    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[Condition, ...] | None = None


class ReplicaSetObject(Struct, frozen=True):
    """A ReplicaSet."""

    metadata: Metadata = Metadata()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class ClientIPConfig(Struct, frozen=True):
    """`.spec.sessionAffinityConfig.clientIP` of a Service."""

    timeout_seconds: int | None = None


class SessionAffinityConfig(Struct, frozen=True):
    """`.spec.sessionAffinityConfig` of a Service."""

    client_ip: ClientIPConfig | None = msgspec.field(default=None, name="clientIP")


class ServiceSpec(Struct, frozen=True):
    """`.spec` of a Service."""

    selector: dict[str, str] | None = None
    type: str = "ClusterIP"
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    publish_not_ready_addresses: bool = False
    internal_traffic_policy: str = "Cluster"
    external_traffic_policy: str = "Cluster"
    traffic_distribution: str | None = None
    session_affinity: str = "None"
    session_affinity_config: SessionAffinityConfig | None = None


class ServiceObject(Struct, frozen=True):
    """A Service."""

    metadata: Metadata = Metadata()
    spec: ServiceSpec = ServiceSpec()


class EndpointConditions(Struct, frozen=True):
    """`.conditions` of an endpoint; None is "unknown", which consumers read as ready."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class TargetRef(Struct, frozen=True):
    """What an endpoint stands for, usually a pod."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class Endpoint(Struct, frozen=True):
    """One of an EndpointSlice's endpoints, without its addresses."""

    conditions: EndpointConditions = EndpointConditions()
    target_ref: TargetRef | None = None


class EndpointSliceObject(Struct, frozen=True):
    """An EndpointSlice."""

    metadata: Metadata = Metadata()
    endpoints: tuple[Endpoint, ...] | None = None


class Waiting(Struct, frozen=True):
    """Why a container waits: `ImagePullBackOff`, `CrashLoopBackOff`."""

    reason: str = ""
    message: str = ""


class ContainerState(Struct, frozen=True):
    """`.state` of a container."""

    waiting: Waiting | None = None


class ContainerStatus(Struct, frozen=True):
    """One of a pod's container statuses."""

    name: str = ""
    state: ContainerState = ContainerState()


class PodStatus(Struct, frozen=True):
    """`.status` of a pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: tuple[Condition, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None


class PodObject(Struct, frozen=True):
    """A pod, without its spec."""

    metadata: Metadata = Metadata()
    status: PodStatus = PodStatus()


class LeaseSpec(Struct, frozen=True):
    """`.spec` of a Lease."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseObject(Struct, frozen=True):
    """A Lease."""

    metadata: Metadata = Metadata()
    spec: LeaseSpec = LeaseSpec()


class KubernetesObject(Protocol):
    """What watches and the store need to know of an object."""

    @property
    def metadata(self) -> Metadata:
        """The object's metadata."""
        ...


T = TypeVar("T", bound=KubernetesObject)
ClusterObject: TypeAlias = (
    RolloutObject
    | ReplicaSetObject
    | ServiceObject
    | EndpointSliceObject
    | PodObject
    | LeaseObject
    | RouteObject
    | TrafficProviderObject
)

STRUCTS: dict[Kind, type[Any]] = {
    ROLLOUT: RolloutObject,
    REPLICA_SET: ReplicaSetObject,
    SERVICE: ServiceObject,
    ENDPOINT_SLICE: EndpointSliceObject,
    POD: PodObject,
    LEASE: LeaseObject,
    TRAFFIC_PROVIDER: TrafficProviderObject,
}


class StatusDetails(Struct, frozen=True):
    """`.details` of a `Status`: which object was refused; empty when no object was looked at."""

    kind: str = ""


class ServerStatus(Struct, frozen=True):
    """The `Status` object of an error. Only answers have one, so it is never kept."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """One line of a watch.

    Args:
        type: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
        object: the object; for a BOOKMARK only its metadata means anything; None for an ERROR.
        error: what an ERROR says.
    """

    type: str
    object: T | None
    error: ServerStatus | None = None


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list.

    Args:
        resource_version: of the whole list.
        continue_token: asks for the next page; empty on the last one.
    """

    items: tuple[T, ...]
    resource_version: str
    continue_token: str


class Decoder(Generic[T]):
    """Decodes one kind's objects, lists and watch lines. What it returns shares no memory with what it was given.

    Raises: ApiUnavailable from every method, when the bytes are not what the API promises (cut off, a proxy's HTML).
    """

    def __init__(self, struct: type[T]) -> None:
        # The type parameters are values here, which mypy cannot follow: hence the casts to Any.
        kept: Any = struct
        self._object = msgspec.json.Decoder(kept)
        self._event = msgspec.json.Decoder(_Event[kept])
        self._list = msgspec.json.Decoder(_List[kept])

    def object(self, data: bytes) -> T:
        """One object, as GET, POST and PATCH return it."""
        try:
            decoded: T = self._object.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise _unreadable(data, exc) from exc
        return _keep(decoded)

    def page(self, data: bytes) -> Page[T]:
        """One page of a list."""
        try:
            page = self._list.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise _unreadable(data, exc) from exc
        items = tuple(_keep(item) for item in page.items or ())
        return Page(items, page.metadata.resource_version, page.metadata.continue_)

    def event(self, line: bytes) -> WatchEvent[T]:
        """One line of a watch."""
        try:
            event = self._event.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            if (error := _error_in(line)) is None:  # a Status need not fit the kind's struct
                raise _unreadable(line, exc) from exc
            return WatchEvent("ERROR", None, error)
        if event.type == "ERROR":
            return WatchEvent("ERROR", None, _error_in(line))
        return WatchEvent(event.type, _keep(event.object))


def decode(kind: Kind, data: bytes) -> Any:
    """The struct of `STRUCTS` for one object's JSON.

    Raises: ApiUnavailable, when the bytes are not such an object; KeyError for a kind without a struct.
    """
    return _decoder(kind).object(data)


def decode_route(data: bytes) -> RouteObject:
    """A route of any kind. Raises: ApiUnavailable, when the bytes are no object."""
    return _ROUTES.object(data)


def metadata_of(data: bytes) -> Metadata:
    """Metadata of what a write returned, for `Store.wrote`; a DELETE may answer with a Status, whose metadata is empty.

    Raises: ApiUnavailable.
    """
    try:
        return _METADATA.decode(data).metadata
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise _unreadable(data, exc) from exc


def status_of(data: bytes) -> ServerStatus:
    """What an error's body says; bodies that are no `Status` (a proxy's HTML) become its message, shortened."""
    try:
        return _STATUS.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ServerStatus(message=data[:200].decode(errors="replace"))


class _Event(msgspec.Struct, Generic[T], gc=False):
    type: str
    object: T


class _ListMetadata(Struct, frozen=True):
    resource_version: str = "0"
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, Generic[T]):
    metadata: _ListMetadata = _ListMetadata()
    items: list[T] | None = None


class _OnlyMetadata(Struct, frozen=True):
    metadata: Metadata = Metadata()


class _ErrorEvent(Struct, frozen=True):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw()


_METADATA = msgspec.json.Decoder(_OnlyMetadata)
_STATUS = msgspec.json.Decoder(ServerStatus)
_ERROR_EVENT = msgspec.json.Decoder(_ErrorEvent)
_DECODERS: dict[Kind, Decoder[Any]] = {}
_ROUTES: Decoder[RouteObject] = Decoder(RouteObject)


def _decoder(kind: Kind) -> Decoder[Any]:
    if kind not in _DECODERS:
        _DECODERS[kind] = Decoder(STRUCTS[kind])
    return _DECODERS[kind]


def _error_in(line: bytes) -> ServerStatus | None:
    try:
        event = _ERROR_EVENT.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return status_of(bytes(event.object)) if event.type == "ERROR" else None


def _unreadable(data: bytes, exc: Exception) -> ApiUnavailable:
    return ApiUnavailable(f"the API server's answer cannot be read ({exc}): {data[:80]!r}")


def _keep(kept: T) -> T:
    """Makes an object fit to be kept: own copies of what points into the answer, one copy of what many objects share."""
    metadata = kept.metadata
    if metadata.labels:
        _intern(metadata.labels)
    if metadata.annotations and LAST_APPLIED in metadata.annotations:
        del metadata.annotations[LAST_APPLIED]
    if isinstance(kept, RolloutObject):
        annotators = annotators_of(kept.metadata.managed_fields, metadata.annotations, prefix=f"{ROLLOUT.group}/")
        msgspec.structs.force_setattr(metadata, "annotators", annotators)
        msgspec.structs.force_setattr(metadata, "managed_fields", msgspec.Raw())  # larger than the spec
    match kept:
        case RolloutObject() | RouteObject() | TrafficProviderObject():
            # A Raw points into the whole line that it was read from and would keep it alive.
            msgspec.structs.force_setattr(kept, "spec", kept.spec.copy())
            msgspec.structs.force_setattr(kept, "status", kept.status.copy())
        case ReplicaSetObject():
            if labels := kept.spec.template.metadata.labels:
                _intern(labels)
        case _:
            pass
    return kept


def _intern(labels: dict[str, str]) -> None:
    for key, value in labels.items():
        labels[key] = sys.intern(value)
