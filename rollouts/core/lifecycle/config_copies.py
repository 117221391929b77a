"""Copies of ConfigMaps: made before the ReplicaSet that names them, and deleted when no pod can read them any more.

Copies of Secrets live by other rules, see secret_copies.py.
"""

from __future__ import annotations

from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait
from rollouts.core.lifecycle.secret_copies import with_secrets
from rollouts.core.model.config import (
    ConfigHold,
    ConfigKind,
    ConfigPlan,
    CopySeen,
)
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

PODS_SEEN_S = 10.0
"""How old a list of pods may be: a pod that began since then belongs to a ReplicaSet, which names its copies."""

STRANGERS_AGAIN_S = 60.0
"""How long after a list with a pod of no known ReplicaSet the pods are listed again."""

_NO_PLAN = ConfigPlan(revision="")
_AT_REST = {Reason.SCALE_DOWN_DELAY, Reason.DRAINING, Reason.ROLLED_BACK}


def with_hold(ctx: PassContext, wait: Wait | None) -> Wait | None:
    """The wait of the pass, with what holds the Rollout at the revision on record; an unfinished update keeps its own reason."""
    hold = ctx.seen.config.hold if ctx.seen.config is not None else None
    if hold is None or (not hold.message and ctx.status.current_revision):
        return wait
    if wait is None or wait.reason is hold.reason:
        return _wait_of(hold)
    if wait.reason in _AT_REST:
        return replace(_wait_of(hold), message=f"{hold.message}; {wait.message}")
    return replace(wait, message=f"{wait.message}; {hold.message}")


def _wait_of(hold: ConfigHold) -> Wait:
    message = hold.message or "reading the ConfigMaps and Secrets that the template names"
    return Wait(hold.reason, message, hold.deadline_s)


def config_questions(ctx: PassContext) -> tuple[AskConfig, ...]:
    """Asks for the contents that are not known."""
    return tuple([AskConfig(ref) for ref in ctx.seen.config.unread]) if ctx.seen.config is not None else ()


def with_copies(ctx: PassContext, step: Contribution) -> Contribution:
    """The step, with the copies of ConfigMaps that its new ReplicaSet names created first, and those of Secrets before pods.

    While the contents are not known the ReplicaSet cannot be created: the step ends before it.
    """
    return with_secrets(ctx, _with_config_maps(ctx, step))


def _with_config_maps(ctx: PassContext, step: Contribution) -> Contribution:
    plan = ctx.seen.config
    at = next((index for index, each in enumerate(step.intents) if isinstance(each, CreateReplicaSet)), None)
    if plan is None or at is None:
        return step
    if plan.hold is not None:
        return replace(step, intents=step.intents[:at], wait=_wait_of(plan.hold))
    there = _copies_of_ours(ctx)
    made = [
        CreateConfigCopy(use)
        for use in plan.uses
        if use.kind is ConfigKind.CONFIG_MAP and use.has_copy and (use.kind, use.copy) not in there
    ]
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


def surplus_copies(ctx: PassContext) -> Contribution:
    """Deletes copies that no ReplicaSet and no target names, once no pod of a lost ReplicaSet may read them."""
    named = _named(ctx)
    if named is None or not (unnamed := [each for each in ctx.seen.copies if _is_surplus(each, named)]):
        return Contribution()
    due = [each for each in unnamed if each.created_at_s + KEPT_S <= ctx.now_s]
    if not due:
        return Contribution(wake_at_s=min(each.created_at_s for each in unnamed) + KEPT_S)
    if (waits := _readers_unknown(ctx)) is not None:
        return waits
    deleted = [
        DeleteConfigCopy(kind=each.kind, name=each.name, uid=each.uid, resource_version=each.resource_version)
        for each in due
    ]
    return Contribution(intents=tuple(deleted))


def _readers_unknown(ctx: PassContext) -> Contribution | None:
    """What to do while a pod that has lost its ReplicaSet may read a copy; None when there is no such pod."""
    pods, known = ctx.seen.pods, {each.revision for each in ctx.seen.replica_sets}
    if pods is None:
        return Contribution(intents=(AskPods(),))
    strangers = bool(pods.unowned) or any(each.revision not in known for each in pods.pods)
    again_s = pods.at_s + (STRANGERS_AGAIN_S if strangers else PODS_SEEN_S)
    if again_s <= ctx.now_s:
        return Contribution(intents=(AskPods(),))
    return Contribution(wake_at_s=again_s) if strangers else None


def _copies_of_ours(ctx: PassContext) -> set[tuple[ConfigKind, str]]:
    """The copies that are there and, unless the spec retains them, owned by this Rollout."""
    retain = ctx.spec.config_versioning.retain
    return {(each.kind, each.name) for each in ctx.seen.copies if not each.deleting and (each.owned or retain)}


def _named(ctx: PassContext) -> set[tuple[ConfigKind, str]] | None:
    """What ReplicaSets and the target name, copies among it; None while not all of it is known.

    A template may name a copy by hand: that is a source, and it has no copy of its own.
    """
    plan = ctx.seen.config or _NO_PLAN
    if plan.hold is not None or ctx.seen.orphans:
        return None
    named = {(use.kind, use.name) for use in plan.uses}
    for each in ctx.seen.replica_sets:
        if each.config is None:
            return None
        named |= {(use.kind, use.name) for use in each.config}
    return named


def _is_surplus(copy: CopySeen, named: set[tuple[ConfigKind, str]]) -> bool:
    return not copy.deleting and not copy.problem and (copy.kind, copy.name) not in named
