"""The metrics of a Flagger Canary become an analysis, by templates of the chart or by AnalysisTemplates of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rollouts.cli.kubernetes.parts import entries
from rollouts.cli.migrate.outcome import Migration, Told, metadata_of, name_of, whole
from rollouts.objects import ANALYSIS_TEMPLATE, Manifest, mapping

USUAL_INTERVAL = "1m"
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


@dataclass(kw_only=True)
class Judging:
    """The metrics of one Canary, with our router and the MetricTemplates of the same files, by name."""

    canary: Manifest
    analysis: Mapping[str, Any]
    router: str | None
    migration: Migration
    templates: Mapping[str, Manifest]
    _named: list[Manifest] = field(default_factory=list)
    _arguments: list[Manifest] = field(default_factory=list)

    def analysis_of(self) -> Manifest | None:
        """The analysis by which they decide."""
        for number, metric in entries(self.analysis.get("metrics")):
            path = f"spec.analysis.metrics[{number}]"
            if metric.get("templateRef"):
                self._by_template(path, metric)
            elif metric.get("name") in _BUILT_IN:
                self._built_in(path, metric)
            else:
                self._left_out(path, "a query without a template: write an AnalysisTemplate (docs/analysis.md)")
        if not self._named:
            return None
        return {"templates": self._named, **({"args": self._arguments} if self._arguments else {})}

    def _left_out(self, path: str, why: str) -> None:
        self.migration.note(Told.LEFT_OUT, self.canary, path, why)

    def _built_in(self, path: str, metric: Mapping[str, Any]) -> None:
        name = str(metric["name"])
        product = _OF_THE_CHART.get(self.router or "")
        if product is None:
            self._left_out(path, f"{name}: the chart has no template for this router (docs/analysis-templates.md)")
            return
        template = f"rollouts-{_BUILT_IN[name]}-{product}"
        self._named.append({"templateName": template, "clusterScope": True})
        limits = mapping(metric.get("thresholdRange"))
        least, most = limits.get("min", metric.get("threshold")), limits.get("max", metric.get("threshold"))
        if name == "request-success-rate" and isinstance(least, int | float):
            self._arguments.append({"name": "min-success-rate", "value": f"{float(least) / 100:g}"})
        if name == "request-duration" and most is not None:
            self._arguments.append({"name": "max-latency-ms", "value": f"{most}"})
        self.migration.note(Told.CHANGED, self.canary, path, f"ClusterAnalysisTemplate {template} of the chart")

    def _by_template(self, path: str, metric: Mapping[str, Any]) -> None:
        reference = str(mapping(metric["templateRef"]).get("name"))
        template = self.templates.get(reference)
        if template is None:
            self._left_out(path, f"MetricTemplate {reference}: give its file too")
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
        interval = str(metric.get("interval") or self.analysis.get("interval") or USUAL_INTERVAL)
        target = str(mapping(mapping(self.canary.get("spec")).get("targetRef")).get("name", ""))
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
