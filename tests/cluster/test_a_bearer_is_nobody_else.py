"""Promise: a connection for whoever has a bearer token sends that token, and nothing else that the machine or the pod has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rollouts.cluster.connection import connector_of_bearers
from rollouts.cluster.target import AccessFlags, for_bearer, read_cluster
from rollouts.errors import SettingsInvalid
from rollouts.ports import Request
from rollouts.secret import Secret
from tests.certificates import write_certificate
from tests.cluster.test_connection import AGENT, echo, kubeconfig, serving

VERSION = Request("GET", "/version")


@pytest.mark.parametrize(
    "user",
    [
        {"token": "admins"},
        {"username": "admin", "password": "admins"},
        {"token": "admins", "as": "admin", "as-groups": ["system:masters"], "as-uid": "1"},
        {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/nowhere/admins"}},
    ],
)
async def test_the_token_takes_the_place_of_all_credentials(tmp_path: Path, user: dict[str, object]) -> None:
    """With one of the kubeconfig's own beside it, everybody who signs in would be its user."""
    async with serving(echo) as url:
        connect = await connector_of_bearers(kubeconfig=kubeconfig(tmp_path, url, user), context=None, user_agent=AGENT)
        for token in ("anna", "ben"):
            api = connect(Secret(token))
            try:
                headers = json.loads((await api.request(VERSION, deadline_s=5.0)).body)["headers"]
            finally:
                await api.aclose()
            assert headers["Authorization"] == f"Bearer {token}"
            assert "admin" not in str(headers)
            assert not [name for name in headers if name.lower().startswith("impersonate")]


async def test_a_client_certificate_is_left_out(tmp_path: Path) -> None:
    """The API server believes a certificate before it looks at a token."""
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    write_certificate(certificate, key, names="DNS:localhost")
    flags = AccessFlags(client_certificate=certificate, client_key=key)
    server = kubeconfig(tmp_path, "https://127.0.0.1:1", {})

    target = await read_cluster(kubeconfig=server, context=None, flags=flags)

    for configuration in (target.configuration, for_bearer(target, Secret("anna")).configuration):
        assert (configuration.cert_file, configuration.key_file) == (None, None)


async def test_a_pod_needs_only_the_authoritys_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that its account can have no token at all; what is missing is named."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(SettingsInvalid, match="kube-root-ca"):
        await read_cluster(kubeconfig=None, context=None, service_account=tmp_path)
    write_certificate(tmp_path / "ca.crt", tmp_path / "key", names="IP:fd00::1")

    target = await read_cluster(kubeconfig=None, context=None, service_account=tmp_path)

    assert target.configuration.host == "https://[fd00::1]:6443"
    assert target.configuration.ssl_ca_cert == str(tmp_path / "ca.crt")
    assert await target.credentials.authorization() is None
