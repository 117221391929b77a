"""Canaries of Flagger as people write them: each strategy, each provider, and what stands beside them."""

from __future__ import annotations

from typing import Any

from rollouts.objects import Kind, Manifest
from tests import build

SUCCESS: Manifest = {"name": "request-success-rate", "thresholdRange": {"min": 99}, "interval": "1m"}
DURATION: Manifest = {"name": "request-duration", "thresholdRange": {"max": 500}, "interval": "30s"}
NOT_FOUND: Manifest = {**SUCCESS, "name": "404s", "thresholdRange": {"max": 5},
                       "templateRef": {"name": "not-found", "namespace": "flagger"}}  # fmt: skip
WEIGHTS: Manifest = {"interval": "1m", "threshold": 5, "maxWeight": 50, "stepWeight": 10}
HEADERS: list[Manifest] = [{"headers": {"x-canary": {"exact": "insider"}}}]

FLAGGER = ("flagger.app", "v1beta1")
PORTS = [{"name": "http", "containerPort": 9898}]
PODS = build.pod_template("podinfo", image="podinfo:6", container={"name": "podinfod", "ports": PORTS})
OF_PODS = {"replicas": 2, "selector": {"matchLabels": {"app": "podinfo"}}, "template": PODS}
DEPLOYMENT = build.manifest(build.DEPLOYMENT, "podinfo", "test", spec=OF_PODS)
AUTOSCALER = build.autoscaler("podinfo", "test", target=build.DEPLOYMENT, most=4)
QUERY = '100 - sum(rate(requests_total{job="{{ target }}",namespace="{{ namespace }}"}[{{ interval }}]))'
QUERIED = {"provider": {"type": "prometheus"}, "query": QUERY}
TEMPLATE = build.manifest(Kind(*FLAGGER, "MetricTemplate", "metrictemplates"), "not-found", "flagger", spec=QUERIED)
INGRESS = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "podinfo"}


BUILT_IN: Manifest = {**WEIGHTS, "metrics": [SUCCESS, DURATION]}


def canary(provider: str | None = "istio", analysis: Manifest | None = BUILT_IN, **spec: Any) -> Manifest:
    """A Canary of the Deployment."""
    spec = {
        **({"provider": provider} if provider else {}),
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "podinfo"},
        "service": {"port": 9898, "targetPort": "http", "portName": "http"},
        **({"analysis": analysis} if analysis is not None else {}),
        **spec,
    }
    return build.manifest(Kind(*FLAGGER, "Canary", "canaries"), "podinfo", "test", spec=spec)


CANARIES: dict[str, Manifest] = {
    "istio": canary(),
    "gateway api": canary("gatewayapi:v1"),
    "gateway api beta": canary("gatewayapi:v1beta1"),
    "nginx": canary("nginx", ingressRef=INGRESS),
    "contour": canary("contour"),
    "traefik": canary("traefik"),
    "apisix": canary(
        "apisix", routeRef={"apiVersion": "apisix.apache.org/v2", "kind": "ApisixRoute", "name": "podinfo"}
    ),
    "gloo": canary("gloo"),
    "skipper": canary("skipper", ingressRef=INGRESS),
    "no provider": canary(None),
    "kubernetes": canary("kubernetes", {"interval": "15s", "threshold": 2, "iterations": 10}),
    "weights by a list": canary(analysis={"interval": "1m", "stepWeights": [1, 2, 10, 80]}),
    "only a maximum": canary(analysis={"interval": "30s", "maxWeight": 20}),
    "a/b by header": canary(analysis={"interval": "1m", "iterations": 10, "match": HEADERS, "metrics": [SUCCESS]}),
    "a/b by cookie": canary("nginx", {"iterations": 5, "match": [{"headers": {"cookie": {"exact": "canary"}}}]}),
    "blue-green in a mesh": canary(analysis={"interval": "1m", "iterations": 5, "metrics": [SUCCESS]}),
    "a metric of one's own": canary(analysis={**WEIGHTS, "metrics": [NOT_FOUND]}),
    "no analysis": canary(skipAnalysis=True),
    "a deadline": canary(progressDeadlineSeconds=60),
    "another name": canary(service={"name": "frontend", "port": 80}),
    "what has no equal": canary(
        analysis={
            **WEIGHTS,
            "mirror": True,
            "sessionAffinity": {"cookieName": "c"},
            "alerts": [{"name": "on-call", "providerRef": {"name": "slack"}}],
            "webhooks": [
                {"name": "load", "url": "http://loadtester.test/"},
                {"name": "gate", "type": "confirm-promotion", "url": "http://gate.test/"},
            ],
        }
    ),
    "the old name of the analysis": canary(analysis=None, canaryAnalysis=WEIGHTS),
}
