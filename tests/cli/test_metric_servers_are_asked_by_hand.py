"""Promise: `rollouts analysis providers` tells of each metric server whether metrics may ask it, and what it answers."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.cli.commands.metric_providers import empty_question
from rollouts.core.analysis.recipes import RECIPES
from rollouts.metrics.requests import MetricEndpoint
from rollouts.metrics.sources import Question, question_to, window_of
from rollouts.objects import METRIC_PROVIDER, SECRET, Manifest
from tests import build
from tests.cli.command_line import CommandLine
from tests.cli.runs import Served
from tests.metrics.servers.fake import all_fakes
from tests.probes.servers import ok, raw, serving

TOKEN: dict[str, Any] = {"bearer": {"secretKeyRef": {"name": "keys", "key": "token"}}}
KEYS = build.manifest(SECRET, "keys", "rollouts-system", stringData={"token": "t0ken"})
VECTOR = ok({"status": "success", "data": {"resultType": "vector", "result": []}})


@pytest.fixture
def wide(typed: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """No cluster, and a wide terminal."""
    monkeypatch.setenv("COLUMNS", "200")
    return typed


def provider(name: str, url: str, *, ready: tuple[str, str, str] | None = None, **spec: Any) -> Manifest:
    """With the condition Ready: its status, reason and message."""
    made = build.manifest(METRIC_PROVIDER, name, None, spec={"url": url, **spec})
    if ready is not None:
        status, reason, message = ready
        made["status"] = {"conditions": [{"type": "Ready", "status": status, "reason": reason, "message": message}]}
    return made


def row(printed: str, name: str) -> str:
    """The line of that MetricProvider, and those that it is folded into, as one."""
    lines = printed.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith(f"{name} "))
    return " ".join(" ".join([lines[at], *(line for line in lines[at + 1 :] if line.startswith(" "))]).split())


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (VECTOR, 0, "it answers"),
        (raw(b"{}", status="400 Bad Request"), 0, "it is there, and an empty question is none to it"),
        (raw(b"", status="429 Too Many Requests"), 0, "wants to be asked less often"),
        (raw(b"", status="401 Unauthorized"), 1, "does not take the credentials"),
        (raw(b"", status="403 Forbidden"), 1, "does not take the credentials"),
        (raw(b"", status="404 Not Found"), 1, "look at the path of its URL, and at its type"),
        (raw(b"", status="302 Found", headers=["Location: /login"]), 1, "a redirect (302), which is not followed"),
        (raw(b"", status="503 Service Unavailable"), 1, "it fails"),
        (None, 1, "none:"),
    ],
    ids=["200", "400", "429", "401", "403", "404", "302", "503", "silence"],
)
async def test_what_a_server_answers_is_told(wide: CommandLine, answer: bytes | None, code: int, words: str) -> None:
    """One that is there is good, whatever it says of a question without a query; it gets its credentials."""
    async with serving({"/": answer}) as server:
        file = wide.file(provider("prom", server.url(), **TOKEN), KEYS)
        said = await wide.run("analysis", "providers", "-f", file, "--timeout", "1s", code=code)

    assert words in row(said.out, "prom")
    assert [each.headers["authorization"] for each in server.sent] == ["Bearer t0ken"]
    assert all(each.line.split()[1].startswith("/api/v1/query?query=vector%281%29") for each in server.sent)


async def test_one_that_cannot_be_asked_says_why(wide: CommandLine) -> None:
    """Nobody listens, a credential is elsewhere, or the declaration is wrong; the others are asked all the same."""
    mounted: dict[str, Any] = {"bearer": {"file": "/etc/rollouts/credentials/token"}}
    async with serving({"/": VECTOR}) as server:
        url = server.url()
        declared = [provider("good", url), provider("keyless", url, **TOKEN), provider("mounted", url, **mounted)]
        declared += [provider("wrong", url, type="graphite", recipe={}), provider("closed", "http://127.0.0.1:1")]
        said = await wide.run("analysis", "providers", "-f", wide.file(*declared), code=1)

    assert "200 in" in row(said.out, "good")
    assert "key token of Secret keys is not in the files" in row(said.out, "keyless")
    assert "is mounted for the controller alone" in row(said.out, "mounted")
    assert "`rollouts lint` says what is wrong with it" in row(said.out, "wrong")
    assert "none:" in row(said.out, "closed")
    assert said.out.startswith("NAME ") and said.err == "", "nothing of what a controller would log"


async def test_a_server_with_a_recipe_of_its_own_is_asked(wide: CommandLine) -> None:
    """The places that its metrics would fill are empty; what it says of that is what is told."""
    async with serving({"/": raw(b"{}", status="400 Bad Request")}) as server:
        made = provider("own", server.url(), recipe=all_fakes()["declared"].recipe)
        said = await wide.run("analysis", "providers", "-f", wide.file(made))

    assert "400 in" in row(said.out, "own")
    assert "it is there, and an empty question is none to it" in row(said.out, "own")
    assert [each.line.split()[1] for each in server.sent] == ["/api/infrastructure-monitoring/metrics"]


@pytest.mark.parametrize("kind", RECIPES)
def test_there_is_an_empty_question_for_each_kind_of_server(kind: str) -> None:
    """A new kind of server needs no line for it."""
    settings = tuple((setting.name, "1") for setting in RECIPES[kind].settings)
    endpoint = MetricEndpoint(url="https://it.example", declared=True, kind=kind, settings=settings)
    source = empty_question("it", endpoint)
    question = question_to(source, {"it": endpoint}, window_of(source, 1e9), anywhere=True)

    assert isinstance(question, Question) or not RECIPES[kind].exchanges


async def test_those_of_a_cluster_are_listed_and_asked_with_the_secrets_that_one_may_read(there: Served) -> None:
    """Without `--ask` nothing is sent, and no Secret is read."""
    ready = ("True", "EndpointReady", "metrics may ask it")
    missing = ("False", "CredentialsMissing", "there is no Secret keys")
    async with serving({"/": VECTOR}) as server:
        for each in (provider("good", server.url(), ready=ready, **TOKEN), provider("bad", "http://x", ready=missing)):
            await there.create(METRIC_PROVIDER, each)
        listed = await there.run("analysis", "providers", code=1)
        assert server.sent == []
        refused = await there.run("analysis", "providers", "--ask", code=1)
        assert server.sent == []
        await there.create(SECRET, {**KEYS, "metadata": {"name": "keys"}})
        asked = await there.run("analysis", "providers", "--ask", "--controller-namespace", "default", code=1)

    assert row(listed.out, "good").endswith("yes -")
    assert "CredentialsMissing: there is no Secret keys" in row(listed.out, "bad")
    assert "key token of Secret keys cannot be read" in row(refused.out, "good")
    assert "200 in" in row(asked.out, "good")
