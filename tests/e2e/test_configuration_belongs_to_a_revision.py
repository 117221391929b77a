"""ConfigMaps and Secrets on the real control plane: an edit is an update, and a revision keeps what it began with.

Each shape is read; Secrets by name, with the printed Role alone, and never without a word.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import build
from tests.e2e.controllers import confined_controller, rollouts
from tests.e2e.manifests import GATE, Manifest, canary, config_map, container_of
from tests.e2e.stage import REVISION, Stage, current
from tests.lab.chart import CONTROLLER_USER, RELEASE, RELEASE_NAMESPACE, another_account
from tests.lab.control_plane import ControlPlane

pytestmark = pytest.mark.controlplane

COPIES = "rollouts.dev/config-copy=true"
OLD, NEW = "pl4nted-0ld-t0ken", "pl4nted-n3w-t0ken"
KEY = "rollouts-config-key"


def _edit(stage: Stage, color: str) -> None:
    stage.kubectl("patch", "configmap", "web-config", "--type=merge", "-p", json.dumps({"data": {"color": color}}))


def _replica_set(stage: Stage, revision: str) -> Manifest:
    (found,) = stage.all("replicasets", f"{REVISION}={revision}")
    return found


def _names(stage: Stage, revision: str) -> list[str]:
    """The ConfigMaps that a revision's pods read."""
    return [each["configMapRef"]["name"] for each in container_of(_replica_set(stage, revision))["envFrom"]]


def _color(stage: Stage, revision: str) -> str:
    (name,) = _names(stage, revision)
    return str(stage.get("configmaps", name)["data"]["color"])


def _at_the_gate(stage: Stage, before: str) -> str:
    """Waits for a person's decision about another revision than `before`; that revision."""
    return current(stage.until_at("web", "PromotionNeeded", step=GATE, but=before))


def test_an_edit_goes_through_a_canary_and_a_revert_comes_back_under_its_own_name(stage: Stage) -> None:
    """Each revision reads a copy of its own: at the gate both contents serve, after an abort and a revert only the old one."""
    first = stage.rolled_out(config_map("web-config"), canary("web", configured_by=["web-config"]))

    _edit(stage, "green")
    second = _at_the_gate(stage, first)
    stage.until_pods("web", {first: 3, second: 1})
    assert (_color(stage, first), _color(stage, second)) == ("blue", "green")
    assert _names(stage, first) != _names(stage, second)
    stage.annotate("web", "abort", second)
    stage.until_phase("web", "Aborted")
    stage.until_pods("web", {first: 4})

    _edit(stage, "blue")
    back = stage.until("rollouts", "web", lambda one: one["status"]["phase"] == "Healthy")
    assert current(back) == first
    assert {each["immutable"] for each in stage.all("configmaps", COPIES)} == {True}


def test_a_deleted_source_harms_nobody_and_a_deleted_rollout_takes_its_copies_along(stage: Stage) -> None:
    """Sources are the user's and copies the Rollout's; only what the API server says is not there is missing."""
    first = stage.rolled_out(config_map("web-config"), canary("web", configured_by=["web-config"]))
    stage.kubectl("delete", "configmap", "web-config")
    stage.until_at("web", "ConfigNotFound")
    assert _color(stage, first) == "blue"
    stage.until_pods("web", {first: 4})

    stage.apply(config_map("web-config"))
    assert current(stage.wait_ready("web")) == first
    (copy,) = stage.all("configmaps", COPIES)
    stage.kubectl("delete", "rollout", "web", "--timeout=55s")
    # The garbage collector learns of new kinds every 30 s.
    stage.kubectl("wait", f"configmap/{copy['metadata']['name']}", "--for=delete", "--timeout=60s")
    assert stage.get("configmaps", "web-config")["data"] == {"color": "blue"}


def _sources() -> Sequence[Manifest]:
    """Fifty, among them the greatest, binary, with unicode, and one that nobody can change."""
    large = "ж<\n" * (1024 * 1024 // 4 - 64)
    binary = base64.b64encode(os.urandom(1000)).decode()
    made = [config_map(f"web-{number}", {"number": str(number)}) for number in range(46)]
    return [
        *made,
        config_map("web-large", {"large": large}),
        config_map("web-binary", {"text": "plain"}, binaryData={"blob": binary}),
        config_map("web-unicode", {"text": "zażółć \u2028 \U0001f600", "empty": ""}),
        config_map("web-fixed", immutable=True),
    ]


def test_fifty_sources_of_every_kind_are_copied_as_they_are(stage: Stage) -> None:
    """A mebibyte, binary data, unicode, an immutable one, and optional ones that are not there."""
    sources = _sources()
    names = [each["metadata"]["name"] for each in sources]
    as_list = {"apiVersion": "v1", "kind": "List", "items": sources}
    stage.kubectl("create", "-f", "-", input=json.dumps(as_list))  # their sizes leave no room for kubectl's annotation
    web = canary("web", replicas=1, configured_by=names)
    container_of(web)["envFrom"].append({"configMapRef": {"name": "web-absent", "optional": True}})
    web["spec"]["template"]["spec"]["volumes"] = [
        {"name": "all", "projected": {"sources": [{"configMap": {"name": name}} for name in names]}}
    ]
    first = stage.rolled_out(web)

    read = _names(stage, first)
    copies = {
        each["metadata"]["annotations"]["rollouts.dev/config-source"]: each for each in stage.all("configmaps", COPIES)
    }
    assert set(copies) == set(names) - {"web-fixed"}
    assert read[:-1] == [copies[name]["metadata"]["name"] if name in copies else name for name in names]
    assert read[-1].startswith("web-absent-"), "nothing has that name, whoever creates the source"
    for source in sources:
        copy = copies.get(source["metadata"]["name"])
        if copy is not None:
            assert copy["data"] == source["data"]
            assert copy.get("binaryData") == source.get("binaryData")
    (volume,) = _replica_set(stage, first)["spec"]["template"]["spec"]["volumes"]
    assert [each["configMap"]["name"] for each in volume["projected"]["sources"]] == read[:-1]

    stage.apply(config_map("web-absent"))  # an optional one that comes is a change, too
    second = current(stage.until("rollouts", "web", lambda one: current(one) != first))
    (copy,) = [each for each in stage.all("configmaps", COPIES) if each["metadata"]["name"].startswith("web-absent-")]
    assert _names(stage, second)[-1] == copy["metadata"]["name"] != read[-1]


def test_an_upgrade_rolls_nobody(control_plane: ControlPlane, namespace: str, controller_kubeconfig: Path) -> None:
    """The version before knew no sources: its ReplicaSets have no note, and what is seen first is what they have."""
    stage = Stage(control_plane, namespace)
    run = partial(confined_controller, control_plane, controller_kubeconfig, namespace, leader_elect=False)
    with run(flags=["--config-versioning=off"]):
        first = stage.rolled_out(config_map("web-config"), canary("web", configured_by=["web-config"]))
        before = _replica_set(stage, first)
    with run():
        name = before["metadata"]["name"]
        noted = stage.until("replicasets", name, lambda one: "rollouts.dev/config" in one["metadata"]["annotations"])
        assert noted["spec"] == before["spec"]
        assert [each["metadata"]["name"] for each in stage.all("replicasets")] == [name]
        _edit(stage, "green")
        second = _at_the_gate(stage, first)
        assert (_names(stage, first), _color(stage, second)) == (["web-config"], "green")


@pytest.mark.usefixtures("controller_kubeconfig")  # the chart is there
def test_without_the_right_the_running_revision_stays_and_says_what_to_grant(
    control_plane: ControlPlane, namespace: str
) -> None:
    """An administrator who grants nothing on ConfigMaps loses no update that is under way, and nobody guesses what is missing."""
    kubeconfig = another_account(control_plane, "without-configuration", "--set", "configVersioning=false")
    stage = Stage(control_plane, namespace)

    run = partial(confined_controller, control_plane, kubeconfig, namespace, leader_elect=False)
    with run(flags=["--config-versioning=off"]):
        first = stage.rolled_out(config_map("web-config"), canary("web", replicas=1, configured_by=["web-config"]))
    with run(flags=["--config-versioning=on"]):
        waiting = stage.until_at("web", "ConfigForbidden")
        assert "grant get, list and watch of configmaps" in waiting["status"]["waitingFor"]["message"]
        assert [each["metadata"]["labels"][REVISION] for each in stage.all("replicasets")] == [first]
        stage.until_pods("web", {first: 1})


def _secret(value: str) -> Manifest:
    return build.secret("token", type="example.com/token", stringData={"token": value})


def _reading(*, opted_in: bool) -> Manifest:
    versioning = {"configVersioning": {"secrets": True, "settleSeconds": 0}} if opted_in else {}
    made = canary("web", spec={**versioning, "revisionHistoryLimit": 0})
    container_of(made)["envFrom"] = [{"secretRef": {"name": "token"}}]
    return made


def _grant(stage: Stage, rollout: Manifest) -> list[Manifest]:
    """What `rollouts rbac -f FILE` prints, applied; without what is no right."""
    account = ("--service-account", f"{RELEASE_NAMESPACE}/{RELEASE}")
    printed = rollouts("rbac", "-f", "-", "-n", stage.namespace, *account, text=json.dumps(rollout)).stdout
    stage.kubectl("apply", "-f", "-", input=printed)
    return list(stage.get("roles", f"rollouts-config-secrets-{rollout['metadata']['name']}")["rules"])


def _secret_of(stage: Stage, revision: str) -> str:
    """The Secret that a revision's pods read."""
    (source,) = container_of(_replica_set(stage, revision))["envFrom"]
    return str(source["secretRef"]["name"])


def _value(stage: Stage, name: str) -> str:
    return base64.b64decode(stage.get("secrets", name)["data"]["token"]).decode()


def _requests(stage: Stage, mark: int) -> list[tuple[str, str]]:
    """Verb and name of every request about Secrets of the namespace that the controller sent since then."""
    events: list[dict[str, Any]] = stage.plane.audit_events(since=mark, user=CONTROLLER_USER)
    about = [each for each in events if (each.get("objectRef") or {}).get("resource") == "secrets"]
    mine = [each for each in about if each["objectRef"].get("namespace") in (None, stage.namespace)]
    return [(each["verb"], each["objectRef"].get("name", "")) for each in mine]


def test_a_rotated_secret_goes_through_a_canary_with_the_printed_role_alone(stage: Stage) -> None:
    """Least privilege: `get` of two names and `create`; the garbage collector deletes copies with their ReplicaSets."""
    mark = stage.plane.audit_mark()
    rollout = _reading(opted_in=True)
    stage.apply(_secret(OLD), rollout)
    stage.until_at("web", "ConfigForbidden")
    assert _grant(stage, rollout) == [
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [KEY, "token"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    ]
    first = current(stage.wait_ready("web"))
    assert _value(stage, _secret_of(stage, first)) == OLD

    stage.apply(_secret(NEW))
    second = current(stage.until_at("web", "PromotionNeeded", step=GATE, but=first))
    stage.until_pods("web", {first: 3, second: 1})
    before, after = _secret_of(stage, first), _secret_of(stage, second)
    assert (_value(stage, before), _value(stage, after)) == (OLD, NEW)
    copy = stage.get("secrets", after)
    assert (copy["type"], copy["immutable"]) == ("example.com/token", True)

    stage.annotate("web", "promote", f"{second}@full")
    stage.until_phase("web", "Healthy")
    stage.kubectl("wait", f"secret/{before}", "--for=delete", "--timeout=60s")
    asked = _requests(stage, mark)
    assert {each for each in asked if each[0] != "create"} == {("get", "token"), ("get", KEY)}
    shown = json.dumps([stage.all(kind) for kind in ("rollouts", "replicasets", "events")])
    assert "is kept as" in shown
    for planted in (OLD, NEW):
        assert planted not in shown
        assert base64.b64encode(planted.encode()).decode() not in shown

    stage.kubectl("delete", "rollout", "web", "--timeout=55s")
    stage.kubectl("wait", f"secret/{after}", "--for=delete", "--timeout=60s")


def test_without_opting_in_no_secret_is_ever_asked_for(stage: Stage) -> None:
    """The audit log has every request, refused ones too."""
    mark = stage.plane.audit_mark()
    first = stage.rolled_out(_secret(OLD), _reading(opted_in=False))
    stage.apply(_secret(NEW))
    stage.annotate("web", "restart", "true")
    stage.wait_ready("web")

    assert _secret_of(stage, first) == "token"
    assert _requests(stage, mark) == []
