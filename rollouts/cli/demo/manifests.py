"""The objects of `rollouts demo`: one Rollout by canary, one by blue-green, their Services, a route, and an analysis. Pure."""

from __future__ import annotations

from typing import Any

from rollouts.objects import ANALYSIS_TEMPLATE, ROLLOUT, Manifest
from rollouts.sim.network.gateway_types import HTTP_ROUTE

CANARY_APP = "shop"
BLUE_GREEN_APP = "pay"
REPLICAS = 4
IMAGE = "ghcr.io/stefanprodan/podinfo"
FIRST, SECOND, BAD = "6.9.0", "6.9.1", "bad"  # the simulated kubelets never get a tag with "bad" in it ready
FAULTY, ERROR_PERCENT = "6.9.2", 5  # this version runs, and fails a part of its requests
SUCCESS_RATE, GOOD_SHARE = "success-rate", 0.99
CANARY_STEPS: tuple[Manifest, ...] = (
    {"setWeight": 25},
    {"pause": {}},
    {"setWeight": 50},
    {"pause": {"duration": "1s"}},
)


def canary_app(namespace: str, *, gateway: str = "") -> tuple[Manifest, ...]:
    """The Services and the Rollout of the canary.

    Args:
        gateway: name of a Gateway in the namespace; an HTTPRoute on it then moves the traffic by weights, and an analysis
            measures what clients get. "" for none: the ratio of pods behind one Service moves it, and nobody measures.
    """
    canary: Manifest = {"maxSurge": 1, "maxUnavailable": 0, "steps": list(CANARY_STEPS)}
    if not gateway:
        return service(namespace, CANARY_APP, app=CANARY_APP), rollout(namespace, CANARY_APP, {"canary": canary})
    canary |= {
        "stableService": CANARY_APP,
        "canaryService": f"{CANARY_APP}-canary",
        "trafficRouting": {"gatewayAPI": {"httpRoutes": [{"name": CANARY_APP}]}},
        "scaleDownDelaySeconds": 1,
        "abortScaleDownDelaySeconds": 1,
        "analysis": {
            "templates": [{"templateName": SUCCESS_RATE}],
            "args": [{"name": "service", "value": f"{CANARY_APP}-canary"}],
        },
    }
    return (
        service(namespace, CANARY_APP, app=CANARY_APP),
        service(namespace, f"{CANARY_APP}-canary", app=CANARY_APP),
        http_route(namespace, gateway),
        success_rate(namespace),
        rollout(namespace, CANARY_APP, {"canary": canary}),
    )


def success_rate(namespace: str) -> Manifest:
    """An analysis of the share of requests without errors, measured every second for as long as the update takes."""
    rate = 'sum(rate(http_requests_total{service="{{args.service}}"%s}[10s]))'
    good, every = (rate % more for more in (',code!~"5.."', ""))
    metric: Manifest = {
        "name": SUCCESS_RATE,
        "initialDelay": "2s",
        "interval": "1s",
        "failureLimit": 2,
        "noData": "wait",
        "successCondition": f"result[0] >= {GOOD_SHARE}",
        "provider": {"prometheus": {"query": f"{good} / {every}"}},
    }
    return {
        **ANALYSIS_TEMPLATE.head,
        "metadata": {"name": SUCCESS_RATE, "namespace": namespace},
        "spec": {"args": [{"name": "service"}], "metrics": [metric]},
    }


def http_route(namespace: str, gateway: str) -> Manifest:
    """A route that sends all requests to the stable Service, and has the canary Service beside it with weight 0."""
    weights = ((CANARY_APP, 100), (f"{CANARY_APP}-canary", 0))
    backends = [{"name": name, "port": 80, "weight": weight} for name, weight in weights]
    return {
        **HTTP_ROUTE.head,
        "metadata": {"name": CANARY_APP, "namespace": namespace},
        "spec": {"parentRefs": [{"name": gateway}], "rules": [{"backendRefs": backends}]},
    }


def blue_green_app(namespace: str) -> tuple[Manifest, ...]:
    """An active and a preview Service, and a Rollout whose preview waits for promotion."""
    preview = f"{BLUE_GREEN_APP}-preview"
    strategy = {
        "blueGreen": {
            "activeService": BLUE_GREEN_APP,
            "previewService": preview,
            "autoPromotionEnabled": False,
            "previewReplicaCount": 1,
            "scaleDownDelaySeconds": 3,
        }
    }
    return (
        service(namespace, BLUE_GREEN_APP, app=BLUE_GREEN_APP),
        service(namespace, preview, app=BLUE_GREEN_APP),
        rollout(namespace, BLUE_GREEN_APP, strategy),
    )


def service(namespace: str, name: str, *, app: str) -> Manifest:
    """A Service of the pods labelled `app`."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"app": app}, "ports": [{"name": "http", "port": 80, "targetPort": 9898}]},
    }


def rollout(namespace: str, name: str, strategy: Manifest) -> Manifest:
    """A Rollout with the first image."""
    container: dict[str, Any] = {
        "name": "app",
        "image": f"{IMAGE}:{FIRST}",
        "ports": [{"name": "http", "containerPort": 9898}],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 9898}, "periodSeconds": 1},
        # Proxies learn late that a pod terminates; until then it must go on answering.
        "lifecycle": {"preStop": {"sleep": {"seconds": 2}}},
    }
    pod = {"terminationGracePeriodSeconds": 10, "containers": [container]}
    return {
        **ROLLOUT.head,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": {"app": name}},
            "strategy": strategy,
            # Its requests are short and its pods have a preStop sleep of their own; default waits would make the demo slow.
            "drain": {"preStop": "Off", "maxRequestSeconds": 1, "timeoutSeconds": 5},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    }


def with_image(tag: str) -> list[Manifest]:
    """The JSON Patch that changes a Rollout's image, as `kubectl set image` would."""
    return [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": f"{IMAGE}:{tag}"}]
