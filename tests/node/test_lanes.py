"""Jobs run several at once, but kube-proxy, which all of them share, changes only when none runs."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from tests.node.lanes import Job, Lanes
from tests.node.real_node import Proxy

WITHIN_S = 10


@dataclass(frozen=True)
class Named(Job):
    """A job that only has a name, and is never run: the tests perform jobs themselves."""

    name: str


def test_jobs_that_want_the_same_proxy_run_at_the_same_time() -> None:
    """One after the other, a run takes more than twenty minutes."""
    both = threading.Barrier(2)

    def perform(job: Job) -> str:
        both.wait(WITHIN_S)  # raises unless the other one comes too
        return str(job.proxy)

    one, other = Named("one"), Named("other")
    with ThreadPoolExecutor(2) as pool:
        lanes = Lanes([one, other], pool=pool, use_proxy=lambda _: None, perform=perform)

        assert lanes.result(one) == lanes.result(other) == "iptables"


def test_a_job_that_stops_what_all_need_runs_alone() -> None:
    """A frozen controller manager would lose requests in every other job, by no fault of a rollout."""
    running: set[str] = set()
    stopped = threading.Event()

    def perform(job: Any) -> set[str]:
        running.add(job.name)
        beside = running - {job.name}
        if job.alone:
            stopped.set()
        else:
            stopped.wait(0.2)  # a job that does not wait for this one has this time to show itself
        running.discard(job.name)
        return beside

    jobs: list[Job] = [Named("one"), Named("stops", alone=True), Named("other")]
    with ThreadPoolExecutor(3) as pool:
        lanes = Lanes(jobs, pool=pool, use_proxy=lambda _: None, perform=perform)

        assert lanes.result(jobs[0]) <= {"other"}
        assert lanes.result(jobs[1]) == set()
        assert lanes.result(jobs[2]) <= {"one"}


def test_the_proxy_changes_when_no_job_runs() -> None:
    """A change of modes removes all rules: requests of a job that runs would be lost by the test, not by the cutover."""
    happened: list[str] = []
    changed = threading.Event()

    def use_proxy(proxy: Proxy) -> None:
        happened.append(f"now {proxy}")
        changed.set()

    def perform(job: Job) -> None:
        changed.clear()
        happened.append("began")
        if job == slow:
            changed.wait(0.2)  # a change that does not wait for this job has this time to show itself
        happened.append("ended")

    first, slow, last = Named("first"), Named("slow"), Named("last", proxy=Proxy("nftables"))
    with ThreadPoolExecutor(1) as pool:
        lanes = Lanes([first, slow, last], pool=pool, use_proxy=use_proxy, perform=perform)
        lanes.result(first)
        lanes.result(last)

    assert happened == ["now iptables", "began", "ended", "began", "ended", "now nftables", "began", "ended"]


def test_two_tests_of_the_same_job_share_it() -> None:
    """The time of a cutover is read from the very cutover whose requests were counted."""
    performed: list[Job] = []
    with ThreadPoolExecutor(1) as pool:
        lanes = Lanes([Named("one"), Named("one")], pool=pool, use_proxy=lambda _: None, perform=performed.append)
        lanes.result(Named("one"))

    assert performed == [Named("one")]


def test_a_job_that_fails_fails_its_own_test_only() -> None:
    """One lost case must not hide the figures of the others."""

    def perform(job: Job) -> str:
        if job == broken:
            raise AssertionError("pods of web: 3 of 4")
        return "fine"

    broken, whole = Named("broken"), Named("whole")
    with ThreadPoolExecutor(2) as pool:
        lanes = Lanes([broken, whole], pool=pool, use_proxy=lambda _: None, perform=perform)

        with pytest.raises(AssertionError, match="3 of 4"):
            lanes.result(broken)
        assert lanes.result(whole) == "fine"
        assert lanes.results() == ["fine"]
