"""Argo Rollouts' objects: the same fields in another group."""

from __future__ import annotations

from collections.abc import Mapping

from rollouts.cli.migrate.deployment import leaves
from rollouts.cli.migrate.outcome import Migration, Told, mapping, metadata_of, name_of
from rollouts.objects import ANALYSIS_RUN, ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE, ROLLOUT, Manifest

GROUP = "argoproj.io/"
SELECTOR_KEY = "rollouts-pod-template-hash"
_KINDS = {each.kind: each for each in (ROLLOUT, ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE, ANALYSIS_RUN)}
_INSTANCE = "argo-rollouts.argoproj.io/controller-instance-id"


def migrate_argo(manifest: Manifest, migration: Migration, deployments: Mapping[str, Manifest]) -> None:
    """Adds what an object of Argo Rollouts is here.

    Args:
        deployments: those of the same files, by name, for `workloadRef`.
    """
    kind = _KINDS.get(str(manifest.get("kind")))
    if kind is None:
        migration.note(Told.LEFT_OUT, manifest, "", "has no equal here (docs/argo-compatibility.md)")
        return
    spec = dict(mapping(manifest.get("spec")))
    if kind is ROLLOUT and "workloadRef" in spec:
        spec = _with_template(manifest, spec, migration, deployments)
    metadata = metadata_of(manifest)
    labels = {key: value for key, value in mapping(metadata.pop("labels", None)).items() if key != _INSTANCE}
    migration.objects.append(
        {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {**metadata, **({"labels": labels} if labels else {})},
            "spec": spec,
        }
    )


def migrate_service(service: Manifest, migration: Migration) -> None:
    """Adds the Service without Argo's key, if it carries it; with the key it would go on selecting Argo's pods alone."""
    selector = mapping(mapping(service.get("spec")).get("selector"))
    if SELECTOR_KEY not in selector:
        return
    kept = {key: value for key, value in selector.items() if key != SELECTOR_KEY}
    spec = {**mapping(service.get("spec")), "selector": kept}
    migration.objects.append({"apiVersion": "v1", "kind": "Service", "metadata": metadata_of(service), "spec": spec})
    why = "is taken out; first take the Service out of Argo's Rollout, whose controller puts it back"
    migration.note(Told.TO_DO, service, f'spec.selector["{SELECTOR_KEY}"]', why)


def migrate_autoscaler(autoscaler: Manifest, migration: Migration, targets: Mapping[tuple[str, str], str]) -> None:
    """Adds the HorizontalPodAutoscaler with the Rollout as its target, if its target is migrated.

    Args:
        targets: names of Rollouts by kind and name of what they take the place of.
    """
    spec = dict(mapping(autoscaler.get("spec")))
    target = mapping(spec.get("scaleTargetRef"))
    name = targets.get((str(target.get("kind")), str(target.get("name"))))
    if name is None:
        return
    spec["scaleTargetRef"] = {"apiVersion": ROLLOUT.api_version, "kind": ROLLOUT.kind, "name": name}
    head = {
        "apiVersion": autoscaler.get("apiVersion"),
        "kind": autoscaler.get("kind"),
        "metadata": metadata_of(autoscaler),
    }
    migration.objects.append({**head, "spec": spec})
    when = f"Rollout {name}; apply it when the Rollout has its pods"
    migration.note(Told.CHANGED, autoscaler, "spec.scaleTargetRef", when)


def _with_template(
    manifest: Manifest, spec: Manifest, migration: Migration, deployments: Mapping[str, Manifest]
) -> Manifest:
    reference = mapping(spec["workloadRef"])
    deployment = deployments.get(str(reference.get("name"))) if reference.get("kind") == "Deployment" else None
    if deployment is None:
        what = f"{reference.get('kind', 'a workload')} {reference.get('name', '')}".strip()
        how = f"give the file with {what} too: its template is taken over"
        migration.note(Told.LEFT_OUT, manifest, "spec.workloadRef", how)
        return spec
    workload = mapping(deployment.get("spec"))
    where = f"the template of Deployment {name_of(deployment)} is in the Rollout now"
    migration.note(Told.CHANGED, manifest, "spec.workloadRef", where)
    leaves(deployment, migration)
    kept = {key: value for key, value in spec.items() if key != "workloadRef"}
    return {"selector": workload.get("selector"), **kept, "template": workload.get("template")}
