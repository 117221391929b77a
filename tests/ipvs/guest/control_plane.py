"""etcd, kube-apiserver and kube-proxy inside the guest, and the few requests that the measurements need."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.ipvs.guest import network
from tests.ipvs.guest.traffic import PORT
from tests.lab.credentials import write_kubeconfig, write_signing_key, write_tokens
from tests.lab.processes import Processes

READY_WITHIN_S = 150.0
SERVICE_PORT = 80

_FOLDER = Path("/run/control-plane")
_SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
_URL = f"https://{network.API_ADDRESS}:6443"
# The guest has one processor: less garbage collection for more memory, of which there is enough.
_FRUGAL = {"GOGC": "400"}


@dataclass(frozen=True, slots=True)
class Service:
    """A Service without a selector, whose EndpointSlice the measurement writes."""

    name: str
    node: str
    address: str
    pods: tuple[network.Pod, ...]
    protocol: str = "TCP"
    affinity: str = "None"

    @property
    def place(self) -> str:
        """ADDRESS:PORT."""
        return f"{self.address}:{SERVICE_PORT}"


def server_place(pod: network.Pod) -> str:
    """ADDRESS:PORT of a pod's server."""
    return f"{pod.address}:{PORT}"


@dataclass(slots=True)
class ControlPlane:
    """The programs of the guest; `stop` ends them."""

    programs: Path
    processes: Processes
    _token: str = ""
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def start(self) -> None:
        """Starts etcd and kube-apiserver and returns when the latter is ready. Raises: ProcessEnded, TimeoutError."""
        self._token = _write_credentials()
        self.processes.start(
            "etcd",
            [self.programs / "etcd", f"--data-dir={_FOLDER / 'etcd'}", "--unsafe-no-fsync", "--log-level=warn"],
            environment=_FRUGAL,
        )
        self.processes.start("kube-apiserver", self._api_server(), environment=_FRUGAL)
        deadline = time.monotonic() + READY_WITHIN_S
        while not await self._is_ready():
            self.processes.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"kube-apiserver was not ready within {READY_WITHIN_S:.0f} s")
            await asyncio.sleep(0.5)

    def start_proxy(self, node: network.NodeNetwork, *flags: str) -> None:
        kubeconfig = write_kubeconfig(
            _FOLDER / "kube-proxy.kubeconfig",
            url=_URL,
            certificate=_FOLDER / "certificates" / "apiserver.crt",
            token=self._token,
            user="lab-admin",
            namespace="default",
        )
        proxy: list[str | Path] = [
            self.programs / "kube-proxy",
            f"--kubeconfig={kubeconfig}",
            "--proxy-mode=ipvs",
            f"--hostname-override={node.name}",
            "--conntrack-max-per-core=0",  # its limits are the machine's, not a namespace's
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
            "--v=2",
            *flags,
        ]
        self.processes.start("kube-proxy", ["ip", "netns", "exec", node.name, *proxy], environment=_FRUGAL)

    async def add_node(self, node: network.NodeNetwork) -> None:
        """Creates the Node that its kube-proxy looks for."""
        addresses = [{"type": "InternalIP", "address": node.address}, {"type": "Hostname", "address": node.name}]
        made = {"metadata": {"name": node.name}, "status": {"addresses": addresses}}
        await self._request("POST", "/api/v1/nodes", made)

    async def add_service(self, service: Service) -> None:
        """Creates a Service and its EndpointSlice with all its pods ready."""
        metadata = {"name": service.name, "labels": {"kubernetes.io/service-name": service.name}}
        port = {"name": "main", "protocol": service.protocol}
        spec = {
            "clusterIP": service.address,
            "sessionAffinity": service.affinity,
            "ports": [{**port, "port": SERVICE_PORT, "targetPort": PORT}],
        }
        slice_of = {
            "addressType": "IPv4",
            "ports": [{**port, "port": PORT}],
            "endpoints": [*map(_endpoint, service.pods)],
        }
        await self._request("POST", "/api/v1/namespaces/default/services", {"metadata": metadata, "spec": spec})
        await self._request("POST", _SLICES, {"metadata": metadata, **slice_of})

    async def set_endpoints(
        self, service: Service, ready: Sequence[network.Pod], terminating: Sequence[network.Pod] = ()
    ) -> None:
        """Writes which pods are in the Service's EndpointSlice, and which of them are on their way out but still serving."""
        endpoints = [*map(_endpoint, ready), *(_endpoint(pod, terminating=True) for pod in terminating)]
        await self._request("PATCH", f"{_SLICES}/{service.name}", {"endpoints": endpoints})

    async def _is_ready(self) -> bool:
        try:
            return bool(await self._request("GET", "/readyz") == "ok")
        except (OSError, http.client.HTTPException, RuntimeError):
            return False

    async def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Raises: RuntimeError with the server's words."""
        async with self._one_at_a_time:
            return await asyncio.to_thread(self._request_now, method, path, body)

    def _request_now(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        certificate = _FOLDER / "certificates" / "apiserver.crt"
        trusting = ssl.create_default_context(cafile=str(certificate))
        connection = http.client.HTTPSConnection(network.API_ADDRESS, 6443, timeout=20, context=trusting)
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        try:
            connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:500]}")
        return json.loads(text) if text.startswith("{") else text

    def _api_server(self) -> list[str | Path]:
        return [
            self.programs / "kube-apiserver",
            "--etcd-servers=http://127.0.0.1:2379",
            f"--bind-address={network.API_ADDRESS}",
            f"--advertise-address={network.API_ADDRESS}",
            "--secure-port=6443",
            f"--cert-dir={_FOLDER / 'certificates'}",
            f"--service-account-key-file={_FOLDER / 'accounts.key'}",
            f"--service-account-signing-key-file={_FOLDER / 'accounts.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={_FOLDER / 'tokens.csv'}",
            "--authorization-mode=AlwaysAllow",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--endpoint-reconciler-type=none",
            "--enable-priority-and-fairness=false",
            "--profiling=false",
        ]


def _write_credentials() -> str:
    """The control plane's keys, in a folder of the guest's memory; the token of its administrator."""
    _FOLDER.mkdir()
    write_signing_key(_FOLDER / "accounts.key")
    (token,) = write_tokens(_FOLDER / "tokens.csv", "lab-admin")
    return token


def _endpoint(pod: network.Pod, *, terminating: bool = False) -> dict[str, Any]:
    conditions = {"ready": not terminating, "serving": True, "terminating": terminating}
    return {"addresses": [pod.address], "conditions": conditions, "nodeName": pod.node}
