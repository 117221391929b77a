"""Promise: an AnalysisRun is shown with what it is about, its values beside their conditions, its counts and its trend."""

from __future__ import annotations

import pytest

from rollouts.cli.picture import example
from rollouts.cli.terminal.runs import RUNS_SHOWN, draw_run, runs_table, sparkline
from rollouts.cli.terminal.text import ASCII_MARKS, MARKS
from rollouts.cli.terminal.tree import draw, lines_of
from rollouts.cli.view.objects import RolloutObjects, is_run_about, view_of
from rollouts.cli.view.runs import run_line, run_text
from rollouts.core.analysis.measurement import RunStatus
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace
from rollouts.objects import Manifest
from tests.cli.runs import BAD, FAILED, GOOD, NOW_S, RUNNING, measurement, metric, result, run
from tests.cli.test_objects_become_a_view import replica_set, seen
from tests.cli.test_the_tree_shows_what_a_person_needs import drawn

DRY = result(measurement("[9]", FAILED), name="errors", dry_run=True)
WITH_A_DRY_RUN = run(status=replace(GOOD, results=(*GOOD.results, DRY)), metrics=[metric(), metric("errors")])


def lines(*runs: Manifest, ascii_only: bool = False, passed: bool = False, unjudged: bool = False) -> list[str]:
    """The part of the tree that is about runs."""
    found = tuple(replace(run_line(each), passed=passed, unjudged=unjudged) for each in runs)
    revision = replace(example().revisions[0], runs=found, pods=())
    text = drawn(draw(replace(example(), revisions=(revision,)), now_s=NOW_S, ascii_only=ascii_only), width=200)
    tree = text.partition("1.5.0\n")[2].partition("  Events")[0]
    return [line.strip("│├└─ ") for line in tree.splitlines()]


def test_a_running_analysis_shows_each_value_beside_its_condition() -> None:
    """One look answers: what is measured, what must it be, how did it go so far."""
    assert lines(run(status=RUNNING)) == [
        "▶ analysis of step 2  Running  for 1m12s  cart-newrev-step-1",
        "▶ success-rate  [0.999]  result[0] >= 0.99  ▆▁█  2 successful, 1 failed of 10",
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("[0.9765100779106463]", "[0.97651]"),
        ("0.33333333", "0.333333"),
        ("-123456.7890123", "-123457"),
        ("[0.00000123456789]", "[1.23457e-06]"),
        ("[0.9982]", "[0.9982]"),
        ("[12345678]", "[12345678]"),
        ("[12345678.12345678]", "[12345678.12345678]"),
        ("[0.12345678, 1]", "[0.12345678, 1]"),
    ],
)
def test_a_number_with_many_digits_is_rounded_in_the_tree(value: str, shown: str) -> None:
    """Sixteen digits push the condition off the line; the list of measurements has them all."""
    status = replace(RUNNING, results=(result(measurement(value)),))

    assert lines(run(status=status))[1].startswith(f"▶ success-rate  {shown}  result[0]")


def test_a_verdict_says_why() -> None:
    """Of a failed metric its own reason, once, and of a run that could not be measured at all the run's."""
    broken = RunStatus(phase=AnalysisPhase.ERROR, message="spec.metrics[0].provider: is required", completed_at_s=NOW_S)

    assert lines(run(status=BAD))[1].endswith("1 failed  failed (1) > failureLimit (0)")
    assert len(lines(run(status=BAD))) == 2
    assert lines(run(status=broken)) == [
        "✘ analysis of step 2  Error  never began  cart-newrev-step-1",
        "· success-rate  not measured yet  result[0] >= 0.99",
        "spec.metrics[0].provider: is required",
    ]


@pytest.mark.parametrize(
    ("shown", "at", "words"),
    [
        (lines(WITH_A_DRY_RUN), 0, "✔ analysis of step 2  Successful  took 1m, 30s ago"),
        # one that fails must not look like the reason of an abort
        (lines(WITH_A_DRY_RUN), 2, "▶ errors (dry run)  [9]"),
        # else nobody understands why an update goes on after a failure
        (lines(run(status=RUNNING, terminate=True)), 0, "Running  ending  for 1m12s"),
        (lines(run(status=BAD), passed=True), 0, "Failed  promoted past it  took"),
        (lines(run(status=BAD), unjudged=True), 0, "Failed  passed without a verdict  took"),
        (lines(run(status=RUNNING), ascii_only=True), 0, "> analysis of step 2"),
        (lines(run(status=RUNNING), ascii_only=True), 1, "  *_#  2 successful"),
    ],
)
def test_what_is_special_about_a_run_is_marked(shown: list[str], at: int, words: str) -> None:
    """Whatever marks the terminal can show."""
    assert words in shown[at]


def test_many_runs_of_one_revision_do_not_fill_the_screen() -> None:
    """The newest are shown, with those that are not over first."""
    shown = lines(*(run(f"run-{number}", status=GOOD) for number in range(RUNS_SHOWN + 2)))

    assert len([line for line in shown if "analysis of step" in line]) == RUNS_SHOWN
    assert shown[-1] == "… and 2 more analysis runs"


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        (["[0]", "[0.5]", "[1]"], "▁▅█"),
        (["0.2", "[0.1]"], "█▁"),
        (["[3]", "[3]"], "▅▅"),
        (["[1]", "NaN", "[1, 2]", "", "[2]"], "▁···█"),
        (["[-1e308]", "[1e308]"], "▁█"),
        (["NaN", ""], ""),
        ([], ""),
    ],
)
def test_a_trend_has_a_bar_for_each_single_number(values: list[str], bars: str) -> None:
    """What is no number leaves a dot in its place, so that time stays readable; a scale needs no zero."""
    status = replace(RUNNING, results=(result(*(measurement(value) for value in values)),))
    line = run_line(run(status=status)).metrics[0]

    assert sparkline(line.measurements, marks=MARKS).plain == bars
    assert set(sparkline(line.measurements, marks=ASCII_MARKS).plain) <= set(ASCII_MARKS.levels + ASCII_MARKS.dot)


@pytest.mark.parametrize(
    ("labels", "owned", "about"),
    [
        ({"rollouts.dev/analysis": "step", "rollouts.dev/step": "0"}, True, "analysis of step 1"),
        ({"rollouts.dev/analysis": "background"}, True, "background analysis"),
        ({"rollouts.dev/analysis": "pre-promotion"}, True, "analysis before promotion"),
        ({"rollouts.dev/analysis": "post-promotion"}, True, "analysis after promotion"),
        ({"rollouts.dev/analysis": "step", "rollouts.dev/step": "x"}, True, "analysis by hand"),
        ({"rollouts.dev/analysis": "background"}, False, "analysis by hand"),
        ({}, False, "analysis by hand"),
    ],
)
def test_what_a_run_is_about_is_believed_of_its_owner_alone(labels: dict[str, str], owned: bool, about: str) -> None:
    """A label proves nothing: a run that somebody made and labelled must not look like the gate of an update."""
    assert run_line(run(labels=labels, owned=owned)).about == about


def test_conditions_have_the_values_of_their_arguments() -> None:
    """`result[0] >= {{args.least}}` tells nobody what must be true; an argument from a Secret stays a name."""
    condition = {"successCondition": "result[0] >= {{ args.least }}", "failureCondition": "result[0] < {{args.hidden}}"}
    hidden = {"name": "hidden", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    args = [{"name": "least", "value": "0.9"}, hidden]

    line = run_line(run(metrics=[metric(**condition)], args=args))

    assert line.metrics[0].condition == "result[0] >= 0.9, not: result[0] < {{args.hidden}}"


def test_evidence_of_pods_is_told_in_words() -> None:
    """Their provider has no condition in the template, and three numbers without names say nothing."""
    status = replace(RUNNING, results=(result(measurement("[1, 4, 5]", FAILED), measurement("")),))
    pods = metric(provider={"kubernetes": {"minReadyPercent": "{{args.least}}"}}, successCondition=None)

    line = run_line(run(status=status, metrics=[pods], args=[{"name": "least", "value": "90"}])).metrics[0]

    assert line.condition == "restarts <= 0, ready >= 90 %"
    assert [(each.value, each.number) for each in line.measurements] == [("1 restart, 4/5 ready", 1.0), ("", None)]


def test_a_comparison_shows_both_arms_and_how_far_the_evidence_is() -> None:
    """While it is undecided, nobody else can say why it takes so long."""
    value = "canary 4.8 % · stable 0.2 % · evidence 12.4 of 20"
    why = "undecided after 3 looks: it looks worse"
    looked = measurement(value, AnalysisPhase.PENDING, message=why)
    compared = {"canary": "{{args.latest}}", "stable": "5d8b", "effect": "{{args.effect}}"}
    errors = metric("errors", provider={"compare": compared}, successCondition=None)
    status = replace(RUNNING, results=(result(looked, name="errors", count=0, message=why),))

    found = lines(run(status=status, metrics=[errors], args=[{"name": "effect", "value": "1%"}]))

    assert found[1] == f"▶ errors  {value}  not worse than stable by more than 1%, alpha 0.05  {why}"


@pytest.mark.parametrize(
    ("condition", "value", "number"),
    [
        ("result.utilizationPercent <= 90", "utilizationPercent=131", 131.0),
        ("result.pods > 2 && result.value < 1", "value=1.31 pods=2", 1.31),
        ("result.settled", "settled=true", None),
        ("result.other", "utilizationPercent=131", 131.0),
    ],
)
def test_of_numbers_with_names_those_are_shown_that_decide(condition: str, value: str, number: float | None) -> None:
    """A line has no room for all of them; `analysis get RUN -o json` has them."""
    told = "utilizationPercent=131 value=1.31 pods=2 settled=true"
    status = replace(RUNNING, results=(result(measurement(told), measurement("")),))

    line = run_line(run(status=status, metrics=[metric(successCondition=condition)])).metrics[0]

    assert [(each.value, each.number) for each in line.measurements] == [(value, number), ("", None)]


@pytest.mark.parametrize(
    "manifest",
    [
        {"metadata": {"name": "one"}},
        {"metadata": {"name": "one", "labels": "none", "ownerReferences": [7]}, "spec": "none", "status": 7},
        {"metadata": {"name": "one"}, "spec": {"metrics": [{"name": 7, "count": [], "successCondition": 3}, 9]}},
        {"metadata": {"name": "one"}, "spec": {"metrics": [metric()], "args": [{"name": "x", "value": {}}]}},
    ],
)
def test_a_run_that_cannot_be_read_is_still_drawn(manifest: Manifest) -> None:
    """Anybody with edit rights may have written nonsense there."""
    line = run_line(manifest)

    assert (line.name, line.phase, line.about) == ("one", AnalysisPhase.PENDING, "analysis by hand")
    assert "one" in drawn(draw_run(line, now_s=NOW_S))


def test_text_of_others_cannot_steer_the_terminal() -> None:
    """Metrics' names, conditions and messages are written by whoever may write to the namespace (CWE-150)."""
    evil = "\x1b]0;owned\x07\x9b31m[bold]x[/bold]"
    bad = result(measurement(evil, FAILED, message=evil), name=evil, message=evil, phase=FAILED)
    status = replace(BAD, message=evil, results=(bad,))
    line = run_line(run(evil, status=status, metrics=[metric(evil, successCondition=evil)]))

    revision = replace(example().revisions[0], runs=(line,))
    view = replace(example(), revisions=(revision,))
    shown = (
        drawn(draw(view, now_s=NOW_S)) + drawn(draw_run(line, now_s=NOW_S), width=300)
        + drawn(runs_table([line], now_s=NOW_S, all_namespaces=True), width=300) + "".join(lines_of(view, now_s=NOW_S))
    )  # fmt: skip

    assert not {"\x1b", "\x07", "\x9b"} & set(shown)
    assert "[bold]x[/bold]" in shown


def test_one_run_is_shown_with_its_measurements_newest_first() -> None:
    """Who asks why an update stands still wants to see the numbers that decided it."""
    text = drawn(draw_run(run_line(run(status=RUNNING)), now_s=NOW_S), width=140)

    assert "  Rollout  cart, revision newrev" in text
    rows = [line.split() for line in text.splitlines() if line.endswith(("-", "hold"))]
    assert [(row[0], row[2], row[3]) for row in rows if row[0] != "success-rate"] == [
        ("10s", "Successful", "[0.999]"),
        ("40s", "Failed", "[0.981]"),
        ("1m10s", "Successful", "[0.995]"),
    ]
    assert "✘ Failed      [0.981]  1        0.50s  the success condition does not hold" in text


def test_one_line_says_the_same_for_logs() -> None:
    """Where there is no terminal, `-w` prints this; a line changes with a measurement and not with the clock."""
    assert run_text(run_line(run(status=RUNNING))) == (
        "/cart-newrev-step-1 (analysis of step 2) Running: success-rate [0.999] (2 successful, 1 failed of 10)"
    )
    assert run_text(run_line(run(status=BAD))).endswith(f"Failed: {BAD.message}")
    assert run_text(run_line(run())) == "/cart-newrev-step-1 (analysis of step 2) Pending"


def _view(*runs: Manifest) -> RolloutObjects:
    at = {"currentRevision": "newrev", "stableRevision": "oldrev", "observedGeneration": 3}
    objects = seen(at, replica_set("oldrev", 1), replica_set("newrev", 2))
    return replace(objects, runs=tuple(each for each in runs if is_run_about(each, objects.rollout)))


def test_runs_stand_under_the_revision_that_they_are_about() -> None:
    """Those that are not over first: they are what is being waited for."""
    old = run("old", status=GOOD, labels={"rollouts.dev/revision": "oldrev"})
    revisions = view_of(_view(run("a", status=GOOD), run("b", status=RUNNING), old)).revisions

    assert [(line.revision, [each.name for each in line.runs]) for line in revisions] == [
        ("newrev", ["b", "a"]),
        ("oldrev", ["old"]),
    ]


@pytest.mark.parametrize(
    ("record", "names"),
    [
        ({"phase": "Failed"}, ["a", "b", "c"]),
        ({"phase": "Failed", "passed": True}, ["b", "a", "c"]),
        ({"phase": "Running"}, ["a", "b", "c"]),
    ],
)
def test_the_run_whose_verdict_counts_stands_first(record: Manifest, names: list[str]) -> None:
    """It holds the update, or has ended it, so it is never among those that are left out; one by hand holds nothing."""
    runs = (run("c", status=replace(BAD, completed_at_s=NOW_S)), run("b", status=RUNNING), run("a", status=BAD))
    objects = _view(*runs)
    of_step = {"kind": "step", "step": 1, "number": 1, "run": "a", "at": "2026-11-21T10:00:00Z", **record}
    status = {**objects.rollout["status"], "analyses": [of_step]}

    newest = view_of(replace(objects, rollout={**objects.rollout, "status": status})).revisions[0]

    assert [each.name for each in newest.runs] == names
    assert [each.name for each in newest.runs if each.failing] == (["a"] if names[0] == "a" else [])


def test_a_run_by_hand_is_shown_and_another_owners_is_not() -> None:
    """Of two Rollouts with one name after each other, and of whatever borrowed the label."""
    by_hand = run("hand", owned=False)
    strangers = run("stranger")
    strangers["metadata"]["ownerReferences"] = [{"kind": "Rollout", "uid": "u0", "controller": True}]
    elsewhere = run("other", owned=False, labels={"rollouts.dev/name": "shop", "rollouts.dev/revision": "newrev"})

    newest = view_of(_view(by_hand, strangers, elsewhere)).revisions[0]

    assert [each.name for each in newest.runs] == ["hand"]


def test_the_table_counts_the_metrics_that_decide() -> None:
    """So a dry run neither helps nor hurts there."""
    line = replace(run_line(WITH_A_DRY_RUN), created_at_s=NOW_S - 3_600)

    header, row = drawn(runs_table([line], now_s=NOW_S, wide=True), width=200).splitlines()

    assert header.split() == ["NAME", "PHASE", "ROLLOUT", "FOR", "METRICS", "AGE", "REVISION", "TOOK", "MESSAGE"]
    assert row.split() == ["cart-newrev-step-1", "Successful", "cart", "step", "2", "1/1", "1h", "newrev", "1m"]
