"""What `lint` knows of our own kinds: which objects are meant to be ours, and what the lists of their CRDs take. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from rollouts.api.schema import crd_manifests
from rollouts.cli.kubernetes.schema import Problem
from rollouts.objects import (
    ANALYSIS_RUN,
    ANALYSIS_TEMPLATE,
    CLUSTER_ANALYSIS_TEMPLATE,
    EXPERIMENT,
    METRIC_PROVIDER,
    ROLLOUT,
    TRAFFIC_PROVIDER,
    Manifest,
)

LINTED = {
    kind.kind: kind
    for kind in (
        ROLLOUT,
        TRAFFIC_PROVIDER,
        METRIC_PROVIDER,
        ANALYSIS_TEMPLATE,
        CLUSTER_ANALYSIS_TEMPLATE,
        ANALYSIS_RUN,
        EXPERIMENT,
    )
}
"""The kinds that people write into files."""

_UNKNOWN, _NO_OBJECT = "unknown field", "must be an object"  # how the messages of api/problems.py begin
_LISTED = 20  # names; a longer list helps nobody
_PART = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_OTHERS = ("argoproj.io", "rollouts.kruise.io")  # groups with a kind Rollout, and with analyses, of other products


def mend(kind: str, path: str, message: str) -> str:
    """What the schema adds to a message about a field: `; did you mean setWeight?`, `; its fields are duration`."""
    parts = [part or int(index) for part, index in _PART.findall(path)]
    if message == _UNKNOWN:
        *parents, name = parts
        known = _fields(kind, parents)
        near = difflib.get_close_matches(str(name), known, n=1)
        near += [field for field in known if field.lower() == str(name).lower()]
        return f"; did you mean {near[0]}?" if near else _listed("the fields are", known)
    return _listed("its fields are", _fields(kind, parts)) if message.startswith(_NO_OBJECT) else ""


def _listed(words: str, names: list[str]) -> str:
    return f"; {words} {', '.join(names)}" if 0 < len(names) <= _LISTED else ""


def stranger(document: Manifest) -> str | None:
    """Why an object cannot be one of ours although it looks like one; None for an object of somebody else's."""
    api_version, kind = str(document.get("apiVersion")), str(document.get("kind"))
    group = api_version.partition("/")[0]
    if kind in LINTED and group in _OTHERS:
        return (
            f"{api_version} {kind} is another product's: change apiVersion to {LINTED[kind].api_version} to use it here"
        )
    if group.removesuffix(".") != ROLLOUT.group and kind not in LINTED:
        return None
    if kind in LINTED:
        near = difflib.get_close_matches(group, [ROLLOUT.group], n=1, cutoff=0.7)
        return f"apiVersion must be {LINTED[kind].api_version}, not {api_version}" if near else None
    near = difflib.get_close_matches(kind, LINTED, n=1)
    known = near[0] if near else ", ".join(LINTED)
    return f"there is no kind {kind} in {api_version}; {'did you mean' if near else 'the kinds are'} {known}{'?' if near else ''}"


def list_problems(manifest: Manifest) -> Iterator[Problem]:
    """Entries of lists that have a key twice, and lists with more entries than the API server takes, by the kind's schema."""
    yield from _list_problems(manifest, _schemas().get(str(manifest.get("kind")), {}), "")


def _list_problems(value: object, schema: Mapping[str, Any], path: str) -> Iterator[Problem]:
    if isinstance(value, dict):
        for name, part in schema.get("properties", {}).items():
            yield from _list_problems(value.get(name), part, f"{path}.{name}".removeprefix("."))
        return
    if not isinstance(value, list):
        return
    most = schema.get("maxItems", len(value))
    if len(value) > most:
        yield path, f"has {len(value)} entries, and {most} is the most"
    seen: dict[str, int] = {}
    for index, entry in enumerate(value):
        for key in schema.get("x-kubernetes-list-map-keys", ()) if isinstance(entry, dict) else ():
            first = seen.setdefault(str(entry.get(key)), index)
            if entry.get(key) is None:
                yield f"{path}[{index}].{key}", "is required"
            elif first != index:
                yield f"{path}[{index}].{key}", f"is the same as {path}[{first}].{key}; change one of them"
        yield from _list_problems(entry, schema.get("items", {}), f"{path}[{index}]")


@cache
def _schemas() -> Mapping[str, Any]:
    return {
        crd["spec"]["names"]["kind"]: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for crd in crd_manifests()
    }


def _fields(kind: str, parents: list[str | int]) -> list[str]:
    """The names that the schema has at a path."""
    schema: Any = _schemas().get(kind, {})
    for part in parents:
        schema = schema.get("items", {}) if isinstance(part, int) else schema.get("properties", {}).get(part, {})
    return list(schema.get("properties", {}))
