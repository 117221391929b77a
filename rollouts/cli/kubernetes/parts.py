"""Reads manifests whose fields may hold anything: what has another type counts as absent, which is a problem of its own. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rollouts.cli.kubernetes.schema import Problem
from rollouts.objects import (
    ANALYSIS_RUN,
    ANALYSIS_TEMPLATE,
    CLUSTER_ANALYSIS_TEMPLATE,
    EXPERIMENT,
    ROLLOUT,
    Kind,
    mapping,
)


def is_a(manifest: Mapping[str, Any], kind: Kind) -> bool:
    """Whether an object is of this kind, in the version that this program knows."""
    return (manifest.get("apiVersion"), manifest.get("kind")) == (kind.api_version, kind.kind)


def entries(value: object) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The objects of a list with their indexes; none for anything else."""
    for index, entry in enumerate(value if isinstance(value, list) else ()):
        if isinstance(entry, dict):
            yield index, entry


def entries_at(holder: Mapping[str, Any], name: str, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The objects of a list in an object, each with its path; none if it is no list."""
    for index, entry in entries(holder.get(name)):
        yield f"{path}.{name}[{index}]", entry


def arguments_in(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The arguments of our own object that may come from a Secret, each with its path."""
    spec = mapping(manifest.get("spec"))
    if is_a(manifest, EXPERIMENT):
        experiments = [("spec", spec)]
    elif is_a(manifest, ROLLOUT):
        canary = mapping(mapping(spec.get("strategy")).get("canary"))
        steps = entries_at(canary, "steps", "spec.strategy.canary")
        experiments = [(f"{path}.experiment", mapping(step.get("experiment"))) for path, step in steps]
    else:
        experiments = []
        if any(is_a(manifest, kind) for kind in (ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE, ANALYSIS_RUN)):
            yield from entries_at(spec, "args", "spec")
    for path, experiment in experiments:
        for at, analysis in entries_at(experiment, "analyses", path):
            yield from entries_at(analysis, "args", at)


def named(holder: Mapping[str, Any], field: str) -> dict[str, Mapping[str, Any]]:
    """The objects of a list in an object by their names."""
    return {entry["name"]: entry for _, entry in entries(holder.get(field)) if isinstance(entry.get("name"), str)}


def namespace_of(manifest: object) -> str | None:
    """The namespace that an object names; None for none."""
    namespace = mapping(mapping(manifest).get("metadata")).get("namespace")
    return namespace if isinstance(namespace, str) else None


def number(value: object) -> int | float | None:
    """The number; None for anything else."""
    return None if isinstance(value, bool) or not isinstance(value, int | float) else value


def repeated(values: Iterator[tuple[str, object]]) -> Iterator[Problem]:
    """Values that come a second time, with the path where they do. An object or a list is none, a tuple is one of its texts."""
    seen: dict[str, str] = {}
    for path, value in values:
        if not isinstance(value, str | int | tuple) or value == "":
            continue
        if str(value) in seen:
            yield path, f"is the same as {seen[str(value)]}; change one of them"
        seen.setdefault(str(value), path)
