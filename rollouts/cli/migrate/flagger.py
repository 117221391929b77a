"""A Flagger Canary and its Deployment become a Rollout, its Services and its templates of analyses.

Source: https://docs.flagger.app/usage/how-it-works and its CRDs (flagger.app/v1beta1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rollouts.cli.kubernetes.parts import entries
from rollouts.cli.migrate.deployment import leaves, rollout_of
from rollouts.cli.migrate.flagger_metrics import USUAL_INTERVAL, Judging
from rollouts.cli.migrate.outcome import Migration, Told, name_of, whole
from rollouts.metrics.quantities import go_duration_s
from rollouts.objects import Manifest, mapping

GROUP = "flagger.app/"
_ROUTERS: Mapping[str, str] = {
    "gatewayapi": "gatewayAPI",
    "istio": "istio",
    "nginx": "nginx",
    "contour": "contour",
    "traefik": "traefik",
    "apisix": "apisix",
    "gloo": "gloo",
    "skipper": "skipper",
}
"""By the word of `spec.provider` before its version."""

_CONFIRMS = {
    "confirm-rollout": "before the first step",
    "confirm-traffic-increase": "at each step",
    "confirm-promotion": "at the end",
}
_HAS_NO_EQUAL = {
    "alerts": "no messages to chat; the controller's metrics have alert rules (docs/operations.md)",
    "sessionAffinity": "trafficRouting.stickiness does this (docs/traffic-chosen-requests.md)",
    "mirror": "write a setMirrorRoute step (docs/traffic-chosen-requests.md)",
}


def migrate_canary(
    canary: Manifest, migration: Migration, deployments: Mapping[str, Manifest], templates: Mapping[str, Manifest]
) -> str | None:
    """Adds what the Canary is here, with Deployments and MetricTemplates of the same files, by name.

    Returns: the Rollout's name; None when there is no pod template for it.
    """
    spec = mapping(canary.get("spec"))
    target = mapping(spec.get("targetRef"))
    deployment = deployments.get(str(target.get("name"))) if target.get("kind") == "Deployment" else None
    if deployment is None:
        what = f"{target.get('kind', 'workload')} {target.get('name', '')}".strip()
        only = "give its file too" if target.get("kind") == "Deployment" else "only Deployments can be taken over"
        migration.note(Told.LEFT_OUT, canary, "spec.targetRef", f"{what}: {only}")
        return None
    apex = str(mapping(spec.get("service")).get("name") or name_of(deployment))
    strategy = _strategy(canary, spec, apex, migration, templates)
    rollout = rollout_of(deployment, migration, strategy=strategy)
    if spec.get("progressDeadlineSeconds") is not None:
        rollout["spec"]["progressDeadlineSeconds"] = spec["progressDeadlineSeconds"]
    migration.objects += [*_services(spec, apex, rollout), rollout]
    leaves(deployment, migration)
    analysis = mapping(spec.get("analysis") or spec.get("canaryAnalysis"))
    for number, hook in entries(analysis.get("webhooks")):
        path, kind = f"spec.analysis.webhooks[{number}]", str(hook.get("type", "rollout"))
        if kind in _CONFIRMS:
            pause = f"{kind}: write `pause: {{}}` {_CONFIRMS[kind]}; a person promotes by annotation"
            migration.note(Told.TO_DO, canary, path, pause)
        else:
            none = f"{kind}: no webhooks here; a metric of the source web or job can do it"
            migration.note(Told.LEFT_OUT, canary, path, none)
    for part, why in _HAS_NO_EQUAL.items():
        if analysis.get(part):
            migration.note(Told.LEFT_OUT, canary, f"spec.analysis.{part}", why)
    gone = f"delete the Canary last; Flagger then deletes {apex}-primary, its Services and its route, so apply yours after that"
    migration.note(Told.TO_DO, canary, "", gone)
    return name_of(rollout)


def _strategy(
    canary: Manifest, spec: Mapping[str, Any], apex: str, migration: Migration, templates: Mapping[str, Manifest]
) -> Manifest:
    analysis = mapping(spec.get("analysis") or spec.get("canaryAnalysis"))
    router = _router(canary, spec, migration)
    judged = Judging(
        canary=canary, analysis=analysis, router=router, migration=migration, templates=templates
    ).analysis_of()
    interval = str(analysis.get("interval") or USUAL_INTERVAL)
    if router is None or (analysis.get("iterations") and not analysis.get("match")):
        blue_green: Manifest = {"activeService": apex, "previewService": f"{apex}-canary"}
        if judged:
            blue_green["prePromotionAnalysis"] = judged
        else:
            blue_green["autoPromotionSeconds"] = round(
                (go_duration_s(interval) or 60.0) * whole(analysis.get("iterations"), 1)
            )
        return {"blueGreen": blue_green}
    strategy: Manifest = {
        "stableService": apex,
        "canaryService": f"{apex}-canary",
        "trafficRouting": {router: _routes(canary, spec, router, apex, migration)},
        "steps": [],
    }
    if spec.get("skipAnalysis"):
        migration.note(Told.CHANGED, canary, "spec.skipAnalysis", "no steps and no analysis")
        return {"canary": strategy}
    if judged:
        strategy["analysis"] = {**judged, "startingStep": 1}
    if analysis.get("match"):
        strategy["trafficRouting"]["managedRoutes"] = [{"name": f"{apex}-chosen"}]
        strategy["steps"] = _chosen(canary, analysis, interval, apex, migration)
    else:
        strategy["steps"] = _weight_steps(analysis, interval)
    return {"canary": strategy}


def _router(canary: Manifest, spec: Mapping[str, Any], migration: Migration) -> str | None:
    """The router of the provider; None for Kubernetes' own Services, which have no weights."""
    provider = str(spec.get("provider") or "")
    word = provider.partition(":")[0]
    if not provider:
        said = "a flag of Flagger said it; a blue-green came out: write trafficRouting if weights are to move"
        migration.note(Told.TO_DO, canary, "spec.provider", said)
        return None
    if word == "kubernetes":
        return None
    if word not in _ROUTERS:
        why = f"no router here does what {provider} did (docs/traffic-routers.md)"
        migration.note(Told.LEFT_OUT, canary, "spec.provider", why)
        return None
    return _ROUTERS[word]


def _routes(canary: Manifest, spec: Mapping[str, Any], router: str, apex: str, migration: Migration) -> Manifest:
    """The route's name; Flagger made the route itself, so somebody has to bring it along now."""
    made = f"Flagger made the route {apex}; put it into Git, with the backends {apex} and {apex}-canary (docs/traffic-routers.md)"
    migration.note(Told.TO_DO, canary, "spec.service", made)
    match router:
        case "gatewayAPI":
            return {"httpRoutes": [{"name": apex}]}
        case "istio":
            return {"virtualService": {"name": apex}}
        case "nginx":
            return {"stableIngress": str(mapping(spec.get("ingressRef")).get("name") or apex)}
        case "contour":
            return {"httpProxies": [{"name": apex}]}
        case "traefik":
            return {"weightedTraefikServiceName": apex}
        case "apisix":
            return {"route": {"name": str(mapping(spec.get("routeRef")).get("name") or apex)}}
        case "gloo":
            return {"routeTables": [{"name": apex}]}
        case _:
            return {"ingress": str(mapping(spec.get("ingressRef")).get("name") or apex)}


def _weight_steps(analysis: Mapping[str, Any], interval: str) -> list[Manifest]:
    given = analysis.get("stepWeights")
    step, most = whole(analysis.get("stepWeight"), 0), whole(analysis.get("maxWeight"), 100)
    weights: Sequence[int] = range(step, most + 1, step) if step > 0 else [most]
    if isinstance(given, list):
        weights = [whole(weight, 0) for weight in given]
    return [step for weight in weights for step in ({"setWeight": weight}, _pause(interval))]


def _chosen(
    canary: Manifest, analysis: Mapping[str, Any], interval: str, apex: str, migration: Migration
) -> list[Manifest]:
    """Steps by which the requests that match reach the canary, and no others."""
    headers: list[Manifest] = []
    for number, match in entries(analysis.get("match")):
        for name, value in mapping(match.get("headers")).items():
            kinds = {key: text for key, text in mapping(value).items() if key in ("exact", "prefix", "regex")}
            if kinds:
                headers.append({"headerName": name, "headerValue": kinds})
        if set(match) - {"headers"}:
            others = ", ".join(sorted(set(match) - {"headers"}))
            path = f"spec.analysis.match[{number}]"
            migration.note(Told.LEFT_OUT, canary, path, f"{others}: see docs/traffic-chosen-requests.md")
    if len(headers) > 1:
        why = "any of these was enough; here all of them have to match, so take those that you need"
        migration.note(Told.TO_DO, canary, "spec.analysis.match", why)
    lasting = (go_duration_s(interval) or 60.0) * whole(analysis.get("iterations"), 1)
    route = {"setHeaderRoute": {"name": f"{apex}-chosen", "match": headers}}
    return [{"setCanaryScale": {"weight": 100}}, *([route] if headers else []), _pause(f"{lasting:g}s")]


def _pause(duration: str) -> Manifest:
    return {"pause": {"duration": duration}}


def _services(spec: Mapping[str, Any], apex: str, rollout: Manifest) -> list[Manifest]:
    """What Flagger made of `spec.service`, without its Service of the primary."""
    service = mapping(spec.get("service"))
    port: Manifest = {"port": service.get("port", 80)}
    for key, value in (("name", service.get("portName")), ("targetPort", service.get("targetPort"))):
        if value is not None:
            port[key] = value
    if service.get("appProtocol"):
        port["appProtocol"] = service["appProtocol"]
    selector = mapping(mapping(rollout["spec"].get("selector")).get("matchLabels"))
    namespace = {key: value for key, value in rollout["metadata"].items() if key == "namespace"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, **namespace},
            "spec": {"selector": dict(selector), "ports": [port]},
        }
        for name in (apex, f"{apex}-canary")
    ]
