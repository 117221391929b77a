"""A Deployment becomes a Rollout: the same pods, in steps."""

from __future__ import annotations

from rollouts.cli.migrate.outcome import Migration, Told, metadata_of
from rollouts.objects import ROLLOUT, Manifest, mapping

STEPS: tuple[Manifest, ...] = ({"setWeight": 25}, {"pause": {}}, {"setWeight": 50}, {"pause": {"duration": "1m"}})
"""A first canary: a quarter, a person, the half, a minute."""

_SAME = (
    "replicas",
    "selector",
    "template",
    "minReadySeconds",
    "revisionHistoryLimit",
    "progressDeadlineSeconds",
    "paused",
)


def rollout_of(deployment: Manifest, migration: Migration, *, strategy: Manifest | None = None) -> Manifest:
    """The Rollout of a Deployment's pods, with a canary by the ratio of pods within the Deployment's own limits by default."""
    spec = mapping(deployment.get("spec"))
    if strategy is None:
        own_strategy = mapping(spec.get("strategy"))
        if own_strategy.get("type") == "Recreate":
            why = "old and new pods run side by side here; if they must not, because of a volume, stay with the Deployment"
            migration.note(Told.LEFT_OUT, deployment, "spec.strategy.type", why)
        limits = mapping(own_strategy.get("rollingUpdate"))
        kept_limits = {key: limits[key] for key in ("maxSurge", "maxUnavailable") if limits.get(key) is not None}
        steps = "a canary of four steps: change them to what you need; the first waits for a promotion"
        migration.note(Told.CHANGED, deployment, "spec.strategy", steps)
        strategy = {"canary": {**kept_limits, "steps": [dict(step) for step in STEPS]}}
    kept = {key: spec[key] for key in _SAME if spec.get(key) is not None}
    return {**ROLLOUT.head, "metadata": metadata_of(deployment), "spec": {**kept, "strategy": strategy}}


def leaves(deployment: Manifest, migration: Migration) -> None:
    """Says how the Deployment goes once the Rollout serves."""
    how = "delete it when the Rollout is Healthy; until then both serve behind the same Service (docs/migrating.md)"
    migration.note(Told.TO_DO, deployment, "", how)
