"""Objects of Argo Rollouts: the same fields in another group."""

from __future__ import annotations

from rollouts.cli.migrate.deployment import deployment_named, leaves, with_labels_of_its_own
from rollouts.cli.migrate.metadata import metadata_of
from rollouts.cli.migrate.outcome import Migration, Told, below, name_of, ref_of
from rollouts.objects import (
    ANALYSIS_RUN,
    ANALYSIS_TEMPLATE,
    CLUSTER_ANALYSIS_TEMPLATE,
    EXPERIMENT,
    ROLLOUT,
    SERVICE,
    Manifest,
    mapping,
)

GROUP = "argoproj.io"  # Argo CD and Argo Workflows have other kinds in it
KINDS = {kind.kind: kind for kind in (ROLLOUT, ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE, ANALYSIS_RUN, EXPERIMENT)}
SELECTOR_KEY = "rollouts-pod-template-hash"
_OF_THE_DEPLOYMENT = ("selector", "template")


def template_owner(manifest: Manifest, migration: Migration) -> Manifest | None:
    """The Deployment that the `workloadRef` of a Rollout names, if it came in too."""
    reference = mapping(mapping(manifest.get("spec")).get("workloadRef"))
    if reference.get("kind") != "Deployment":
        return None
    return deployment_named(reference.get("name"), ref_of(manifest).namespace, migration)


def migrate_argo(manifest: Manifest, migration: Migration) -> None:
    """Adds what an object of Argo Rollouts is here.

    A Deployment that its `workloadRef` names gives it its template if it came in too; else the reference stays.
    """
    kind = KINDS[str(manifest["kind"])]
    spec, deployment = dict(mapping(manifest.get("spec"))), template_owner(manifest, migration)
    sources = [manifest]
    if "workloadRef" in spec and deployment is not None:
        _take_over(deployment, manifest, migration)
        sources.append(deployment)
        workload = mapping(deployment.get("spec"))
        del spec["workloadRef"]
        spec = {**{name: workload.get(name) for name in _OF_THE_DEPLOYMENT}, **spec}
    elif "workloadRef" in spec:
        reference = mapping(spec["workloadRef"])
        what = f"{reference.get('kind', 'a workload')} {reference.get('name', '')}".strip()
        grant = f"{str(reference.get('kind', '')).lower()}s"
        why = f"first take {what} out of Argo's Rollout, and set the chart's value workloads: [{grant}]"
        migration.note(Told.THEN, manifest, "spec.workloadRef", why)
    migrated = {**kind.head, "metadata": metadata_of(manifest, migration), "spec": spec}
    if kind is ROLLOUT:
        migrated = with_labels_of_its_own(migrated, sources[-1], migration)
        way = "first apply it without Services and trafficRouting; add them when Argo's Rollout is gone"
        migration.note(Told.THEN, manifest, "", way)
    migration.add(migrated, *sources)


def migrate_service(service: Manifest, migration: Migration) -> None:
    """Adds the Service without Argo's key, if it has it; with the key it would go on selecting Argo's pods alone."""
    selector = mapping(mapping(service.get("spec")).get("selector"))
    if SELECTOR_KEY not in selector:
        migration.add(service, service)
        return
    kept = {key: value for key, value in selector.items() if key != SELECTOR_KEY}
    spec = {**mapping(service.get("spec")), "selector": kept}
    migration.add({**SERVICE.head, "metadata": metadata_of(service, migration), "spec": spec}, service)
    path = below("spec.selector", SELECTOR_KEY)
    migration.note(Told.CHANGED, service, path, "is taken out")
    first = "first take the Service out of Argo's Rollout, whose controller puts the key back"
    migration.note(Told.THEN, service, "", first)


def _take_over(deployment: Manifest, rollout: Manifest, migration: Migration) -> None:
    where = f"the template of Deployment {name_of(deployment)} is in the Rollout now"
    migration.note(Told.CHANGED, rollout, "spec.workloadRef", where)
    leaves(deployment, migration)
    why = f"Rollout {name_of(rollout)} has its own, as with workloadRef; this one goes with the Deployment"
    goes = [f"spec.{name}" for name in mapping(deployment.get("spec")) if name not in _OF_THE_DEPLOYMENT]
    goes += [f"metadata.{name}" for name in mapping(deployment.get("metadata")) if name in ("labels", "annotations")]
    if "selector" in mapping(rollout.get("spec")):
        goes.append("spec.selector")
    if name_of(deployment) != name_of(rollout):
        goes.append("metadata.name")
    for path in goes:
        migration.note(Told.CHANGED, deployment, path, why)
