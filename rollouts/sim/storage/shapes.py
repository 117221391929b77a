"""Which lists and maps of a type server-side apply merges item by item, and which it replaces as a whole.

For custom resources the schema says it (`x-kubernetes-list-type`, `-list-map-keys`, `-map-type`). For built-in types this module
contains the part that rollouts use. Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from rollouts.objects import Manifest


class MergeShape(Struct, frozen=True):
    """How one value is owned and merged.

    Args:
        fields: shapes of a map's known fields.
        element: shape of a list's items, or of a map's other fields.
        atomic: whether the value is one leaf, whatever it contains.
        keys: names of the fields that identify an item of a list-map; empty for other lists.
        key_defaults: values of identifying fields that are left out.
        is_set: whether the value is a list of scalars that is merged by value.
    """

    fields: Mapping[str, MergeShape] = field(default_factory=dict)
    element: MergeShape | None = None
    atomic: bool = False
    keys: tuple[str, ...] = ()
    key_defaults: Mapping[str, Any] = field(default_factory=dict)
    is_set: bool = False

    def child(self, name: str) -> MergeShape:
        """The shape of a map's field."""
        return self.fields.get(name) or self.element or DEDUCED

    @property
    def item(self) -> MergeShape:
        """The shape of a list's items."""
        return self.element or DEDUCED


DEDUCED = MergeShape()
"""The shape of values without a schema: maps are merged by key, lists are atomic."""

ATOMIC = MergeShape(atomic=True)


def list_map(*keys: str, element: MergeShape = DEDUCED, **key_defaults: Any) -> MergeShape:
    """A list whose items are identified by `keys`."""
    return MergeShape(element=element, keys=keys, key_defaults=key_defaults)


METADATA = MergeShape(
    fields={"ownerReferences": list_map("uid", element=ATOMIC), "finalizers": MergeShape(is_set=True)}
)

_ENV = MergeShape(
    fields={
        "valueFrom": MergeShape(
            fields=dict.fromkeys(("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef"), ATOMIC)
        )
    }
)
_CONTAINER = MergeShape(
    fields={
        "env": list_map("name", element=_ENV),
        "ports": list_map("containerPort", "protocol", protocol="TCP"),
        "volumeMounts": list_map("mountPath"),
        "volumeDevices": list_map("devicePath"),
        "resources": MergeShape(fields={"claims": list_map("name")}),
    }
)
POD_SPEC = MergeShape(
    fields={
        "containers": list_map("name", element=_CONTAINER),
        "initContainers": list_map("name", element=_CONTAINER),
        "ephemeralContainers": list_map("name", element=_CONTAINER),
        "volumes": list_map("name"),
        "imagePullSecrets": list_map("name"),
        "hostAliases": list_map("ip"),
        "topologySpreadConstraints": list_map("topologyKey", "whenUnsatisfiable"),
        "nodeSelector": ATOMIC,
    }
)
POD_TEMPLATE = MergeShape(fields={"metadata": METADATA, "spec": POD_SPEC})


def _object(spec: MergeShape, **status: MergeShape) -> MergeShape:
    conditions = MergeShape(fields={"conditions": list_map("type"), **status})
    return MergeShape(fields={"metadata": METADATA, "spec": spec, "status": conditions})


POD = _object(POD_SPEC, podIPs=list_map("ip"), hostIPs=ATOMIC)
WORKLOAD = _object(MergeShape(fields={"selector": ATOMIC, "template": POD_TEMPLATE}))
JOB = MergeShape(
    fields={"metadata": METADATA, "spec": MergeShape(fields={"selector": ATOMIC, "template": POD_TEMPLATE})}
)
SERVICE = _object(MergeShape(fields={"selector": ATOMIC, "ports": list_map("port", "protocol", protocol="TCP")}))
POD_DISRUPTION_BUDGET = _object(MergeShape(fields={"selector": ATOMIC}))
CLAIM = _object(MergeShape(fields={"selector": ATOMIC, "dataSource": ATOMIC}))
AUTOSCALER = _object(MergeShape(fields={"scaleTargetRef": ATOMIC}))
PLAIN = MergeShape(fields={"metadata": METADATA})


def shape_of_schema(schema: Manifest) -> MergeShape:
    """The shape of a custom resource, from its structural schema."""
    shape = _of_schema(schema)
    return MergeShape(fields={**shape.fields, "metadata": METADATA}, element=shape.element)


def _of_schema(schema: Manifest) -> MergeShape:
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items") or {}
        match schema.get("x-kubernetes-list-type"):
            case "map":
                keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
                properties = items.get("properties") or {}
                defaults = {key: properties[key]["default"] for key in keys if "default" in properties.get(key, {})}
                return MergeShape(element=_of_schema(items), keys=keys, key_defaults=defaults)
            case "set":
                return MergeShape(is_set=True)
            case _:
                return DEDUCED
    if kind != "object":
        return DEDUCED
    if schema.get("x-kubernetes-map-type") == "atomic":
        return ATOMIC
    fields = {name: _of_schema(part) for name, part in (schema.get("properties") or {}).items()}
    rest = schema.get("additionalProperties")
    return MergeShape(fields=fields, element=_of_schema(rest) if isinstance(rest, dict) else None)
