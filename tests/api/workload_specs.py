"""Specs with `workloadRef`: good ones, and one bad one for every rule."""

from __future__ import annotations

from typing import Any

from tests.api.specs import CANARY, GONE, Bad, Spec, changed, late

DEPLOYMENT_CART: Spec = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cart"}
_REF = "spec.workloadRef"


def referring(**fields: Any) -> Spec:
    """The canary with a `workloadRef` in place of its template; some fields of the reference are changed."""
    return changed(CANARY, template=GONE, workloadRef={**DEPLOYMENT_CART, **fields})


IN_PLACE: Spec = changed(referring(mode="InPlace"), replicas=GONE, selector=GONE)
"""A Deployment in place, which has the replicas and the selector."""


def in_place(**changes: Any) -> Spec:
    """A Deployment in place with some fields of the spec."""
    return changed(IN_PLACE, **changes)


def _of_canary(**fields: Any) -> Spec:
    return in_place(**{f"strategy__canary__{name}": value for name, value in fields.items()})


def _of_preview(**fields: Any) -> Spec:
    return in_place(strategy={"blueGreen": {"activeService": "cart", **fields}})


_CANARY = "spec.strategy.canary"
_HAS_IT = "must be absent with workloadRef.mode: InPlace: the Deployment has it"
_YET = "is not supported with workloadRef.mode: InPlace yet"
_PREVIEW = "spec.strategy.blueGreen"
_ROUTED: Spec = {
    "trafficRouting": {"gatewayAPI": {"httpRoutes": [{"name": "cart"}]}},
    "stableService": "a",
    "canaryService": "b",
}
_CHANGES = "is not supported with workloadRef.mode: InPlace: it would change the Deployment's template"
_AFFINITY: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {}}

IN_PLACE_BAD: tuple[Bad, ...] = (
    late("requests for an experiment in place", _of_canary(**_ROUTED, steps=[{"experiment": {"duration": "5m", "templates": [
        {"name": "a", "specRef": "canary", "weight": 5}]}}]), f"{_CANARY}.steps[0].experiment.templates[0].weight", _YET),
    late("replicas of a Deployment in place", in_place(replicas=2), "spec.replicas", _HAS_IT),
    late("a selector of a Deployment in place", in_place(selector=CANARY["selector"]), "spec.selector", _HAS_IT),
    late("minReadySeconds of a Deployment in place", in_place(minReadySeconds=5), "spec.minReadySeconds", _HAS_IT),
    late("history of a Deployment in place", in_place(revisionHistoryLimit=3), "spec.revisionHistoryLimit", _HAS_IT),
    late("maxSurge of a Deployment in place", _of_canary(maxSurge=1), f"{_CANARY}.maxSurge", _HAS_IT),
    late("maxUnavailable of a Deployment in place", _of_canary(maxUnavailable=1), f"{_CANARY}.maxUnavailable", _HAS_IT),
    late("maxUnavailable of a Deployment in place with a preview", _of_preview(maxUnavailable=1), f"{_PREVIEW}.maxUnavailable",
        _HAS_IT),
    late("stable pods that shrink with their traffic in place", _of_canary(dynamicStableScale=True, **_ROUTED),
        f"{_CANARY}.dynamicStableScale", "the Deployment keeps all stable pods"),
    late("subsets in place", _of_canary(trafficRouting={"istio": {"virtualService": {"name": "cart"},
        "destinationRule": {"name": "cart", "stableSubsetName": "a", "canarySubsetName": "b"}}}),
        f"{_CANARY}.trafficRouting.istio.destinationRule", f"{_YET}; name two Services"),
    late("ping-pong in place", _of_canary(pingPong={"pingService": "a", "pongService": "b"}), f"{_CANARY}.pingPong",
        f"{_YET}; name stableService and canaryService"),
    late("anti-affinity of a preview in place", _of_preview(antiAffinity=_AFFINITY), f"{_PREVIEW}.antiAffinity", _CHANGES),
    late("active metadata in place", _of_preview(activeMetadata={"labels": {"role": "a"}}), f"{_PREVIEW}.activeMetadata",
        _CHANGES),
    late("preview metadata in place", _of_preview(previewMetadata={"labels": {"role": "b"}}), f"{_PREVIEW}.previewMetadata",
        _CHANGES),
    late("a Deployment in place with a long name and a Service", changed(_of_canary(stableService="a"),
        workloadRef__name="c" * 47), f"{_REF}.name", "has more than 46 characters"),
    late("anti-affinity in place", _of_canary(antiAffinity=_AFFINITY), f"{_CANARY}.antiAffinity", _CHANGES),
    late("canary metadata in place", _of_canary(canaryMetadata={"labels": {"role": "canary"}}),
        f"{_CANARY}.canaryMetadata", _CHANGES),
    late("stable metadata in place", _of_canary(stableMetadata={"labels": {"role": "stable"}}),
        f"{_CANARY}.stableMetadata", _CHANGES),
    late("a sleep injected in place", in_place(drain={"preStop": "Inject"}), "spec.drain.preStop",
        f"{_CHANGES}; use Validate"),
    late("configuration versioned in place", in_place(configVersioning={"mode": "On"}), "spec.configVersioning", _CHANGES),
    late("Secrets versioned in place", in_place(configVersioning={"secrets": True}), "spec.configVersioning", _CHANGES),
    late("a restart in place", in_place(restartAt="2026-11-27T15:00:00Z"), "spec.restartAt",
        f"{_CHANGES}; use kubectl rollout restart"),
)  # fmt: skip
"""What is refused by name: what the Deployment has, what is not supported yet, and what would change the template."""

_ON_NODES = changed(IN_PLACE, workloadRef__kind="DaemonSet")
_BY_NODES = "is not supported for a DaemonSet, which goes by nodes"

DAEMON_SET_BAD: tuple[Bad, ...] = (
    late("a DaemonSet's template", referring(kind="DaemonSet"), f"{_REF}.mode", "must be InPlace for a DaemonSet"),
    late("replicas of a DaemonSet", changed(_ON_NODES, replicas=2), "spec.replicas", "the DaemonSet has it"),
    late("blue-green of a DaemonSet", changed(_ON_NODES, strategy={"blueGreen": {"activeService": "cart"}}),
        "spec.strategy.blueGreen", _BY_NODES),
    late("a router of a DaemonSet", changed(_ON_NODES,
        strategy__canary__trafficRouting={"gatewayAPI": {"httpRoutes": [{"name": "cart"}]}},
        strategy__canary__stableService="a", strategy__canary__canaryService="b"), f"{_CANARY}.trafficRouting", _BY_NODES),
    late("Services of a DaemonSet", changed(_ON_NODES, strategy__canary__stableService="a"),
        f"{_CANARY}.stableService", _BY_NODES),
    late("an autoscaler of a DaemonSet", changed(_ON_NODES, autoscaling={"minHeadroomPercent": 10}), "spec.autoscaling",
        "it has a pod on each node, and no autoscaler"),
    late("another template after an abort of a Deployment", changed(IN_PLACE, workloadRef__onAbort="RevertTemplate"),
        f"{_REF}.onAbort", "is for a DaemonSet"),
    late("an abort of pods of its own", referring(onAbort="Hold"), f"{_REF}.onAbort", "is for mode: InPlace"),
    late("nodes of a Deployment", changed(IN_PLACE, workloadRef__canaryNodes={"matchLabels": {"tier": "canary"}}),
        f"{_REF}.canaryNodes", "is for a DaemonSet"),
    late("nodes of a template alone", referring(canaryNodes={"matchLabels": {"tier": "canary"}}), f"{_REF}.canaryNodes",
        "is for mode: InPlace"),
    late("no nodes chosen", changed(_ON_NODES, workloadRef__canaryNodes={}), f"{_REF}.canaryNodes", "every node"),
    late("nodes by a label that none can have", changed(_ON_NODES, workloadRef__canaryNodes={"matchLabels": {"a b": "c"}}),
        f"{_REF}.canaryNodes.matchLabels[a b]", "is not a label key"),
    Bad("an abort by a word that nobody knows", changed(_ON_NODES, workloadRef__onAbort="Undo"), f"{_REF}.onAbort",
        "'RevertTemplate'"),
)  # fmt: skip
"""What is refused of a DaemonSet, with its own reasons."""

_BY_ORDINALS = changed(IN_PLACE, workloadRef__kind="StatefulSet")
_EACH_ONCE = "is not supported for a StatefulSet, which goes by the ratio of pods"

STATEFUL_SET_BAD: tuple[Bad, ...] = (
    late("a StatefulSet's template", referring(kind="StatefulSet"), f"{_REF}.mode", "must be InPlace for a StatefulSet"),
    late("replicas of a StatefulSet", changed(_BY_ORDINALS, replicas=2), "spec.replicas", "the StatefulSet has it"),
    late("maxUnavailable of a StatefulSet", changed(_BY_ORDINALS, strategy__canary__maxUnavailable=2),
        f"{_CANARY}.maxUnavailable", "the StatefulSet has it"),
    late("blue-green of a StatefulSet", changed(_BY_ORDINALS, strategy={"blueGreen": {"activeService": "cart"}}),
        "spec.strategy.blueGreen", _EACH_ONCE),
    late("Services of a StatefulSet", changed(_BY_ORDINALS, strategy__canary__stableService="a"),
        f"{_CANARY}.stableService", _EACH_ONCE),
    late("an autoscaler of a StatefulSet", changed(_BY_ORDINALS, autoscaling={"minHeadroomPercent": 10}),
        "spec.autoscaling", "is not supported for a StatefulSet yet"),
    late("configuration of a StatefulSet", changed(_BY_ORDINALS, configVersioning={"mode": "On"}),
        "spec.configVersioning", "the StatefulSet's template"),
    late("another template after an abort of a StatefulSet", changed(_BY_ORDINALS, workloadRef__onAbort="RevertTemplate"),
        f"{_REF}.onAbort", "is for a DaemonSet"),
)  # fmt: skip
"""What is refused of a StatefulSet, with its own reasons."""

WORKLOAD_BAD: tuple[Bad, ...] = (
    Bad("a template and a workload", changed(CANARY, workloadRef=DEPLOYMENT_CART), "spec.template", "must be absent"),
    Bad("a workload without a pod template", referring(kind="Service"), f"{_REF}.kind", "'ReplicaSet' or 'PodTemplate'"),
    late("a workload of another group", referring(apiVersion="v1"), f"{_REF}.apiVersion", "must be apps/v1"),
    Bad("a workload whose name leads elsewhere", referring(name="../pods"), f"{_REF}.name", "lower-case letters"),
    Bad("a workload without a name", referring(name=""), f"{_REF}.name", "lower-case letters"),
    Bad("a PodTemplate without a selector", changed(referring(apiVersion="v1", kind="PodTemplate"), selector=GONE),
        "spec.selector", "a PodTemplate has none"),
    late("a ReplicaSet to scale down", referring(kind="ReplicaSet", scaleDown="onsuccess"), f"{_REF}.scaleDown",
        "is for a Deployment"),
    Bad("a Deployment to scale down at some time", referring(scaleDown="later"), f"{_REF}.scaleDown", "'progressively'"),
    late("a hold without pods in place", referring(hold="Policy"), f"{_REF}.hold", "is for mode: InPlace"),
    late("pods in place of a ReplicaSet", changed(IN_PLACE, workloadRef__kind="ReplicaSet"), f"{_REF}.kind",
        "must be Deployment"),
    late("a Deployment in place to scale down", changed(IN_PLACE, workloadRef__scaleDown="never"), f"{_REF}.scaleDown",
        "is for mode: Template"),
    *IN_PLACE_BAD,
    *DAEMON_SET_BAD,
    *STATEFUL_SET_BAD,
)  # fmt: skip
