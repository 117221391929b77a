"""The places of a pod template that name ConfigMaps and Secrets.

Volumes of storage drivers and imagePullSecrets name Secrets too: these are credentials of a node, not configuration that a
container reads. Source of the places: https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.34/#podspec-v1-core
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from rollouts.core.model.config import ConfigKind, ConfigRef
from rollouts.objects import mapping, name_problem

OF_THE_CLUSTER = frozenset({"kube-root-ca.crt", "openshift-service-ca.crt", "istio-ca-root-cert", "istio-ca-crl"})
"""ConfigMaps that a cluster publishes in each namespace and keeps up to date: a pod must follow them, so they are left alone.
Source: kube-controller-manager's root-ca-cert-publisher, OpenShift's service CA, Istio's namespace controller."""

SOURCES_MAX = 256
"""How many sources of one template can be versioned. Their ReplicaSet notes them in an annotation, 0.7 KB for a name of 253
characters, and the API server takes 256 KiB of annotations. Source: `TotalAnnotationSizeLimitB` of apimachinery."""

_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_CONFIG_MAP, _SECRET = ConfigKind.CONFIG_MAP, ConfigKind.SECRET
_OF_A_KEY = (("configMapKeyRef", "name", _CONFIG_MAP), ("secretKeyRef", "name", _SECRET))
_OF_A_CONTAINER = (("configMapRef", "name", _CONFIG_MAP), ("secretRef", "name", _SECRET))
_OF_A_VOLUME = (("configMap", "name", _CONFIG_MAP), ("secret", "secretName", _SECRET))
_OF_A_PROJECTION = (("configMap", "name", _CONFIG_MAP), ("secret", "name", _SECRET))


class ConfigPlace(Struct, frozen=True):
    """One place of a template that names a source.

    Args:
        holder: the object of the template with the name in it.
        field: the name's field in it.
        ref: what it names there; `optional` as this place says.
    """

    holder: dict[str, Any]
    field: str
    ref: ConfigRef


def references(template: Mapping[str, Any], *, secrets: bool) -> tuple[ConfigRef, ...]:
    """What a pod template reads its configuration from: each source once, sorted by kind and name.

    Args:
        template: any JSON object; what has not the shape of a pod template is skipped.
        secrets: Secrets too.

    Raises: nothing.
    """
    optional_by_name: dict[tuple[ConfigKind, str], bool] = {}
    for place in places(template):
        ref = place.ref
        if secrets or ref.kind is not ConfigKind.SECRET:
            key = (ref.kind, ref.name)
            optional_by_name[key] = ref.optional and optional_by_name.get(key, True)
    return tuple(ConfigRef(kind, name, optional) for (kind, name), optional in sorted(optional_by_name.items()))


def places(template: Mapping[str, Any]) -> Iterator[ConfigPlace]:
    """Every place of the template that names a ConfigMap or Secret. A name that no object can have is none. Raises: nothing."""
    spec = mapping(template.get("spec"))
    for field in _CONTAINERS:
        for container in _objects(spec.get(field)):
            for variable in _objects(container.get("env")):
                yield from _named(mapping(variable.get("valueFrom")), _OF_A_KEY)
            for source in _objects(container.get("envFrom")):
                yield from _named(source, _OF_A_CONTAINER)
    for volume in _objects(spec.get("volumes")):
        yield from _named(volume, _OF_A_VOLUME)
        for source in _objects(mapping(volume.get("projected")).get("sources")):
            yield from _named(source, _OF_A_PROJECTION)


def _named(parent: Mapping[str, Any], forms: tuple[tuple[str, str, ConfigKind], ...]) -> Iterator[ConfigPlace]:
    for source, field, kind in forms:
        holder = parent.get(source)
        name = holder.get(field) if isinstance(holder, dict) else None
        if not isinstance(holder, dict) or not isinstance(name, str) or name_problem(name):
            continue
        if kind is ConfigKind.SECRET or name not in OF_THE_CLUSTER:
            yield ConfigPlace(holder, field, ConfigRef(kind, name, optional=holder.get("optional") is True))


def _objects(value: object) -> Iterator[Mapping[str, Any]]:
    return (entry for entry in value if isinstance(entry, Mapping)) if isinstance(value, list) else iter(())
