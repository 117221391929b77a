"""What the containers of a pod read from ConfigMaps: variables when they begin, volumes again after each change, subPaths once.

Source: https://kubernetes.io/docs/concepts/configuration/configmap/#mounted-configmaps-are-updated-automatically
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rollouts.objects import Manifest

CREATE_ERROR = "CreateContainerConfigError"
CREATING = "ContainerCreating"
WAITS = frozenset({CREATE_ERROR, CREATING})
"""Why a container waits whose configuration is missing; the kubelet looks again."""

FindConfigMap: TypeAlias = Callable[[str], Manifest | None]
"""The ConfigMap of that name in the pod's namespace; None when there is none."""


class MissingError(Exception):
    """Containers cannot begin.

    Args:
        reason: the kubelet's word for it.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class PodConfiguration:
    """What the containers of one pod read now.

    Args:
        variables: by name.
        volumes: by name: the content of each file.
        sub_paths: by mount path: the content of the file.
    """

    variables: dict[str, str] = field(default_factory=dict)
    volumes: dict[str, dict[str, str]] = field(default_factory=dict)
    sub_paths: dict[str, str] = field(default_factory=dict)

    def follow(self, spec: Manifest, name: str, find: FindConfigMap) -> None:
        """Mounts a ConfigMap again that has changed; one that is gone leaves the files as they are."""
        for volume in spec.get("volumes") or ():
            if name in _names(volume) and find(name) is not None:
                try:
                    self.volumes[volume["name"]] = _files(volume, find)
                except MissingError:
                    continue


def configuration(spec: Manifest, find: FindConfigMap) -> PodConfiguration:
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


def _variables(container: Manifest, find: FindConfigMap) -> dict[str, str]:
    found: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        if (ref := source.get("configMapRef")) is not None:
            data = _data(ref, find, CREATE_ERROR)
            found |= {f"{source.get('prefix', '')}{key}": value for key, value in data.items()}
    for variable in container.get("env") or ():
        ref = (variable.get("valueFrom") or {}).get("configMapKeyRef")
        if ref is None:
            continue
        data = _data(ref, find, CREATE_ERROR)
        if ref["key"] in data:
            found[variable["name"]] = data[ref["key"]]
        elif not ref.get("optional"):
            raise MissingError(CREATE_ERROR, f"couldn't find key {ref['key']} in ConfigMap {ref['name']}")
    return found


def _sources(volume: Manifest) -> Iterator[Manifest]:
    given: Iterable[Any] = (volume, *((volume.get("projected") or {}).get("sources") or ()))
    return (each["configMap"] for each in given if each.get("configMap"))


def _names(volume: Manifest) -> set[str]:
    return {source["name"] for source in _sources(volume)}


def _files(volume: Manifest, find: FindConfigMap) -> dict[str, str]:
    files: dict[str, str] = {}
    for source in _sources(volume):
        data = _data(source, find, CREATING)
        items = source.get("items")
        paths = {each["key"]: each["path"] for each in items} if items else {key: key for key in data}
        files |= {path: data[key] for key, path in paths.items() if key in data}
    return files


def _data(ref: Manifest, find: FindConfigMap, reason: str) -> dict[str, str]:
    found = find(ref["name"])
    if found is None and not ref.get("optional"):
        raise MissingError(reason, f'configmap "{ref["name"]}" not found')
    found = found or {}
    return {**(found.get("binaryData") or {}), **(found.get("data") or {})}
