"""A simulated cluster: the API server with the controllers, kubelets and clients around it. One seed decides its run."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import msgspec

from rollouts import ports
from rollouts.objects import Kind, Manifest
from rollouts.sim.actors.autoscaling.controller import HorizontalPodAutoscalerController
from rollouts.sim.actors.autoscaling.spec import DEFAULT_FLAGS, AutoscalerFlags
from rollouts.sim.actors.daemonsets import DaemonSetController
from rollouts.sim.actors.deployments.controller import DeploymentController
from rollouts.sim.actors.endpointslices import EndpointSliceController
from rollouts.sim.actors.garbage import GarbageCollector
from rollouts.sim.actors.jobs import JobController
from rollouts.sim.actors.kubelet import Kubelets, KubeletSettings
from rollouts.sim.actors.replicasets import ReplicaSetController
from rollouts.sim.actors.statefulsets import StatefulSetController
from rollouts.sim.actors.volumes import VolumeController
from rollouts.sim.actors.work import Actor, World
from rollouts.sim.apiserver.server import SimServer
from rollouts.sim.clock import SimClock
from rollouts.sim.network.applications import Applications
from rollouts.sim.network.consumption import Consumptions
from rollouts.sim.network.gateway import ENVOY, Gateway, GatewaySettings
from rollouts.sim.network.gateway_clients import GatewayClients
from rollouts.sim.network.prometheus.server import SimMetricEndpoints, SimPrometheus
from rollouts.sim.network.resource_metrics import SimMetricsServer
from rollouts.sim.network.traffic import ClientTraffic


class _Part(Protocol):
    def start(self) -> None: ...
    def stop(self) -> None: ...


_PartT = TypeVar("_PartT", bound=_Part)


class SimulatedCluster:
    """The cluster; `async with` starts and stops its actors. Make it inside a running event loop.

    Args:
        seed: decides names, uids, nodes, start-up times and the clients' choices.
        clock: for timestamps; None for the loop's time. Pass `SystemClock` for real time.
        slice_lag_s: time from a pod's change to its EndpointSlice.
        kube_proxy: mode of kube-proxy, as its ConfigMap names it; empty for a cluster without that ConfigMap.
        hold_policies: whether the chart's policies hold workloads that a Rollout updates in place.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        clock: ports.Clock | None = None,
        crds: Iterable[Manifest] = (),
        kubelet: KubeletSettings | None = None,
        slice_lag_s: float = 0.02,
        kube_proxy: str = "iptables",
        hold_policies: bool = False,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.clock = clock or SimClock(loop)
        self.api = SimServer(clock=self.clock, seed=seed, crds=crds, hold_policies=hold_policies)
        self.world = World(self.api, loop, random.Random(seed + 1))  # noqa: S311  # a simulation's seed
        self.kubelets = Kubelets(self.world, kubelet or KubeletSettings())
        self.replica_sets = ReplicaSetController(self.world)
        self.deployments = DeploymentController(self.world)
        self.applications = Applications(self.world, self.kubelets, seed=seed + 2)
        self.consumptions = Consumptions(self.world, self.applications)
        self.metrics = SimMetricEndpoints()
        self._actors: tuple[Actor, ...] = (
            self.kubelets,
            self.replica_sets,
            self.deployments,
            EndpointSliceController(self.world, lag_s=slice_lag_s),
            JobController(self.world),
            StatefulSetController(self.world),
            DaemonSetController(self.world),
            VolumeController(self.world),
            GarbageCollector(self.world),
        )
        self._parts: list[_Part] = []
        """What was started later."""
        self._seed = seed
        self._kube_proxy = kube_proxy

    async def __aenter__(self) -> Self:
        for actor in self._actors:
            actor.start()
        if self._kube_proxy:
            # Source: KubeProxyConfiguration, kubeproxy.config.k8s.io/v1alpha1.
            head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration"
            config_map = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "kube-proxy", "namespace": "kube-system"},
                "data": {"config.conf": f"{head}\nmode: {self._kube_proxy}\n"},
            }
            self.apply(config_map, manager="kubeadm")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for part in (*self._parts, *self._actors):
            part.stop()
        await self.api.aclose()

    def apply(self, manifest: Manifest, *, manager: str = "user") -> Manifest:
        """Applies a manifest by server-side apply, and returns the object. The manifest needs apiVersion, kind and name.

        Raises: Refused; KeyError for a type that is not served.
        """
        resource = self.api.registry.named(manifest["apiVersion"], manifest["kind"])
        if resource is None:
            raise KeyError(f"{manifest['apiVersion']} {manifest['kind']}")
        metadata = manifest["metadata"]
        namespace = metadata.get("namespace", "default") if resource.kind.namespaced else None
        path = resource.kind.path(namespace, metadata["name"])
        query = {"fieldManager": manager, "force": "true"}
        body = msgspec.json.encode(manifest)
        response = self.api.answer(ports.Request("PATCH", path, query, body, ports.APPLY_PATCH))
        answer: Manifest = msgspec.json.decode(response.body)
        if response.status >= 300:
            raise ValueError(f"{response.status} {answer['reason']}: {answer['message']}")
        return answer

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """An object as it is now; callers must not change it."""
        stored = self.api.history.get(kind, namespace, name)
        return stored.manifest if stored else None

    def list(self, kind: Kind, namespace: str | None = None) -> list[Manifest]:
        """A kind's objects as they are now; callers must not change them."""
        return [stored.manifest for stored in self.api.history.select(kind, namespace)]

    def clients(self, **options: Any) -> ClientTraffic:
        """Starts clients of a Service; the options are those of `ClientTraffic`."""
        return self._started(ClientTraffic(self.world, self.applications, **options))

    def autoscalers(self, flags: AutoscalerFlags = DEFAULT_FLAGS) -> HorizontalPodAutoscalerController:
        """Starts the controller of HorizontalPodAutoscalers. Without it nobody acts on them, and tests can write their status."""
        return self._started(HorizontalPodAutoscalerController(self.world, flags))

    def gateway(self, *, namespace: str, name: str, settings: GatewaySettings = ENVOY) -> Gateway:
        """Starts a gateway, with a GatewayClass and a Gateway of that name; needs the CRDs of `sim/network/gateway_types.py`.

        Raises: KeyError without them.
        """
        return self._started(Gateway(self.world, namespace=namespace, gateway=name, settings=settings))

    def gateway_clients(self, gateway: Gateway, **options: Any) -> GatewayClients:
        """Starts clients of a gateway; the options are those of `GatewayClients`."""
        return self._started(GatewayClients(self.world, self.applications, gateway, **options))

    def prometheus(self, **options: Any) -> SimPrometheus:
        """Starts a Prometheus that scrapes the pods behind all Services; the options are those of `SimPrometheus`."""
        server = SimPrometheus(self.world, self.applications, **{"seed": self._seed + 3, **options})
        self.metrics.servers.append(server)
        return self._started(server)

    def metrics_server(self) -> SimMetricsServer:
        """Starts a metrics-server. Without it the group metrics.k8s.io is not found."""
        return self._started(SimMetricsServer(self.world, self.consumptions))

    def _started(self, part: _PartT) -> _PartT:
        part.start()
        self._parts.append(part)
        return part

    async def until(
        self, holds: Callable[[Manifest | None], bool], *, kind: Kind, namespace: str, name: str, deadline_s: float
    ) -> Manifest | None:
        """Waits until `holds` is true of an object (None when there is none); returns the object.

        Raises: TimeoutError after `deadline_s` seconds of loop time.
        """
        changed = asyncio.Event()
        unlisten = self.api.history.listen(kind, lambda _: changed.set())
        try:
            async with asyncio.timeout(deadline_s):
                while True:
                    manifest = self.get(kind, namespace, name)
                    if holds(manifest):
                        return manifest
                    changed.clear()
                    await changed.wait()
        finally:
            unlisten()
