"""What `rollouts lint` knows of ConfigMaps and Secrets: what a pod template asks of them, and what the files have. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from rollouts.cli.kubernetes.parts import entries, namespace_of
from rollouts.cli.kubernetes.schema import Problem
from rollouts.cli.view.config import content_of
from rollouts.core.advice.findings import Finding, Rule, Severity
from rollouts.core.config.references import ConfigPlace, places
from rollouts.core.model.config import ConfigKind
from rollouts.core.model.rollout import RolloutSpec
from rollouts.core.model.selectors import pod_template
from rollouts.manifests.ownership import CONFIG_COPY, CONFIG_COPY_VALUE, is_left_alone
from rollouts.objects import Manifest, mapping

_ROOT = "spec.template"
_COPY = re.compile(r"(.+)-[b-df-hj-np-tv-xz2456789]{10}")  # see core/model/revision.py: no vowels and no look-alikes

FileConfigs = Mapping[tuple[str | None, ConfigKind, str], Manifest]
"""ConfigMaps and Secrets by namespace, as a file names it, kind and name."""


class _Asked(Struct, frozen=True):
    """One place of a template that names a source, and asks for keys; what the files have of the source."""

    path: str
    place: ConfigPlace
    keys: tuple[tuple[str, str], ...]
    found: Manifest | None

    @property
    def key(self) -> tuple[ConfigKind, str]:
        return self.place.ref.kind, self.place.ref.name

    def is_versioned(self, spec: RolloutSpec) -> bool:
        annotations = mapping(mapping(mapping(self.found).get("metadata")).get("annotations"))
        if not spec.config_versioning.enabled or is_left_alone(annotations):
            return False
        return self.place.ref.kind is ConfigKind.CONFIG_MAP or spec.config_versioning.secrets


def configs_of(manifests: Iterable[Manifest]) -> FileConfigs:
    """The ConfigMaps and Secrets of files."""
    return {
        (namespace_of(manifest), kind, str(metadata.get("name") or "")): manifest
        for manifest in manifests
        if isinstance(metadata := manifest.get("metadata"), dict)
        for kind in ConfigKind
        if (manifest.get("apiVersion"), manifest.get("kind")) == ("v1", kind.value)
    }


def config_problems(document: Manifest, configs: FileConfigs) -> Iterator[Problem]:
    """Path and message for each key that pods need and a source in the files lacks. One that is not there has none here."""
    for asked in _all_asked(document, configs):
        if asked.found is None or asked.place.ref.optional:
            continue
        has = content_of(asked.place.ref.kind, asked.found).values
        for path, key in asked.keys:
            if key not in has:
                yield path, f"{asked.place.ref} in these files has no key {key!r}: the pods do not start without it"


def config_findings(document: Manifest, spec: RolloutSpec, configs: FileConfigs) -> Iterator[Finding]:
    """What to know about the sources of one Rollout, each source once."""
    every = list(_all_asked(document, configs))
    first = {asked.key: asked for asked in reversed(every)}
    required = {asked.key for asked in every if not asked.place.ref.optional}
    for key in sorted(first):
        asked, ref = first[key], first[key].place.ref
        if (source := _copied_from(asked, document, configs, first)) is not None:
            what = f"{ref} looks like a copy that the controller made, and it deletes copies that no revision has"
            yield Finding(Rule.CONFIG_COPY_NAMED, Severity.WARNING, asked.path, what, f"name {source} instead")
        elif asked.found is not None or key not in required:
            continue
        elif ref.kind is ConfigKind.CONFIG_MAP or spec.config_versioning.secrets:
            waits = "the rollout waits" if spec.config_versioning.enabled else "its pods do not start"
            what = f"{ref} is not in these files; {waits} if the cluster lacks it"
            fix = "nothing to do when it is in the cluster"
            yield Finding(Rule.CONFIG_MISSING, Severity.NOTE, asked.path, what, fix)
    yield from _sub_paths(document, spec, every)


def _copied_from(
    asked: _Asked, document: Manifest, configs: FileConfigs, named: Collection[tuple[ConfigKind, str]]
) -> str | None:
    """What a name that looks like a copy's is a copy of; None when it does not look like one.

    Hashes of Kustomize look the same, but then the source is nowhere, and the object itself is in the files.
    """
    kind, name = asked.key
    if asked.found is not None:
        labels = mapping(mapping(asked.found.get("metadata")).get("labels"))
        return "its source" if labels.get(CONFIG_COPY) == CONFIG_COPY_VALUE else None
    if (match := _COPY.fullmatch(name)) is None:
        return None
    known = (kind, match[1]) in named or (namespace_of(document), kind, match[1]) in configs
    return f"{kind} {match[1]}" if known else None


def _sub_paths(document: Manifest, spec: RolloutSpec, every: Iterable[_Asked]) -> Iterator[Finding]:
    """Mounts of one file of a source whose edits reach pods uncontrolled: this one they never reach."""
    pod = mapping(pod_template(document).get("spec"))
    volumes = f"{_ROOT}.spec.volumes["
    loose = {  # by the index of the volume
        int(asked.path.removeprefix(volumes).partition("]")[0]): asked.place.ref
        for asked in every
        if asked.path.startswith(volumes) and not asked.is_versioned(spec)
    }
    names = {volume.get("name"): index for index, volume in entries(pod.get("volumes"))}
    for field in ("containers", "initContainers"):
        for at, container in entries(pod.get(field)):
            for index, mount in entries(container.get("volumeMounts")):
                ref = loose.get(names.get(mount.get("name"), -1))
                if ref is not None and (mount.get("subPath") or mount.get("subPathExpr")):
                    path = f"{_ROOT}.spec.{field}[{at}].volumeMounts[{index}]"
                    what = f"an edit of {ref} never reaches a file that is mounted by subPath"
                    fix = "turn configVersioning on, or mount the whole volume"
                    yield Finding(Rule.CONFIG_SUB_PATH, Severity.NOTE, path, what, fix)


def _all_asked(document: Manifest, configs: FileConfigs) -> Iterator[_Asked]:
    template = pod_template(document)
    paths = dict(_paths(template, _ROOT))
    for place in places(template):
        holder, path = place.holder, paths[id(place.holder)]
        items = [(f"{path}.items[{index}].key", item.get("key")) for index, item in entries(holder.get("items"))]
        named = [(f"{path}.key", holder.get("key")), *items]
        keys = tuple((key_path, key) for key_path, key in named if isinstance(key, str))
        found = configs.get((namespace_of(document), place.ref.kind, place.ref.name))
        yield _Asked(path, place, keys, found)


def _paths(value: Any, path: str) -> Iterator[tuple[int, str]]:
    """The path of every object of a template, by its identity."""
    if isinstance(value, dict):
        yield id(value), path
        for name, item in value.items():
            yield from _paths(item, f"{path}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, f"{path}[{index}]")
