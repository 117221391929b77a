"""Envoy Gateway on the node: it reads the cluster, and runs Envoy as a process of its own beside it.

Its provider `Custom` with infrastructure `Host` is made for that; the proxy's binary is where it looks before it would fetch one.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

from rollouts.sim.storage.registry import NAMESPACE as NAMESPACE_KIND
from tests.build import manifest, secret
from tests.gateways.gateway import NAMESPACE, Gateway, folder, gateway_manifests, install_crds, listens
from tests.lab import gateway_parts
from tests.lab.loopback import wait_for
from tests.lab.processes import run
from tests.node.real_node import RealNode

NAME = "envoy-gateway"
PORT = 10080
ADMIN_PORT = 19500  # Envoy Gateway itself has 19000 and 19001
CERTIFICATES = Path("/certs")
"""Where it reads its certificates whatever it is told: mounted over, inside the node's namespaces."""

_SYSTEM = "envoy-gateway-system"
_CONTROLLER = "gateway.envoyproxy.io/gatewayclass-controller"


def start(node: RealNode) -> Gateway:
    """Runs it with one Gateway; returns when its Envoy listens."""
    install_crds(node.plane, NAME)
    home = folder(node, NAME)
    program = Path(node.plane.programs, "envoy-gateway")
    place = home / "data" / "envoy-versions" / gateway_parts.ENVOY_VERSION / "bin" / "envoy"
    place.parent.mkdir(parents=True)
    place.symlink_to(gateway_parts.envoy())
    run(program, "certgen", "--local", "--config-home", home / "config")  # its own certificates, made by itself
    run("mount", "--bind", home / "config/certs/envoy-gateway", CERTIFICATES)
    node.plane.apply(
        manifest(NAMESPACE_KIND, _SYSTEM),
        *(_secret(name, home / "config" / "certs" / name) for name in ("envoy-oidc-hmac", "envoy")),
    )
    config = home / "envoy-gateway.json"
    config.write_text(json.dumps(_config(home)))
    node.processes.start(
        NAME,
        [program, "server", "--config-path", config],
        environment={"KUBECONFIG": str(node.plane.kubeconfig_admin), "ENVOY_GATEWAY_NAMESPACE": _SYSTEM},
    )
    node.plane.apply(_ENVOY_PROXY)
    reference = {"group": "gateway.envoyproxy.io", "kind": "EnvoyProxy", "name": NAME, "namespace": NAMESPACE}
    node.plane.apply(*gateway_manifests(NAME, controller=_CONTROLLER, port=PORT, parameters=reference))
    wait_for(listens(PORT), NAME, node.processes)
    return Gateway(
        name=NAME,
        port=PORT,
        plane="envoy",
        admin=f"http://127.0.0.1:{ADMIN_PORT}",
        features=frozenset({"header", "mirror"}),
        metrics="/stats/prometheus",
    )


def _secret(name: str, files: Path) -> dict[str, object]:
    data = {each.name: base64.b64encode(each.read_bytes()).decode() for each in files.iterdir() if each.is_file()}
    return secret(name, _SYSTEM, data=data)


def _config(home: Path) -> dict[str, object]:
    places = {key: str(home / value) for key, value in _PLACES.items()}
    custom = {"resource": {"type": "Kubernetes"}, "infrastructure": {"type": "Host", "host": places}}
    return {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "EnvoyGateway",
        "gateway": {"controllerName": _CONTROLLER},
        "provider": {"type": "Custom", "custom": custom},
        "logging": {"level": {"default": "info"}},
    }


_PLACES = {"configHome": "config", "dataHome": "data", "stateHome": "state", "runtimeDir": "run"}
# A port of the admin interface that is known; else Envoy Gateway lets Envoy choose one.
_ADMIN_PATCH = {"op": "replace", "path": "/admin/address/socket_address/port_value", "value": ADMIN_PORT}
_ENVOY_PROXY = {
    "apiVersion": "gateway.envoyproxy.io/v1alpha1",
    "kind": "EnvoyProxy",
    "metadata": {"name": NAME, "namespace": NAMESPACE},
    "spec": {
        "provider": {"type": "Host", "host": {"envoyVersion": gateway_parts.ENVOY_VERSION}},
        "bootstrap": {"type": "JSONPatch", "jsonPatches": [_ADMIN_PATCH]},
        # Both Services of a route are one cluster of Envoy: only its counters by address tell the versions apart.
        "telemetry": {"metrics": {"enablePerEndpointStats": True}},
    },
}
