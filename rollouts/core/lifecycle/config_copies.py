"""Copies of configuration: made before the ReplicaSet that names them, and deleted when no pod can read them any more."""

from __future__ import annotations

from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait
from rollouts.core.model.config import ConfigKind, ConfigPlan, ConfigUse, CopySeen
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    AskConfig,
    AskPods,
    CreateConfigCopy,
    CreateReplicaSet,
    DeleteConfigCopy,
    Intent,
    Notice,
    PatchReplicaSet,
)
from rollouts.core.model.reasons import Reason

KEPT_S = 60.0
"""How long a copy exists at least: another process of this program may be about to name it."""

PODS_SEEN_S = 60.0
"""How old a list of pods may be: a pod that began since then belongs to a ReplicaSet, which names its copies."""

_NO_PLAN = ConfigPlan(revision="")
_AT_REST = {Reason.SCALE_DOWN_DELAY, Reason.DRAINING, Reason.ROLLED_BACK}


def with_hold(ctx: PassContext, wait: Wait | None) -> Wait | None:
    """The wait of the pass, with what holds the Rollout at the revision on record; an unfinished update keeps its own reason."""
    hold = ctx.seen.config.hold if ctx.seen.config is not None else None
    if hold is None or not hold.message:
        return wait
    if wait is None:
        return Wait(hold.reason, hold.message, hold.deadline_s)
    if wait.reason in _AT_REST:
        return Wait(hold.reason, f"{hold.message}; {wait.message}", hold.deadline_s)
    return replace(wait, message=f"{wait.message}; {hold.message}")


def config_questions(ctx: PassContext) -> tuple[AskConfig, ...]:
    """Asks for the contents that are not known."""
    return tuple([AskConfig(ref) for ref in ctx.seen.config.unread]) if ctx.seen.config is not None else ()


def with_copies(ctx: PassContext, step: Contribution) -> Contribution:
    """The step, with the copies that its new ReplicaSet names created first.

    While the contents are not known the ReplicaSet cannot be created: the step ends before it.
    """
    plan = ctx.seen.config
    at = next((index for index, each in enumerate(step.intents) if isinstance(each, CreateReplicaSet)), None)
    if plan is None or at is None:
        return step
    if plan.hold is not None:
        return replace(step, intents=step.intents[:at])
    made = _missing(ctx, plan.uses)
    notices = [
        Notice(Reason.CONFIG_COPIED, f"{each.use.kind} {each.use.source} is kept as {each.use.copy}") for each in made
    ]
    intents: tuple[Intent, ...] = (*step.intents[:at], *made, *step.intents[at:])
    return replace(step, intents=intents, notices=(*notices, *step.notices))


def baseline_note(ctx: PassContext) -> tuple[PatchReplicaSet, ...]:
    """Notes the contents that are seen first on a ReplicaSet that names the sources themselves."""
    plan = ctx.seen.config
    found = ctx.of_revision(plan.revision) if plan is not None and plan.baseline is not None else None
    if plan is None or found is None or found.deleting:
        return ()
    return (PatchReplicaSet(name=found.name, uid=found.uid, revision=found.revision, config=plan.baseline),)


def lost_copies(ctx: PassContext) -> tuple[CreateConfigCopy, ...]:
    """Creates the copies of the spec's revision anew if somebody deleted them or took their owner away."""
    plan = ctx.seen.config
    if plan is None or ctx.of_revision(plan.revision) is None:
        return ()
    return _missing(ctx, plan.uses)


def surplus_copies(ctx: PassContext) -> Contribution:
    """Deletes copies that no ReplicaSet and no target names, once no pod of a lost ReplicaSet may read them."""
    named = _named(ctx)
    if named is None or not (unnamed := [each for each in ctx.seen.copies if _is_surplus(each, named)]):
        return Contribution()
    due = [each for each in unnamed if each.created_at_s + KEPT_S <= ctx.now_s]
    if not due:
        return Contribution(wake_at_s=min(each.created_at_s for each in unnamed) + KEPT_S)
    pods = ctx.seen.pods
    if pods is None or pods.at_s + PODS_SEEN_S < ctx.now_s:
        return Contribution(intents=(AskPods(),))
    known = {each.revision for each in ctx.seen.replica_sets}
    if any(each.revision not in known for each in pods.pods):
        return Contribution(wake_at_s=pods.at_s + PODS_SEEN_S)
    deleted = [
        DeleteConfigCopy(kind=each.kind, name=each.name, uid=each.uid, resource_version=each.resource_version)
        for each in due
    ]
    return Contribution(intents=tuple(deleted))


def _missing(ctx: PassContext, uses: tuple[ConfigUse, ...]) -> tuple[CreateConfigCopy, ...]:
    """Creations of the copies in `uses` that are not there, or that nobody owns."""
    ours = not ctx.spec.config_versioning.retain
    there = {(each.kind, each.name) for each in ctx.seen.copies if not each.deleting and (each.owned or not ours)}
    return tuple([CreateConfigCopy(each) for each in uses if each.copy and (each.kind, each.copy) not in there])


def _named(ctx: PassContext) -> set[tuple[ConfigKind, str]] | None:
    """The copies that ReplicaSets and the target name; None while not all of them are known."""
    plan = ctx.seen.config or _NO_PLAN
    if plan.hold is not None or ctx.seen.orphans:
        return None
    named = {(use.kind, use.copy) for use in plan.uses}
    for each in ctx.seen.replica_sets:
        if each.config is None:
            return None
        named |= {(use.kind, use.copy) for use in each.config}
    return named


def _is_surplus(copy: CopySeen, named: set[tuple[ConfigKind, str]]) -> bool:
    return not copy.deleting and (copy.kind, copy.name) not in named
