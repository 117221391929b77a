"""Promise: where an administrator wants it, to give a command takes its own right, and to edit a Rollout takes another one.

`admission.commandRights` of the chart. The API server and its authorizer are the real ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from rollouts.core.model.status import Verb
from rollouts.objects import ROLLOUT, Manifest
from tests import build
from tests.build import granted
from tests.lab.chart import CONTROLLER_USER, RBAC_GROUP, as_user, render
from tests.lab.control_plane import ControlPlane
from tests.lab.loopback import wait_for
from tests.packaging.rendered import named, only

pytestmark = pytest.mark.controlplane

EDITOR, MANAGER, PROMOTER = "editor", "release-manager", "promoter"
MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
EDITS: dict[str, Manifest] = {
    "the spec": {"spec": {"replicas": 2}},
    "a label": {"metadata": {"labels": {"team": "shop"}}},
    "an annotation that is no command": {"metadata": {"annotations": {"team": "shop"}}},
    "an annotation that goes": {"metadata": {"annotations": {"kept": None}}},
    "an annotation of another value": {"metadata": {"annotations": {"kept": "otherwise"}}},
    "a finalizer": {"metadata": {"finalizers": ["example.com/kept"]}},
    "an owner": {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"}]}},
}
"""Changes that are no commands."""


def on_rollouts(*verbs: str) -> Manifest:
    """A rule of RBAC."""
    return {"apiGroups": ["rollouts.dev"], "resources": ["rollouts"], "verbs": list(verbs)}


@pytest.fixture
def home(control_plane: ControlPlane, controller_kubeconfig: Path, namespace: str) -> str:
    """A namespace with the policy, a Rollout, and people with the chart's roles."""
    rendered = render(
        Path(control_plane.programs, "helm"),
        *("--set", f"admission.commandRights=true,watchNamespaces={{{namespace}}},fullnameOverride={namespace}"),
        *("--set", "serviceAccount.name=rollouts"),
    )
    rules = {
        EDITOR: only(named(rendered, "-edit"), "ClusterRole")["rules"],
        MANAGER: only(named(rendered, "-commands"), "ClusterRole")["rules"],
        PROMOTER: [on_rollouts("patch", Verb.PROMOTE)],
        CONTROLLER_USER: [on_rollouts("patch")],
    }
    for user, each in rules.items():
        to = {"apiGroup": RBAC_GROUP, "kind": "User", "name": user}
        control_plane.apply(*granted(user.rpartition(":")[2], namespace, each, to=to))
    control_plane.apply(*named(rendered, ".command-rights"))
    control_plane.api.post(ROLLOUT.path(namespace), json=rollout()).raise_for_status()
    wait_for(lambda: "may not pause" in commanded(control_plane, EDITOR, namespace, pause="true").text, "the policy")
    wait_for(lambda: all(sent(control_plane, user, namespace, {}).is_success for user in rules), "the rights")
    return namespace


def rollout(name: str = "web", **annotations: str) -> Manifest:
    """With one annotation of its user's and these commands."""
    metadata = {"name": name, "annotations": {"kept": "yes", **named_commands(annotations)}}
    return build.rollout({"canary": {"steps": [{"setWeight": 50}]}}, "web", metadata=metadata, replicas=1)


def named_commands(commands: Mapping[str, str | None]) -> dict[str, Any]:
    """As annotations."""
    return {f"rollouts.dev/{verb}": value for verb, value in commands.items()}


def sent(plane: ControlPlane, user: str, namespace: str, patch: Manifest, *, stored: bool = False) -> httpx.Response:
    """The answer to that user's merge patch; a dry run unless it is to be stored."""
    query = {} if stored else {"dryRun": "All"}
    with as_user(plane, user) as client:
        return client.patch(ROLLOUT.path(namespace, "web"), json=patch, headers=MERGE, params=query)


def commanded(plane: ControlPlane, user: str, namespace: str, **commands: str | None) -> httpx.Response:
    """The answer to that user's commands, in a dry run."""
    return sent(plane, user, namespace, {"metadata": {"annotations": named_commands(commands)}})


def test_each_command_takes_its_own_verb(control_plane: ControlPlane, home: str) -> None:
    """Whoever may edit gives none, a release manager all of them, and a promoter one."""
    allowed = {
        (user, verb): commanded(control_plane, user, home, **{verb: "true"}).status_code == 200
        for user in (EDITOR, MANAGER, PROMOTER)
        for verb in Verb
    }

    assert allowed == {
        (user, verb): user == MANAGER or (user, verb) == (PROMOTER, Verb.PROMOTE)
        for user in (EDITOR, MANAGER, PROMOTER)
        for verb in Verb
    }


def test_a_refusal_names_the_verb(control_plane: ControlPlane, home: str) -> None:
    """Several commands in one request are judged one by one."""
    answer = commanded(control_plane, PROMOTER, home, promote="true", abort="true", pause="true")

    assert answer.status_code == 403
    assert (
        f"{PROMOTER} may not abort Rollouts in namespace {home}: the annotation rollouts.dev/abort needs" in answer.text
    )


def test_who_gives_commands_edits_nothing(control_plane: ControlPlane, home: str) -> None:
    """Alone, and beside a command that is allowed."""
    promoted = named_commands({"promote": "true"})
    for what, change in EDITS.items():
        metadata: Manifest = change.get("metadata", {})
        both = {**change, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **promoted}}}
        alone, beside = sent(control_plane, MANAGER, home, change), sent(control_plane, MANAGER, home, both)

        assert (alone.status_code, beside.status_code) == (403, 403), what
        assert f"{MANAGER} may give commands to Rollouts in namespace {home}, and not edit them" in alone.text
        assert sent(control_plane, EDITOR, home, change).status_code == 200, what


def test_a_command_that_stands_is_nobodys_until_it_changes(control_plane: ControlPlane, home: str) -> None:
    """A tool that applies the manifest of Git again gives none. To take one back is one: without its pause an update goes on."""
    given = sent(
        control_plane, MANAGER, home, {"metadata": {"annotations": named_commands({"pause": "true"})}}, stored=True
    )
    with as_user(control_plane, EDITOR) as editor:
        applied = editor.patch(
            ROLLOUT.path(home, "web"),
            json={**rollout(pause="true"), "spec": {**rollout()["spec"], "replicas": 3}},
            headers=APPLY,
            params={"fieldManager": "git", "force": "true"},
        )

    assert (given.status_code, applied.status_code) == (200, 200), applied.text
    assert commanded(control_plane, EDITOR, home, pause=None).status_code == 403
    assert commanded(control_plane, MANAGER, home, pause=None).status_code == 200


def test_a_rollout_is_created_with_no_command_in_it(control_plane: ControlPlane, home: str) -> None:
    """Unless its author has the right to give it."""
    with as_user(control_plane, EDITOR) as editor:
        plain, paused = (
            editor.post(ROLLOUT.path(home), json=one, params={"dryRun": "All"})
            for one in (rollout("other"), rollout("other", pause="true"))
        )

    assert (plain.status_code, paused.status_code) == (201, 403)


def test_the_controller_removes_a_command_that_it_has_recorded(control_plane: ControlPlane, home: str) -> None:
    """It has neither a verb of its own for that nor `update`."""
    sent(control_plane, MANAGER, home, {"metadata": {"annotations": named_commands({"retry": "true"})}}, stored=True)

    assert commanded(control_plane, CONTROLLER_USER, home, retry=None).status_code == 200


def test_it_is_off_by_default_and_says_who_may_command_when_on(helm: Path) -> None:
    """The role of the chart has each command of the product, and nothing that edits."""
    on = render(helm, "--set", "admission.commandRights=true")
    assert [named(render(helm), each) for each in (".command-rights", "-commands")] == [[], []]

    (rule,) = only(named(on, "-commands"), "ClusterRole")["rules"]
    assert sorted(rule["verbs"]) == sorted(("get", "list", "watch", "patch", *Verb))
    assert len(named(on, ".command-rights")) == 2
