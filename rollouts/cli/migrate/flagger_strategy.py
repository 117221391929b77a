"""The strategy of a Flagger Canary: steps by weights, by chosen requests or copies, or a blue-green."""

from __future__ import annotations

from rollouts.cli.kubernetes.parts import entries
from rollouts.cli.migrate.deployment import limits_of
from rollouts.cli.migrate.flagger_canary import FlaggerCanary
from rollouts.cli.migrate.flagger_hooks import MigratedHooks
from rollouts.cli.migrate.flagger_metrics import MigratedMetrics
from rollouts.cli.migrate.flagger_routes import header_matches, routing_of
from rollouts.cli.migrate.outcome import Told, whole
from rollouts.objects import Manifest, mapping


def strategy_of(canary: FlaggerCanary, router: str | None, found: MigratedMetrics, hooks: MigratedHooks) -> Manifest:
    """What the Canary's analysis is here.

    Args:
        router: its name here; None for a blue-green.
    """
    if router is None:
        return _blue_green(canary, found, hooks)
    strategy: Manifest = {
        "stableService": canary.apex,
        "canaryService": canary.canary_service,
        **limits_of(canary.deployment),
        "trafficRouting": {router: routing_of(canary, router)},
        "steps": [],
    }
    if (ready := canary.analysis.get("canaryReadyThreshold")) is not None:
        strategy["replicaProgressThreshold"] = {"type": "Percent", "value": ready}
    if not canary.is_analysed:
        canary.note(Told.CHANGED, "spec.skipAnalysis", "no steps and no analysis")
        canary.note(Told.CHANGED, canary.at(""), "is skipped by skipAnalysis: no steps and no analysis")
        return {"canary": strategy}
    if (analysis := hooks.beside(found.analysis, "rollout", "rollback")) is not None:
        strategy["analysis"] = {**analysis, "startingStep": 1}
    if (before := hooks.analysis("confirm-rollout")) is not None:
        strategy["beforeUpdate"] = before
    if canary.iterations:
        strategy["steps"], routes = _chosen(canary, hooks)
    else:
        strategy["steps"], routes = _weight_steps(canary, hooks)
        if (increase := hooks.analysis("confirm-traffic-increase")) is not None:
            strategy["beforeSetWeight"] = increase
    if routes:
        strategy["trafficRouting"]["managedRoutes"] = [{"name": name} for name in routes]
    return {"canary": strategy}


def _blue_green(canary: FlaggerCanary, found: MigratedMetrics, hooks: MigratedHooks) -> Manifest:
    strategy: Manifest = {"activeService": canary.apex, "previewService": canary.canary_service}
    if not canary.is_analysed:
        canary.note(Told.CHANGED, canary.at(""), "is skipped by skipAnalysis: the switch comes when the pods are ready")
        canary.note(Told.CHANGED, "spec.skipAnalysis", "the switch comes when the pods are ready")
        return {"blueGreen": strategy}
    for name in ("stepWeight", "stepWeights", "maxWeight"):
        if canary.analysis.get(name):
            canary.note(Told.LEFT_OUT, canary.at(name), "without a router no weight can be set")
    rounds, seconds = canary.rounds, round(canary.rounds * canary.interval_s)
    if (before := hooks.analysis("confirm-rollout")) is not None:
        strategy["beforeUpdate"] = before
    judged = hooks.beside(found.analysis, "pre-rollout", "rollout", "rollback", "confirm-promotion")
    if judged is not None:
        strategy["prePromotionAnalysis"] = judged
    if found.analysis is None and not hooks.named("rollout", "rollback"):  # nothing is measured so many times
        strategy["autoPromotionSeconds"] = seconds
        canary.note(
            Told.CHANGED, canary.at("interval"), f"autoPromotionSeconds: {seconds}, {rounds} times the interval"
        )
    canary.note(Told.CHANGED, canary.at("iterations"), f"{rounds} measurements, or {seconds} s before the switch")
    return {"blueGreen": strategy}


def _weight_steps(canary: FlaggerCanary, hooks: MigratedHooks) -> tuple[list[Manifest], list[str]]:
    """The steps, and the names of the routes that they make; with `mirror`, copies come before the first weight."""
    weights = canary.weights
    if canary.analysis.get("maxWeight") is not None and weights[-1:] != [canary.most]:
        canary.note(
            Told.CHANGED, canary.at("maxWeight"), f"the weights are {', '.join(map(str, weights))}, as with Flagger"
        )
    if not (canary.analysis.get("stepWeight") or canary.analysis.get("stepWeights")):
        canary.note(Told.CHANGED, canary.at("maxWeight"), f"is the only step, {canary.most} %; Flagger never takes one")
    if canary.analysis.get("stepWeights") and canary.analysis.get("maxWeight"):
        canary.note(Told.CHANGED, canary.at("maxWeight"), "has no effect, as with Flagger: stepWeights decide")
    if canary.analysis.get("stepWeightPromotion"):
        why = "no second shift: the pods that were tried become the stable ones"
        canary.note(Told.CHANGED, canary.at("stepWeightPromotion"), why)
    first, *more = weights
    copies, routes = _mirror_steps(canary, first)
    before, asks = hooks.steps("pre-rollout"), bool(hooks.named("confirm-traffic-increase"))
    scale: list[Manifest] = copies[:1] or [{"setCanaryScale": {"weight": first}}] if copies or before or asks else []
    pods: list[Manifest] = [{"setCanaryScale": {"matchTrafficWeight": True}}] if scale else []
    steps = [*scale, *before, *copies[1:], {"setWeight": first}, *pods, _pause(canary.interval)]
    for weight in more:
        steps += [{"setWeight": weight}, _pause(canary.interval)]
    return [*steps, *hooks.steps("confirm-promotion")], routes


def _mirror_steps(canary: FlaggerCanary, percent_of_pods: int) -> tuple[list[Manifest], list[str]]:
    if not canary.analysis.get("mirror"):
        return [], []
    name, percent = f"{canary.apex}-copies", whole(canary.analysis.get("mirrorWeight"), 100)
    copies = {"name": name, "percentage": percent, "match": [{"path": {"prefix": "/"}}]}
    canary.note(Told.CHANGED, canary.at("mirror"), f"setMirrorRoute {name}")
    scale: Manifest = {"setCanaryScale": {"weight": percent_of_pods}}
    return [scale, {"setMirrorRoute": copies}, _pause(canary.interval), {"setMirrorRoute": {"name": name}}], [name]


def _chosen(canary: FlaggerCanary, hooks: MigratedHooks) -> tuple[list[Manifest], list[str]]:
    """Steps in which the requests of each match reach the canary, or copies of all, and no others; and the routes' names."""
    lasting = f"{canary.rounds * canary.interval_s:g}s"
    for name in ("stepWeight", "stepWeights", "maxWeight"):
        if canary.analysis.get(name):
            canary.note(Told.CHANGED, canary.at(name), "has no effect, as with Flagger: iterations and match decide")
    canary.note(Told.CHANGED, canary.at("iterations"), f"a pause of {lasting}: {canary.rounds} times the interval")
    canary.note(Told.CHANGED, canary.at("interval"), f"a pause of {lasting}: {canary.rounds} times the interval")
    steps: list[Manifest] = []
    routes: list[str] = []
    for number, match in entries(canary.analysis.get("match")):
        conditions = header_matches(canary, match, f"{canary.at('match')}[{number}]")
        if conditions:
            routes.append(f"{canary.apex}-chosen-{number}")
            steps.append({"setHeaderRoute": {"name": routes[-1], "match": conditions}})
    chosen, copies = bool(steps), bool(canary.analysis.get("mirror")) and not steps
    if copies:
        mirror, routes = _mirror_steps(canary, 100)
        steps = [step for step in mirror if mapping(step.get("setMirrorRoute")).get("match")]
    ends: list[Manifest] = [{"setMirrorRoute": {"name": name}} for name in routes if copies]
    shift: list[Manifest] = [] if chosen else [*ends, {"setWeight": 100}, _pause(canary.interval)]
    before, gate = hooks.steps("pre-rollout"), hooks.steps("confirm-promotion")
    return [{"setCanaryScale": {"weight": 100}}, *before, *steps, _pause(lasting), *gate, *shift], routes


def _pause(duration: str) -> Manifest:
    return {"pause": {"duration": duration}}
