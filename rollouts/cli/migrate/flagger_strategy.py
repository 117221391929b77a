"""The strategy of a Flagger Canary: steps by weights, by chosen requests or copies, or a blue-green."""

from __future__ import annotations

from rollouts.cli.kubernetes.parts import entries
from rollouts.cli.migrate.deployment import limits_of
from rollouts.cli.migrate.flagger_canary import FlaggerCanary
from rollouts.cli.migrate.flagger_metrics import MigratedMetrics
from rollouts.cli.migrate.flagger_routes import header_matches, routing_of
from rollouts.cli.migrate.outcome import Told, whole
from rollouts.objects import Manifest, mapping


def strategy_of(canary: FlaggerCanary, router: str | None, found: MigratedMetrics) -> Manifest:
    """What the Canary's analysis is here.

    Args:
        router: its name here; None for a blue-green.
    """
    if router is None:
        return _blue_green(canary, found)
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
    if found.analysis:
        strategy["analysis"] = {**found.analysis, "startingStep": 1}
    if canary.iterations:
        strategy["steps"], routes = _chosen(canary)
    else:
        strategy["steps"], routes = _weight_steps(canary)
    if routes:
        strategy["trafficRouting"]["managedRoutes"] = [{"name": name} for name in routes]
    return {"canary": strategy}


def _blue_green(canary: FlaggerCanary, found: MigratedMetrics) -> Manifest:
    strategy: Manifest = {"activeService": canary.apex, "previewService": canary.canary_service}
    if not canary.is_analysed:
        canary.note(Told.CHANGED, canary.at(""), "is skipped by skipAnalysis: the switch comes when the pods are ready")
        canary.note(Told.CHANGED, "spec.skipAnalysis", "the switch comes when the pods are ready")
        return {"blueGreen": strategy}
    for name in ("stepWeight", "stepWeights", "maxWeight"):
        if canary.analysis.get(name):
            canary.note(Told.LEFT_OUT, canary.at(name), "without a router no weight can be set")
    rounds, seconds = canary.rounds, round(canary.rounds * canary.interval_s)
    if found.analysis:
        strategy["prePromotionAnalysis"] = found.analysis
    else:
        strategy["autoPromotionSeconds"] = seconds
        canary.note(
            Told.CHANGED, canary.at("interval"), f"autoPromotionSeconds: {seconds}, {rounds} times the interval"
        )
    canary.note(Told.CHANGED, canary.at("iterations"), f"{rounds} measurements, or {seconds} s before the switch")
    return {"blueGreen": strategy}


def _weight_steps(canary: FlaggerCanary) -> tuple[list[Manifest], list[str]]:
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
    pods: list[Manifest] = [{"setCanaryScale": {"matchTrafficWeight": True}}] if copies else []
    steps = [*copies, {"setWeight": first}, *pods, _pause(canary.interval)]
    return [*steps, *(step for weight in more for step in ({"setWeight": weight}, _pause(canary.interval)))], routes


def _mirror_steps(canary: FlaggerCanary, percent_of_pods: int) -> tuple[list[Manifest], list[str]]:
    if not canary.analysis.get("mirror"):
        return [], []
    name, percent = f"{canary.apex}-copies", whole(canary.analysis.get("mirrorWeight"), 100)
    copies = {"name": name, "percentage": percent, "match": [{"path": {"prefix": "/"}}]}
    canary.note(Told.CHANGED, canary.at("mirror"), f"setMirrorRoute {name}")
    scale: Manifest = {"setCanaryScale": {"weight": percent_of_pods}}
    return [scale, {"setMirrorRoute": copies}, _pause(canary.interval), {"setMirrorRoute": {"name": name}}], [name]


def _chosen(canary: FlaggerCanary) -> tuple[list[Manifest], list[str]]:
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
    return [{"setCanaryScale": {"weight": 100}}, *steps, _pause(lasting), *shift], routes


def _pause(duration: str) -> Manifest:
    return {"pause": {"duration": duration}}
