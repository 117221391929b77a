"""metrics.k8s.io as clusters have it: metrics-server, which asks the kubelet what the pods use, for autoscalers.

It runs as a program beside the API server, which reaches it as `localhost`: the aggregation layer takes a Service of type
ExternalName at its word. This API server has no certificate of its own to show to it, so to metrics-server it is anonymous.
"""

from __future__ import annotations

from pathlib import Path

from rollouts.objects import Kind, Manifest
from tests.build import manifest
from tests.lab.chart import RBAC_GROUP
from tests.lab.control_plane import ControlPlane
from tests.lab.metrics_api import registration
from tests.lab.processes import Processes

_PORT = 4443  # of a network namespace of our own
_NAME = "metrics-server"
_GROUP = "metrics.k8s.io"


def start(plane: ControlPlane, processes: Processes) -> None:
    """Starts it and registers it; does not wait: an autoscaler without metrics asks again.

    Pods have metrics some 20 to 30 s after their start: the kubelet looks every 10 s, and two looks make a rate.
    """
    credentials = plane.kubeconfig_admin
    processes.start(
        _NAME,
        [
            Path(plane.programs, _NAME),
            f"--kubeconfig={credentials}",
            f"--authentication-kubeconfig={credentials}",
            f"--authorization-kubeconfig={credentials}",
            f"--secure-port={_PORT}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={Path(plane.folder, _NAME)}",
            "--kubelet-insecure-tls",  # its certificate is its own
            "--kubelet-preferred-address-types=InternalIP",
            "--metric-resolution=10s",  # the least that it takes
            "--kubelet-request-timeout=5s",
        ],
    )
    plane.apply(*_registration())


def stop(processes: Processes) -> None:
    """Ends it; the API server answers 503 for its group from then on."""
    processes.end(_NAME, patience_s=3.0)


def _registration() -> list[Manifest]:
    name = f"{_NAME}-callers"
    rules = [
        {"apiGroups": [_GROUP], "resources": ["pods", "nodes"], "verbs": ["get", "list"]},
        {"nonResourceURLs": ["/apis", f"/apis/{_GROUP}*"], "verbs": ["get"]},
    ]
    reference = {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": name}
    anonymous = {"kind": "User", "apiGroup": RBAC_GROUP, "name": "system:anonymous"}
    return [
        *registration(f"{_GROUP}/v1beta1", "kube-system", port=_PORT),
        manifest(Kind(RBAC_GROUP, "v1", "ClusterRole", "clusterroles"), name, rules=rules),
        manifest(
            Kind(RBAC_GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings"),
            name,
            roleRef=reference,
            subjects=[anonymous],
        ),
    ]
