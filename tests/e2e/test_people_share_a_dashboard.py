"""Promise: on a real API server, whoever signs in to a shared dashboard sees and does what their own token may."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path

import httpx
import pytest

from rollouts.objects import Manifest
from tests.build import granted
from tests.e2e.manifests import GATE, canary
from tests.e2e.stage import Stage
from tests.lab.control_plane import ControlPlane
from tests.lab.loopback import wait_for

pytestmark = pytest.mark.controlplane

FORGOTTEN_WITHIN_S = 40.0
"""The API server keeps an accepted token for 10 s, and the dashboard asks again after 10 s."""
STOPS_WITHIN_S = 10.0
READS: tuple[Manifest, ...] = (
    {"apiGroups": ["rollouts.dev"], "resources": ["rollouts", "analysisruns"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["get", "list", "watch"]},
)
GIVES: Manifest = {"apiGroups": ["rollouts.dev"], "resources": ["rollouts"], "verbs": ["patch"]}


@pytest.fixture
def program(control_plane: ControlPlane, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """One that runs for the whole test."""
    with started(control_plane, tmp_path) as running:
        yield running


@contextmanager
def started(
    plane: ControlPlane, home: Path, *more: str, auth: str = "token", port: int = 0
) -> Iterator[subprocess.Popen[str]]:
    """One that has the API server's address and authority and no credentials, as the chart's pod; SIGTERM stops it."""
    where = ("--server", plane.url, "--certificate-authority", str(plane.certificate))
    words = ("dashboard", "--auth", auth, "--address", "127.0.0.1", "-p", str(port), *where, *more)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    with subprocess.Popen(
        [sys.executable, "-m", "rollouts", *words], env=environment, stdout=subprocess.PIPE, text=True
    ) as running:
        try:
            yield running
            running.send_signal(signal.SIGTERM)
            assert running.wait(STOPS_WITHIN_S) == 0
        finally:
            running.kill()


@pytest.fixture
def dashboard(program: subprocess.Popen[str]) -> str:
    """Its address."""
    return address_of(program)


def address_of(program: subprocess.Popen[str]) -> str:
    """Where it serves, as soon as it does."""
    assert program.stdout is not None
    return program.stdout.readline().split()[-1].replace("localhost", "127.0.0.1")


def token_for(stage: Stage, account: str, *rules: Manifest, audience: str = "") -> str:
    """A token of a new service account with these rights in the namespace; it ends with a Secret of that name.

    Args:
        audience: whom it is for; "" for the API server.
    """
    plane, below = stage.plane, f"/api/v1/namespaces/{stage.namespace}"
    plane.api.post(f"{below}/serviceaccounts", json={"metadata": {"name": account}}).raise_for_status()
    subject = {"kind": "ServiceAccount", "name": account, "namespace": stage.namespace}
    plane.apply(*granted(account, stage.namespace, rules, to=subject))
    made = plane.api.post(f"{below}/secrets", json={"metadata": {"name": account}}).raise_for_status().json()
    bound = {"apiVersion": "v1", "kind": "Secret", "name": account, "uid": made["metadata"]["uid"]}
    wanted = {"expirationSeconds": 600, "boundObjectRef": bound, **({"audiences": [audience]} if audience else {})}
    answer = plane.api.post(f"{below}/serviceaccounts/{account}/token", json={"spec": wanted})
    return str(answer.raise_for_status().json()["status"]["token"])


@contextmanager
def signed_in(url: str, token: str) -> Iterator[httpx.Client]:
    """A browser without a screen, whose forms are sent by the dashboard's own pages."""
    with httpx.Client(base_url=url, headers={"Origin": url}, timeout=20.0, trust_env=False) as client:
        answer = client.post("/login", data={"token": token, "next": "/"})
        assert answer.status_code == 303, answer.text
        assert token not in str(answer.headers)
        yield client


def form_of(client: httpx.Client, path: str) -> dict[str, str]:
    """The fields of the form of an act."""
    page = client.get(path).raise_for_status().text.partition("<main")[2]
    return {name: unescape(value) for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page)}


def test_each_sees_and_does_what_their_token_may(
    control_plane: ControlPlane, stage: Stage, namespace: str, dashboard: str
) -> None:
    """A tenant's namespace alone; a promotion with the right and none without; and the token's end is the session's."""
    stage.rolled_out(canary("web", replicas=1, steps=[{"setWeight": 50}, {"pause": {}}]))
    stage.gated("web", "web:2", step=GATE)
    promote = f"/r/{stage.namespace}/web/promote"
    reader, releaser = token_for(stage, "reader", *READS), token_for(stage, "releaser", *READS, GIVES)
    stranger = token_for(Stage(control_plane, namespace), "stranger", *READS)
    for token in ("Bearer nothing", token_for(stage, "elsewhere", *READS, GIVES, audience="https://vault.example")):
        refused = httpx.post(f"{dashboard}/login", data={"token": token}, headers={"Origin": dashboard})
        assert (refused.status_code, "set-cookie" in refused.headers) == (401, False)

    with signed_in(dashboard, stranger) as client:
        assert f"in namespace {namespace}" in client.get("/").text
        for path in (f"/?ns={stage.namespace}", f"/r/{stage.namespace}/web", f"/r/{stage.namespace}/none", promote):
            answer = client.get(path)
            assert (answer.status_code, "web:2" in answer.text) == (403, False), path
    with signed_in(dashboard, reader) as client:
        assert f'id="{stage.namespace}/web"' in client.get("/").text
        assert f"You may not patch rollouts in namespace {stage.namespace}" in client.get(promote).text
        assert client.post(promote, data=form_of(client, promote)).status_code == 403
        assert not stage.get("rollouts", "web")["metadata"].get("annotations", {}).get("rollouts.dev/promote")
        control_plane.api.delete(f"/api/v1/namespaces/{stage.namespace}/secrets/reader").raise_for_status()
        ended = wait_for(
            lambda: answer if (answer := client.get("/")).status_code == 401 else None,
            "the end of the session",
            within_s=FORGOTTEN_WITHIN_S,
        )
        assert "Your token has expired, or was withdrawn." in ended.text
    with signed_in(dashboard, releaser) as client:
        answer = client.post(promote, data=form_of(client, promote))
        assert answer.status_code == 303
        assert "the controller has recorded the command" in client.get(answer.headers["location"]).text
    stage.wait_ready("web")

    events = [each for each in control_plane.audit_events() if each.get("userAgent") == "rollouts-cli"]
    of = {
        f"system:serviceaccount:{each['user']['username'].split(':')[2]}:{each['user']['username'].split(':')[3]}"
        for each in events
        if each["verb"] == "patch"
        and each["responseStatus"]["code"] == 200
        and each["objectRef"]["namespace"] == stage.namespace
    }
    assert of == {f"system:serviceaccount:{stage.namespace}:releaser"}


def test_it_stops_at_once_while_people_look(
    program: subprocess.Popen[str], dashboard: str, control_plane: ControlPlane, namespace: str
) -> None:
    """A pod that is evicted takes its live pages along, and is not waited for."""
    token = token_for(Stage(control_plane, namespace), "reader", *READS)
    with signed_in(dashboard, token) as client, client.stream("GET", "/events") as stream:
        texts = stream.iter_text()
        assert "event: page" in next(texts)
        program.send_signal(signal.SIGTERM)
        assert program.wait(STOPS_WITHIN_S) == 0
        assert not [text for text in texts if "event: page" in text]
