"""What a migration would lose in silence: each value of the input that no object that came out, and no note, has. Pure.

A value is accounted for if it stands at the same path in an object that was made of its own, where a `Move` says that it is,
below the path of a note, or among those that mean nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from msgspec import Struct

from rollouts.cli.migrate.metadata import OF_TOOLS, SERVERS_OWN
from rollouts.cli.migrate.outcome import Migration, Move, Told, below, steps_in, value_at
from rollouts.objects import Manifest

WITHOUT_MEANING = {
    "": ("apiVersion", "kind", "status", *(f"metadata.{name}" for name in sorted(SERVERS_OWN))),
    # Flagger goes, and these only say which objects it looks at, and what it does when it goes.
    "Canary": (
        *("metadata.finalizers", "metadata.name", "spec.provider", "spec.targetRef", "spec.revertOnDeletion"),
        *(
            f"spec.{ref}.{name}"
            for ref in ("autoscalerRef", "ingressRef", "routeRef")
            for name in ("apiVersion", "kind")
        ),
    ),
    # Its query goes into a template of each Canary that names it.
    "MetricTemplate": ("metadata.name", "metadata.namespace", "spec.provider.type"),
}
"""By kind, and "" for every kind: the paths of what has no meaning for the controller, and is left out without a note."""

_EMPTY_IS_NOTHING = frozenset({"Canary"})
"""Kinds in which false, and an empty object or list, is the same as nothing."""


def note_what_is_lost(migration: Migration) -> None:
    """Adds a note for each part of the input that nothing accounts for; so the migration is not complete."""
    for manifest, path in lost(migration):
        message = "nothing was made of it: no object in the files uses it" if not path else "has no equal here"
        migration.note(Told.LEFT_OUT, manifest, path, message)


def lost(migration: Migration) -> Iterator[tuple[Manifest, str]]:
    """The objects that came in with the paths in them that nothing accounts for: of a whole that is lost, its own path."""
    for place, manifest in enumerate(migration.inputs):
        made = [made.manifest for made in migration.made if place in made.sources]
        notes = [note for note in migration.notes if note.source == place]
        if made or notes:
            yield from ((manifest, path) for path in _account(migration, place).lost_below(manifest, "", made))
        else:
            yield manifest, ""


def _account(migration: Migration, place: int) -> _Account:
    kind = str(migration.inputs[place].get("kind"))
    gone = not any(place in made.sources for made in migration.made)
    notes = [note for note in migration.notes if note.source == place]
    paths = {note.path for note in notes if note.path or gone or note.told is Told.LEFT_OUT}
    return _Account(
        covered=paths.union(WITHOUT_MEANING[""], WITHOUT_MEANING.get(kind, ())),
        moves=[move for move in migration.moves if move.source == place],
        empty_is_nothing=kind in _EMPTY_IS_NOTHING,
    )


class _Account(Struct, frozen=True):
    """What accounts for the values of one object that came in."""

    covered: set[str]
    moves: list[Move]
    empty_is_nothing: bool

    def lost_below(self, value: Any, path: str, twins: list[Any]) -> list[str]:
        """The paths that are lost from here on, given what came out at the same path."""
        if value is None or path in self.covered or path.startswith(_OF_TOOLS) or any(twin == value for twin in twins):
            return []
        places = [(step, below(path, step)) for step in _steps_of(value)]
        found = [self.lost_below(value[step], at, [value_at(twin, [step]) for twin in twins]) for step, at in places]
        if not places:
            return [] if self._is_elsewhere(value, path) else [path]
        is_whole = "." in path and all(paths == [at] for paths, (_, at) in zip(found, places, strict=True))
        return [path] if is_whole else list(chain.from_iterable(found))

    def _is_elsewhere(self, leaf: Any, path: str) -> bool:
        if self.empty_is_nothing and (leaf is False or leaf in ({}, [])):
            return True
        moves = (
            move for move in self.moves if path == move.path or path.startswith((f"{move.path}.", f"{move.path}["))
        )
        return any(_has(value_at(move.manifest, steps_in(move.to)), leaf) for move in moves)


_OF_TOOLS = tuple(f'metadata.{name}["{tool}' for name in ("annotations", "labels") for tool in OF_TOOLS)


def _steps_of(value: Any) -> Iterable[str | int]:
    match value:
        case dict():
            return value
        case list():
            return range(len(value))
        case _:
            return ()


def _has(value: Any, leaf: Any) -> bool:
    """Whether a value has a leaf somewhere, be it as a text."""
    match value:
        case dict():
            return any(key == leaf or _has(item, leaf) for key, item in value.items())
        case list():
            return any(_has(item, leaf) for item in value)
        case str():
            return value == str(leaf)
        case _:
            return bool(value == leaf) and isinstance(value, bool) == isinstance(leaf, bool)
