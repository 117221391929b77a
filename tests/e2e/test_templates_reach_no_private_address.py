"""What a template of a tenant names is asked by the real controller only if it is public, whatever field it stands in."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from rollouts.api.v1alpha1.analysis_template import AnalysisRunSpecWire
from tests import build
from tests.controller.analysis.test_no_text_of_a_template_reaches_a_private_address import URLS
from tests.controller.analysis.whole_metrics import field_at, fields_of, leaves_of, planted, whole_runs
from tests.e2e.manifests import Manifest, analysis_run, canary
from tests.e2e.stage import Stage
from tests.lab.control_plane import ControlPlane, condition

pytestmark = pytest.mark.controlplane

REFUSED = "may not be asked"


@dataclass
class Listener:
    """A server of the loopback. Connections count, not requests: a scanner needs no answer."""

    port: int
    connections: int = 0


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    """A port at both loopback addresses that nobody may connect to."""
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        found = Listener(server.getsockname()[1])

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                connection.close()
                found.connections += 1

        threading.Thread(target=accept, daemon=True).start()
        yield found


@pytest.fixture(scope="module")
def controller_flags(listener: Listener) -> tuple[str, ...]:
    """Tenants may ask any host, without TLS and at these ports: what is left is the address. A Prometheus is declared there, too,
    so that a URL beside a declared one is tried; nothing asks it before it has a token.
    """
    ports = [f"--tenant-metrics-port={port}" for port in (80, listener.port)]
    return (
        "--tenant-metrics=*",
        "--tenant-metrics-http",
        *ports,
        f"--prometheus-url=http://127.0.0.1:{listener.port}/p",
    )


def addresses(listener: Listener, plane: ControlPlane) -> tuple[str, ...]:
    """Of this machine under four names, of the metadata service, of a link, of a private network, and of the API server."""
    here = (f"http://{host}:{listener.port}/" for host in ("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]"))
    return (
        *here,
        "http://169.254.169.254/latest/meta-data/",
        "http://[fe80::1]/",
        "http://10.0.0.1/",
        f"{plane.url}/api",
    )


def metrics_of(declared: str, asked: tuple[str, ...]) -> dict[str, list[Manifest]]:
    """For each field that names whom a request goes to: a metric for each of the URLs in that field.

    Of a comparison one URL is enough: its two sources are asked as all others are.
    """
    fields, found = fields_of(AnalysisRunSpecWire), dict[str, list[Manifest]]()
    for spec in whole_runs(declared).values():
        for path in leaves_of(spec):
            field = field_at(path, fields)
            if field in URLS and field not in found:
                urls = asked[:1] if ".compare." in field else asked
                found[field] = [_metric(planted(spec, path, url), number) for number, url in enumerate(urls)]
    return found


def _metric(spec: dict[str, Any], number: int) -> Manifest:
    (metric,) = spec["metrics"]
    named = {"name": f"m{number}", "provider": metric["provider"]}
    if "compare" in metric["provider"]:
        return named | ({"interval": "1s", "count": metric["count"]} if "count" in metric else {})
    return named | {"successCondition": "result != null"}


def measured(run: Manifest, metrics: int) -> bool:
    """Whether each metric was measured once."""
    results = run.get("status", {}).get("metricResults", [])
    return len([each for each in results if each.get("measurements")]) == metrics


def test_no_field_of_a_template_leads_to_a_private_address(
    control_plane: ControlPlane, stage: Stage, listener: Listener
) -> None:
    """Each measurement ends with an error that says why, and nobody connects."""
    asked = addresses(listener, control_plane)
    metrics = metrics_of(f"http://127.0.0.1:{listener.port}/p", asked)
    assert set(metrics) == URLS
    runs = {f"run{number}": found for number, found in enumerate(metrics.values())}
    stage.apply(*(analysis_run(name, found) for name, found in runs.items()))

    for name, (field, found) in zip(runs, metrics.items(), strict=True):
        run = stage.until("analysisruns", name, partial(measured, metrics=len(found)))
        for url, result in zip(asked, run["status"]["metricResults"], strict=False):
            said = result["measurements"][0]
            assert said["phase"] == "Error", (field, url, said)
            assert said["message"].endswith(REFUSED), (field, url, said)
    assert listener.connections == 0


def test_an_update_whose_template_names_a_private_address_says_so(stage: Stage, listener: Listener) -> None:
    """The update waits for a person: its condition has the reason and what was refused, and the stable revision serves."""
    metric: Manifest = {"name": "smoke", "consecutiveErrorLimit": 0, "successCondition": "result != null"}
    metric["provider"] = {"web": {"url": f"http://localhost:{listener.port}/"}}
    template = build.analysis_template(metric, name="inside")
    steps: list[Manifest] = [{"setWeight": 50}, {"analysis": {"templates": [{"templateName": "inside"}]}}]
    stable = stage.rolled_out(template, canary("web", replicas=2, steps=steps))
    stage.set_image("web", "web:2")

    told = stage.until_at("web", "AnalysisInconclusive", step=1)

    assert condition(told, "Paused") == ("True", "AnalysisInconclusive")
    assert REFUSED in told["status"]["waitingFor"]["message"]
    assert told["status"]["stableRevision"] == stable
    assert listener.connections == 0
