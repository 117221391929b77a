"""metrics.k8s.io for a control plane without kubelets: a small HTTPS server on loopback that the API server forwards to.

An APIService names a Service, and the aggregation layer takes a Service of type ExternalName at its word: `localhost`. So the
HorizontalPodAutoscaler's own client asks the API server, and the API server asks us. Needs no metrics-server.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from rollouts.objects import SERVICE, Kind, Manifest
from tests.build import manifest
from tests.lab.control_plane import ControlPlane
from tests.lab.loopback import Answer, answering

_GROUP_VERSION = "metrics.k8s.io/v1beta1"
AVAILABLE_WITHIN_S = 30

_API_SERVICE = Kind("apiregistration.k8s.io", "v1", "APIService", "apiservices")


@contextmanager
def served_answers(plane: ControlPlane, *, namespace: str, answer: Callable[[str], Answer]) -> Iterator[None]:
    """Serves metrics.k8s.io on this control plane while the block runs, for one namespace; others are told 404, as without it.

    The APIService is the whole cluster's: one test at a time. `answer` gives what a list of a namespace's pods is answered with,
    by its label selector; several threads call it.
    """
    with served_groups(plane, pod_metrics(answer), namespace=namespace):
        yield


@dataclass(frozen=True)
class ServedGroup:
    """A group of metrics APIs.

    `answer` gives what a GET below `namespaces/NAMESPACE/` is answered with, by the rest of its path and its label selector; None
    for 404. It is called by several threads.
    """

    group_version: str  # such as `metrics.k8s.io/v1beta1`
    resources: tuple[dict[str, Any], ...]  # what its discovery lists
    answer: Callable[[tuple[str, ...], str], Answer | None]

    @property
    def api_service(self) -> str:
        """Name of its APIService."""
        return ".".join(reversed(self.group_version.split("/")))


def pod_metrics(answer: Callable[[str], Answer]) -> ServedGroup:
    """metrics.k8s.io, by what a list of pods is answered with."""
    pods = {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}
    return ServedGroup(_GROUP_VERSION, (pods,), lambda path, selector: answer(selector) if path == ("pods",) else None)


@contextmanager
def served_groups(plane: ControlPlane, *groups: ServedGroup, namespace: str) -> Iterator[None]:
    """Serves these groups on this control plane while the block runs, for one namespace; others are told 404."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(plane.certificate, Path(plane.certificate).with_suffix(".key"))
    served = {tuple(each.group_version.split("/")): each for each in groups}

    def answer(asked: str) -> Answer:
        url = urlsplit(asked)
        group, version, *path = [*unquote(url.path).removeprefix("/apis/").split("/"), ""]
        found = served.get((group, version))
        match path:
            case [""] if found is not None:
                of = {"apiVersion": "v1", "groupVersion": found.group_version}
                return 200, {"kind": "APIResourceList", **of, "resources": list(found.resources)}
            case ["namespaces", its, *rest, ""] if found is not None and its == namespace:
                return found.answer(tuple(rest), parse_qs(url.query).get("labelSelector", [""])[0]) or (404, {})
            case _:
                return 404, {}

    with answering(answer, tls=tls) as port:
        try:
            plane.apply(*(one for each in groups for one in registration(each.group_version, namespace, port=port)))
            services = [f"apiservice/{each.api_service}" for each in groups]
            plane.kubectl("wait", *services, "--for=condition=Available", f"--timeout={AVAILABLE_WITHIN_S}s")
            yield
        finally:
            # While an APIService does not answer, no namespace of the cluster can be deleted.
            plane.kubectl("delete", "apiservice", *(each.api_service for each in groups), "--ignore-not-found")


def registration(group_version: str, namespace: str, *, port: int) -> list[Manifest]:
    """What leads the API server to a group that a port of the loopback serves, by way of a Service in that namespace."""
    group, version = group_version.split("/")
    external = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
    spec = {
        "group": group,
        "version": version,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {"namespace": namespace, "name": "metrics", "port": port},
    }
    return [
        manifest(SERVICE, "metrics", namespace, spec=external),
        manifest(_API_SERVICE, f"{version}.{group}", spec=spec),
    ]
