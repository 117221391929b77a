"""Flags become frozen settings, or one sentence that names the flag and the remedy."""

from __future__ import annotations

import subprocess
import sys
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from rollouts.controller.command import _settings
from rollouts.errors import SettingsInvalid
from rollouts.settings import Address, MetricSettings, Settings, parse_address, parse_metric_settings, parse_settings


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8080", Address("", 8080)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("[::1]:9", Address("::1", 9)),
        ("0", None),
        ("", None),
    ],
)
def test_a_metrics_address_is_host_and_port_or_nothing(text: str, address: Address | None) -> None:
    """The form that other controllers take, so that charts can pass it on."""
    assert parse_address(text) == address


@pytest.mark.parametrize(
    ("flags", "flag"),
    [
        ({"kubeconfig": "/no/such/file"}, "--kubeconfig"),
        ({"namespaces": ["Shop"]}, "--namespace"),
        ({"lease_namespace": "a b"}, "--lease-namespace"),
        ({"metrics_address": "8080"}, "--metrics-address"),
        ({"metrics_address": ":99999"}, "--metrics-address"),
        ({"health_address": "8081"}, "--health-address"),
        ({"log_format": "xml"}, "--log-format"),
        ({"log_level": "loud"}, "--log-level"),
        ({"workers": 0}, "--workers"),
        ({"rollout_series": -1}, "--rollout-series"),
        ({"rollout_series": 10_001}, "--rollout-series"),
        ({"proxy_mode": "userspace"}, "--proxy-mode"),
        ({"drain_queries": "all"}, "--drain-queries"),
        ({"config_versioning": "On"}, "--config-versioning"),
    ],
)
def test_a_flag_that_cannot_be_used_is_named(flags: dict[str, Any], flag: str) -> None:
    """The administrator reads one line in a crash-looping Pod's log."""
    with pytest.raises(SettingsInvalid, match=f"^{flag}: "):
        parse_settings(**flags)


def test_two_processes_in_one_pod_have_different_identities() -> None:
    """A container that restarts must not take itself for the process that held the lease before."""
    assert Settings().identity != Settings().identity


def test_the_controller_command_refuses_bad_flags_without_the_terminal_tools() -> None:
    """Exit code 2 and one line; typer and rich are an optional extra that a controller image may lack."""
    program = (
        "import gc, sys; sys.argv = ['rollouts', 'controller', '--log-format', 'xml']\n"
        "from rollouts.__main__ import main\n"
        "code = main()\n"
        "loaded = [name for name in ('typer', 'rich.console', 'httpx', 'prometheus_api_client') if name in sys.modules]\n"
        "assert not loaded, loaded\n"
        "assert gc.isenabled(), 'it was off while modules were imported'\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)

    assert done.returncode == 2, done.stderr
    assert done.stderr == "rollouts controller: --log-format: 'xml' is neither json nor console\n"


@pytest.mark.parametrize(
    ("flags", "flag"),
    [
        ({"credentials": "metrics"}, "--metrics-credentials"),
        ({"tenant_hosts": ["https://a.example"]}, "--tenant-metrics"),
        ({"tenant_hosts": ["a.*"]}, "--tenant-metrics"),
        ({"tenant_hosts": ["*"], "tenant_ports": [0]}, "--tenant-metrics-port"),
        ({"tenant_ports": [9090]}, "--tenant-metrics"),
        ({"tenant_http": True}, "--tenant-metrics"),
        ({"refused_networks": ["10.0.0.1/8"]}, "--metrics-refused-network"),
        ({"job_service_account": "A"}, "--job-service-account"),
        ({"job_service_account": "default"}, "--job-service-account"),
        ({"at_once": 0}, "--measurements"),
    ],
)
def test_a_flag_about_metrics_that_cannot_be_used_is_named(flags: dict[str, Any], flag: str) -> None:
    """Here too: what analyses may ask is not to be guessed."""
    with pytest.raises(SettingsInvalid, match=f"^{flag}: "):
        parse_metric_settings(**flags)


def test_nothing_is_open_to_templates_by_default() -> None:
    """No host of theirs, no Job; and with a host, HTTPS on its own port alone."""
    closed, opened = parse_metric_settings(), parse_metric_settings(tenant_hosts=["*.example"])

    assert (closed.tenant_hosts, closed.jobs, closed.refused_networks) == ((), False, ())
    assert (opened.tenant_ports, opened.tenant_http) == ((443,), False)


def test_flags_about_metrics_become_settings() -> None:
    """Every one of them, as the chart passes them."""
    arguments = ["--metrics-ca", "/ca.pem", "--metrics-credentials", "/run/metrics", "--tenant-metrics", "*.example"]
    arguments += ["--tenant-metrics-port", "9090", "--tenant-metrics-http"]
    arguments += ["--metrics-refused-network", "203.0.113.0/24"]
    arguments += ["--job-metrics", "--job-service-account", "jobs", "--measurements", "9"]

    assert _settings(arguments).metrics == MetricSettings(
        ca_file=Path("/ca.pem"),
        credentials=Path("/run/metrics"),
        tenant_hosts=("*.example",),
        tenant_ports=(9090,),
        tenant_http=True,
        refused_networks=(ip_network("203.0.113.0/24"),),
        jobs=True,
        job_service_account="jobs",
        at_once=9,
    )
