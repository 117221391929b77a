"""The flags of kubectl that choose a cluster, a user and as whom we act: what they say comes before the kubeconfig."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from rollouts.cluster.connection import connect
from rollouts.cluster.target import AccessFlags
from rollouts.errors import ApiUnavailable, SettingsInvalid
from rollouts.secret import Secret
from tests.cluster.test_connection import AGENT, VERSION, certificates, connected, kubeconfig, serving

TOKEN = Secret("given")


async def headers(request: web.Request) -> web.Response:
    """Every header, also those that come twice."""
    return web.json_response([[name, value] for name, value in request.headers.items()])


async def sent(path: Path | None, **said: Any) -> dict[str, list[str]]:
    """The headers of a request with these flags."""
    async with connected(path, flags=AccessFlags(**said)) as connection:
        pairs: dict[str, list[str]] = {}
        for name, value in json.loads((await connection.request(VERSION, deadline_s=5)).body):
            pairs.setdefault(name, []).append(value)
        return pairs


@pytest.mark.parametrize(
    "user",
    [
        {"token": "file's"},
        {"tokenFile": "gone"},
        {"exec": {"command": "/bin/false"}},
        {"username": "a", "password": "b"},
    ],
)
async def test_a_given_token_is_used_alone(tmp_path: Path, user: dict[str, Any]) -> None:
    """A pipeline gives its own token; what the kubeconfig would sign in with is not even looked at."""
    async with serving(headers) as url:
        seen = await sent(kubeconfig(tmp_path, url, user), token=TOKEN)

    assert seen["Authorization"] == ["Bearer given"]


async def test_one_acts_as_another(tmp_path: Path) -> None:
    """Also by the kubeconfig's own `as`: without it we would act with more rights than the file says."""
    user = {"token": "x", "as": "bob", "as-groups": ["ops"], "as-user-extra": {"Reason": ["audit"]}}
    async with serving(headers) as url:
        path = kubeconfig(tmp_path, url, user)
        own = await sent(path)
        given = await sent(path, as_user="jane", as_groups=("dev", "view"), as_uid="7")

    assert (own["Impersonate-User"], own["Impersonate-Group"], own["Impersonate-Extra-reason"]) == (
        ["bob"],
        ["ops"],
        ["audit"],
    )
    assert (given["Impersonate-User"], given["Impersonate-Group"]) == (["jane"], ["dev", "view"])
    assert (given["Impersonate-Uid"], given["Authorization"]) == (["7"], ["Bearer x"])


async def test_a_group_without_a_user_is_refused(tmp_path: Path) -> None:
    """The API server takes it for a request of our own, with our own rights."""
    path = kubeconfig(tmp_path, "http://127.0.0.1:1", {"token": "x"})
    with pytest.raises(SettingsInvalid, match="name the user too: --as"):
        await connect(kubeconfig=path, context=None, flags=AccessFlags(as_groups=("dev",)), user_agent=AGENT)


async def test_a_server_needs_no_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--server` and `--token` are all that a job has; with a kubeconfig the rest of its context stays."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    async with serving(headers) as url:
        assert (await sent(None, server=url, token=TOKEN))["Authorization"] == ["Bearer given"]
        path = kubeconfig(tmp_path, "http://127.0.0.1:1", {"token": "file's"})
        async with connected(path, flags=AccessFlags(server=url)) as connection:
            assert connection.namespace == "shop"
            assert "file's" in (await connection.request(VERSION, deadline_s=5)).body.decode()


async def test_another_cluster_and_user_of_the_kubeconfig(tmp_path: Path) -> None:
    """`--cluster` and `--user` name entries of the file; one that is not there is named."""
    async with serving(headers) as url:
        path = kubeconfig(tmp_path, "http://127.0.0.1:1", {"token": "file's"})
        content = json.loads(path.read_text())
        content["clusters"].append({"name": "other", "cluster": {"server": url}})
        content["users"].append({"name": "robot", "user": {"token": "robot's"}})
        path.write_text(json.dumps(content))

        assert (await sent(path, cluster="other", user="robot"))["Authorization"] == ["Bearer robot's"]
        for said in ({"cluster": "x"}, {"user": "x"}):
            with pytest.raises(SettingsInvalid, match="name x in"):
                await connect(kubeconfig=path, context=None, flags=AccessFlags(**said), user_agent=AGENT)  # type: ignore[arg-type]


async def test_certificates_are_those_that_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are those of the folder where the command is typed, not of the kubeconfig."""

    async def who(request: web.Request) -> web.Response:
        assert request.transport is not None
        return web.json_response(bool(request.transport.get_extra_info("peercert")))

    tls, authority = certificates(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    async with serving(who, tls=tls) as url:
        path = kubeconfig(tmp_path / "elsewhere", url, {"token": "x"}, **{"certificate-authority-data": "bm9uZQ=="})
        trusted = AccessFlags(
            certificate_authority=Path(authority.name), client_certificate=Path("tls.crt"), client_key=Path("tls.key")
        )
        trusting = kubeconfig(tmp_path, url, {"token": "x"}, **{"insecure-skip-tls-verify": True})
        blind, silent = AccessFlags(insecure_skip_tls_verify=True), AccessFlags(token=TOKEN)
        for file, flags, certified in ((path, trusted, True), (path, blind, False), (trusting, silent, False)):
            async with connected(file, flags=flags) as connection:
                assert json.loads((await connection.request(VERSION, deadline_s=5)).body) is certified
        wrong = AccessFlags(certificate_authority=Path(authority.name), tls_server_name="elsewhere.example")
        async with connected(path, flags=wrong) as connection:
            with pytest.raises(ApiUnavailable, match=r"(?i)hostname|certificate"):
                await connection.request(VERSION, deadline_s=5)
