"""Contour on the node, and its Envoy, which are two processes: the one that says "programmed" is not the one that answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.gateways.gateway import NAMESPACE, Gateway, folder, gateway_manifests, install_crds
from tests.lab import gateway_parts
from tests.lab.processes import run
from tests.node.real_node import RealNode

NAME = "contour"
ENVOY = "contour-envoy"
RELAY = "contour-relay"
PORT = 8880  # Envoy Gateway has 8080 and 8081 for itself
ADMIN_PORT = 19501
_XDS_PORT, _RELAY_PORT = 8001, 8011
_LISTENER_PORT = PORT - 8000  # Contour has its Envoy listen 8,000 above the port of the Gateway
_CONFIG = {"gateway": {"gatewayRef": {"namespace": NAMESPACE, "name": NAME}}}


def start(node: RealNode) -> Gateway:
    """Runs both with one Gateway. Envoy listens as soon as there is a route for it."""
    install_crds(node.plane, NAME)
    config = folder(node, NAME) / "contour.json"
    config.write_text(json.dumps(_CONFIG))
    node.plane.apply(*gateway_manifests(NAME, controller="projectcontour.io/gateway-controller", port=_LISTENER_PORT))
    node.processes.start(
        NAME,
        [
            Path(node.plane.programs, "contour"),
            "serve",
            f"--kubeconfig={node.plane.kubeconfig_admin}",
            "--insecure",
            "--xds-address=127.0.0.1",
            f"--xds-port={_XDS_PORT}",
            "--disable-leader-election",
            "--health-address=127.0.0.1",
            "--http-address=127.0.0.1",
            "--disable-feature=tlsroutes",
            "--disable-feature=tcproutes",
            "--disable-feature=backendtlspolicies",
            "-c",
            config,
        ],
    )
    start_envoy(node)
    return Gateway(
        name=NAME,
        port=PORT,
        plane="envoy",
        admin=f"http://127.0.0.1:{ADMIN_PORT}",
        features=frozenset({"header", "mirror"}),
        counters="contour",
        metrics="/stats/prometheus",
    )


@contextmanager
def over_a_line(node: RealNode) -> Iterator[int]:
    """While the block runs Envoy asks Contour by way of a relay, whose process id is given: stopped, it holds all news back."""
    relay = node.processes.start(
        RELAY, [sys.executable, "-m", "tests.gateways.relay", str(_RELAY_PORT), str(_XDS_PORT)]
    )
    try:
        node.processes.end(ENVOY, patience_s=5)
        start_envoy(node, xds_port=_RELAY_PORT)
        yield relay
    finally:
        node.processes.end(ENVOY, patience_s=5)
        node.processes.end(RELAY, patience_s=5)
        start_envoy(node)


def start_envoy(node: RealNode, *, xds_port: int = _XDS_PORT) -> None:
    """Runs its Envoy, which asks Contour, or who relays to it, for everything."""
    bootstrap = folder(node, NAME) / "envoy.json"
    run(
        *(Path(node.plane.programs, "contour"), "bootstrap", bootstrap),
        *("--xds-address=127.0.0.1", f"--xds-port={xds_port}", f"--admin-address={bootstrap.with_suffix('.sock')}"),
    )
    config = json.loads(bootstrap.read_text())
    # Contour takes nothing but a Unix socket here; controllers ask over TCP.
    config["admin"]["address"] = {"socket_address": {"address": "127.0.0.1", "port_value": ADMIN_PORT}}
    bootstrap.write_text(json.dumps(config))
    node.processes.start(
        ENVOY,
        [
            gateway_parts.envoy(),
            "-c",
            bootstrap,
            "--service-cluster",
            NAMESPACE,
            "--service-node",
            "envoy-1",
            "--disable-hot-restart",  # the sockets for that are one for all Envoys here, and Envoy Gateway has one too
        ],
    )
