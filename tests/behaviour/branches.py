"""Plays a run once for many faults: wherever one may strike, the process forks, and the child goes on with it.

A run in virtual time follows from its seed and its faults alone. So a branch ends as a run with the same fault from the beginning
does (`test_same_seed_same_run.py`), and what comes before the fault is played once for all of them. Two faults that leave the
same world and the same process behind are played once (`test_a_branch_is_a_run_with_its_fault.py`); `ROLLOUTS_DEEP=1` plays both.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import pickle
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rollouts.ports import Request
from rollouts.sim.faults import CrashBefore, DropRequest, Fault, FaultTape, Unavailable
from rollouts.sim.network.prometheus.faults import PrometheusFault
from tests.behaviour.stage import Run

BRANCH_LIMIT_S = 300.0  # most take a tenth of a second
DEEP = os.environ.get("ROLLOUTS_DEEP") == "1"

FaultT = TypeVar("FaultT")
Outcome = TypeVar("Outcome")


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


class Forks(Generic[FaultT]):
    """The places of one run at which each of `faults` strikes in a branch of its own.

    Args:
        places: their numbers; None for all.
    """

    def __init__(self, faults: Sequence[FaultT], *, places: Collection[int] | None = None) -> None:
        self._faults = faults
        self._places = places
        self.answers: list[tuple[int, FaultT, bytes]] = []
        """What the branches said, pickled, in the order of their places."""
        self.answer_to: int | None = None
        """In a branch, the file descriptor of its answer."""
        self.ignored: list[str] = []
        """In a branch, exceptions that Python could raise nowhere: of a finalizer, or warnings about what nobody awaited."""

    def strike(self, place: int) -> FaultT | None:
        """Goes on as a branch for each fault, with that fault; then as the run itself, with none."""
        if self.answer_to is not None or (self._places is not None and place not in self._places):
            return None
        loop = asyncio.get_running_loop()
        for fault in self._faults:
            reads, writes = os.pipe()
            branch = _fork()
            if branch == 0:
                os.close(reads)
                self._begin(answer_to=writes, loop=loop)
                return fault
            os.close(writes)
            try:
                with os.fdopen(reads, "rb") as answer:
                    self.answers.append((place, fault, answer.read()))
            except BaseException:  # the test's time is over
                os.kill(branch, signal.SIGKILL)
                raise
            finally:
                os.waitpid(branch, 0)
        return None

    def _begin(self, *, answer_to: int, loop: asyncio.AbstractEventLoop) -> None:
        """Begins a branch in its process: short-lived, so garbage is collected once, at its end.

        Threads do not come along, but a lock that one of them held stays locked: a branch that stands still for long says where.
        """
        faulthandler.dump_traceback_later(BRANCH_LIMIT_S, exit=True, file=2)
        self.answer_to = answer_to
        asyncio._set_running_loop(loop)  # asyncio knows it by the process as well
        gc.disable()
        sys.unraisablehook = lambda each: self.ignored.append(f"{each.exc_value!r} in {each.object!r}")


class ForkingTape(FaultTape):
    """A tape on which every numbered write is a place of `forks`."""

    def __init__(self, forks: Forks[Fault]) -> None:
        super().__init__({})
        self._forks = forks

    def next_fault(self, request: Request) -> Fault | None:
        """Returns the fault of this request in its branches."""
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


def places(run: Run, fault: Fault, *, first: int = 0) -> list[int]:
    """The writes at which a fault is played, from `first` on.

    A process that ends before a write, when nothing has happened since the write before, has ended after that one (`CrashAfter`).

    Args:
        run: the run without a fault.
    """
    among = range(first, run.faultable)
    if DEEP or not isinstance(fault, CrashBefore):
        return list(among)
    return [place for place in among if place == first or place not in run.seamless]


def distinct(faults: Mapping[str, Fault]) -> dict[str, Fault]:
    """Those of the faults that are played: a lost request is to its sender what a 5xx is."""
    lost = any(isinstance(each, DropRequest) for each in faults.values())
    return {name: each for name, each in faults.items() if DEEP or not (lost and isinstance(each, Unavailable))}


def each_fault(
    play: Callable[[FaultTape], Outcome], *faults: Fault, places: Collection[int]
) -> Iterator[Branch[Fault, Outcome]]:
    """Plays a run with each fault of each of these writes.

    Args:
        play: plays it with a tape; what it returns can be pickled.

    Raises: AssertionError when a branch raised anything, or the run has no such write; what the run itself raises.
    """
    played = 0
    for branch in branched(lambda forks: play(ForkingTape(forks)), faults, places=places):
        played += 1
        yield branch
    assert played == len(places) * len(faults), f"{played} branches at writes {places}"


def branched(
    play: Callable[[Forks[FaultT]], Outcome], faults: Sequence[FaultT], *, places: Collection[int] | None = None
) -> Iterator[Branch[FaultT, Outcome]]:
    """Plays a run, and a branch of it with each fault at each of these places, or at all; see `each_fault`.

    What there is before the run is frozen: a branch that looked for garbage in all of it would copy each of its pages, which took
    most of the branch's time in a process that has played many tests.
    """
    gc.collect()
    gc.freeze()
    forks = Forks(faults, places=places)
    try:
        answer: tuple[bool, object] = True, play(forks)
    except BaseException:
        if forks.answer_to is None:
            raise
        answer = False, traceback.format_exc()
    if forks.answer_to is not None:
        gc.collect()
        _end_with((False, f"ignored: {forks.ignored}") if forks.ignored else answer, forks.answer_to)
    for place, fault, said in forks.answers:
        assert said, (
            f"{fault} at {place}: the branch has ended without an answer; if it stood still, stderr has its stack"
        )
        is_outcome, value = pickle.loads(said)  # noqa: S301 - said by this process
        assert is_outcome, f"{fault} at {place}: {value}"
        yield Branch(place, fault, value)


def _fork() -> int:
    """The child's process id, or 0 in the child. The process may have other threads, which wait for pytest's messages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _end_with(answer: tuple[bool, object], file: int) -> None:
    """Ends a branch; what its parent would do at its end is left to the parent."""
    try:
        with os.fdopen(file, "wb") as pipe:
            pickle.dump(answer, pipe)
    finally:
        os._exit(0)
