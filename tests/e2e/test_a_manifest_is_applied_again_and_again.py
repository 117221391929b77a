"""Promise: a GitOps tool that re-applies a workload's manifest every three seconds and a Rollout that updates it never fight.

Workloads beside them have no such writer: the others end as they do, after the same changes of their specs. Everything that the
API server has stored counts, and the writes of both sides are told by its audit log.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rollouts.objects import DAEMON_SET, DEPLOYMENT, POD, REPLICA_SET, ROLLOUT, SERVICE, STATEFUL_SET, Kind
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
"""Specs that an update may take more, as pods become ready together or one by one; each is told in status by a write besides.
A fight is one each round."""
ONCE = "once"
"""Of whom nobody writes the manifest again."""
VERBS: dict[str, tuple[str, ...]] = {
    "apply": ("apply",),
    "server": ("apply", "--server-side", "--force-conflicts", "--field-manager=git"),
    "replace": ("replace",),
}
"""How a tool writes, by the end of a workload's name."""
LIMITS = {"maxSurge": "25%", "maxUnavailable": "25%"}
STEPPED: Manifest = {"strategy": {"type": "RollingUpdate", "rollingUpdate": LIMITS}, "minReadySeconds": 0}
"""Of a Deployment, the fields of a step as Git has them."""
WORKLOADS = (DEPLOYMENT, STATEFUL_SET, DAEMON_SET)
WRITTEN = {kind.plural for kind in (*WORKLOADS, REPLICA_SET, POD, SERVICE, ROLLOUT)}
"""What counts as a write of either side."""
Sizes = dict[str, int]


@dataclass(frozen=True, kw_only=True)
class Group:
    """Workloads of one kind that are updated in one way, and their pods by image.

    Args:
        own: fields of the spec besides its selector and its template.
        weights: of the two steps.
        canary: what the strategy has besides its steps.
        first, second: pods at the pauses after them.
        aborted, promoted: pods after that.
        verbs: the writers.
    """

    kind: Kind
    own: Manifest
    hold: str = "Policy"
    weights: tuple[int, int] = (25, 50)
    canary: Manifest = field(default_factory=dict)
    at_rest: Sizes = field(default_factory=lambda: {"v1": 4})
    first: Sizes = field(default_factory=lambda: {"v1": 3, "v2": 1})
    aborted: Sizes = field(default_factory=lambda: {"v1": 4})
    second: Sizes = field(default_factory=lambda: {"v1": 2, "v2": 2})
    promoted: Sizes = field(default_factory=lambda: {"v2": 4})
    verbs: tuple[str, ...] = (ONCE, *VERBS)


GROUPS = {
    "ratio": Group(kind=DEPLOYMENT, own={"replicas": 4, **STEPPED}),
    # Their manifests do not name the fields of a step, as docs/workloads.md asks for, so nobody replaces them.
    "rest": Group(kind=DEPLOYMENT, own={"replicas": 4}, hold="AtRest", verbs=(ONCE, "apply", "server")),
    "beside": Group(
        kind=DEPLOYMENT,
        own={"replicas": 4, **STEPPED},
        canary={"trafficRouting": {}, "scaleDownDelaySeconds": 1, "abortScaleDownDelaySeconds": 1},
        first={"v1": 4, "v2": 1},
        second={"v1": 4, "v2": 2},
    ),
    "ordinals": Group(
        kind=STATEFUL_SET,
        own={
            "replicas": 4,
            "serviceName": "pods",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        },
    ),
    "nodes": Group(
        kind=DAEMON_SET,
        own={"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}},
        weights=(20, 60),
        at_rest={"v1": 5},
        first={"v1": 4, "v2": 1},
        aborted={"v1": 4, "v2": 1},
        second={"v1": 2, "v2": 3},
        promoted={"v2": 5},
    ),
}
NAMES = {f"{prefix}-{verb}": group for prefix, group in GROUPS.items() for verb in group.verbs}


def workload(name: str, image: str) -> Manifest:
    """What Git has."""
    group = NAMES[name]
    template = build.pod_template(name, image=image)
    spec = {**group.own, "selector": {"matchLabels": {"app": name}}, "template": template}
    return build.manifest(group.kind, name, spec=spec)


def services(name: str) -> list[Manifest]:
    """For a workload whose strategy has a router: the stable one, and that of the new pods."""
    routed = "trafficRouting" in NAMES[name].canary
    return [build.service(each, app=name) for each in (name, f"{name}-new") if routed]


def rollout(name: str) -> Manifest:
    """The Rollout that steps it."""
    group = NAMES[name]
    first, second = ({"setWeight": weight} for weight in group.weights)
    canary = {**group.canary, "steps": [first, {"pause": {}}, second, {"pause": {}}]}
    if services(name):
        canary |= {"stableService": name, "canaryService": f"{name}-new"}
    reference = {"apiVersion": "apps/v1", "kind": group.kind.kind, "name": name, "mode": "InPlace", "hold": group.hold}
    return build.manifest(ROLLOUT, name, spec={"workloadRef": reference, "strategy": {"canary": canary}})


class Git:
    """Writes the manifests of the workloads whose names end with a verb, again and again."""

    def __init__(self, stage: Stage, verb: str) -> None:
        self.names = [name for name in NAMES if name.endswith(f"-{verb}")]
        self.image = "web:1"
        self.rounds: Counter[str] = Counter()
        self._stage, self.words = stage, VERBS.get(verb, ("apply",))
        self._changed = threading.Condition()

    def once(self) -> None:
        """One write of each."""
        image = self.image
        self.write(image, *self.words)
        with self._changed:
            self.rounds[image] += 1
            self._changed.notify_all()

    def write(self, image: str, *words: str) -> None:
        """`kubectl WORDS -f -`, which may meet a write of somebody else."""
        items = [workload(name, image) for name in self.names]
        if words == VERBS["apply"]:  # the other ways write whole selectors, which docs/gitops.md asks not to
            items += [each for name in self.names for each in services(name)]
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
    account = another_account(control_plane, ACCOUNT, "--set", "workloads={deployments,statefulsets,daemonsets}")
    hold_workloads(control_plane, namespace, *WORKLOADS)
    found = Stage(control_plane, namespace)
    with confined_controller(control_plane, account, namespace, leader_elect=False):
        yield found
        control_plane.end_in(namespace)


def until(stage: Stage, phase: str, pods: Callable[[Group], Sizes], *, step: int | None = None) -> None:
    """Waits until each Rollout is in that phase, and at that step, and its pods are so many of each image."""
    for name, group in NAMES.items():
        wanted = pods(group)

        def holds(one: dict[str, Any], name: str = name, wanted: Sizes = wanted) -> bool:
            status = one.get("status", {})
            there = step is None or status.get("currentStepIndex") == step
            return there and status.get("phase") == phase and by_image(stage, name) == wanted

        stage.until(ROLLOUT.plural, name, holds)


def by_image(stage: Stage, name: str) -> Sizes:
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
    """How many pods a workload has had, by image."""
    return Counter({each["metadata"]["uid"]: image_of(each) for each in pods_of(name, changes)}.values())


def pods_of(name: str, changes: Sequence[dict[str, Any]]) -> list[Manifest]:
    """Of a workload, each as it was after each change."""
    found = [change["object"] for change in changes]
    return [one for one in found if "containers" in one["spec"] and one["metadata"]["labels"]["app"] == name]


def story(name: str, changes: Sequence[dict[str, Any]]) -> str:
    """What became of a workload and its pods, line by line, for who looks for the cause."""
    pods, lines = pods_of(name, changes), [name]
    for change in changes:
        one = change["object"]
        if one in pods:
            at = "deleted" if change["type"] == "DELETED" else "stays" if is_staying(one) else "ends"
            lines.append(f"  pod {name_of(one)} {one['metadata']['uid'][:4]} {image_of(one)} {at}")
        elif name_of(one) == name:
            meta, spec, status = one["metadata"], one["spec"], one.get("status", {})
            step = {
                each: spec.get(each) for each in ("paused", "strategy", "updateStrategy", "replicas") if each in spec
            }
            writers = [each["manager"] for each in meta.get("managedFields", [])]
            lines.append(
                f"  {meta['generation']} {json.dumps(step)} {json.dumps(status)} {meta.get('annotations')} {writers}"
            )
    return "\n".join(lines)


def writes(plane: ControlPlane, since: int, by: Callable[[dict[str, Any]], bool]) -> Counter[str]:
    """Writes that took effect, by the name of the workload: of itself, its ReplicaSets, pods and Services, and its Rollout."""
    found = Counter[str]()
    for event in plane.audit_events(since=since):
        of, code = event.get("objectRef", {}), event.get("responseStatus", {}).get("code", 0)
        if event["verb"] in ("create", "update", "patch", "delete") and code < 300 and by(event):
            name = next((each for each in NAMES if of.get("name", "").startswith(each)), "")
            found[name] += of.get("resource") in WRITTEN
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
    once = Git(stage, ONCE)
    for name in NAMES:
        stage.apply(*services(name))
    for git in (*gits, once):
        git.write("web:1", *(("create",) if git is gits[-1] else git.words))
    stage.apply(*map(rollout, NAMES))
    until(stage, "Healthy", lambda group: group.at_rest)
    since = control_plane.audit_mark()
    with ExitStack() as stack:
        changes = list[dict[str, Any]]()
        stack.enter_context(stage.following("pods", "app", changes.append))
        for kind in WORKLOADS:
            stack.enter_context(stage.following(kind.plural, "", changes.append))
        for git in gits:
            stack.enter_context(meanwhile(git.again_and_again))

        def rounds() -> None:
            for git in gits:
                git.wait()

        rounds()
        until(stage, "Healthy", lambda group: group.at_rest)
        for git in (*gits, once):
            git.image = "web:2"
        once.once()
        until(stage, "Paused", lambda group: group.first)
        rounds()
        until(stage, "Paused", lambda group: group.first)
        order(stage, "abort")
        until(stage, "Aborted", lambda group: group.aborted)
        rounds()
        until(stage, "Aborted", lambda group: group.aborted)
        order(stage, "retry")
        until(stage, "Paused", lambda group: group.first, step=1)
        order(stage, "promote")
        until(stage, "Paused", lambda group: group.second, step=3)
        rounds()
        until(stage, "Paused", lambda group: group.second, step=3)
        order(stage, "promote")
        until(stage, "Healthy", lambda group: group.promoted)
        rounds()
        until(stage, "Healthy", lambda group: group.promoted)

    ours, theirs = writes(control_plane, since, is_ours), writes(control_plane, since, is_gits)
    print(f"writes: ours {dict(ours)}, theirs {dict(theirs)}")
    specs = {name: specs_of(name, changes) for name in NAMES}
    for name in NAMES:
        alike = f"{name.partition('-')[0]}-{ONCE}"
        assert started(name, changes) == started(alike, changes), story(name, changes)
        assert (specs[name][0], specs[name][-1]) == (specs[alike][0], specs[alike][-1]), name
        assert len(specs[name]) <= len(specs[alike]) + MORE, (name, specs)
        assert ours[name] <= ours[alike] + 2 * MORE, (name, ours, theirs)


def specs_of(name: str, changes: Sequence[dict[str, Any]]) -> list[str]:
    """Every spec that the workload has had, one after the other, with its name told as that of all."""
    specs = [json.dumps(one["object"]["spec"], sort_keys=True) for one in changes if name_of(one["object"]) == name]
    return [spec.replace(name, "NAME") for spec, before in zip(specs, ["", *specs], strict=False) if spec != before]


def name_of(one: Manifest) -> str:
    """Of an object."""
    return str(one["metadata"]["name"])


def order(stage: Stage, verb: str) -> None:
    """A person's command to all."""
    for name in NAMES:
        stage.annotate(name, verb, "true")
