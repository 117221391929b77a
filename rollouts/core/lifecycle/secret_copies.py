"""Copies of Secrets: made after the ReplicaSet that names them, which owns them, and before its first pod.

The controller may read the Secrets that templates name, and create others: it can neither see copies nor delete them. So each
ReplicaSet has copies of its own, the cluster's garbage collector deletes them with it, and its note says whether they were made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rollouts.core.config.content import copy_name
from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait
from rollouts.core.model.config import ConfigUse, SourceKnown, SourceUnread
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import CopyOwner, CreateConfigCopy, CreateReplicaSet, Intent, Notice, PatchReplicaSet
from rollouts.core.model.reasons import Reason
from rollouts.core.model.snapshot import ReplicaSet


def with_secrets(ctx: PassContext, step: Contribution) -> Contribution:
    """The step, in which no pods begin before the copies of Secrets that they read."""
    lacking = {each.uid: each for each in ctx.seen.replica_sets if _waits(each.config or ())}
    if not lacking and not ctx.spec.config_versioning.secrets:
        return step
    intents: list[Intent] = []
    wait = step.wait
    for each in step.intents:
        done, why = _after_copies(ctx, each, lacking)
        intents += done
        wait = why or wait
    patched = {each.uid for each in step.intents if isinstance(each, PatchReplicaSet)}
    intents += _beside(ctx, [each for each in lacking.values() if each.uid not in patched])
    return replace(step, intents=tuple(intents), notices=(*step.notices, *_told(intents)), wait=wait)


def _after_copies(
    ctx: PassContext, intent: Intent, lacking: Mapping[str, ReplicaSet]
) -> tuple[list[Intent], Wait | None]:
    """The intent with what must come before it; or why it must wait.

    Args:
        lacking: ReplicaSets whose copies are not made yet, by uid.
    """
    match intent:
        case CreateReplicaSet(config=config) if _waits(config):
            return [_without_pods(ctx, intent)], None
        case PatchReplicaSet(uid=uid, replicas=int(replicas)) if uid in lacking:
            found = lacking[uid]
            if replicas <= found.spec_replicas:
                return [intent], None
            why = _why_not(ctx, found)
            return (_with_copies(found, intent), None) if why is None else ([], why)
        case _:
            return [intent], None


def _beside(ctx: PassContext, lacking: Iterable[ReplicaSet]) -> list[Intent]:
    """Makes the copies of ReplicaSets that nothing else is written to in this pass."""
    intents: list[Intent] = []
    for found in lacking:
        if _is_needed(ctx, found) and _why_not(ctx, found) is None:
            intents += _with_copies(found, PatchReplicaSet(name=found.name, uid=found.uid, revision=found.revision))
    return intents


def _with_copies(found: ReplicaSet, patch: PatchReplicaSet) -> list[Intent]:
    """The copies of a ReplicaSet, and then the patch, which notes them."""
    owner, uses = CopyOwner(found.name, found.uid), found.config or ()
    noted = tuple([replace(use, made=use.made or use.waits_for_copy) for use in uses])
    made = [CreateConfigCopy(use, owner) for use in uses if use.waits_for_copy]
    return [*made, replace(patch, config=noted)]


def _told(intents: Iterable[Intent]) -> list[Notice]:
    made = [each.use for each in intents if isinstance(each, CreateConfigCopy) and each.owner is not None]
    return [Notice(Reason.CONFIG_COPIED, f"{use.kind} {use.source} is kept as {use.copy}") for use in made]


def _waits(uses: Iterable[ConfigUse]) -> bool:
    return any(use.waits_for_copy for use in uses)


def _without_pods(ctx: PassContext, intent: CreateReplicaSet) -> CreateReplicaSet:
    """The new ReplicaSet, without pods yet. Nothing has had the names of its copies: one that was deleted may have left some."""
    salt = f"{intent.revision}/{ctx.now_s}"
    config = tuple([_salted(ctx, use, salt) if use.waits_for_copy else use for use in intent.config])
    return replace(intent, replicas=0, config=config)


def _salted(ctx: PassContext, use: ConfigUse, salt: str) -> ConfigUse:
    rollout = ctx.seen.rollout.name
    name = copy_name(use.kind, rollout=rollout, source=use.source, content=use.content, salt=salt)
    return replace(use, copy=name)


def _why_not(ctx: PassContext, found: ReplicaSet) -> Wait | None:
    """Why the copies of a ReplicaSet cannot be made now; None when they can."""
    if found.deleting:
        return Wait(Reason.CONFIG_COPY_MISSING, f"ReplicaSet {found.name} is being deleted")
    for use in found.config or ():
        source = ctx.seen.sources.get((use.kind, use.source))
        if not use.waits_for_copy or (isinstance(source, SourceKnown) and source.content == use.content):
            continue
        if isinstance(source, SourceUnread):
            message = source.message or f"reading {use.kind} {use.source}"
            return Wait(Reason.CONFIG_FORBIDDEN if source.needs_a_person else Reason.CONFIG_NOT_READ, message)
        message = f"{use.kind} {use.source} has changed before revision {found.revision} had a copy of it"
        return Wait(Reason.CONFIG_COPY_MISSING, f"{message}; give it that content again, or go on to another revision")
    return None


def _is_needed(ctx: PassContext, found: ReplicaSet) -> bool:
    """Whether its copies are made although it does not grow now: it has pods, or its source may change before it has."""
    if found.spec_replicas > 0:
        return True
    is_new = ctx.new is not None and found.uid == ctx.new.uid and not ctx.aborted
    return is_new or (ctx.stable is not None and found.uid == ctx.stable.uid)
