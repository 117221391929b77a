"""Tables as pure functions, and the few characters that a duration gets."""

from __future__ import annotations

import pytest

from rollouts.cli.picture import NOW_S
from rollouts.cli.terminal.table import history_table
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.durations import seconds_of, short
from rollouts.cli.view.history import HistoryRow
from rollouts.core.model.frozen import replace
from tests.cli.test_the_tree_shows_what_a_person_needs import drawn


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s"), (0, "0s"), (59.9, "59s"), (60, "1m"), (95, "1m35s"), (600, "10m"), (3_600, "1h"), (5_400, "1h30m"),
     (86_400, "1d"), (270_000, "3d3h"), (2_000_000, "23d")],
)  # fmt: skip
def test_a_duration_is_short(seconds: float, text: str) -> None:
    """Two units at most: an age in a table is read at a glance."""
    assert short(seconds) == text


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5_400), ("2h5s", 7_205)])
def test_a_duration_is_read_as_people_type_it(text: str, seconds: float) -> None:
    """The forms of Kubernetes' own flags, and bare seconds."""
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5 m", "-3s", "1d", "m"])
def test_a_duration_that_cannot_be_read_says_what_to_write(text: str) -> None:
    """A usage error names the remedy."""
    with pytest.raises(ValueError, match="write 90, 90s, 5m or 1h30m"):
        seconds_of(text)


@pytest.mark.parametrize(("count", "text"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods")])
def test_a_count_agrees_with_its_noun(count: int, text: str) -> None:
    """ "1 pods" reads like a machine that does not know what it says."""
    assert count_of(count, "pod") == text


def test_history_says_where_a_rollback_can_go() -> None:
    """A revision whose ReplicaSet is gone cannot be gone back to, nor can the one that serves."""
    rows = [
        HistoryRow(number=3, revision="ccc", roles=("stable",), outcome="Promoted", images=("app:3",), kept=True, ready=4,
                   desired=4, finished_at_s=NOW_S - 60, took_s=95.0),
        HistoryRow(number=2, revision="bbb", roles=(), outcome="Aborted", images=("app:2",), kept=True, ready=0,
                   desired=0, finished_at_s=None, took_s=None),
        HistoryRow(number=1, revision="aaa", roles=(), outcome="Promoted", images=(), kept=False, ready=0, desired=0,
                   finished_at_s=None, took_s=None),
    ]  # fmt: skip

    def told() -> list[list[str]]:
        return [line.split() for line in drawn(history_table(rows, now_s=NOW_S), width=300).splitlines()]

    _, third, second, first = told()

    assert third == ["#3", "ccc", "stable", "Promoted", "4/4", "1m", "ago", "1m35s", "-", "app:3"]
    assert second == ["#2", "bbb", "-", "Aborted", "0/0", "-", "-", "possible", "app:2"]
    assert first == ["#1", "aaa", "-", "Promoted", "0/0", "-", "-", "-", "-"]

    rows[1] = replace(rows[1], commands="abort by alice")
    header, third, second, _ = told()
    assert header[-2:] == ["COMMANDS", "IMAGES"]
    assert (third[-2:], second[-4:]) == (["-", "app:3"], ["abort", "by", "alice", "app:2"])
