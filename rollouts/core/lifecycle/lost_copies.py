"""Copies that somebody deleted or replaced.

Lost ones are made again while their sources have the same content, and told when they have not. No ReplicaSet gets its first pods
with a copy that is gone or is not what its name says; conditions tell both.

Copies of ConfigMaps are watched. Of a Secret's copy nobody knows whether it is there, so it is asked about: while pods of its
ReplicaSet are not ready, which may wait for it, and from then on until it is there again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rollouts.core.config.copies import (
    additional_refs,
    forged_uses,
    lost_uses,
    sources_of_lost,
    unchecked,
    used_copies,
    uses_of,
    uses_too_late,
    younger_copies,
)
from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait, earliest
from rollouts.core.model.config import ConfigKind, ConfigUse, SourceAbsent, SourceKnown, SourceLeftAlone, SourceUnread
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    AskConfig,
    AskSecretCopy,
    CopyOwner,
    CreateConfigCopy,
    Intent,
    PatchReplicaSet,
)
from rollouts.core.model.reasons import Reason
from rollouts.core.model.snapshot import ReplicaSet

LOOK_AGAIN_S = 30.0
"""How often a copy of a Secret is asked about while pods may wait for it."""

REFUSED_AGAIN_S = 600.0
"""The same, when the API server does not say whether it is there."""


def lost_copies(ctx: PassContext) -> tuple[CreateConfigCopy, ...]:
    """Creates copies again that are gone, or that somebody else has taken, while their sources have the same content.

    One that is being deleted has its name until it is gone, and is there for pods until then.
    """
    lost: dict[tuple[ConfigKind, str], CreateConfigCopy] = {}
    deleting = {(copy.kind, copy.name) for copy in ctx.seen.copies if copy.deleting}
    for replica_set, use in (*_lost(ctx), *_taken(ctx)):
        source = ctx.seen.sources.get((use.kind, use.source))
        if not isinstance(source, SourceKnown) or source.content != use.content or (use.kind, use.copy) in deleting:
            continue
        owner = CopyOwner(replica_set.name, replica_set.uid) if use.kind is ConfigKind.SECRET else None
        lost[use.kind, use.copy] = CreateConfigCopy(use, owner)
    return tuple(lost.values())


def gone_copies(ctx: PassContext) -> str:
    """Which copies are gone that cannot be made again, who needs them, and what helps; "" for none."""
    messages = []
    stable, current = ctx.status.stable_revision, ctx.status.current_revision
    replica_set = ctx.of_revision(stable) if stable != current else None
    if replica_set is not None and (too_late := uses_too_late(replica_set, ctx.seen.sources)):
        names = " and ".join([f"{use.kind} {use.source}" for use in too_late])
        messages.append(
            f"{names} has changed before the ReplicaSet of revision {stable} had a copy, so it has no pods, and revision "
            f"{current} takes its place: give it that content again"
        )
    gone = [(holder, use) for holder, use in _lost(ctx) if _why_not(ctx, use)]
    running = [(holder, use) for holder, use in gone if holder.spec_replicas > 0]
    kept = [(holder, use) for holder, use in gone if holder.spec_replicas == 0]
    revisions = " or ".join(sorted({holder.revision for holder, _ in kept}))
    messages.append(_gone_message(ctx, running, "pods that start need it"))
    messages.append(_gone_message(ctx, kept, f"a rollback to {revisions} needs it"))
    return "; ".join(filter(None, messages))


def copy_questions(ctx: PassContext) -> Contribution:
    """Asks whether copies of Secrets are there, for the contents of sources of which a copy is gone, and for younger copies."""
    asks: list[Intent] = []
    times: list[float | None] = []
    for replica_set, use in uses_of(ctx.seen.replica_sets):
        look = ctx.seen.copy_looks.get(use.copy)
        was_gone = look is not None and look.there is False
        doubtful = was_gone or replica_set.ready < replica_set.spec_replicas  # as far as pods tell
        if use.kind is not ConfigKind.SECRET or not use.made or not replica_set.spec_replicas or not doubtful:
            continue
        again_s = ctx.now_s
        if look is not None:
            again_s = look.at_s + (REFUSED_AGAIN_S if look.there is None else LOOK_AGAIN_S)
        if again_s <= ctx.now_s:
            asks.append(AskSecretCopy(use.copy))
        times.append(again_s)
    lost = sources_of_lost(ctx.seen.replica_sets, ctx.seen.copies, ctx.seen.copy_looks)
    for ref in additional_refs(ctx.spec.config_refs, lost):
        source = ctx.seen.sources.get((ref.kind, ref.name))
        if isinstance(source, SourceUnread) and source.asks:
            asks.append(AskConfig(ref))
    # One that is younger than a ReplicaSet that names it may have been replaced, which is told.
    asks += map(AskConfig, unchecked(younger_copies(ctx.seen.replica_sets, ctx.seen.copies)))
    return Contribution(intents=tuple(asks), wake_at_s=earliest(times, after_s=ctx.now_s))


def without_unusable_copies(ctx: PassContext, step: Contribution) -> Contribution:
    """The step, up to where a ReplicaSet without pods would get some that read a forged copy, a gone one, or one not looked at.

    One that has pods goes on: to take its pods away would lose requests, and what they read is told.
    """
    empty = {replica_set.uid: replica_set for replica_set in ctx.seen.replica_sets if replica_set.spec_replicas == 0}
    for index, intent in enumerate(step.intents):
        if not isinstance(intent, PatchReplicaSet) or not intent.replicas or intent.uid not in empty:
            continue
        if (held := _held(ctx, empty[intent.uid])) is not None:
            return replace(step, intents=(*step.intents[:index], *held.intents), wait=held.wait)
    return step


def _held(ctx: PassContext, replica_set: ReplicaSet) -> Contribution | None:
    """What to wait for before the ReplicaSet gets pods; None when each copy that it names is what its name says.

    Pods with an optional reference to one that is gone would begin, and serve, without their configuration.
    """
    revision = replica_set.revision
    lost = lost_uses((replica_set,), ctx.seen.copies, ctx.seen.copy_looks)
    unmade = [(holder, use) for holder, use in lost if _why_not(ctx, use)]
    if gone := _gone_message(ctx, unmade, f"pods of revision {revision} do not begin without it"):
        if not ctx.aborted and revision != ctx.status.current_revision and replica_set is ctx.stable:
            delete = f"kubectl delete replicaset {replica_set.name} -n {ctx.seen.rollout.namespace}"
            gone += f", or go on without it: {delete}"
        return Contribution(wait=Wait(Reason.CONFIG_COPY_MISSING, gone))
    used = used_copies(replica_set.config or (), ctx.seen.copies)
    if forged := [f"{copy.problem}; revision {revision} names it" for copy in used if copy.forged]:
        return Contribution(wait=Wait(Reason.CONFIG_COPY_NOT_USABLE, "; ".join(forged)))
    if not (unread := unchecked(used)):
        return None
    message = f"reading {' and '.join(map(str, unread))} before pods of revision {revision} do"
    message = ": ".join([message, *(copy.unread_because for copy in used if copy.unread_because)])
    return Contribution(intents=tuple(map(AskConfig, unread)), wait=Wait(Reason.CONFIG_NOT_READ, message))


def forged_copies(ctx: PassContext) -> str:
    """Which copies are not what their names say, who reads them, and what helps; "" for none."""
    told: dict[str, str] = {}
    for replica_set, copy in forged_uses(ctx.seen.replica_sets, ctx.seen.copies):
        reads = "pods that start read it" if replica_set.spec_replicas else "it gets no pods until then"
        told.setdefault(copy.name, f"{copy.problem}; revision {replica_set.revision} names it, and {reads}")
    return "; ".join(told[name] for name in sorted(told))


def _lost(ctx: PassContext) -> Iterator[tuple[ReplicaSet, ConfigUse]]:
    return lost_uses(ctx.seen.replica_sets, ctx.seen.copies, ctx.seen.copy_looks)


def _taken(ctx: PassContext) -> Iterator[tuple[ReplicaSet, ConfigUse]]:
    """The uses whose copy goes with another owner; to make it again says so, until somebody deletes it.

    The garbage collector deletes one that goes with an earlier Rollout of that name.
    """
    if ctx.spec.config_versioning.retain:
        return
    taken = {(copy.kind, copy.name) for copy in ctx.seen.copies if copy.claimed and not copy.owned and copy.problem}
    for replica_set, use in uses_of(ctx.seen.replica_sets) if taken else ():
        if use.has_copy and (use.kind, use.copy) in taken:
            yield replica_set, use


def _why_not(ctx: PassContext, use: ConfigUse) -> str:
    """Why a copy cannot be made again; "" when it can, and while that is not known."""
    match ctx.seen.sources.get((use.kind, use.source)):
        case SourceKnown(content=content) if content != use.content:
            return "the source has another content by now"
        case SourceAbsent():
            return "the source is gone too"
        case SourceLeftAlone():
            return "the source is left alone, as its annotation says"
        case SourceUnread(message=message, needs_a_person=True, asks=asks) if asks or use.kind is ConfigKind.SECRET:
            return message  # where ConfigMaps cannot be watched, nobody knows whether the copy is gone
        case _:
            return ""


def _gone_message(ctx: PassContext, gone: Iterable[tuple[ReplicaSet, ConfigUse]], needed: str) -> str:
    by_reason: dict[str, set[str]] = {}
    for _, use in gone:
        by_reason.setdefault(_why_not(ctx, use), set()).add(f"{use.kind} {use.copy}, the copy of {use.source},")
    sentences = [
        f"{' and '.join(sorted(names))} {'is' if len(names) == 1 else 'are'} gone, and {why}"
        for why, names in by_reason.items()
    ]
    helps = "restore it from a backup, or give the source that content again"
    return f"{'; '.join(sentences)}; {needed}: {helps}" if sentences else ""
