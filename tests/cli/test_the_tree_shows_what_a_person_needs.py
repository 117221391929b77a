"""The tree is a pure function of plain values: the same values give the same text, and nothing in them can do harm."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from rollouts.api.times import parse_time
from rollouts.cli.picture import NOW_S, PICTURES, example, svg
from rollouts.cli.terminal.text import plain
from rollouts.cli.terminal.tree import PODS_SHOWN, draw, line, weight_bar
from rollouts.cli.view.objects import RolloutObjects, view_of
from rollouts.cli.view.tree import (
    ConditionLine,
    PodLine,
    RolloutView,
    WaitLine,
    container_use_text,
    percent_text,
    scaling_texts,
)
from rollouts.core.model.frozen import replace
from rollouts.core.model.steps import WeightPercent
from rollouts.objects import Manifest
from tests.cli.test_objects_become_a_view import replica_set, seen


def drawn(thing: RenderableType, *, width: int = 110) -> str:
    """What rich prints, without colours and trailing blanks."""
    console = Console(file=io.StringIO(), record=True, width=width, color_system=None)
    console.print(thing)
    return "".join(f"{text.rstrip()}\n" for text in console.export_text().splitlines())


def picture(view: RolloutView, *, now_s: float = NOW_S, ascii_only: bool = False) -> str:
    """The tree as text."""
    return drawn(draw(view, now_s=now_s, ascii_only=ascii_only))


def test_a_terminal_without_unicode_gets_marks_it_can_show() -> None:
    """Marks carry meaning, so they must not become question marks on a serial console."""
    text = picture(example(), ascii_only=True)

    assert "+ setWeight 25  > pause until promoted  - setWeight 50" in text
    assert "#####..............." in text
    assert not set("✔▶█░·") & set(text)


def waiting(left_s: float) -> WaitLine:
    """A wait with a deadline."""
    return WaitLine("TimedPause", "step 3: pause of 5 m", NOW_S - 10, NOW_S + left_s)


BROKEN = PodLine(name="cart-x-1", created_at_s=NOW_S - 9, ready=False, problem="ImagePullBackOff: no such tag")
WORSE = ConditionLine("Available", "UnavailableReplicas", "fewer than 3 pods are available", NOW_S - 60)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"waiting": waiting(42)}, ["step 3: pause of 5 m (TimedPause), 42s left"]),
        ({"waiting": waiting(0)}, ["step 3: pause of 5 m (TimedPause), overdue by 0s"]),
        ({"waiting": waiting(-30)}, ["step 3: pause of 5 m (TimedPause), overdue by 30s"]),
        ({"revisions": (replace(example().revisions[0], ready=0, pods=(BROKEN,)),)},
         ["✘ cart-x-1  ImagePullBackOff: no such tag  9s", "0/1 ready"]),
        ({"problems": ("spec.replicas: must be 0 or more",), "waiting": None, "phase": "Degraded"},
         ["Spec    ✘ spec.replicas: must be 0 or more"]),
        ({"conditions": (WORSE,)}, ["✘ Available  fewer than 3 pods are available (UnavailableReplicas, since 1m)"]),
        ({"weight_percent": Fraction(1, 2), "live_percent": 0, "traffic": "route beta confirmed"},
         ["\n  Weight   ▒░░░░░░░░░░░░░░░░░░░  now 0 % canary, wanted 0.5 %  route beta confirmed\n"]),
    ],
    ids=["a deadline", "on the deadline", "past the deadline", "a broken pod, in the kubelet's words",
         "a spec waits for its author alone", "what `kubectl wait` would stumble over", "traffic that is not there yet"],
)  # fmt: skip
def test_what_holds_an_update_up_is_told(changes: dict[str, Any], words: list[str]) -> None:
    """Nobody should have to describe pods, or ask for YAML, to see why it stands still."""
    text = picture(replace(example(), **changes))

    assert [each for each in words if each not in text] == []


def test_of_many_pods_those_that_are_not_well_are_shown() -> None:
    """A screen has fifty lines; the one pod that matters among two hundred must be on it."""
    pods = [PodLine(name=f"pod-{n:03}", created_at_s=NOW_S, ready=True) for n in range(200)]
    pods[150] = replace(pods[150], ready=False, problem="CrashLoopBackOff")
    revision = replace(example().revisions[0], pods=tuple(pods))

    text = picture(replace(example(), revisions=(revision,)))

    assert "pod-150  CrashLoopBackOff" in text
    assert f"and {200 - PODS_SHOWN} more pods" in text
    assert text.count("pod-") == PODS_SHOWN


def test_text_of_others_cannot_steer_the_terminal() -> None:
    """Condition messages, images and pod problems are written by whoever may write to the namespace (CWE-150)."""
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m[bold]x[/bold]\nsecond"
    view = replace(
        example(),
        message=evil,
        waiting=WaitLine("Reason", evil, NOW_S, None),
        steps=(evil,),
        step_index=0,
        problems=(),
        revisions=(replace(example().revisions[0], images=(evil,)),),
    )

    text = picture(view)

    assert "\x1b" not in text and "\x07" not in text and "\x9b" not in text
    assert "[bold]x[/bold] second" in text
    assert "\x1b" not in line(view, now_s=NOW_S)


def test_plain_keeps_what_can_be_printed() -> None:
    """Names and messages in any language stay readable."""
    assert plain("größe\t日本 ✔\u202eabc") == "größe 日本 ✔\N{REPLACEMENT CHARACTER}abc"


@pytest.mark.parametrize(("percent", "filled"), [(0, 0), (1, 1), (25, 5), (50, 10), (99, 19), (100, 20)])
def test_the_weight_bar_is_never_full_or_empty_by_rounding(percent: int, filled: int) -> None:
    """1 % must not look like none, and 99 % not like all: that difference is the point of a canary."""
    assert weight_bar(percent, ascii_only=True).plain == "#" * filled + "." * (20 - filled)


def test_one_line_says_the_same_for_logs_and_scripts() -> None:
    """Where there is no terminal, `-w` prints this."""
    assert line(example(), now_s=NOW_S) == (
        "shop/cart Paused, step 2 of 4 (pause until promoted), weight 25 %, pods 4 desired, 4 ready, 4 available, "
        "1 updated: "
        "step 2: waiting for promotion of revision f7w2k9xq4c: rollouts promote cart -n shop (PromotionNeeded), for 1m35s"
    )
    assert "weight 0.5 %" in line(replace(example(), weight_percent=Fraction(1, 2)), now_s=NOW_S)


@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_in_the_docs_are_of_this_tree(name: str) -> None:
    """They come from `python -m rollouts.cli.picture docs/images`, and from nothing else."""
    path = Path(__file__).parents[2] / "docs" / "images" / name

    assert path.read_text(encoding="utf-8") == svg(PICTURES[name]())


@pytest.mark.parametrize(
    ("percent", "text"),
    [
        (0, "0 %"),
        (5, "5 %"),
        (Fraction(1, 2), "0.5 %"),
        (Fraction(100, 3), "33.33 %"),
        (Fraction(1, 10_000), "0.0001 %"),
    ],
)
def test_a_part_of_a_percent_is_shown_as_one(percent: WeightPercent, text: str) -> None:
    """With `maxTrafficWeight: 1000` a weight of 5 is half a percent, and `1/2 %` is nothing that people read."""
    assert percent_text(percent) == text


T0, T1 = "2026-11-21T10:00:00Z", "2026-11-21T10:05:00Z"
AT_S = parse_time("2026-11-21T10:05:30Z")
TOLD: Manifest = {
    "at": T1,
    "autoscalers": [
        {"kind": "HorizontalPodAutoscaler", "name": "keda-hpa-cart", "owner": "ScaledObject cart", "desired": 4, "max": 5,
         "headroomPercent": 20, "settledSince": T0},
        {"kind": "HorizontalPodAutoscaler", "name": "other", "max": 1},
    ],
    "container": "app",
    "resource": "cpu",
    "use": [
        {"revision": "new", "utilizationPercent": 173, "measuredPods": 1, "pods": 1, "measuredAt": T1},
        {"revision": "old", "measuredPods": 2, "pods": 3},
    ],
}  # fmt: skip


def scaled(told: object) -> RolloutObjects:
    """A canary `new` beside `old`, with that in `status.autoscaling`."""
    status = {"currentRevision": "new", "stableRevision": "old", "observedGeneration": 3, "autoscaling": told}
    return seen(status, replica_set("new", 2), replica_set("old", 1))


def test_each_autoscaler_is_told_in_a_line() -> None:
    """Whoever made it is named, because that is what people edit."""
    record = view_of(scaled(TOLD)).scaling

    assert record is not None
    lines = scaling_texts(record, now_s=AT_S)

    assert lines == [
        "autoscaler keda-hpa-cart of ScaledObject cart wants 4 of 5 pods: headroom 20 %, settled for 5m30s (read 30s ago)",
        "autoscaler other does not say how many of 1 pod it wants (read 30s ago)",
    ]


def test_the_use_stands_beside_its_revision() -> None:
    """An average over both would hide which one burns; pods without a sample are counted and not guessed."""
    record = view_of(scaled(TOLD)).scaling

    assert record is not None
    lines = {each.revision: container_use_text(record, each, now_s=AT_S) for each in record.use}

    assert lines == {"new": "app cpu 173 % 30s ago", "old": "app cpu ? (2 of 3 pods measured)"}


def test_a_status_without_it_shows_nothing_of_it() -> None:
    """At rest, and where somebody has spoilt it."""
    for told in (None, "5", {"use": [{"revision": "new"}]}):
        assert view_of(scaled(told)).scaling is None
