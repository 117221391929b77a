"""The owner of copies of ConfigMaps: the Rollout, with which they go; none while the spec retains them."""

from __future__ import annotations

from rollouts.core.context.pass_context import PassContext
from rollouts.core.model.config import ConfigKind
from rollouts.core.model.intents import AdoptConfigCopy, ReleaseConfigCopy


def copy_owners(ctx: PassContext) -> tuple[AdoptConfigCopy | ReleaseConfigCopy, ...]:
    """Brings the owners of copies that ReplicaSets name to what `retain` says now. What nothing names is deleted anyway."""
    retain = ctx.spec.config_versioning.retain
    copies = [each for each in ctx.seen.copies if each.owned is retain and not (each.deleting or each.problem)]
    if not copies:
        return ()
    named = {use.copy for each in ctx.seen.replica_sets if not each.deleting for use in each.config or ()}
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
