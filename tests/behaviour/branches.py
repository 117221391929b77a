"""Plays a run once for many faults: wherever one may strike, the process forks, and the child goes on with it.

A run in virtual time follows from its seed and its faults alone. So a branch ends as a run with the same fault from the beginning
does (`test_same_seed_same_run.py`), and what comes before the fault is played once for all of them. Two faults that leave the
same world and the same process behind are played once (`test_a_branch_is_a_run_with_its_fault.py`); `ROLLOUTS_DEEP=1` plays both.

A branch copies each page of memory that it writes to, and a test process that has played much has them scattered. So the run is
played in a process of its own, which is young, small, and has no other thread.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import multiprocessing
import os
import pickle
import sys
import traceback
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from typing import Generic, TypeAlias, TypeVar

from rollouts.ports import Request
from rollouts.sim.faults import CrashAfter, CrashBefore, DropRequest, Fault, FaultTape, Unavailable
from rollouts.sim.network.prometheus.faults import PrometheusFault
from tests.behaviour.stage import Run

BRANCH_LIMIT_S = 300.0  # most take a tenth of a second
DEEP = os.environ.get("ROLLOUTS_DEEP") == "1"
CRASHES = (CrashBefore(), CrashAfter())

FaultT = TypeVar("FaultT")
Outcome = TypeVar("Outcome")
Faulty = TypeVar("Faulty")
Places: TypeAlias = Mapping[FaultT, Collection[int] | None]
"""For each fault, the numbers of the requests or questions that meet it, each in a branch of its own; None for all."""

_Said: TypeAlias = "tuple[int, FaultT, bytes]"


@dataclass(frozen=True, slots=True)
class Branch(Generic[FaultT, Outcome]):
    """A run with one fault.

    Args:
        place: number of the request, or of the question, that met it.
        outcome: what the run left behind.
    """

    place: int
    fault: FaultT
    outcome: Outcome

    def __str__(self) -> str:
        return f"{self.fault} at {self.place}"


class Forks(Generic[FaultT]):
    """The branches of one run.

    Args:
        limit_s: a branch that has not ended after so long ends, and says where it stood.
    """

    def __init__(self, places: Places[FaultT], *, limit_s: float) -> None:
        self._places = places
        self._limit_s = limit_s
        self.answers: list[_Said[FaultT]] = []
        """What the branches said, pickled, in the order of their places."""
        self.answer_to: int | None = None
        """In a branch, the file descriptor of its answer."""
        self.ignored: list[str] = []
        """In a branch, exceptions that Python could raise nowhere: of a finalizer, or warnings about what nobody awaited."""

    def strike(self, place: int) -> FaultT | None:
        """Goes on as a branch for each fault of this place, with that fault; then as the run itself, with none."""
        if self.answer_to is not None:
            return None
        loop = asyncio.get_running_loop()
        for fault, places in self._places.items():
            if places is not None and place not in places:
                continue
            reads, writes = os.pipe()
            branch = os.fork()
            if branch == 0:
                os.close(reads)
                self._begin(answer_to=writes, loop=loop)
                return fault
            os.close(writes)
            with os.fdopen(reads, "rb") as answer:
                self.answers.append((place, fault, answer.read()))
            os.waitpid(branch, 0)
        return None

    def _begin(self, *, answer_to: int, loop: asyncio.AbstractEventLoop) -> None:
        faulthandler.dump_traceback_later(self._limit_s, exit=True, file=answer_to)
        self.answer_to = answer_to
        asyncio._set_running_loop(loop)  # asyncio knows it by the process as well
        sys.unraisablehook = lambda each: self.ignored.append(f"{each.exc_value!r} in {each.object!r}")


class ForkingTape(FaultTape):
    """A tape on which every numbered write is a place of `forks`."""

    def __init__(self, forks: Forks[Fault]) -> None:
        super().__init__({})
        self._forks = forks

    def next_fault(self, request: Request) -> Fault | None:
        number = self.seen
        super().next_fault(request)
        return self._forks.strike(number) if self.seen > number else None


class ForkingQuestions(Mapping[int, PrometheusFault]):
    """Faults of a Prometheus: every question is a place of `forks`, and the fault lasts for `times` questions."""

    def __init__(self, forks: Forks[PrometheusFault], *, times: int = 1) -> None:
        self._forks = forks
        self._times = times
        self._struck: dict[int, PrometheusFault] = {}

    def __getitem__(self, number: int) -> PrometheusFault:
        fault = self._forks.strike(number)
        if fault is not None:
            self._struck = dict.fromkeys(range(number, number + self._times), fault)
        return self._struck[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._struck)

    def __len__(self) -> int:
        return len(self._struck)


def places(run: Run, faults: Iterable[Fault], *, first: int = 0) -> dict[Fault, list[int]]:
    """The writes at which each fault is played, from `first` on.

    A process that ends before a write, when nothing has happened since the write before, has ended after that one (`CrashAfter`).

    Args:
        run: the run without a fault.
    """
    among = range(first, run.faultable)
    apart = [place for place in among if place == first or place not in run.seamless]
    return {fault: apart if isinstance(fault, CrashBefore) and not DEEP else list(among) for fault in faults}


def distinct(*faults: Fault) -> tuple[Fault, ...]:
    """Those of the faults that are played: a lost request is to its sender what a 5xx is."""
    lost = any(isinstance(each, DropRequest) for each in faults)
    return tuple(each for each in faults if DEEP or not (lost and isinstance(each, Unavailable)))


def each_fault(
    play: Callable[[FaultTape], Outcome], places: Mapping[Fault, Collection[int]]
) -> Iterator[Branch[Fault, Outcome]]:
    """Plays a run with each fault at each of its writes.

    Args:
        play: plays the run with a tape. It can be pickled (a function of a module, or a `partial` of one), and so can what it
            returns.

    Raises: AssertionError when a branch or the run itself raised anything, or the run has no such write.
    """
    played = 0
    for branch in branched(play, ForkingTape, places):
        played += 1
        yield branch
    assert played == sum(map(len, places.values())), f"{played} branches at writes {places}"


def assert_ends_as_without(
    play: Callable[[FaultTape], Run], without: Run, places: Mapping[Fault, Collection[int]]
) -> None:
    """Whichever write meets whichever fault: the same end, and on the way no broken rule and nothing unexpected."""
    for branch in each_fault(play, places):
        run, where = branch.outcome, str(branch)
        assert run.end == without.end, where
        assert (run.violations, run.unexpected) == ([], []), where


def branched(
    play: Callable[[Faulty], Outcome],
    faulty: Callable[[Forks[FaultT]], Faulty],
    places: Places[FaultT],
    *,
    limit_s: float = BRANCH_LIMIT_S,
) -> Iterator[Branch[FaultT, Outcome]]:
    """Plays a run, and its branches.

    Args:
        play, faulty: what plays it, with what makes the faults out of the forks; both can be pickled.
        limit_s: see `Forks`.
    """
    receives, sends = _young_processes().Pipe(duplex=False)
    process = _young_processes().Process(target=_play, args=(sends, play, faulty, places, limit_s))
    process.start()
    sends.close()
    try:
        with receives:
            trouble, answers = receives.recv()
    except BaseException:  # the test's time is over, or the process has ended
        process.kill()
        raise
    finally:
        process.join()
    assert not trouble, trouble
    for place, fault, said in answers:
        assert said.startswith(_PICKLED), (
            f"{fault} at {place}: the branch has ended without an answer:\n{said.decode()}"
        )
        is_outcome, value = pickle.loads(said)  # noqa: S301 - said by a process of ours
        assert is_outcome, f"{fault} at {place}: {value}"
        yield Branch(place, fault, value)


_PICKLED = pickle.dumps(None)[:1]
"""How an answer begins that is no stack."""


@cache
def _young_processes() -> ForkServerContext:
    """Processes that come with all modules loaded and have played next to nothing."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.behaviour.young"])
    return context


def _play(
    answer_to: Connection,
    play: Callable[[Faulty], Outcome],
    faulty: Callable[[Forks[FaultT]], Faulty],
    places: Places[FaultT],
    limit_s: float,
) -> None:
    """Plays the run in its process, and in those of its branches.

    What there is before the run is frozen: a branch that looked for garbage in all of it would copy each of its pages.
    """
    warnings.simplefilter("error")  # as for the tests
    gc.collect()
    gc.freeze()
    gc.disable()  # these processes are short-lived; branches collect once, at their ends
    forks = Forks(places, limit_s=limit_s)
    trouble = ""
    answer: tuple[bool, object]
    try:
        answer = True, play(faulty(forks))
    except BaseException:
        trouble = traceback.format_exc()
        answer = False, trouble
    if forks.answer_to is not None:
        gc.collect()
        _end_with((False, f"ignored: {forks.ignored}") if forks.ignored else answer, forks.answer_to)
    answer_to.send((trouble, forks.answers))


def _end_with(answer: tuple[bool, object], file: int) -> None:
    """Ends a branch; what its parent would do at its end is left to the parent."""
    try:
        with os.fdopen(file, "wb") as pipe:
            pickle.dump(answer, pipe)
    finally:
        os._exit(0)
