"""Several jobs at once on the one node: each in a namespace of its own, with a controller and clients of its own.

A node has one kube-proxy, so jobs that want it in one mode run together, and it changes modes between them. Which jobs a run has
is known before its first test: the first test that wants a proxy starts all jobs that want it, and each waits for its own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controllers import confined_controller
from tests.e2e.stage import Stage
from tests.node.real_node import Proxy, RealNode

LANES = "ROLLOUTS_NODE_LANES"  # environment variable: how many jobs run at once
_DEFAULT_LANES = 4
_TRACKED_BY_A_LANE = 60_000
"""Entries of the connection tracker: 400 connections a second, each kept for two minutes after its end, and some to spare."""

_TRACKER_HOLDS = Path("/proc/sys/net/netfilter/nf_conntrack_max")


@dataclass(frozen=True, kw_only=True)
class Job:
    """Something to be done in a namespace of its own; equal jobs are done once."""

    proxy: Proxy = Proxy("iptables")  # how kube-proxy must run
    alone: bool = False  # no other job may run at the same time: it stops what all of them need

    @property
    def flags(self) -> Sequence[str]:
        """What its controller is told besides."""
        return ()

    def run(self, node: RealNode, stage: Stage) -> Any:
        """Does it, in a thread of its own; what it raises is what its test raises."""
        raise NotImplementedError


def seen_of(*jobs: Job) -> pytest.MarkDecorator:
    """One test for each job; its argument `seen` is what the job has returned."""
    return pytest.mark.parametrize("seen", jobs, indirect=True, ids=str)


class Lanes:
    """The jobs of this run. Guarantees: kube-proxy never changes while a job runs."""

    def __init__(
        self, jobs: Iterable[Job], *, pool: Executor, use_proxy: Callable[[Proxy], None], perform: Callable[[Job], Any]
    ) -> None:
        """Starts none of the jobs; they will be begun in their order."""
        self._jobs = tuple(dict.fromkeys(jobs))
        self._pool = pool
        self._use_proxy = use_proxy
        self._perform = perform
        self._begun: dict[Job, Future[Any]] = {}

    def result(self, job: Job) -> Any:
        """What the job returned; raises what it raised. Begins it and all others that want the same proxy, if nobody has."""
        if job not in self._begun:
            wait(self._begun.values())
            self._use_proxy(job.proxy)
            together = [one for one in self._jobs if one.proxy == job.proxy and not one.alone]
            for one in [job] if job.alone else together:
                self._begun[one] = self._pool.submit(self._perform, one)
        return self._begun[job].result()

    def results(self) -> list[Any]:
        """What was returned by the jobs that have ended well, in the order of the jobs."""
        begun = [self._begun[job] for job in self._jobs if job in self._begun]
        ended = [one for one in begun if one.done() and not one.cancelled() and one.exception() is None]
        return [one.result() for one in ended]


@contextmanager
def lanes(node: RealNode, kubeconfig: Path, jobs: Iterable[Job]) -> Iterator[Lanes]:
    """Lanes for these jobs. When left, jobs that were not begun never are; those that run end when their node does."""
    plane = node.plane

    def perform(job: Job) -> Any:
        with plane.fresh_namespace() as name, confined_controller(plane, kubeconfig, name, flags=job.flags):
            return job.run(node, Stage(plane, name))

    pool = ThreadPoolExecutor(how_many(), thread_name_prefix="lane")
    try:
        yield Lanes(jobs, pool=pool, use_proxy=node.use_proxy, perform=perform)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def how_many() -> int:
    """What the environment says, else four, or fewer where the connection tracker cannot hold what the clients of four leave."""
    if LANES in os.environ:
        return int(os.environ[LANES])
    with contextlib.suppress(FileNotFoundError):  # a kernel that has it built in and not used yet
        return max(1, min(_DEFAULT_LANES, int(_TRACKER_HOLDS.read_text()) // _TRACKED_BY_A_LANE))
    return _DEFAULT_LANES
