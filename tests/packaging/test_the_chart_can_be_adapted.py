"""What an administrator changes of the chart without a fork: names, ports, who may scrape, alerts and the dashboard."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from rollouts.controller.command import _settings
from rollouts.settings import ROLLOUT_SERIES_MAX
from rollouts.telemetry import Telemetry
from tests.lab.chart import CHART, RELEASE, RELEASE_NAMESPACE, render
from tests.packaging.rendered import container, named, only

ALERTS = CHART / "files" / "alerts.yaml"
DASHBOARD = CHART / "files" / "dashboard.json"


def test_all_names_begin_with_the_name_that_was_chosen(helm: Path) -> None:
    """Two releases in one cluster, and policies that demand names, need it; CRDs and templates are the same for all."""
    documents = render(helm, "--set", "fullnameOverride=delivery,metrics.dashboard.enabled=true")
    named = [one for one in documents if one["kind"] not in {"CustomResourceDefinition", "ClusterAnalysisTemplate"}]

    assert {re.split("[-.]", one["metadata"]["name"])[0] for one in named} == {"delivery"}
    assert only(documents, "ClusterRoleBinding")["roleRef"]["name"] == "delivery"


def test_the_kubelet_asks_a_port_that_no_pod_may_reach(helm: Path) -> None:
    """The NetworkPolicy is on by default and opens the metrics alone; a node always reaches its own pods."""
    documents = render(helm)
    of_controller = container(documents)
    policy = only(documents, "NetworkPolicy")["spec"]

    probes = {of_controller[f"{each}Probe"]["httpGet"]["port"] for each in ("liveness", "readiness", "startup")}
    ports = {each["name"]: each["containerPort"] for each in of_controller["ports"]}
    assert probes == {"health"}
    assert f"--health-address=:{ports['health']}" in of_controller["args"]
    assert f"--metrics-address=:{ports['metrics']}" in of_controller["args"]
    assert policy["ingress"] == [{"ports": [{"port": "metrics", "protocol": "TCP"}]}]
    assert policy["policyTypes"] == ["Ingress"]


def test_metrics_can_be_opened_for_prometheus_alone(helm: Path) -> None:
    """They name every Rollout by namespace, and need no credentials."""
    chosen = "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.team=monitoring"

    policy = only(render(helm, "--set", chosen), "NetworkPolicy")["spec"]

    assert policy["ingress"][0]["from"] == [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}]


def test_who_is_asked_can_be_limited_to_what_was_named(helm: Path) -> None:
    """Off by default: no chart knows the API server's address. With rules, they and names are all that is left."""
    rule = {"to": [{"ipBlock": {"cidr": "10.0.0.10/32"}}], "ports": [{"port": 6443, "protocol": "TCP"}]}

    policy = only(render(helm, "--set-json", f"networkPolicy.egress={json.dumps([rule])}"), "NetworkPolicy")["spec"]

    names, *others = policy["egress"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert names == {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}
    assert others == [rule]
    assert "egress" not in only(render(helm), "NetworkPolicy")["spec"]


def _notes(helm: Path, home: Path, *arguments: str) -> str:
    """What Helm prints after an installation, or with `--is-upgrade` after an upgrade.

    Without a cluster it renders manifests only, so here the text is in one.
    """
    chart = home / "chart"
    shutil.copytree(CHART, chart)
    lines = (chart / "templates" / "NOTES.txt").read_text().splitlines()
    (chart / "templates" / "notes.yaml").write_text("\n".join(["text: |", *(f"  {line}" for line in lines)]))
    words = ["template", RELEASE, str(chart), "--namespace", RELEASE_NAMESPACE, "--show-only", "templates/notes.yaml"]
    done = _template(helm, home, *words, *arguments)
    assert done.returncode == 0, done.stderr
    return str(yaml.safe_load(done.stdout)["text"])


def _template(helm: Path, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    return subprocess.run([str(helm), *words], env=environment, capture_output=True, text=True, check=False)


def test_the_notes_end_in_commands_of_getting_started(helm: Path, tmp_path: Path) -> None:
    """The page is run by a test; what Helm prints and nobody runs would age."""
    page = (CHART.parents[1] / "docs" / "getting-started.md").read_text()

    commands = [line.strip() for line in _notes(helm, tmp_path).splitlines() if line.startswith("  ")]

    assert len(commands) == 2
    assert [command for command in commands if command not in page] == []


def test_after_an_upgrade_the_notes_do_not_begin_again(helm: Path, tmp_path: Path) -> None:
    """They repeated where the image comes from and the tour of the first canary each time."""
    notes = _notes(helm, tmp_path, "--is-upgrade", "--api-versions", "rollouts.dev/v1alpha1/ClusterAnalysisTemplate")

    assert notes.strip().startswith("Rollouts is now ")
    assert len(notes.strip().splitlines()) == 4
    assert "make" not in notes


@pytest.mark.parametrize(
    ("chosen", "warned"),
    [
        ("image.repository=registry.example/rollouts", None),
        ("image.tag=v2", "No registry has this image"),
        ("crds.keep=false", "deletes the CRDs, and with them every Rollout"),
        ("watchNamespaces={shop}", "it drains pods for two minutes"),
        ("watchNamespaces={shop},proxyMode=ipvs", "No registry has this image"),
    ],
)
def test_the_notes_warn_of_what_was_chosen(helm: Path, tmp_path: Path, chosen: str, warned: str | None) -> None:
    """Somebody reads them once, at the right moment."""
    notes = _notes(helm, tmp_path, "--set", chosen)

    if warned is None:
        assert "make image" not in notes
    else:
        assert warned in notes
    assert ("two minutes" in notes) is ("watchNamespaces" in chosen and "proxyMode" not in chosen)


def test_environment_and_volumes_are_added_to_the_charts_own(helm: Path, tmp_path: Path) -> None:
    """A proxy, a cloud's credentials, a mounted certificate: each of them was a fork before."""
    chosen = {
        "env": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "extraVolumes": [{"name": "more", "configMap": {"name": "more"}}],
        "extraVolumeMounts": [{"name": "more", "mountPath": "/more", "readOnly": True}],
        "analysis": {"mounts": [{"name": "prom", "secret": "prom"}]},
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(chosen))

    documents = render(helm, "--values", str(tmp_path / "values.yaml"))

    pod = only(documents, "Deployment")["spec"]["template"]["spec"]
    assert container(documents)["env"] == chosen["env"]
    own = ["analysis-templates", "credentials-prom"]
    assert [each["name"] for each in pod["volumes"]] == [*own, "more"]
    assert [each["name"] for each in container(documents)["volumeMounts"]] == [*own, "more"]


@pytest.mark.parametrize(("keep", "policy"), [("true", "keep"), ("false", None)])
def test_crds_are_kept_by_default(helm: Path, keep: str, policy: str | None) -> None:
    """A CRD that goes takes every Rollout with it, and each Rollout its pods: an uninstall must not be an outage."""
    documents = render(helm, "--set", f"crds.keep={keep}")
    crds = [one for one in documents if one["kind"] == "CustomResourceDefinition"]

    kept = {one["metadata"].get("annotations", {}).get("helm.sh/resource-policy") for one in crds}
    assert len(crds) == len(list((CHART / "files" / "crds").glob("*.yaml")))
    assert kept == {policy}
    assert not [one for one in render(helm, "--set", "crds.enabled=false") if one in crds]


def test_alerts_ask_for_the_controllers_own_targets(helm: Path) -> None:
    """A rule without the job would sum up two releases; `up` without one would never be absent."""
    documents = render(helm, "--set", "metrics.prometheusRule.enabled=true,metrics.prometheusRule.labels.release=prom")
    rule = only(documents, "PrometheusRule")
    alerts = [each for group in rule["spec"]["groups"] for each in group["rules"]]

    assert rule["metadata"]["labels"]["release"] == "prom"
    service = only(documents, "Service")["metadata"]["name"]
    assert service == f"{RELEASE}-metrics"
    for alert in alerts:
        assert f'job="{service}", namespace="{RELEASE_NAMESPACE}"' in alert["expr"], alert["alert"]
        assert alert["labels"]["severity"] in {"critical", "warning", "info"}
        assert alert["annotations"].keys() == {"summary", "description"}


def test_each_alert_leads_to_its_part_of_the_page(helm: Path) -> None:
    """A Git host and a site have the page at different addresses, and nobody's is ours to know."""
    page = "https://git.example/rollouts/docs/alerts.md"
    chosen = f"metrics.prometheusRule.enabled=true,metrics.prometheusRule.runbookUrl={page}"

    (group,) = only(render(helm, "--set", chosen), "PrometheusRule")["spec"]["groups"]

    found = {each["alert"]: each["annotations"]["runbook_url"] for each in group["rules"]}
    assert found == {
        rule["alert"]: f"{page}#{rule['alert'].lower()}"
        for rule in yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    }


def test_series_by_rollout_are_for_the_administrator_to_ask_for(helm: Path) -> None:
    """Prometheus pays for them. The schema's bound is the flag's."""
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]["metrics"]["properties"]

    assert [arg for arg in container(render(helm))["args"] if "rollout-series" in arg] == []
    _, *flags = container(render(helm, "--set", "metrics.rolloutSeries=500"))["args"]
    assert _settings(flags).rollout_series == 500
    assert schema["rolloutSeries"]["maximum"] == ROLLOUT_SERIES_MAX


@pytest.mark.parametrize("file", [ALERTS, DASHBOARD], ids=lambda path: path.name)
def test_rules_and_panels_ask_for_metrics_that_the_controller_has(file: Path) -> None:
    """A metric that is renamed leaves an empty panel, and an alert that never comes."""
    registry = Telemetry()
    families = {
        line.split()[2] for line in registry.exposition().decode().splitlines() if line.startswith("# TYPE rollouts_")
    }
    asked = {name.removesuffix("_bucket") for name in re.findall(r"\brollouts_[a-z_]+\b", file.read_text())}

    assert len(asked) >= 4
    assert asked <= families


def test_the_dashboard_is_one_that_grafanas_sidecar_finds(helm: Path) -> None:
    """The ConfigMap carries the label that kube-prometheus-stack looks for, and the file as it is."""
    (config_map,) = named(render(helm, "--set", "metrics.dashboard.enabled=true"), "-dashboard")

    dashboard = json.loads(config_map["data"]["rollouts.json"])
    places = [(each["gridPos"]["x"], each["gridPos"]["y"]) for each in dashboard["panels"]]
    assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert dashboard == json.loads(DASHBOARD.read_text())
    assert len(places) == len(set(places)) == len({each["id"] for each in dashboard["panels"]})
    assert all(each["title"] and each["targets"] for each in dashboard["panels"])


def test_without_a_lease_two_controllers_never_run(helm: Path, tmp_path: Path) -> None:
    """`leaderElection: false` alone left two replicas, and an upgrade ran two: both would write."""
    refused = _template(helm, tmp_path, "template", RELEASE, str(CHART), "--set", "leaderElection=false")
    assert refused.returncode != 0 and "replicas is 2: set replicas to 1 too" in refused.stderr

    spec = only(render(helm, "--set", "leaderElection=false,replicas=1"), "Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert "strategy" not in only(render(helm), "Deployment")["spec"]
