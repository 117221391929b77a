"""Copies of ConfigMaps and Secrets: made before pods read them, and deleted when no pod can read them any more.

A copy of a ConfigMap is made before the ReplicaSet that names it. The Rollout owns it, and it goes with that; while the spec
retains copies nobody does.

A copy of a Secret is made after the ReplicaSet that names it, which owns it, and before its first pod. The controller may read
the Secrets that templates name, and create others: it can neither see copies nor delete them. So each ReplicaSet has copies of
its own, the cluster's garbage collector deletes them with it, and its note says whether they were made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rollouts.core.config.content import copy_name
from rollouts.core.config.copies import uses_of
from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait
from rollouts.core.model.config import ConfigKind, ConfigUse, SourceKnown, SourceUnread
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    AdoptConfigCopy,
    AskConfig,
    AskPods,
    CopyOwner,
    CreateConfigCopy,
    CreateReplicaSet,
    DeleteConfigCopy,
    Intent,
    Notice,
    PatchReplicaSet,
    ReleaseConfigCopy,
)
from rollouts.core.model.reasons import Reason
from rollouts.core.model.snapshot import ReplicaSet

KEPT_S = 60.0
"""How long a copy exists at least: another process of this program may be about to name it."""

PODS_SEEN_S = 10.0
"""How old a list of pods may be: a pod that began since then belongs to a ReplicaSet, which names its copies."""

STRANGERS_AGAIN_S = 60.0
"""How long after a list with a pod of no known ReplicaSet the pods are listed again."""


def config_questions(ctx: PassContext) -> tuple[AskConfig, ...]:
    """Asks for the contents that are not known."""
    return tuple([AskConfig(ref) for ref in ctx.seen.config.unread]) if ctx.seen.config is not None else ()


def with_copies(ctx: PassContext, step: Contribution) -> Contribution:
    """The step, with the copies of ConfigMaps that its new ReplicaSet names created first, and those of Secrets before pods."""
    step = _with_config_maps(ctx, step)
    lacking = {
        replica_set.uid: replica_set for replica_set in ctx.seen.replica_sets if _waits(replica_set.config or ())
    }
    return _with_secrets(ctx, step, lacking) if lacking or ctx.spec.config_versioning.secrets else step


def _with_config_maps(ctx: PassContext, step: Contribution) -> Contribution:
    plan = ctx.seen.config
    at = next((index for index, intent in enumerate(step.intents) if isinstance(intent, CreateReplicaSet)), None)
    if plan is None or at is None:
        return step
    retain = ctx.spec.config_versioning.retain
    usable = {(copy.kind, copy.name) for copy in ctx.seen.copies if not copy.deleting and (copy.owned or retain)}
    uses = [
        use
        for use in plan.uses
        if use.kind is ConfigKind.CONFIG_MAP and use.has_copy and (use.kind, use.copy) not in usable
    ]
    made = map(CreateConfigCopy, uses)
    return replace(
        step,
        intents=(*step.intents[:at], *made, *step.intents[at:]),
        notices=(*map(_copied, uses), *step.notices),
    )


def _copied(use: ConfigUse) -> Notice:
    return Notice(Reason.CONFIG_COPIED, f"{use.kind} {use.source} is kept as {use.copy}")


def baseline_note(ctx: PassContext) -> tuple[PatchReplicaSet, ...]:
    """Notes the contents that are seen first on a ReplicaSet that names the sources themselves."""
    plan = ctx.seen.config
    if plan is None or plan.baseline is None:
        return ()
    replica_set = ctx.of_revision(plan.revision)
    if replica_set is None or replica_set.deleting:
        return ()
    name, uid, revision = replica_set.name, replica_set.uid, replica_set.revision
    return (PatchReplicaSet(name=name, uid=uid, revision=revision, config=plan.baseline),)


def surplus_copies(ctx: PassContext) -> Contribution:
    """Deletes copies that no ReplicaSet and no target names, once no pod of a lost ReplicaSet may read them."""
    if (named := _named(ctx)) is None:
        return Contribution()
    unnamed = [
        copy
        for copy in ctx.seen.copies
        if not copy.deleting and not copy.problem and (copy.kind, copy.name) not in named
    ]
    due = [copy for copy in unnamed if copy.created_at_s + KEPT_S <= ctx.now_s]
    if not due:
        return Contribution(wake_at_s=min([copy.created_at_s + KEPT_S for copy in unnamed], default=None))
    # A pod that has lost its ReplicaSet may still read a copy.
    pods, known = ctx.seen.pods, {replica_set.revision for replica_set in ctx.seen.replica_sets}
    if pods is None:
        return Contribution(intents=(AskPods(),))
    strangers = bool(pods.unowned) or any(pod.revision not in known for pod in pods.pods)
    again_s = pods.at_s + (STRANGERS_AGAIN_S if strangers else PODS_SEEN_S)
    if again_s <= ctx.now_s:
        return Contribution(intents=(AskPods(),))
    if strangers:
        return Contribution(wake_at_s=again_s)
    return Contribution(
        intents=tuple(
            DeleteConfigCopy(name=copy.name, uid=copy.uid, resource_version=copy.resource_version) for copy in due
        )
    )


def _named(ctx: PassContext) -> set[tuple[ConfigKind, str]] | None:
    """What ReplicaSets and the target name, copies among it; None while not all of it is known.

    A template may name a copy by hand: that is a source, and it has no copy of its own.
    """
    plan = ctx.seen.config
    if (plan is not None and plan.hold is not None) or ctx.seen.orphans:
        return None
    named = {(use.kind, use.name) for use in plan.uses} if plan is not None else set()
    for replica_set in ctx.seen.replica_sets:
        if replica_set.config is None:
            return None
        named |= {(use.kind, use.name) for use in replica_set.config}
    return named


def copy_owners(ctx: PassContext) -> tuple[AdoptConfigCopy | ReleaseConfigCopy, ...]:
    """Brings the owners of copies that ReplicaSets name to what `retain` says now. What nothing names is deleted anyway."""
    retain = ctx.spec.config_versioning.retain
    copies = [copy for copy in ctx.seen.copies if copy.owned is retain and not copy.deleting and not copy.problem]
    if not copies:
        return ()
    named = {use.copy for _, use in uses_of(ctx.seen.replica_sets)}
    changes: list[AdoptConfigCopy | ReleaseConfigCopy] = []
    for copy in copies:
        name, uid, version = copy.name, copy.uid, copy.resource_version
        if copy.kind is not ConfigKind.CONFIG_MAP or name not in named:
            continue
        if retain:
            changes.append(
                ReleaseConfigCopy(name=name, uid=uid, resource_version=version, owner_index=copy.owner_index)
            )
        elif not copy.claimed:
            changes.append(AdoptConfigCopy(name=name, uid=uid, resource_version=version, has_owners=copy.owners > 0))
    return tuple(changes)


# --- copies of Secrets


def _with_secrets(ctx: PassContext, step: Contribution, lacking: Mapping[str, ReplicaSet]) -> Contribution:
    """The step, in which no pods begin before the copies of Secrets that they read.

    Args:
        lacking: ReplicaSets whose copies are not made yet, by uid.
    """
    intents: list[Intent] = []
    wait = step.wait
    for intent in step.intents:
        done, why = _after_copies(ctx, intent, lacking)
        intents += done
        wait = why or wait
    patched = {intent.uid for intent in step.intents if isinstance(intent, PatchReplicaSet)}
    # The live ones are needed although they do not grow now: a source may change before they have pods.
    live = (ctx.stable,) if ctx.aborted else (ctx.new, ctx.stable)
    for uid, replica_set in lacking.items():
        needed = uid not in patched and (replica_set.spec_replicas > 0 or replica_set in live)
        if needed and _why_not(ctx, replica_set) is None:
            patch = PatchReplicaSet(name=replica_set.name, uid=uid, revision=replica_set.revision)
            intents += _with_copies(replica_set, patch)
    made = [intent.use for intent in intents if isinstance(intent, CreateConfigCopy) and intent.owner is not None]
    return replace(step, intents=tuple(intents), notices=(*step.notices, *map(_copied, made)), wait=wait)


def _after_copies(
    ctx: PassContext, intent: Intent, lacking: Mapping[str, ReplicaSet]
) -> tuple[list[Intent], Wait | None]:
    """The intent with what must come before it; or why it must wait."""
    match intent:
        case CreateReplicaSet(config=uses) if _waits(uses):
            # It gets no pods yet. Nothing has had the names of its copies: a ReplicaSet that was deleted may have left some.
            rollout, salt = ctx.seen.rollout.name, f"{intent.revision}/{ctx.now_s}"
            config = []
            for use in uses:
                name = copy_name(use.kind, rollout=rollout, source=use.source, content=use.content, salt=salt)
                config.append(replace(use, copy=name) if use.waits_for_copy else use)
            return [replace(intent, replicas=0, config=tuple(config))], None
        case PatchReplicaSet(uid=uid, replicas=int(replicas)) if uid in lacking:
            replica_set = lacking[uid]
            if replicas <= replica_set.spec_replicas:
                return [intent], None
            why = _why_not(ctx, replica_set)
            return (_with_copies(replica_set, intent), None) if why is None else ([], why)
        case _:
            return [intent], None


def _with_copies(replica_set: ReplicaSet, patch: PatchReplicaSet) -> list[Intent]:
    """The copies of a ReplicaSet, and then the patch, which notes them."""
    owner, uses = CopyOwner(replica_set.name, replica_set.uid), replica_set.config or ()
    noted = tuple([replace(use, made=use.made or use.waits_for_copy) for use in uses])
    made = [CreateConfigCopy(use, owner) for use in uses if use.waits_for_copy]
    return [*made, replace(patch, config=noted)]


def _waits(uses: Iterable[ConfigUse]) -> bool:
    return any(use.waits_for_copy for use in uses)


def _why_not(ctx: PassContext, replica_set: ReplicaSet) -> Wait | None:
    if replica_set.deleting:
        return Wait(Reason.CONFIG_COPY_MISSING, f"ReplicaSet {replica_set.name} is being deleted")
    for use in replica_set.config or ():
        source = ctx.seen.sources.get((use.kind, use.source))
        if not use.waits_for_copy or (isinstance(source, SourceKnown) and source.content == use.content):
            continue
        if isinstance(source, SourceUnread):
            message = source.message or f"reading {use.kind} {use.source}"
            return Wait(Reason.CONFIG_FORBIDDEN if source.needs_a_person else Reason.CONFIG_NOT_READ, message)
        message = f"{use.kind} {use.source} has changed before revision {replica_set.revision} had a copy of it"
        return Wait(Reason.CONFIG_COPY_MISSING, f"{message}; give it that content again, or go on to another revision")
    return None
