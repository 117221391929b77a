"""`rollouts lint` reports all that is wrong, where it is and what mends it, without a cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import yaml

from rollouts.cli.demo.manifests import blue_green_app, canary_app
from tests import build
from tests.cli import broken_manifests as faults
from tests.cli.command_line import CommandLine
from tests.cli.pod_templates import LISTS, PAIRS, Pair
from tests.linted import lint_text

GOOD = yaml.safe_dump_all([*canary_app("shop"), *blue_green_app("shop")])
BAD = """\
apiVersion: v1
kind: Service
metadata: {name: cart}
---
apiVersion: rollouts.dev/v1alpha1
kind: Rollout
metadata:
  name: cart
spec:
  replicas: -1
  selector:
    matchLabels: {app: cart}
  restartAt: 2026-11-21T10:00:00Z
  strategy:
    canary:
      steps:
      - setWeight: 25
      - setWeight: 250
      - pause: {duration: soon}
  template:
    metadata:
      labels: {app: basket}
    spec:
      containers:
      - {name: app, image: "cart:1"}
"""


def test_a_good_file_has_no_problems() -> None:
    """What the demo rolls out passes; other kinds are named as skipped, not silently dropped."""
    report = lint_text(GOOD)

    assert report.problems == []
    assert report.counts == {"Rollout": 2}
    assert report.skipped == ["Service", "Service", "Service"]


def test_every_problem_is_reported_with_its_line_and_path() -> None:
    """All at once: nobody likes to mend one problem to be shown the next."""
    found = {finding.message.split(":")[0]: finding.line for finding in lint_text(BAD).problems}

    assert found["spec.replicas"] == 10
    assert found["spec.strategy.canary.steps[1].setWeight"] == 18
    assert found["spec.strategy.canary.steps[2].pause.duration"] == 19
    assert any(path.startswith(("spec.template.metadata.labels", "spec.selector")) for path in found)
    assert "spec.restartAt" not in found, "a time without quotes is text in Kubernetes' YAML"


UNSAFE = """\
apiVersion: v1
kind: Service
metadata: {name: cart}
spec:
  selector: {app: cart}
  ports: [{port: 80}]
  sessionAffinity: ClientIP
---
apiVersion: rollouts.dev/v1alpha1
kind: Rollout
metadata: {name: cart}
spec:
  selector:
    matchLabels: {app: cart}
  strategy:
    canary: {}
  template:
    metadata:
      labels: {app: cart}
    spec:
      terminationGracePeriodSeconds: 20
      containers:
      - name: app
        image: "cart:1"
        command: [sh, -c, "app | tee /log"]
        lifecycle:
          preStop: {sleep: {seconds: 15}}
---
apiVersion: v1
kind: Service
metadata: {name: other}
spec:
  selector: {app: other}
  ports: [{port: 80}]
  sessionAffinity: ClientIP
"""


def test_what_loses_requests_is_advised_with_its_line() -> None:
    """The checklist needs no cluster; a Service is judged when the file has a Rollout of its pods."""
    report = lint_text(UNSAFE)

    assert report.problems == []
    advice = {(remark.subject, remark.line, remark.message.split(":")[0]) for remark in report.advice}
    assert advice == {
        ("Rollout cart", 23, "unsafe"),  # no readinessProbe: the nearest line is the container's
        ("Rollout cart", 21, "unsafe"),  # 15 s of sleep and 20 s of request
        ("Rollout cart", 25, "unsafe"),  # the shell
        ("Rollout cart", 20, "note"),  # kept connections
        ("Service cart", 7, "warning"),
    }


def test_a_service_of_two_rollouts_is_advised_once() -> None:
    """The same words twice help nobody."""
    other = UNSAFE.split("---\n")[1].replace("name: cart}", "name: cart-2}")

    advice = [remark for remark in lint_text(f"{UNSAFE}---\n{other}").advice if remark.subject == "Service cart"]

    assert len(advice) == 1


def test_advice_does_not_change_the_exit_code(typed: CommandLine) -> None:
    """A pipeline that lints today must not break tomorrow because we know more."""
    file = typed.file(UNSAFE)

    said = typed("lint", "-f", file).out
    assert f"{file}:25: Rollout cart: unsafe: spec.template.spec.containers[0].command: " in said
    assert "1 Rollout checked, no problems, 5 pieces of advice" in said


def test_a_numbers_advice_holds_in_every_cluster() -> None:
    """Offline the least is taken: a sleep of 6 s is enough under kube-proxy's defaults, so nobody is told to make it 130 s."""
    enough = UNSAFE.replace("seconds: 15", "seconds: 6").replace("Seconds: 20", "Seconds: 60")

    assert not [remark for remark in lint_text(enough).advice if "preStop" in remark.message.split(": ")[1]]
    assert [each for each in lint_text(enough.replace("seconds: 6", "seconds: 5")).advice if "6 s are" in each.message]


def test_rollouts_inside_a_list_are_checked() -> None:
    """`kubectl get -o yaml` writes Lists."""
    report = lint_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": list(yaml.safe_load_all(BAD))}))

    assert report.counts["Rollout"] == 1
    assert any(finding.message.startswith("spec.replicas:") for finding in report.problems)


def test_the_command_exits_with_1_for_problems_and_0_without(typed: CommandLine) -> None:
    """CI jobs go by the exit code; people by lines that their editor can jump to."""
    good, bad = typed.file(GOOD, name="good.yaml"), typed.file(BAD, name="bad.yaml")

    typed("lint", "-f", good)
    said = typed("lint", "-f", good, "-f", bad, code=1)
    assert f"{bad}:10: Rollout cart: spec.replicas: " in said.out
    assert "3 Rollouts checked" in said.out
    assert "skipped" in said.err, "words about other kinds do not disturb what a script reads"


def test_a_file_is_parsed_once(typed: CommandLine) -> None:
    """Parsing is most of the time of `lint`: once for the file's own objects and for what others know of them."""
    texts = (GOOD, GOOD.replace("namespace: shop", "namespace: more"))
    files = [typed.file(text, name=f"{at}.yaml") for at, text in enumerate(texts)]
    parsed: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is yaml.reader.Reader.__init__.__code__:
            parsed.append(frame.f_locals["stream"])

    sys.setprofile(note)
    try:
        typed("lint", "-f", files[0], "-f", files[1])
    finally:
        sys.setprofile(None)

    assert parsed == list(texts)


def test_a_file_that_cannot_be_read_is_a_usage_error(typed: CommandLine) -> None:
    """Exit code 1 would say that a Rollout is bad, when none was seen. The words are those of the system, without its numbers."""
    assert typed("lint", "-f", "nothing.yaml", code=2).err.strip() == "error: nothing.yaml: No such file or directory"
    picture = typed.folder / "picture.yaml"
    picture.write_bytes(b"\x89PNG\xff")
    assert typed("lint", "-f", str(picture), code=2).err.strip() == f"error: {picture}: is not UTF-8 text"


def test_what_is_said_comes_in_the_order_of_the_lines(typed: CommandLine) -> None:
    """Problems and advice together, as a compiler has them: a person goes through a file once."""
    file = typed.file(yaml.safe_dump_all([*yaml.safe_load_all(UNSAFE), *yaml.safe_load_all(BAD)]))
    said = [line for line in typed("lint", "-f", file, code=1).out.splitlines() if line.startswith(file)]

    lines = [int(line.removeprefix(f"{file}:").partition(":")[0]) for line in said]
    assert lines == sorted(lines) and len(said) > 8
    assert {line.rpartition(" ")[2] for line in said} >= {"[NoReadinessProbe]", "[SpecInvalid]", "[DuplicateObject]"}


def test_the_file_in_which_nothing_is_broken_passes() -> None:
    """Otherwise the faults below would prove nothing."""
    assert lint_text(yaml.safe_dump_all(faults.GOOD.values())).problems == []
    assert (len(faults.IN_SPEC) >= 30, len(faults.IN_TEMPLATE) >= 15, len(faults.ACROSS) >= 15) == (True, True, True)


@pytest.mark.parametrize("pair", [*PAIRS, *LISTS], ids=lambda each: f"{each.path}={str(each.refused)[:40]}")
def test_what_the_api_server_refuses_in_pods_is_named_where_it_stands(pair: Pair) -> None:
    """Of each pair the API server refuses one and takes the other, as test_lint_agrees_with_the_api_server.py asks it."""
    wrong, right = (
        lint_text(yaml.safe_dump(build.rollout({"canary": {}}, "cart", "shop", template=pair.template(value))))
        for value in (pair.refused, pair.taken)
    )

    assert [problem.message for problem in right.problems] == []
    assert any(problem.message.startswith(f"spec.template.{pair.place}") for problem in wrong.problems), wrong.problems


EXAMPLES = sorted((Path(__file__).parent.parent.parent / "examples").rglob("*.yaml"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.name)
def test_no_example_has_a_fault(example: Path) -> None:
    """People begin with them: with their Services, autoscalers, ConfigMaps and routes, of every router."""
    report = lint_text(example.read_text())

    assert [each.text(example.name) for each in report.problems] == []
    assert report.counts["Rollout"] == 1


@pytest.mark.parametrize("broken", faults.ALL, ids=lambda each: f"{each.kind}-{each.change}={str(each.value)[:20]}")
def test_a_fault_is_named_with_its_path_and_its_fix(broken: faults.Broken) -> None:
    """A person mends it where it stands, before a cluster sees it."""
    told = lint_text(yaml.safe_dump_all(broken.manifests())).problems

    of_it = [
        each.message for each in told if each.subject.startswith(broken.kind) and each.message.startswith(broken.path)
    ]
    assert of_it, [each.message for each in told]
    assert any(broken.words in each for each in of_it), of_it
