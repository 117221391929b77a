"""Flags become frozen settings, or one sentence that names the flag and the remedy."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from rollouts.errors import SettingsInvalid
from rollouts.settings import Address, Settings, parse_address, parse_settings


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
        ({"log_format": "xml"}, "--log-format"),
        ({"log_level": "loud"}, "--log-level"),
        ({"workers": 0}, "--workers"),
        ({"proxy_mode": "userspace"}, "--proxy-mode"),
        ({"drain_queries": "all"}, "--drain-queries"),
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
        "import sys; sys.argv = ['rollouts', 'controller', '--log-format', 'xml']\n"
        "from rollouts.__main__ import main\n"
        "code = main()\n"
        "loaded = [name for name in ('typer', 'rich.console', 'httpx', 'prometheus_api_client') if name in sys.modules]\n"
        "assert not loaded, loaded\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)

    assert done.returncode == 2, done.stderr
    assert done.stderr == "rollouts controller: --log-format: 'xml' is neither json nor console\n"
