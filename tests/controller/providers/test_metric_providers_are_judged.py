"""Promise: a MetricProvider says by itself whether metrics may ask it, new credentials are taken up, and nobody prints them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollouts.api.schema import crd_manifests
from rollouts.metrics.google_key import SCOPES
from rollouts.metrics.requests import Basic, Bearer, ClientCredentials, MetricEndpoint, ServiceAccount
from rollouts.objects import METRIC_PROVIDER
from rollouts.ports import MERGE_PATCH, Request
from rollouts.secret import Secret
from tests.controller.door import refusal
from tests.controller.providers.metric_world import KEY, NAMESPACE, TOKEN, URL, Running
from tests.probes.google_accounts import key_file

pytestmark = pytest.mark.virtual_time(limit_s=4_000)

LOGIN = "https://login.example"
OAUTH = {"tokenUrl": LOGIN, "clientId": "me", "clientSecret": KEY}
(ITS_CRD,) = (each for each in crd_manifests() if each["spec"]["names"]["kind"] == METRIC_PROVIDER.kind)
OTHERS = [each for each in crd_manifests() if each != ITS_CRD]


async def test_one_that_needs_no_credentials_is_ready(running: Running) -> None:
    """Nothing else is asked of the cluster."""
    running.provider(headers=[{"name": "X-Scope-OrgID", "value": "shop"}], tls={"serverName": "prom.internal"})
    await asyncio.sleep(2)
    assert running.said() == ("True", "EndpointReady", "metrics may ask it")
    assert running.condition(kind="Stalled")["status"] == "False"
    wanted = MetricEndpoint(
        url=URL, declared=True, headers=(("X-Scope-OrgID", Secret("shop")),), server_name="prom.internal"
    )
    assert dict(running.providers.declared()) == {"prom": wanted}
    asked = len(running.door.asked)
    await asyncio.sleep(250)
    assert len(running.door.asked) == asked
    assert running.door.count("secrets") == 0


@pytest.mark.parametrize(
    ("spec", "credentials"),
    [
        ({"basic": {"username": "me", "password": KEY}}, Basic("me", Secret(TOKEN))),
        ({"bearer": KEY}, Bearer(Secret(TOKEN))),
        ({"oauth2": {**OAUTH, "scopes": ["a"]}}, ClientCredentials(LOGIN, "me", Secret(TOKEN), ("a",), declared=True)),
        ({"headers": [{"name": "X-Key", "valueFrom": KEY}]}, None),
    ],
)
async def test_credentials_come_from_a_secret(spec: dict[str, Any], credentials: Any, running: Running) -> None:
    """One GET by name, of the controller's own namespace; the value is in no status and in no log."""
    running.secret(token=f"{TOKEN}\n")
    running.provider(**spec)
    await asyncio.sleep(2)
    assert running.said()[:2] == ("True", "EndpointReady")
    endpoint = running.providers.declared()["prom"]
    assert endpoint.credentials == credentials
    if credentials is None:
        assert endpoint.headers == (("X-Key", Secret(TOKEN)),)
    assert running.door.count("secrets") == running.door.count(f"/namespaces/{NAMESPACE}/secrets/prom") == 1
    assert TOKEN not in f"{endpoint!r}{running.cluster.get(METRIC_PROVIDER, '', 'prom')}"


async def test_a_key_file_of_google_is_taken_as_a_whole(running: Running) -> None:
    """Over several lines; another text is refused where people look, and no part of it is told."""
    key = key_file("https://oauth2.googleapis.com/token")
    running.secret(token=key)
    running.provider(google={"key": KEY})
    await asyncio.sleep(2)
    assert running.said()[:2] == ("True", "EndpointReady")
    assert running.providers.declared()["prom"].credentials == ServiceAccount(Secret(key), SCOPES)

    running.secret(token=TOKEN)
    await asyncio.sleep(400)

    status, reason, message = running.said()
    assert (status, reason) == ("False", "CredentialsMissing")
    assert "key token of Secret prom is no key file" in message
    assert TOKEN not in message
    assert "PRIVATE" not in str(running.cluster.get(METRIC_PROVIDER, "", "prom"))


async def test_credentials_come_from_files(tmp_path: Path, running: Running) -> None:
    """A mounted Secret, with the links that kubelet makes; nothing is asked of the API server."""
    (tmp_path / "..data_1").mkdir()
    (tmp_path / "..data_1" / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "..data").symlink_to("..data_1")
    (tmp_path / "token").symlink_to("..data/token")
    running.provider(bearer={"file": str(tmp_path / "token")})
    await asyncio.sleep(2)
    assert running.said()[0] == "True"
    assert running.providers.declared()["prom"].credentials == Bearer(Secret(TOKEN))
    assert running.door.count("secrets") == 0


def _files(folder: Path) -> dict[str, str]:
    """Files that are no credentials, by what is wrong with them."""
    outside = folder.parent / "outside"
    outside.write_text(TOKEN)
    (folder / "out").symlink_to(outside)
    (folder / "folder").mkdir()
    (folder / "empty").write_text("\n")
    (folder / "lines").write_text(f"{TOKEN}\n{TOKEN}")
    (folder / "bytes").write_bytes(b"\xff\xfe")
    (folder / "large").write_text("a" * 9_000)
    (folder / "circle").symlink_to(folder / "circle")
    return {
        "none": "there is no file",
        "out": "leads out of",
        "folder": "is no file",
        "empty": "is empty",
        "lines": "must be one line",
        "bytes": "is no text",
        "large": "has more than 8192 characters",
        "circle": "cannot be read",
    }


async def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, running: Running) -> None:
    """And nothing outside of the folder is read, whatever its links say: who declares a server gets what is sent to it."""
    words = _files(tmp_path)
    for name in words:
        running.provider(name, bearer={"file": str(tmp_path / name)})
    await asyncio.sleep(2)
    for name, told in words.items():
        status, reason, message = running.said(name)
        assert (status, reason) == ("False", "CredentialsMissing"), name
        assert told in message, (name, message)
        assert TOKEN not in message
    assert running.providers.declared() == {}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"url": "prom:9090"}, "spec.url: the URL must be"),
        ({"url": "https://me:word@prom"}, "spec.url: the URL must be"),
        ({"url": "https://prom/?a=b"}, "spec.url: must have no query"),
        ({"url": "https://prom:99999"}, "spec.url: the URL's port"),
        ({"url": "http://prom", "tls": {"serverName": "a"}}, "spec.tls: means nothing"),
        ({"tls": {"insecureSkipVerify": True, "serverName": "a"}}, "spec.tls.insecureSkipVerify"),
        ({"basic": {"username": "a:b", "password": KEY}}, "spec.basic.username: must have no ':'"),
        ({"bearer": {"file": "/etc/passwd"}}, "file /etc/passwd must be below"),
        ({"bearer": {"file": "/FOLDER/../../etc/passwd"}}, "must be below"),
        ({"tls": {"caFile": "/etc/ssl/cert.pem"}}, "must be below"),
        ({"headers": [{"name": "a b", "value": "c"}]}, "spec.headers[0]: its key is no name of a header"),
        ({"headers": [{"name": "Host", "value": "c"}]}, "spec.headers[0]: it is not for a metric to set"),
        ({"headers": [{"name": "A", "value": "c\nd"}]}, "spec.headers[0]: its value has a line break"),
        ({"bearer": KEY, "headers": [{"name": "authorization", "value": "c"}]}, "Authorization is what"),
        ({"oauth2": {**OAUTH, "tokenUrl": "login"}}, "spec.oauth2.tokenUrl: the URL must be"),
    ],
)
async def test_a_bad_one_says_what_is_wrong(spec: dict[str, Any], words: str, tmp_path: Path, running: Running) -> None:
    """With the path, as the API server would say it; metrics do not ask it."""
    text = json.dumps(spec).replace("/FOLDER", str(tmp_path))
    running.provider(**json.loads(text))
    await asyncio.sleep(2)
    status, reason, message = running.said()
    assert (status, reason) == ("False", "InvalidSpec")
    assert words in message
    assert running.condition(kind="Stalled")["status"] == "True"
    assert running.providers.declared() == {}
    assert running.door.count("secrets") == 0


@pytest.mark.parametrize(("prometheus_url", "url"), [("http://prom:9090", "http://prom:9090"), ("", "https://other")])
async def test_the_flag_is_the_endpoint_default(prometheus_url: str, url: str, running: Running) -> None:
    """A MetricProvider of that name would take it over; without the flag it is one like any other."""
    running.provider("default", url="https://other")
    await asyncio.sleep(2)
    assert ("metadata.name: default is the name" in running.said("default")[2]) is bool(prometheus_url)
    assert {name: each.url for name, each in running.providers.declared().items()} == {"default": url}


async def test_a_secret_that_is_missing_is_found_when_it_comes_and_missed_when_it_goes(running: Running) -> None:
    """In which order things are installed is nobody's business; what was taken away is not used for more than five minutes."""
    running.provider(bearer=KEY)
    await asyncio.sleep(2)
    assert running.said() == ("False", "CredentialsMissing", "there is no Secret prom in namespace rollouts")
    assert "prom is not Ready: there is no Secret" in running.providers.why_not("prom")
    running.secret(other="a")
    await asyncio.sleep(20)
    assert running.said()[2] == "Secret prom in namespace rollouts has no key token"
    running.secret(token=TOKEN)
    await asyncio.sleep(20)
    assert running.said()[0] == "True"
    assert running.providers.why_not("prom") == ""
    running.delete_secret()
    await asyncio.sleep(310)
    assert running.said()[:2] == ("False", "CredentialsMissing")
    assert running.providers.declared() == {}


async def test_a_forbidden_secret_says_which_right_is_missing(running: Running) -> None:
    """The chart's value, or the Role."""
    running.door.answers = lambda asked: refusal(403, "Forbidden") if "/secrets/" in asked.path else None
    running.secret(token=TOKEN)
    running.provider(bearer=KEY)
    await asyncio.sleep(2)
    status, reason, message = running.said()
    assert (status, reason) == ("False", "CredentialsMissing")
    assert "resources: [secrets], resourceNames: [prom], verbs: [get]" in message
    assert "analysis.secrets" in message


async def test_an_api_server_that_does_not_answer_takes_nothing_away(running: Running) -> None:
    """What was read before still holds; what was never read is tried again."""
    running.secret(token=TOKEN)
    running.provider("old", bearer=KEY)
    await asyncio.sleep(2)
    running.door.answers = lambda asked: refusal(503, "ServiceUnavailable") if "/secrets/" in asked.path else None
    running.provider("new", bearer=KEY)
    await asyncio.sleep(400)
    assert (running.said("old")[0], running.said("new")[0]) == ("True", "False")
    assert list(running.providers.declared()) == ["old"]
    running.door.answers = lambda _: None
    await asyncio.sleep(40)
    assert list(running.providers.declared()) == ["new", "old"]


async def test_idle_costs_one_reading_in_five_minutes(running: Running) -> None:
    """Of each Secret, however many of its keys are named."""
    running.secret(token=TOKEN, other="a")
    other = {"secretKeyRef": {"name": "prom", "key": "other"}}
    running.provider(bearer=KEY, headers=[{"name": "X-A", "valueFrom": other}])
    await asyncio.sleep(2)
    before = running.door.count("/secrets/")
    await asyncio.sleep(1_500)
    assert before == 1
    assert running.door.count("/secrets/") - before == 5
    assert running.door.count("/status", "PATCH") == 1


@pytest.mark.parametrize("leads", [False], ids=["a standby"])
async def test_a_standby_reads_no_secret(running: Running) -> None:
    """It measures nothing. As soon as it leads it reads them, and says when all are read."""
    running.secret(token=TOKEN)
    running.provider(bearer=KEY)
    await asyncio.sleep(400)
    assert running.door.count("secrets") == 0
    assert running.providers.declared() == {}
    running.lead()
    began_s = running.cluster.clock.monotonic_s()
    await running.providers.wait_known(60)
    assert running.cluster.clock.monotonic_s() - began_s < 5
    assert list(running.providers.declared()) == ["prom"]


async def test_a_changed_declaration_is_asked_as_before_until_it_is_read(running: Running) -> None:
    """No measurement falls into a gap; what is wrong then is not asked any more."""
    running.secret(token=TOKEN)
    running.provider(bearer=KEY)
    await asyncio.sleep(2)
    seen: list[str] = []
    running.provider(bearer=KEY, url="https://moved")
    for _ in range(300):
        seen += [each.url for each in running.providers.declared().values()]
        await asyncio.sleep(0.01)
    assert len(seen) == 300
    assert set(seen) == {URL, "https://moved"}
    running.provider(bearer=KEY, url="nothing")
    await asyncio.sleep(1)
    assert running.providers.declared() == {}
    assert running.cluster.api.answer(Request("DELETE", METRIC_PROVIDER.path(None, "prom"))).status == 200
    await asyncio.sleep(1)
    assert running.providers.why_not("prom") == "", "there is none"


@pytest.mark.parametrize("prometheus_url", ["http://prom:9090"])
@pytest.mark.parametrize(
    ("crds", "may_watch"), [(crd_manifests(), False), (OTHERS, True)], ids=["may not be watched", "no such kind"]
)
async def test_without_the_kind_the_flag_still_works_and_nobody_keeps_asking(may_watch: bool, running: Running) -> None:
    """The kind is looked for only while something is measured."""
    await asyncio.sleep(2)
    await running.providers.wait_known(0.1)
    before = running.door.count(METRIC_PROVIDER.plural)
    await asyncio.sleep(600)
    assert running.door.count(METRIC_PROVIDER.plural) == before
    assert list(running.providers.declared()) == ["default"]
    running.door.answers = lambda _: None
    if may_watch:
        running.cluster.apply(ITS_CRD)
    running.provider()
    await asyncio.sleep(130)
    assert list(running.providers.declared()) == ["default", "prom"]


async def test_a_status_that_somebody_writes_over_is_put_right(running: Running) -> None:
    """It is the controller's."""
    running.provider()
    await asyncio.sleep(2)
    body = msgspec.json.encode({"status": {"conditions": []}})
    path = METRIC_PROVIDER.path(None, "prom", "status")
    assert running.cluster.api.answer(Request("PATCH", path, {}, body, MERGE_PATCH)).status == 200
    await asyncio.sleep(2)
    assert running.said()[0] == "True"
