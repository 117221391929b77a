"""Discovery: the documents `/version`, `/api`, `/apis`, and the list of types for each version."""

from __future__ import annotations

from collections.abc import Iterable

from rollouts.objects import POD, Manifest
from rollouts.sim.storage.refusals import NoSuchPath
from rollouts.sim.storage.registry import Registry, Resource

VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.1+simulated", "platform": "simulated"}
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def document(registry: Registry, path: str, aggregated: Iterable[tuple[str, str]] = ()) -> Manifest:
    """The discovery document at a path, with groups that other servers answer, which list their types themselves.

    Raises: Refused (404).
    """
    steps = path.strip("/").split("/")
    match steps:
        case ["version"]:
            return dict(VERSION)
        case ["healthz" | "livez" | "readyz"]:
            return {"status": "ok"}
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["api", "v1"]:
            return _resources(registry, "", "v1")
        case ["apis"]:
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": _groups(registry, aggregated)}
        case ["apis", group]:
            for listed in _groups(registry, aggregated):
                if listed["name"] == group:
                    return {"kind": "APIGroup", "apiVersion": "v1", **listed}
            raise NoSuchPath
        case ["apis", group, version]:
            return _resources(registry, group, version)
        case _:
            raise NoSuchPath


def _groups(registry: Registry, aggregated: Iterable[tuple[str, str]]) -> list[Manifest]:
    versions: dict[str, list[str]] = {}
    kinds = ((resource.kind.group, resource.kind.version) for resource in registry.all())
    for group, version in (*kinds, *aggregated):
        if group and version not in versions.setdefault(group, []):
            versions[group].append(version)
    groups = []
    for name, names in sorted(versions.items()):
        served = [{"groupVersion": f"{name}/{version}", "version": version} for version in names]
        groups.append({"name": name, "versions": served, "preferredVersion": served[0]})
    return groups


def _resources(registry: Registry, group: str, version: str) -> Manifest:
    served = [item for item in registry.all() if (item.kind.group, item.kind.version) == (group, version)]
    if not served:
        raise NoSuchPath
    group_version = f"{group}/{version}" if group else version
    types = [part for resource in served for part in _types(resource)]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": types}


def _types(resource: Resource) -> list[Manifest]:
    kind = resource.kind
    whole: Manifest = {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": _VERBS,
    }
    if resource.short_names:
        whole["shortNames"] = list(resource.short_names)
    if resource.categories:
        whole["categories"] = list(resource.categories)
    types = [whole]
    part = {"singularName": "", "namespaced": kind.namespaced, "kind": kind.kind, "verbs": ["get", "patch", "update"]}
    if resource.has_status:
        types.append({**part, "name": f"{kind.plural}/status"})
    if resource.scale:
        scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        types.append({**part, **scale, "name": f"{kind.plural}/scale"})
    if kind == POD:
        eviction = {"group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"]}
        types.append({**part, **eviction, "name": "pods/eviction"})
    return types
