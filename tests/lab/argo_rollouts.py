"""Argo Rollouts' controller, beside which this project is measured: the real one with its CRDs, built from its Go module."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.lab import binaries, gateway_parts
from tests.lab.binaries import ARGO_ROLLOUTS
from tests.lab.chart import install_crds
from tests.lab.control_plane import ControlPlane
from tests.lab.processes import Processes, free_ports

NAME = ARGO_ROLLOUTS.name
API_VERSION = "argoproj.io/v1alpha1"
ROLLOUTS = f"/apis/{API_VERSION}/namespaces/{{namespace}}/rollouts"


@dataclass(frozen=True, slots=True)
class Started:
    """Its process."""

    process_id: int
    health_url: str


def prepare() -> None:
    """Builds it, and keeps its CRDs, where that was not done before. Raises: LabUnavailable."""
    binaries.build_missing(programs=(ARGO_ROLLOUTS,))
    gateway_parts.prepare({NAME})


def install(plane: ControlPlane) -> None:
    """Applies its CRDs. `prepare` comes first."""
    install_crds(plane, *gateway_parts.crds(NAME))


def start(processes: Processes, kubeconfig: Path, *flags: str) -> Started:
    """Starts it with these flags besides, and without leader election: it is the only one. `prepare` comes first."""
    program = binaries.find(programs=(ARGO_ROLLOUTS,))[NAME]
    assert program is not None, "Argo Rollouts has not been built"
    metrics, health = free_ports(2)
    command: list[str | Path] = [program, f"--kubeconfig={kubeconfig}", "--leader-elect=false", *flags]
    command += [f"--metricsport={metrics}", f"--healthzPort={health}"]
    return Started(processes.start(NAME, command), f"http://127.0.0.1:{health}")
