"""Traefik on the node: one process for the Gateway API and its own kinds, with its defaults.

One of them is that it takes changes in at most every two seconds, whatever its status says meanwhile.
"""

from __future__ import annotations

from pathlib import Path

from tests.gateways.gateway import Gateway, answers, gateway_manifests, install_crds, listens
from tests.node.real_node import RealNode, wait_for

NAME = "traefik"
PORT = 9080
API_PORT = 9090
ENTRY_POINT = "web"


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
            "--global.checkNewVersion=false",
            "--global.sendAnonymousUsage=false",
        ],
        environment={"KUBECONFIG": str(node.plane.kubeconfig_admin)},
    )
    node.plane.apply(*gateway_manifests(NAME, controller="traefik.io/gateway-controller", port=PORT))
    admin = f"http://127.0.0.1:{API_PORT}"
    wait_for(listens(PORT), NAME, node.processes)
    wait_for(answers(f"{admin}/api/overview"), NAME, node.processes)
    return Gateway(name=NAME, port=PORT, asked_as=f"traefik:{admin}", admin=admin, features=frozenset({"header"}))
