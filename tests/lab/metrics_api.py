"""metrics.k8s.io for a control plane without kubelets: a small HTTPS server on loopback that the API server forwards to.

An APIService names a Service, and the aggregation layer takes a Service of type ExternalName at its word: `localhost`. So the
HorizontalPodAutoscaler's own client asks the API server, and the API server asks us. Needs no metrics-server.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

from tests.lab.control_plane import ControlPlane

_GROUP_VERSION = "metrics.k8s.io/v1beta1"
_API_SERVICE = "v1beta1.metrics.k8s.io"
AVAILABLE_WITHIN_S = 30

Answer: TypeAlias = tuple[int, dict[str, Any]]
"""An HTTP status and a body."""


@dataclass
class Metrics:
    """What the server says, and what it was asked.

    Args:
        namespace: whose pods it knows.
        millicores: what every pod uses of the CPU.
        selectors: label selectors of the questions about pods, in their order.
    """

    namespace: str
    millicores: int
    selectors: list[str] = field(default_factory=list)


@contextmanager
def served_metrics(plane: ControlPlane, *, namespace: str, millicores: int) -> Iterator[Metrics]:
    """Serves metrics.k8s.io on this control plane while the block runs: every pod of the namespace uses `millicores`.

    The APIService is the whole cluster's: one test at a time. Autoscalers of other namespaces are told 404, as without it.
    """
    metrics = Metrics(namespace, millicores)

    def answer(selector: str) -> Answer:
        metrics.selectors.append(selector)
        return 200, _usage(plane, namespace, selector, millicores)

    with served_answers(plane, namespace=namespace, answer=answer):
        yield metrics


@contextmanager
def served_answers(plane: ControlPlane, *, namespace: str, answer: Callable[[str], Answer]) -> Iterator[None]:
    """Serves metrics.k8s.io on this control plane while the block runs, as `served_metrics` does.

    Args:
        answer: what a list of a namespace's pods is answered with, by its label selector. It is called by several threads.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(namespace, answer))
    server.daemon_threads = True
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(plane.certificate, Path(plane.certificate).with_suffix(".key"))
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    serving.start()
    try:
        plane.apply(*_registration(namespace, port=server.server_port))
        _wait_until_available(plane)
        yield
    finally:
        # While an APIService does not answer, no namespace of the cluster can be deleted.
        plane.kubectl("delete", "apiservice", _API_SERVICE, "--ignore-not-found")
        server.shutdown()
        server.server_close()
        serving.join()


def _registration(namespace: str, *, port: int) -> tuple[dict[str, Any], dict[str, Any]]:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "metrics", "namespace": namespace},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    }
    api_service = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": _API_SERVICE},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"namespace": namespace, "name": "metrics", "port": port},
        },
    }
    return service, api_service


def _wait_until_available(plane: ControlPlane) -> None:
    plane.kubectl("wait", f"apiservice/{_API_SERVICE}", "--for=condition=Available", f"--timeout={AVAILABLE_WITHIN_S}s")


def _handler(namespace: str, answer: Callable[[str], Answer]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Discovery, and the usage of pods."""

        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            match url.path.removeprefix("/apis/").split("/"):
                case ["metrics.k8s.io", "v1beta1"]:
                    self._answer(200, _discovery())
                case ["metrics.k8s.io", "v1beta1", "namespaces", asked, "pods"] if asked == namespace:
                    self._answer(*answer(parse_qs(url.query).get("labelSelector", [""])[0]))
                case _:
                    self.send_error(404)

        def _answer(self, status: int, body: dict[str, Any]) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class names it so
            """Nobody reads it."""

    return Handler


def _discovery() -> dict[str, Any]:
    pods = {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": _GROUP_VERSION, "resources": [pods]}


def _usage(plane: ControlPlane, namespace: str, selector: str, millicores: int) -> dict[str, Any]:
    listed = plane.api.get(f"/api/v1/namespaces/{namespace}/pods", params={"labelSelector": selector})
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    items = [
        {
            "metadata": {"name": pod["metadata"]["name"], "namespace": namespace, "labels": pod["metadata"]["labels"]},
            "timestamp": now,
            "window": "1s",
            "containers": [
                {"name": container["name"], "usage": {"cpu": f"{millicores}m", "memory": "1Mi"}}
                for container in pod["spec"]["containers"]
            ],
        }
        for pod in listed.raise_for_status().json()["items"]
    ]
    return {"kind": "PodMetricsList", "apiVersion": _GROUP_VERSION, "metadata": {}, "items": items}
