"""A Flagger Canary and its Deployment become a Rollout, its Services, its route, and a template of analyses.

Source: https://docs.flagger.app/usage/how-it-works and its CRDs (flagger.app/v1beta1).
"""

from __future__ import annotations

from rollouts.cli.migrate.deployment import deployment_named, leaves, rollout_of
from rollouts.cli.migrate.flagger_canary import FlaggerCanary
from rollouts.cli.migrate.flagger_hooks import hooks_of
from rollouts.cli.migrate.flagger_metrics import metrics_of
from rollouts.cli.migrate.flagger_routes import add_route
from rollouts.cli.migrate.flagger_services import services_of
from rollouts.cli.migrate.flagger_strategy import strategy_of
from rollouts.cli.migrate.metadata import NO_MESSAGES, OF_TOOLS
from rollouts.cli.migrate.outcome import Migration, Told, group_of, name_of, ref_of
from rollouts.objects import Manifest, mapping

GROUP = "flagger.app"
_HAS_NO_EQUAL = {
    "alerts": NO_MESSAGES,
    "sessionAffinity": "trafficRouting.stickiness does this by a cookie of your own",
}
_INSTEAD = {
    "Deployment": "give its file too",
    "DaemonSet": (
        "a Rollout updates it in place, by nodes: write one with workloadRef {apiVersion: apps/v1, kind: DaemonSet, name: NAME, "
        "mode: InPlace} and a canary of setWeight, pause and analysis, and delete the Canary first"
    ),
}
"""What helps where the workload of a Canary is not in the files, or is no Deployment, by its kind."""
_IN_STEPS = ("interval", "stepWeight", "stepWeights", "maxWeight", "match", "mirrorWeight")


def is_canary(manifest: Manifest) -> bool:
    """Whether it is Flagger's object that this module turns into a Rollout."""
    return group_of(manifest) == GROUP and manifest.get("kind") == "Canary"


def template_owner(canary: Manifest, migration: Migration) -> Manifest | None:
    """The Deployment that a Canary names, if it came in too."""
    target = mapping(mapping(canary.get("spec")).get("targetRef"))
    if (target.get("kind") or "Deployment") != "Deployment":
        return None
    return deployment_named(target.get("name"), ref_of(canary).namespace, migration)


def migrate_flagger(manifest: Manifest, migration: Migration) -> None:
    """Adds what an object of Flagger is here. A MetricTemplate comes out in the templates of the Canaries that name it."""
    if is_canary(manifest):
        deployment = template_owner(manifest, migration)
        if deployment is None:
            target = mapping(mapping(manifest.get("spec")).get("targetRef"))
            kind, name = (
                str(target.get(field) or of_none) for field, of_none in (("kind", "Deployment"), ("name", ""))
            )
            helps = _INSTEAD.get(kind, "only Deployments can be taken over").replace("NAME", name or "NAME")
            migration.note(Told.LEFT_OUT, manifest, "", f"{kind} {name}".rstrip() + f": {helps}")
        else:
            _migrate_canary(FlaggerCanary(manifest, deployment, migration))
    elif manifest.get("kind") == "AlertProvider":
        migration.note(Told.LEFT_OUT, manifest, "", NO_MESSAGES)


def _migrate_canary(canary: FlaggerCanary) -> None:
    migration, deployment = canary.migration, canary.deployment
    if canary.analysis.get("interval") not in (None, canary.interval):
        canary.note(Told.CHANGED, canary.at("interval"), f"is {canary.interval}, as with Flagger")
    router = canary.router()
    found, hooks = metrics_of(canary, router), hooks_of(canary, router)
    rollout = rollout_of(deployment, migration, strategy=strategy_of(canary, router, found, hooks))
    for name in ("labels", "annotations"):
        theirs = mapping(mapping(canary.manifest.get("metadata")).get(name))
        if kept := {key: value for key, value in theirs.items() if not key.startswith(OF_TOOLS)}:
            rollout["metadata"][name] = {**kept, **mapping(rollout["metadata"].get(name))}
    spec = rollout["spec"]
    spec["progressDeadlineAbort"] = True  # Flagger rolls back then
    if canary.spec.get("progressDeadlineSeconds") is not None:
        spec["progressDeadlineSeconds"] = canary.spec["progressDeadlineSeconds"]
        canary.moved(rollout, {"spec.progressDeadlineSeconds": "spec.progressDeadlineSeconds"})
        if mapping(deployment.get("spec")).get("progressDeadlineSeconds") is not None:
            path = "spec.progressDeadlineSeconds"
            migration.note(Told.CHANGED, deployment, path, f"that of Canary {name_of(canary.manifest)}")
    if canary.spec.get("suspend"):
        spec["paused"] = True
        canary.note(Told.CHANGED, "spec.suspend", "paused: true")
    if spec.get("replicas") == 0:
        why = "Flagger scales it to 0 between updates: write the number of pods that its primary has"
        migration.note(Told.TO_DO, deployment, "spec.replicas", why)
    steps = "spec.strategy.canary.steps"
    canary.moved(rollout, {canary.at(name): steps for name in _IN_STEPS})
    canary.moved(rollout, {canary.at("canaryReadyThreshold"): "spec.strategy.canary.replicaProgressThreshold"})
    routing = "spec.strategy.canary.trafficRouting"
    canary.moved(rollout, {f"spec.{ref}.name": routing for ref in ("ingressRef", "routeRef")})
    services = services_of(canary, rollout)
    for service in services:
        migration.add(service, canary.manifest)
    if router is not None:
        add_route(canary, router, by_backend=found.by_backend)
    if found.template is not None:
        migration.add(found.template, canary.manifest, *found.sources)
    for template in hooks.templates.values():
        migration.add(template, canary.manifest)
    migration.add(rollout, canary.manifest, deployment)
    _note_the_rest(canary)


def _note_the_rest(canary: FlaggerCanary) -> None:
    analysis = canary.analysis if canary.is_analysed else {}
    leaves(canary.deployment, canary.migration)
    apex = canary.apex
    canary.note_what_names_the_primary()
    first = "first apply the Rollout without Services and trafficRouting"
    gone = f"delete the Canary last: Flagger then deletes {apex}-primary, its Services and its route, and yours take their place"
    canary.note(Told.THEN, "", f"{first}; {gone}")
    if name_of(canary.manifest) != name_of(canary.deployment):
        canary.note(
            Told.CHANGED, "metadata.name", f"the Rollout has the name of Deployment {name_of(canary.deployment)}"
        )
    for part, why in _HAS_NO_EQUAL.items():
        if analysis.get(part):
            canary.note(Told.LEFT_OUT, canary.at(part), why)
    if analysis.get("primaryReadyThreshold") is not None:
        why = "there is no second set of pods that has to become ready after the update"
        canary.note(Told.CHANGED, canary.at("primaryReadyThreshold"), why)
    scaler = mapping(canary.spec.get("autoscalerRef"))
    if scaler and not canary.has_scaler(scaler):
        what = f"{scaler.get('kind')} {scaler.get('name')} is not in the files: point its scaleTargetRef at the Rollout"
        canary.note(Told.TO_DO, "spec.autoscalerRef.name", what)
    elif scaler:
        canary.note(Told.CHANGED, "spec.autoscalerRef.name", "it scales the Rollout, all its pods together")
