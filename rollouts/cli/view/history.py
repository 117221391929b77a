"""The revisions of a Rollout with their outcomes, as values. Pure."""

from __future__ import annotations

from itertools import pairwise

from msgspec import Struct

from rollouts.cli.view.config import changes_text, uses_of
from rollouts.cli.view.objects import RolloutObjects, images_of, number_of, revision_of, roles_of, status_of
from rollouts.core.model.status import WAS_STABLE
from rollouts.objects import mapping


class HistoryRow(Struct, frozen=True, kw_only=True):
    """One revision that the Rollout had, or has.

    Args:
        kept: its ReplicaSet still exists, so `undo` can go back to it.
        was_stable: it has served all requests once, as far as is known.
        outcome: how its update ended; "" where that is not recorded.
        config: the ConfigMaps and Secrets that changed with it, see `changes_text`; "" for none; None where it is not known.
        commands: who gave which during its update.
    """

    number: int
    revision: str
    roles: tuple[str, ...]
    outcome: str
    images: tuple[str, ...]
    kept: bool
    ready: int
    desired: int
    finished_at_s: float | None
    took_s: float | None
    was_stable: bool = True
    config: str | None = None
    commands: str = ""

    @property
    def rollback(self) -> bool:
        """Whether there is something good to go back to."""
        return self.kept and not self.roles and self.was_stable


def history_rows(seen: RolloutObjects) -> tuple[HistoryRow, ...]:
    """The revisions whose ReplicaSets are kept, and those in `status.history`, newest first."""
    status = status_of(seen.rollout)
    # The newest entry is last, so a revision that was rolled out twice shows its last outcome.
    last = {entry.revision: entry for entry in status.history}
    kept = {revision_of(replica_set): replica_set for replica_set in seen.replica_sets}
    ordered = sorted(seen.replica_sets, key=lambda kept: (number_of(kept), revision_of(kept)))
    # What changed of the configuration since the kept revision before it; nothing for the first.
    pairs = pairwise(ordered) if any(map(uses_of, ordered)) else ()
    changed = {revision_of(after): changes_text(uses_of(before), uses_of(after)) for before, after in pairs}
    rows = []
    for revision in kept.keys() | last.keys():
        under_way = revision == status.current_revision != status.stable_revision
        # What is under way has no outcome yet: an entry is about an earlier time.
        replica_set, entry = kept.get(revision, {}), None if under_way else last.get(revision)
        authors = status.authors if under_way else entry.authors if entry is not None else ()
        row = HistoryRow(
            number=number_of(replica_set) or (entry.number if entry is not None else 0),
            revision=revision,
            roles=roles_of(revision, status),
            outcome=entry.outcome if entry is not None else "",
            images=images_of(replica_set),
            kept=revision in kept,
            was_stable=entry is None
            or any(each.outcome in WAS_STABLE for each in status.history if each.revision == revision),
            ready=mapping(replica_set.get("status")).get("readyReplicas", 0),
            desired=mapping(replica_set.get("spec")).get("replicas", 1) if replica_set else 0,
            finished_at_s=entry.finished_at_s if entry is not None else None,
            took_s=entry.finished_at_s - entry.started_at_s if entry is not None else None,
            config=changed.get(revision),
            commands=", ".join(f"{author.verb} by {author.by}" for author in authors),
        )
        rows.append(row)
    return tuple(sorted(rows, key=lambda row: (-row.number, row.revision)))
