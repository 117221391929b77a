"""Manifests with one fault each, as people make them: what is changed in a good file, and what lint must name."""

from __future__ import annotations

import copy
import re
from typing import Any, NamedTuple

from rollouts.objects import SERVICE, Manifest
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from tests import build

_PART = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
REMOVED = object()
C = "spec.template.spec.containers[0]"
RESOURCES, ALIVE = f"{C}.resources", f"{C}.livenessProbe"
POD = "spec.template.spec"
TOLERATION = f"{POD}.tolerations[0]"
STEPS = "spec.strategy.canary.steps"
GATEWAY_API = "spec.strategy.canary.trafficRouting.gatewayAPI"
JOB_SPEC = "spec.metrics[0].provider.job.spec"
HPA, TARGET = "HorizontalPodAutoscaler", "spec.scaleTargetRef"
OF_DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cart"}
KIND = "write kind: Rollout, apiVersion: rollouts.dev/v1alpha1"

APP = {
    "ports": [{"name": "http", "containerPort": 8080}],
    "env": [{"name": "MODE", "value": "fast"}],
    "readinessProbe": {"httpGet": {"port": "http", "path": "/"}},
    "volumeMounts": [{"name": "config", "mountPath": "/etc/cart"}],
}
VOLUMES = [{"name": "config", "configMap": {"name": "cart"}}]
TEMPLATE = build.pod_template("cart", image="cart:1", container=APP, volumes=VOLUMES)
ROUTED = {
    "stableService": "cart",
    "canaryService": "cart-canary",
    "trafficRouting": {"gatewayAPI": {"httpRoutes": [{"name": "cart"}]}},
    "steps": [{"setWeight": 20}, {"pause": {"duration": "1m"}}],
}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}
JOB = {"spec": {"template": {"spec": {"containers": [{"name": "smoke", "image": "smoke:1"}]}}}}
SELECTED = {"selector": {"app": "cart"}, "ports": [{"port": 80, "targetPort": "http"}]}
ROUTE = {"parentRefs": [{"name": "gateway"}], "rules": [build.http_rule(build.backend("cart"))]}
GOOD: dict[str, Manifest] = {
    each["kind"]: each
    for each in (
        build.rollout({"canary": ROUTED}, "cart", "shop", template=TEMPLATE),
        build.manifest(SERVICE, "cart", "shop", spec=SELECTED),
        build.autoscaler("cart", "shop", CPU, most=9, minReplicas=2),
        build.config_map("cart", "shop", data={"mode": "fast"}),
        build.manifest(HTTP_ROUTE, "cart", "shop", spec=ROUTE),
        build.analysis_template({"name": "smoke", "provider": {"job": JOB}}, name="smoke", namespace="shop"),
    )
}
"""A file in which nothing is wrong."""


class Broken(NamedTuple):
    """One fault.

    Args:
        change: the path that gets `value`, in the object of `kind`.
        told: the path that lint names; "" for that of the change.
        words: what else it says.
    """

    kind: str
    change: str
    value: Any
    words: str
    told: str = ""

    @property
    def path(self) -> str:
        """The path that lint must name."""
        return self.told or self.change

    def manifests(self) -> list[Manifest]:
        """The good file with the fault in it."""
        found = copy.deepcopy(GOOD)
        *parents, last = [int(index) if index else name for name, index in _PART.findall(self.change)]
        place: Any = found[self.kind]
        for part in parents:
            place = place.setdefault(part, {}) if isinstance(place, dict) else place[part]
        if self.value is REMOVED:
            del place[last]
        else:
            place[last] = self.value
        return list(found.values())


def _rollout(change: str, value: Any, words: str, told: str = "") -> Broken:
    return Broken("Rollout", change, value, words, told)


IN_SPEC = [
    _rollout("spec.replica", 3, "did you mean replicas"),
    _rollout("spec.zzz", 1, "spec.zzz: unknown field; the fields are replicas, "),
    _rollout("spec.replicas", "3", "must be an integer"),
    _rollout("spec.replicas", -1, "must be 0 or more"),
    _rollout("spec.selector", REMOVED, "is required"),
    _rollout("spec.selector", {}, "give it matchLabels"),
    _rollout("spec.selector.matchLabels.app", "other", "do not match", "spec.template.metadata.labels"),
    _rollout("spec.selector.matchlabels", {"app": "cart"}, "did you mean matchLabels"),
    _rollout("spec.strategy", {}, "needs exactly one of canary and blueGreen"),
    _rollout("spec.strategy.canaray", {}, "did you mean canary"),
    _rollout("spec.strategy.blueGreen", {"activeService": "cart"}, "it has both: remove one", "spec.strategy"),
    _rollout(f"{STEPS}[0].setWeight", 120, "must be 100 or less"),
    _rollout(f"{STEPS}[0].setWeight", -5, "must be 0 or more"),
    _rollout(f"{STEPS}[0].setWeight", "20%", "must be an integer"),
    _rollout(f"{STEPS}[0]", {"setweight": 20}, "did you mean setWeight", f"{STEPS}[0].setweight"),
    _rollout(f"{STEPS}[0].pause", {}, "begin each with a dash of its own", f"{STEPS}[0]"),
    _rollout(f"{STEPS}[1].pause.duration", "1 minute", "a duration such as 30s, 5m or 1h30m"),
    _rollout(f"{STEPS}[1].pause.durations", "1m", "did you mean duration"),
    _rollout(f"{STEPS}[1].pause", "1m", "must be an object, not '1m'; its fields are duration"),
    _rollout(STEPS, {"setWeight": 20}, "must be a list, not an object; begin each entry with a dash"),
    _rollout("spec.strategy.canary.maxSurge", "a lot", "a number of pods, 0 or more, or a percentage such as 25%"),
    _rollout("spec.strategy.canary.maxUnavailable", -1, "a number of pods, 0 or more"),
    _rollout("spec.strategy.canary.canaryService", "cart", "stableService"),
    _rollout("spec.strategy.canary.canaryService", "Cart_Canary", "lower-case letters, digits and '-'"),
    _rollout(f"{GATEWAY_API}.httpRoutes", [], "must name a route; write httpRoutes: [{name:", GATEWAY_API),
    _rollout("spec.strategy.canary.trafficRouting.envoy", {}, "unknown field; the fields are alb, "),
    _rollout("spec.progressDeadlineSeconds", 0, "must be more than minReadySeconds"),
    _rollout("spec.minReadySeconds", "10s", "must be an integer"),
    _rollout("spec.revisionHistoryLimit", -1, "must be 0 or more"),
    _rollout("spec.paused", "no", "true or false"),
    _rollout("spec.template", REMOVED, "is required"),
]
IN_TEMPLATE = [
    _rollout(f"{C}.ports[0].containerPort", "8080", "remove the quotes"),
    _rollout(f"{C}.env[0].value", 5, "put it in quotes"),
    _rollout(f"{C}.env[0].value", True, "put it in quotes"),
    _rollout(f"{C}.args", "--fast", "must be a list"),
    _rollout(f"{RESOURCES}.limits.memory", "1 GB", "is no quantity; write a number with"),
    _rollout(f"{C}.readinessprobe", {}, "did you mean readinessProbe"),
    _rollout(f"{C}.name", REMOVED, "is required"),
    _rollout(f"{C}.image", REMOVED, "is required"),
    _rollout(f"{C}.imagePullPolicy", "always", "did you mean Always"),
    _rollout(f"{POD}.restartPolicy", "Never", "must be Always"),
    _rollout(f"{C}.ports[0].protocol", "http", "must be one of SCTP, TCP, UDP"),
    _rollout(f"{C}.volumeMounts[0].name", "confg", "did you mean config"),
    _rollout(f"{C}.readinessProbe.tcpSocket", {"port": 80}, "exactly one of", f"{C}.readinessProbe"),
    _rollout(f"{C}.livenessProbe", {"httpGet": {"path": "/"}}, "is required", f"{C}.livenessProbe.httpGet.port"),
    _rollout(RESOURCES, {"requests": {"cpu": 2}, "limits": {"cpu": 1}}, "more than", f"{RESOURCES}.requests.cpu"),
    _rollout(f"{C}.ports[0].containerPort", 80800, "1 to 65535"),
    _rollout(f"{POD}.volumes[0].emptyDir", {}, "one source only; it has", f"{POD}.volumes[0]"),
    _rollout(f"{C}.ports[0].name", "http_metrics_port", "15 at most"),
    _rollout(f"{RESOURCES}.limits.mem", "1Gi", "there are cpu, memory"),
    _rollout(ALIVE, {"exec": {"command": ["a"]}, "successThreshold": 2}, "must be 1", f"{ALIVE}.successThreshold"),
    _rollout(f"{POD}.ports", [{"containerPort": 80}], "is unknown to Kubernetes 1."),
    _rollout(f"{C}.lifecycle.preStop.sleep.seconds", 60, "terminationGracePeriodSeconds"),
    _rollout(f"{POD}.tolerations", [{"operator": "Exists", "value": "b"}], "must be empty", f"{TOLERATION}.value"),
]
ACROSS = [
    Broken("Service", "spec.selector.app", "basket", "which have app=cart", "spec.selector"),
    Broken("Service", "spec.ports[0].targetPort", "web", "name the port in the pod template, or write its number"),
    Broken("Service", "spec.ports[0].port", "80", "remove the quotes"),
    Broken("Service", "spec.ports[0].targetport", 80, "did you mean targetPort"),
    Broken("Service", "spec.type", "Loadbalancer", "did you mean LoadBalancer"),
    Broken(HPA, TARGET, OF_DEPLOYMENT, f"Deployment cart, not the Rollout of that name; {KIND}", f"{TARGET}.kind"),
    Broken(HPA, f"{TARGET}.apiVersion", "apps/v1", "must be rollouts.dev/v1alpha1, not apps/v1"),
    Broken(HPA, "spec.minReplicas", 10, "change one of them"),
    Broken(HPA, "spec.metrics[0].resource.target.averageUtilization", "60%", "a whole number, not a text; write 60"),
    Broken("ConfigMap", "data.port", 8080, "put it in quotes"),
    Broken("ConfigMap", "data.log level", "debug", "a key is letters, digits"),
    Broken("AnalysisTemplate", f"{JOB_SPEC}.template.spec.containers[0].image", 1, "put it in quotes"),
    Broken("AnalysisTemplate", f"{JOB_SPEC}.backoffLimits", 1, "did you mean backoffLimit"),
    Broken("AnalysisTemplate", f"{JOB_SPEC}.template.spec.restartPolicy", "Always", "Never or OnFailure"),
    Broken("HTTPRoute", "spec.rules[0].backendRefs[0].name", "basket", "has Service cart as a backend; add it", "spec"),
]
ALL = [*IN_SPEC, *IN_TEMPLATE, *ACROSS]
