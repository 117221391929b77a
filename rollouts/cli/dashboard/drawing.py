"""Live pages are drawn once for all who see the same, in whichever session, and what they are drawn from is kept once.

Nobody sees what the API server has not given to themselves: a row is found by the version of the object that it was made of, and
a page by the versions of all its objects and by everything else that it is drawn from. Whoever was given other objects, or has
other rights or filters, has another page.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Generic, Protocol
from weakref import WeakValueDictionary

import htpy as h
from msgspec import Struct

from rollouts.cli.dashboard.experiment_list import EXPERIMENTS_LOOK, ListedExperiment, listed_experiment
from rollouts.cli.dashboard.experiment_page import experiment_page
from rollouts.cli.dashboard.links import LinkTemplate
from rollouts.cli.dashboard.list_page import (
    ROLLOUTS_LOOK,
    Listed,
    ListLook,
    ListQuery,
    ListRow,
    list_page,
    listed,
    version_of,
)
from rollouts.cli.dashboard.pages import (
    EXPERIMENTS,
    DashboardPage,
    Look,
    capital,
    fragment,
    message,
    notice,
    object_address,
    when,
)
from rollouts.cli.dashboard.rights import Locks
from rollouts.cli.dashboard.rollout_page import rollout_page
from rollouts.cli.dashboard.run_page import run_page
from rollouts.cli.view.experiments import whole_experiment
from rollouts.cli.view.follow import Followed, Kept, KeptKey, KeptObjects, KeptSnapshot
from rollouts.cli.view.objects import run_named
from rollouts.cli.view.reading import experiment_in, seen_in
from rollouts.cli.view.runs import RunLine
from rollouts.objects import EXPERIMENT, ROLLOUT, Key, Kind, Manifest
from rollouts.recent import Recent

REDRAWN_EVERY_S = 5.0  # ages and countdowns
_PAGES_KEPT = 100  # of some 100 KB each, for five seconds


class Drawing(Hashable, Protocol[Kept]):
    """Everything but the objects and the time that a page is drawn from. Two that are equal are drawn the same."""

    def page(self, followed: KeptObjects[Kept], now_s: float) -> DashboardPage:
        """The page."""
        ...


class ListDrawing(Struct, frozen=True):
    """The list. `scope` is the namespace that is listed; "" for all."""

    query: ListQuery
    scope: str
    chooses_namespace: bool
    lost_since_s: float | None

    def page(self, followed: KeptObjects[Listed], now_s: float) -> DashboardPage:
        """See `Drawing`."""
        return self.of(followed.all(ROLLOUT), ROLLOUTS_LOOK, now_s)

    def of(self, rows: Sequence[ListRow], look: ListLook, now_s: float) -> DashboardPage:
        """The page of these rows."""
        return list_page(
            rows,
            self.query,
            now_s=now_s,
            lost=_lost(self.lost_since_s, now_s),
            scope=self.scope,
            chooses_namespace=self.chooses_namespace,
            look=look,
        )


class ExperimentListDrawing(Struct, frozen=True):
    """The list of Experiments; `asked` says which part of it, as of Rollouts."""

    asked: ListDrawing

    def page(self, followed: KeptObjects[ListedExperiment], now_s: float) -> DashboardPage:
        """See `Drawing`."""
        return self.asked.of(followed.all(EXPERIMENT), EXPERIMENTS_LOOK, now_s)


class CommandOutcome(Struct, frozen=True):
    """What became of a command that somebody has just given."""

    colour: str
    text: str


class _ObjectDrawing(Struct, frozen=True):
    """One object. `locks` says what whoever looks cannot do."""

    key: Key
    locks: Locks
    told: CommandOutcome | None
    lost_since_s: float | None
    links: tuple[LinkTemplate, ...] = ()

    def look(self, now_s: float) -> Look:
        """A look at its page."""
        told = notice(self.told.colour, self.told.text) if self.told is not None else None
        return Look(now_s=now_s, lost=_lost(self.lost_since_s, now_s), told=told, locks=self.locks, links=self.links)


class RolloutDrawing(_ObjectDrawing, frozen=True):
    """One Rollout."""

    def page(self, followed: Followed, now_s: float) -> DashboardPage:
        """See `Drawing`."""
        key, seen = self.key, seen_in(followed, self.key)
        if seen is None:
            return message(
                f"{key.name} was deleted", f"There is no Rollout {key.name} in namespace {key.namespace} any more."
            )
        return rollout_page(seen, self.look(now_s))


class RunDrawing(Struct, frozen=True):
    """One AnalysisRun about a Rollout or an Experiment, which `kind` and `key` name."""

    kind: Kind
    key: Key
    name: str
    lost_since_s: float | None

    def page(self, followed: Followed, now_s: float) -> DashboardPage:
        """See `Drawing`."""
        page = self.found(followed, now_s)
        why = f"{self.key.name} has no AnalysisRun {self.name} any more."
        back, name = object_address(self.kind, self.key), self.key.name
        return page or message(f"{self.name} was deleted", why, back=back, back_text=f"Back to {name}")

    def found(self, followed: Followed, now_s: float) -> DashboardPage | None:
        """The page; None where there is no such run."""
        found = _RUNS[self.kind](followed, self.key, self.name)
        if found is None:
            return None
        (title, run), lost = found, _lost(self.lost_since_s, now_s)
        return run_page(run, title, self.key.name, object_address(self.kind, self.key), now_s=now_s, lost=lost)


class ExperimentDrawing(_ObjectDrawing, frozen=True):
    """One Experiment."""

    def page(self, followed: Followed, now_s: float) -> DashboardPage:
        """See `Drawing`."""
        seen = experiment_in(followed, self.key)
        if seen is None:
            why = f"There is no Experiment {self.key.name} in namespace {self.key.namespace} any more."
            return message(f"{self.key.name} was deleted", why, back=EXPERIMENTS, back_text="All Experiments")
        return experiment_page(whole_experiment(seen), self.look(now_s))


class SharedSnapshots(Generic[Kept]):
    """Snapshots of which there is one for all who were given the same objects in the same versions."""

    def __init__(self, version: Callable[[Kept], Hashable]) -> None:
        """`version` is what no two objects have in common, nor two states of one."""
        self.version = version
        self._known: WeakValueDictionary[frozenset[Hashable], SharedSnapshot[Kept]] = WeakValueDictionary()

    def of(self, objects: Mapping[KeptKey, Kept]) -> SharedSnapshot[Kept]:
        """The one with these objects, for as long as somebody has it."""
        content = frozenset(map(self.version, objects.values()))
        found = self._known.get(content)
        if found is None:
            found = self._known[content] = SharedSnapshot(objects, self)
        return found


class SharedSnapshot(KeptSnapshot[Kept]):
    """One of `SharedSnapshots`. Whoever comes to the next one by the same change finds what the first of them has made."""

    def __init__(self, objects: Mapping[KeptKey, Kept], shared: SharedSnapshots[Kept]) -> None:
        super().__init__(objects)
        self._shared = shared
        self._next: WeakValueDictionary[Hashable, KeptSnapshot[Kept]] = WeakValueDictionary()

    def after(self, key: KeptKey, kept: Kept | None) -> KeptSnapshot[Kept]:
        """See `KeptSnapshot`."""
        change = (key, None if kept is None else self._shared.version(kept))
        found = self._next.get(change)
        if found is None:
            found = self._next[change] = self._shared.of(self.changed(key, kept))
        return found


class Drawn:
    """The rows, objects and live pages of one dashboard."""

    def __init__(self) -> None:
        self.lists: SharedSnapshots[Listed] = SharedSnapshots(lambda row: row.version)
        self.experiment_lists: SharedSnapshots[ListedExperiment] = SharedSnapshots(lambda row: row.version)
        self.objects: SharedSnapshots[Manifest] = SharedSnapshots(version_of)
        self._rows: WeakValueDictionary[Hashable, Listed] = WeakValueDictionary()
        self._experiment_rows: WeakValueDictionary[Hashable, ListedExperiment] = WeakValueDictionary()
        self._pages: Recent[Hashable, bytes] = Recent(_PAGES_KEPT)
        self._turn = 0

    def row(self, rollout: Manifest) -> Listed:
        """The row of a Rollout, for as long as somebody has it."""
        version = version_of(rollout)
        found = self._rows.get(version)
        if found is None:
            found = self._rows[version] = listed(rollout)
        return found

    def experiment_row(self, experiment: Manifest) -> ListedExperiment:
        """The row of an Experiment, likewise."""
        version = version_of(experiment)
        found = self._experiment_rows.get(version)
        if found is None:
            found = self._experiment_rows[version] = listed_experiment(experiment)
        return found

    def event(self, drawing: Drawing[Kept], followed: KeptObjects[Kept], now_s: float) -> bytes:
        """The event with the page as it is, drawn anew after a change or when it is time for it."""
        turn = _turn()
        if turn != self._turn:
            self._pages.clear()
            self._turn = turn
        of = (type(drawing), drawing, followed.now)
        event = self._pages.get(of)
        if event is None:
            event = self._pages[of] = page_event(drawing.page(followed, now_s))
        return event


def next_turn_s() -> float:
    """When pages are drawn anew although nothing has changed, on the loop's clock: the same time for everybody."""
    return (_turn() + 1) * REDRAWN_EVERY_S


def page_event(page: DashboardPage) -> bytes:
    """What a stream sends of a page."""
    return sent("page", {"title": page.title, "html": fragment(page)})


def sent(event: str, data: object) -> bytes:
    """One event of a stream."""
    return f"event: {event}\ndata: {json.dumps(data)}\n\n".encode()


def _turn() -> int:
    return int(asyncio.get_running_loop().time() // REDRAWN_EVERY_S)


def _run_of_rollout(followed: Followed, key: Key, name: str) -> tuple[str, RunLine] | None:
    """The run of that name about a Rollout, with its title."""
    seen = seen_in(followed, key)
    run = run_named(name, seen) if seen is not None else None
    return None if run is None else (capital(run.about), run)


def _run_of_experiment(followed: Followed, key: Key, name: str) -> tuple[str, RunLine] | None:
    """The same of an Experiment."""
    seen = experiment_in(followed, key)
    analyses = whole_experiment(seen).analyses if seen is not None else ()
    return next(((each.title, each.run) for each in analyses if each.run is not None and each.run.name == name), None)


_RUNS = {ROLLOUT: _run_of_rollout, EXPERIMENT: _run_of_experiment}


def _lost(since_s: float | None, now_s: float) -> h.Node:
    if since_s is None:
        return None
    text = h.p["What is shown may be old. It has not answered since ", when(since_s, now_s), "."]
    return notice("bad", "The API server cannot be reached", text)
