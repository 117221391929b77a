"""Traefik on the node: one process for the Gateway API, its own kinds and the annotations of ingress-nginx, with its defaults.

One of them is that it takes changes in at most every two seconds, whatever its status says meanwhile.
"""

from __future__ import annotations

from pathlib import Path

from rollouts.objects import Kind
from tests.build import manifest
from tests.gateways.gateway import Gateway, answers, gateway_manifests, install_crds, listens
from tests.lab.loopback import wait_for
from tests.node.real_node import RealNode

NAME = "traefik"
PORT = 9080
API_PORT = 9090
ENTRY_POINT = "web"
INGRESS_CLASS = "nginx"
_INGRESS_CONTROLLER = "k8s.io/ingress-nginx"


def start(node: RealNode) -> Gateway:
    """Runs it with one Gateway; returns when it listens."""
    install_crds(node.plane, NAME)
    node.processes.start(
        NAME,
        [
            Path(node.plane.programs, "traefik"),
            f"--entryPoints.{ENTRY_POINT}.address=:{PORT}",
            f"--entryPoints.traefik.address=127.0.0.1:{API_PORT}",
            "--api.insecure=true",
            "--metrics.prometheus=true",
            "--providers.kubernetesGateway=true",
            "--providers.kubernetesCRD=true",
            "--providers.kubernetesIngressNGINX=true",
            f"--providers.kubernetesIngressNGINX.httpEntryPoint={ENTRY_POINT}",
            "--global.checkNewVersion=false",
            "--global.sendAnonymousUsage=false",
        ],
        environment={"KUBECONFIG": str(node.plane.kubeconfig_admin)},
    )
    kind = Kind("networking.k8s.io", "v1", "IngressClass", "ingressclasses", namespaced=False)
    ingress_class = manifest(kind, INGRESS_CLASS, spec={"controller": _INGRESS_CONTROLLER})
    node.plane.apply(ingress_class, *gateway_manifests(NAME, controller="traefik.io/gateway-controller", port=PORT))
    admin = f"http://127.0.0.1:{API_PORT}"
    wait_for(listens(PORT), NAME, node.processes)
    wait_for(answers(f"{admin}/api/overview"), NAME, node.processes)
    return Gateway(
        name=NAME,
        port=PORT,
        plane="traefik",
        admin=admin,
        features=frozenset({"header"}),
        counters="traefik",
        metrics="/metrics",
    )
