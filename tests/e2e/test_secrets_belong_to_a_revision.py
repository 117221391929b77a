"""Secrets on the real control plane: read by name with the printed Role alone, copied for a revision, never without a word."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests import build
from tests.e2e.controllers import rollouts
from tests.e2e.manifests import GATE, Manifest, canary, container_of
from tests.e2e.stage import REVISION, Stage, current
from tests.lab.chart import CONTROLLER_USER, RELEASE, RELEASE_NAMESPACE

pytestmark = pytest.mark.controlplane

OLD, NEW = "pl4nted-0ld-t0ken", "pl4nted-n3w-t0ken"
KEY = "rollouts-config-key"


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


def _names(stage: Stage, revision: str) -> str:
    """The Secret that a revision's pods read."""
    (found,) = stage.all("replicasets", f"{REVISION}={revision}")
    (source,) = container_of(found)["envFrom"]
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
    assert _value(stage, _names(stage, first)) == OLD

    stage.apply(_secret(NEW))
    second = current(stage.until_at("web", "PromotionNeeded", step=GATE, but=first))
    stage.until_pods("web", {first: 3, second: 1})
    before, after = _names(stage, first), _names(stage, second)
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

    stage.kubectl("delete", "rollout", "web", "--timeout=20s")
    stage.kubectl("wait", f"secret/{after}", "--for=delete", "--timeout=60s")


def test_without_opting_in_no_secret_is_ever_asked_for(stage: Stage) -> None:
    """The audit log has every request, refused ones too."""
    mark = stage.plane.audit_mark()
    first = stage.rolled_out(_secret(OLD), _reading(opted_in=False))
    stage.apply(_secret(NEW))
    stage.annotate("web", "restart", "true")
    stage.wait_ready("web")

    assert _names(stage, first) == "token"
    assert _requests(stage, mark) == []
