"""Checks `trafficRouting.own`: manifests of the routes that the controller makes. Other code checks that a router names them."""

from __future__ import annotations

from typing import Any

from rollouts.api.problems import Problems, path_of
from rollouts.api.spec.json_values import json_value
from rollouts.api.spec.metadata import check_entries
from rollouts.api.v1alpha1.traffic import TrafficRoutingWire
from rollouts.core.model.grammar import is_snippet
from rollouts.objects import Manifest

_FIELDS = ("apiVersion", "kind", "metadata", "spec")
_METADATA = ("name", "namespace", "labels", "annotations")


def own_manifests(wire: TrafficRoutingWire) -> tuple[Manifest, ...]:
    """The manifests. `check_own_routes` has found no problem."""
    return tuple(map(json_value, wire.own or ()))


def check_own_routes(wire: TrafficRoutingWire, path: str, problems: Problems) -> None:
    """Adds every rule that the manifests break."""
    for index, manifest in enumerate(wire.own or ()):
        _check(manifest, f"{path}[{index}]", problems)


def _check(manifest: dict[str, Any], path: str, problems: Problems) -> None:
    for field in sorted(manifest.keys() - set(_FIELDS)):
        message = f"is not allowed in a manifest here; allowed are {', '.join(_FIELDS)}"
        problems.add(path_of((field,), root=path), message)
    for field in ("apiVersion", "kind"):
        if not _is_text(manifest.get(field)):
            problems.add(f"{path}.{field}", "is required, and a string")
    for field in ("metadata", "spec"):
        if not isinstance(manifest.get(field), dict):
            problems.add(f"{path}.{field}", "is required, and an object")
    if isinstance(metadata := manifest.get("metadata"), dict):
        _check_metadata(metadata, f"{path}.metadata", problems)


def _check_metadata(metadata: dict[str, Any], path: str, problems: Problems) -> None:
    for field in sorted(metadata.keys() - set(_METADATA)):
        message = f"is set by the API server or the controller; allowed are {', '.join(_METADATA)}"
        problems.add(path_of((field,), root=path), message)
    if not _is_text(metadata.get("name")):
        problems.add(f"{path}.name", "is required, and a string")
    if not isinstance(metadata.get("namespace", ""), str):
        problems.add(f"{path}.namespace", "must be a string")
    for field in ("labels", "annotations"):
        entries = metadata.get(field) or {}
        if isinstance(entries, dict):
            check_entries(entries, f"{path}.{field}", problems, labels=field == "labels")
            for key in filter(is_snippet, entries):
                message = "would add text to the configuration of every route of its router; remove it"
                problems.add(path_of((key,), root=f"{path}.{field}"), message)
        else:
            problems.add(f"{path}.{field}", "must be an object")


def _is_text(found: Any) -> bool:
    return isinstance(found, str) and bool(found)
