"""Between updates Services select the Deployment's pods as their users wrote it, and one revision only while there are two.

So whoever uninstalls the controller has Services that follow the Deployment. The policy knows Services that select one revision:
while only one has pods, a Service of ours without a revision selects that one.
"""

from __future__ import annotations

from collections.abc import Iterator

from rollouts.core.carrier.update_in_place import Update
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import SwitchService
from rollouts.core.model.rollout import named_services
from rollouts.core.model.snapshot import ServiceSeen, Snapshot


def as_selecting(seen: Snapshot) -> Snapshot:
    """The snapshot as the policy sees it: a Service of ours that selects all pods selects the only revision that has some.

    Without any pods it selects the stable one.
    """
    revisions = {each.revision for each in seen.replica_sets if each.spec_replicas or each.replicas}
    revisions = revisions or {seen.status.stable_revision} - {""}
    whole = [each for each in _ours(seen) if not each.revision]
    if len(revisions) != 1 or not whole:
        return seen
    (revision,) = revisions
    chosen = {each.name: replace(each, revision=revision) for each in whole}
    return replace(seen, services={**seen.services, **chosen})


def narrowed(update: Update) -> tuple[SwitchService, ...]:
    """Before pods of another revision come: Services that select all pods select those of the serving revision."""
    serving = update.serving
    return () if serving is None else _selecting(update, serving.revision, now="")


def widened(update: Update) -> tuple[SwitchService, ...]:
    """After an update, once no pod of another revision is left: Services select what their users wrote.

    A server that does not count pods that are ending shows them to a Service for a moment, so there it stays as it is.
    """
    serving = update.serving
    if serving is None or any(each.spec_replicas or each.replicas or each.terminating != 0 for each in update.older):
        return ()
    return _selecting(update, "", now=serving.revision)


def _selecting(update: Update, revision: str, *, now: str) -> tuple[SwitchService, ...]:
    return tuple(
        [
            SwitchService(name=each.name, uid=each.uid, resource_version=each.resource_version, revision=revision)
            for each in _ours(update.seen)
            if each.revision == now
        ]
    )


def _ours(seen: Snapshot) -> Iterator[ServiceSeen]:
    """The Services of the strategy that are marked as the Rollout's."""
    for name in named_services(seen.rollout.spec.strategy):
        service = seen.services.get(name)
        if isinstance(service, ServiceSeen) and service.managed_by == seen.rollout.name and service.watched:
            yield service
