"""Who gave a command, and how that is known."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Struct

from rollouts.core.model.declared import NEEDED, Json, WhenAbsent

NOTE_SUFFIX = "-by"
"""`rollouts.dev/abort-by` says who gave `rollouts.dev/abort`: a policy of the API server writes it, and nobody else can."""
NAME_MAX = 256  # characters; the policy shortens longer names of users, and the API server those of field managers


class AuthorKind(StrEnum):
    """How it is known who gave a command."""

    USER = "User"
    """The API server's policy noted the user whom it had authenticated."""
    FIELD_MANAGER = "FieldManager"
    """The field manager of the annotation, which is the name of a program and says nothing about a user."""
    NOTE = "Note"
    """A note on a ReplicaSet (`AbortNote`): whoever may write ReplicaSets can write it."""


class Author(Struct, frozen=True):
    """Who gave a command, as far as that is known. As text it follows the word "by"."""

    name: Annotated[str, "Who gave the command, if that is known; byKind says how.", Json("by"), NEEDED]
    kind: Annotated[
        AuthorKind,
        "User: the user whom the API server had authenticated, noted by a policy. FieldManager: only the program is known "
        "that set the annotation, such as kubectl-annotate. Note: a name that a ReplicaSet notes.",
        Json("byKind"),
        WhenAbsent(AuthorKind.FIELD_MANAGER),  # older controllers recorded field managers
    ]

    def __str__(self) -> str:
        match self.kind:
            case AuthorKind.USER:
                return self.name
            case AuthorKind.FIELD_MANAGER:
                return f"field manager {self.name}"
            case AuthorKind.NOTE:
                return f"{self.name}, as a ReplicaSet notes"
