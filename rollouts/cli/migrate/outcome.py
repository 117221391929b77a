"""What comes out of a migration: objects to apply, where each part of the input is in them, and what a person has to know."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from msgspec import Struct

from rollouts.cli.kubernetes.parts import entries
from rollouts.objects import Manifest, mapping


class Told(StrEnum):
    """How much a note matters."""

    CHANGED = "changed"  # it means the same here
    THEN = "then"  # a step on the way to the Rollout; what came out stays as it is
    TO_DO = "to do"  # what came out has to be edited
    LEFT_OUT = "left out"  # it has no equal here


class Note(Struct, frozen=True):
    """One thing to know about a subject such as `Deployment cart`, at a path in it; "" is for all of it.

    Args:
        source: the place of the subject among the objects that came in; None for one that came out.
        line: of what came out, if `source` is None.
    """

    told: Told
    subject: str
    path: str
    message: str
    source: int | None = None
    line: int = 0

    def __str__(self) -> str:
        where = f" {self.path}" if self.path else ""
        return f"{self.told}: {self.subject}{where}: {self.message}"


class Made(Struct, frozen=True):
    """An object that came out, and which of those that came in it is made of."""

    manifest: Manifest
    sources: tuple[int, ...]


class Move(Struct, frozen=True):
    """What is below `path` of an object that came in is below `to` of one that came out."""

    source: int
    path: str
    manifest: Manifest
    to: str


class Ref(Struct, frozen=True):
    """An object that others name; the namespace as the file has it, None for none."""

    group: str
    kind: str
    namespace: str | None
    name: str


@dataclass(slots=True)
class Migration:
    """The objects that came in, and what has come out so far."""

    inputs: tuple[Manifest, ...]
    made: list[Made] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    _places: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._places = {id(manifest): place for place, manifest in enumerate(self.inputs)}

    @property
    def objects(self) -> list[Manifest]:
        """What came out."""
        return [made.manifest for made in self.made]

    @property
    def changed(self) -> bool:
        """Something came out that did not come in."""
        return any(id(manifest) not in self._places for manifest in self.objects)

    @property
    def complete(self) -> bool:
        """Nothing was left out, and nothing has to be edited."""
        return not any(note.told in (Told.TO_DO, Told.LEFT_OUT) for note in self.notes)

    def add(self, manifest: Manifest, *sources: Manifest) -> None:
        """Adds an object that came out, made of these that came in."""
        self.made.append(Made(manifest, tuple(self._places[id(source)] for source in sources)))

    def note(self, told: Told, manifest: Manifest, path: str, message: str) -> None:
        """Adds a note about an object that came in, once."""
        subject = f"{manifest.get('kind', 'object')} {name_of(manifest)}".rstrip()
        note = Note(told, subject, path, message, self._places[id(manifest)])
        if note not in self.notes:
            self.notes.append(note)

    def moved(self, source: Manifest, manifest: Manifest, paths: Mapping[str, str]) -> None:
        """Says where parts of an object that came in are in one that came out, by their paths."""
        self.moves += [Move(self._places[id(source)], path, manifest, to) for path, to in paths.items()]

    def named(self, ref: Ref) -> Manifest | None:
        """The object of that name among those that came in, unless the controller of another one of them made it."""
        found = (manifest for manifest in self.inputs if ref_of(manifest) == ref)
        return next((manifest for manifest in found if self.owner_of(manifest) is None), None)

    def owner_of(self, manifest: Manifest) -> Ref | None:
        """The object among those that came in that owns this one, whose controller makes it anew."""
        namespace = ref_of(manifest).namespace
        refs = {ref_of(each) for each in self.inputs}
        owners = (
            Ref(group_of(owner), str(owner.get("kind")), namespace, str(owner.get("name")))
            for _, owner in entries(mapping(manifest.get("metadata")).get("ownerReferences"))
        )
        return next((owner for owner in owners if owner in refs), None)


def ref_of(manifest: Manifest) -> Ref:
    """By what others name an object."""
    namespace = mapping(manifest.get("metadata")).get("namespace")
    named = None if namespace is None else str(namespace)
    return Ref(group_of(manifest), str(manifest.get("kind")), named, name_of(manifest))


def group_of(thing: Mapping[str, Any]) -> str:
    """The group in its apiVersion; "" for the core group, and without one."""
    return str(thing.get("apiVersion") or "").rpartition("/")[0]


def name_of(manifest: Manifest) -> str:
    """Its name; "" without one."""
    return str(mapping(manifest.get("metadata")).get("name", ""))


def whole(value: object, default: int) -> int:
    """The value, if it is a whole number, be it written as a text; the default otherwise."""
    return int(value) if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()) else default


def steps_in(path: str) -> list[str | int]:
    """The names and indexes of a path as `below` writes it."""
    steps: list[str | int] = []
    while path:
        if path.startswith('["'):
            name, _, path = path[2:].partition('"]')
            steps.append(name)
        elif path.startswith("["):
            index, _, path = path[1:].partition("]")
            steps.append(int(index))
        else:
            path = path.removeprefix(".")
            end = min((at for at in (path.find("."), path.find("[")) if at >= 0), default=len(path))
            steps.append(path[:end])
            path = path[end:]
    return steps


def below(path: str, step: str | int) -> str:
    """The path of a field or an entry: `spec.ports[0].name`, `metadata.annotations["a.b/c"]`."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    if step.replace("_", "").replace("-", "").isalnum():
        return f"{path}.{step}" if path else step
    return f'{path}["{step}"]'


def value_at(value: object, steps: Iterable[str | int]) -> object:
    """What is at these steps; None for nothing."""
    for step in steps:
        match value, step:
            case dict(), str():
                value = value.get(step)
            case list(), int():
                value = value[step] if step < len(value) else None
            case _:
                return None
    return value


def texts_in(value: object, texts: Container[str], path: str = "") -> Iterator[tuple[str, str]]:
    """Where one of these texts stands in a value, each with its path."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in items:
        at = below(path, step)
        if isinstance(item, str) and item in texts:
            yield at, item
        yield from texts_in(item, texts, at)
