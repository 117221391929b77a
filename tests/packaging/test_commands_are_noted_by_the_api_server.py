"""Promise: beside each command stands the user whom the API server has authenticated, and nobody can write another name there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from rollouts.objects import ROLLOUT
from tests import build
from tests.lab import supervisor
from tests.lab.chart import as_user, install_crds, render
from tests.lab.control_plane import ControlPlane
from tests.lab.loopback import wait_for
from tests.packaging.rendered import container, named
from tests.packaging.test_chart_on_a_real_cluster import VARIANTS

pytestmark = pytest.mark.controlplane

ALICE, BOB = "alice@example.com", "bob"
MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
KINDS = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")


class Commands:
    """One Rollout, and what people write into its annotations. No controller is at work."""

    def __init__(self, plane: ControlPlane, namespace: str, name: str) -> None:
        self._plane = plane
        self._home, self._path = ROLLOUT.path(namespace), ROLLOUT.path(namespace, name)
        self._name = name

    def manifest(self, annotations: Mapping[str, str]) -> dict[str, Any]:
        strategy = {"canary": {"steps": [{"setWeight": 50}]}}
        metadata = {"name": self._name, "annotations": _named(annotations)}
        return build.rollout(strategy, "web", metadata=metadata, replicas=0)

    def create(self, user: str, **annotations: str) -> dict[str, str]:
        """Makes it as that user; returns the annotations that it has then."""
        return _told(self._sent(user, "POST", self._home, json=self.manifest(annotations)))

    def annotate(self, user: str, annotations: Mapping[str, str | None]) -> dict[str, str]:
        """Changes annotations as that user; returns those that it has then."""
        return _told(self._annotated(user, annotations))

    def tries(self, user: str, annotations: Mapping[str, str | None]) -> bool:
        """Whether that user could change annotations so; nothing is changed."""
        answer = self._annotated(user, annotations, dryRun="All")
        assert answer.is_success or "leave it out" in answer.text
        return answer.is_success

    def replace(self, user: str, annotations: Mapping[str, str]) -> dict[str, str]:
        """As `kubectl replace`: what the manifest does not name is gone."""
        manifest = self.manifest(annotations)
        manifest["metadata"]["resourceVersion"] = self._plane.api.get(self._path).json()["metadata"]["resourceVersion"]
        return _told(self._sent(user, "PUT", self._path, json=manifest))

    def apply(self, user: str, annotations: Mapping[str, str]) -> dict[str, str]:
        """As Argo CD and Flux do with server-side apply."""
        query, body = {"fieldManager": user, "force": "true"}, self.manifest(annotations)
        return _told(self._sent(user, "PATCH", self._path, json=body, headers=APPLY, params=query))

    def _annotated(self, user: str, annotations: Mapping[str, str | None], **query: str) -> httpx.Response:
        patch = {"metadata": {"annotations": _named(annotations)}}
        return self._sent(user, "PATCH", self._path, json=patch, headers=MERGE, params=query)

    def _sent(self, user: str, method: str, path: str, **request: Any) -> httpx.Response:
        with as_user(self._plane, user, "system:masters") as client:
            return client.request(method, path, **request)


def _named(annotations: Mapping[str, str | None]) -> dict[str, str | None]:
    return {f"rollouts.dev/{name}": value for name, value in annotations.items()}


def _told(answer: httpx.Response) -> dict[str, str]:
    assert answer.is_success, answer.text
    annotations = answer.json()["metadata"].get("annotations", {})
    return {name.removeprefix("rollouts.dev/"): value for name, value in annotations.items()}


@pytest.fixture
def commands(control_plane: ControlPlane, controller_kubeconfig: Path, namespace: str) -> Iterator[Commands]:
    """A Rollout without commands, once the policies are effective: the API server takes a second to see them."""
    probes = (Commands(control_plane, namespace, f"probe-{number}") for number in count())
    wait_for(lambda: "pause-by" in next(probes).create(ALICE, pause="true"), "the policies")
    one = Commands(control_plane, namespace, "web")
    one.create(ALICE)
    yield one


def test_a_command_has_the_name_of_who_gave_it(commands: Commands) -> None:
    """Each its own, and whoever changes a command is the one who gave it."""
    assert commands.annotate(ALICE, {"pause": "true"}) == {"pause": "true", "pause-by": ALICE}
    assert commands.annotate(BOB, {"abort": "b"}) == {"pause": "true", "pause-by": ALICE, "abort": "b", "abort-by": BOB}
    assert commands.annotate(ALICE, {"abort": "c"})["abort-by"] == ALICE


def test_a_rollout_that_is_created_with_a_command_has_the_name_too(
    control_plane: ControlPlane, commands: Commands, namespace: str
) -> None:
    """As a tool of GitOps may do."""
    made = Commands(control_plane, namespace, "made").create(BOB, **{"pause": "true", "pause-by": ALICE})

    assert made == {"pause": "true", "pause-by": BOB}


@pytest.mark.parametrize(
    "written", [{"abort": "b", "abort-by": ALICE}, {"abort-by": ALICE}, {"abort": "b", "abort-by": None}]
)
def test_nobody_writes_another_name(commands: Commands, written: Mapping[str, str | None]) -> None:
    """With the command, without it, or by taking the note away."""
    there = commands.annotate(BOB, written)

    assert there == ({"abort": "b", "abort-by": BOB} if "abort" in written else {})


@pytest.mark.parametrize(
    "written", [{"pause-by": BOB}, {"pause-by": None}, {"pause": "true", "pause-by": BOB}, {"x": "y"}]
)
def test_a_note_stays_as_long_as_its_command(commands: Commands, written: Mapping[str, str | None]) -> None:
    """To give the same command again is no new one, and other annotations concern nobody."""
    commands.annotate(ALICE, {"pause": "true"})

    there = commands.annotate(BOB, written)

    assert (there["pause"], there["pause-by"]) == ("true", ALICE)


@pytest.mark.parametrize("subresource", ["status", "scale"])
def test_no_subresource_is_a_way_round(
    control_plane: ControlPlane, commands: Commands, namespace: str, subresource: str
) -> None:
    """The policies look at the Rollout itself; through its subresources nobody changes an annotation."""
    commands.annotate(ALICE, {"pause": "true"})
    forged = {"metadata": {"annotations": {"rollouts.dev/pause-by": BOB, "rollouts.dev/abort": "b"}}}
    path = f"{ROLLOUT.path(namespace, 'web')}/{subresource}"
    with as_user(control_plane, BOB, "system:masters") as client:
        client.patch(path, json=forged, headers=MERGE)

    assert commands.annotate(ALICE, {"x": "y"}) == {"pause": "true", "pause-by": ALICE, "x": "y"}


def test_a_note_goes_with_its_command(commands: Commands) -> None:
    """Whoever takes it off."""
    commands.annotate(ALICE, {"pause": "true", "abort": "b"})

    assert commands.annotate(BOB, {"pause": None}) == {"abort": "b", "abort-by": ALICE}


def test_tools_of_gitops_do_not_fight_with_the_note(commands: Commands) -> None:
    """What they apply does not name it: it stays while the command does, and applying again changes nothing."""
    first = commands.apply("argocd-controller", {"pause": "true"})

    assert first == {"pause": "true", "pause-by": "argocd-controller"}
    assert commands.apply("argocd-controller", {"pause": "true"}) == first
    assert commands.replace(BOB, {"pause": "true"}) == first
    assert commands.apply("argocd-controller", {"pause": "false"})["pause-by"] == "argocd-controller"
    assert commands.replace(BOB, {}) == {}


def test_a_name_is_bounded(commands: Commands) -> None:
    """An identity provider may give any, and a long one must not stop the command."""
    there = commands.annotate("x" * 5_000, {"pause": "true"})

    assert there["pause-by"] == "x" * 255 + "…"


def test_where_the_note_fails_no_other_name_passes(lab_programs: Path, tmp_path: Path) -> None:
    """The policy that writes notes may be skipped. A second one lets only true ones pass, and stops no command."""
    rendered = render(lab_programs / "helm")
    guard = [one for one in named(rendered, ".command-notes") if "Validating" in one["kind"]]
    crds = named(rendered, "rollouts.rollouts.dev")
    with supervisor.own(tmp_path) as plane:
        install_crds(plane, *crds)
        plane.apply(*guard)
        with plane.fresh_namespace(stays=True) as namespace:
            commands = Commands(plane, namespace, "web")
            commands.create(ALICE)
            wait_for(lambda: not commands.tries(BOB, {"abort": "b", "abort-by": ALICE}), "the policy")

            assert not commands.tries(BOB, {"abort-by": BOB})
            assert commands.annotate(BOB, {"abort": "b"}) == {"abort": "b"}
            assert not commands.tries(BOB, {"abort-by": ALICE})
            assert commands.annotate(BOB, {"abort": "c", "abort-by": BOB}) == {"abort": "c", "abort-by": BOB}
            assert commands.annotate(ALICE, {"abort": None, "abort-by": None}) == {}


def test_the_flag_comes_with_the_policies(control_plane: ControlPlane) -> None:
    """A controller that believes notes where everybody can write them would be told any name."""
    helm = Path(control_plane.programs, "helm")
    older = ("--kube-version", "1.35.0", "--api-versions", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy")
    found = {}
    for name, documents in {
        "on": render(helm),
        "off": render(helm, "--set", "admission.commandNotes=false"),
        "an older server": render(helm, *older, served=()),
        "some namespaces": render(helm, *VARIANTS["some namespaces"]),
    }.items():
        flag = "--command-notes" in container(documents)["args"]
        policies = named(documents, ".command-notes")
        found[name] = (flag, sorted({one["kind"] for one in policies if one["kind"] in KINDS}))
        if name == "some namespaces":
            where = [one["spec"]["matchResources"]["namespaceSelector"] for one in policies if "Binding" in one["kind"]]
            assert [each["matchExpressions"][0]["values"] for each in where] == [["shop", "cart"]] * 2

    assert found == {
        "on": (True, list(KINDS)),
        "off": (False, []),
        "an older server": (False, []),
        "some namespaces": (True, list(KINDS)),
    }
