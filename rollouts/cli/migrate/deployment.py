"""A Deployment becomes a Rollout: the same pods, in steps."""

from __future__ import annotations

from copy import deepcopy

from rollouts.cli.kubernetes.hash_labels import hash_uses
from rollouts.cli.migrate.metadata import metadata_of
from rollouts.cli.migrate.outcome import Migration, Ref, Told, group_of
from rollouts.core.model.revision import REVISION_LABEL
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
_KEYS, _VALUE = (
    ("managed", "workload", "rollouts-workload"),
    "rollout",
)  # as docs/migrating.md has it; else the next one
_GROUPS = ("apps", "extensions")  # the second one, and the beta versions of the first, in old files


def is_deployment(manifest: Manifest) -> bool:
    """Whether it is a Deployment of Kubernetes, in any version that there has been."""
    return manifest.get("kind") == "Deployment" and group_of(manifest) in _GROUPS


def deployment_named(name: object, namespace: str | None, migration: Migration) -> Manifest | None:
    """The Deployment of that name among the objects that came in."""
    refs = (Ref(group, "Deployment", namespace, str(name)) for group in _GROUPS)
    return next((found for ref in refs if (found := migration.named(ref)) is not None), None)


def migrate_deployment(deployment: Manifest, migration: Migration) -> None:
    """Adds its Rollout."""
    migration.add(rollout_of(deployment, migration), deployment)
    leaves(deployment, migration)


def rollout_of(deployment: Manifest, migration: Migration, *, strategy: Manifest | None = None) -> Manifest:
    """The Rollout of a Deployment's pods, with a canary by the ratio of pods within the Deployment's own limits by default."""
    spec = mapping(deployment.get("spec"))
    own_strategy = mapping(spec.get("strategy"))
    if own_strategy.get("type") == "Recreate":
        why = "old and new pods run side by side here; if they must not, because of a volume, stay with the Deployment"
        migration.note(Told.LEFT_OUT, deployment, "spec.strategy.type", why)
    if strategy is None:
        strategy = {"canary": {**limits_of(deployment), "steps": [dict(step) for step in STEPS]}}
        steps = "a canary of four steps: change them to what you need; the first waits for a promotion"
        migration.note(Told.CHANGED, deployment, "spec.strategy", steps)
    elif own_strategy:
        why = "the Canary decides how pods are replaced; maxSurge and maxUnavailable are those of a canary's pods"
        migration.note(Told.CHANGED, deployment, "spec.strategy", why)
    kept = {key: spec[key] for key in _SAME if spec.get(key) is not None}
    if not mapping(kept.get("selector")) and (
        labels := mapping(mapping(kept.get("template")).get("metadata")).get("labels")
    ):
        kept = {"selector": {"matchLabels": labels}, **kept}
        migration.note(
            Told.CHANGED, deployment, "spec.selector", "is missing; the labels of the template, as in old versions"
        )
    rollout = {**ROLLOUT.head, "metadata": metadata_of(deployment, migration), "spec": {**kept, "strategy": strategy}}
    return with_labels_of_its_own(rollout, deployment, migration)


def limits_of(deployment: Manifest) -> Manifest:
    """The limits of a rolling update, which a canary has too."""
    limits = mapping(mapping(mapping(deployment.get("spec")).get("strategy")).get("rollingUpdate"))
    return {key: limits[key] for key in ("maxSurge", "maxUnavailable") if limits.get(key) is not None}


def leaves(deployment: Manifest, migration: Migration) -> None:
    """Says how the Deployment goes once the Rollout serves."""
    how = "delete it when the Rollout is Healthy; until then both serve behind the same Service"
    migration.note(Told.THEN, deployment, "", how)


def with_labels_of_its_own(rollout: Manifest, source: Manifest, migration: Migration) -> Manifest:
    """The Rollout with a label that tells its pods from those of the workload before, and with ours in the place of a hash.

    Two owners must not select the same pods. What selects pods by the labels that both have, such as a Service, finds both.
    """
    spec = mapping(rollout.get("spec"))
    template, selector = mapping(spec.get("template")), mapping(spec.get("selector"))
    labels = mapping(mapping(template.get("metadata")).get("labels"))
    if not template or not selector or not labels:
        return rollout
    key = next(key for key in _KEYS if labels.get(key, _VALUE) == _VALUE)
    changed = deepcopy(rollout)
    changed["spec"]["selector"]["matchLabels"] = {**mapping(selector.get("matchLabels")), key: _VALUE}
    changed["spec"]["template"]["metadata"]["labels"] = {**labels, key: _VALUE}
    if key not in labels:
        why = f"with {key}: {_VALUE}, as two owners must not select the same pods; Services go on selecting both"
        migration.note(Told.CHANGED, source, "spec.selector", why)
    for use in hash_uses(changed["spec"]["template"], "spec.template"):
        if use.has_value:
            why = f"no pod has {use.label} here, and the value is of a revision that goes: take it out"
            migration.note(Told.TO_DO, source, use.path, why)
            continue
        use.holder[use.at] = use.renamed(REVISION_LABEL)
        migration.note(Told.CHANGED, source, use.path, f"{REVISION_LABEL} in the place of {use.label}")
    return changed
