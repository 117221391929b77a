"""What single Rollouts need of a cluster and it lacks: Secrets that may be read, metrics, autoscalers that scale, route fields.

Pure: functions of what `doctor_reads` saw.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rollouts.cli.commands.doctor_finding import Diagnosis, Level, conditions_of
from rollouts.cli.commands.doctor_reads import ClusterSeen, canary_of, route_fields_of
from rollouts.cli.commands.lint_autoscalers import INSTEAD, multiplies_words, value_metrics
from rollouts.objects import Manifest
from rollouts.traffic.gateway_api.codec import KINDS

_API_OF_METRIC = {
    "Resource": "metrics.k8s.io",
    "ContainerResource": "metrics.k8s.io",
    "Pods": "custom.metrics.k8s.io",
    "Object": "custom.metrics.k8s.io",
    "External": "external.metrics.k8s.io",
}
"""Source: https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#support-for-metrics-apis."""
_SWITCHED_OFF = "ScalingDisabled"  # the target has 0 replicas: somebody wants that
_INSTALL_METRICS = {
    "metrics.k8s.io": "install metrics-server: https://github.com/kubernetes-sigs/metrics-server#installation"
}
_INSTALL_ADAPTER = "install an adapter for it, such as prometheus-adapter or KEDA"
_GATEWAY_CRDS = "install a newer Gateway API: https://gateway-api.sigs.k8s.io/guides/#installing-gateway-api"
_BUNDLE = "gateway.networking.k8s.io/bundle-version"


def secrets(seen: ClusterSeen) -> Iterator[Diagnosis]:
    """Secrets of configuration and of arguments that the controller may not read: who names them waits (`ConfigForbidden`)."""
    for controller in seen.controllers:
        for namespace in dict.fromkeys(right.namespace for right in controller.missing_secrets):
            mine = [right for right in controller.missing_secrets if right.namespace == namespace]
            some = ", ".join(map(str, mine[:3])) + (", …" if len(mine) > 3 else "")
            read = f"kubectl get rollouts,analysistemplates -n {namespace} -o yaml"
            roles = f"rollouts rbac -f - --service-account {controller.namespace}/{controller.account}"
            fix = f"{read} | {roles} | kubectl apply -f -"
            yield Diagnosis("rights to Secrets", Level.FAULT, f"{controller.where} may not {some}", fix)


def metrics(seen: ClusterSeen) -> Iterator[Diagnosis]:
    """APIs of metrics that Rollouts and their autoscalers ask and nobody serves, and autoscalers that do not scale."""
    missing = {} if "list apiservices" in seen.refused else _missing_apis(seen)
    yield from missing.values()
    yield from _inactive(seen, missing)
    yield from _multiplying(seen)


def _missing_apis(seen: ClusterSeen) -> dict[str, Diagnosis]:
    """One finding for each API of metrics that is asked and not available, however many ask it."""
    available = {
        api_service["spec"].get("group", "")
        for api_service in seen.api_services
        if conditions_of(api_service, "Available", said=("True",))
    }
    asked = [
        f"Rollout {_name(rollout)} asks what its container {wanted.get('container')} uses: its steps do not complete"
        for rollout in seen.rollouts
        if (wanted := (rollout.get("spec", {}).get("autoscaling") or {}).get("containerResource"))
    ]
    harm = {"metrics.k8s.io": list(asked)} if asked else {}
    for autoscaler in seen.autoscalers:
        for api in sorted(_apis_of(autoscaler)):
            harm.setdefault(api, []).append(f"HorizontalPodAutoscaler {_name(autoscaler)} does not scale")
    found = {}
    for api in sorted(harm.keys() - available):
        told = harm[api]
        more = f"; and {len(told) - 3} more" if len(told) > 3 else ""
        says = f"{api} is not available. {'; '.join(told[:3])}{more}"
        level = Level.FAULT if asked and api == "metrics.k8s.io" else Level.WARNING
        found[api] = Diagnosis("metrics APIs", level, says, hint=_INSTALL_METRICS.get(api, _INSTALL_ADAPTER))
    return found


def _apis_of(autoscaler: Manifest) -> set[str]:
    types = {metric.get("type", "") for metric in autoscaler["spec"].get("metrics") or ()}
    return {_API_OF_METRIC[name] for name in types & _API_OF_METRIC.keys()}


def _inactive(seen: ClusterSeen, missing: Iterable[str]) -> Iterator[Diagnosis]:
    """An autoscaler that knows no number keeps the size that it has; a Rollout that waits for it does not go on.

    That the API of its metrics is missing is told already.
    """
    gates = {_name(rollout): rollout.get("spec", {}).get("autoscaling") or {} for rollout in seen.rollouts}
    waiting = {name for name, gate in gates.items() if gate.keys() & {"settled", "minHeadroomPercent"}}
    for autoscaler in seen.autoscalers:
        conditions = conditions_of(autoscaler, "ScalingActive")
        inactive = [condition for condition in conditions if condition.get("reason") != _SWITCHED_OFF]
        if not inactive or not _apis_of(autoscaler).isdisjoint(missing):
            continue
        rollout = _target_of(autoscaler)
        why = f"{inactive[0].get('reason')}: {inactive[0].get('message')}"
        waits = f"; Rollout {rollout} waits for it (spec.autoscaling)" if rollout in waiting else ""
        says = f"HorizontalPodAutoscaler {_name(autoscaler)} does not scale: {why}{waits}"
        fix = f"kubectl describe hpa {autoscaler['metadata']['name']} -n {autoscaler['metadata']['namespace']}"
        level = Level.FAULT if waits else Level.WARNING
        hint = "a metric is not measured, or the pods have no resource requests"
        yield Diagnosis("autoscalers", level, says, fix, hint)


def _multiplying(seen: ClusterSeen) -> Iterator[Diagnosis]:
    """Autoscalers that multiply one value by all ready pods, where those of a canary come on top of `replicas`."""
    canaries = {_name(rollout): canary_of(rollout) for rollout in seen.rollouts}
    for autoscaler in seen.autoscalers:
        canary, names = canaries.get(_target_of(autoscaler), {}), value_metrics(autoscaler["spec"])
        if names and canary.get("trafficRouting") is not None and not canary.get("dynamicStableScale"):
            says = multiplies_words(f"HorizontalPodAutoscaler {_name(autoscaler)}", names)
            yield Diagnosis("autoscalers", Level.WARNING, says.removesuffix(f"; {INSTEAD}"), hint=INSTEAD)


def routes(seen: ClusterSeen) -> Iterator[Diagnosis]:
    """Kinds and fields of routes that Rollouts need and an older Gateway API does not have."""
    if "get customresourcedefinitions" in seen.refused or not seen.served.get("gatewayAPI"):
        return
    for rollout in seen.rollouts:
        for field in route_fields_of(rollout):
            crd, kind = seen.route_crds.get(field), KINDS[field][0]
            known = {route.version for route in KINDS[field]}
            declared = (crd or {}).get("spec", {}).get("versions") or ()
            versions = {version["name"]: version for version in declared if version.get("served")}
            if not known & set(versions):
                says = f"Rollout {_name(rollout)} needs {kind.kind}, which {_bundle(seen.route_crds)} does not have"
                yield Diagnosis("Gateway API", Level.FAULT, says, hint=_GATEWAY_CRDS)
            elif field == "httpRoutes" and _mirrors_a_part(rollout) and not _has_mirror_percentage(versions):
                drops = f"{_bundle(seen.route_crds)} drops the percentage: all of them would be mirrored"
                says = f"Rollout {_name(rollout)} mirrors a part of the requests, and {drops}"
                yield Diagnosis("Gateway API", Level.FAULT, says, hint=f"{_GATEWAY_CRDS}, v1.3 or newer")


def _mirrors_a_part(rollout: Manifest) -> bool:
    steps = canary_of(rollout).get("steps") or ()
    mirrors = [step["setMirrorRoute"] for step in steps if step.get("setMirrorRoute")]
    return any(mirror.get("match") and mirror.get("percentage", 100) < 100 for mirror in mirrors)


def _has_mirror_percentage(versions: Mapping[str, Manifest]) -> bool:
    """Whether a version of the HTTPRoute's CRD has the field with the share of requests to mirror."""
    for version in versions.values():
        schema = version.get("schema", {}).get("openAPIV3Schema") or {}
        for name in ("spec", "rules", "filters", "requestMirror", "percent"):
            fields = schema.get("items") or schema
            schema = (fields.get("properties") or {}).get(name) or {}
        if schema:
            return True
    return False


def _bundle(crds: Mapping[str, Manifest | None]) -> str:
    """The release of the Gateway API that is installed, for people."""
    annotations = [crd.get("metadata", {}).get("annotations") or {} for crd in crds.values() if crd]
    versions = sorted({names[_BUNDLE] for names in annotations if _BUNDLE in names})
    return f"the installed Gateway API ({', '.join(versions)})" if versions else "the installed Gateway API"


def _name(thing: Manifest) -> str:
    return f"{thing['metadata']['namespace']}/{thing['metadata']['name']}"


def _target_of(autoscaler: Manifest) -> str:
    return f"{autoscaler['metadata']['namespace']}/{autoscaler['spec']['scaleTargetRef']['name']}"
