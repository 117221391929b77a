"""The CRD's schema of a pod template: every field is kept, and the lists that several appliers may share are maps.

It has no `default`: a default that a later version of the CRD adds would appear in stored templates, change their hash and roll
out everybody's workload again. So `ports` have no schema: as a map by containerPort and protocol they would need a default for
protocol.
"""

from __future__ import annotations

from rollouts.objects import Manifest

_OPEN = {"x-kubernetes-preserve-unknown-fields": True}


def _map_by(*keys: str, items: Manifest, required: tuple[str, ...] = (), maximum: int = 256) -> Manifest:
    properties = {key: {"type": "string", "maxLength": 4096} for key in keys} | items
    return {
        "type": "array",
        "maxItems": maximum,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
        "items": {"type": "object", "required": [*keys, *required], "properties": properties} | _OPEN,
    }


def pod_template_schema(description: str) -> Manifest:
    """Structural schema of `spec.template`."""
    text_map = {"type": "object", "additionalProperties": {"type": "string"}}
    container = {
        "image": {"type": "string"},
        "env": _map_by("name", items={"value": {"type": "string"}}, maximum=1024),
        "volumeMounts": _map_by("mountPath", items={}),
    }
    containers = _map_by("name", items=container)
    return {
        "description": description,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "metadata": {
                "type": "object",
                "properties": {"labels": dict(text_map), "annotations": dict(text_map)},
            }
            | _OPEN,
            "spec": {
                "type": "object",
                "required": ["containers"],
                "properties": {
                    "containers": {**containers, "minItems": 1},
                    "initContainers": containers,
                    "volumes": _map_by("name", items={}),
                    "imagePullSecrets": _map_by("name", items={}),
                },
            }
            | _OPEN,
        },
    } | _OPEN
