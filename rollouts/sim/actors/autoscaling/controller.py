"""The controller of HorizontalPodAutoscalers: it looks at each of them every 15 s, and sets the scale of its target.

It asks the resource metrics API as a client does. The other metric APIs are not served here, so metrics of other types fail.
It writes no Events, and never `observedGeneration`. Source: k8s.io/kubernetes pkg/controller/podautoscaler/horizontal.go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from urllib.parse import quote

import msgspec

from rollouts import ports
from rollouts.objects import AUTOSCALER, POD, Manifest
from rollouts.sim.actors.autoscaling.decision import ABLE, PodsFound, StatusCondition, decide, needs_metrics
from rollouts.sim.actors.autoscaling.limits import (
    AutoscalerLook,
    AutoscalerMemory,
    ConditionReason,
    TimedCount,
    with_change,
)
from rollouts.sim.actors.autoscaling.replicas import NoProposal, PodUsage, pod_usage
from rollouts.sim.actors.autoscaling.spec import AutoscalerFlags, AutoscalerSpec
from rollouts.sim.actors.work import Actor, World
from rollouts.sim.apiserver.subresources import put_scale, scale_of
from rollouts.sim.storage.history import DELETED, CommittedWrite, ObjectKey, Stored
from rollouts.sim.storage.refusals import Refused, not_found
from rollouts.sim.storage.registry import Resource
from rollouts.sim.storage.selectors import LabelTest, label_test, required_label

_POD_METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces/{}/pods"
_GOT_SCALE = "the HPA controller was able to get the target's current scale"


class TargetSelectors:
    """The selector of each autoscaler's target, found by the label that it requires: hundreds need not be asked for each pod."""

    def __init__(self) -> None:
        self._texts: dict[ObjectKey, str] = {}
        self._keys: defaultdict[tuple[str, tuple[str, str] | None], set[ObjectKey]] = defaultdict(set)

    def put(self, key: ObjectKey, selector: str) -> None:
        """Remembers the selector of an autoscaler's target."""
        before = self._texts.get(key)
        if before == selector:
            return
        if before is not None:
            self._keys[key[0], required_label(before)].discard(key)
        self._texts[key] = selector
        self._keys[key[0], required_label(selector)].add(key)

    def forget(self, key: ObjectKey) -> None:
        """Drops the autoscaler."""
        selector = self._texts.pop(key, None)
        if selector is not None:
            self._keys[key[0], required_label(selector)].discard(key)

    def that_select(self, namespace: str, pods: Iterable[Mapping[str, str]]) -> list[ObjectKey]:
        """The autoscalers of a namespace whose targets select a pod with some of these labels, in the order they came in."""
        selecting: set[ObjectKey] = set()
        for labels in pods:
            for required in (None, *labels.items()):
                keys = self._keys.get((namespace, required), set())
                selecting |= {key for key in keys if label_test(self._texts[key])(labels)}
        return [key for key in self._texts if key in selecting] if len(selecting) > 1 else list(selecting)


class HorizontalPodAutoscalerController(Actor):
    """Scales what HorizontalPodAutoscalers name. Without any it does nothing."""

    name = "horizontal-pod-autoscaler"

    def __init__(self, world: World, flags: AutoscalerFlags) -> None:
        super().__init__(world, lag_s=flags.sync_period_s)
        self.flags = flags
        self._memories: dict[ObjectKey, AutoscalerMemory] = {}
        self._selectors = TargetSelectors()

    def start(self) -> None:
        """Subscribes to HorizontalPodAutoscalers."""
        self.listen(AUTOSCALER, self._on_autoscaler)

    def sync(self, key: ObjectKey) -> None:
        """Looks at one autoscaler, and plans the next look."""
        stored = self.world.history.get(AUTOSCALER, *key)
        if stored is None:
            return
        self.enqueue(key)
        self.write_status(AUTOSCALER, stored, self._status(stored))

    def _on_autoscaler(self, change: CommittedWrite) -> None:
        if change.event == DELETED:
            self._memories.pop(change.new.key, None)
            self._selectors.forget(change.new.key)
        elif change.old is None:
            self.enqueue(change.new.key)

    def _status(self, stored: Stored) -> Manifest:
        status: Manifest = stored.manifest.get("status") or {}
        try:
            resource, target = self._target(stored)
            scale = scale_of(resource, target)
            selects = _selects(scale)
        except Refused as refused:
            message = f"the HPA controller was unable to get the target's current scale: {refused.message}"
            return self._with_conditions(status, StatusCondition(ABLE, False, "FailedGetScale", message))
        status = self._with_conditions(status, StatusCondition(ABLE, True, "SucceededGetScale", _GOT_SCALE))
        key, now_s = stored.key, self.world.now_s()
        spec = msgspec.convert(stored.manifest["spec"], AutoscalerSpec)
        current: int = scale["spec"]["replicas"]
        found = None
        if needs_metrics(spec, current):
            found = self._found(key, scale["status"].get("selector", ""), selects)
        # An autoscaler that is seen for the first time begins with the size that is there as its recommendation.
        memory = self._memories.get(key) or AutoscalerMemory(recommendations=(TimedCount(current, now_s),))
        look = AutoscalerLook(spec, self.flags, current, memory, now_s)
        decision = decide(look, found)
        self._memories[key] = decision.memory
        status, desired = self._with_conditions(status, *decision.conditions), decision.desired
        if desired is not None and desired != current:
            try:
                put_scale(self.world.verbs, resource, target, {"spec": {"replicas": desired}}, self.options)
            except Refused as refused:
                message = f"the HPA controller was unable to update the target scale: {refused.message}"
                failed = StatusCondition(ABLE, False, "FailedUpdateScale", message)
                status = self._with_conditions(status, failed)
                return _with_numbers(status, current=current, metrics=decision.metrics)
            text = f"the HPA controller was able to update the target scale to {desired}"
            rescaled = StatusCondition(ABLE, True, "SucceededRescale", text)
            status = {**self._with_conditions(status, rescaled), "lastScaleTime": self.world.verbs.now()}
            self._memories[key] = with_change(look, decision.memory, desired)
        return _with_numbers(status, current=current, desired=desired, metrics=decision.metrics)

    def _target(self, stored: Stored) -> tuple[Resource, Stored]:
        """The target and its type. Raises: Refused, in the words of the controller's client."""
        reference = stored.manifest["spec"]["scaleTargetRef"]
        group = reference.get("apiVersion", "").rpartition("/")[0]
        resource = self.world.server.registry.named(reference.get("apiVersion", ""), reference["kind"])
        if resource is None:
            raise Refused(404, "NotFound", f'no matches for kind "{reference["kind"]}" in group "{group}"')
        if resource.scale is None:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        target = self.world.history.get(resource.kind, stored.key[0], reference["name"])
        if target is None:
            raise not_found(resource.kind, reference["name"])
        return resource, target

    def _found(self, key: ObjectKey, selector: str, selects: LabelTest) -> PodsFound | ConditionReason:
        if not selector:
            return ConditionReason("InvalidSelector", "the HPA target's scale is missing a selector")
        self._selectors.put(key, selector)
        pods = [pod for pod in self.world.history.candidates(POD, key[0], selector) if selects(pod.labels)]
        others = self._selectors.that_select(key[0], [pod.labels for pod in pods])
        if len(others) > 1:
            names = " ".join(f"{{{namespace} {name}}}" for namespace, name in others)
            text = f"pods by selector {selector} are controlled by multiple HPAs: [{names}]"
            return ConditionReason("AmbiguousSelector", text)
        return PodsFound(tuple(pods), self._usage(key[0], selector))

    def _usage(self, namespace: str, selector: str) -> tuple[PodUsage, ...] | NoProposal:
        request = ports.Request("GET", _POD_METRICS.format(quote(namespace)), {"labelSelector": selector})
        answer = self.world.server.aggregation.answer(request)
        match answer.status if answer is not None else 404:
            case 404:
                why = "the server could not find the requested resource"
            case 503:
                why = "the server is currently unable to handle the request"
            case status:
                why = f"an error on the server ({status}) has prevented the request from succeeding"
        why += " (get pods.metrics.k8s.io)"
        try:
            if answer is not None and answer.status == 200:
                return tuple(pod_usage(item) for item in msgspec.json.decode(answer.body)["items"])
        except ValueError as exc:
            why = str(exc)
        return NoProposal(f"unable to fetch metrics from resource metrics API: {why}")

    def _with_conditions(self, status: Manifest, *conditions: StatusCondition) -> Manifest:
        """The time of a condition is that of its last change between True and False (`setConditionInList`)."""
        by_type: dict[str, Manifest] = {condition["type"]: condition for condition in status.get("conditions") or ()}
        for condition in conditions:
            before, value = by_type.get(condition.kind, {}), "True" if condition.status else "False"
            is_same = before.get("status") == value
            by_type[condition.kind] = {
                "type": condition.kind,
                "status": value,
                "lastTransitionTime": before["lastTransitionTime"] if is_same else self.world.verbs.now(),
                "reason": condition.reason,
                "message": condition.message,
            }
        return {**status, "conditions": list(by_type.values())}


def _selects(scale: Manifest) -> LabelTest:
    """The test of a scale's selector. Raises: Refused, in the words of the controller's client, for a text that is none."""
    text = scale["status"].get("selector", "")
    try:
        return label_test(text)
    except Refused as refused:
        why = f'failed to parse target selector: couldn\'t parse the selector string "{text}": {refused.message}'
        message = f"received an object from a /scale endpoint which was not convertible to autoscaling Scale: {why}"
        raise Refused(500, "InternalError", message) from refused


def _with_numbers(
    status: Manifest, *, current: int, metrics: Iterable[Manifest] | None, desired: int | None = None
) -> Manifest:
    """The status with numbers of pods; with `desired` None it keeps what it said."""
    wanted = status.get("desiredReplicas", 0) if desired is None else desired
    kept: Manifest = {name: status[name] for name in ("lastScaleTime", "conditions") if name in status}
    numbers: Manifest = {"currentReplicas": current} if current else {}
    shown = list(metrics) if metrics is not None else None
    return {**kept, **numbers, "desiredReplicas": wanted, "currentMetrics": shown}
