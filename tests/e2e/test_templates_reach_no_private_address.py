"""What a template of a tenant names is asked by the real controller only if it is public.

Each field that names whom a request goes to is in tests/controller/analysis; here the controller's flags are the chart's.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests import build
from tests.e2e.manifests import Manifest, canary
from tests.e2e.stage import Stage
from tests.lab.control_plane import condition

pytestmark = pytest.mark.controlplane

REFUSED = "may not be asked"


@pytest.fixture(scope="module")
def trap() -> Iterator[socket.socket]:
    """A port at both loopback addresses. Connections wait in it, not requests: a scanner needs no answer."""
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        server.setblocking(False)
        yield server


@pytest.fixture(scope="module")
def controller_flags(trap: socket.socket) -> tuple[str, ...]:
    """Tenants may ask any host, without TLS and at this port: what is left is the address."""
    return "--tenant-metrics=*", "--tenant-metrics-http", f"--tenant-metrics-port={trap.getsockname()[1]}"


def test_an_update_whose_template_names_a_private_address_says_so(stage: Stage, trap: socket.socket) -> None:
    """The update waits for a person: its condition has the reason and what was refused, and the stable revision serves."""
    metric: Manifest = {"name": "smoke", "consecutiveErrorLimit": 0, "successCondition": "result != null"}
    metric["provider"] = {"web": {"url": f"http://localhost:{trap.getsockname()[1]}/"}}
    template = build.analysis_template(metric, name="inside")
    steps: list[Manifest] = [{"setWeight": 50}, {"analysis": {"templates": [{"templateName": "inside"}]}}]
    stable = stage.rolled_out(template, canary("web", replicas=2, steps=steps))
    stage.set_image("web", "web:2")

    told = stage.until_at("web", "AnalysisInconclusive", step=1)

    assert condition(told, "Paused") == ("True", "AnalysisInconclusive")
    assert REFUSED in told["status"]["waitingFor"]["message"]
    assert told["status"]["stableRevision"] == stable
    with pytest.raises(BlockingIOError):
        trap.accept()
