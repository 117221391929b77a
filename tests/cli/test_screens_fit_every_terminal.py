"""What commands print fits terminals of 60 to 200 columns, with and without colour, and pipes get one line an object."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from rollouts.cli.picture import NOW_S, analysed
from rollouts.cli.terminal.listing import print_drawn, print_line
from rollouts.cli.terminal.parts import Parts
from rollouts.cli.terminal.table import rollout_table
from rollouts.cli.terminal.tree import draw, line, lines_of, weight_bar
from rollouts.cli.view.objects import view_of, wait_line
from rollouts.cli.view.tree import RolloutView
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import RolloutStatus, WaitingFor
from rollouts.objects import Manifest
from tests.cli.drawn_screens import DRAWN, LINES, PIPE, UNDER_WAY, WIDTHS, failed, screen, screens, views
from tests.cli.test_objects_become_a_view import replica_set, seen

STYLES = re.compile(r"\x1b\[[0-9;]*m")
T0, T1 = "2026-11-21T10:00:00Z", "2026-11-21T10:05:00Z"


@pytest.mark.parametrize(("path", "name", "width"), list(screens()), ids=lambda value: getattr(value, "name", None))
def test_a_screen_is_the_one_on_record(path: Path, name: str, width: int) -> None:
    """`python -m tests.cli.drawn_screens` draws them again; somebody looks at the difference."""
    assert screen(name, width) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", DRAWN)
def test_colours_change_no_character(name: str, width: int) -> None:
    """A screen means the same to who cannot see colours."""
    coloured = screen(name, width, colour=True)

    assert "\x1b[" in coloured
    assert [line.rstrip() for line in STYLES.sub("", coloured).splitlines()] == screen(name, width).splitlines()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", [name for name in DRAWN if name.startswith(("get", "plan", "demo"))])
def test_a_picture_stays_inside_the_terminal(name: str, width: int) -> None:
    """A line that the terminal breaks itself destroys a tree's guides and a table's columns."""
    assert max(map(cell_len, screen(name, width).splitlines())) <= width


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", [name for name, each in DRAWN.items() if each.live])
def test_a_live_picture_shows_the_wait_and_what_ends_it(name: str, width: int) -> None:
    """What is below the last of 24 lines is not there. So pods, analyses and Events go first, and the wait stays."""
    said = screen(name, width)

    way = f"→ kubectl rollouts {'retry' if 'Aborted' in said else 'abort'}"
    assert ("WAITING FOR" if name.startswith("list") else way) in said
    assert name.startswith("list") or "#7 f7w2k9xq4c" in said


@pytest.mark.parametrize("width", [PIPE, *WIDTHS])
@pytest.mark.parametrize(("name", "metric", "value"), [
    ("get-held", "latency-p95", "0.7341"), ("get-watch-held", "latency-p95", "0.7341"), ("demo-live", "latency-p95", "0.7341"),
    ("get-failed", "success-rate", "0.9982"), ("get-watch-failed", "success-rate", "0.9982"),
    ("get-watch-crowded", "success-rate", "0.9982"), ("demo-failed", "success-rate", "0.9982"),
])  # fmt: skip
def test_a_failing_analysis_is_on_every_screen_with_its_value_and_why(
    name: str, metric: str, value: str, width: int
) -> None:
    """It is what people look for at that moment: good runs, healthy pods and Events go first, and it never goes."""
    said = " ".join(screen(name, width).replace("│", " ").split())

    assert f"{metric} [{value}]" in said or f"{metric} {value}" in said or width == PIPE
    assert "failed (3) > failureLimit (2): the success condition does not hold: result[0]" in said


@pytest.mark.parametrize("width", [PIPE, *WIDTHS])
@pytest.mark.parametrize(("view", "reason"), [
    (failed(), "RetryNeeded (AnalysisRunFailed), for 3s"), (analysed(), "AnalysisInconclusive, for 55s"),
])  # fmt: skip
def test_a_failing_analysis_is_in_lists_and_lines_too(view: RolloutView, reason: str, width: int) -> None:
    """In a list by its reason; `status`, and what a pipe gets, say which metric it was and why, in one line."""
    out = io.StringIO()
    console = Console(file=out, width=width or 80, height=LINES, force_terminal=bool(width), no_color=True)

    print_drawn(console, rollout_table([view], now_s=NOW_S, wide=False, all_namespaces=False))
    print_line(console, line(view, now_s=NOW_S))

    _, row, said = out.getvalue().splitlines()
    assert row.endswith(reason)
    assert "ended Failed: Metric" in said and "the success condition does not hold: result[0]" in said


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", [name for name in DRAWN if name.startswith(("get", "demo"))])
def test_no_sentence_stands_twice_on_a_screen(name: str, width: int) -> None:
    """The wait, the conditions, the Events and the analyses often have one cause. It is said once."""
    said = " ".join(re.sub("[│├└─]", " ", screen(name, width)).split())
    sentences = (
        "the success condition does not hold",
        "ended Failed",
        "takes its place",
        "waiting for",
        "nodes are available: 12",
    )

    assert [sentence for sentence in sentences if said.count(sentence) > 1] == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", [name for name, each in DRAWN.items() if each.live and name.startswith("get")])
def test_what_is_left_out_leaves_no_empty_lines(name: str, width: int) -> None:
    """Something that would fit is shown: of pods and Events one more, of analyses one more with its metric."""
    shown = len(screen(name, width).splitlines())
    whole = (
        len(screen(name.replace("-watch", ""), width).splitlines()) if name.replace("-watch", "") in DRAWN else LINES
    )

    assert shown >= min(whole, LINES - 1 - 4)


def test_more_pods_are_counted_only_below_some() -> None:
    """`1 more pod` below none makes people look for the first one; where none is shown, all are ready, as the count says."""
    for path, name, width in screens():
        before = ""
        for text in screen(name, width).splitlines():
            assert "more pod" not in text or " cart-" in before or before.endswith("s"), (path, text)
            before = text


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", [name for name in DRAWN if name.startswith("plan")])
def test_a_plan_says_the_same_on_every_terminal_and_breaks_no_word(name: str, width: int) -> None:
    """A narrow terminal gets longer lists, and never columns in which a word takes three lines."""
    words = [{word.strip(",") for word in screen(name, each).split()} for each in (PIPE, width)]

    assert {word for word in words[0] - words[1] if word not in ("SERVICES", "WAITS", "FOR", "SHARE", "%")} == set()
    assert {word for word in words[1] - words[0] if set(word) != {"─"}} == set()


def test_parts_of_a_line_stay_whole_where_they_can() -> None:
    """A mark belongs to its step, and a number to its unit. Only what is longer than a line is broken inside."""
    console = Console(width=12)
    lines = Parts(Text("✔ setWeight 5  50 %   a longer part of it  supercalifragilistic  end")).lines(console, 14)

    assert [line.plain.rstrip() for line in lines] == [
        "✔ setWeight 5", "50 %", "a longer part", "of it", "supercalifragi", "listic", "end",
    ]  # fmt: skip


@pytest.mark.parametrize("width", [PIPE, *WIDTHS])
@pytest.mark.parametrize("name", ["list", "list-all", "list-wide", "list-watch"])
def test_a_list_has_one_line_for_each_rollout_and_cuts_no_name(name: str, width: int) -> None:
    """Whatever the width: a name that is cut cannot be copied, and a broken line cannot be counted."""
    listed = [each.name for each in views() if name == "list-all" or len(each.name) < 20]
    _, *lines = screen(name, width).splitlines()

    assert [line.split()[1 if name == "list-all" else 0] for line in lines] == listed


@pytest.mark.parametrize("width", WIDTHS)
def test_only_the_last_column_of_a_list_goes_beyond_the_edge(width: int) -> None:
    """A narrow terminal is given fewer columns, not shorter ones."""
    header, *_ = screen("list", width).splitlines()

    assert header.index("WAITING FOR") < width - len("WAITING FOR")
    assert header.startswith("NAME ")


def test_a_pipe_gets_every_column_on_one_line_however_long() -> None:
    """`rollouts list | awk` must not depend on who has which window."""
    header, *lines = screen("list", PIPE).splitlines()

    assert header.split() == ["NAME", "PHASE", "STEP", "WEIGHT", "READY", "AGE", "WAITING", "FOR"]
    assert all(len(line.split()) >= 6 for line in lines)


def test_the_bar_shows_what_is_live_beside_what_is_wanted() -> None:
    """A weight that is written is not a weight that is there: the half-filled cells are on their way."""
    assert weight_bar(50, live=25, ascii_only=True).plain == "#####~~~~~.........."
    assert weight_bar(0, live=25, ascii_only=True).plain == "~~~~~..............."
    assert weight_bar(50, live=50, ascii_only=True).plain == "##########.........."


def status(**changes: object) -> Manifest:
    """A canary whose revision `new` is rolled out beside `old`."""
    return {"phase": "Progressing", "currentRevision": "new", "stableRevision": "old", "observedGeneration": 3,
            "startedAt": T0, "stepStartedAt": T1, "currentStepIndex": 2, "replicas": 4, "availableReplicas": 4,
            **changes}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "wanted", "live"),
    [
        ({"weight": 50, "updatedAvailableReplicas": 1}, 50, 25),
        ({"weight": 50, "updatedAvailableReplicas": 0, "availableReplicas": 0}, 50, None),
    ],
)
def test_without_routes_the_weight_is_measured_by_pods(changes: Manifest, wanted: int | None, live: int | None) -> None:
    """Without a router the share is the share of available pods, by the counts that `kubectl get` shows as well."""
    view = view_of(seen(status(**changes), replica_set("new", 2, ready=3), replica_set("old", 1, ready=0)))

    assert (view.split_percent, view.live_percent) == (wanted, live)


@pytest.mark.parametrize(
    ("canary", "pods", "said", "listed"),
    [
        (3, 11, "27 % canary, 73 % stable  3 of 11 pods, the nearest to 25 %", "25%"),
        (2, 10, "now 20 % canary, wanted 25 %", "20%→25%"),  # one canary pod is still to come
        (3, 10, "now 30 % canary, wanted 25 %", "30%→25%"),
    ],
)
def test_a_weight_that_no_ratio_of_pods_has_is_reached_by_the_nearest(
    canary: int, pods: int, said: str, listed: str
) -> None:
    """`27%→25%` for as long as a pause lasts looks like an update that does not get on."""
    counts = {"weight": 25, "replicas": pods, "availableReplicas": pods, "updatedAvailableReplicas": canary}
    view = view_of(seen(status(**counts), spec={"replicas": 10, "strategy": {"canary": {}}}))
    (_, line) = rollout_table([view], now_s=NOW_S, wide=False, all_namespaces=False).lines()

    drawn = io.StringIO()
    print_drawn(Console(file=drawn), draw(view, now_s=NOW_S))
    assert said in drawn.getvalue()
    assert listed in line.plain.split()


@pytest.mark.parametrize(("surge", "ratio"), [(0, "3 of 10 pods"), ("0%", "3 of 10 pods"), (1, ""), ("10%", "")])
def test_without_surge_the_nearest_ratio_is_another(surge: int | str, ratio: str) -> None:
    """As many pods as `replicas`, and no more."""
    counts = {"weight": 25, "availableReplicas": 10, "updatedAvailableReplicas": 3}
    spec = {"replicas": 10, "strategy": {"canary": {"maxSurge": surge, "maxUnavailable": 1}}}

    assert view_of(seen(status(**counts), spec=spec)).nearest_ratio == ratio


@pytest.mark.parametrize("stable", ["", "new"])
def test_a_revision_that_is_alone_has_all_of_the_traffic(stable: str) -> None:
    """`list` shows what `kubectl get` shows, 4/4 and 100 %, and `get` draws no bar: the first revision, or the one at rest."""
    view = view_of(seen(status(weight=100, stableRevision=stable, currentStepIndex=2, updatedAvailableReplicas=1)))
    table = [
        line.plain.split() for line in rollout_table([view], now_s=NOW_S, wide=False, all_namespaces=False).lines()
    ]

    assert dict(zip(*table, strict=False))["STEP"] == "2/2"
    assert dict(zip(*table, strict=False))["WEIGHT"] == "100%"
    assert view.split_percent is None
    assert "weight" not in lines_of(view, NOW_S)[0]


def test_steps_that_never_ran_are_not_ticked() -> None:
    """A revision that was stable before skips them, and so does the first one; both stand behind the last step at once."""
    ran, skipped = view_of(seen(status())), view_of(seen(status(stepStartedAt=T0)))

    assert (ran.steps_skipped, skipped.steps_skipped) == (False, True)
    assert "✔" not in screen("get-first", 120).partition("Pods")[0]
    assert "Steps    skipped: setWeight 25  pause until promoted" in screen("get-first", 120)


@pytest.mark.parametrize(
    ("reason", "message", "gist", "commands"),
    [
        (Reason.PROMOTION_NEEDED, "step 2: waiting for promotion of revision b: rollouts promote cart -n shop",
         "step 2: waiting for promotion of revision b", ["promote cart -n shop"]),
        (Reason.PAUSED_BY_USER, "paused by the annotation rollouts.dev/pause: rollouts resume cart -n shop",
         "paused by the annotation rollouts.dev/pause", ["resume cart -n shop"]),
        (Reason.RETRY_NEEDED, "aborted; to try revision b again: rollouts retry cart -n shop", "aborted", ["retry cart -n shop"]),
        (Reason.ROLLED_BACK, "rolled back; to go forward again: rollouts rollback cart -n shop --to b", "rolled back",
         ["rollback cart -n shop --to b"]),
        (Reason.ANALYSIS_RUNNING, "s; to end it: rollouts analysis terminate r-1 -n shop; to stop: rollouts abort cart -n shop",
         "s", ["analysis terminate r-1 -n shop", "abort cart -n shop"]),
        (Reason.TIMED_PAUSE, "step 2: pause of 5 m", "step 2: pause of 5 m", ["promote cart -n shop"]),
        (Reason.PODS_NOT_AVAILABLE, "waiting for 1 pod", "waiting for 1 pod", ["abort cart -n shop"]),
        (Reason.DRAINING, "waiting for proxies", "waiting for proxies", []),
        (Reason.PODS_NOT_AVAILABLE, "it said: rollouts promote other -n shop", "it said: rollouts promote other -n shop",
         ["abort cart -n shop"]),
    ],
)  # fmt: skip
def test_what_ends_a_wait_stands_below_it(reason: Reason, message: str, gist: str, commands: list[str]) -> None:
    """Nobody should have to look a command up at three in the morning. A text of others cannot name one about another object."""
    line = wait_line(WaitingFor(reason, message, NOW_S, None), UNDER_WAY, namespace="shop", name="cart")

    assert (line.gist, [way.command for way in line.ways]) == (gist, commands)


def test_the_first_revision_cannot_be_aborted_so_nobody_is_told_to() -> None:
    """There is nothing to go back to."""
    wait = WaitingFor(Reason.PODS_NOT_AVAILABLE, "waiting for 4 pods", NOW_S, None)

    assert wait_line(wait, RolloutStatus(current_revision="a"), namespace="shop", name="cart").ways == ()
