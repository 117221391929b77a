"""The controller of HorizontalPodAutoscalers: it looks at each of them every 15 s, and sets the scale of its target.

It asks the resource metrics API as a client does. The other metric APIs are not served here, so metrics of other types fail.
It writes no Events. Source: k8s.io/kubernetes pkg/controller/podautoscaler/horizontal.go.
"""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from rollouts import ports
from rollouts.objects import POD, Manifest
from rollouts.sim.actors.autoscaling.decision import (
    ABLE,
    AutoscalerLook,
    NotAsked,
    PodsFound,
    ScalingDecision,
    SelectorProblem,
    StatusCondition,
    TargetPods,
    decided,
    needs_metrics,
)
from rollouts.sim.actors.autoscaling.limits import AutoscalerMemory, ConditionReason, begun, scaled
from rollouts.sim.actors.autoscaling.pods_seen import PodUsage, pod_seen, pod_usage
from rollouts.sim.actors.autoscaling.replicas import NoProposal
from rollouts.sim.actors.autoscaling.spec import AutoscalerFlags, spec_of
from rollouts.sim.actors.autoscaling.status import with_conditions, with_numbers
from rollouts.sim.actors.autoscaling.target_selectors import TargetSelectors
from rollouts.sim.actors.work import Actor, World
from rollouts.sim.apiserver.subresources import put_scale, scale_of
from rollouts.sim.storage.history import DELETED, CommittedWrite, ObjectKey, Stored
from rollouts.sim.storage.refusals import Refused, not_found
from rollouts.sim.storage.registry import AUTOSCALER, Resource
from rollouts.sim.storage.selectors import LabelTest, label_test

_POD_METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces/{}/pods"
_GOT_SCALE = ConditionReason("SucceededGetScale", "the HPA controller was able to get the target's current scale")


class HorizontalPodAutoscalerController(Actor):
    """Scales what HorizontalPodAutoscalers name. Without any it does nothing."""

    name = "horizontal-pod-autoscaler"

    def __init__(self, world: World, flags: AutoscalerFlags) -> None:
        super().__init__(world, lag_s=flags.sync_period_s)
        self.flags = flags
        self._memories: dict[ObjectKey, AutoscalerMemory] = {}
        self._selectors = TargetSelectors()

    def watch(self) -> None:
        """Subscribes to HorizontalPodAutoscalers."""
        self.listen(AUTOSCALER, self._on_autoscaler)

    def look(self, key: ObjectKey) -> None:
        """Looks at one autoscaler, and plans the next look."""
        stored = self.world.history.get(AUTOSCALER, *key)
        if stored is None:
            return
        self.mark(key)
        status = self._status(stored)
        if status != stored.manifest.get("status"):
            manifest = {**stored.manifest, "status": status}
            self.world.verbs.update(self.world.resource(AUTOSCALER), stored, manifest, self.options, "status")

    def _on_autoscaler(self, change: CommittedWrite) -> None:
        key = change.new.key
        if change.event == DELETED:
            self._memories.pop(key, None)
            self._selectors.forget(key)
        elif change.old is None:
            self.mark(key)

    def _status(self, stored: Stored) -> Manifest:
        """The status after a look; the look may have scaled the target."""
        status: Manifest = stored.manifest.get("status") or {}
        try:
            resource, target = self._target(stored)
            scale = scale_of(resource, target)
            selects = _selects(scale)
        except Refused as refused:
            message = f"the HPA controller was unable to get the target's current scale: {refused.message}"
            return self._with(status, StatusCondition(ABLE, False, ConditionReason("FailedGetScale", message)))
        status = self._with(status, StatusCondition(ABLE, True, _GOT_SCALE))
        look = self._look(stored, scale, selects)
        decision = decided(look)
        self._memories[stored.key] = decision.memory
        return self._carried_out(stored.key, look, decision, (resource, target), status)

    def _carried_out(
        self,
        key: ObjectKey,
        look: AutoscalerLook,
        decision: ScalingDecision,
        target: tuple[Resource, Stored],
        status: Manifest,
    ) -> Manifest:
        status = self._with(status, *decision.conditions)
        desired = decision.desired
        if desired is None:
            return with_numbers(status, current=look.current, metrics=decision.metrics)
        if desired != look.current:
            try:
                put_scale(self.world.verbs, *target, {"spec": {"replicas": desired}}, self.options)
            except Refused as refused:
                message = f"the HPA controller was unable to update the target scale: {refused.message}"
                status = self._with(status, StatusCondition(ABLE, False, ConditionReason("FailedUpdateScale", message)))
                return with_numbers(status, current=look.current, metrics=decision.metrics)
            text = f"the HPA controller was able to update the target scale to {desired}"
            done = StatusCondition(ABLE, True, ConditionReason("SucceededRescale", text))
            status = {**self._with(status, done), "lastScaleTime": self.world.verbs.now()}
            self._memories[key] = scaled(
                look.spec, decision.memory, current=look.current, replicas=desired, now_s=look.now_s
            )
        return with_numbers(status, current=look.current, desired=desired, metrics=decision.metrics)

    def _look(self, stored: Stored, scale: Manifest, selects: LabelTest) -> AutoscalerLook:
        spec, current, now_s = spec_of(stored.manifest), scale["spec"]["replicas"], self.world.now_s()
        found: TargetPods = NotAsked()
        if needs_metrics(spec, current):
            found = self._found(stored.key, scale["status"].get("selector", ""), selects)
        memory = begun(self._memories.get(stored.key), current=current, now_s=now_s)
        return AutoscalerLook(spec, self.flags, current, found, memory, now_s)

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

    def _found(self, key: ObjectKey, selector: str, selects: LabelTest) -> TargetPods:
        """The pods that the target's selector selects, and their usage."""
        if not selector:
            return SelectorProblem(ConditionReason("InvalidSelector", "the HPA target's scale is missing a selector"))
        self._selectors.put(key, selector)
        pods = [pod for pod in self.world.history.candidates(POD, key[0], selector) if selects(pod.labels)]
        others = self._selectors.that_select(key[0], [pod.labels for pod in pods])
        if len(others) > 1:
            names = " ".join(f"{{{namespace} {name}}}" for namespace, name in others)
            text = f"pods by selector {selector} are controlled by multiple HPAs: [{names}]"
            return SelectorProblem(ConditionReason("AmbiguousSelector", text))
        return PodsFound(tuple(pod_seen(pod.manifest) for pod in pods), self._usage(key[0], selector))

    def _usage(self, namespace: str, selector: str) -> tuple[PodUsage, ...] | NoProposal:
        request = ports.Request("GET", _POD_METRICS.format(quote(namespace)), {"labelSelector": selector})
        answer = self.world.server.aggregation.answer(request)
        match answer.status if answer is not None else 404:
            case 200:
                why = ""
            case 404:
                why = "the server could not find the requested resource (get pods.metrics.k8s.io)"
            case 503:
                why = "the server is currently unable to handle the request (get pods.metrics.k8s.io)"
            case status:
                why = f"an error on the server ({status}) has prevented the request from succeeding (get pods.metrics.k8s.io)"
        try:
            if answer is not None and not why:
                return tuple(pod_usage(item) for item in msgspec.json.decode(answer.body)["items"])
        except ValueError as exc:
            why = str(exc)
        return NoProposal(f"unable to fetch metrics from resource metrics API: {why}")

    def _with(self, status: Manifest, *conditions: StatusCondition) -> Manifest:
        return with_conditions(status, conditions, now=self.world.verbs.now())


def _selects(scale: Manifest) -> LabelTest:
    """The test of a scale's selector. Raises: Refused, in the words of the controller's client, for a text that is none."""
    text = scale["status"].get("selector", "")
    try:
        return label_test(text)
    except Refused as refused:
        why = f'failed to parse target selector: couldn\'t parse the selector string "{text}": {refused.message}'
        message = f"received an object from a /scale endpoint which was not convertible to autoscaling Scale: {why}"
        raise Refused(500, "InternalError", message) from refused
