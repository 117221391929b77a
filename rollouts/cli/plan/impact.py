"""Which Rollouts of a namespace the ConfigMaps in a file start, for `rollouts plan`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from rollouts.api.spec.parse import parse_spec
from rollouts.cli.plan.config import NotReadable, ObjectRead, SourceReader, as_it_is, as_unchanged
from rollouts.cli.plan.live import Live, snapshot_of, with_file
from rollouts.cli.view.config import content_of, key_changes, uses_of
from rollouts.cli.view.follow import Collection, list_all
from rollouts.cli.view.objects import controlled_by, revision_of, status_of
from rollouts.controller.facts.proxies import ClusterFacts
from rollouts.core.config.target import config_plan
from rollouts.core.model.config import ConfigKind, Source
from rollouts.errors import ApiForbidden, RolloutsError, SpecInvalid
from rollouts.manifests.ownership import NAME
from rollouts.objects import CONFIG_MAP, REPLICA_SET, ROLLOUT, Kind, Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigImpact:
    """A ConfigMap in the file, and what applying it does.

    Args:
        exists: it is in the cluster; None when that may not be read.
        keys: that the file changes; () for none, None when that is not known.
        starts: names of the Rollouts that begin an update because of it.
    """

    namespace: str
    name: str
    exists: bool | None
    keys: tuple[str, ...] | None
    starts: tuple[str, ...] = ()


def impact_as_json(impact: ConfigImpact) -> dict[str, Any]:
    """The impact as data."""
    keys = None if impact.keys is None else list(impact.keys)
    names = {"namespace": impact.namespace, "name": impact.name}
    return {**names, "exists": impact.exists, "changedKeys": keys, "starts": list(impact.starts)}


async def read_impacts(
    reader: SourceReader, rollouts: Iterable[Manifest], *, facts: ClusterFacts
) -> tuple[ConfigImpact, ...]:
    """Reads what the ConfigMaps in the file change, and which Rollouts, in the file or in the cluster, they start.

    Args:
        rollouts: those in the file.

    Raises: what `Client` raises. Without the right to list, only the Rollouts of the file are known.
    """
    session, in_file = reader.session, tuple(rollouts)
    found = [each for each in reader.manifests if is_config_map(each)]
    impacts = []
    for namespace in sorted({_namespace(each, session.namespace) for each in found}):
        maps = {each["metadata"]["name"]: each for each in found if _namespace(each, session.namespace) == namespace}
        live = {name: await reader.in_cluster(ConfigKind.CONFIG_MAP, namespace, name) for name in maps}
        there = {each["metadata"]["name"]: each for each in await _listed(reader, ROLLOUT, namespace)}
        for each in in_file:
            name = each["metadata"].get("name")
            if name in there and _namespace(each, session.namespace) == namespace:
                there[name] = with_file(each, there[name], namespace=namespace)
        replica_sets = await _listed(reader, REPLICA_SET, namespace) if there else ()
        starts: dict[str, list[str]] = {name: [] for name in maps}
        for rollout in there.values():
            for name in _starting(reader, rollout, replica_sets, maps, live, facts=facts):
                starts[name].append(rollout["metadata"]["name"])
        impacts += [_impact(namespace, each, live[name], starts[name]) for name, each in sorted(maps.items())]
    return tuple(impacts)


def is_config_map(manifest: Manifest) -> bool:
    """Whether it is a ConfigMap with a name."""
    is_one = (manifest.get("apiVersion"), manifest.get("kind")) == (CONFIG_MAP.api_version, CONFIG_MAP.kind)
    return is_one and bool((manifest.get("metadata") or {}).get("name"))


def _impact(namespace: str, in_file: Manifest, live: ObjectRead, starts: Iterable[str]) -> ConfigImpact:
    name, kind = in_file["metadata"]["name"], ConfigKind.CONFIG_MAP
    if isinstance(live, NotReadable):
        return ConfigImpact(namespace=namespace, name=name, exists=None, keys=None, starts=tuple(starts))
    before = content_of(kind, live) if live is not None else None
    keys = tuple(each.key for each in key_changes(kind, before, content_of(kind, in_file)))
    return ConfigImpact(namespace=namespace, name=name, exists=live is not None, keys=keys, starts=tuple(starts))


def _starting(
    reader: SourceReader,
    rollout: Manifest,
    replica_sets: Iterable[Manifest],
    maps: dict[str, Manifest],
    live: dict[str, ObjectRead],
    *,
    facts: ClusterFacts,
) -> list[str]:
    """The ConfigMaps of the file by which this Rollout begins an update: with their new content its revision is another one."""
    try:
        spec = parse_spec(rollout["spec"])
    except SpecInvalid:
        return []
    named = [ref.name for ref in spec.config_refs if ref.kind is ConfigKind.CONFIG_MAP and ref.name in maps]
    if not named:
        return []
    own = tuple(each for each in replica_sets if controlled_by(each, rollout))
    current = status_of(rollout).current_revision
    running = {(use.kind, use.source): use for each in own if revision_of(each) == current for use in uses_of(each)}
    sources: dict[tuple[ConfigKind, str], Source] = {}
    for ref in spec.config_refs:
        found = live.get(ref.name) if ref.kind is ConfigKind.CONFIG_MAP else None
        before = running.get((ref.kind, ref.name))
        sources[ref.kind, ref.name] = as_it_is(ref.kind, found) if isinstance(found, dict) else as_unchanged(before)
    try:
        seen = snapshot_of(rollout, Live(rollout=rollout, replica_sets=own), clock=reader.session.clock, facts=facts)
    except RolloutsError:
        return []
    seen = replace(seen, rollout=replace(seen.rollout, spec=spec))
    now = config_plan(replace(seen, sources=sources))
    starting = []
    for name in named:
        changed = {**sources, (ConfigKind.CONFIG_MAP, name): as_it_is(ConfigKind.CONFIG_MAP, maps[name])}
        then = config_plan(replace(seen, sources=changed))
        if now is not None and then is not None and now.revision != then.revision:
            starting.append(name)
    return starting


async def _listed(reader: SourceReader, kind: Kind, namespace: str) -> tuple[Manifest, ...]:
    query = {"labelSelector": NAME} if kind is REPLICA_SET else {}
    try:
        return (await list_all(reader.session, Collection(kind=kind, namespace=namespace, query=query)))[0]
    except ApiForbidden:
        return ()


def _namespace(manifest: Manifest, default: str) -> str:
    return str((manifest.get("metadata") or {}).get("namespace") or default)
