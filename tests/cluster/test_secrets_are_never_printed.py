"""No token, password or key is in a message, a log line, a status or a metric, however it came here and whatever fails."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from rollouts.cluster.connection import KubernetesConnection, connect
from rollouts.cluster.decoding import decode_config
from rollouts.cluster.secret_data import secret_data
from rollouts.errors import ApiUnavailable, RolloutsError, SettingsInvalid
from rollouts.ports import Request, Response
from rollouts.probes.named_planes import parse_data_planes, parse_url
from rollouts.secret import Secret, without_password
from tests.cluster.test_client import Script, client
from tests.cluster.test_connection import AGENT, connected, kubeconfig, plugin, serving

PLANTED = "hunter2-planted"
REQUEST = Request("GET", "/version")


def everything(exc: BaseException) -> str:
    """What anybody may print of an error: itself, its causes, its traceback without source lines, what it holds."""
    frames = "".join(traceback.format_exception(exc))
    return f"{exc!s} {exc!r} {exc.__cause__!r} {exc.__dict__} {frames}"


@pytest.mark.parametrize(
    "show", [str, repr, "{}".format, "{:>9}".format, lambda each: f"{each!s}{each!r}{[each]}", "%s".__mod__]
)
def test_a_secret_shows_as_stars(show: Callable[[Secret], str]) -> None:
    """Whatever prints it: an f-string, a logger, a dataclass that holds it."""
    assert PLANTED not in show(Secret(PLANTED))
    assert "***" in show(Secret(PLANTED))


def test_a_secret_is_not_written_down() -> None:
    """Neither json nor pickle nor a copy takes it along by mistake."""
    for write in (json.dumps, pickle.dumps, copy.copy, vars):
        with pytest.raises(TypeError):
            write(Secret(PLANTED))
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a").reveal() == "a"


@pytest.mark.parametrize("answer", [f'{{"data":{{"k":"{PLANTED}', f'{{"data":"{PLANTED}","metadata":3}}', PLANTED])
async def test_a_secret_that_cannot_be_read_is_not_shown(answer: str) -> None:
    """The error of any other object quotes the beginning of the answer."""
    with pytest.raises(ApiUnavailable) as refused:
        decode_config(answer.encode())
    with pytest.raises(ApiUnavailable) as unread:
        await secret_data(client(Script(Response(200, answer.encode()))), "shop", "prom")

    assert PLANTED not in everything(refused.value) + everything(unread.value)


async def test_the_values_of_a_secret_are_texts_without_the_line_break_of_an_editor() -> None:
    """One that is no text, as a binary file, is named and has no value."""
    data = {"token": base64.b64encode(b"t\r\n").decode(), "file": base64.b64encode(b"\xff").decode(), "odd": "?"}
    answer = Response(200, json.dumps({"data": data}).encode())

    found = await secret_data(client(Script(answer)), "shop", "prom")

    assert found == {"token": Secret("t"), "file": None, "odd": None}
    assert await secret_data(client(Script(Response(200, b"{}"))), "shop", "prom") == {}


def test_the_content_of_a_secret_is_not_in_its_text() -> None:
    """Somebody may log the struct."""
    content = decode_config(b'{"metadata":{"name":"s"},"data":{"k":"%b"}}' % PLANTED.encode())

    assert PLANTED in bytes(content.data).decode()
    assert PLANTED not in f"{content!r} {content}"


@pytest.mark.parametrize(
    "url",
    [
        f"socks5://user:{PLANTED}@proxy:1080",
        f"user:{PLANTED}@proxy:3128",
        f"ftp://{PLANTED}@proxy",
        f"//user:{PLANTED}@proxy:3128",
        f"socks5://user:a@b{PLANTED}@proxy:1080",
        f"socks5://user:{PLANTED}/x@proxy:1080",
    ],
)
async def test_a_proxy_that_cannot_be_used_is_named_without_its_password(tmp_path: Path, url: str) -> None:
    """The address is what the administrator must mend; the password went into logs."""
    path = kubeconfig(tmp_path, "https://127.0.0.1:1", {"token": "t"}, **{"proxy-url": url})

    with pytest.raises(SettingsInvalid, match="proxy") as refused:
        await connect(kubeconfig=path, context=None, user_agent=AGENT)

    assert PLANTED not in everything(refused.value)
    assert PLANTED not in without_password(url)


async def test_a_proxy_gets_its_password_and_no_message_does(tmp_path: Path) -> None:
    """Refusals of the proxy, and one that is not there, are told by its address."""
    heads: list[str] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    listener = await asyncio.start_server(proxy, "127.0.0.1", 0)
    async with listener:
        with_password = f"http://user:{PLANTED}@127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        for server in ("http://api.example:80", "https://api.example:443"):
            path = kubeconfig(tmp_path, server, {"token": "t"}, **{"proxy-url": with_password})
            messages = await messages_of(path)
            assert PLANTED not in messages
            assert "127.0.0.1" in messages or "407" in messages
        gone = kubeconfig(tmp_path, "https://api.example", {}, **{"proxy-url": f"http://user:{PLANTED}@127.0.0.1:1"})
        assert PLANTED not in await messages_of(gone)

    password = base64.b64encode(f"user:{PLANTED}".encode()).decode()
    assert [head.split(" ")[0] for head in heads] == ["GET", "CONNECT"]
    assert all(f"Proxy-Authorization: Basic {password}\r\n" in head for head in heads)


async def messages_of(path: Path) -> str:
    """All that is said when a request fails or succeeds, and what the connection's parts look like."""
    try:
        async with connected(path) as connection:
            try:
                said = str(await connection.request(REQUEST, deadline_s=5))
            except RolloutsError as exc:
                said = everything(exc)
    except SettingsInvalid as exc:
        return everything(exc)
    return said + looks(connection)


def looks(connection: KubernetesConnection) -> str:
    credentials = connection._credentials
    return f"{connection!r} {connection._target!r} {credentials!r} {vars(credentials)}"


BROKEN_PLUGINS = {
    "fails and tells its token": f"echo {PLANTED} >&2; echo {PLANTED}; exit 3",
    "prints a token alone": f"echo {PLANTED}",
    "prints another version": f'echo \'{{"apiVersion":"{PLANTED}","status":{{"token":"{PLANTED}"}}}}\'',
    "prints a token for a time": (
        'echo \'{"apiVersion":"client.authentication.k8s.io/v1",'
        f'"status":{{"token":"{PLANTED}","expirationTimestamp":"{PLANTED}"}}}}\''
    ),
    "prints a status that is none": f'echo \'{{"apiVersion":"client.authentication.k8s.io/v1","status":"{PLANTED}"}}\'',
    "never ends its output": f"yes {PLANTED}",
    "nests": "head -c 9000 /dev/zero | tr '\\0' '['",
}


@pytest.mark.parametrize("script", BROKEN_PLUGINS.values(), ids=BROKEN_PLUGINS)
async def test_a_plugins_words_are_not_repeated(tmp_path: Path, script: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Debug output of a credential plugin is made of credentials; how it ended is told, and that it can be run by hand."""
    path = kubeconfig(tmp_path, "http://127.0.0.1:1", plugin(tmp_path, token="t"))
    (tmp_path / "plugin").write_text(f"#!/bin/sh\n{script}\n")
    async with connected(path) as connection:
        with pytest.raises(ApiUnavailable, match="credential plugin") as failed:
            await connection.request(REQUEST, deadline_s=10)
        assert PLANTED not in everything(failed.value)
    assert capfd.readouterr() == ("", "")


USERS: dict[str, dict[str, Any]] = {
    "a token": {"token": PLANTED},
    "a password": {"username": "u", "password": PLANTED},
    "a token with an end of line in it": {"token": f"{PLANTED}\n{PLANTED}"},
    "a certificate that is none": {f"client-{each}-data": "aHVudGVyMi1wbGFudGVk" for each in ("certificate", "key")},
    "a token file": {"tokenFile": "token"},
    "a token file in another encoding": {"tokenFile": "latin"},
}


@pytest.mark.parametrize("user", USERS.values(), ids=USERS)
async def test_what_a_kubeconfig_holds_is_not_repeated(tmp_path: Path, user: dict[str, Any]) -> None:
    """Whether the server answers, refuses or is not there."""
    (tmp_path / "token").write_text(PLANTED)
    (tmp_path / "latin").write_bytes(PLANTED.encode() + b"\xe9")

    async def refuses(_request: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "message": "no"}, status=401)

    async with serving(refuses) as url:
        for server in (url, "http://127.0.0.1:1"):
            assert PLANTED not in await messages_of(kubeconfig(tmp_path, server, user))


@pytest.mark.parametrize("content", ["users: [{{name: u, user: {{token: {0}", "token: '{0}", "users: {0}", "\t{0}: ["])
async def test_a_broken_kubeconfig_is_not_quoted(tmp_path: Path, content: str) -> None:
    """A parser shows the line that it stumbles over; that may be the one with the token."""
    path = tmp_path / "kubeconfig"
    path.write_text(content.format(PLANTED))

    with pytest.raises(SettingsInvalid) as refused:
        await connect(kubeconfig=path, context=None, user_agent=AGENT)

    assert PLANTED not in f"{refused.value!s} {refused.value!r}"


def test_a_flags_password_is_not_repeated() -> None:
    """A URL with a password is refused, as what asks data planes sends none; the refusal goes to the Pod's log."""
    for parse in (
        lambda: parse_url("--prometheus-url", f"http://u:{PLANTED}@prometheus:9090"),
        lambda: parse_data_planes([f"shop/web=envoy:http://u:{PLANTED}@admin:19000"]),
        lambda: parse_data_planes([f"shop/web=envoi:http://u:{PLANTED}@admin:19000"]),
    ):
        with pytest.raises(SettingsInvalid) as refused:
            parse()
        assert PLANTED not in everything(refused.value)
