"""Promise: `rollouts lint` has no problem with manifests as the documentation of Argo Rollouts and Flagger has them.

Pod templates are compared with the API server in a test of their own; the examples and the pages are linted in another. After one
false alarm in a pipeline the whole step is taken out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product

import pytest
import yaml

from rollouts.cli.demo.manifests import blue_green_app, canary_app
from rollouts.cli.migrate.migrated import migrated
from rollouts.objects import ANALYSIS_RUN, ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE, ROLLOUT, SERVICE, Manifest
from tests import build
from tests.api.analysis_specs import GOOD
from tests.api.argo_provider_examples import ALL
from tests.cli.flagger_canaries import AUTOSCALER, CANARIES, DEPLOYMENT, TEMPLATE
from tests.cli.pod_templates import everyday
from tests.linted import lint_text

KINDS = {kind.kind: kind for kind in (ROLLOUT, ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE, ANALYSIS_RUN)}
WEIGHTS: dict[str, list[Manifest]] = {
    "no steps": [],
    "a person": [{"setWeight": 20}, {"pause": {}}],
    "pauses": [{"setWeight": weight} if weight else {"pause": {"duration": "10m"}} for weight in (20, 0, 40, 0, 80, 0)],
    "seconds": [{"setWeight": 5}, {"pause": {"duration": 3600}}, {"setWeight": 50}, {"pause": {"duration": "1h"}}],
    "sizes": [
        {"setCanaryScale": {"weight": 25}},
        {"setWeight": 10},
        {"pause": {}},
        {"setCanaryScale": {"replicas": 3}},
    ],
    "an analysis": [{"setWeight": 20}, {"analysis": {"templates": [{"templateName": "success-rate"}]}}],
}
ROUTERS: dict[str, Manifest | None] = {
    "no router": None,
    "nginx": {"nginx": {"stableIngress": "cart"}},
    "alb": {"alb": {"ingress": "cart", "servicePort": 80}},
    "istio": {"istio": {"virtualService": {"name": "cart", "routes": ["primary"]}}},
    "traefik": {"traefik": {"weightedTraefikServiceName": "cart"}},
    "apisix": {"apisix": {"route": {"name": "cart", "rules": ["cart"]}}},
    "gateway api": {"gatewayAPI": {"httpRoutes": [{"name": "cart"}]}},
}
SURGES: dict[str, Manifest] = {"": {}, "numbers": {"maxSurge": 1, "maxUnavailable": 0}, "percents": {"maxSurge": "25%"}}
BLUE_GREEN: dict[str, Manifest] = {
    "plain": {},
    "preview": {"previewService": "cart-canary", "autoPromotionEnabled": False},
    "seconds": {"previewService": "cart-canary", "autoPromotionSeconds": 30, "scaleDownDelaySeconds": 600},
    "small": {"previewService": "cart-canary", "previewReplicaCount": 1, "scaleDownDelayRevisionLimit": 2},
    "analyses": {"prePromotionAnalysis": {"templates": [{"templateName": "a"}]}, "postPromotionAnalysis": {
        "templates": [{"templateName": "b", "clusterScope": True}], "args": [{"name": "service", "value": "cart"}]}},
}  # fmt: skip


def _service(name: str) -> Manifest:
    return build.manifest(
        SERVICE, name, spec={"selector": {"app": "cart"}, "ports": [{"port": 80, "targetPort": "http"}]}
    )


PODS = build.pod_template("cart", image="cart:1", container={"ports": [{"name": "http", "containerPort": 8080}]})
SERVICES = [_service("cart"), _service("cart-canary")]


def _files() -> Iterator[tuple[str, list[Manifest]]]:
    for example in ALL:
        if not example.refused:
            yield f"Argo's {example.where}", [build.manifest(KINDS[example.kind], "example", spec=example.spec)]
    for name, canary in CANARIES.items():
        if name != "a/b by cookie":  # nginx cannot match it, as migrate says
            yield f"Flagger's {name}", list(migrated([canary, DEPLOYMENT, AUTOSCALER, TEMPLATE]).objects)
    for (steps, router), surge in product(product(WEIGHTS, ROUTERS), SURGES):
        strategy = build.canary(*WEIGHTS[steps], **SURGES[surge])
        if (routing := ROUTERS[router]) is not None:
            strategy["canary"] |= {"stableService": "cart", "canaryService": "cart-canary", "trafficRouting": routing}
        elif steps == "sizes":
            continue  # sizes need a router
        yield f"{steps} with {router} {surge}", [build.rollout(strategy, "cart", template=PODS), *SERVICES]
    for name, fields in BLUE_GREEN.items():
        strategy = {"blueGreen": {"activeService": "cart", **fields}}
        yield f"blue-green {name}", [build.rollout(strategy, "cart", template=PODS), *SERVICES]
    for name, spec in GOOD.items():
        yield f"a template {name}", [build.manifest(ANALYSIS_TEMPLATE, "example", spec=spec)]
    labelled = {"labels": {"app": "{{args.service}}", "of": "{{ args.service }}-smoke"}}
    mounted = {"volumeMounts": [{"name": "{{args.v}}", "mountPath": "/v"}]}
    pod: Manifest = {"nodeSelector": {"zone": "{{args.zone}}"}, "serviceAccountName": "{{args.service}}"}
    volumes = [{"name": "{{args.v}}"}]
    smoke = build.pod_template("", image="{{args.image}}", container=mounted, metadata=labelled, volumes=volumes, **pod)
    metric = {"name": "smoke", "provider": {"job": {"spec": {"template": smoke}}}}
    names = [{"name": name} for name in ("service", "image", "v", "zone")]
    yield "a Job by arguments", [build.analysis_template(metric, name="smoke", args=names)]
    for name, template in everyday():
        yield f"pods {name}", [build.rollout({"canary": {"steps": WEIGHTS["a person"]}}, "cart", template=template)]
    yield from (("a canary", list(canary_app("shop"))), ("a blue-green", list(blue_green_app("shop"))))


FILES = dict(_files())


def test_there_are_many() -> None:
    """The more of them, the fewer alarms that nobody has thought of. What stands in several files counts once."""
    assert len({json.dumps(each, sort_keys=True) for file in FILES.values() for each in file}) >= 300


@pytest.mark.parametrize("name", FILES)
def test_a_good_manifest_has_no_problem(name: str) -> None:
    """Each is taken by the controller, or by the API server, as their own tests show."""
    assert [str(each.message) for each in lint_text(yaml.safe_dump_all(FILES[name])).problems] == []
