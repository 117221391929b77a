"""Autoscalers of a workload that becomes a Rollout: they scale the Rollout from then on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollouts.cli.migrate.metadata import metadata_of
from rollouts.cli.migrate.outcome import Migration, Ref, Told, below, group_of, ref_of
from rollouts.objects import AUTOSCALER, ROLLOUT, Manifest, mapping

_TARGET_FIELDS = {
    (AUTOSCALER.group, AUTOSCALER.kind): "scaleTargetRef",
    ("keda.sh", "ScaledObject"): "scaleTargetRef",
    ("autoscaling.k8s.io", "VerticalPodAutoscaler"): "targetRef",
}
"""By group and kind of an autoscaler: the field of its spec that names what it scales.

Sources: https://keda.sh/docs/latest/reference/scaledobject-spec/ · the VerticalPodAutoscaler's CRD (autoscaling.k8s.io/v1).
"""
_HELD = ("autoscaling.keda.sh/paused", "autoscaling.keda.sh/paused-replicas")


def target_of(manifest: Manifest) -> Ref | None:
    """What an autoscaler scales; None for any other object. What names no kind, as in KEDA, is a Deployment."""
    field = _TARGET_FIELDS.get((group_of(manifest), str(manifest.get("kind"))))
    if field is None:
        return None
    target = mapping(mapping(manifest.get("spec")).get(field))
    kind = str(target.get("kind") or "Deployment")
    group = group_of(target) or ("apps" if kind == "Deployment" else "")
    return Ref(group, kind, ref_of(manifest).namespace, str(target.get("name")))


def migrate_autoscaler(autoscaler: Manifest, migration: Migration, rollout: str, *, flagger: bool) -> None:
    """Adds the autoscaler with a Rollout as its target.

    Args:
        flagger: it is one of a Canary's Deployment, which Flagger scales to 0 by holding KEDA.
    """
    field = _TARGET_FIELDS[group_of(autoscaler), str(autoscaler["kind"])]
    target: Mapping[str, Any] = mapping(mapping(autoscaler.get("spec")).get(field))
    kept = {key: value for key, value in target.items() if key not in ("apiVersion", "kind", "name")}
    spec = {**mapping(autoscaler.get("spec")), field: {**kept, **ROLLOUT.head, "name": rollout}}
    metadata = metadata_of(autoscaler, migration)
    if flagger and (held := [key for key in _HELD if key in mapping(metadata.get("annotations"))]):
        kept_annotations = {key: value for key, value in metadata.pop("annotations").items() if key not in held}
        metadata |= {"annotations": kept_annotations} if kept_annotations else {}
        for key in held:
            path = below("metadata.annotations", key)
            migration.note(Told.CHANGED, autoscaler, path, "is taken out: Flagger held the autoscaler by it")
    head = {"apiVersion": autoscaler.get("apiVersion"), "kind": autoscaler.get("kind")}
    migration.add({**head, "metadata": metadata, "spec": spec}, autoscaler)
    migration.note(Told.CHANGED, autoscaler, f"spec.{field}", f"scales Rollout {rollout}")
    migration.note(Told.THEN, autoscaler, "", f"apply it when Rollout {rollout} has its pods")
