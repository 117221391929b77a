"""Promise: a new template of a Deployment that a Rollout updates in place starts no pod before the Rollout begins.

No controller of ours runs here, and the Deployment controller is the real one. Every change of a ReplicaSet and of a pod that the
API server has stored counts.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests import build
from tests.lab.chart import render
from tests.lab.control_plane import ControlPlane
from tests.lab.loopback import wait_for
from tests.pages.blocks import run_by

pytestmark = pytest.mark.controlplane

ROUNDS = 3  # of each verb; with the writers beside each other a hundred changes
WRITERS, WRITES = 8, 12
MARKS: dict[str, dict[str, str | None]] = {
    "labels": {"rollouts.dev/managed": "true", "rollouts.dev/hold": "true"},
    "annotations": {"rollouts.dev/managed-by": "web"},
}


class Workload:
    """A Deployment of three pods at rest, with one revision before it, and its marks."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane, self._namespace = plane, namespace
        self._deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        self._watched = (f"/apis/apps/v1/namespaces/{namespace}/replicasets", f"/api/v1/namespaces/{namespace}/pods")
        for image in ("app:0", "app:1"):
            self.kubectl("apply", "-f", "-", input=json.dumps(self.manifest(image)))
            self.until(_is_complete)
        self.patch({"metadata": MARKS})

    def manifest(self, image: str) -> dict[str, Any]:
        """As its user writes it."""
        template = build.pod_template("web", image=image)
        spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}

    def kubectl(self, *words: str, input: str | None = None) -> None:  # noqa: A002 - as in ControlPlane.kubectl
        """Runs kubectl in the namespace."""
        self.plane.kubectl(*words, "-n", self._namespace, input=input)

    def typed(self, command: str) -> None:
        """Runs a command that a page has for `cart` in namespace `shop`."""
        program, *words = shlex.split(command.replace("cart -n shop", f"web -n {self._namespace}"))
        assert program == "kubectl"
        self.plane.kubectl(*words)

    def patch(self, change: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """The Deployment after a merge patch."""
        return self.plane.patch(f"{self._deployments}/web{'?dryRun=All' if dry_run else ''}", change)

    def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The Deployment, once its controller has acted on the last write and `holds`."""

        def is_observed(one: dict[str, Any]) -> bool:
            return one.get("status", {}).get("observedGeneration", 0) >= one["metadata"]["generation"] and holds(one)

        return self.plane.until(self._deployments, "web", is_observed)

    def at_rest(self) -> list[tuple[str, dict[str, Any]]]:
        """Gives it the template again that its pods have; ReplicaSets and pods as they are then."""
        template = self.manifest("app:1")["spec"]["template"]
        template["metadata"]["annotations"] = None
        self.patch({"metadata": MARKS, "spec": {"template": template, "paused": None}})
        self.patch({"spec": {"paused": None}})  # the first write changed the template, so it was held, too
        assert not self.until(lambda _: True)["spec"].get("paused")
        return self.seen()

    def seen(self) -> list[tuple[str, dict[str, Any]]]:
        """ReplicaSets and pods as they are now."""
        return [(path, self.plane.api.get(path).raise_for_status().json()) for path in self._watched]

    def made(self, rest: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, str]]:
        """What became of ReplicaSets and pods since it was at rest: those that were made, deleted or resized."""
        found = []
        for path, listed in rest:
            sizes = {one["metadata"]["uid"]: one["spec"].get("replicas") for one in listed["items"]}
            since = listed["metadata"]["resourceVersion"]
            last = f"{path}/{listed['items'][0]['metadata']['name']}"
            self.plane.patch(last, {"metadata": {"annotations": {"last": since}}})
            with self.plane.watch(path, timeout_s=30, resourceVersion=since) as events:
                for event in events:
                    kind, one = event["type"], event["object"]
                    if one["metadata"].get("annotations", {}).get("last") == since:
                        break
                    if kind != "MODIFIED" or one["spec"].get("replicas") != sizes.get(one["metadata"]["uid"]):
                        found.append((kind, one["metadata"]["name"]))
                else:
                    raise AssertionError(f"the last event of {path} did not come")
        return found


@pytest.fixture(scope="module")
def workload(control_plane: ControlPlane) -> Iterator[Workload]:
    """In a namespace with the chart's policies for it alone, once they are effective: that takes a second."""
    with control_plane.fresh_namespace(stays=True) as namespace:
        values = f"workloads={{deployments}},watchNamespaces={{{namespace}}},fullnameOverride={namespace}"
        rendered = render(Path(control_plane.programs, "helm"), "--set", values)
        control_plane.apply(*(one for one in rendered if ".hold-" in one["metadata"]["name"]))
        found = Workload(control_plane, namespace)
        probe = {"spec": {"template": {"metadata": {"annotations": {"probe": "1"}}}}}
        wait_for(lambda: found.patch(probe, dry_run=True)["spec"].get("paused"), "the policy")
        yield found


Verb = Callable[[Workload, str], object]


def _manifest(*words: str) -> Verb:
    return lambda one, image: one.kubectl(*words, "-f", "-", input=json.dumps(one.manifest(image)))


def _replace(one: Workload, image: str) -> None:
    """Again where its controller wrote between kubectl's read and its write: kubectl does not retry a conflict."""
    while True:
        try:
            return one.kubectl("replace", "-f", "-", input=json.dumps(one.manifest(image)))
        except AssertionError as failure:
            if "Error from server (Conflict)" not in str(failure):
                raise


def _patch(**metadata: Any) -> Verb:
    return lambda one, image: one.patch(
        {"metadata": metadata, "spec": {"template": one.manifest(image)["spec"]["template"]}}
    )


VERBS: dict[str, tuple[Verb, ...]] = {
    "apply": (_manifest("apply"),),
    "apply on the server": (_manifest("apply", "--server-side", "--force-conflicts"),),
    "replace": (_replace,),
    "replace twice": (_replace, _replace),
    "set image": (lambda one, image: one.kubectl("set", "image", "deployment/web", f"app={image}"),),
    "undo": (lambda one, _: one.kubectl("rollout", "undo", "deployment/web"),),
    "restart": (lambda one, _: one.kubectl("rollout", "restart", "deployment/web"),),
    "patch": (_patch(),),
    "patch that takes the label off": (_patch(labels={"rollouts.dev/hold": None}),),
}


@pytest.mark.parametrize("verb", VERBS)
def test_no_write_of_a_template_starts_a_pod(workload: Workload, verb: str) -> None:
    """It pauses the Deployment in itself: nothing has to react."""
    rest, held = workload.at_rest(), []
    for number in range(ROUNDS):
        for write in VERBS[verb]:
            write(workload, f"app:{number + 2}")
        held.append(workload.until(lambda _: True)["spec"].get("paused"))
        workload.at_rest()

    assert held == [True] * ROUNDS
    assert workload.made(rest) == []


def test_eight_writers_at_once_start_no_pod(workload: Workload) -> None:
    """However they meet, each write is held by itself."""
    rest = workload.at_rest()

    def write(number: int) -> list[bool]:
        images = (f"app:{number}-{each}" for each in range(WRITES))
        return [_patched_alone(workload, image)["spec"].get("paused") for image in images]

    with ThreadPoolExecutor(WRITERS) as writers:
        held = [each for paused in writers.map(write, range(WRITERS)) for each in paused]
    workload.at_rest()

    assert held == [True] * WRITERS * WRITES
    assert workload.made(rest) == []


def _patched_alone(workload: Workload, image: str) -> dict[str, Any]:
    return workload.patch({"spec": {"template": workload.manifest(image)["spec"]["template"]}})


def test_sizes_and_autoscalers_are_not_held(workload: Workload) -> None:
    """They write the subresource `scale`, and pods of the revision that is there follow."""
    rest = workload.at_rest()

    workload.kubectl("scale", "deployment/web", "--replicas=4")
    scaled = workload.until(lambda one: one["status"].get("availableReplicas") == 4)
    made = [kind for kind, _ in workload.made(rest) if kind != "MODIFIED"]
    workload.kubectl("scale", "deployment/web", "--replicas=3")
    workload.until(lambda one: one["status"].get("replicas") == 3)

    assert not scaled["spec"].get("paused")
    assert made == ["ADDED"]


def test_a_dry_run_tells_whether_the_hold_works(workload: Workload) -> None:
    """Nothing is stored. Without the label nothing holds the Deployment, and the dry run tells that, too."""
    workload.at_rest()
    question = {"spec": {"template": {"metadata": {"annotations": {"rollouts.dev/hold-question": "1"}}}}}

    with_label = workload.patch(question, dry_run=True)["spec"].get("paused")
    workload.patch({"metadata": {"labels": {"rollouts.dev/hold": None}}})
    without = workload.patch(question, dry_run=True)["spec"].get("paused")

    assert (with_label, without) == (True, None)
    assert "annotations" not in workload.until(lambda _: True)["spec"]["template"]["metadata"]


STEP = {"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}, "minReadySeconds": 2**31 - 2}
HELD: dict[str, Any] = {
    "metadata": {"annotations": {"rollouts.dev/held": "1"}},
    "spec": {"progressDeadlineSeconds": 2**31 - 1, **STEP},
}
"""The controller's first step of an update: one new pod beside three."""


def test_manifests_that_are_applied_again_in_a_step_move_no_pod(workload: Workload) -> None:
    """They name other limits, as Git does, and the Deployment controller would follow them. From here on pods follow."""
    workload.at_rest()
    workload.kubectl("set", "image", "deployment/web", "app=app:7")
    workload.patch({**HELD, "spec": {**HELD["spec"], "paused": None}})
    in_step = workload.until(lambda one: one["status"].get("updatedReplicas") == 1 and one["status"]["replicas"] == 4)
    rest = workload.seen()

    for words in (("apply",), ("apply", "--server-side", "--force-conflicts"), ("replace",)):
        manifest = workload.manifest("app:7")
        manifest["spec"] |= {"strategy": {"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 3}}, "minReadySeconds": 0}
        workload.kubectl(*words, "-f", "-", input=json.dumps(manifest))

    after = workload.until(lambda _: True)
    assert after["spec"] == in_step["spec"]
    assert after["metadata"]["annotations"]["rollouts.dev/held"] == "1"
    assert workload.made(rest) == []
    ended = {"rollouts.dev/held": None}
    workload.patch({"metadata": {"annotations": ended}, "spec": {"minReadySeconds": None, "strategy": None}})
    workload.until(_is_complete)


def test_a_held_template_goes_on_when_somebody_resumes_it(workload: Workload) -> None:
    """`kubectl rollout resume` before an update has begun."""
    workload.at_rest()
    workload.kubectl("set", "image", "deployment/web", "app=app:8")
    held = workload.until(lambda _: True)

    workload.kubectl("rollout", "resume", "deployment/web")

    assert (held["spec"]["paused"], held["status"].get("updatedReplicas", 0)) == (True, 0)
    workload.until(_is_complete)


def test_the_commands_of_the_page_take_it_out_of_an_update(workload: Workload) -> None:
    """`kubectl rollout resume` alone is refused in an update, and the refusal says so."""
    workload.patch({"metadata": MARKS})
    workload.kubectl("set", "image", "deployment/web", "app=app:9")
    step = {"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}, "minReadySeconds": 2**31 - 2}
    held = {
        "metadata": {"annotations": {"rollouts.dev/held": "1"}},
        "spec": {"progressDeadlineSeconds": 2**31 - 1, **step},
    }
    workload.patch(held)

    with pytest.raises(AssertionError, match="has paused this Deployment: use kubectl rollouts"):
        workload.kubectl("rollout", "resume", "deployment/web")
    for block in run_by(__file__):
        for each in block.exchanges:
            workload.typed(each.command)

    done = workload.until(_is_complete)
    marks = [*done["metadata"].get("labels", ()), *done["metadata"]["annotations"]]
    assert [each for each in marks if each.startswith("rollouts.dev/")] == []
    assert (done["spec"].get("minReadySeconds", 0), done["spec"]["progressDeadlineSeconds"]) == (0, 600)
    assert done["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": "25%", "maxUnavailable": "25%"}


def _is_complete(one: dict[str, Any]) -> bool:
    return bool(one["status"].get("updatedReplicas") == 3 == one["status"].get("replicas"))
