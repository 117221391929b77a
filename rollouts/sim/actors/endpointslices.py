"""The EndpointSlice controller: one slice for each Service that has a selector.

A terminating pod is never `ready`, and `serving` for as long as its Ready condition is True. A slice inherits its Service's
labels, as with the real controller. Source: k8s.io/endpointslice reconciler.go, utils.go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from rollouts.objects import ENDPOINT_SLICE, POD, SERVICE, Manifest
from rollouts.sim.actors import pods as pod_facts
from rollouts.sim.actors.work import Actor, World
from rollouts.sim.storage.history import DELETED, CommittedWrite, ObjectKey, Stored

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"


class EndpointSliceController(Actor):
    """Keeps slices in step with pods; `lag_s` is from a change of a pod or Service to the write of the slice."""

    name = "endpointslice-controller"

    def __init__(self, world: World, *, lag_s: float = 0.02) -> None:
        super().__init__(world, lag_s=lag_s)
        self._services: defaultdict[str, dict[str, dict[str, str]]] = defaultdict(dict)  # namespace, name: selector
        self._by_label: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)  # names, by their first label
        self._pods: defaultdict[tuple[str, str, str], dict[ObjectKey, Stored]] = defaultdict(dict)  # by one label
        self._slices: dict[ObjectKey, str] = {}

    def start(self) -> None:
        """Subscribes to Services, pods, and the slices that it has made."""
        self.listen(ENDPOINT_SLICE, self._on_slice)
        self.listen(SERVICE, self._on_service)
        self.listen(POD, self._on_pod)

    def sync(self, key: ObjectKey) -> None:
        """Syncs the slice of one Service."""
        service = self.world.history.get(SERVICE, *key)
        selector = self._services[key[0]].get(key[1])
        if service is None or not selector or pod_facts.is_terminating(service):
            return
        wanted = self._wanted(service, selector)
        resource = self.world.resource(ENDPOINT_SLICE)
        name = self._slices.get(key)
        stored = self.world.history.get(ENDPOINT_SLICE, key[0], name) if name else None
        if stored is None:
            self.world.verbs.create(resource, key[0], wanted, self.options)
            return
        metadata = {**stored.metadata, "labels": wanted["metadata"]["labels"]}
        new = {**stored.manifest, "metadata": metadata, "endpoints": wanted["endpoints"], "ports": wanted["ports"]}
        if new != stored.manifest:
            self.world.verbs.update(resource, stored, new, self.options)

    def _on_service(self, change: CommittedWrite) -> None:
        namespace, name = change.new.key
        before = self._services[namespace].pop(name, None)
        if before:
            self._by_label[namespace, *min(before.items())].discard(name)
        if change.event == DELETED:
            return
        selector = (change.new.manifest.get("spec") or {}).get("selector") or {}
        self._services[namespace][name] = selector
        if selector:
            self._by_label[namespace, *min(selector.items())].add(name)
        self.enqueue(change.new.key)

    def _on_slice(self, change: CommittedWrite) -> None:
        labels = change.new.labels
        if labels.get(MANAGED_BY) != "endpointslice-controller.k8s.io":
            return
        key = (change.new.metadata["namespace"], labels.get(SERVICE_NAME, ""))
        if change.event == DELETED:
            self._slices.pop(key, None)
            self.enqueue(key)
        else:
            self._slices[key] = change.new.metadata["name"]

    def _on_pod(self, change: CommittedWrite) -> None:
        namespace = change.new.metadata["namespace"]
        if change.old is not None:
            for label in change.old.labels.items():
                self._pods[namespace, *label].pop(change.old.key, None)
        if change.event != DELETED:
            for label in change.new.labels.items():
                self._pods[namespace, *label][change.new.key] = change.new
        if change.old is not None and change.event != DELETED and _facts(change.old) == _facts(change.new):
            return
        for version in (change.old, change.new):
            for name in self._selecting(namespace, version.labels if version is not None else {}):
                self.enqueue((namespace, name))

    def _selecting(self, namespace: str, labels: dict[str, str]) -> Iterator[str]:
        for label in labels.items():
            for name in sorted(self._by_label.get((namespace, *label), ())):
                if self._services[namespace][name].items() <= labels.items():
                    yield name

    def _wanted(self, service: Stored, selector: dict[str, str]) -> Manifest:
        namespace, name = service.key
        buckets = [self._pods[namespace, *label] for label in selector.items()]
        smallest = min(buckets, key=len)
        pods = [pod for _, pod in sorted(smallest.items()) if selector.items() <= pod.labels.items()]
        endpoints = []
        for pod in pods:
            is_ready, is_ending = pod_facts.is_ready(pod), pod_facts.is_terminating(pod)
            if pod_facts.address(pod):
                target = {"kind": "Pod", "namespace": namespace, "name": pod.key[1], "uid": pod.metadata["uid"]}
                conditions = {"ready": is_ready and not is_ending, "serving": is_ready, "terminating": is_ending}
                endpoints.append(
                    {
                        "addresses": [pod_facts.address(pod)],
                        "conditions": conditions,
                        "nodeName": pod.manifest["spec"].get("nodeName", ""),
                        "targetRef": target,
                    }
                )
        labels = {**service.labels, SERVICE_NAME: name, MANAGED_BY: "endpointslice-controller.k8s.io"}
        owner = pod_facts.owner_reference(SERVICE, service)
        ports = [
            {"name": port.get("name", ""), "port": port.get("targetPort"), "protocol": port.get("protocol", "TCP")}
            for port in service.manifest["spec"].get("ports") or ()
        ]
        return {
            "metadata": {"generateName": f"{name}-", "labels": labels, "ownerReferences": [owner]},
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": ports,
        }


def _facts(pod: Stored) -> tuple[Any, ...]:
    return pod.labels, pod_facts.address(pod), pod_facts.is_ready(pod), pod_facts.is_terminating(pod)
