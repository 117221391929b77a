"""Promise: the chart's dashboard has no rights and no token, is nobody's controller, and starts as the command line reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from rollouts.cli.dashboard.command import PORT
from rollouts.cli.main import app
from tests.lab.chart import render
from tests.packaging.rendered import Documents

pytestmark = pytest.mark.controlplane

ON = ("--set", "dashboard.enabled=true")


def of_the_dashboard(rendered: Documents) -> dict[str, dict[str, Any]]:
    """Its objects, by their kinds."""
    return {one["kind"]: one for one in rendered if one["metadata"]["name"] == "rollouts-dashboard"}


def test_it_is_there_when_it_is_asked_for(helm: Path) -> None:
    """A way in that nobody has asked for is one that nobody guards."""
    assert not of_the_dashboard(render(helm))
    assert set(of_the_dashboard(render(helm, *ON))) == {"ServiceAccount", "Service", "Deployment", "NetworkPolicy"}
    without = render(helm, "--set", "dashboard.enabled=true,networkPolicy.enabled=false")
    assert set(of_the_dashboard(without)) == {"ServiceAccount", "Service", "Deployment"}


def test_its_account_has_no_rights_and_its_pod_no_token(helm: Path) -> None:
    """What it may, somebody who breaks in may: that is to be nothing. All other objects are as without it."""
    rendered = render(helm, *ON)
    own = of_the_dashboard(rendered)
    others = [one for one in rendered if one not in own.values()]

    assert others == render(helm)
    assert not [one for one in others if "rollouts-dashboard" in json.dumps(one)]
    assert own["ServiceAccount"]["automountServiceAccountToken"] is False
    pod = own["Deployment"]["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("rollouts-dashboard", False)
    (volume,) = pod["volumes"]
    assert volume["configMap"] == {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    (container,) = pod["containers"]
    assert container["volumeMounts"][0]["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_nothing_takes_its_pods_for_the_controllers(helm: Path) -> None:
    """Selectors of the controller's Deployment, Service, policy and budget, and what `doctor` looks for."""
    rendered = render(helm, *ON)
    own = of_the_dashboard(rendered)
    labels = own["Deployment"]["spec"]["template"]["metadata"]["labels"]
    selectors = {}
    for one in rendered:
        spec = one.get("spec", {})
        found = spec.get("selector") or spec.get("podSelector") or {}
        selectors[one["kind"], one["metadata"]["name"]] = found.get("matchLabels", found)
    selecting = {key for key, wanted in selectors.items() if wanted and wanted.items() <= labels.items()}

    assert selecting == {(kind, "rollouts-dashboard") for kind in ("Service", "Deployment", "NetworkPolicy")}
    assert {one["metadata"]["labels"]["app.kubernetes.io/name"] for one in own.values()} == {"rollouts-dashboard"}


def test_it_starts_with_its_names_and_is_reached_where_the_chart_says(helm: Path) -> None:
    """The words are the command line's own; who may reach it, and whom it may ask, are values."""
    values = {
        "dashboard.enabled": True,
        "admission.commandRights": True,
        "dashboard.hosts": ["rollouts.example.com", "http://plain.example:8080"],
        "dashboard.links": {"Logs": "https://logs.example/?ns={namespace}&pod={pod}"},
        "dashboard.from": [{"podSelector": {"matchLabels": {"app": "ingress"}}}],
        "dashboard.egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.10/32"}}], "ports": [{"port": 6443}]}],
    }
    own = of_the_dashboard(
        render(
            helm, *(word for name, value in values.items() for word in ("--set-json", f"{name}={json.dumps(value)}"))
        )
    )
    (container,) = own["Deployment"]["spec"]["template"]["spec"]["containers"]
    policy = own["NetworkPolicy"]["spec"]

    assert container["args"] == [
        "dashboard",
        "--auth=token",
        f"--port={PORT}",
        "--command-rights",
        "--host=rollouts.example.com",
        "--host=http://plain.example:8080",
        "--link=Logs=https://logs.example/?ns={namespace}&pod={pod}",
    ]
    command: Any = typer.main.get_command(app)
    command.commands["dashboard"].callback = None  # it is read, and not carried out
    assert command.main(container["args"], standalone_mode=False) in (None, 0)
    assert container["ports"] == [{"name": "http", "containerPort": PORT, "protocol": "TCP"}]
    assert own["Service"]["spec"]["ports"][0]["targetPort"] == "http"
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        assert container[probe]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"] == [{"ports": [{"port": "http", "protocol": "TCP"}], "from": values["dashboard.from"]}]
    assert policy["egress"] == values["dashboard.egress"]
