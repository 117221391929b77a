"""Helm installs, upgrades and removes the chart on a real API server, and no Rollout is lost on the way."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rollouts.objects import DAEMON_SET, DEPLOYMENT, ROLLOUT, STATEFUL_SET, Kind, Manifest
from tests import build
from tests.documents import documents
from tests.e2e import test_a_daemon_set_stays_one, test_no_pod_starts_before_the_rollout_begins
from tests.e2e.manifests import KUBE_PROXY, canary
from tests.e2e.stage import Stage
from tests.e2e.test_the_pages_that_people_follow import deployed
from tests.lab.chart import CHART, RELEASE, RELEASE_NAMESPACE, wait_established
from tests.lab.control_plane import ControlPlane
from tests.packaging.built_in_templates import TEMPLATES
from tests.packaging.rendered import granted, only
from tests.pages.blocks import run_by

pytestmark = pytest.mark.controlplane

TEMPLATE = "rollouts-steady-pods"
RESTRICTED = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": RELEASE_NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
}
CRD = "rollouts.rollouts.dev"


@dataclass(frozen=True)
class Administrator:
    """Somebody with Helm and all rights."""

    plane: ControlPlane

    def helm(self, verb: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """`helm VERB rollouts …` in the release's namespace. Raises: AssertionError with Helm's words."""
        return self.plane.helm(verb, RELEASE, *arguments, "--namespace", RELEASE_NAMESPACE, check=check)

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """An object; None when there is none."""
        done = self.plane.kubectl("get", kind, name, "-o", "json", "--ignore-not-found")
        found: dict[str, Any] | None = json.loads(done.stdout) if done.stdout else None
        return found

    def crds(self) -> list[str]:
        """Ours, as `kubectl get -o name` has them."""
        named = self.plane.kubectl("get", "crds", "-o", "name").stdout.split()
        return [crd for crd in named if crd.endswith(".rollouts.dev")]

    def delete_crds(self) -> None:
        """Deletes ours, and waits.

        The API server's finalizer retries more and more rarely after a failure: on a busy machine 150 s were not enough. It
        looks at a CRD that has changed at once.
        """
        for attempt in range(10):
            if not (ours := self.crds()):
                return
            self.plane.kubectl("annotate", *ours, "--overwrite", f"tests/attempt={attempt}", check=False)
            self.plane.kubectl("delete", *ours, "--ignore-not-found", "--timeout=55s", check=False)
        raise AssertionError(f"the API server has not taken {self.crds()} away")

    def described(self) -> str:
        """What the Rollouts' CRD says of itself: the mark of a chart's version in these tests."""
        crd = self.get("crd", CRD)
        assert crd is not None
        return str(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"])


@pytest.fixture
def administrator(modules_plane: ControlPlane) -> Iterator[Administrator]:
    """On a cluster that has nothing of ours, and that nobody else works with."""
    administrator = Administrator(modules_plane)
    yield administrator
    administrator.helm("uninstall", "--ignore-not-found")
    administrator.delete_crds()


def changed_chart(folder: Path, *, description: str) -> Path:
    """The chart of a later version, whose CRD of Rollouts says something else."""
    shutil.copytree(CHART, folder)
    crd = folder / "files" / "crds" / "rollouts.dev_rollouts.yaml"
    lines = crd.read_text().splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith('        description: "'))
    lines[place] = f'        description: "{description}"'
    crd.write_text("\n".join(lines) + "\n")
    return folder


def uid(one: Mapping[str, Any] | None) -> str:
    """Tells whether an object was deleted and made again."""
    assert one is not None
    return str(one["metadata"]["uid"])


def test_an_upgrade_upgrades_the_crds_and_an_uninstall_keeps_them(administrator: Administrator, tmp_path: Path) -> None:
    """Helm's own folder crds/ is never upgraded; and a CRD that is deleted takes every Rollout with it."""
    administrator.helm("install", str(CHART), "--create-namespace")
    wait_established(administrator.plane, CRD)
    administrator.plane.apply(canary("web"), namespace="default")
    rollout = uid(administrator.get("rollout", "web"))

    administrator.helm("upgrade", str(changed_chart(tmp_path / "next", description="the next version")))
    after_upgrade = administrator.described()
    template = administrator.get("clusteranalysistemplate", TEMPLATE)
    administrator.helm("upgrade", str(CHART))
    second = uid(administrator.get("clusteranalysistemplate", TEMPLATE))
    administrator.helm("uninstall")

    assert after_upgrade == "the next version"
    assert template is not None
    assert template["metadata"]["annotations"]["meta.helm.sh/release-name"] == RELEASE
    assert uid(template) == second, "an update of the chart deletes no template that an update may need"
    assert uid(administrator.get("rollout", "web")) == rollout
    assert administrator.get("clusteranalysistemplate", TEMPLATE) is None
    assert administrator.plane.kubectl("get", "deployments", "-n", RELEASE_NAMESPACE, "-o", "name").stdout == ""


def test_one_install_brings_the_templates_of_analyses_and_an_upgrade_finds_them(
    administrator: Administrator, tmp_path: Path
) -> None:
    """Helm cannot create objects of a kind that it has just brought, so the controller does. An upgrade takes that right away."""
    plane = administrator.plane
    plane.apply(KUBE_PROXY)
    administrator.helm("install", str(CHART), "--create-namespace")
    with deployed(plane, log=tmp_path / "controller.log"):
        for name in TEMPLATES:  # one after the other
            plane.until("/apis/rollouts.dev/v1alpha1/clusteranalysistemplates", name, lambda _: True)
        names = plane.kubectl("get", "clusteranalysistemplates", "-o", "name").stdout.split()
    before = uid(administrator.get("clusteranalysistemplate", TEMPLATE))

    administrator.helm("upgrade", str(CHART))
    role = administrator.get("clusterrole", RELEASE)
    after = uid(administrator.get("clusteranalysistemplate", TEMPLATE))
    administrator.helm("uninstall")

    assert {name.partition("/")[2] for name in names} == set(TEMPLATES)
    assert before == after
    assert role is not None
    assert ("rollouts.dev", "clusteranalysistemplates", "create") not in granted([role])
    assert administrator.get("configmap", f"{RELEASE}-analysis-templates") is None
    assert administrator.get("clusteranalysistemplate", TEMPLATE) is None


def test_crds_of_an_older_chart_are_taken_over(administrator: Administrator, tmp_path: Path) -> None:
    """That chart had them in crds/, so they bear no mark of Helm's; the Rollouts of such a cluster stay."""
    older = tmp_path / "older"
    shutil.copytree(CHART, older)
    (older / "files" / "crds").rename(older / "crds")
    (older / "templates" / "crds.yaml").unlink()
    administrator.helm("install", str(older), "--create-namespace")
    administrator.plane.apply(canary("web"), namespace="default")
    rollout = uid(administrator.get("rollout", "web"))

    refused = administrator.helm("upgrade", str(CHART), check=False)
    administrator.helm("upgrade", str(CHART), "--take-ownership")

    crd = administrator.get("crd", CRD)
    assert refused.returncode != 0
    assert crd is not None
    assert crd["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"
    assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert uid(administrator.get("rollout", "web")) == rollout


@pytest.mark.parametrize("user", [None, 1000680000], ids=["the image's user", "a user of OpenShift's"])
def test_a_namespace_that_takes_only_restricted_pods_takes_the_charts(
    administrator: Administrator, user: int | None
) -> None:
    """Pod Security `restricted` is the API server's own admission; OpenShift names a user of the namespace's range besides."""
    plane = administrator.plane
    plane.apply(RESTRICTED)
    chosen = () if user is None else ("--set", f"podSecurityContext.runAsUser={user}")

    administrator.helm("install", str(CHART), *chosen)

    plane.kubectl("rollout", "status", f"deployment/{RELEASE}", "-n", RELEASE_NAMESPACE, "--timeout=50s")
    hooks = plane.helm("get", "hooks", RELEASE, "--namespace", RELEASE_NAMESPACE).stdout
    plane.apply(only(documents(hooks), "Pod"), dry_run=True)
    pods = json.loads(plane.kubectl("get", "pods", "-n", RELEASE_NAMESPACE, "-o", "json").stdout)["items"]
    assert {pod["spec"]["securityContext"].get("runAsUser") for pod in pods} == {user}


OWN: dict[Kind, tuple[str, Manifest]] = {
    DEPLOYMENT: (
        "cart",
        {
            "replicas": 2,
            "minReadySeconds": 1,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        },
    ),
    STATEFUL_SET: ("db", {"replicas": 2, "serviceName": "pods"}),
    DAEMON_SET: ("agent", {}),
}
"""The name that docs/holds.md gives to a workload of each kind, and what its user says besides its pods."""
HOLDS = {"AtRest": "", "Policy": "-held", "": "-alone"}
"""What a workload's name ends with. The last one has no Rollout."""


def workload(kind: Kind, hold: str, image: str) -> Manifest:
    """What Git has."""
    name, own = OWN[kind]
    app = f"{name}{HOLDS[hold]}"
    spec = {**own, "selector": {"matchLabels": {"app": app}}, "template": build.pod_template(app, image=image)}
    return build.manifest(kind, app, spec=spec)


def all_of(image: str) -> list[Manifest]:
    """A workload of each kind and each hold."""
    return [workload(kind, hold, image) for kind in OWN for hold in HOLDS]


def rollouts_of(*steps: Manifest) -> dict[str, Manifest]:
    """Rollouts that update them by these steps, by name."""
    found = {}
    for kind, (name, _) in OWN.items():
        for hold in ("AtRest", "Policy"):
            app = name + HOLDS[hold]
            reference = {"apiVersion": "apps/v1", "kind": kind.kind, "name": app, "mode": "InPlace", "hold": hold}
            spec = {"workloadRef": reference, "strategy": {"canary": {"steps": list(steps)}}}
            found[app] = build.manifest(ROLLOUT, app, spec=spec)
    return found


def commands_of(test: str, page: str) -> list[str]:
    """The commands of a page that say that this test runs them."""
    return [each.command for block in run_by(test) if block.page == page for each in block.exchanges]


def type_in(stage: Stage, commands: Iterable[str], end: str = "") -> None:
    """Runs commands of pages, for the workloads whose names end so."""
    for command in commands:
        program, *words = shlex.split(command.replace(" -n shop", f"{end} -n {stage.namespace}"))
        assert program == "kubectl"
        stage.plane.kubectl(*words)


def left_of_us(stage: Stage, kind: Kind, hold: str) -> dict[str, Any]:
    """Fields of a spec that differ from those of a workload without a Rollout, and those that our field manager owns."""
    name = OWN[kind][0]
    ours, alone = f"{name}{HOLDS[hold]}", f"{name}{HOLDS['']}"
    spec, plain = (
        json.loads(json.dumps(stage.get(kind.plural, one)["spec"]).replace(f'"{one}"', '"NAME"'))
        for one in (ours, alone)
    )
    owned = stage.our_fields(kind.kind.lower(), ours)
    return {field: spec.get(field) for field in spec | plain if field in owned or spec.get(field) != plain.get(field)}


def pods(stage: Stage, app: str) -> dict[str, str]:
    """The image of each pod that stays, by uid."""
    found = (one for one in stage.all("pods", f"app={app}") if "deletionTimestamp" not in one["metadata"])
    return {uid(one): one["spec"]["containers"][0]["image"] for one in found}


def _is_its_users(stage: Stage, kind: Kind, _: Manifest) -> bool:
    return not left_of_us(stage, kind, "Policy")


def _is_another(before: str, revision: str) -> bool:
    return revision not in ("", before)


def is_rolled_out(one: Manifest) -> bool:
    """Whether its own controller has given its template to all pods."""
    status = one["status"]
    wanted = status.get("desiredNumberScheduled", one["spec"].get("replicas"))
    updated = status.get("updatedNumberScheduled", status.get("updatedReplicas"))
    return bool(status.get("observedGeneration") == one["metadata"]["generation"] and updated == wanted)


def with_workloads(administrator: Administrator) -> Stage:
    """A namespace with a workload of each kind and each hold, and the chart with the rights to them."""
    stage = Stage(administrator.plane, administrator.plane.new_namespace())
    stage.plane.apply(KUBE_PROXY)
    administrator.helm(
        "install", str(CHART), "--create-namespace", "--set", "workloads={deployments,statefulsets,daemonsets}"
    )
    stage.apply(*all_of("web:1"))
    return stage


def test_workloads_at_rest_are_their_users_once_the_release_is_gone(
    administrator: Administrator, tmp_path: Path
) -> None:
    """After an update in place. Where no policy has held them, the commands of docs/holds.md give them back."""
    plane, stage = administrator.plane, with_workloads(administrator)
    rollouts = rollouts_of({"setWeight": 50})
    with deployed(plane, log=tmp_path / "controller.log"):
        stage.apply(*rollouts.values())
        stable = {name: stage.until_phase(name, "Healthy")["status"]["stableRevision"] for name in rollouts}
        stage.apply(*all_of("web:2"))
        for name, before in stable.items():
            stage.until_stable(name, partial(_is_another, before))
            stage.until_phase(name, "Healthy")
        for kind, (name, _) in OWN.items():
            stage.until(kind.plural, f"{name}-alone", is_rolled_out)
            stage.until(kind.plural, f"{name}-held", partial(_is_its_users, stage, kind))
    administrator.helm("uninstall")

    assert [left_of_us(stage, kind, "Policy") for kind in OWN] == [{}, {}, {}]
    assert all(left_of_us(stage, kind, "AtRest") for kind in OWN)
    type_in(stage, commands_of(__file__, "docs/holds.md"))
    assert [left_of_us(stage, kind, "AtRest") for kind in OWN] == [{}, {}, {}]
    again = json.dumps({"apiVersion": "v1", "kind": "List", "items": all_of("web:3")})
    stage.kubectl("apply", "--server-side", "--field-manager=lab", "-f", "-", input=again)  # and meets no conflict
    for one in all_of("web:3"):
        stage.until(f"{one['kind'].lower()}s", one["metadata"]["name"], is_rolled_out)
    plane.end_in(stage.namespace)


def test_workloads_in_a_step_stay_in_it_until_somebody_types_the_command(
    administrator: Administrator, tmp_path: Path
) -> None:
    """That of the page of each kind. Then their own controllers roll the template out, and the manifest gives its fields back."""
    plane, stage = administrator.plane, with_workloads(administrator)
    rollouts = rollouts_of({"setWeight": 50}, {"pause": {}})
    with deployed(plane, log=tmp_path / "controller.log"):
        stage.apply(*rollouts.values())
        for name in rollouts:
            stage.until_phase(name, "Healthy")
        stage.apply(*all_of("web:2"))
        for name in rollouts:
            stage.until_phase(name, "Paused")
        for kind, (name, _) in OWN.items():
            stage.until(kind.plural, f"{name}-alone", is_rolled_out)
        in_step = {name: pods(stage, name) for name in rollouts}
    administrator.helm("uninstall")

    assert {name: pods(stage, name) for name in rollouts} == in_step
    assert all(set(images.values()) == {"web:1", "web:2"} for images in in_step.values()), in_step
    commands = [
        *commands_of(test_no_pod_starts_before_the_rollout_begins.__file__, "docs/holds.md"),
        *commands_of(__file__, "docs/workloads-statefulset.md"),
        *commands_of(test_a_daemon_set_stays_one.__file__, "docs/workloads-daemonset.md")[-1:],
    ]
    assert len(commands) == len(OWN)
    for hold in ("AtRest", "Policy"):
        type_in(stage, commands, HOLDS[hold])
    for one in all_of("web:2"):
        done = stage.until(f"{one['kind'].lower()}s", one["metadata"]["name"], is_rolled_out)
        marks = [*done["metadata"].get("labels", ()), *done["metadata"].get("annotations", ())]
        assert [each for each in marks if "rollouts.dev/" in each] == []
    again = json.dumps({"apiVersion": "v1", "kind": "List", "items": all_of("web:2")})
    stage.kubectl("apply", "--server-side", "--force-conflicts", "--field-manager=lab", "-f", "-", input=again)
    assert [left_of_us(stage, kind, hold) for kind in OWN for hold in ("AtRest", "Policy")] == [{}] * 6
    plane.end_in(stage.namespace)
