"""Promise: what a credential plugin prints is used whole, certificate and token, or refused with what is wrong and none of it."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from rollouts.errors import ApiUnavailable
from tests.certificates import write_certificate
from tests.cluster.test_connection import VERSION, certificates, connected, kubeconfig, serving

V1 = "client.authentication.k8s.io/v1"
MARK = "MARKER-of-the-credential"


def _plugin(folder: Path, printed: str) -> dict[str, Any]:
    """A kubeconfig user whose plugin prints that text; the next run prints what the file has by then."""
    (folder / "printed").write_text(printed)
    script = folder / "plugin"
    script.write_text(f"#!/bin/sh\ncat '{folder}/printed'\n")
    script.chmod(0o755)
    return {"exec": {"apiVersion": V1, "command": "./plugin"}}


def _credential(**status: Any) -> str:
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})


def _certified(folder: Path, name: str) -> dict[str, str]:
    """A certificate of that name, as a plugin prints it."""
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    write_certificate(certificate, key, names=f"DNS:{name}.example")
    return {"clientCertificateData": certificate.read_text(), "clientKeyData": key.read_text()}


async def _who(request: web.Request) -> web.Response:
    """The names in the client's certificate, and its token."""
    assert request.transport is not None
    peer = request.transport.get_extra_info("peercert") or {}
    names = [name for _, name in peer.get("subjectAltName", ())]
    return web.json_response({"names": names, "token": request.headers.get("Authorization")})


async def test_a_plugins_certificate_is_shown_and_a_new_one_takes_its_place(tmp_path: Path) -> None:
    """Without a token, too. The key is in no file once the request is sent."""
    tls, authority = certificates(tmp_path)
    first, second = (_certified(tmp_path, name) for name in ("first", "second"))
    for each in (first, second):
        tls.load_verify_locations(cadata=each["clientCertificateData"])
    over = "2020-01-01T00:00:00Z"  # so the plugin runs for each request
    user = _plugin(tmp_path, _credential(**first, expirationTimestamp=over))
    async with serving(_who, tls=tls) as url:
        path = kubeconfig(tmp_path, url, user, **{"certificate-authority": str(authority)})
        async with connected(path) as connection:
            seen = []
            for printed in (first, {**second, "token": "t"}):
                (tmp_path / "printed").write_text(_credential(**printed, expirationTimestamp=over))
                seen.append(json.loads((await connection.request(VERSION, deadline_s=5)).body))

    assert seen == [
        {"names": ["first.example"], "token": None},
        {"names": ["second.example"], "token": "Bearer t"},
    ]


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        (MARK, "it is not such a JSON object (JSONDecodeError)"),
        (json.dumps([MARK]), "it is not such a JSON object (TypeError)"),
        (json.dumps({"apiVersion": V1, "status": MARK}), "it is not such a JSON object (AttributeError)"),
        (json.dumps({"apiVersion": V1, "token": MARK}), "it has no 'status'"),
        (json.dumps({"status": {"token": MARK}}), "it has no 'apiVersion'"),
        (_credential(clientCertificateData=MARK), "it has no 'clientKeyData'"),
        (json.dumps({"apiVersion": MARK, "status": {"token": MARK}}), f"its apiVersion is not {V1}"),
        (_credential(token="", text=MARK), "it has neither a token nor a client certificate"),
        (_credential(token=MARK, expirationTimestamp="soon"), "its expirationTimestamp is not an RFC 3339 time"),
        (_credential(token=MARK, expirationTimestamp=7), "its expirationTimestamp is not an RFC 3339 time"),
    ],
)
async def test_what_a_plugin_must_not_print_is_named_and_not_repeated(printed: str, why: str, tmp_path: Path) -> None:
    """It may hold a token; whoever runs the plugin by hand sees it."""
    async with connected(kubeconfig(tmp_path, "http://127.0.0.1:9", _plugin(tmp_path, printed))) as connection:
        with pytest.raises(ApiUnavailable) as refused:
            await connection.request(VERSION, deadline_s=5)

    assert str(refused.value).endswith(f"plugin printed no usable ExecCredential: {why}")
    assert MARK not in str(refused.value)


async def test_a_token_is_renewed_in_the_last_part_of_its_life(tmp_path: Path) -> None:
    """Earlier, each request would run a program; later, requests would wait for it."""
    expires = (datetime.now(UTC) + timedelta(seconds=1_000)).isoformat()
    user = _plugin(tmp_path, _credential(token="t", expirationTimestamp=expires))
    async with serving(_who) as url, connected(kubeconfig(tmp_path, url, user)) as connection:
        await connection.request(VERSION, deadline_s=5)
        credentials: Any = connection._credentials
        due_in_s = credentials._renew_at_s - asyncio.get_running_loop().time()

    assert 700 < due_in_s < 900
