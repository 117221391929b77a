"""What `lint` says of fields that nobody knows, and of objects that are nearly ours: which name was meant. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from rollouts.api.schema import crd_manifests
from rollouts.cli.kubernetes.hash_labels import hash_uses
from rollouts.cli.kubernetes.schema import Problem
from rollouts.core.model.revision import REVISION_LABEL
from rollouts.objects import ROLLOUT, Kind, Manifest, mapping

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


def stranger(document: Manifest, ours: Mapping[str, Kind]) -> str | None:
    """Why an object cannot be one of ours although it looks like one; None for an object of somebody else's."""
    api_version, kind = str(document.get("apiVersion")), str(document.get("kind"))
    group = api_version.partition("/")[0]
    if kind in _schemas() and api_version == ROLLOUT.api_version:
        return None  # one that people do not write into files
    if kind in ours and group in _OTHERS:
        return (
            f"{api_version} {kind} is another product's: change apiVersion to {ours[kind].api_version} to use it here"
        )
    if group.removesuffix(".") != ROLLOUT.group and kind not in ours:
        return None
    if kind in ours:
        near = difflib.get_close_matches(group, [ROLLOUT.group], n=1, cutoff=0.7)
        return f"apiVersion must be {ours[kind].api_version}, not {api_version}" if near else None
    near = difflib.get_close_matches(kind, ours, n=1)
    known = near[0] if near else ", ".join(ours)
    return f"there is no kind {kind} in {api_version}; {'did you mean' if near else 'the kinds are'} {known}{'?' if near else ''}"


def autoscaler_problems(autoscaler: Manifest, rollouts: Mapping[str, Manifest]) -> Iterator[Problem]:
    """What keeps an autoscaler from scaling the Rollout of its namespace that it is about."""
    target = mapping(mapping(autoscaler.get("spec")).get("scaleTargetRef"))
    name, wanted = target.get("name"), ROLLOUT.api_version
    if name not in rollouts:
        return
    if target.get("kind") != ROLLOUT.kind:
        fix = f"write kind: Rollout, apiVersion: {wanted}"
        yield "spec.scaleTargetRef.kind", f"scales {target.get('kind')} {name}, not the Rollout of that name; {fix}"
    elif target.get("apiVersion") != wanted:
        yield "spec.scaleTargetRef.apiVersion", f"must be {wanted}, not {target.get('apiVersion')}"


def falling_weights(document: Manifest) -> Iterator[Problem]:
    """The steps of a canary whose weight is lower than that of the step before."""
    strategy = document["spec"].get("strategy") or {}
    last: float = 0
    for index, step in enumerate((strategy.get("canary") or {}).get("steps") or ()):
        weight = step.get("setWeight")
        if weight is not None:
            if weight < last:
                path = f"spec.strategy.canary.steps[{index}].setWeight"
                yield path, f"falls from {last} to {weight}: are the steps in order?"
            last = weight


def hash_label_remarks(document: Manifest) -> Iterator[Problem]:
    """The places of a Rollout's template that name the label by which another controller tells its revisions apart."""
    for use in hash_uses(document["spec"]["template"], "spec.template"):
        where = "so it tells no revisions apart, and pods of an update may find no node"
        if "fieldRef" in use.path:
            where = "so the value is empty"
        elif use.has_value:
            where = "so it matches none of them"
        what = f"no pod of a Rollout has the label {use.label}, {where}"
        yield use.path, f"{what}; write {use.renamed(REVISION_LABEL)}"


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
