"""Waits of hours end when they should, whatever becomes of this machine's clock: times follow the API server's, and steadily."""

from __future__ import annotations

import time
from email.utils import formatdate
from pathlib import Path

import pytest
from aiohttp import web

from rollouts.clock import SLEW_S, SystemClock
from rollouts.cluster.connection import DATE_EVERY_S
from rollouts.ports import Request
from tests.cluster.test_connection import connected, kubeconfig, serving

NOON_S = 1_800_000_000.0
HOUR_S = 3_600.0


class Machine:
    def __init__(self, *, wall_s: float = NOON_S) -> None:
        self.wall_s = wall_s
        self.elapsed_s = 5.0
        self.clock = SystemClock(wall_s=lambda: self.wall_s, elapsed_s=lambda: self.elapsed_s)

    def passes(self, seconds: float) -> None:
        self.wall_s += seconds
        self.elapsed_s += seconds


def test_a_jump_of_the_machines_clock_changes_nothing() -> None:
    """A clock set forward by an hour ended a pause of an hour; one set back made it last two."""
    machine = Machine()
    for jump_s in (HOUR_S, -2 * HOUR_S, 10 * 365 * 24 * HOUR_S):
        before_s = machine.clock.now_s()
        machine.wall_s += jump_s
        machine.passes(60)

        assert machine.clock.now_s() == before_s + 60
        machine.clock.heard(before_s + 60)  # the server's clock did not jump

        assert machine.clock.now_s() == before_s + 60


def test_two_controllers_with_different_clocks_agree_on_the_servers() -> None:
    """Else a pause begins by one clock and ends by another when the lease changes hands."""
    early, late = Machine(wall_s=NOON_S - HOUR_S), Machine(wall_s=NOON_S + HOUR_S)
    for each in (early, late):
        each.clock.heard(NOON_S)
        each.passes(90)

    assert abs(early.clock.now_s() - late.clock.now_s()) <= 1
    assert early.clock.now_s() == pytest.approx(NOON_S + 90, abs=1)


def test_time_that_passed_while_the_machine_stood_still_is_made_up_for() -> None:
    """A virtual machine that was paused: its clock and the server's agree that it is later than we think."""
    machine = Machine()
    machine.clock.heard(NOON_S)
    machine.wall_s += HOUR_S  # set by NTP once it ran again; the monotonic clock knows nothing of it

    assert machine.clock.heard(NOON_S + HOUR_S) == pytest.approx(HOUR_S, abs=1)
    assert machine.clock.now_s() == pytest.approx(NOON_S + HOUR_S, abs=1)


def test_a_server_whose_clock_jumps_is_followed_slowly() -> None:
    """Alone against two clocks it may be wrong, and ends no pause of an hour more than a minute early."""
    machine = Machine()
    machine.clock.heard(NOON_S)
    for _ in range(60):
        machine.passes(60)
        machine.clock.heard(machine.wall_s + HOUR_S)

    assert machine.clock.now_s() == pytest.approx(machine.wall_s + 60 * SLEW_S, abs=1)
    assert 60 * SLEW_S < 60


@pytest.mark.parametrize("off_s", [-2.5, -0.9, 0.0, 0.4, 1.9])
def test_what_the_date_cannot_tell_is_not_corrected(off_s: float) -> None:
    """It has whole seconds and comes a little late: a clock that follows it would tremble."""
    machine = Machine()
    machine.clock.heard(NOON_S)
    for _ in range(100):
        machine.passes(60)

        assert machine.clock.heard(float(int(machine.wall_s + off_s))) == 0.0


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="the system has no clock that counts through suspend")
def test_a_suspended_machine_loses_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that was suspended for an hour would believe in its lease, and write beside the one that took over."""
    clocks_s = {time.CLOCK_BOOTTIME: HOUR_S, time.CLOCK_MONOTONIC: 0.0}
    monkeypatch.setattr(time, "clock_gettime", clocks_s.__getitem__)
    monkeypatch.setattr(time, "time", lambda: NOON_S)

    assert SystemClock().monotonic_s() == HOUR_S


async def test_the_servers_date_is_heard_once_a_minute(tmp_path: Path) -> None:
    """Every answer has one, and reading it costs; the connection knows when it read one last."""
    heard: list[float] = []
    answers = iter([NOON_S, NOON_S + 5, None, NOON_S + 70])

    async def dated(request: web.Request) -> web.Response:
        at_s = next(answers)
        return web.Response(headers={"Date": "soon" if at_s is None else formatdate(at_s, usegmt=True)})

    async with serving(dated) as url:
        path = kubeconfig(tmp_path, url, {"token": "t"})
        async with connected(path, on_date=heard.append) as connection:
            for elapsed_s in (0.0, 0.0, DATE_EVERY_S, 0.0):
                connection._date_again_at_s -= elapsed_s
                await connection.request(Request("GET", "/version"), deadline_s=5)

    assert heard == [NOON_S, NOON_S + 70]
