"""Two versions of the test app behind two Services, without a Rollout: for tests of the gateways themselves."""

from __future__ import annotations

from typing import Any

from tests.gateways.routes import CANARY, STABLE
from tests.lab.control_plane import ControlPlane
from tests.node.workload import NAME, canary, service

READY_WITHIN_S = 60
WORK = "1ms"
"""What an answer takes the app, so that the moment of a change can be told to a few milliseconds."""


def run_two_versions(plane: ControlPlane, namespace: str) -> None:
    """Version 1 behind STABLE and version 2 behind CANARY, two pods each; returns when all are ready."""
    names = {"1": STABLE, "2": CANARY}
    manifests = [each for version, name in names.items() for each in _version(version, name)]
    plane.apply(*manifests, namespace=namespace)
    for name in names.values():
        plane.kubectl("rollout", "status", f"deployment/{name}", "-n", namespace, f"--timeout={READY_WITHIN_S - 5}s")


def _version(version: str, name: str) -> list[dict[str, Any]]:
    pod = canary("dies", "off")["spec"]["template"]["spec"]
    labels = {"app": NAME, "side": name}
    told = {"version": version, "work": WORK}
    front = service(name)
    front["spec"]["selector"] = labels
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": told}, "spec": pod},
        },
    }
    return [deployment, front]
