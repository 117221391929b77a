"""What people have before they come: Deployments with what stands around them, Canaries of Flagger, Rollouts of Argo.

Restated from what users of the three show in their questions and examples, in our own words and with short values. The workload
is `web` in the namespace default, so that the simulation can play what comes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from typing import Any

from rollouts.objects import SERVICE, STATEFUL_SET, Kind, Manifest
from tests import build

NAMESPACE = "default"
CANARY = Kind("flagger.app", "v1beta1", "Canary", "canaries")
METRIC_TEMPLATE = Kind("flagger.app", "v1beta1", "MetricTemplate", "metrictemplates")
ALERT_PROVIDER = Kind("flagger.app", "v1beta1", "AlertProvider", "alertproviders")
SCALED_OBJECT = Kind("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects")
VPA = Kind("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler", "verticalpodautoscalers")
PDB = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
NETWORK_POLICY = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
GATEWAY = Kind("gateway.networking.k8s.io", "v1", "Gateway", "gateways")
OLD_DEPLOYMENT = Kind("extensions", "v1beta1", "Deployment", "deployments")
ARGO = ("argoproj.io", "v1alpha1")
ARGO_ROLLOUT = Kind(*ARGO, "Rollout", "rollouts")
ARGO_TEMPLATE = Kind(*ARGO, "AnalysisTemplate", "analysistemplates")
EXPERIMENT = Kind(*ARGO, "Experiment", "experiments")

PORTS: list[Manifest] = [{"name": "http", "containerPort": 8080}]
HASHED = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
          "labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["pod-template-hash"]}  # fmt: skip


@dataclass(frozen=True)
class Input:
    """The objects of some files.

    Args:
        complete: nothing is to do or left out.
    """

    name: str
    objects: tuple[Manifest, ...]
    complete: bool = True


def of(kind: Kind, name: str = "web", namespace: str | None = NAMESPACE, **fields: Any) -> Manifest:
    return build.manifest(kind, name, namespace, **fields)


def pods(**pod: Any) -> Manifest:
    return build.pod_template("web", image="web:1", container={"ports": PORTS}, **pod)


def deployment(
    name: str = "web", namespace: str | None = NAMESPACE, *, metadata: Any = build.NOTHING, **spec: Any
) -> Manifest:
    usual = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": pods()}
    return of(build.DEPLOYMENT, name, namespace, metadata=metadata, spec={**usual, **spec})


def service(name: str = "web", **spec: Any) -> Manifest:
    usual = {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}
    return of(SERVICE, name, spec={**usual, **spec})


def ingress(*services: str, name: str = "web", **metadata: Any) -> Manifest:
    backends = [{"service": {"name": each, "port": {"number": 80}}} for each in services or ("web",)]
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend} for backend in backends]
    spec = {"ingressClassName": "nginx", "rules": [{"host": "shop.example", "http": {"paths": paths}}]}
    return of(build.INGRESS, name, metadata=metadata, spec=spec)


def scaled_object(**metadata: Any) -> Manifest:
    triggers = [{"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}]
    spec = {"scaleTargetRef": {"name": "web"}, "minReplicaCount": 2, "maxReplicaCount": 6, "triggers": triggers}
    return of(SCALED_OBJECT, metadata=metadata, spec=spec)


def vpa(target: Kind = build.DEPLOYMENT) -> Manifest:
    spec = {"targetRef": {"apiVersion": target.api_version, "kind": target.kind, "name": "web"}}
    return of(VPA, spec={**spec, "updatePolicy": {"updateMode": "Off"}})


def hpa(target: Kind = build.DEPLOYMENT) -> Manifest:
    return build.autoscaler("web", NAMESPACE, target=target, most=6, minReplicas=2)


BUDGET = of(PDB, spec={"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}})
POLICY = of(NETWORK_POLICY, spec={"podSelector": {"matchLabels": {"app": "web"}}, "ingress": [{}]})
SETTINGS = build.config_map("settings", NAMESPACE, data={"LEVEL": "info"})

SCALERS: dict[str, tuple[Manifest, ...]] = {
    "": (),
    "with an HPA": (hpa(),),
    "with KEDA": (scaled_object(),),
    "with a VPA": (vpa(),),
}
AROUND: dict[str, tuple[Manifest, ...]] = {
    "alone": (),
    "with a Service": (service(),),
    "behind an Ingress": (service(), ingress(), BUDGET),
    "in a whole file": (SETTINGS, service(), ingress(), BUDGET, POLICY),
}
LIMITS: dict[str, Manifest] = {
    "": {},
    "with limits": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}}},
    "with all numbers": {"minReadySeconds": 5, "revisionHistoryLimit": 3, "progressDeadlineSeconds": 120},
}


def deployments() -> Iterator[Input]:
    for (scaler, scalers), (around, objects), (limits, spec) in product(
        SCALERS.items(), AROUND.items(), LIMITS.items()
    ):
        yield Input(f"Deployment {around} {scaler} {limits}", (*objects, deployment(**spec), *scalers))
    for name, (objects, complete) in DEPLOYMENTS.items():
        yield Input(f"Deployment {name}", objects, complete)


_SERVERS_OWN = {"uid": "1", "resourceVersion": "2", "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {"deployment.kubernetes.io/revision": "3", "team": "a"}}  # fmt: skip
_OWNED = {"ownerReferences": [{"apiVersion": "x.example/v1", "kind": "Shop", "name": "shop", "uid": "1"}]}
_APART = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}},
     "matchLabelKeys": ["pod-template-hash"]}]}}}  # fmt: skip
_HASH_IN_ENV = {"name": "HASH", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['pod-template-hash']"}}}


def _with_env() -> Manifest:
    template = deepcopy(pods())
    template["spec"]["containers"][0]["env"] = [_HASH_IN_ENV, {"name": "LEVEL", "value": "info"}]
    return template


DEPLOYMENTS: dict[str, tuple[tuple[Manifest, ...], bool]] = {
    "in two namespaces": ((deployment(), deployment(namespace="other"), hpa(), service()), True),
    "without a namespace": ((deployment(namespace=None),), True),
    "of a name that another has too": ((deployment(), deployment()), False),
    "that replaces all at once": ((deployment(strategy={"type": "Recreate"}),), False),
    "as the server shows it": (({**deployment(metadata=_SERVERS_OWN), "status": {"replicas": 2}},), True),
    "that an operator made": ((deployment(metadata=_OWNED),), False),
    "with a finalizer": ((deployment(metadata={"finalizers": ["x.example/y"]}),), False),
    "without a selector": ((of(OLD_DEPLOYMENT, spec={"replicas": 1, "template": pods()}),), True),
    "with a spread by hash": ((deployment(template=pods(topologySpreadConstraints=[HASHED])),), True),
    "with an anti-affinity by hash": ((deployment(template=pods(**_APART)),), True),
    "with its hash in the environment": ((deployment(template=_with_env()),), True),
    "that is paused": ((deployment(paused=True), service()), True),
    "with a field that is misspelt": ((deployment(template=pods(nodeSelecter={"a": "b"})),), False),
    "with notifications": ((deployment(metadata={"annotations": {"notifications.argoproj.io/subscribe.x": "y"}}),), False),
    "with the label that tells pods apart": ((deployment(template=build.pod_template(
        "web", image="web:1", metadata={"labels": {"app": "web", "managed": "helm"}})),), True),
    "beside a StatefulSet": ((deployment(), of(STATEFUL_SET, "db", spec={
        "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
        "template": build.pod_template("db", image="db:1")})), True),
    "behind a load balancer": ((deployment(), service(type="LoadBalancer", ports=[
        {"name": "https", "port": 443, "targetPort": "http"}, {"name": "http", "port": 80, "targetPort": "http"}])), True),
    "with an old HPA": ((deployment(), {**hpa(), "apiVersion": "autoscaling/v2beta2"}), False),
    "whose HPA is of another": ((deployment(), build.autoscaler("db", NAMESPACE, target=build.DEPLOYMENT)), True),
}  # fmt: skip

WEIGHTS: Manifest = {"interval": "30s", "threshold": 3, "maxWeight": 50, "stepWeight": 25}
RATE: Manifest = {"name": "request-success-rate", "thresholdRange": {"min": 99}, "interval": "1m"}
LATENCY: Manifest = {"name": "request-duration", "thresholdRange": {"max": 500}, "interval": "30s"}
ERRORS: Manifest = {"name": "errors", "templateRef": {"name": "errors", "namespace": "flagger"}, "interval": "2m",
                    "thresholdRange": {"max": 5}, "templateVariables": {"code": "500"}}  # fmt: skip
QUERY = 'sum(rate(requests_total{service="{{ service }}-canary",code="{{ variables.code }}"}[{{ interval }}]))'
ASKED = {"type": "prometheus", "address": "http://prometheus.monitoring:9090"}
TEMPLATE = of(METRIC_TEMPLATE, "errors", "flagger", spec={"provider": ASKED, "query": QUERY})
POD_QUERY = 'sum(rate(errors{namespace="{{ namespace }}",pod=~"{{ target }}-.*"}[{{ interval }}]))'
BY_POD = of(METRIC_TEMPLATE, "errors", "flagger", spec={"provider": ASKED, "query": POD_QUERY})
MATCH: list[Manifest] = [{"headers": {"x-beta": {"exact": "1"}}}]
HOOKS: list[Manifest] = [
    {"name": "load", "url": "http://loadtester.test/", "metadata": {"cmd": "hey http://web-canary"}}
]

ANALYSES: dict[str, Manifest] = {
    "by weights": WEIGHTS,
    "by weights and its own metrics": {**WEIGHTS, "metrics": [RATE, LATENCY]},
    "by weights and a template": {**WEIGHTS, "metrics": [ERRORS]},
    "by a list of weights": {"interval": "30s", "stepWeights": [1, 10, 80]},
    "by match": {"interval": "30s", "iterations": 4, "threshold": 2, "match": MATCH},
    "by iterations": {"interval": "30s", "iterations": 4, "threshold": 2, "metrics": [ERRORS]},
}
GATEWAYS: Manifest = {"gatewayRefs": [{"name": "public", "namespace": NAMESPACE}], "hosts": ["shop.example"]}
PUBLIC = of(GATEWAY, "public", spec={"gatewayClassName": "envoy", "listeners": [
    {"name": "http", "port": 80, "protocol": "HTTP"}]})  # fmt: skip
APISIX_ROUTE = of(Kind("apisix.apache.org", "v2", "ApisixRoute", "apisixroutes"), spec={"http": [
    {"name": "main", "match": {"paths": ["/*"]}, "backends": [{"serviceName": "web", "servicePort": 80}]}]})  # fmt: skip
_INGRESS_REF = {"ingressRef": {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "web"}}
PROVIDERS: dict[str, tuple[Manifest, tuple[Manifest, ...]]] = {
    "istio": ({}, ()),
    "linkerd": ({}, ()),
    "appmesh:v1beta2": ({}, ()),
    "contour": ({}, ()),
    "nginx": (_INGRESS_REF, (ingress(),)),
    "gloo": ({}, ()),
    "skipper": (_INGRESS_REF, (ingress("web", "web-canary"),)),
    "traefik": ({}, ()),
    "apisix": (
        {"routeRef": {"apiVersion": "apisix.apache.org/v2", "kind": "ApisixRoute", "name": "web"}},
        (APISIX_ROUTE,),
    ),
    "kuma": ({}, ()),
    "gatewayapi:v1": ({}, (PUBLIC,)),
    "knative": ({}, ()),
    "kubernetes": ({}, ()),
}
"""By provider: what else is in the Canary's spec, and what stands beside it."""

_COUNTED = ("istio", "contour", "nginx", "traefik", "gatewayapi:v1")  # the chart has templates of what they count
_UNSAID = ("appmesh:v1beta2", "knative")
_BY_HEADER = ("istio", "contour", "nginx", "apisix", "gatewayapi:v1", "linkerd", "kuma")


def canary(
    provider: str | None = "istio", analysis: Manifest | None = WEIGHTS, *, metadata: Any = build.NOTHING, **spec: Any
) -> Manifest:
    gateways = GATEWAYS if str(provider).startswith("gatewayapi") else {}
    usual = {
        **({"provider": provider} if provider else {}),
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "service": {"port": 80, "targetPort": "http", "portName": "http", **gateways},
        **({} if analysis is None else {"analysis": analysis}),
    }
    return of(CANARY, metadata=metadata, spec={**usual, **spec})


def canaries() -> Iterator[Input]:
    for (provider, (more, beside)), (how, analysis) in product(PROVIDERS.items(), ANALYSES.items()):
        templates = (TEMPLATE,) if ERRORS in analysis.get("metrics", ()) else ()
        complete = provider not in _UNSAID and (RATE not in analysis.get("metrics", ()) or provider in _COUNTED)
        complete = complete and (analysis.get("match") is None or provider in _BY_HEADER)
        complete = complete and (provider != "kubernetes" or ("iterations" in analysis and "match" not in analysis))
        yield Input(
            f"Canary of {provider} {how}",
            (canary(provider, analysis, **more), deployment(), *beside, *templates),
            complete,
        )
    for name, (objects, complete) in CANARIES.items():
        yield Input(f"Canary {name}", objects, complete)


def _service_of_canary(**fields: Any) -> Manifest:
    return {"port": 80, "targetPort": "http", "portName": "http", **fields}


def _second(manifest: Manifest, name: str) -> Manifest:
    """The same for another workload."""
    changed = deepcopy(manifest)
    changed["metadata"]["name"] = name
    if "targetRef" in changed["spec"]:
        changed["spec"]["targetRef"]["name"] = name
    else:
        changed["spec"]["selector"]["matchLabels"]["app"] = name
        changed["spec"]["template"]["metadata"]["labels"]["app"] = name
    return changed


HTTP_ROUTE = of(Kind("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes"), spec={
    "parentRefs": GATEWAYS["gatewayRefs"], "hostnames": ["shop.example"], "rules": [{"backendRefs": [
        {"name": "web", "port": 80, "weight": 100}, {"name": "web-canary", "port": 80, "weight": 0}]}]})  # fmt: skip
_OF_CANARY = {"ownerReferences": [{"apiVersion": "flagger.app/v1beta1", "kind": "Canary", "name": "web", "uid": "1"}]}
MADE_BY_FLAGGER = (
    deployment("web-primary", metadata=_OF_CANARY),
    *({**service(name), "metadata": {**service(name)["metadata"], **_OF_CANARY}} for name in ("web", "web-primary")),
)
_TEMPLATED = {**WEIGHTS, "metrics": [ERRORS]}
_KEDA_REF: Any = {"autoscalerRef": {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "web"}}
_HPA_REF: Any = {"autoscalerRef": {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "name": "web"}}
_ROUTE_FIELDS = {"hosts": ["shop.example"], "gateways": ["istio-system/public", "mesh"], "timeout": "15s",
                 "match": [{"uri": {"prefix": "/shop"}}], "rewrite": {"uri": "/"},
                 "retries": {"attempts": 3, "perTryTimeout": "1s", "retryOn": "5xx"},
                 "headers": {"request": {"add": {"x-from": "shop"}}},
                 "corsPolicy": {"allowOrigins": [{"exact": "https://shop.example"}], "allowMethods": ["GET"]},
                 "trafficPolicy": {"tls": {"mode": "DISABLE"}}}  # fmt: skip
CANARIES: dict[str, tuple[tuple[Manifest, ...], bool]] = {
    "without its Deployment": ((canary(),), False),
    "without a provider": ((canary(None), deployment()), False),
    "with all that Flagger made of it": ((canary(), deployment(), *MADE_BY_FLAGGER), True),
    "beside a budget of the primary": ((canary(), deployment(), of(PDB, spec={
        "minAvailable": 1, "selector": {"matchLabels": {"app": "web-primary"}}})), False),
    "with an HPA": ((canary(**_HPA_REF), deployment(), hpa()), True),
    "with an HPA that is elsewhere": ((canary(**_HPA_REF), deployment()), False),
    "with KEDA": ((canary(**_KEDA_REF), deployment(), scaled_object(
        annotations={"autoscaling.keda.sh/paused-replicas": "0"})), True),
    "with queries for the primary": ((canary(autoscalerRef={
        **_KEDA_REF["autoscalerRef"], "primaryScalerQueries": {"rps": "sum(x)"}}), deployment(), scaled_object()), False),
    "as Flagger left the Deployment": ((canary(), deployment(replicas=0)), False),
    "that shares a template with another": ((canary(analysis=_TEMPLATED), deployment(), TEMPLATE,
        _second(canary(analysis=_TEMPLATED), "blog"), _second(deployment(), "blog")), True),
    "that asks about pods by name": ((canary(analysis=_TEMPLATED), deployment(), BY_POD), False),
    "whose template is elsewhere": ((canary(analysis=_TEMPLATED), deployment()), False),
    "of another namespace": ((canary(), deployment(namespace="other")), False),
    "beside a Service of its name": ((canary(), deployment(), service(
        type="LoadBalancer", ports=[{"name": "https", "port": 443, "targetPort": "http"},
                                    {"name": "http", "port": 80, "targetPort": "http"}])), True),
    "with a whole route of Istio": ((canary(service=_service_of_canary(**_ROUTE_FIELDS)), deployment()), True),
    "with a whole route of the Gateway API": ((canary("gatewayapi:v1", service=_service_of_canary(
        **GATEWAYS, timeout="15s", match=[{"uri": {"prefix": "/shop"}, "headers": {"x-a": {"exact": "b"}}}],
        rewrite={"uri": "/"}, headers={"request": {"set": {"x-from": "shop"}, "remove": ["x-old"]}})),
        deployment(), PUBLIC), True),
    "beside its own route": ((canary("gatewayapi:v1"), deployment(), PUBLIC, HTTP_ROUTE), True),
    "beside its own route, judged": ((canary("gatewayapi:v1", ANALYSES["by weights and its own metrics"]), deployment(),
        PUBLIC, HTTP_ROUTE), False),
    "whose analysis is skipped, with webhooks": ((canary(analysis={**WEIGHTS, "webhooks": HOOKS}, skipAnalysis=True),
        deployment()), True),
    "with retries that the Gateway API lacks": ((canary("gatewayapi:v1", service=_service_of_canary(
        **GATEWAYS, retries={"attempts": 3})), deployment(), PUBLIC), False),
    "with a route of Contour": ((canary("contour", service=_service_of_canary(
        timeout="15s", retries={"attempts": 3, "perTryTimeout": "1s"}, match=[{"uri": {"prefix": "/shop"}}])),
        deployment()), True),
    "with labels of its Services": ((canary(service=_service_of_canary(
        apex={"labels": {"a": "b"}}, canary={"annotations": {"c.example/d": "e"}})), deployment()), True),
    "with labels of the primary": ((canary(service=_service_of_canary(primary={"labels": {"a": "b"}})), deployment()), False),
    "with ports that are found": ((canary(service={"port": 80, "targetPort": "http", "portDiscovery": True}),
        deployment(template=build.pod_template("web", image="web:1", container={
            "ports": [*PORTS, {"name": "grpc", "containerPort": 9000}]}))), True),
    "with two matches": ((canary(analysis={**ANALYSES["by match"], "match": [
        *MATCH, {"headers": {"cookie": {"regex": "^(.*?;)?(beta=1)(;.*)?$"}}}]}), deployment()), True),
    "of nginx with two matches": ((canary("nginx", {**ANALYSES["by match"], "match": [
        *MATCH, {"headers": {"x-user": {"exact": "insider"}}}]}, **_INGRESS_REF), deployment(), ingress()), False),
    "of gloo with a match": ((canary("gloo", ANALYSES["by match"]), deployment()), False),
    "with copies": ((canary(analysis={**WEIGHTS, "mirror": True, "mirrorWeight": 50}), deployment()), True),
    "with iterations and copies": ((canary(analysis={"interval": "30s", "iterations": 3, "mirror": True}), deployment()), True),
    "with webhooks": ((canary(analysis={**WEIGHTS, "webhooks": HOOKS}), deployment()), True),
    "with all webhooks": ((canary(analysis={**WEIGHTS, "mirror": True, "webhooks": [
        {**HOOKS[0], "name": "it", "type": each, "url": f"http://loadtester.test/{each}"} for each in (
            *("confirm-rollout", "pre-rollout", "rollout", "confirm-traffic-increase", "confirm-promotion", "rollback"),)]}),
        deployment()), True),
    "with webhooks and iterations": ((canary("kubernetes", {"interval": "30s", "iterations": 3, "webhooks": [
        *HOOKS, {**HOOKS[0], "type": "confirm-promotion", "timeout": "30s"}]}), deployment()), True),
    "with events": ((canary(analysis={**WEIGHTS, "webhooks": [{**HOOKS[0], "type": "event"}]}), deployment()), False),
    **{f"with a hook {kind}": ((canary(analysis={**WEIGHTS, "webhooks": [{**HOOKS[0], "type": kind}]}), deployment()), False)
        for kind in ("post-rollout", "confirm-rolout")},
    "with a gate": ((canary(analysis={**WEIGHTS, "webhooks": [
        {"name": "gate", "type": "confirm-promotion", "url": "http://gate.test/"}]}), deployment()), True),
    "with alerts": ((canary(analysis={**WEIGHTS, "alerts": [{"name": "us", "providerRef": {"name": "slack"}}]}), deployment(),
        of(ALERT_PROVIDER, "slack", spec={"type": "slack", "channel": "us"})), False),
    "with sticky sessions": ((canary(analysis={**WEIGHTS, "sessionAffinity": {"cookieName": "c"}}), deployment()), False),
    "with a short interval": ((canary(analysis={**WEIGHTS, "interval": "5s"}), deployment()), True),
    "with steps that do not divide": ((canary(analysis={**WEIGHTS, "stepWeight": 30}), deployment()), True),
    "with steps back": ((canary(analysis={**WEIGHTS, "stepWeightPromotion": 50}), deployment()), True),
    "with thresholds of readiness": ((canary(analysis={
        **WEIGHTS, "canaryReadyThreshold": 50, "primaryReadyThreshold": 100}), deployment()), True),
    "with an inline query": ((canary(analysis={**WEIGHTS, "metrics": [
        {"name": "p99", "query": 'p99{service="web-canary"}', "threshold": 500, "interval": "1m"}]},
        metricsServer="http://prometheus.monitoring:9090"), deployment()), True),
    "with a deadline that is too short": ((canary(progressDeadlineSeconds=60), deployment(minReadySeconds=90)), False),
    "with a deadline": ((canary(progressDeadlineSeconds=120), deployment()), True),
    "that is suspended": ((canary(suspend=True), deployment()), True),
    "without an analysis": ((canary(skipAnalysis=True), deployment()), True),
    "under the old name of its analysis": ((canary(analysis=None, canaryAnalysis=WEIGHTS), deployment()), True),
    "that says nothing of an analysis": ((canary(analysis=None), deployment()), True),
    "with a limit that the chart lacks": ((canary(analysis={**WEIGHTS, "metrics": [
        {**RATE, "thresholdRange": {"min": 99, "max": 100}}]}), deployment()), False),
    "of another name": ((build.manifest(CANARY, "shop", NAMESPACE, spec=canary()["spec"]), deployment()), True),
    "with labels": ((canary(metadata={"labels": {"team": "a"}, "finalizers": ["finalizer.flagger.app"]}), deployment()), True),
    "of a DaemonSet": ((canary(targetRef={"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "web"}),), False),
    "with datadog": ((canary(analysis=_TEMPLATED), deployment(), of(METRIC_TEMPLATE, "errors", "flagger", spec={
        "provider": {"type": "datadog", "secretRef": {"name": "dd"}}, "query": "avg:errors{pod=~{{target}}}"})), False),
    "with graphite": ((canary(analysis=_TEMPLATED), deployment(), of(METRIC_TEMPLATE, "errors", "flagger", spec={
        "provider": {"type": "graphite", "address": "http://graphite.monitoring"},
        "query": "target=sumSeries(web.errors)&from=-{{interval}}"})), False),
    "with keptn": ((canary(analysis=_TEMPLATED), deployment(), of(METRIC_TEMPLATE, "errors", "flagger", spec={
        "provider": {"type": "keptn", "secretRef": {"name": "keptn"}}, "query": "fetch"})), False),
    "with a gateway of an unknown class": ((canary("gatewayapi:v1", ANALYSES["by weights and its own metrics"]),
        deployment()), False),
}  # fmt: skip


SERVICES = {"stableService": "web", "canaryService": "web-canary"}
BOTH = (service(), service("web-canary"))
STEPS: list[Manifest] = [{"setWeight": 25}, {"pause": {"duration": "10s"}}, {"setWeight": 50}, {"pause": {}}]
_BACKENDS = [{"name": "web", "port": 80, "weight": 100}, {"name": "web-canary", "port": 80, "weight": 0}]
ROUTERS: dict[str, tuple[Manifest, tuple[Manifest, ...]]] = {
    "no router": ({}, ()),
    "istio": ({"istio": {"virtualService": {"name": "web", "routes": ["main"]}}}, (
        of(Kind("networking.istio.io", "v1", "VirtualService", ""), spec={"hosts": ["web"], "http": [{"name": "main", "route": [
            {"destination": {"host": "web"}, "weight": 100}, {"destination": {"host": "web-canary"}, "weight": 0}]}]}),)),
    "nginx": ({"nginx": {"stableIngress": "web"}}, (ingress(),)),
    "alb": ({"alb": {"ingress": "web", "servicePort": 80, "rootService": "web-root"}}, (
        service("web-root"), of(build.INGRESS, spec={"ingressClassName": "alb", "rules": [{"http": {"paths": [
            {"path": "/", "pathType": "Prefix", "backend": {"service": {
                "name": "web-root", "port": {"name": "use-annotation"}}}}]}}]}),)),
    "traefik": ({"traefik": {"weightedTraefikServiceName": "web"}}, (
        of(Kind("traefik.io", "v1alpha1", "TraefikService", ""), spec={"weighted": {"services": _BACKENDS}}),)),
    "apisix": ({"apisix": {"route": {"name": "web", "rules": ["main"]}}}, (
        of(Kind("apisix.apache.org", "v2", "ApisixRoute", ""), spec={"http": [
            {"name": "main", "match": {"paths": ["/*"]}, "backends": [
                {"serviceName": each["name"], "servicePort": 80, "weight": each["weight"]} for each in _BACKENDS]}]}),)),
    "ambassador": ({"ambassador": {"mappings": ["web"]}}, ()),
    "appMesh": ({"appMesh": {"virtualService": {"name": "web"}}}, ()),
    "smi": ({"smi": {"rootService": "web", "trafficSplitName": "web"}}, ()),
    "the Gateway API's plugin": ({"plugins": {"argoproj-labs/gatewayAPI": {"httpRoute": "web", "namespace": NAMESPACE}}}, ()),
}  # fmt: skip
_NOT_HERE = ("ambassador", "appMesh", "smi", "the Gateway API's plugin")
ARGO_ASKED = {
    "prometheus": {"address": "http://prometheus.monitoring:9090", "query": 'ok{service="{{args.service-name}}"}'}
}
ARGO_METRICS = of(ARGO_TEMPLATE, "ok", spec={"args": [{"name": "service-name"}], "metrics": [
    {"name": "ok", "interval": "10s", "count": 2, "successCondition": "result[0] >= 0.95", "failureLimit": 1,
     "provider": ARGO_ASKED}]})  # fmt: skip
_USED: Manifest = {"templates": [{"templateName": "ok"}], "args": [{"name": "service-name", "value": "web-canary"}]}
ARGO_STEPS: dict[str, list[Manifest]] = {
    "by steps": STEPS,
    "judged in a step": [{"setWeight": 50}, {"analysis": _USED}],
    "with sizes": [{"setCanaryScale": {"replicas": 1}}, {"pause": {"duration": "10s"}},
                   {"setCanaryScale": {"matchTrafficWeight": True}}, {"setWeight": 50}],
}  # fmt: skip


def argo_rollout(strategy: Manifest, *, metadata: Any = build.NOTHING, **spec: Any) -> Manifest:
    usual = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": pods()}
    return of(ARGO_ROLLOUT, metadata=metadata, spec={**usual, "strategy": strategy, **spec})


def argo_canary(router: str, steps: Sequence[Manifest], **fields: Any) -> Manifest:
    routing = ROUTERS[router][0]
    return {"canary": {**SERVICES, **({"trafficRouting": routing} if routing else {}), **fields, "steps": list(steps)}}


def argo_rollouts() -> Iterator[Input]:
    for (router, (routing, beside)), (how, steps) in product(ROUTERS.items(), ARGO_STEPS.items()):
        complete = router not in _NOT_HERE and (bool(routing) or how != "with sizes")
        templates = (ARGO_METRICS,) if how == "judged in a step" else ()
        objects = (argo_rollout(argo_canary(router, steps)), *BOTH, *beside, *templates)
        yield Input(f"Argo Rollout, {router}, {how}", objects, complete)
    for name, (objects, complete) in ARGO_ROLLOUTS.items():
        yield Input(f"Argo Rollout {name}", objects, complete)


_BLUE_GREEN: Manifest = {"activeService": "web", "previewService": "web-preview"}
_BLUE_GREEN_SERVICES = (service(), service("web-preview"))
_WORKLOAD = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def _by_workload(**spec: Any) -> Manifest:
    return of(
        ARGO_ROLLOUT,
        "web",
        spec={"replicas": 2, "workloadRef": _WORKLOAD, "strategy": {"canary": {"steps": STEPS}}, **spec},
    )


ARGO_ROLLOUTS: dict[str, tuple[tuple[Manifest, ...], bool]] = {
    "by blue-green": ((argo_rollout({"blueGreen": _BLUE_GREEN}), *_BLUE_GREEN_SERVICES), True),
    "by blue-green and a person": ((argo_rollout({"blueGreen": {**_BLUE_GREEN, "autoPromotionEnabled": False}}),
        *_BLUE_GREEN_SERVICES), True),
    "by blue-green, judged": ((argo_rollout({"blueGreen": {
        **_BLUE_GREEN, "prePromotionAnalysis": _USED, "postPromotionAnalysis": _USED, "scaleDownDelaySeconds": 30}}),
        *_BLUE_GREEN_SERVICES, ARGO_METRICS), True),
    "judged beside its steps": ((argo_rollout(argo_canary("no router", STEPS, analysis={**_USED, "startingStep": 1})), *BOTH,
        ARGO_METRICS), True),
    "with an HPA": ((argo_rollout(argo_canary("no router", STEPS)), *BOTH, hpa(ARGO_ROLLOUT)), True),
    "with a VPA": ((argo_rollout(argo_canary("no router", STEPS)), *BOTH, vpa(ARGO_ROLLOUT)), True),
    "whose Services have its key": ((argo_rollout(argo_canary("no router", STEPS)), service(
        selector={"app": "web", "rollouts-pod-template-hash": "abc"}), service("web-canary")), True),
    "of a Deployment's template": ((_by_workload(), deployment(replicas=0), hpa(ARGO_ROLLOUT)), True),
    "of a template that is elsewhere": ((_by_workload(),), True),
    "with an experiment": ((argo_rollout(argo_canary("no router", [{"experiment": {
        "duration": "1m", "templates": [{"name": "a", "specRef": "stable"}]}}])), *BOTH), True),
    "beside an Experiment": ((argo_rollout(argo_canary("no router", STEPS)), *BOTH,
        of(EXPERIMENT, spec={"duration": "1m", "templates": [{"name": "a", "selector": {"matchLabels": {"app": "a"}},
        "template": build.pod_template("a", image="a:1")}]})), True),
    "with datadog": ((argo_rollout(argo_canary("no router", ARGO_STEPS["judged in a step"])), *BOTH, of(
        ARGO_TEMPLATE, "ok", spec={"args": [{"name": "service-name"}], "metrics": [{"name": "ok", "interval": "10s", "count": 2,
        "successCondition": "result >= 0.95", "provider": {"datadog": {"query": "avg:ok{*}"}}}]})), True),
    "that asks a server in an argument": ((argo_rollout(argo_canary("no router", ARGO_STEPS["judged in a step"])), *BOTH, of(
        ARGO_TEMPLATE, "ok", spec={"args": [{"name": "service-name"}], "metrics": [{"name": "ok", "count": 1,
        "successCondition": "result[0] > 0", "provider": {"prometheus": {
            "address": "http://{{args.service-name}}", "query": "up"}}}]})), False),
    "as the server shows it": (({**argo_rollout(argo_canary("no router", STEPS), metadata={
        "uid": "1", "generation": 3, "annotations": {"rollout.argoproj.io/revision": "3"}}), "status": {"phase": "Healthy"}},
        *BOTH), True),
    "with notifications": ((argo_rollout(argo_canary("no router", STEPS), metadata={
        "annotations": {"notifications.argoproj.io/subscribe.on-x.slack": "us"}}), *BOTH), False),
    "with its history": ((argo_rollout(argo_canary("no router", STEPS)), *BOTH, of(
        Kind(*ARGO, "AnalysisRun", "analysisruns"), "web-1", metadata={"ownerReferences": [
            {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web", "uid": "1"}]}, spec={"metrics": []})), True),
    "in two namespaces": ((argo_rollout(argo_canary("no router", STEPS)), *BOTH,
        build.manifest(ARGO_ROLLOUT, "web", "other", spec=argo_rollout({"canary": {"steps": STEPS}})["spec"])), True),
    "beside an Application": ((argo_rollout(argo_canary("no router", STEPS)), *BOTH, build.manifest(
        Kind(*ARGO, "Application", "applications"), "shop", "argocd", spec={"project": "default"})), True),
    "with its own hash": ((argo_rollout(argo_canary("no router", STEPS), template=pods(topologySpreadConstraints=[
        {**HASHED, "matchLabelKeys": ["rollouts-pod-template-hash"]}])), *BOTH), True),
    "with metadata of its pods": ((argo_rollout(argo_canary("no router", STEPS, canaryMetadata={"labels": {"role": "canary"}},
        stableMetadata={"labels": {"role": "stable"}})), *BOTH), True),
    "with antiAffinity": ((argo_rollout(argo_canary("no router", STEPS, antiAffinity={
        "preferredDuringSchedulingIgnoredDuringExecution": {"weight": 1}})), *BOTH), True),
}  # fmt: skip

INPUTS: tuple[Input, ...] = (*deployments(), *canaries(), *argo_rollouts())
