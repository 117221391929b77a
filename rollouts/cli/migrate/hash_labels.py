"""What a template says of the label by which its former controller told revisions apart is said of ours."""

from __future__ import annotations

from copy import deepcopy

from rollouts.cli.kubernetes.hash_labels import hash_uses
from rollouts.cli.migrate.outcome import Migration, Told, mapping
from rollouts.core.model.revision import REVISION_LABEL
from rollouts.objects import Manifest


def with_our_label(rollout: Manifest, migration: Migration) -> Manifest:
    """The Rollout whose template names `rollouts.dev/revision`; one that compares it with a value is for a person."""
    template = mapping(mapping(rollout.get("spec")).get("template"))
    if not any(hash_uses(dict(template), "spec.template")):
        return rollout
    changed = deepcopy(rollout)
    for use in hash_uses(changed["spec"]["template"], "spec.template"):
        if use.has_value:
            why = f"no pod has {use.label} here, and the value is of a revision that goes: take it out"
            migration.note(Told.TO_DO, rollout, use.path, why)
            continue
        use.holder[use.at] = use.renamed(REVISION_LABEL)
        migration.note(Told.CHANGED, rollout, use.path, f"{REVISION_LABEL} in the place of {use.label}")
    return changed
