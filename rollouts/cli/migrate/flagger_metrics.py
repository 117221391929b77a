"""The metrics of a Flagger Canary: templates of the chart for those that are built in, and one template for all others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from rollouts.cli.kubernetes.parts import entries, number
from rollouts.cli.migrate.flagger_canary import FlaggerCanary
from rollouts.cli.migrate.flagger_servers import EACH, FLAGGER, FlaggerServer
from rollouts.cli.migrate.outcome import Ref, Told, name_of, ref_of
from rollouts.cli.migrate.servers import EXPLAINED
from rollouts.cli.migrate.vendors import VendorAccount, declare_vendor
from rollouts.core.analysis.recipes import RECIPES
from rollouts.core.model.frozen import replace
from rollouts.metrics.kubernetes_values import go_duration_s
from rollouts.objects import ANALYSIS_TEMPLATE, Manifest, mapping

_LISTED = "`kubectl get clusteranalysistemplates` lists them"
_WINDOW = "1m"  # what a metric without an interval looks back at
_BUILT_IN = {"request-success-rate": "success-rate", "request-duration": "latency"}
_ENVOY_GATEWAY = "envoy-gateway"
_OF_THE_CHART = {"istio": "istio", "contour": "contour", "traefik": "traefik", "nginx": "ingress-nginx"}
"""The product in the names of the chart's templates, by router."""

_BY_CLASS = {
    "istio": "istio",
    "contour": "contour",
    "traefik": "traefik",
    "envoy": _ENVOY_GATEWAY,
    "eg": _ENVOY_GATEWAY,
}
"""The same by a word in the name of a GatewayClass."""

_VARIABLE = re.compile(
    r"\{\{-?\s*(?:(namespace|name|target|service|ingress|route|interval)|variables\.([A-Za-z0-9_]+))\s*-?\}\}"
)
_ABOUT_PODS = re.compile(r"\{\{-?\s*(?:target|name)\s*-?\}\}")


class MigratedMetrics(Struct, frozen=True):
    """How the update of a Canary is judged.

    Args:
        analysis: of the strategy; None without a metric.
        template: the AnalysisTemplate that it names; None if the chart's are enough.
        sources: the MetricTemplates that are in it.
        by_backend: the route must let its gateway count by backends.
    """

    analysis: Manifest | None = None
    template: Manifest | None = None
    sources: tuple[Manifest, ...] = ()
    by_backend: bool = False


def metrics_of(canary: FlaggerCanary, router: str | None) -> MigratedMetrics:
    """What the metrics of a Canary are here, with notes on those that are nothing."""
    if not canary.is_analysed:
        return MigratedMetrics()
    found = _Metrics(canary, router, canary.rounds if router is None else 0)
    for index, metric in entries(canary.analysis.get("metrics")):
        found.take(canary.at(f"metrics[{index}]"), metric)
    if canary.analysis.get("threshold") is not None:
        borne = f"failureLimit {canary.failures}: a metric fails at the check after that"
        judged = found.named or found.metrics or canary.analysis.get("webhooks")
        canary.note(Told.CHANGED, canary.at("threshold"), borne if judged else "nothing is measured, so nothing fails")
    return found.judged()


@dataclass
class _Metrics:
    """The metrics of one Canary so far. `count` is how often each is measured; 0 for as long as the steps take."""

    canary: FlaggerCanary
    router: str | None
    count: int
    named: list[Manifest] = field(default_factory=list)
    arguments: dict[str, str] = field(default_factory=dict)
    metrics: list[Manifest] = field(default_factory=list)
    sources: list[Manifest] = field(default_factory=list)

    def take(self, path: str, metric: Mapping[str, Any]) -> None:
        if metric.get("templateRef"):
            self._by_template(path, metric)
        elif metric.get("query"):
            asked: Manifest = {"query": self._filled(path, metric, str(metric["query"]))}
            if self.canary.spec.get("metricsServer"):
                asked["address"] = self.canary.spec["metricsServer"]
            self._about(self.canary.manifest, f"{path}.query", str(metric["query"]))
            self._measure(path, metric, asked)
        elif str(metric.get("name")) in _BUILT_IN:
            self._built_in(path, metric)
        else:
            why = "neither a query nor a template: write an AnalysisTemplate (`kubectl explain analysistemplate.spec`)"
            self.canary.note(Told.LEFT_OUT, path, why)

    def judged(self) -> MigratedMetrics:
        canary, template = self.canary, None
        if self.metrics:
            name = name_of(canary.manifest)
            metadata = {"name": name, **canary.namespace}
            template = {**ANALYSIS_TEMPLATE.head, "metadata": metadata, "spec": {"metrics": self.metrics}}
            self.named.append({"templateName": name})
            to = {"spec.metricsServer": "spec.metrics", canary.at("interval"): "spec.metrics"}
            canary.moved(template, {**to, canary.at("metrics"): "spec.metrics"})
            for source in self.sources:
                paths = ("query", "provider")
                canary.migration.moved(source, template, {f"spec.{path}": "spec.metrics" for path in paths})
        if not self.named:
            return MigratedMetrics()
        args = [{"name": name, "value": value} for name, value in self.arguments.items()]
        analysis = {"templates": self.named, **({"args": args} if args else {})}
        by_backend = any(each["templateName"].endswith(_ENVOY_GATEWAY) for each in self.named)
        return MigratedMetrics(analysis, template, tuple(self.sources), by_backend)

    def _built_in(self, path: str, metric: Mapping[str, Any]) -> None:
        canary, name = self.canary, str(metric["name"])
        product = self._product(path, name)
        if product is None:
            return
        template = f"rollouts-{_BUILT_IN[name]}-{product}"
        self.named.append({"templateName": template, "clusterScope": True})
        window, before = str(metric.get("interval") or _WINDOW), self.arguments.get("window")
        if before is not None and (go_duration_s(before) or 0) > (go_duration_s(window) or 0):
            window = before
        limit_name, limit = self._limit(path, metric)
        self.arguments |= {
            "window": window,
            "interval": canary.interval,
            "count": str(self.count),
            "failure-limit": str(canary.failures),
            **({"route": canary.apex} if product == _ENVOY_GATEWAY else {}),
            limit_name: limit,
        }
        what = "" if limit_name == "min-success-rate" else ", the 95th percentile in place of the 99th"
        canary.note(Told.CHANGED, f"{path}.name", f"ClusterAnalysisTemplate {template} of the chart{what}")
        canary.note(
            Told.CHANGED, f"{path}.interval", f"window {window}; each measurement comes after {canary.interval}"
        )
        if canary.spec.get("metricsServer"):
            how = "the chart's templates ask the server of the chart's prometheusUrl: set it to this one"
            canary.note(Told.THEN, "spec.metricsServer", how)

    def _product(self, path: str, name: str) -> str | None:
        """Whose counters the chart's template of a built-in metric reads; None, with a note, where nothing counts requests."""
        canary = self.canary
        product = _OF_THE_CHART.get(self.router or "")
        if self.router == "gatewayAPI" and not canary.is_in_mesh:
            product = self._gateway()
            if product is None:
                which = (
                    "the Gateway of its gatewayRefs is not in the files, or its class is not known: name its template"
                )
                canary.note(Told.TO_DO, path, f"{name}: {which} ({_LISTED})")
                return None
        if product is None:
            why = f"{name}: the chart has no template for this router ({_LISTED})"
            canary.note(Told.LEFT_OUT, path, why)
        return product

    def _gateway(self) -> str | None:
        """The product behind the Gateways of the Canary, by their class."""
        canary = self.canary
        for _, reference in entries(canary.service.get("gatewayRefs")):
            namespace = reference.get("namespace") or ref_of(canary.manifest).namespace
            ref = Ref("gateway.networking.k8s.io", "Gateway", namespace, str(reference.get("name")))
            spec = mapping((canary.migration.named(ref) or {}).get("spec"))
            words = re.split(r"[^a-z]+", str(spec.get("gatewayClassName")).lower())
            for word, product in _BY_CLASS.items():
                if word in words:
                    return product
        return None

    def _by_template(self, path: str, metric: Mapping[str, Any]) -> None:
        canary, migration = self.canary, self.canary.migration
        reference = mapping(metric["templateRef"])
        namespace = reference.get("namespace") or ref_of(canary.manifest).namespace
        template = migration.named(Ref("flagger.app", "MetricTemplate", namespace, str(reference.get("name"))))
        if template is None:
            where = f" of namespace {namespace}" if namespace else ""
            canary.note(Told.LEFT_OUT, path, f"MetricTemplate {reference.get('name')}{where}: give its file too")
            return
        spec = mapping(template.get("spec"))
        provider = mapping(spec.get("provider"))
        known = FLAGGER.get(str(provider.get("type")))
        if known is not None:
            self._by_server(path, metric, template, known)
            return
        if provider.get("type") != "prometheus":
            why = f"{provider.get('type')}: such a server is not asked here"
            migration.note(Told.LEFT_OUT, template, "spec.provider", why)
            canary.note(Told.LEFT_OUT, path, f"its MetricTemplate asks {provider.get('type')}")
            return
        if provider.get("secretRef"):
            how = f"declare a MetricProvider ({EXPLAINED})"
            migration.note(Told.TO_DO, template, "spec.provider.secretRef", how)
        for name in ("labels", "annotations"):
            if mapping(template.get("metadata")).get(name):
                migration.note(
                    Told.CHANGED, template, f"metadata.{name}", "it is a part of the Canaries' templates now"
                )
        query = str(spec.get("query", ""))
        self._about(template, "spec.query", query)
        asked: Manifest = {"query": self._filled(path, metric, query)}
        if provider.get("address"):
            asked["address"] = provider["address"]
        if provider.get("insecureSkipVerify"):
            asked["insecure"] = True
        if all(each is not template for each in self.sources):
            self.sources.append(template)
        canary.note(Told.CHANGED, f"{path}.templateRef", f"it is in AnalysisTemplate {name_of(canary.manifest)}")
        self._measure(path, metric, asked)

    def _by_server(self, path: str, metric: Mapping[str, Any], template: Manifest, server: FlaggerServer) -> None:
        """A MetricTemplate that asks a monitoring service."""
        canary, migration = self.canary, self.canary.migration
        spec = mapping(template.get("spec"))
        provider = mapping(spec.get("provider"))
        name, query = name_of(template), str(spec.get("query", ""))
        try:
            fields = server.fields(self._filled(path, metric, query), str(metric.get("interval") or _WINDOW))
        except ValueError:
            migration.note(Told.LEFT_OUT, template, "spec.query", f"is no query of {RECIPES[server.kind].title}")
            canary.note(Told.LEFT_OUT, path, "the query of its MetricTemplate cannot be read")
            return
        secret_name = str(mapping(provider.get("secretRef")).get("name") or "")
        account = VendorAccount(
            kind=server.kind,
            name=name,
            secret=server.secret if secret_name else replace(server.secret, headers={}, bearer=""),
            secret_name=secret_name,
            url=server.url(provider),
            region=str(provider.get("region") or ""),
            to_do=server.left,
        )
        declare_vendor(migration, template, "spec.provider", account)
        self._about(template, "spec.query", query)
        if all(each is not template for each in self.sources):
            self.sources.append(template)
        canary.note(Told.CHANGED, f"{path}.templateRef", f"it is in AnalysisTemplate {name_of(canary.manifest)}")
        self._measure(path, metric, {**fields, "metricProvider": name}, server.kind, server.result)

    def _about(self, source: Manifest, path: str, query: str) -> None:
        """Says what a query has to ask now: canary pods have no Deployment of their own."""
        migration = self.canary.migration
        if _ABOUT_PODS.search(query) or "-canary" not in _VARIABLE.sub("", query):
            asked = "it was about the canary's Deployment; ask about the pods of the new revision instead"
            migration.note(Told.TO_DO, source, path, asked)
        elif query:
            migration.note(Told.CHANGED, source, path, "has its values in it")

    def _filled(self, path: str, metric: Mapping[str, Any], query: str) -> str:
        canary, spec = self.canary, self.canary.spec
        target = name_of(canary.deployment)
        values = {
            "namespace": ref_of(canary.manifest).namespace or "default",
            "name": name_of(canary.manifest),
            "target": target,
            "service": canary.apex,
            "ingress": str(mapping(spec.get("ingressRef")).get("name") or target),
            "route": str(mapping(spec.get("routeRef")).get("name") or target),
            "interval": str(metric.get("interval") or _WINDOW),
        }
        variables = mapping(metric.get("templateVariables"))
        if metric.get("interval"):
            used = (
                f"the query looks back for {metric['interval']}"
                if "interval" in query
                else "the query has no place for it"
            )
            canary.note(Told.CHANGED, f"{path}.interval", f"{used}; each measurement comes after {canary.interval}")
        for name in variables:
            if f"variables.{name}" in query:
                canary.note(Told.CHANGED, f"{path}.templateVariables.{name}", "is in the query")
        filled = _VARIABLE.sub(
            lambda found: str(values[found[1]] if found[1] else variables.get(found[2], found[0])), query
        )
        if "{{" in filled:
            left = filled[filled.index("{{") :].partition("}}")[0]
            canary.note(Told.TO_DO, path, f"{left}}}}} is still in the query, and nothing gives it a value")
        return filled

    def _measure(
        self,
        path: str,
        metric: Mapping[str, Any],
        asked: Manifest,
        kind: str = "prometheus",
        result: str = "result[0]",
    ) -> None:
        """Adds a metric.

        Args:
            result: what a condition writes for the number; EACH where it is about each of them.
        """
        limits = mapping(metric.get("thresholdRange"))
        signs = (("min", ">="), ("max", "<="))
        it = "#" if result == EACH else result
        bounds = [f"{it} {sign} {limits[key]}" for key, sign in signs if limits.get(key) is not None]
        if not limits:
            bounds = [f"{it} <= {metric.get('threshold', 0)}"]
        condition = " && ".join(bounds)
        if it == "#":
            condition = f"all(result, {condition})"
        for name in ("thresholdRange", "threshold"):
            if metric.get(name) is not None:
                self.canary.note(Told.CHANGED, f"{path}.{name}", f"successCondition: {condition}")
        self.metrics.append(
            {
                "name": str(metric.get("name")),
                "initialDelay": self.canary.interval,
                "interval": self.canary.interval,
                **({"count": self.count} if self.count else {}),
                "failureLimit": self.canary.failures,
                "noData": "fail",  # as Flagger counts it
                "successCondition": condition,
                "provider": {kind: asked},
            }
        )

    def _limit(self, path: str, metric: Mapping[str, Any]) -> tuple[str, str]:
        """The argument of the chart's template that is the limit of a built-in metric, and its value."""
        is_rate = metric.get("name") == "request-success-rate"
        limits, side = metric.get("thresholdRange"), "min" if is_rate else "max"
        at, given = (
            ("threshold", metric.get("threshold"))
            if limits is None
            else (f"thresholdRange.{side}", mapping(limits).get(side))
        )
        value = number(given) or 0
        name, text = ("min-success-rate", f"{value / 100:g}") if is_rate else ("max-latency-ms", f"{value:g}")
        self.canary.note(Told.CHANGED, f"{path}.{at}", f"{name} {text}")
        return name, text
