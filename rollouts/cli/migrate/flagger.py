"""A Flagger Canary and its Deployment become a Rollout, its Services and its templates of analyses.

Source: https://docs.flagger.app/usage/how-it-works and its CRDs (flagger.app/v1beta1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rollouts.cli.kubernetes.parts import entries
from rollouts.cli.migrate.deployment import leaves, rollout_of
from rollouts.cli.migrate.outcome import Migration, Told, metadata_of, name_of, whole
from rollouts.metrics.kubernetes_values import go_duration_s
from rollouts.objects import ANALYSIS_TEMPLATE, Manifest, mapping

GROUP = "flagger.app/"
_ROUTERS = {
    router.lower(): router
    for router in ("gatewayAPI", "istio", "nginx", "contour", "traefik", "apisix", "gloo", "skipper")
}
"""By the word of `spec.provider` before its version."""

_CONFIRMS = {
    "confirm-rollout": "before the first step",
    "confirm-traffic-increase": "at each step",
    "confirm-promotion": "at the end",
}
_HAS_NO_EQUAL = {
    "alerts": "no messages to chat; the controller's metrics have alert rules (docs/alerts.md)",
    "sessionAffinity": "trafficRouting.stickiness does this (docs/traffic-chosen-requests.md)",
    "mirror": "write a setMirrorRoute step (docs/traffic-chosen-requests.md)",
}

_USUAL_INTERVAL = "1m"
_BUILT_IN = {"request-success-rate": "success-rate", "request-duration": "latency"}
_OF_THE_CHART = {
    "gatewayAPI": "envoy-gateway",
    "istio": "istio",
    "contour": "contour",
    "traefik": "traefik",
    "nginx": "ingress-nginx",
}
"""The templates that the chart has for a router."""

_VARIABLE = re.compile(r"\{\{\s*(namespace|name|target|service|ingress|route|interval)\s*\}\}")


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
    analysis = mapping(spec.get("analysis") or spec.get("canaryAnalysis"))
    taken_over = _CanaryMigration(
        canary=canary, spec=spec, analysis=analysis, apex=apex, migration=migration, templates=templates
    )
    rollout = rollout_of(deployment, migration, strategy=taken_over.strategy())
    if spec.get("progressDeadlineSeconds") is not None:
        rollout["spec"]["progressDeadlineSeconds"] = spec["progressDeadlineSeconds"]
    migration.objects += [*taken_over.services(rollout), rollout]
    leaves(deployment, migration)
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


def _pause(duration: str) -> Manifest:
    return {"pause": {"duration": duration}}


@dataclass(kw_only=True)
class _CanaryMigration:
    """One Canary on its way, whose clients know the Service `apex`, with the MetricTemplates of the same files, by name."""

    canary: Manifest
    spec: Mapping[str, Any]
    analysis: Mapping[str, Any]
    apex: str
    migration: Migration
    templates: Mapping[str, Manifest]
    _named: list[Manifest] = field(default_factory=list)
    _arguments: list[Manifest] = field(default_factory=list)

    @property
    def interval(self) -> str:
        """Between two steps, and two measurements."""
        return str(self.analysis.get("interval") or _USUAL_INTERVAL)

    @property
    def _lasting_s(self) -> float:
        return (go_duration_s(self.interval) or 60.0) * whole(self.analysis.get("iterations"), 1)

    def _note(self, told: Told, path: str, message: str) -> None:
        self.migration.note(told, self.canary, path, message)

    def strategy(self) -> Manifest:
        """The strategy; templates of analyses come out beside it."""
        apex, analysis, router = self.apex, self.analysis, self._router()
        judged = self._judged(router)
        if router is None or (analysis.get("iterations") and not analysis.get("match")):
            blue_green: Manifest = {"activeService": apex, "previewService": f"{apex}-canary"}
            if judged:
                blue_green["prePromotionAnalysis"] = judged
            else:
                blue_green["autoPromotionSeconds"] = round(self._lasting_s)
            return {"blueGreen": blue_green}
        strategy: Manifest = {
            "stableService": apex,
            "canaryService": f"{apex}-canary",
            "trafficRouting": {router: self._routes(router)},
            "steps": [],
        }
        if self.spec.get("skipAnalysis"):
            self._note(Told.CHANGED, "spec.skipAnalysis", "no steps and no analysis")
            return {"canary": strategy}
        if judged:
            strategy["analysis"] = {**judged, "startingStep": 1}
        if analysis.get("match"):
            strategy["trafficRouting"]["managedRoutes"] = [{"name": f"{apex}-chosen"}]
            strategy["steps"] = self._chosen()
        else:
            strategy["steps"] = self._weight_steps()
        return {"canary": strategy}

    def _router(self) -> str | None:
        provider = str(self.spec.get("provider") or "")
        word = provider.partition(":")[0]
        if not provider:
            said = "a flag of Flagger said it; a blue-green came out: write trafficRouting if weights are to move"
            self._note(Told.TO_DO, "spec.provider", said)
            return None
        if word == "kubernetes":
            return None
        if word not in _ROUTERS:
            why = f"no router here does what {provider} did (docs/traffic-routers.md)"
            self._note(Told.LEFT_OUT, "spec.provider", why)
            return None
        return _ROUTERS[word]

    def _routes(self, router: str) -> Manifest:
        """The route's name; Flagger made the route itself, so somebody has to bring it along now."""
        apex = self.apex
        how = f"put it into Git, with the backends {apex} and {apex}-canary (docs/traffic-routers.md)"
        self._note(Told.TO_DO, "spec.service", f"Flagger made the route {apex}; {how}")
        ingress = str(mapping(self.spec.get("ingressRef")).get("name") or apex)
        by_router: dict[str, Manifest] = {
            "gatewayAPI": {"httpRoutes": [{"name": apex}]},
            "istio": {"virtualService": {"name": apex}},
            "nginx": {"stableIngress": ingress},
            "contour": {"httpProxies": [{"name": apex}]},
            "traefik": {"weightedTraefikServiceName": apex},
            "apisix": {"route": {"name": str(mapping(self.spec.get("routeRef")).get("name") or apex)}},
            "gloo": {"routeTables": [{"name": apex}]},
            "skipper": {"ingress": ingress},
        }
        return by_router[router]

    def _weight_steps(self) -> list[Manifest]:
        given = self.analysis.get("stepWeights")
        step, most = whole(self.analysis.get("stepWeight"), 0), whole(self.analysis.get("maxWeight"), 100)
        weights: Sequence[int] = range(step, most + 1, step) if step > 0 else [most]
        if isinstance(given, list):
            weights = [whole(weight, 0) for weight in given]
        return [step for weight in weights for step in ({"setWeight": weight}, _pause(self.interval))]

    def _chosen(self) -> list[Manifest]:
        """Steps by which the requests that match reach the canary, and no others."""
        headers: list[Manifest] = []
        for number, match in entries(self.analysis.get("match")):
            for name, value in mapping(match.get("headers")).items():
                kinds = {key: text for key, text in mapping(value).items() if key in ("exact", "prefix", "regex")}
                if kinds:
                    headers.append({"headerName": name, "headerValue": kinds})
            if set(match) - {"headers"}:
                others = ", ".join(sorted(set(match) - {"headers"}))
                path = f"spec.analysis.match[{number}]"
                self._note(Told.LEFT_OUT, path, f"{others}: see docs/traffic-chosen-requests.md")
        if len(headers) > 1:
            why = "any of these was enough; here all of them have to match, so take those that you need"
            self._note(Told.TO_DO, "spec.analysis.match", why)
        route = {"setHeaderRoute": {"name": f"{self.apex}-chosen", "match": headers}}
        return [{"setCanaryScale": {"weight": 100}}, *([route] if headers else []), _pause(f"{self._lasting_s:g}s")]

    def services(self, rollout: Manifest) -> list[Manifest]:
        """Those of clients and of the canary."""
        service = mapping(self.spec.get("service"))
        port: Manifest = {"port": service.get("port", 80)}
        named = {"name": service.get("portName"), "targetPort": service.get("targetPort")}
        port |= {key: value for key, value in named.items() if value is not None}
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
            for name in (self.apex, f"{self.apex}-canary")
        ]

    def _judged(self, router: str | None) -> Manifest | None:
        for number, metric in entries(self.analysis.get("metrics")):
            path = f"spec.analysis.metrics[{number}]"
            if metric.get("templateRef"):
                self._by_template(path, metric)
            elif metric.get("name") in _BUILT_IN:
                self._built_in(path, metric, router)
            else:
                self._note(
                    Told.LEFT_OUT, path, "a query without a template: write an AnalysisTemplate (docs/analysis.md)"
                )
        if not self._named:
            return None
        return {"templates": self._named, **({"args": self._arguments} if self._arguments else {})}

    def _built_in(self, path: str, metric: Mapping[str, Any], router: str | None) -> None:
        name = str(metric["name"])
        product = _OF_THE_CHART.get(router or "")
        if product is None:
            self._note(
                Told.LEFT_OUT, path, f"{name}: the chart has no template for this router (docs/analysis-templates.md)"
            )
            return
        template = f"rollouts-{_BUILT_IN[name]}-{product}"
        self._named.append({"templateName": template, "clusterScope": True})
        limits = mapping(metric.get("thresholdRange"))
        least, most = limits.get("min", metric.get("threshold")), limits.get("max", metric.get("threshold"))
        if name == "request-success-rate" and isinstance(least, int | float):
            self._arguments.append({"name": "min-success-rate", "value": f"{float(least) / 100:g}"})
        if name == "request-duration" and most is not None:
            self._arguments.append({"name": "max-latency-ms", "value": f"{most}"})
        self._note(Told.CHANGED, path, f"ClusterAnalysisTemplate {template} of the chart")

    def _by_template(self, path: str, metric: Mapping[str, Any]) -> None:
        reference = str(mapping(metric["templateRef"]).get("name"))
        template = self.templates.get(reference)
        if template is None:
            self._note(Told.LEFT_OUT, path, f"MetricTemplate {reference}: give its file too")
            return
        spec = mapping(template.get("spec"))
        provider = mapping(spec.get("provider"))
        if provider.get("type") != "prometheus":
            why = f"{provider.get('type')}: only Prometheus and web servers are asked here"
            self.migration.note(Told.LEFT_OUT, template, "spec.provider.type", why)
            return
        if provider.get("secretRef"):
            how = "declare a MetricProvider (docs/analysis-servers.md)"
            self.migration.note(Told.TO_DO, template, "spec.provider.secretRef", how)
        asked = "it was about the canary's Deployment; ask about the new revision instead (docs/analysis.md)"
        self.migration.note(Told.TO_DO, template, "spec.query", asked)
        self.migration.objects.append(self._template(metric, template, provider, str(spec.get("query", ""))))
        self._named.append({"templateName": reference})

    def _template(
        self, metric: Mapping[str, Any], template: Manifest, provider: Mapping[str, Any], query: str
    ) -> Manifest:
        interval = str(metric.get("interval") or self.interval)
        target = str(mapping(self.spec.get("targetRef")).get("name", ""))
        values = {
            "namespace": str(mapping(self.canary.get("metadata")).get("namespace", "default")),
            "name": name_of(self.canary),
            "interval": interval,
        }
        measured: Manifest = {"query": _VARIABLE.sub(lambda found: values.get(found[1], target), query)}
        if provider.get("address"):
            measured["address"] = provider["address"]
        limits = mapping(metric.get("thresholdRange"))
        signs = (("min", ">="), ("max", "<="))
        bounds = [f"result[0] {sign} {limits[key]}" for key, sign in signs if limits.get(key) is not None]
        rules: Manifest = {
            "name": str(metric.get("name")),
            "interval": interval,
            "failureLimit": whole(self.analysis.get("threshold"), 0),
            **({"successCondition": " && ".join(bounds)} if bounds else {}),
            "provider": {"prometheus": measured},
        }
        return {**ANALYSIS_TEMPLATE.head, "metadata": metadata_of(template), "spec": {"metrics": [rules]}}
