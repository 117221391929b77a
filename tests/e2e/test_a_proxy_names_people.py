"""Promise: on a real API server, behind a proxy, each act and each read is the person's own, by the rights of the chart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from rollouts.objects import Manifest
from tests.build import granted
from tests.e2e.manifests import GATE, canary
from tests.e2e.stage import Stage
from tests.e2e.test_people_share_a_dashboard import GIVES, READS, address_of, form_of, started, token_for
from tests.lab.chart import RBAC_GROUP, render
from tests.lab.control_plane import ControlPlane

pytestmark = pytest.mark.controlplane

SECRET = "0123456789abcdef" * 2
ALICE, BOB, EVE = "alice@example.com", "bob@example.com", "eve@example.com"


@pytest.fixture
def groups(stage: Stage) -> tuple[str, str]:
    """Who may read in the namespace, and who may give commands too."""
    named = (f"{stage.namespace} readers", f"{stage.namespace}-releasers")
    for group, role, rules in zip(named, ("readers", "releasers"), (READS, (*READS, GIVES)), strict=True):
        subject = {"kind": "Group", "name": group, "apiGroup": RBAC_GROUP}
        stage.plane.apply(*granted(role, stage.namespace, rules, to=subject))
    return named


@pytest.fixture
def account(stage: Stage, groups: tuple[str, str], lab_programs: Path) -> Iterator[str]:
    """The token of the dashboard's account, with the rules of the chart and no others."""
    plane, name = stage.plane, f"dashboard-{stage.namespace}"
    chosen = {
        "auth": '"proxy"',
        "proxy.secretName": '"x"',
        "proxy.groups": f'["{groups[0]}","{groups[1]}"]',
        "enabled": "true",
    }
    words = [word for key, value in chosen.items() for word in ("--set-json", f"dashboard.{key}={value}")]
    (role,) = [
        one
        for one in render(lab_programs / "helm", *words)
        if (one["kind"], one["metadata"]["name"]) == ("ClusterRole", "rollouts-dashboard")
    ]
    token = token_for(stage, "dashboard")
    subject = {"kind": "ServiceAccount", "name": "dashboard", "namespace": stage.namespace}
    binding: Manifest = {
        "apiVersion": role["apiVersion"],
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": name},
        "subjects": [subject],
    }
    plane.apply({**role, "metadata": {"name": name}}, binding)
    yield token
    for plural in ("clusterrolebindings", "clusterroles"):
        plane.api.delete(f"/apis/{RBAC_GROUP}/v1/{plural}/{name}").raise_for_status()


@pytest.fixture
def dashboard(control_plane: ControlPlane, account: str, groups: tuple[str, str], tmp_path: Path) -> Iterator[str]:
    """Its address, for the proxy."""
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    allowed = [f"--allow-group={group}" for group in groups]
    words = ("--token", account, "--proxy-secret", str(secret), *allowed)
    with started(control_plane, tmp_path, *words, auth="proxy") as program:
        yield address_of(program)


@contextmanager
def behind_proxy(url: str, user: str, *groups: str) -> Iterator[httpx.Client]:
    """Somebody's browser without a screen, behind a proxy that knows them."""
    said = {"X-Rollouts-Proxy-Secret": SECRET, "X-Forwarded-User": user, "X-Forwarded-Groups": ",".join(groups)}
    with httpx.Client(base_url=url, headers={"Origin": url, **said}, timeout=20.0, trust_env=False) as client:
        yield client


def test_each_act_and_each_read_is_the_persons_own(
    control_plane: ControlPlane, stage: Stage, dashboard: str, groups: tuple[str, str]
) -> None:
    """A promotion with the right and none without, nothing at all for others; and the audit log names whoever it was."""
    readers, releasers = groups
    stage.rolled_out(canary("web", replicas=1, steps=[{"setWeight": 50}, {"pause": {}}]))
    stage.gated("web", "web:2", step=GATE)
    path, promote = f"/r/{stage.namespace}/web", f"/r/{stage.namespace}/web/promote"
    since = control_plane.audit_mark()
    with ExitStack() as open_ones:
        alice, bob, eve = (
            open_ones.enter_context(behind_proxy(dashboard, *who))
            for who in ((ALICE, "everybody", releasers), (BOB, readers, "cluster-admins"), (EVE,))
        )
        for each in (path, f"/?ns={stage.namespace}", f"/r/{stage.namespace}/none", promote):
            answer = eve.get(each)
            assert (answer.status_code, "web:2" in answer.text) == (403, False), each
        assert f"You may not patch rollouts in namespace {stage.namespace}" in bob.get(promote).text
        assert bob.post(promote, data=form_of(bob, promote)).status_code == 403
        assert not stage.get("rollouts", "web")["metadata"].get("annotations", {}).get("rollouts.dev/promote")
        answer = alice.post(promote, data=form_of(alice, promote))
        assert answer.status_code == 303
        assert "the controller has recorded the command" in alice.get(answer.headers["location"]).text
    stage.wait_ready("web")

    account = f"system:serviceaccount:{stage.namespace}:dashboard"
    asked = [
        each for each in control_plane.audit_events(since=since, user=account) if each["stage"] == "ResponseComplete"
    ]
    acted = {
        (each["impersonatedUser"]["username"], each["responseStatus"]["code"])
        for each in asked
        if each["verb"] == "patch"
    }
    of = {each["impersonatedUser"]["username"]: {*each["impersonatedUser"]["groups"]} for each in asked}
    everybody = "system:authenticated"
    assert acted == {(BOB, 403), (ALICE, 200)}
    assert of == {ALICE: {releasers, everybody}, BOB: {readers, everybody}, EVE: {everybody}}


def test_whoever_is_the_dashboard_is_nobody_in_the_cluster(
    control_plane: ControlPlane, stage: Stage, dashboard: str, account: str, groups: tuple[str, str]
) -> None:
    """Its account reads nothing, and becomes neither a group that is not listed nor a service account, whatever asks by it."""
    rollouts = f"/apis/rollouts.dev/v1alpha1/namespaces/{stage.namespace}/rollouts"
    refused: tuple[dict[str, str], ...] = (
        {},
        {"Impersonate-User": ALICE, "Impersonate-Group": "system:masters"},
        {"Impersonate-User": ALICE, "Impersonate-Group": "cluster-admins"},
        {"Impersonate-User": "system:serviceaccount:kube-system:default"},
        {"Impersonate-User": ALICE, "Impersonate-Uid": "1"},
    )
    for headers in refused:
        with control_plane.client({"Authorization": f"Bearer {account}", **headers}) as client:
            assert client.get(rollouts).status_code == 403, headers
    with control_plane.client(
        {"Authorization": f"Bearer {account}", "Impersonate-User": ALICE, "Impersonate-Group": groups[0]}
    ) as client:
        assert client.get(rollouts).status_code == 200
    for user, group in (("system:admin", ""), (ALICE, "system:masters"), (ALICE, f"{groups[1]},system:masters")):
        with behind_proxy(dashboard, user, group) as client:
            answer = client.get("/")
            assert (answer.status_code, "is the API server's own" in answer.text) == (403, True), (user, group)
    with httpx.Client(base_url=dashboard, trust_env=False) as client:
        answer = client.get("/", headers={"X-Forwarded-User": ALICE, "X-Forwarded-Groups": groups[1]})
        assert (answer.status_code, re.search("has not come through the proxy", answer.text) is not None) == (403, True)
