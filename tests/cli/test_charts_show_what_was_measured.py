"""Promise: a mark on a chart is where its value and its time put it, and what cannot be drawn is not drawn wrongly."""

from __future__ import annotations

import pytest

from rollouts.cli.dashboard.chart_svg import in_both_widths
from rollouts.cli.dashboard.charts import (
    BOTTOM,
    LEFT,
    LETTER,
    NARROW,
    RIGHT,
    TOP,
    VALUES_HEIGHT,
    WEIGHTS_HEIGHT,
    WIDE,
    value_chart,
    weight_chart,
)
from rollouts.cli.view.objects import RolloutObjects
from rollouts.cli.view.runs import MeasurementLine, MetricLine
from rollouts.cli.view.thresholds import Threshold
from rollouts.cli.view.weights import MARKS_MAX, WeightMark, weights_of
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.objects import Manifest

NOW_S = 1_000.0
GOOD, BAD = AnalysisPhase.SUCCESSFUL, AnalysisPhase.FAILED
FLOOR = VALUES_HEIGHT - BOTTOM


def metric(*numbers: float | None, thresholds: tuple[Threshold, ...] = (), called: str = "") -> MetricLine:
    """One measurement each ten seconds, the last one ten seconds ago."""
    begun_s = NOW_S - 10 * len(numbers)
    lines = (
        MeasurementLine(at_s=begun_s + 10 * index, phase=BAD if number is None else GOOD, number=number, called=called)
        for index, number in enumerate(numbers)
    )
    return MetricLine(name="errors", measurements=tuple(lines), thresholds=thresholds)


def test_points_are_where_their_values_and_times_are() -> None:
    """From 0 to 10 with a tenth of room above, and none below 0; evenly over the width."""
    chart = value_chart(metric(0.0, 5.0, 10.0), now_s=NOW_S, width=WIDE)

    assert chart is not None
    left, right, high = LEFT + LETTER, WIDE - RIGHT - LETTER, FLOOR - (FLOOR - TOP) * 10 / 11
    assert [point.x for point in chart.points] == pytest.approx([left, (left + right) / 2, right], abs=0.1)
    assert [point.y for point in chart.points] == pytest.approx([FLOOR, (FLOOR + high) / 2, high], abs=0.1)
    assert chart.line == tuple((point.x, point.y) for point in chart.points)
    assert [(label.text, label.at) for label in chart.x_labels] == [("30s ago", left), ("10s ago", right)]
    assert {label.text for label in chart.y_labels} == {"0", "5", "10"}


def test_what_is_bad_reaches_from_its_line_to_the_edge() -> None:
    """Above its line for a number that may not be exceeded, below it for one that must be reached; lines fit in."""
    over, under = Threshold(20.0, above=True), Threshold(1.0, above=False, undecided=True)
    chart = value_chart(metric(4.0, 8.0, thresholds=(over, under)), now_s=NOW_S, width=WIDE)

    assert chart is not None
    first, second = chart.limits
    assert (first.text, first.undecided, second.text, second.undecided) == ("1", True, "20", False)
    assert (first.top, first.top + first.height) == (first.at, FLOOR)
    assert (second.top, second.top + second.height) == (TOP, second.at)
    assert TOP < second.at < min(point.y for point in chart.points)
    assert max(point.y for point in chart.points) < first.at < FLOOR
    assert all(abs(label.at - limit.at) >= LETTER for label in chart.y_labels for limit in chart.limits)
    assert chart.summary == "errors: 2 measured, from 4 to 8, bad above 20, inconclusive below 1"


def test_one_measurement_is_in_the_middle() -> None:
    """Nothing tells how wide its time or its range should be."""
    chart = value_chart(metric(3.0), now_s=NOW_S, width=NARROW)

    assert chart is not None
    (point,) = chart.points
    assert point.x == pytest.approx((LEFT + NARROW - RIGHT) / 2, abs=0.1)
    assert point.y == pytest.approx((TOP + FLOOR) / 2, abs=0.1)
    assert [label.text for label in chart.x_labels] == ["10s ago"]
    assert value_chart(metric(0.0), now_s=NOW_S, width=NARROW) is not None


def test_measurements_without_a_number_are_on_the_lower_edge() -> None:
    """That there was no answer is seen at its time, and no line goes there."""
    chart = value_chart(metric(1.0, None, 2.0), now_s=NOW_S, width=WIDE)

    assert chart is not None
    assert [(point.y, point.phase) for point in chart.absent] == [(FLOOR, BAD)]
    assert chart.points[0].x < chart.absent[0].x < chart.points[1].x
    assert len(chart.line) == 2
    assert "1 without a value" in chart.summary


@pytest.mark.parametrize(
    "numbers",
    [(), (None,), (1e308, -1e308), (1e-322, 5e-324)],
    ids=["nothing", "no number", "too far apart", "too near"],
)
def test_what_cannot_be_drawn_is_not_drawn(numbers: tuple[float | None, ...]) -> None:
    """The table has it."""
    assert value_chart(metric(*numbers), now_s=NOW_S, width=WIDE) is None
    assert in_both_widths(lambda width: value_chart(metric(*numbers), now_s=NOW_S, width=width)) is None


@pytest.mark.parametrize(
    "numbers",
    [(0.9999991, 0.9999992), (1e-300, 2e-300), (123456789.0, 123456790.0), (-3.0, -1.0), (1e15, 3e15), (5e-324, 0.0)],
    ids=str,
)
def test_every_range_has_labels_inside_the_chart(numbers: tuple[float, ...]) -> None:
    """Small, large and negative numbers: no label twice at one place, none outside."""
    chart = value_chart(metric(*numbers), now_s=NOW_S, width=WIDE)

    assert chart is not None
    places = [label.at for label in chart.y_labels]
    assert len(places) == len(set(places)) <= 8
    assert all(TOP <= place <= FLOOR for place in places)
    assert all(TOP <= point.y <= FLOOR for point in chart.points)


@pytest.mark.parametrize("limit", [0.5, 0.999999, -1.23456e-200, 123456789.0])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_labels_have_the_room_that_they_need(limit: float, width: float) -> None:
    """A label that begins left of the chart is cut off: `-0.000123` would be read as `0.000123`."""
    chart = value_chart(
        metric(0.9999991, 0.9999992, thresholds=(Threshold(limit, above=False),)), now_s=NOW_S, width=width
    )

    assert chart is not None
    longest = max(map(len, [*(each.text for each in chart.y_labels), *(each.text for each in chart.limits)]))
    assert 7.4 * longest <= chart.left - 6
    assert (
        chart.left <= min(point.x for point in chart.points) < max(point.x for point in chart.points) <= width - RIGHT
    )


def test_numbers_of_another_name_are_not_mixed_in() -> None:
    """Where the first number was not known, the measurement shows the second one: that is another scale."""
    one, other = metric(3.0, 4.0, called="pods"), metric(900.0, called="ageSeconds")
    mixed = MetricLine(name="m", measurements=(*one.measurements, *other.measurements))
    chart = value_chart(mixed, now_s=NOW_S, width=WIDE)

    assert chart is not None
    assert len(chart.points) == 2


def test_a_share_is_a_line_of_steps_up_to_now() -> None:
    """0 % for 60 seconds, then 20 %, for 40 seconds until now; 25 % are live."""
    marks = (WeightMark(NOW_S - 100, 0.0), WeightMark(NOW_S - 40, 20.0))
    chart = weight_chart(marks, now_s=NOW_S, live_percent=25.0, width=WIDE)

    assert chart is not None
    floor, right = WEIGHTS_HEIGHT - BOTTOM, WIDE - RIGHT
    turn = LEFT + (right - LEFT) * 0.6
    raised = floor - (floor - TOP) * 0.2
    expected = [(LEFT, floor), (turn, floor), (turn, raised), (right, raised)]
    assert [place for corner in chart.line for place in corner] == pytest.approx(
        [place for corner in expected for place in corner], abs=0.1
    )
    assert chart.now == pytest.approx(floor - (floor - TOP) * 0.25, abs=0.1)
    assert [label.text for label in chart.x_labels] == ["1m40s ago", "now"]
    assert weight_chart(marks[:1], now_s=NOW_S, live_percent=None, width=WIDE) is None


def event(ago_s: int, weight: object, revision: str = "newrev") -> Manifest:
    """An Event as the controller makes it, so many seconds before ten o'clock."""
    minutes, seconds = divmod(3_600 - ago_s, 60)
    annotations = {"rollouts.dev/weight": weight, "rollouts.dev/revision": revision}
    return {"metadata": {"annotations": annotations}, "eventTime": f"2026-11-21T09:{minutes:02}:{seconds:02}.000000Z"}


def test_the_shares_of_the_latest_update_are_those_of_its_events() -> None:
    """In their order, each change once; those of other revisions, and what nobody can read, are left out."""
    unreadable: tuple[object, ...] = ("", "nan", "-1", "101", "many", None, 7, {})
    events = (
        event(10, "100"),
        event(60, "12.5"),
        event(50, "12.5"),
        event(90, "50", "oldrev"),
        event(80, "0"),
        *(event(70, broken) for broken in unreadable),
        {"metadata": {}, "eventTime": "2026-11-21T09:00:00.000000Z"},
        {"metadata": {"annotations": None}},
    )
    rollout: Manifest = {"metadata": {"name": "cart"}, "status": {"currentRevision": "newrev"}}
    marks = weights_of(RolloutObjects(rollout=rollout, events=events))

    assert [mark.percent for mark in marks] == [0.0, 12.5, 100.0]
    assert [marks[-1].at_s - mark.at_s for mark in marks] == [70.0, 50.0, 0.0]


def test_an_event_that_was_lost_is_made_up_for_by_the_status() -> None:
    """Events are sent with best effort; what the status has of the present step is known all the same."""
    status = {"currentRevision": "newrev", "weight": 50, "stepStartedAt": "2026-11-21T09:59:50Z"}
    rollout: Manifest = {"metadata": {"name": "cart"}, "status": status}
    marks = weights_of(RolloutObjects(rollout=rollout, events=(event(60, "0"), event(30, "25"))))

    assert [mark.percent for mark in marks] == [0.0, 25.0, 50.0]
    assert marks[2].at_s - marks[1].at_s == 20.0


def test_whatever_number_of_events_somebody_makes_the_page_stays_small() -> None:
    """A right to create Events is no right to make pages of others heavy."""
    events = tuple(event(index, str(index % 2)) for index in range(1, 3_001))
    rollout: Manifest = {"metadata": {"name": "cart"}, "status": {"currentRevision": "newrev"}}
    marks = weights_of(RolloutObjects(rollout=rollout, events=events))

    assert len(marks) == MARKS_MAX
    assert marks[-1].percent == 1.0


def test_measurements_out_of_order_stay_inside() -> None:
    """Anybody may have edited a status."""
    line = metric(1.0, 2.0, 3.0)
    mixed = MetricLine(name="m", measurements=(line.measurements[1], line.measurements[2], line.measurements[0]))
    chart = value_chart(mixed, now_s=NOW_S, width=WIDE)

    assert chart is not None
    assert all(LEFT <= point.x <= WIDE - RIGHT for point in chart.points)


def test_a_drawing_has_its_marks_and_says_what_they_are() -> None:
    """By shape and not by colour alone, with the values for whoever points at one or hears it; once for each width."""
    phases = (GOOD, BAD, AnalysisPhase.INCONCLUSIVE, AnalysisPhase.RUNNING)
    lines = (
        MeasurementLine(at_s=NOW_S - 60 + 10 * index, phase=phase, number=float(index), value=f"<{index}>")
        for index, phase in enumerate(phases)
    )
    shown = MetricLine(name="<b>", measurements=tuple(lines), thresholds=(Threshold(2.0, above=True),))
    text = str(in_both_widths(lambda width: value_chart(shown, now_s=NOW_S, width=width)))

    assert 'class="chart for-wide" viewBox="0 0 640 124"' in text
    assert 'class="chart for-narrow" viewBox="0 0 320 124"' in text
    for class_ in ("is-good", "is-bad", "is-open", "is-moving", "limit"):
        assert text.count(f'class="{class_}"') == 2, class_
    assert "<title>&lt;0&gt;, Successful, 1m ago</title>" in text
    assert 'aria-label="&lt;b&gt;: 4 measured, from 0 to 3, bad above 2"' in text
    assert "style=" not in text
