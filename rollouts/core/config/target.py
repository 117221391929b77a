"""Which revision a spec means, with the contents of the ConfigMaps and Secrets that its template names.

What is not known holds the Rollout at the revision on record: an error is never read as absence, and a source that is missing
takes nothing from the pods that run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import assert_never

from rollouts.core.config.content import config_revision, copy_name
from rollouts.core.config.replaced import unchecked, used_copies
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
    on_record = _on_record(seen)
    sources = {ref: seen.sources.get((ref.kind, ref.name), SourceUnread()) for ref in spec.config_refs}
    if (unknown := _unknown(sources)) is not None:
        asks = [ref for ref, each in sources.items() if isinstance(each, SourceUnread) and each.asks]
        return ConfigPlan(revision=on_record, hold=unknown, unread=tuple(asks))
    uses = tuple([use for ref, each in sources.items() if (use := _use(seen.rollout, ref, each)) is not None])
    revision, baseline = _revision(seen, uses, on_record=on_record)
    if revision != on_record and (settling := _settling(seen, sources, on_record=on_record)) is not None:
        return ConfigPlan(revision=on_record, hold=settling)
    if revision == spec.template_hash:
        return ConfigPlan(revision=revision, uses=tuple([_by_name(each) for each in uses]), baseline=baseline)
    if (unusable := _unusable(seen, revision, uses)) is not None:
        return ConfigPlan(revision=on_record, hold=unusable)
    if unread := _not_compared(seen, revision, uses):
        return ConfigPlan(revision=on_record, hold=_reading(seen, unread), unread=unread)
    return ConfigPlan(revision=revision, uses=uses)


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
    changed = [each for each in plan.uses if (each.kind, each.source, each.content) not in noted]
    return " and ".join([f"{each.kind} {each.source}" for each in changed])


def _on_record(seen: Snapshot) -> str:
    """The revision that the spec was last known to mean; "" for a Rollout without a revision."""
    for command in seen.status.commands:
        if command.verb is Verb.ROLLBACK and command.holds:
            return command.revision
    if seen.status.current_revision:
        return seen.status.current_revision
    serving = [each for each in seen.replica_sets if each.spec_replicas > 0 and not each.deleting]
    return max(serving, key=lambda each: each.number).revision if serving else ""


def _unknown(sources: Mapping[ConfigRef, Source]) -> ConfigHold | None:
    """Why the contents are not known; None when they are."""
    unread = [each for each in sources.values() if isinstance(each, SourceUnread)]
    for source in unread:
        if source.needs_a_person:
            return ConfigHold(Reason.CONFIG_FORBIDDEN, source.message)
    if unread:
        return ConfigHold(Reason.CONFIG_NOT_READ, next((each.message for each in unread if each.message), ""))
    missing = [str(ref) for ref, source in sources.items() if isinstance(source, SourceAbsent) and not ref.optional]
    if missing:
        names, verb = " and ".join(missing), "does" if len(missing) == 1 else "do"
        message = f"{names} {verb} not exist: create it, or make its references optional"
        return ConfigHold(Reason.CONFIG_NOT_FOUND, message)
    return None


def _use(rollout: Rollout, ref: ConfigRef, source: Source) -> ConfigUse | None:
    match source:
        case SourceKnown(content=content, immutable=immutable):
            made = copy_name(ref.kind, rollout=rollout.name, source=ref.name, content=content)
            return ConfigUse(
                kind=ref.kind,
                source=ref.name,
                content=content,
                copy="" if immutable else made,
                uid=source.uid,
                resource_version=source.resource_version,
            )
        case SourceAbsent():  # under the name of its copy it stays absent for this revision, whoever creates the source
            nowhere = copy_name(ref.kind, rollout=rollout.name, source=ref.name, content="")
            return ConfigUse(kind=ref.kind, source=ref.name, content="", copy=nowhere)
        case SourceLeftAlone() | SourceUnread():
            return None
        case _:
            assert_never(source)


def _revision(
    seen: Snapshot, uses: tuple[ConfigUse, ...], *, on_record: str
) -> tuple[str, tuple[ConfigUse, ...] | None]:
    """The revision, and what to note on its ReplicaSet if that names the sources themselves.

    A ReplicaSet of an earlier version of this program has no note: the contents that are seen first are its own, so that no
    upgrade rolls out anything. If it is deleted, it is made again as it was.
    """
    template = seen.rollout.spec.template_hash
    by_name = next((each for each in seen.replica_sets if each.revision == template), None)
    if not uses or (by_name is None and on_record == template):
        return template, None
    if by_name is not None:
        noted = {(each.kind, each.source): each.content for each in by_name.config or ()}
        if all(noted.get((each.kind, each.source), each.content) == each.content for each in uses):
            complete = all((each.kind, each.source) in noted for each in uses)
            return template, None if complete else tuple([_by_name(each) for each in uses])
    return config_revision(template, uses), None


def _unusable(seen: Snapshot, revision: str, uses: tuple[ConfigUse, ...]) -> ConfigHold | None:
    """Why a copy that the new ReplicaSet would name cannot be used; None once the ReplicaSet exists."""
    if any(each.revision == revision for each in seen.replica_sets):
        return None
    named = {(each.kind, each.copy) for each in uses}
    problems = [why for each in seen.copies if (each.kind, each.name) in named and (why := _why_unusable(each))]
    return ConfigHold(Reason.CONFIG_COPY_NOT_USABLE, "; ".join(problems)) if problems else None


def _not_compared(seen: Snapshot, revision: str, uses: tuple[ConfigUse, ...]) -> tuple[ConfigRef, ...]:
    """The copies that are there already, and that nobody has compared with their names yet; none once the ReplicaSet exists."""
    exists = not seen.copies or any(each.revision == revision for each in seen.replica_sets)
    return () if exists else unchecked(used_copies(uses, seen.copies))


def _reading(seen: Snapshot, unread: tuple[ConfigRef, ...]) -> ConfigHold:
    names = {ref.name for ref in unread}
    failed = [each.unread_because for each in seen.copies if each.name in names and each.unread_because]
    return ConfigHold(Reason.CONFIG_NOT_READ, "; ".join(failed))


def _why_unusable(copy: CopySeen) -> str:
    """Why a copy under that name cannot be used now, and what helps; "" when it can. One that goes is made again after that."""
    if copy.deleting:
        return (
            f"{copy.kind} {copy.name} is being deleted; if it stays, something has put a finalizer on it: remove that"
        )
    if copy.claimed and not copy.problem:
        return f"{copy.kind} {copy.name} goes with an earlier Rollout of that name; if it stays, delete it"
    return copy.problem


def _by_name(use: ConfigUse) -> ConfigUse:
    return replace(use, copy="")


def _settling(seen: Snapshot, sources: Mapping[ConfigRef, Source], *, on_record: str) -> ConfigHold | None:
    """Why a change of a source does not start an update yet; None when it may, and when no revision is stable yet."""
    if not seen.status.stable_revision:
        return None
    changed = list(_changed(seen, sources, on_record=on_record))
    if not changed:
        return None
    settle_s = seen.rollout.spec.config_versioning.settle_s
    at_s, ref = max((at_s + settle_s + _turn_s(seen.rollout, source), ref) for ref, source, at_s in changed)
    if at_s <= seen.now_s:
        return None
    message = f"{ref} has changed: waiting for other changes that belong to it (configVersioning.settleSeconds)"
    if any(_turn_s(seen.rollout, source) for _, source, _ in changed):
        message = f"{message}; Rollouts that share it start one after another"
    return ConfigHold(Reason.CONFIG_SETTLING, message, deadline_s=at_s)


def _changed(
    seen: Snapshot, sources: Mapping[ConfigRef, Source], *, on_record: str
) -> Iterable[tuple[ConfigRef, Source, float]]:
    """The sources with another content than in the revision on record, and when each changed."""
    noted = _noted(seen.replica_sets, on_record)
    for ref, source in sources.items():
        match source:
            case SourceKnown(content=content, changed_at_s=at_s):
                if (ref.kind, ref.name, content) not in noted and at_s <= seen.now_s + CLOCKS_APART_S:
                    yield ref, source, min(at_s, seen.now_s)
            case SourceAbsent(since_s=float(since_s)):
                if (ref.kind, ref.name, "") not in noted:
                    yield ref, source, since_s
            case _:
                pass


def _noted(replica_sets: Iterable[ReplicaSet], revision: str) -> set[tuple[ConfigKind, str, str]]:
    return {
        (use.kind, use.source, use.content)
        for each in replica_sets
        if each.revision == revision
        for use in each.config or ()
    }


def _turn_s(rollout: Rollout, source: Source) -> float:
    """How long this Rollout lets others go first after a change of a source that they share: the same for the same change."""
    if not isinstance(source, SourceKnown) or source.shared_by < 2:
        return 0.0
    spread_s = min(SPREAD_MAX_S, SPREAD_EACH_S * source.shared_by)
    drawn = hashlib.sha256(f"{rollout.uid}/{source.content}".encode()).digest()
    return spread_s * int.from_bytes(drawn[:4], "big") / 2**32
