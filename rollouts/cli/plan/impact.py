"""Which Rollouts of a namespace the ConfigMaps and Secrets in a file start, for `rollouts plan`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct

from rollouts.api.spec.parse import parse_spec
from rollouts.cli.kubernetes.parts import is_a
from rollouts.cli.plan.config import NotReadable, ObjectRead, SourceReader, known_source, unchanged_source
from rollouts.cli.plan.live import Live, snapshot_of, with_file
from rollouts.cli.view.config import content_of, key_changes, uses_of
from rollouts.cli.view.follow import Collection, list_all
from rollouts.cli.view.objects import controlled_by, revision_of, status_of
from rollouts.controller.facts.proxies import ClusterFacts
from rollouts.core.config.target import config_plan
from rollouts.core.model.config import ConfigKind, Source
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import RolloutSpec
from rollouts.errors import ApiForbidden, RolloutsError, SpecInvalid
from rollouts.manifests.config_copy import kind_of
from rollouts.manifests.ownership import NAME
from rollouts.objects import REPLICA_SET, ROLLOUT, Kind, Manifest

SourceId: TypeAlias = tuple[ConfigKind, str]
"""Kind and name, in one namespace."""


class ConfigImpact(Struct, frozen=True, kw_only=True, rename={"keys": "changedKeys"}):
    """A ConfigMap or Secret in the file, and the names of the Rollouts that begin an update because of it.

    What may not be read is None: whether it is in the cluster, and which keys the file changes.
    """

    kind: ConfigKind = ConfigKind.CONFIG_MAP
    namespace: str
    name: str
    exists: bool | None
    keys: tuple[str, ...] | None
    starts: tuple[str, ...] = ()


class _Named(Struct, frozen=True):
    """A Rollout that can be read, with what the controller needs to know which revision its spec means."""

    rollout: Manifest
    spec: RolloutSpec

    @property
    def refs(self) -> frozenset[SourceId]:
        """The sources that it versions."""
        return frozenset((ref.kind, ref.name) for ref in self.spec.config_refs)


async def read_impacts(
    reader: SourceReader, rollouts: Iterable[Manifest], *, facts: ClusterFacts
) -> tuple[ConfigImpact, ...]:
    """Reads what the sources in the file change, and which Rollouts, in the file or in the cluster, they start.

    Of Secrets only those are read that a Rollout versions.

    Raises: what `Client` raises. Without the right to list, only the Rollouts of the file are known.
    """
    default, rollouts = reader.session.namespace, tuple(rollouts)
    by_namespace: dict[str, dict[SourceId, Manifest]] = {}
    for manifest in reader.manifests:
        if (source := source_of(manifest)) is not None:
            by_namespace.setdefault(_namespace(manifest, default), {})[source] = manifest
    impacts: list[ConfigImpact] = []
    for namespace, in_file in sorted(by_namespace.items()):
        named = await _rollouts_of(reader, rollouts, namespace)
        versioned = frozenset(source for candidate in named for source in candidate.refs)
        looked_at = {
            source: manifest
            for source, manifest in in_file.items()
            if source[0] is ConfigKind.CONFIG_MAP or source in versioned
        }
        impacts += await _impacts_in(reader, namespace, looked_at, named, facts)
    return tuple(impacts)


async def _impacts_in(
    reader: SourceReader,
    namespace: str,
    in_file: Mapping[SourceId, Manifest],
    named: list[_Named],
    facts: ClusterFacts,
) -> list[ConfigImpact]:
    live = {source: await reader.in_cluster(source[0], namespace, source[1]) for source in in_file}
    hash_keys = {kind: await reader.hash_key(kind, namespace) or b"" for kind, _ in in_file}
    replica_sets = await _listed(reader, REPLICA_SET, namespace) if named else ()
    starts: dict[SourceId, list[str]] = {source: [] for source in in_file}
    for candidate in named:
        for source in _starting(reader, candidate, replica_sets, in_file, live, hash_keys, facts=facts):
            starts[source].append(candidate.rollout["metadata"]["name"])
    return [_impact(namespace, source, in_file[source], live[source], starts[source]) for source in sorted(in_file)]


def source_of(manifest: Manifest) -> SourceId | None:
    """Kind and name of a ConfigMap or Secret with a name; None for another object."""
    name = (manifest.get("metadata") or {}).get("name")
    kind = next((kind for kind in ConfigKind if is_a(manifest, kind_of(kind))), None)
    return (kind, str(name)) if kind is not None and name else None


async def _rollouts_of(reader: SourceReader, in_file: Iterable[Manifest], namespace: str) -> list[_Named]:
    rollouts = {rollout["metadata"]["name"]: rollout for rollout in await _listed(reader, ROLLOUT, namespace)}
    for rollout in in_file:
        name = rollout["metadata"].get("name")
        if name in rollouts and _namespace(rollout, reader.session.namespace) == namespace:
            rollouts[name] = with_file(rollout, rollouts[name], namespace=namespace)
    named = []
    for rollout in rollouts.values():
        try:
            spec = parse_spec(rollout["spec"])
        except SpecInvalid:
            continue
        if spec.config_refs:
            named.append(_Named(rollout, spec))
    return named


def _impact(
    namespace: str, source: SourceId, in_file: Manifest, live: ObjectRead, starts: Iterable[str]
) -> ConfigImpact:
    kind, name = source
    exists = keys = None
    if not isinstance(live, NotReadable):
        before = content_of(kind, live) if live is not None else None
        keys = tuple(change.key for change in key_changes(kind, before, content_of(kind, in_file)))
        exists = live is not None
    return ConfigImpact(kind=kind, namespace=namespace, name=name, exists=exists, keys=keys, starts=tuple(starts))


def _starting(
    reader: SourceReader,
    named: _Named,
    replica_sets: Iterable[Manifest],
    in_file: Mapping[SourceId, Manifest],
    live: Mapping[SourceId, ObjectRead],
    hash_keys: Mapping[ConfigKind, bytes],
    *,
    facts: ClusterFacts,
) -> list[SourceId]:
    """The sources of the file by which this Rollout begins an update: with their new content its revision is another one."""
    changing = sorted(named.refs & in_file.keys())
    if not changing:
        return []
    rollout = named.rollout
    own = tuple(replica_set for replica_set in replica_sets if controlled_by(replica_set, rollout))
    current = status_of(rollout).current_revision
    running = {
        (use.kind, use.source): use
        for replica_set in own
        if revision_of(replica_set) == current
        for use in uses_of(replica_set)
    }
    known: dict[SourceId, Source] = {}
    for source in named.refs:
        kind, found = source[0], live.get(source)
        if isinstance(found, dict):
            known[source] = known_source(kind, found, key=hash_keys.get(kind, b""))
        else:
            known[source] = unchanged_source(running.get(source))
    try:
        seen = snapshot_of(rollout, Live(rollout=rollout, replica_sets=own), clock=reader.session.clock, facts=facts)
    except RolloutsError:
        return []
    seen = replace(seen, rollout=replace(seen.rollout, spec=named.spec))
    now = config_plan(replace(seen, sources=known))
    starting = []
    for source in changing:
        kind = source[0]
        then_known = {**known, source: known_source(kind, in_file[source], key=hash_keys[kind])}
        then = config_plan(replace(seen, sources=then_known))
        if now is not None and then is not None and now.revision != then.revision:
            starting.append(source)
    return starting


async def _listed(reader: SourceReader, kind: Kind, namespace: str) -> tuple[Manifest, ...]:
    query = {"labelSelector": NAME} if kind is REPLICA_SET else {}
    try:
        return (await list_all(reader.session, Collection(kind=kind, namespace=namespace, query=query)))[0]
    except ApiForbidden:
        return ()


def _namespace(manifest: Manifest, default: str) -> str:
    return str((manifest.get("metadata") or {}).get("namespace") or default)
