"""What comes out of a migration: objects to apply, and what a person has to know."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from msgspec import Struct

from rollouts.objects import Manifest, mapping

SERVERS_OWN = frozenset(
    {"creationTimestamp", "generation", "managedFields", "ownerReferences", "resourceVersion", "selfLink", "uid"}
)
"""Fields of the metadata that an API server writes."""

OF_TOOLS = (
    "argo-rollouts.argoproj.io/",
    "deployment.kubernetes.io/",
    "kubectl.kubernetes.io/last-applied-configuration",
    "rollout.argoproj.io/",
)
"""Annotations that mean something to the tool that comes before."""


class Told(StrEnum):
    """How much a note matters."""

    CHANGED = "changed"  # it means the same here
    TO_DO = "to do"  # a person has to do something beside applying what came out
    LEFT_OUT = "left out"  # it has no equal here


class Note(Struct, frozen=True):
    """One thing to know about a subject such as `Deployment cart`, at a path in it; "" is for all of it."""

    told: Told
    subject: str
    path: str
    message: str

    def __str__(self) -> str:
        where = f" {self.path}" if self.path else ""
        return f"{self.told}: {self.subject}{where}: {self.message}"


@dataclass(slots=True)
class Migration:
    """What has come out so far."""

    objects: list[Manifest] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def note(self, told: Told, manifest: Manifest, path: str, message: str) -> None:
        """Adds a note about an object that came in."""
        subject = f"{manifest.get('kind', 'object')} {name_of(manifest)}".rstrip()
        self.notes.append(Note(told, subject, path, message))

    @property
    def complete(self) -> bool:
        """Nothing was left out."""
        return all(note.told is not Told.LEFT_OUT for note in self.notes)


def name_of(manifest: Manifest) -> str:
    """Its name; "" without one."""
    return str(mapping(manifest.get("metadata")).get("name", ""))


def whole(value: object, default: int) -> int:
    """The value, if it is a whole number, be it written as a text; the default otherwise."""
    return int(value) if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()) else default


def metadata_of(manifest: Manifest) -> Manifest:
    """Its metadata as a file has it: without what an API server or another tool wrote."""
    metadata = {key: value for key, value in mapping(manifest.get("metadata")).items() if key not in SERVERS_OWN}
    annotations = {
        key: value for key, value in mapping(metadata.pop("annotations", None)).items() if not key.startswith(OF_TOOLS)
    }
    return {**metadata, **({"annotations": annotations} if annotations else {})}
