"""Specs for tests: a good one of each strategy, and one bad one for every rule."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

Spec = dict[str, Any]

CANARY: Spec = {
    "replicas": 4,
    "selector": {"matchLabels": {"app": "cart"}},
    "strategy": {"canary": {"steps": [{"setWeight": 25}, {"pause": {}}]}},
    "template": {"metadata": {"labels": {"app": "cart", "tier": "web"}},
        "spec": {"containers": [{"name": "app", "image": "cart:1.4"}]}},
}  # fmt: skip
BLUE_GREEN: Spec = {**CANARY, "strategy": {"blueGreen": {"activeService": "cart", "previewService": "cart-preview"}}}
ANALYSIS: Spec = {"templates": [{"templateName": "success-rate"}]}
GONE = object()
"""As a value for `changed`: the field is taken out."""


def changed(spec: Spec, **changes: Any) -> Spec:
    """A copy of `spec`; `strategy__canary__steps=[…]` sets `strategy.canary.steps`, making the objects on the way."""
    result = copy.deepcopy(spec)
    for path, value in changes.items():
        *parents, last = path.split("__")
        where = result
        for part in parents:
            where = where.setdefault(part, {})
        if value is GONE:
            where.pop(last)
        else:
            where[last] = value
    return result


def spec(**changes: Any) -> Spec:
    """The canary with those changes, as in `changed`."""
    return changed(CANARY, **changes)


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to each value in it."""
    found = [way] if way else []
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in entries:
        found += places(item, (*way, key))
    return found


def put(spec: Any, way: tuple[Any, ...], value: Any) -> None:
    *parents, last = way
    for part in parents:
        spec = spec[part]
    spec[last] = value


def canary(**fields: Any) -> Spec:
    """A canary with some fields of `spec.strategy.canary` set."""
    return changed(CANARY, **{f"strategy__canary__{name}": value for name, value in fields.items()})


def blue_green(**fields: Any) -> Spec:
    """A blue-green with some fields of `spec.strategy.blueGreen` set."""
    return changed(BLUE_GREEN, **{f"strategy__blueGreen__{name}": value for name, value in fields.items()})


def step(**kinds: Any) -> Spec:
    return canary(steps=[kinds])


def routed_step(**kinds: Any) -> Spec:
    """The same, with traffic routing that somebody else does."""
    return canary(steps=[kinds], trafficRouting={})


@dataclass(frozen=True)
class Bad:
    """A spec that must be refused.

    Args:
        words: a part of the message that the user reads.
        by_schema: the CRD alone refuses it too, before any controller sees it.
    """

    name: str
    spec: Spec
    path: str
    words: str
    by_schema: bool = True


def late(name: str, spec: Spec, path: str, words: str) -> Bad:
    """A spec that the CRD takes and the controller refuses."""
    return Bad(name, spec, path, words, by_schema=False)


_STEPS = "spec.strategy.canary.steps"
_CANARY = "spec.strategy.canary"
_PING_PONG = {"pingService": "a", "pongService": "b"}
_ROUTED = {"gatewayAPI": {"httpRoutes": [{"name": "cart"}]}}
_BLUE_GREEN = "spec.strategy.blueGreen"
_AFFINITY = "preferredDuringSchedulingIgnoredDuringExecution"
_POD = "spec.template.spec"
_LABELS = "spec.template.metadata.labels"
_EXPRESSION = "spec.selector.matchExpressions[0]"


def _selector(**expression: Any) -> Spec:
    return spec(selector={"matchExpressions": [expression]})


def _template(**fields: Any) -> Spec:
    return changed(CANARY, **{f"template__{name}": value for name, value in fields.items()})


_WEIGHT = f"{_STEPS}[0].experiment.templates[0].weight"
_WEIGHTED = {"experiment": {"templates": [{"name": "a", "specRef": "canary", "weight": 5}], "duration": "5m"}}


def weighted(**fields: Any) -> Spec:
    """A canary whose first step is an experiment that gets requests by an HTTPRoute, with some fields changed."""
    services = {} if "pingPong" in fields else {"stableService": "cart", "canaryService": "cart-canary"}
    return canary(**{"steps": [_WEIGHTED], "trafficRouting": _ROUTED, **services, **fields})


BAD: tuple[Bad, ...] = (
    # the Rollout itself
    Bad("replicas below 0", spec(replicas=-1), "spec.replicas", "0 or more"),
    Bad("replicas as text", spec(replicas="3"), "spec.replicas", "an integer"),
    Bad("replicas as a boolean", spec(replicas=True), "spec.replicas", "an integer"),
    Bad("replicas beyond int32", spec(replicas=2**31), "spec.replicas", "2147483647 or less"),
    late("unknown field", spec(replica=3), "spec.replica", "unknown field"),
    Bad("minReadySeconds below 0", spec(minReadySeconds=-1), "spec.minReadySeconds", "0 or more"),
    Bad("revisionHistoryLimit below 0", spec(revisionHistoryLimit=-1), "spec.revisionHistoryLimit", "0 or more"),
    Bad("paused as text", spec(paused="yes"), "spec.paused", "true or false"),
    Bad("deadline equal to minReadySeconds", spec(progressDeadlineSeconds=30, minReadySeconds=30),
        "spec.progressDeadlineSeconds", "more than minReadySeconds"),
    Bad("default deadline below minReadySeconds", spec(minReadySeconds=601), "spec.progressDeadlineSeconds", "is 600"),
    Bad("deadline of 0", spec(progressDeadlineSeconds=0), "spec.progressDeadlineSeconds", "minReadySeconds"),
    Bad("restartAt that is no time", spec(restartAt="soon"), "spec.restartAt", "RFC 3339"),
    Bad("restartAt on no day", spec(restartAt="2026-02-30T00:00:00Z"), "spec.restartAt", "exists"),
    Bad("rollback window below 0", spec(rollbackWindow={"revisions": -1}), "spec.rollbackWindow.revisions", "0"),
    # selector
    Bad("no selector", spec(selector=GONE), "spec.selector", "is required"),
    late("empty selector", spec(selector={}), "spec.selector", "every pod"),
    late("selector with empty parts", spec(selector={"matchLabels": {}, "matchExpressions": []}), "spec.selector", "every pod"),
    late("selector that does not match", spec(selector={"matchLabels": {"app": "other"}}), _LABELS, "do not match"),
    late("expression that does not match", _selector(key="app", operator="NotIn", values=["cart"]), _LABELS, "do not match"),
    late("label that must not exist", _selector(key="tier", operator="DoesNotExist"), _LABELS, "do not match"),
    Bad("unknown operator", _selector(key="app", operator="Is"), f"{_EXPRESSION}.operator", "'In'"),
    Bad("no operator", _selector(key="app"), f"{_EXPRESSION}.operator", "is required"),
    Bad("no key", _selector(operator="Exists"), f"{_EXPRESSION}.key", "is required"),
    late("In without values", _selector(key="app", operator="In", values=[]), f"{_EXPRESSION}.values", "is required for In"),
    late("Exists with values", _selector(key="app", operator="Exists", values=["a"]), f"{_EXPRESSION}.values", "must be empty"),
    late("selector value that is no label", spec(selector={"matchLabels": {"app": "a b"}}),
        "spec.selector.matchLabels.app", "not a label value"),
    late("selector key that is no label", _selector(key="a b", operator="Exists"), f"{_EXPRESSION}.key", "not a label key"),
    late("expression value that is no label", _selector(key="app", operator="In", values=["a b"]),
        f"{_EXPRESSION}.values", "'a b' is not a label value"),
    late("our own label in the selector", spec(selector={"matchLabels": {"rollouts.dev/name": "a"}}),
        "spec.selector", "the controller sets it"),
    # template
    Bad("no template", spec(template=GONE), "spec.template", "is required"),
    Bad("template without a pod", _template(spec=GONE), _POD, "is required"),
    Bad("no containers", _template(spec={"containers": []}), f"{_POD}.containers", "at least one"),
    Bad("containers that are no list", _template(spec={"containers": {}}), f"{_POD}.containers", "at least one"),
    Bad("container without name", _template(spec={"containers": [{"image": "a"}]}), f"{_POD}.containers[0].name", "required"),
    late("container without image", _template(spec={"containers": [{"name": "a"}]}), f"{_POD}.containers[0].image", "required"),
    Bad("two containers of one name",
        _template(spec={"containers": [{"name": "a", "image": "a"}, {"name": "a", "image": "b"}]}),
        f"{_POD}.containers[1].name", "another container"),
    late("restartPolicy of a job", spec(template__spec__restartPolicy="Never"), f"{_POD}.restartPolicy", "Always"),
    late("deadline of a job", spec(template__spec__activeDeadlineSeconds=5), f"{_POD}.activeDeadlineSeconds", "for ever"),
    Bad("label that is no text", spec(template__metadata__labels={"app": "cart", "n": 1}), f"{_LABELS}.n", "not a label value"),
    late("our own label in the template", spec(template__metadata__labels={"app": "cart", "rollouts.dev/revision": "x"}),
        f"{_LABELS}[rollouts.dev/revision]", "the controller sets"),
    # strategy
    Bad("no strategy", spec(strategy=GONE), "spec.strategy", "neither"),
    Bad("empty strategy", spec(strategy={}), "spec.strategy", "neither"),
    Bad("both strategies", spec(strategy__blueGreen={"activeService": "a"}), "spec.strategy", "both"),
    # canary
    Bad("limits both 0", canary(maxSurge=0, maxUnavailable=0), f"{_CANARY}.maxSurge", "while maxUnavailable is 0"),
    Bad("limits both 0 in percent", canary(maxSurge="0%", maxUnavailable="0"), f"{_CANARY}.maxSurge",
        "while maxUnavailable is 0"),
    late("limit below 0", canary(maxSurge=-1), f"{_CANARY}.maxSurge", "percentage"),
    late("limit in words", canary(maxUnavailable="some"), f"{_CANARY}.maxUnavailable", "percentage"),
    Bad("limit as a boolean", canary(maxUnavailable=True), f"{_CANARY}.maxUnavailable", "percentage"),
    late("more than all unavailable", canary(maxUnavailable="101%"), f"{_CANARY}.maxUnavailable", "100%"),
    Bad("one Service for both", canary(stableService="a", canaryService="a"), f"{_CANARY}.canaryService", "stableService"),
    late("pingPong with one Service for both",
        canary(pingPong={"pingService": "a", "pongService": "a"}, trafficRouting=_ROUTED),
        f"{_CANARY}.pingPong.pongService", "pingService"),
    late("pingPong beside a stableService", canary(pingPong=_PING_PONG, stableService="c", trafficRouting=_ROUTED),
        f"{_CANARY}.stableService", "cannot be combined with pingPong"),
    late("pingPong without routes", canary(pingPong=_PING_PONG), f"{_CANARY}.pingPong", "router"),
    late("pingPong with routes moved by somebody else", canary(pingPong=_PING_PONG, trafficRouting={}),
        f"{_CANARY}.pingPong", "router"),
    Bad("Service that is no name", canary(stableService="A_b"), f"{_CANARY}.stableService", "lower-case"),
    Bad("steps that are no list", canary(steps={"setWeight": 1}), f"{_CANARY}.steps", "a list"),
    Bad("delay without routing", canary(scaleDownDelaySeconds=5), f"{_CANARY}.scaleDownDelaySeconds", "trafficRouting"),
    Bad("dynamic without routing", canary(dynamicStableScale=True), f"{_CANARY}.dynamicStableScale", "trafficRouting"),
    Bad("dynamic with delay", canary(dynamicStableScale=True, scaleDownDelaySeconds=5, trafficRouting={}),
        f"{_CANARY}.dynamicStableScale", "cannot be combined with scaleDownDelaySeconds"),
    Bad("threshold without a type", canary(replicaProgressThreshold={"value": 5}),
        f"{_CANARY}.replicaProgressThreshold.type", "is required"),
    Bad("threshold of an unknown type", canary(replicaProgressThreshold={"type": "Pod", "value": 5}),
        f"{_CANARY}.replicaProgressThreshold.type", "'Pods'"),
    late("threshold above 100 percent", canary(replicaProgressThreshold={"type": "Percent", "value": 101}),
        f"{_CANARY}.replicaProgressThreshold.value", "100 or less"),
    Bad("both anti-affinities", canary(antiAffinity={_AFFINITY: {"weight": 1}, f"required{_AFFINITY[9:]}": {}}),
        f"{_CANARY}.antiAffinity", "exactly one"),
    Bad("no anti-affinity", canary(antiAffinity={}), f"{_CANARY}.antiAffinity", "exactly one"),
    Bad("anti-affinity of weight 0", canary(antiAffinity={_AFFINITY: {"weight": 0}}),
        f"{_CANARY}.antiAffinity.{_AFFINITY}.weight", "1 or more"),
    Bad("anti-affinity of weight 101", canary(antiAffinity={_AFFINITY: {"weight": 101}}),
        f"{_CANARY}.antiAffinity.{_AFFINITY}.weight", "100 or less"),
    Bad("anti-affinity without weight", canary(antiAffinity={_AFFINITY: {}}),
        f"{_CANARY}.antiAffinity.{_AFFINITY}.weight", "is required"),
    late("role annotation that has no key", canary(canaryMetadata={"annotations": {"a b": "x"}}),
        f"{_CANARY}.canaryMetadata.annotations[a b]", "not a key for labels and annotations"),
    late("role label in the selector", canary(canaryMetadata={"labels": {"app": "x"}}),
        f"{_CANARY}.canaryMetadata.labels.app", "leave their ReplicaSet"),
    late("role label of the template", canary(stableMetadata={"labels": {"tier": "x"}}),
        f"{_CANARY}.stableMetadata.labels.tier", "spec.template.metadata too"),
    # steps
    Bad("step of no kind", step(), f"{_STEPS}[0]", "it has none"),
    Bad("step of two kinds", step(setWeight=1, pause={}), f"{_STEPS}[0]", "setWeight, pause"),
    Bad("step of two kinds that Argo does not count", routed_step(setWeight=1, setCanaryScale={"replicas": 1}),
        f"{_STEPS}[0]", "setWeight, setCanaryScale"),
    Bad("step that is no object", canary(steps=[{"setWeight": 1}, "pause"]), f"{_STEPS}[1]", "an object"),
    Bad("unknown step", step(setWeigth=5), f"{_STEPS}[0].setWeigth", "unknown field"),
    Bad("experiment without a template", step(experiment={"duration": "5m"}),
        f"{_STEPS}[0].experiment.templates", "at least one"),
    Bad("experiment of no revision", step(experiment={"templates": [{"name": "a"}]}),
        f"{_STEPS}[0].experiment.templates[0].specRef", "required"),
    late("experiment with one name twice", step(experiment={"templates": [{"name": "a", "specRef": "canary"}] * 2}),
        f"{_STEPS}[0].experiment.templates[1].name", "another one too"),
    late("experiment with our label", step(experiment={"templates": [{"name": "a", "specRef": "canary",
        "metadata": {"labels": {"rollouts.dev/revision": "a"}}}]}),
        f"{_STEPS}[0].experiment.templates[0].metadata.labels[rollouts.dev/revision]", "the controller sets"),
    late("experiment with onDeadline alone", step(experiment={"templates": [{"name": "a", "specRef": "canary"}],
        "onDeadline": "abort"}), f"{_STEPS}[0].experiment.onDeadline", "needs deadlineSeconds"),
    late("experiment with an argument twice", step(experiment={"templates": [{"name": "a", "specRef": "canary"}], "analyses": [
        {"name": "b", "templateName": "b", "args": [{"name": "c", "value": "1"}, {"name": "c", "value": "2"}]}]}),
        f"{_STEPS}[0].experiment.analyses[0].args[1].name", "another argument too"),
    late("experiment with a weight and no router", weighted(trafficRouting={}), _WEIGHT, "needs a router in trafficRouting"),
    late("experiment with a weight and pingPong", weighted(pingPong=_PING_PONG),
        _WEIGHT, "cannot be combined with pingPong"),
    late("experiment with a weight and stickiness",
        weighted(trafficRouting={**_ROUTED, "stickiness": {"cookieName": "sid"}}),
        _WEIGHT, "cannot be combined with stickiness"),
    late("experiment with more than is left", weighted(steps=[{"setWeight": 96}, _WEIGHTED]),
        f"{_STEPS}[1].experiment.templates", "get 5 and the canary 96: together at most 100"),
    Bad("weight of a template below 0", weighted(steps=[{"experiment": {"templates": [{"name": "a", "specRef": "canary",
        "weight": -1}]}}]), _WEIGHT, "0 or more"),
    Bad("weight below 0", step(setWeight=-1), f"{_STEPS}[0].setWeight", "0 or more"),
    Bad("weight above 100", step(setWeight=101), f"{_STEPS}[0].setWeight", "100 or less"),
    Bad("weight in percent", step(setWeight="20%"), f"{_STEPS}[0].setWeight", "an integer"),
    late("pause below 0", step(pause={"duration": -1}), f"{_STEPS}[0].pause.duration", "0 or more"),
    late("pause of -5s", step(pause={"duration": "-5s"}), f"{_STEPS}[0].pause.duration", "0 or more"),
    late("pause of a day", step(pause={"duration": "1d"}), f"{_STEPS}[0].pause.duration", "1h30m"),
    late("pause of nothing", step(pause={"duration": ""}), f"{_STEPS}[0].pause.duration", "1h30m"),
    late("pause of a number without end", step(pause={"duration": 2**31}), f"{_STEPS}[0].pause.duration", "seconds"),
    Bad("scale without routing", step(setCanaryScale={"replicas": 1}), f"{_STEPS}[0].setCanaryScale", "trafficRouting"),
    Bad("scale of nothing", routed_step(setCanaryScale={}), f"{_STEPS}[0].setCanaryScale", "it has none"),
    Bad("scale that matches nothing", routed_step(setCanaryScale={"matchTrafficWeight": False}),
        f"{_STEPS}[0].setCanaryScale", "it has none"),
    Bad("scale of two forms", routed_step(setCanaryScale={"replicas": 1, "weight": 5}), f"{_STEPS}[0].setCanaryScale",
        "several"),
    Bad("scale above 100 percent", routed_step(setCanaryScale={"weight": 101}), f"{_STEPS}[0].setCanaryScale.weight",
        "100 or less"),
    # blue-green
    Bad("no active Service", blue_green(activeService=GONE), f"{_BLUE_GREEN}.activeService", "is required"),
    Bad("one Service for active and preview", blue_green(previewService="cart"), f"{_BLUE_GREEN}.previewService", "active"),
    Bad("autoPromotionSeconds below 0", blue_green(autoPromotionSeconds=-1), f"{_BLUE_GREEN}.autoPromotionSeconds", "0"),
    late("preview with more than all unavailable", blue_green(maxUnavailable="101%"), f"{_BLUE_GREEN}.maxUnavailable", "100%"),
    Bad("preview of less than nothing", blue_green(previewReplicaCount=-1), f"{_BLUE_GREEN}.previewReplicaCount", "0"),
    Bad("scaleDownDelaySeconds below 0", blue_green(scaleDownDelaySeconds=-1), f"{_BLUE_GREEN}.scaleDownDelaySeconds", "0"),
    Bad("history of two updates", spec(history={"limit": 2}), "spec.history.limit", "must be 3 or more"),
    late("more waiting revisions than history", changed(blue_green(scaleDownDelayRevisionLimit=4), revisionHistoryLimit=3),
        f"{_BLUE_GREEN}.scaleDownDelayRevisionLimit", "revisionHistoryLimit, 3"),
    late("more waiting revisions than the default history", blue_green(scaleDownDelayRevisionLimit=11),
        f"{_BLUE_GREEN}.scaleDownDelayRevisionLimit", "revisionHistoryLimit, 10"),
    late("preview label in the selector", blue_green(previewMetadata={"labels": {"app": "x"}}),
        f"{_BLUE_GREEN}.previewMetadata.labels.app", "leave their ReplicaSet"),
    late("plugin step", step(plugin={"name": "a/b", "config": {"x": 1}}), f"{_STEPS}[0].plugin",
        "write a step analysis whose template has a Job"),
    late("canary field in blue-green", blue_green(steps=[]), f"{_BLUE_GREEN}.steps", "unknown field"),
)  # fmt: skip


def manifest(spec: Spec, *, name: str = "cart") -> dict[str, Any]:
    return {"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "metadata": {"name": name}, "spec": spec}
