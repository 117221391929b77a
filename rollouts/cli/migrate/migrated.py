"""`rollouts migrate`: from the objects of Deployments, Argo Rollouts and Flagger to ours, with what was left and why. Pure.

Argo Rollouts' objects have the same fields in another group, so they are here; Flagger's are in `flagger.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy

from rollouts.cli.kubernetes.hash_labels import hash_uses
from rollouts.cli.migrate.deployment import leaves, rollout_of
from rollouts.cli.migrate.flagger import GROUP as FLAGGER
from rollouts.cli.migrate.flagger import migrate_canary
from rollouts.cli.migrate.outcome import Migration, Told, metadata_of, name_of
from rollouts.core.model.revision import REVISION_LABEL
from rollouts.objects import ANALYSIS_RUN, ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE, ROLLOUT, Manifest, mapping

_ARGO = "argoproj.io/"
_SELECTOR_KEY = "rollouts-pod-template-hash"
_KINDS = {kind.kind: kind for kind in (ROLLOUT, ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE, ANALYSIS_RUN)}
_INSTANCE = "argo-rollouts.argoproj.io/controller-instance-id"


def migrated(manifests: Iterable[Manifest]) -> Migration:
    """What the objects of some files become. An object that nothing has to be done about does not come out again.

    A Deployment that a Canary or a `workloadRef` names gives its template to that Rollout; any other becomes one of its own.

    Raises: nothing that an object could cause, if it is one of the kind that it says.
    """
    migration = Migration()
    objects = tuple(manifests)
    deployments = {name_of(manifest): manifest for manifest in objects if manifest.get("kind") == "Deployment"}
    templates = {
        name_of(manifest): manifest
        for manifest in objects
        if _is_of(FLAGGER, manifest) and manifest.get("kind") == "MetricTemplate"
    }
    targets: dict[tuple[str, str], str] = {}
    for manifest in objects:
        if _is_of(_ARGO, manifest):
            _migrate_argo(manifest, migration, deployments)
            targets["Rollout", name_of(manifest)] = name_of(manifest)
            reference = mapping(mapping(manifest.get("spec")).get("workloadRef"))
            targets["Deployment", str(reference.get("name"))] = name_of(manifest)
        elif _is_of(FLAGGER, manifest) and manifest.get("kind") == "Canary":
            if (name := migrate_canary(manifest, migration, deployments, templates)) is not None:
                targets["Deployment", name] = name
        elif _is_of(FLAGGER, manifest) and manifest.get("kind") == "AlertProvider":
            migration.note(Told.LEFT_OUT, manifest, "", "no messages to chat (docs/alerts.md has alert rules)")
    for name, deployment in deployments.items():
        if ("Deployment", name) not in targets:
            migration.objects.append(rollout_of(deployment, migration))
            leaves(deployment, migration)
            targets["Deployment", name] = name
    for manifest in objects:
        if manifest.get("kind") == "Service":
            _migrate_service(manifest, migration)
        if manifest.get("kind") == "HorizontalPodAutoscaler":
            _migrate_autoscaler(manifest, migration, targets)
    migration.objects = [_with_our_label(migrated_object, migration) for migrated_object in migration.objects]
    return migration


def _migrate_argo(manifest: Manifest, migration: Migration, deployments: Mapping[str, Manifest]) -> None:
    """Adds what an object of Argo Rollouts is here; its `workloadRef` may name one of the Deployments of the same files."""
    kind = _KINDS.get(str(manifest.get("kind")))
    if kind is None:
        migration.note(Told.LEFT_OUT, manifest, "", "has no equal here (docs/argo-compatibility.md)")
        return
    spec = dict(mapping(manifest.get("spec")))
    if kind is ROLLOUT and "workloadRef" in spec:
        reference = mapping(spec["workloadRef"])
        deployment = deployments.get(str(reference.get("name"))) if reference.get("kind") == "Deployment" else None
        if deployment is None:
            what = f"{reference.get('kind', 'a workload')} {reference.get('name', '')}".strip()
            how = f"give the file with {what} too: its template is taken over"
            migration.note(Told.LEFT_OUT, manifest, "spec.workloadRef", how)
        else:
            where = f"the template of Deployment {name_of(deployment)} is in the Rollout now"
            migration.note(Told.CHANGED, manifest, "spec.workloadRef", where)
            leaves(deployment, migration)
            workload = mapping(deployment.get("spec"))
            del spec["workloadRef"]
            spec = {"selector": workload.get("selector"), **spec, "template": workload.get("template")}
    metadata = metadata_of(manifest)
    labels = {key: value for key, value in mapping(metadata.pop("labels", None)).items() if key != _INSTANCE}
    migration.objects.append(
        {**kind.head, "metadata": {**metadata, **({"labels": labels} if labels else {})}, "spec": spec}
    )


def _migrate_service(service: Manifest, migration: Migration) -> None:
    """Adds the Service without Argo's key, if it carries it; with the key it would go on selecting Argo's pods alone."""
    selector = mapping(mapping(service.get("spec")).get("selector"))
    if _SELECTOR_KEY not in selector:
        return
    kept = {key: value for key, value in selector.items() if key != _SELECTOR_KEY}
    spec = {**mapping(service.get("spec")), "selector": kept}
    migration.objects.append({"apiVersion": "v1", "kind": "Service", "metadata": metadata_of(service), "spec": spec})
    why = "is taken out; first take the Service out of Argo's Rollout, whose controller puts it back"
    migration.note(Told.TO_DO, service, f'spec.selector["{_SELECTOR_KEY}"]', why)


def _migrate_autoscaler(autoscaler: Manifest, migration: Migration, targets: Mapping[tuple[str, str], str]) -> None:
    """Adds the HorizontalPodAutoscaler with the Rollout as its target, if its target is migrated."""
    spec = dict(mapping(autoscaler.get("spec")))
    target = mapping(spec.get("scaleTargetRef"))
    name = targets.get((str(target.get("kind")), str(target.get("name"))))
    if name is None:
        return
    spec["scaleTargetRef"] = {**ROLLOUT.head, "name": name}
    head = {"apiVersion": autoscaler.get("apiVersion"), "kind": autoscaler.get("kind")}
    migration.objects.append({**head, "metadata": metadata_of(autoscaler), "spec": spec})
    when = f"Rollout {name}; apply it when the Rollout has its pods"
    migration.note(Told.CHANGED, autoscaler, "spec.scaleTargetRef", when)


def _with_our_label(rollout: Manifest, migration: Migration) -> Manifest:
    """The Rollout whose template names `rollouts.dev/revision`; one that compares it with a value is for a person."""
    template = mapping(mapping(rollout.get("spec")).get("template"))
    if rollout.get("kind") != ROLLOUT.kind or not any(hash_uses(dict(template), "spec.template")):
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


def _is_of(group: str, manifest: Mapping[str, object]) -> bool:
    return str(manifest.get("apiVersion", "")).startswith(group)
