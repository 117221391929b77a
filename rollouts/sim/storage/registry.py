"""The resource types that the simulated API server serves: the built-in ones, and custom ones from their CRD manifests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import msgspec
from msgspec import Struct

from rollouts import objects
from rollouts.objects import AUTOSCALER, JOB, Kind, Manifest
from rollouts.sim.storage import (
    autoscaler_rules,
    claim_rules,
    config_rules,
    daemonset_rules,
    deployment_rules,
    job_rules,
    shapes,
    statefulset_rules,
)
from rollouts.sim.storage import builtin_rules as rules
from rollouts.sim.storage.refusals import Cause, value_invalid
from rollouts.sim.storage.selectors import value_at
from rollouts.sim.storage.validation import immutable_problems, problems, with_defaults

Defaults: TypeAlias = Callable[[Manifest], Manifest]
Check: TypeAlias = Callable[[Manifest, Manifest | None], Iterator[Cause]]

CLAIM = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
NODE = Kind("", "v1", "Node", "nodes", namespaced=False)
DISRUPTION_BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
CRD = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)

_NAMES = frozenset(("metadata.name", "metadata.namespace"))
_HEAD = ("apiVersion", "kind", "metadata")


class ScalePaths(Struct, frozen=True):
    """The fields of a type that its scale subresource shows: dotted JSON paths without the first dot."""

    spec_replicas: str = "spec.replicas"
    status_replicas: str = "status.replicas"
    selector: str | None = None


class Resource(Struct, frozen=True):
    """One served type.

    Args:
        annotations_count: whether a change of annotations raises the generation, and a write of the status may set them.
        schema: of a custom resource; None for built-in types.
        selectable: the field selectors that it supports.
        categories: in which kubectl lists it, such as `all`.
        needs_version_to_update: whether a PUT without resourceVersion is refused.
    """

    kind: Kind
    shape: shapes.MergeShape = shapes.PLAIN
    has_status: bool = False
    scale: ScalePaths | None = None
    has_generation: bool = False
    annotations_count: bool = False
    defaults: Defaults = lambda manifest: manifest
    check: Check = lambda _new, _old: iter(())
    schema: Manifest | None = None
    selectable: frozenset[str] = _NAMES
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    needs_version_to_update: bool = False

    @property
    def is_custom(self) -> bool:
        """Whether it comes from a CRD."""
        return self.schema is not None


_POD_FIELDS = _NAMES | {
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "status.phase",
    "status.podIP",
}

_ALL = ("all",)  # what `kubectl get all` lists

# kubernetes, pkg/apis/events/v1/conversion.go (`AddFieldLabelConversionsForEvent`)
_EVENT_FIELDS = _NAMES | {"reason", "reportingController", "type"} | {
    f"regarding.{name}" for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
}  # fmt: skip

BUILT_IN = (
    Resource(objects.POD, shapes.POD, has_status=True, has_generation=True, defaults=rules.pod_defaults,
             check=rules.pod_problems, selectable=_POD_FIELDS, short_names=("po",), categories=_ALL),
    Resource(objects.SERVICE, shapes.SERVICE, has_status=True, defaults=rules.service_defaults,
             check=rules.service_problems, short_names=("svc",), categories=_ALL),
    Resource(objects.CONFIG_MAP, defaults=config_rules.config_map_defaults, check=config_rules.config_map_problems,
             short_names=("cm",)),
    Resource(objects.SECRET, defaults=config_rules.secret_defaults, check=config_rules.secret_problems,
             selectable=_NAMES | {"type"}),
    Resource(objects.POD_TEMPLATE, has_generation=True),
    Resource(SERVICE_ACCOUNT, short_names=("sa",)),
    Resource(NAMESPACE, has_status=True, short_names=("ns",)),
    Resource(NODE, has_status=True, short_names=("no",)),
    Resource(objects.REPLICA_SET, shapes.WORKLOAD, has_status=True, scale=ScalePaths(selector="spec.selector"),
             has_generation=True, defaults=rules.workload_defaults, check=rules.workload_problems, short_names=("rs",),
             categories=_ALL),
    Resource(objects.DEPLOYMENT, shapes.WORKLOAD, has_status=True, scale=ScalePaths(selector="spec.selector"),
             has_generation=True, annotations_count=True, defaults=deployment_rules.with_defaults,
             check=deployment_rules.problems, short_names=("deploy",), categories=_ALL),
    Resource(objects.STATEFUL_SET, shapes.WORKLOAD, has_status=True, scale=ScalePaths(selector="spec.selector"),
             has_generation=True, defaults=statefulset_rules.with_defaults, check=statefulset_rules.problems,
             short_names=("sts",), categories=_ALL),
    Resource(objects.DAEMON_SET, shapes.WORKLOAD, has_status=True, has_generation=True, defaults=daemonset_rules.with_defaults,
             check=daemonset_rules.problems, short_names=("ds",), categories=_ALL),
    Resource(objects.CONTROLLER_REVISION, check=statefulset_rules.revision_problems),
    Resource(CLAIM, shapes.CLAIM, has_status=True, defaults=claim_rules.with_defaults, check=claim_rules.problems,
             short_names=("pvc",)),
    Resource(JOB, shapes.JOB, has_status=True, has_generation=True, defaults=job_rules.with_defaults,
             check=job_rules.problems, selectable=_NAMES | {"status.successful"}, categories=_ALL),
    Resource(objects.ENDPOINT_SLICE, has_generation=True),
    Resource(objects.EVENT, selectable=_EVENT_FIELDS, short_names=("ev",)),
    Resource(objects.LEASE, needs_version_to_update=True),
    Resource(AUTOSCALER, shapes.AUTOSCALER, has_status=True, defaults=autoscaler_rules.with_defaults,
             check=autoscaler_rules.problems, short_names=("hpa",), categories=_ALL),
    Resource(objects.RESOURCE_QUOTA, has_status=True, short_names=("quota",)),
    Resource(objects.LIMIT_RANGE, short_names=("limits",)),
    Resource(DISRUPTION_BUDGET, shapes.POD_DISRUPTION_BUDGET, has_status=True, has_generation=True, short_names=("pdb",)),
    Resource(CRD, has_status=True, has_generation=True, short_names=("crd",)),
)  # fmt: skip


def custom_resources(crd: Manifest) -> list[Resource]:
    """The types that a CustomResourceDefinition manifest (`apiextensions.k8s.io/v1`) declares, one for each served version.

    Raises: KeyError when the manifest lacks a field that the real server requires.
    """
    spec = crd["spec"]
    names = spec["names"]
    resources = []
    for version in spec["versions"]:
        if not version.get("served", True):
            continue
        kind = Kind(spec["group"], version["name"], names["kind"], names["plural"], spec["scope"] == "Namespaced")
        schema, subresources = version["schema"]["openAPIV3Schema"], version.get("subresources") or {}
        scale = None
        if paths := subresources.get("scale"):
            scale = ScalePaths(
                paths["specReplicasPath"].lstrip("."),
                paths["statusReplicasPath"].lstrip("."),
                (paths.get("labelSelectorPath") or "").lstrip(".") or None,
            )
        has_cel_rules = b"x-kubernetes-validations" in msgspec.json.encode(schema)
        resource = Resource(
            kind,
            shapes.shape_of_schema(schema),
            has_status="status" in subresources,
            scale=scale,
            has_generation=True,
            defaults=partial(_custom_defaults, schema),
            check=partial(_custom_problems, schema, scale, has_cel_rules),
            schema=schema,
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            needs_version_to_update=True,
        )
        resources.append(resource)
    return resources


def _custom_defaults(schema: Manifest, manifest: Manifest) -> Manifest:
    head: Manifest = {name: manifest[name] for name in _HEAD if name in manifest}
    body = {name: part for name, part in manifest.items() if name not in head}
    properties = {name: part for name, part in (schema.get("properties") or {}).items() if name not in _HEAD}
    filled = with_defaults(body, {**schema, "properties": properties})
    return manifest if filled is body else {**head, **filled}


_BLOCKING = frozenset(("FieldValueTypeInvalid", "FieldValueRequired", "FieldValueNotSupported", "FieldValueTooLong",
                       "FieldValueTooMany", "FieldValueDuplicate"))  # fmt: skip
_NOT_CHECKED = value_invalid(
    "<nil>",
    "null",
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


def _custom_problems(
    schema: Manifest, scale: ScalePaths | None, has_cel_rules: bool, new: Manifest, old: Manifest | None
) -> Iterator[Cause]:
    looked_at, wanted = new, schema
    if old is not None and old.keys() == new.keys():
        # A part that the new version shares with the old one was checked when the old one was written.
        looked_at = {name: part for name, part in new.items() if part is not old[name]}
        wanted = {**schema, "required": ()}
    causes = list(problems(looked_at, wanted))
    yield from causes
    if scale is not None:
        yield from _scale_problems(scale, new)
    if has_cel_rules and any(cause.reason in _BLOCKING for cause in causes):
        yield _NOT_CHECKED
    elif old is not None:
        yield from immutable_problems(new, old, schema)


def _scale_problems(scale: ScalePaths, new: Manifest) -> Iterator[Cause]:
    for path in (scale.spec_replicas, scale.status_replicas):
        value = value_at(new, path)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            kind = "string" if isinstance(value, str) else type(value).__name__
            message = f".{path} accessor error: {value} is of the type {kind}, expected int64"
            yield value_invalid(f".{path}", "0", message)
        elif value is not None and value < 0:
            yield value_invalid(f".{path}", f"{value}", "should be a non-negative integer")


@dataclass
class Registry:
    """The served types, by their paths."""

    _by_path: dict[tuple[str, str, str], Resource] = field(default_factory=dict)
    changes: int = 0
    """How often types were added: a caller that keeps a `Resource` must read it again when this changes."""

    def add(self, resources: Iterable[Resource]) -> None:
        """Serves more types; a type with the same path is replaced."""
        self.changes += 1
        for resource in resources:
            self._by_path[resource.kind.group, resource.kind.version, resource.kind.plural] = resource

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The type at a path."""
        return self._by_path.get((group, version, plural))

    def of(self, kind: Kind) -> Resource:
        """The type of a kind.

        Raises: KeyError when it is not served.
        """
        return self._by_path[kind.group, kind.version, kind.plural]

    def all(self) -> list[Resource]:
        """Every type served."""
        return list(self._by_path.values())

    def named(self, api_version: str, kind: str) -> Resource | None:
        """The type with this apiVersion and kind, as owner references and scale targets name it; None when it is not served."""
        return next(
            (r for r in self._by_path.values() if r.kind.kind == kind and r.kind.api_version == api_version), None
        )
