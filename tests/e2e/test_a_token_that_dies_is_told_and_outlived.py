"""A token that the API server refuses is told by all that tells of the controller, and its successor is used within seconds."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.controllers import confined_controller
from tests.e2e.manifests import canary
from tests.e2e.stage import Stage, current
from tests.lab.chart import RELEASE, RELEASE_NAMESPACE
from tests.lab.control_plane import ControlPlane
from tests.lab.loopback import wait_for
from tests.lab.processes import free_ports

pytestmark = pytest.mark.controlplane

DIES_WITHIN_S = 30.0
"""The API server keeps an accepted token for 10 s: apiserver, pkg/server/options/authentication, TokenSuccessCacheTTL."""
TOLD_WITHIN_S, DONE_WITHIN_S = 5.0, 15


def bound_token(plane: ControlPlane, secret: str) -> str:
    """A token of the chart's account that lives as long as that Secret, which it makes."""
    made = plane.api.post(f"/api/v1/namespaces/{RELEASE_NAMESPACE}/secrets", json={"metadata": {"name": secret}})
    uid = made.raise_for_status().json()["metadata"]["uid"]
    to = {"apiVersion": "v1", "kind": "Secret", "name": secret, "uid": uid}
    path = f"/api/v1/namespaces/{RELEASE_NAMESPACE}/serviceaccounts/{RELEASE}/token"
    answer = plane.api.post(path, json={"spec": {"expirationSeconds": 3_600, "boundObjectRef": to}})
    return str(answer.raise_for_status().json()["status"]["token"])


def with_token_file(kubeconfig: Path, token: Path, *, into: Path) -> Path:
    """The kubeconfig, with the token that is in a file: as a pod has it."""
    found = json.loads(kubeconfig.read_text())
    found["users"][0]["user"] = {"tokenFile": str(token)}
    into.write_text(json.dumps(found))
    return into


def until(asked: Callable[[], httpx.Response], code: int, *, within_s: float) -> str:
    """Asks until the answer has that code; its text."""

    def answered() -> httpx.Response | None:
        return answer if (answer := asked()).status_code == code else None

    return wait_for(answered, f"an answer of {code}", within_s=within_s).text


@pytest.fixture
def own(control_plane: ControlPlane, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The name of a Secret, and a file with the token that is bound to it."""
    name = f"bound-{tmp_path.name[-20:].strip('_').lower().replace('_', '-')}"
    file = tmp_path / "token"
    file.write_text(bound_token(control_plane, name))
    yield name, file
    control_plane.api.delete(f"/api/v1/namespaces/{RELEASE_NAMESPACE}/secrets/{name}")


def test_a_dead_token_is_told_and_its_successor_is_used_in_seconds(
    control_plane: ControlPlane, controller_kubeconfig: Path, own: tuple[str, Path], tmp_path: Path
) -> None:
    """It took a minute, and /readyz was 200 all the while. The same process goes on with the update that came meanwhile."""
    secret, file = own
    kubeconfig = with_token_file(controller_kubeconfig, file, into=tmp_path / "kubeconfig")
    health, metrics = (f"127.0.0.1:{port}" for port in free_ports(2))
    namespace = control_plane.new_namespace()
    stage = Stage(control_plane, namespace)
    flags = (f"--health-address={health}", f"--metrics-address={metrics}")
    with (
        confined_controller(control_plane, kubeconfig, namespace, leader_elect=False, flags=flags) as controller,
        httpx.Client(timeout=5.0, trust_env=False) as client,
    ):
        first = stage.rolled_out(canary("web", replicas=1, steps=[]))
        assert client.get(f"http://{health}/readyz").status_code == 200

        token = {"Authorization": f"Bearer {file.read_text()}"}
        control_plane.api.delete(f"/api/v1/namespaces/{RELEASE_NAMESPACE}/secrets/{secret}").raise_for_status()
        pods = f"/api/v1/namespaces/{namespace}/pods"
        until(lambda: control_plane.api.get(pods, headers=token), 401, within_s=DIES_WITHIN_S)
        stage.set_image("web", "web:2")
        said = until(lambda: client.get(f"http://{health}/readyz"), 503, within_s=TOLD_WITHIN_S)
        assert "(401)" in said
        assert "token file" in said
        assert "rollouts_credentials_refused 1.0" in client.get(f"http://{metrics}/metrics").text
        assert [each["level"] for each in controller.log_lines() if each["event"] == "credentials_refused"] == ["error"]
        assert current(stage.get("rollouts", "web")) == first

        file.write_text(bound_token(control_plane, f"{secret}-next"))
        began_s = time.monotonic()
        changed = stage.until("rollouts", "web", lambda one: current(one) != first, within_s=DONE_WITHIN_S)
        second = current(changed)
        stage.until_pods("web", {second: 1}, within_s=DONE_WITHIN_S)
        assert time.monotonic() - began_s < DONE_WITHIN_S
        until(lambda: client.get(f"http://{health}/readyz"), 200, within_s=TOLD_WITHIN_S)
        assert "rollouts_credentials_refused 0.0" in client.get(f"http://{metrics}/metrics").text
        assert len([each for each in controller.log_lines() if each["event"] == "credentials_accepted"]) == 1
        control_plane.end_in(namespace)
