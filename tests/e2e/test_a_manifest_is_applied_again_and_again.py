"""Promise: a GitOps tool that re-applies a Deployment's manifest every three seconds and a Rollout that updates it never fight.

Deployments beside them have no such writer: the others end as they do, after the same changes of their specs. Everything that the
API server has stored counts, and the writes of both sides are told by its audit log.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rollouts.objects import DEPLOYMENT, ROLLOUT
from tests import build
from tests.e2e.controllers import confined_controller
from tests.e2e.manifests import Manifest
from tests.e2e.stage import Stage
from tests.lab.chart import RELEASE_NAMESPACE, another_account, hold_workloads
from tests.lab.control_plane import ControlPlane
from tests.lab.loopback import meanwhile

pytestmark = pytest.mark.controlplane

ACCOUNT = "updates-beside-git"
EVERY_S = 3
ROUNDS = 2
"""Of each writer, in each phase."""
MORE = 3
"""Writes of ours that a promotion may take more, as pods become ready together or one by one. A fight is one each round."""
VERBS: dict[str, tuple[str, ...]] = {
    "apply": ("apply",),
    "server": ("apply", "--server-side", "--force-conflicts", "--field-manager=git"),
    "replace": ("replace",),
}
"""How a tool writes, by the end of a Deployment's name."""
UNDISTURBED = "policy-once"
BY_POLICY = (UNDISTURBED, "policy-apply", "policy-server", "policy-replace")
AT_REST = ("rest-once", "rest-apply", "rest-server")
"""Paused at rest, without a policy: their manifests do not name the fields of a step, as docs/workloads.md asks for."""
NAMES = (*BY_POLICY, *AT_REST)
LIMITS = {"maxSurge": "25%", "maxUnavailable": "25%"}
STEPS: list[Manifest] = [{"setWeight": 25}, {"pause": {}}, {"setWeight": 50}, {"pause": {}}]


def deployment(name: str, image: str) -> Manifest:
    """What Git has."""
    named = {"strategy": {"type": "RollingUpdate", "rollingUpdate": LIMITS}, "minReadySeconds": 0}
    spec = {
        "replicas": 4,
        "selector": {"matchLabels": {"app": name}},
        "template": build.pod_template(name, image=image),
        **(named if name in BY_POLICY else {}),
    }
    return build.manifest(DEPLOYMENT, name, spec=spec)


def rollout(name: str) -> Manifest:
    """The Rollout that steps it."""
    hold = "Policy" if name in BY_POLICY else "AtRest"
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "mode": "InPlace", "hold": hold}
    return build.manifest(ROLLOUT, name, spec={"workloadRef": reference, "strategy": {"canary": {"steps": STEPS}}})


class Git:
    """Writes the manifests of the Deployments whose names end with a verb, again and again."""

    def __init__(self, stage: Stage, verb: str) -> None:
        self.names = [name for name in NAMES if name.endswith(f"-{verb}")]
        self.image = "web:1"
        self.rounds: Counter[str] = Counter()
        self._stage, self._words = stage, VERBS.get(verb, ("apply",))
        self._changed = threading.Condition()

    def once(self) -> None:
        """One write of each."""
        image = self.image
        self.write(image, *self._words)
        with self._changed:
            self.rounds[image] += 1
            self._changed.notify_all()

    def write(self, image: str, *words: str) -> None:
        """`kubectl WORDS -f -`, which may meet a write of somebody else."""
        items = [deployment(name, image) for name in self.names]
        listed = {"apiVersion": "v1", "kind": "List", "items": items}
        command = (*words, "-f", "-", "-n", self._stage.namespace)
        done = self._stage.plane.kubectl(*command, input=json.dumps(listed), check=False)
        assert done.returncode == 0 or "(Conflict)" in done.stderr, done.stderr  # the next round comes

    def again_and_again(self, over: threading.Event) -> None:
        """A round every three seconds."""
        while not over.wait(EVERY_S):
            self.once()

    def wait(self, rounds: int = ROUNDS) -> None:
        """Waits for so many more."""
        with self._changed:
            before = self.rounds.total()
            assert self._changed.wait_for(lambda: self.rounds.total() >= before + rounds, timeout=60)


@pytest.fixture
def stage(control_plane: ControlPlane, controller_kubeconfig: Path, namespace: str) -> Iterator[Stage]:
    """With a controller, and the policies of the chart once they are effective."""
    assert controller_kubeconfig.exists()
    account = another_account(control_plane, ACCOUNT, "--set", "workloads={deployments}")
    hold_workloads(control_plane, namespace, DEPLOYMENT)
    found = Stage(control_plane, namespace)
    with confined_controller(control_plane, account, namespace, leader_elect=False):
        yield found
        control_plane.end_in(namespace)


def until(stage: Stage, phase: str, names: Sequence[str] = NAMES, *, step: int | None = None, **sizes: int) -> None:
    """Waits until each Rollout is in that phase, and at that step, and its pods are so many of each image, all of them ready."""
    for name in names:

        def holds(one: dict[str, Any], name: str = name) -> bool:
            status = one.get("status", {})
            there = step is None or status.get("currentStepIndex") == step
            return there and status.get("phase") == phase and by_image(stage, name) == sizes

        stage.until(ROLLOUT.plural, name, holds)


def by_image(stage: Stage, name: str) -> dict[str, int]:
    """Pods that stay, by image."""
    return dict(Counter(image_of(each) for each in stage.all("pods", f"app={name}") if is_staying(each)))


def is_staying(pod: Manifest) -> bool:
    """Whether nobody has deleted it."""
    return "deletionTimestamp" not in pod["metadata"]


def image_of(pod: Manifest) -> str:
    """`v2` for `web:2`."""
    image: str = pod["spec"]["containers"][0]["image"]
    return f"v{image.removeprefix('web:')}"


def started(name: str, changes: Sequence[dict[str, Any]]) -> Counter[str]:
    """How many pods a Deployment has had, by image."""
    pods = [change["object"] for change in changes if change["object"]["metadata"]["labels"]["app"] == name]
    return Counter({each["metadata"]["uid"]: image_of(each) for each in pods}.values())


def writes(plane: ControlPlane, since: int, by: Callable[[dict[str, Any]], bool]) -> Counter[str]:
    """Writes that took effect, by the name of the Deployment: of itself, its ReplicaSets and its Rollout."""
    found = Counter[str]()
    for event in plane.audit_events(since=since):
        of, code = event.get("objectRef", {}), event.get("responseStatus", {}).get("code", 0)
        if event["verb"] in ("create", "update", "patch", "delete") and code < 300 and by(event):
            name = next((each for each in NAMES if of.get("name", "").startswith(each)), "")
            found[name] += of.get("resource") in ("deployments", "replicasets", "rollouts")
    return found


def is_ours(event: dict[str, Any]) -> bool:
    """Whether the controller has sent it."""
    return bool(event["user"].get("username") == f"system:serviceaccount:{RELEASE_NAMESPACE}:{ACCOUNT}")


def is_gits(event: dict[str, Any]) -> bool:
    """Whether kubectl has."""
    return bool(event.get("userAgent", "").startswith("kubectl/"))


def test_a_whole_update_beside_a_writer(stage: Stage, control_plane: ControlPlane) -> None:
    """At rest, in a step, after an abort, at the next pause and after the promotion, two rounds of each writer."""
    gits = [Git(stage, verb) for verb in VERBS]
    once = Git(stage, "once")
    for git in gits:
        git.write("web:1", *(("create",) if git.names[0].endswith("replace") else git._words))
    once.once()
    stage.apply(*(rollout(name) for name in NAMES))
    until(stage, "Healthy", v1=4)
    since = control_plane.audit_mark()
    with ExitStack() as stack:
        pods, deployments = list[dict[str, Any]](), list[dict[str, Any]]()
        stack.enter_context(stage.following("pods", "app", pods.append))
        stack.enter_context(stage.following("deployments", "", deployments.append))
        for git in gits:
            stack.enter_context(meanwhile(git.again_and_again))

        def rounds() -> None:
            for git in gits:
                git.wait()

        rounds()
        until(stage, "Healthy", v1=4)
        for git in (*gits, once):
            git.image = "web:2"
        once.once()
        until(stage, "Paused", v1=3, v2=1)
        rounds()
        until(stage, "Paused", v1=3, v2=1)
        order(stage, "abort")
        until(stage, "Aborted", v1=4)
        rounds()
        until(stage, "Aborted", v1=4)
        order(stage, "retry")
        until(stage, "Paused", step=1, v1=3, v2=1)
        order(stage, "promote")
        until(stage, "Paused", step=3, v1=2, v2=2)
        rounds()
        until(stage, "Paused", step=3, v1=2, v2=2)
        order(stage, "promote")
        until(stage, "Healthy", v2=4)
        rounds()
        until(stage, "Healthy", v2=4)

    ours, theirs = writes(control_plane, since, is_ours), writes(control_plane, since, is_gits)
    print(f"writes: ours {dict(ours)}, theirs {dict(theirs)}")
    specs = {name: specs_of(name, deployments) for name in NAMES}
    for name in NAMES:
        alike = UNDISTURBED if name in BY_POLICY else "rest-once"
        assert started(name, pods) == started(alike, pods), name
        assert (specs[name][0], specs[name][-1]) == (specs[alike][0], specs[alike][-1]), name
        assert len(specs[name]) <= len(specs[alike]) + MORE, (name, specs)
        assert ours[name] <= ours[alike] + MORE, (name, ours, theirs)


def specs_of(name: str, changes: Sequence[dict[str, Any]]) -> list[str]:
    """Every spec that the Deployment has had, one after the other, with its name told as that of all."""
    specs = [json.dumps(one["object"]["spec"], sort_keys=True) for one in changes if name_of(one["object"]) == name]
    return [spec.replace(name, "NAME") for spec, before in zip(specs, ["", *specs], strict=False) if spec != before]


def name_of(one: Manifest) -> str:
    """Of an object."""
    return str(one["metadata"]["name"])


def order(stage: Stage, verb: str) -> None:
    """A person's command to all."""
    for name in NAMES:
        stage.annotate(name, verb, "true")
