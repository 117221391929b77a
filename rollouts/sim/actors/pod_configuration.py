"""What the containers of a pod read from ConfigMaps and Secrets.

Variables when they begin, volumes again after each change, subPaths once.

Source: https://kubernetes.io/docs/concepts/configuration/configmap/#mounted-configmaps-are-updated-automatically
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import TypeAlias

from msgspec import Struct, field

from rollouts.objects import CONFIG_MAP, SECRET, Kind, Manifest

CREATE_ERROR = "CreateContainerConfigError"
CREATING = "ContainerCreating"
WAITS = frozenset({CREATE_ERROR, CREATING})
"""Why a container waits whose configuration is missing; the kubelet looks again."""

FindSource: TypeAlias = Callable[[Kind, str], Manifest | None]
"""The ConfigMap or Secret of that name in the pod's namespace; None when there is none."""

_Source: TypeAlias = tuple[Kind, str, Manifest]
"""The kind and the name of what is read, and the place that names it."""


class MissingError(Exception):
    """Containers cannot begin; `reason` is the kubelet's word for it."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class PodConfiguration(Struct, frozen=True):
    """What the containers of one pod read now: variables, volumes with the content of each file, subPaths by mount path."""

    variables: dict[str, str] = field(default_factory=dict)
    volumes: dict[str, dict[str, str]] = field(default_factory=dict)
    sub_paths: dict[str, str] = field(default_factory=dict)

    def follow(self, spec: Manifest, kind: Kind, name: str, find: FindSource) -> None:
        """Mounts a ConfigMap or Secret again that has changed; one that is gone leaves the files as they are."""
        for volume in spec.get("volumes") or ():
            if (kind, name) in _names(volume) and find(kind, name) is not None:
                try:
                    self.volumes[volume["name"]] = _files(volume, find)
                except MissingError:
                    continue


def configuration(spec: Manifest, find: FindSource) -> PodConfiguration:
    """What containers read that begin now. Raises: MissingError."""
    read = PodConfiguration()
    for volume in spec.get("volumes") or ():
        if _names(volume):
            read.volumes[volume["name"]] = _files(volume, find)
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        read.variables.update(_variables(container, find))
        for mount in container.get("volumeMounts") or ():
            files = read.volumes.get(mount["name"], {})
            if mount.get("subPath") in files:
                read.sub_paths[mount["mountPath"]] = files[mount["subPath"]]
    return read


def _variables(container: Manifest, find: FindSource) -> dict[str, str]:
    variables: dict[str, str] = {}
    for given in container.get("envFrom") or ():
        for source in _named(given, "Ref"):
            data = _data(source, find, CREATE_ERROR)
            variables |= {f"{given.get('prefix', '')}{key}": value for key, value in data.items()}
    for variable in container.get("env") or ():
        for source in _named(variable.get("valueFrom") or {}, "KeyRef"):
            kind, name, ref = source
            data = _data(source, find, CREATE_ERROR)
            if ref["key"] in data:
                variables[variable["name"]] = data[ref["key"]]
            elif not ref.get("optional"):
                raise MissingError(CREATE_ERROR, f"couldn't find key {ref['key']} in {kind.kind} {name}")
    return variables


def _named(place: Manifest, ending: str) -> Iterator[_Source]:
    for name, kind in ((f"configMap{ending}", CONFIG_MAP), (f"secret{ending}", SECRET)):
        if (ref := place.get(name)) is not None:
            yield kind, ref["name"], ref


def _sources(volume: Manifest) -> Iterator[_Source]:
    if (secret := volume.get("secret")) is not None:
        yield SECRET, secret["secretName"], secret
    projected = (volume.get("projected") or {}).get("sources") or ()
    for place in ({"configMap": volume.get("configMap")}, *projected):
        yield from _named(place, "")


def _names(volume: Manifest) -> set[tuple[Kind, str]]:
    return {(kind, name) for kind, name, _ in _sources(volume)}


def _files(volume: Manifest, find: FindSource) -> dict[str, str]:
    files: dict[str, str] = {}
    for source in _sources(volume):
        data = _data(source, find, CREATING)
        items = source[2].get("items")
        paths = {item["key"]: item["path"] for item in items} if items else {key: key for key in data}
        files |= {path: data[key] for key, path in paths.items() if key in data}
    return files


def _data(source: _Source, find: FindSource, reason: str) -> dict[str, str]:
    kind, name, ref = source
    stored = find(kind, name)
    if stored is None and not ref.get("optional"):
        raise MissingError(reason, f'{kind.kind.lower()} "{name}" not found')
    data = (stored or {}).get("data") or {}
    if kind == SECRET:
        return {key: base64.b64decode(value).decode() for key, value in data.items()}
    return {**((stored or {}).get("binaryData") or {}), **data}
