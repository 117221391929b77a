"""A connection authenticates as the kubeconfig or the pod says, keeps doing so, and never waits longer than it was told."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import ssl
import tempfile
import threading
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from rollouts.clock import SystemClock
from rollouts.cluster.client import Client
from rollouts.cluster.connection import PIECE_BYTES, KubernetesConnection, connect
from rollouts.cluster.credentials import TokenFile
from rollouts.errors import ApiUnavailable, NotLeader, SettingsInvalid
from rollouts.objects import SERVICE
from rollouts.ports import MERGE_PATCH, METADATA_LIST, ApiServer, Request
from rollouts.secret import Secret
from tests.certificates import write_certificate

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
AGENT = "rollouts/test"
VERSION = Request("GET", "/version")


async def echo(request: web.Request) -> web.Response:
    body = (await request.read()).decode()
    return web.json_response({"headers": dict(request.headers), "path": request.raw_path, "body": body})


@asynccontextmanager
async def serving(handler: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """An HTTP server on loopback; gives its URL."""
    app = web.Application(client_max_size=4 * 2**20)
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


def kubeconfig(folder: Path, server: str, user: dict[str, Any], **cluster: Any) -> Path:
    """A kubeconfig with one context; JSON is YAML."""
    path = folder / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(content))
    return path


@asynccontextmanager
async def connected(path: Path | None, **options: Any) -> AsyncIterator[KubernetesConnection]:
    connection = await connect(kubeconfig=path, context=None, user_agent=AGENT, **options)
    try:
        yield connection
    finally:
        await connection.aclose()


async def authorization(connection: ApiServer) -> str | None:
    answer = await connection.request(VERSION, deadline_s=5)
    header: str | None = json.loads(answer.body)["headers"].get("Authorization")
    return header


async def test_a_request_carries_what_the_api_server_needs_and_no_more(tmp_path: Path) -> None:
    """gzip costs CPU in the cluster, a curl-like agent gets pretty print, and selectors must arrive unharmed."""
    async with serving(echo) as url, connected(kubeconfig(tmp_path, url, {"token": "abc"})) as connection:
        request = Request("PATCH", "/api/v1/x", {"labelSelector": "a in (b,c),!d"}, b"{}", MERGE_PATCH)
        answer = await connection.request(request, deadline_s=5)
        seen = json.loads(answer.body)

    assert answer.status == 200
    assert seen["path"] == "/api/v1/x?labelSelector=a+in+%28b%2Cc%29%2C%21d"
    assert seen["body"] == "{}"
    assert seen["headers"]["Accept-Encoding"] == "identity"
    assert seen["headers"]["User-Agent"] == AGENT
    assert seen["headers"]["Content-Type"] == MERGE_PATCH
    assert seen["headers"]["Authorization"] == "Bearer abc"
    assert connection.namespace == "shop"


async def test_the_slash_at_the_end_of_a_servers_url_is_not_part_of_a_path(tmp_path: Path) -> None:
    """Some kubeconfigs have one; kube-apiserver answers `//version` with a redirect, which is not followed."""

    async def path_of(request: web.Request) -> web.Response:
        return web.json_response(request.raw_path)

    async with serving(path_of) as url, connected(kubeconfig(tmp_path, f"{url}/", {"token": "abc"})) as connection:
        answer = await connection.request(VERSION, deadline_s=5)

    assert json.loads(answer.body) == "/version"


async def test_a_request_says_what_it_accepts(tmp_path: Path) -> None:
    """JSON, or only the metadata of what it asks for."""
    async with serving(echo) as url, connected(kubeconfig(tmp_path, url, {})) as connection:
        answers = [
            await connection.request(request, deadline_s=5)
            for request in (VERSION, Request("GET", "/api/v1/configmaps", accept=METADATA_LIST))
        ]

    assert [json.loads(answer.body)["headers"]["Accept"] for answer in answers] == ["application/json", METADATA_LIST]


@pytest.mark.parametrize("size", [PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES])
async def test_a_long_body_is_sent_as_a_short_one(tmp_path: Path, size: int) -> None:
    """A copy of the largest ConfigMap: with its length, in pieces, and again when the server asks for other credentials."""
    bodies: list[tuple[str | None, bytes]] = []

    async def refuse_once(request: web.Request) -> web.Response:
        bodies.append((request.headers.get("Content-Length"), await request.read()))
        token.write_text("new")
        return web.json_response({}, status=401 if len(bodies) == 1 else 200)

    token = tmp_path / "token"
    token.write_text("old")
    user = {"tokenFile": str(token)}
    async with serving(refuse_once) as url, connected(kubeconfig(tmp_path, url, user)) as connection:
        body = bytes(size)
        request = Request("POST", "/api/v1/namespaces/shop/configmaps", {}, body)
        answer = await connection.request(request, deadline_s=5)

    assert answer.status == 200
    assert bodies == [(str(size), body)] * 2


@pytest.mark.parametrize(("size", "lost_before"), [(1, 2), (PIECE_BYTES + 1, 2), (PIECE_BYTES + 1, 3)])
async def test_the_fence_is_asked_again_as_bytes_are_sent(tmp_path: Path, size: int, lost_before: int) -> None:
    """A leader that is stopped during a TLS handshake comes back with a write that passed the fence long ago."""
    arrived: list[bytes] = []

    async def keep(request: web.Request) -> web.Response:
        with suppress(ConnectionResetError):
            arrived.append((await request.read())[:1])
        return web.json_response({})

    asks: Iterator[bool] = iter(())
    async with serving(keep) as url, connected(kubeconfig(tmp_path, url, {})) as connection:
        client = Client(connection, clock=SystemClock(), may_write=lambda: next(asks, False), request_deadline_s=5)
        for forbidden, allowed in (b"12", b"34"):  # on a new connection, and on one of the pool
            asks = repeat(True, lost_before - 1)
            with pytest.raises(NotLeader, match="not sent"):
                await client.patch(SERVICE, "shop", "cart", bytes([forbidden]) * size, MERGE_PATCH)
            asks = repeat(True)
            await client.patch(SERVICE, "shop", "cart", bytes([allowed]) * size, MERGE_PATCH)

    assert arrived == [b"2", b"4"]


async def test_a_token_file_is_read_again_when_the_server_refuses_the_token(tmp_path: Path) -> None:
    """The token was rotated within the minute: the refused request had no effect and is repeated once."""

    async def picky(request: web.Request) -> web.StreamResponse:
        if request.headers["Authorization"] != "Bearer new":
            return web.json_response({"kind": "Status"}, status=401)
        return await echo(request)

    token = tmp_path / "token"
    token.write_text("old\n")
    async with serving(picky) as url, connected(kubeconfig(tmp_path, url, {"tokenFile": "token"})) as connection:
        assert (await connection.request(VERSION, deadline_s=5)).status == 401
        token.write_text("new\n")
        assert await authorization(connection) == "Bearer new"


@pytest.mark.virtual_time
async def test_a_token_file_is_read_again_once_a_minute(tmp_path: Path) -> None:
    """A rotated token must be in use before the old one expires; a file that is gone for a moment must not stop us."""
    path = tmp_path / "token"
    path.write_text("one")
    tokens = TokenFile(path)
    assert await tokens.authorization() == Secret("Bearer one")
    path.write_text("two")
    assert await tokens.authorization() == Secret("Bearer one")
    await asyncio.sleep(60)
    assert await tokens.authorization() == Secret("Bearer two")
    path.unlink()
    await asyncio.sleep(60)
    assert await tokens.authorization() == Secret("Bearer two")


@pytest.mark.parametrize(
    ("content", "says"), [(None, "cannot read the token file"), (b"\xff", "not UTF-8"), (b"\n", "is empty")]
)
async def test_a_token_file_that_cannot_be_used_is_named(tmp_path: Path, content: bytes | None, says: str) -> None:
    """Without a token from before there is nothing to go on with."""
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    with pytest.raises(ApiUnavailable, match=says):
        await TokenFile(tmp_path / "token").authorization()


async def test_a_pod_uses_its_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a cluster there is no kubeconfig, and no folder that can be written; the token there rotates, too."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    tls, authority = certificates(tmp_path)
    (tmp_path / "ca.crt").write_bytes(authority.read_bytes())
    (tmp_path / "token").write_text("pod-token")
    (tmp_path / "namespace").write_text("rollouts-system\n")
    async with serving(echo, tls=tls) as url:
        host, port = url.removeprefix("https://").split(":")
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
        async with connected(None, service_account=tmp_path) as connection:
            assert connection.namespace == "rollouts-system"
            assert await authorization(connection) == "Bearer pod-token"
            (tmp_path / "token").write_text("rotated")
            await connection._credentials.renew()
            assert await authorization(connection) == "Bearer rotated"
        (tmp_path / "namespace").unlink()
        async with connected(None, service_account=tmp_path) as connection:
            assert connection.namespace == "default"


def certificates(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's TLS context for 127.0.0.1 that asks for client certificates, and the self-signed certificate to trust."""
    certificate, key = folder / "tls.crt", folder / "tls.key"
    write_certificate(certificate, key, names="IP:127.0.0.1")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    tls.load_verify_locations(certificate)
    tls.verify_mode = ssl.CERT_OPTIONAL
    return tls, certificate


async def test_client_certificates_and_authorities_are_used(tmp_path: Path) -> None:
    """kubeadm's and kind's kubeconfigs authenticate by certificate."""

    async def who(request: web.Request) -> web.Response:
        assert request.transport is not None
        peer = request.transport.get_extra_info("peercert") or {}
        return web.json_response({"certified": bool(peer)})

    tls, authority = certificates(tmp_path)
    user = {"client-certificate": "tls.crt", "client-key": "tls.key"}
    async with serving(who, tls=tls) as url:
        path = kubeconfig(tmp_path, url, user, **{"certificate-authority": str(authority)})
        async with connected(path) as connection:
            assert json.loads((await connection.request(VERSION, deadline_s=5)).body) == {"certified": True}


async def test_an_unknown_authority_is_refused_unless_told_otherwise(tmp_path: Path) -> None:
    """Skipping verification is the administrator's decision, never ours."""
    tls, _ = certificates(tmp_path)
    async with serving(echo, tls=tls) as url:
        async with connected(kubeconfig(tmp_path, url, {"token": "abc"})) as connection:
            with pytest.raises(ApiUnavailable, match=r"(?i)certificate"):
                await connection.request(VERSION, deadline_s=5)
        path = kubeconfig(tmp_path, url, {"token": "abc"}, **{"insecure-skip-tls-verify": True})
        async with connected(path) as connection:
            assert await authorization(connection) == "Bearer abc"


def plugin(folder: Path, **status: Any) -> dict[str, Any]:
    """A kubeconfig user with a credential plugin that counts its runs in its token."""
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    script = folder / "plugin"
    script.write_text(f"#!/bin/sh\necho run >> '{folder}/runs'\nN=$(wc -l < '{folder}/runs')\n")
    with script.open("a") as file:
        file.write(f"echo '{json.dumps(credential)}' | sed s/COUNT/$N/\n")
    script.chmod(0o755)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "args": ["token"]}}


async def test_a_plugins_token_is_used_by_many_requests_and_renewed_before_it_expires(tmp_path: Path) -> None:
    """EKS, GKE and AKS tokens last minutes; a plugin run costs a second and more."""
    expires = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    user = plugin(tmp_path, token="t-COUNT", expirationTimestamp=expires)
    async with serving(echo) as url, connected(kubeconfig(tmp_path, url, user)) as connection:
        assert await asyncio.gather(*[authorization(connection) for _ in range(5)]) == ["Bearer t-1"] * 5
        credentials: Any = connection._credentials
        credentials._renew_at_s = 0.0  # close to its end, and still good
        assert await authorization(connection) == "Bearer t-1"
        await credentials._run
        assert await authorization(connection) == "Bearer t-2"


async def test_a_plugins_token_that_has_expired_is_waited_for(tmp_path: Path) -> None:
    """An expired token would only bring 401s."""
    user = plugin(tmp_path, token="t-COUNT", expirationTimestamp="2020-01-01T00:00:00Z")
    async with serving(echo) as url, connected(kubeconfig(tmp_path, url, user)) as connection:
        assert await authorization(connection) == "Bearer t-1"
        assert await authorization(connection) == "Bearer t-2"


async def test_a_failing_plugin_is_an_outage_that_says_why(tmp_path: Path) -> None:
    """Its own words may hold what it was given, so they are for who runs it by hand; which program, and how it ended, are not."""
    user = plugin(tmp_path, token="t")
    (tmp_path / "plugin").write_text("#!/bin/sh\necho please log in >&2\nexit 3\n")
    async with serving(echo) as url, connected(kubeconfig(tmp_path, url, user)) as connection:
        with pytest.raises(ApiUnavailable, match=r"plugin .*plugin failed with exit code 3; run it by hand"):
            await connection.request(VERSION, deadline_s=5)
        (tmp_path / "plugin").unlink()
        with pytest.raises(ApiUnavailable, match=r"cannot run the credential plugin .*plugin: No such file"):
            await connection.request(VERSION, deadline_s=5)


async def test_no_answer_is_waited_for_beyond_the_deadline(tmp_path: Path) -> None:
    """The library's own default is to wait for ever."""

    async def never(request: web.Request) -> web.Response:
        await asyncio.sleep(5)
        return web.Response()

    async with serving(never) as url, connected(kubeconfig(tmp_path, url, {"token": "abc"})) as connection:
        with pytest.raises(ApiUnavailable, match="no answer"):
            await connection.request(VERSION, deadline_s=0.1)
        with pytest.raises(ApiUnavailable, match="no answer"):
            await connection.open_watch(VERSION, deadline_s=0.1, silence_s=5)


async def test_errors_come_with_their_body_and_their_patience(tmp_path: Path) -> None:
    """429 names a time in seconds or as a date (RFC 9110, 10.2.3), counted from the server's own Date; nonsense names none."""
    server_s = "Wed, 21 Oct 2026 07:27:30 GMT"
    dates = (f"Wed, 21 Oct 2026 {time} GMT" for time in ("07:28:00", "07:00:00"))
    asked = iter(["7", *dates, "-1", "soon", "1.5", "\u0663"])

    async def busy(request: web.Request) -> web.Response:
        headers = {"Retry-After": next(asked), "Date": server_s}
        return web.json_response({"kind": "Status"}, status=429, headers=headers)

    async with serving(busy) as url, connected(kubeconfig(tmp_path, url, {"token": "abc"})) as connection:
        answers = [await connection.request(VERSION, deadline_s=5) for _ in range(7)]

    assert [answer.status for answer in answers] == [429] * 7
    assert [answer.retry_after_s for answer in answers] == [7.0, 30.0, 0.0, None, None, None, None]
    assert json.loads(answers[0].body) == {"kind": "Status"}


async def test_a_cut_off_answer_and_a_refused_connection_are_outages(tmp_path: Path) -> None:
    """Half an answer must never be taken for a small one."""

    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"half":')
        assert request.transport is not None
        request.transport.abort()
        return response

    async with serving(cut) as url, connected(kubeconfig(tmp_path, url, {"token": "abc"})) as connection:
        with pytest.raises(ApiUnavailable):
            await connection.request(VERSION, deadline_s=5)
    async with connected(kubeconfig(tmp_path, url, {"token": "abc"})) as connection:
        with pytest.raises(ApiUnavailable):
            await connection.request(VERSION, deadline_s=5)
        with pytest.raises(ApiUnavailable, match=r"GET /version: .*onnect"):
            await connection.open_watch(VERSION, deadline_s=5, silence_s=5)


async def test_a_watch_gives_lines_until_its_end_and_notices_silence(tmp_path: Path) -> None:
    """A line may be larger than aiohttp's default buffer; silence for too long means a dead peer."""
    large = b"x" * 1_500_000 + b"\n"

    async def events(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(large + b"two\n")
        if "quiet" in request.path:
            await asyncio.sleep(5)
        return response

    async with serving(events) as url, connected(kubeconfig(tmp_path, url, {"token": "abc"})) as connection:
        watch = await connection.open_watch(Request("GET", "/api/v1/pods"), deadline_s=5, silence_s=5)
        assert [await watch.readline() for _ in range(3)] == [large, b"two\n", b""]
        await watch.aclose()
        await watch.aclose()
        watch = await connection.open_watch(Request("GET", "/quiet"), deadline_s=5, silence_s=0.2)
        assert [await watch.readline() for _ in range(2)] == [large, b"two\n"]
        with pytest.raises(ApiUnavailable, match="silent"):
            await watch.readline()
        await watch.aclose()


def test_a_watch_that_is_closed_waits_for_no_goodbye(tmp_path: Path) -> None:
    """A server may never answer TLS's close_notify; the socket is closed at once all the same."""
    tls, authority = certificates(tmp_path)

    def served(listening: socket.socket, ends: threading.Event) -> None:
        with listening.accept()[0] as raw, tls.wrap_socket(raw, server_side=True) as one:
            assert one.recv(65_536).startswith(b"GET /api/v1/pods")
            one.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n")
            assert ends.wait(20)

    async def watched(path: Path) -> None:
        async with connected(path) as connection:
            watch = await connection.open_watch(Request("GET", "/api/v1/pods"), deadline_s=5, silence_s=5)
            assert await watch.readline() == b"one\n"
            await watch.aclose()

    ends = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        server = threading.Thread(target=served, args=(listening, ends))
        server.start()
        url = f"https://127.0.0.1:{listening.getsockname()[1]}"
        try:
            asyncio.run(watched(kubeconfig(tmp_path, url, {}, **{"certificate-authority": str(authority)})))
            gc.collect()
        finally:
            ends.set()
            server.join()

    assert [str(each.message) for each in told if each.category is ResourceWarning] == []


NAMED = "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]"
UNUSABLE = ("", "a: [", "[]", "a: &a [*a]", 'a: !!bool "abc"', 'a: !!int ""', 'a: "\\UFFFFFFFF"')


@pytest.mark.parametrize(
    ("content", "says"),
    [
        *((content, "cannot be used") for content in UNUSABLE),
        ("a: 1\nb: [", "kubeconfig cannot be used: line 2: expected the node content"),
        ("[" * 5000, "kubeconfig cannot be used: it is nested too deeply"),
        ("current-context: x\ncontexts: []", "name x"),
        (f"{NAMED}\nclusters: [{{name: c, cluster: {{server: 'a:1'}}}}]", "must begin with"),
    ],
)
async def test_a_broken_kubeconfig_is_named_with_what_is_wrong(tmp_path: Path, content: str, says: str) -> None:
    """A stack trace from inside a library is no message for an administrator."""
    path = tmp_path / "kubeconfig"
    path.write_text(content)

    with pytest.raises(SettingsInvalid, match=says):
        await connect(kubeconfig=path, context=None, user_agent=AGENT)


async def test_a_missing_kubeconfig_or_context_says_what_to_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every way to a cluster is named when none is there."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(SettingsInvalid, match="--kubeconfig"):
        await connect(kubeconfig=None, context=None, user_agent=AGENT)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "neither"))
    with pytest.raises(SettingsInvalid, match="KUBECONFIG names only files that do not exist"):
        await connect(kubeconfig=None, context=None, user_agent=AGENT)
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    with pytest.raises(SettingsInvalid, match="automountServiceAccountToken"):
        await connect(kubeconfig=None, context=None, user_agent=AGENT, service_account=tmp_path / "none")
    with pytest.raises(SettingsInvalid, match="does not exist"):
        await connect(kubeconfig=tmp_path / "nowhere", context=None, user_agent=AGENT)
    path = kubeconfig(tmp_path, "http://127.0.0.1:1", {"token": "abc"})
    with pytest.raises(SettingsInvalid, match="context there"):
        await connect(kubeconfig=path, context="there", user_agent=AGENT)


async def test_the_kubeconfig_of_the_environment_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As kubectl does."""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, "http://127.0.0.1:1", {"token": "abc"})))
    async with connected(None) as connection:
        assert connection.namespace == "shop"
