"""Writes `rollouts/cli/kubernetes/objects.json`: what the real API server publishes about what `rollouts lint` checks.

`python -m tests.lab.kubernetes_schema`, after a new version of Kubernetes in the lab.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.lab import supervisor
from tests.lab.binaries import KUBERNETES_VERSION
from tests.lab.control_plane import ControlPlane

FILE = Path(__file__).parent.parent.parent / "rollouts" / "cli" / "kubernetes" / "objects.json"
_GROUPS = ("api/v1", "apis/apps/v1", "apis/autoscaling/v2", "apis/batch/v1")
_PARTS = ("io.k8s.api.core.v1.PodTemplateSpec", "io.k8s.api.batch.v1.JobSpec")
_KINDS = {
    ("v1", "Service"): "io.k8s.api.core.v1.Service",
    ("v1", "ConfigMap"): "io.k8s.api.core.v1.ConfigMap",
    ("v1", "Secret"): "io.k8s.api.core.v1.Secret",
    ("autoscaling/v2", "HorizontalPodAutoscaler"): "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
}
_KEPT = ("type", "format", "enum", "oneOf", "required")
_OPTIONAL = {
    "HTTPHeader": {"value"},
    "Sysctl": {"value"},
    "SleepAction": {"seconds"},
    "PreferredSchedulingTerm": {"preference"},
    "NodeSelectorRequirement": {"operator"},
}
"""Fields that the schema calls required and the API server does without."""


def published(plane: ControlPlane) -> str:
    """The text of the file, one definition a line, by what this control plane publishes."""
    asked = [plane.api.get(f"/openapi/v3/{group}").raise_for_status() for group in _GROUPS]
    schemas = {name: schema for each in asked for name, schema in each.json()["components"]["schemas"].items()}
    found: dict[str, Any] = {}
    waiting = [*_PARTS, *_KINDS.values()]
    while waiting:
        name = waiting.pop()
        if _short(name) not in found:
            found[_short(name)] = _slim(schemas[name], _short(name))
            waiting += _named_in(schemas[name], status=name not in _KINDS.values())
    kinds = [
        {"apiVersion": version, "kind": kind, "definition": _short(name)} for (version, kind), name in _KINDS.items()
    ]
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found))
    version = KUBERNETES_VERSION.removeprefix("v").rpartition(".")[0]
    return f'{{"kubernetes": "{version}",\n"kinds": {json.dumps(kinds)},\n"definitions": {{\n{lines}\n}}}}\n'


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _slim(schema: Mapping[str, Any], of: str) -> dict[str, Any]:
    """Without texts, defaults and marks for patches; a reference by its short name."""
    for part in (schema, *schema.get("allOf", ())):
        if "$ref" in part:
            return {"$ref": _short(part["$ref"])}
    slim = {key: schema[key] for key in _KEPT if key in schema}
    if "required" in slim:
        slim["required"] = [each for each in slim["required"] if each not in _OPTIONAL.get(of, ())]
    if isinstance(schema.get("properties"), dict):
        known = {name: _slim(part, of) for name, part in schema["properties"].items()}
        slim["properties"] = {name: {} if name == "status" and of in map(_short, _KINDS.values()) else part
                              for name, part in known.items()}  # fmt: skip
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            slim[key] = _slim(schema[key], of)
    return slim


def _named_in(schema: Any, *, status: bool) -> Iterator[str]:
    """The definitions that a schema names, without those of `status` unless asked."""
    if isinstance(schema, dict):
        if isinstance(name := schema.get("$ref"), str):
            yield name.rpartition("/")[2]
        for key, part in schema.items():
            if key != "status" or status:
                yield from _named_in(part, status=status)
    elif isinstance(schema, list):
        for part in schema:
            yield from _named_in(part, status=status)


def main() -> None:
    """Starts a control plane, and writes the file by what it publishes."""
    with tempfile.TemporaryDirectory() as folder, supervisor.own(Path(folder, "plane")) as plane:
        FILE.write_text(published(plane), encoding="utf-8")


if __name__ == "__main__":
    main()
