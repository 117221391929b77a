"""Which revision a spec means, with the contents of the ConfigMaps and Secrets that its template names.

What is not known holds the Rollout at the revision on record: an error is never read as absence, and a source that is missing
takes nothing from the pods that run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

from rollouts.core.config.content import config_revision, copy_name
from rollouts.core.config.copies import unchecked, used_copies
from rollouts.core.model.config import (
    ConfigHold,
    ConfigKind,
    ConfigPlan,
    ConfigRef,
    ConfigUse,
    CopySeen,
    Source,
    SourceAbsent,
    SourceKnown,
    SourceLeftAlone,
    SourceUnread,
)
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Rollout
from rollouts.core.model.snapshot import ReplicaSet, Snapshot
from rollouts.core.model.status import Verb

CLOCKS_APART_S = 60.0
"""A last change that is further in the future than this is nobody's clock: it counts as long ago."""

SPREAD_MAX_S = 60.0
SPREAD_EACH_S = 0.5
"""A source that n Rollouts share starts their updates within n/2 seconds, at most 60, instead of all at once."""


def config_plan(seen: Snapshot) -> ConfigPlan | None:
    """What the contents of the sources mean for the Rollout now; None when its template names no source. Pure."""
    spec = seen.rollout.spec
    if not spec.config_refs:
        return None
    on_record = revision_on_record(seen)
    sources = {ref: seen.sources.get((ref.kind, ref.name), SourceUnread()) for ref in spec.config_refs}
    if (unknown := _why_unknown(sources)) is not None:
        asks = [ref for ref, source in sources.items() if isinstance(source, SourceUnread) and source.asks]
        return ConfigPlan(revision=on_record, hold=unknown, unread=tuple(asks))
    uses = tuple(_uses(seen.rollout, sources))
    revision, baseline = _revision_and_baseline(seen, uses, on_record=on_record)
    if revision != on_record and (hold := _debounce_hold(seen, sources, on_record=on_record)) is not None:
        return ConfigPlan(revision=on_record, hold=hold)
    if revision == spec.template_hash:
        return ConfigPlan(revision=revision, uses=tuple([_by_name(use) for use in uses]), baseline=baseline)
    exists = any(replica_set.revision == revision for replica_set in seen.replica_sets)
    held = None if exists or not seen.copies else _held_by_copies(seen.copies, uses, on_record=on_record)
    return held or ConfigPlan(revision=revision, uses=uses)


def as_its_sources_say(seen: Snapshot) -> Snapshot:
    """The snapshot with the revision that the spec means with the contents of its sources, and the plan that follows."""
    plan = config_plan(seen)
    if plan is None:
        return seen
    spec = replace(seen.rollout.spec, revision=plan.revision)
    return replace(seen, rollout=replace(seen.rollout, spec=spec), config=plan)


def changed_sources(seen: Snapshot) -> str:
    """The sources with another content than in the revision on record, for people: `ConfigMap app-config and Secret token`."""
    plan = seen.config
    noted = _noted(seen.replica_sets, seen.status.current_revision)
    if plan is None or not noted:
        return ""
    changed = [use for use in plan.uses if (use.kind, use.source, use.content) not in noted]
    return " and ".join([f"{use.kind} {use.source}" for use in changed])


def revision_on_record(seen: Snapshot) -> str:
    """The revision that the spec was last known to mean; "" for a Rollout without a revision."""
    for command in seen.status.commands:
        if command.verb is Verb.ROLLBACK and command.holds:
            return command.revision
    if seen.status.current_revision:
        return seen.status.current_revision
    serving = [each for each in seen.replica_sets if each.spec_replicas > 0 and not each.deleting]
    return max(serving, key=lambda replica_set: replica_set.number).revision if serving else ""


def _why_unknown(sources: Mapping[ConfigRef, Source]) -> ConfigHold | None:
    unread = [source for source in sources.values() if isinstance(source, SourceUnread)]
    for source in unread:
        if source.needs_a_person:
            return ConfigHold(Reason.CONFIG_FORBIDDEN, source.message)
    if unread:
        return ConfigHold(Reason.CONFIG_NOT_READ, next((source.message for source in unread if source.message), ""))
    missing = [str(ref) for ref, source in sources.items() if isinstance(source, SourceAbsent) and not ref.optional]
    if missing:
        names, verb = " and ".join(missing), "does" if len(missing) == 1 else "do"
        message = f"{names} {verb} not exist: create it, or make its references optional"
        return ConfigHold(Reason.CONFIG_NOT_FOUND, message)
    return None


def _uses(rollout: Rollout, sources: Mapping[ConfigRef, Source]) -> Iterator[ConfigUse]:
    for ref, source in sources.items():
        match source:
            case SourceKnown(content=content, immutable=immutable):
                made = copy_name(ref.kind, rollout=rollout.name, source=ref.name, content=content)
                yield ConfigUse(
                    kind=ref.kind,
                    source=ref.name,
                    content=content,
                    copy="" if immutable else made,
                    uid=source.uid,
                    resource_version=source.resource_version,
                )
            case SourceAbsent():  # under the name of its copy it stays absent for this revision, whoever creates the source
                nowhere = copy_name(ref.kind, rollout=rollout.name, source=ref.name, content="")
                yield ConfigUse(kind=ref.kind, source=ref.name, content="", copy=nowhere)
            case SourceLeftAlone() | SourceUnread():
                pass
            case _:
                assert_never(source)


def _revision_and_baseline(
    seen: Snapshot, uses: tuple[ConfigUse, ...], *, on_record: str
) -> tuple[str, tuple[ConfigUse, ...] | None]:
    """The revision, and what to note on its ReplicaSet if that names the sources themselves.

    A ReplicaSet of an earlier version of this program has no note: the contents that are seen first are its own, so that no
    upgrade rolls out anything. If it is deleted, it is made again as it was.
    """
    template = seen.rollout.spec.template_hash
    by_name = next((replica_set for replica_set in seen.replica_sets if replica_set.revision == template), None)
    if by_name is None:
        return template if on_record == template else config_revision(template, uses), None
    noted = {(use.kind, use.source): use.content for use in by_name.config or ()}
    if any(noted.get((use.kind, use.source), use.content) != use.content for use in uses):
        return config_revision(template, uses), None
    complete = all((use.kind, use.source) in noted for use in uses)
    return template, None if complete else tuple([_by_name(use) for use in uses])


def _held_by_copies(copies: tuple[CopySeen, ...], uses: tuple[ConfigUse, ...], *, on_record: str) -> ConfigPlan | None:
    """The plan while a copy that the new ReplicaSet would name cannot be used, or nobody has compared it with its name yet."""
    named = {(use.kind, use.copy) for use in uses}
    problems = []
    for copy in copies:
        name = f"{copy.kind} {copy.name}"
        if (copy.kind, copy.name) not in named:
            continue
        if copy.deleting:  # once it is gone, it is made again
            stays = "if it stays, something has put a finalizer on it: remove that"
            problems.append(f"{name} is being deleted; {stays}")
        elif copy.problem:
            problems.append(copy.problem)
        elif copy.claimed:
            problems.append(f"{name} goes with an earlier Rollout of that name; if it stays, delete it")
    if problems:
        return ConfigPlan(revision=on_record, hold=ConfigHold(Reason.CONFIG_COPY_NOT_USABLE, "; ".join(problems)))
    unread = unchecked(used_copies(uses, copies))
    if not unread:
        return None
    names = {ref.name for ref in unread}
    failed = [copy.unread_because for copy in copies if copy.name in names and copy.unread_because]
    hold = ConfigHold(Reason.CONFIG_NOT_READ, "; ".join(failed))
    return ConfigPlan(revision=on_record, hold=hold, unread=unread)


def _by_name(use: ConfigUse) -> ConfigUse:
    return replace(use, copy="")


def _debounce_hold(seen: Snapshot, sources: Mapping[ConfigRef, Source], *, on_record: str) -> ConfigHold | None:
    """Why a change of a source does not start an update yet; None when it may, and when no revision is stable yet."""
    if not seen.status.stable_revision:
        return None
    rollout, noted = seen.rollout, _noted(seen.replica_sets, on_record)
    changed: list[tuple[float, float, ConfigRef]] = []  # when, and for how long other Rollouts go first
    for ref, source in sources.items():
        match source:
            case SourceKnown(content=content, changed_at_s=at_s):
                if (ref.kind, ref.name, content) not in noted and at_s <= seen.now_s + CLOCKS_APART_S:
                    changed.append((min(at_s, seen.now_s), _jitter_s(rollout, source), ref))
            case SourceAbsent(since_s=float(since_s)) if (ref.kind, ref.name, "") not in noted:
                changed.append((since_s, 0.0, ref))
    if not changed:
        return None
    settle_s = rollout.spec.config_versioning.settle_s
    begins_at_s, ref = max((at_s + settle_s + jitter_s, ref) for at_s, jitter_s, ref in changed)
    if begins_at_s <= seen.now_s:
        return None
    message = f"{ref} has changed: waiting for other changes that belong to it (configVersioning.settleSeconds)"
    if any(jitter_s for _, jitter_s, _ in changed):
        message = f"{message}; Rollouts that share it start one after another"
    return ConfigHold(Reason.CONFIG_SETTLING, message, deadline_s=begins_at_s)


def _noted(replica_sets: Iterable[ReplicaSet], revision: str) -> set[tuple[ConfigKind, str, str]]:
    return {
        (use.kind, use.source, use.content)
        for replica_set in replica_sets
        if replica_set.revision == revision
        for use in replica_set.config or ()
    }


def _jitter_s(rollout: Rollout, source: SourceKnown) -> float:
    """How long this Rollout lets others go first after a change of a source that they share: the same for the same change."""
    if source.shared_by < 2:
        return 0.0
    spread_s = min(SPREAD_MAX_S, SPREAD_EACH_S * source.shared_by)
    drawn = hashlib.sha256(f"{rollout.uid}/{source.content}".encode()).digest()
    return spread_s * int.from_bytes(drawn[:4], "big") / 2**32
