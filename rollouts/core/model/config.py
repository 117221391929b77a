"""Values about configuration that belongs to a revision: ConfigMaps and Secrets that a pod template names.

A reference is a place in a template that names one. The source is the user's object; a copy is our immutable one. A use is what
one revision has of one source.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from rollouts.core.model.reasons import Reason

SETTLE_S = 3.0
"""`configVersioning.settleSeconds` when it is not given: the files of one `kubectl apply` are stored within this time."""


class ConfigKind(StrEnum):
    """The kinds that contain configuration; the values are their `kind` in the core API group."""

    CONFIG_MAP = "ConfigMap"
    SECRET = "Secret"  # noqa: S105 - a kind


class ConfigRef(Struct, frozen=True, order=True):
    """One source that a pod template names.

    Args:
        optional: pods start without it; every reference to it says so.
    """

    kind: ConfigKind
    name: str
    optional: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class ConfigUse(Struct, frozen=True, kw_only=True):
    """What one revision has of one source.

    Args:
        content: hash of the source's content, see core/config/content.py; "" when the source is absent.
        copy: name of the copy that the ReplicaSet names instead; "" when it names the source itself. Of an absent source
            there is no copy, and nothing has the name.
        uid, resource_version: of the source when its content was read.
        made: of a Secret: the copy was made after its ReplicaSet. Nobody sees copies of Secrets, so only this tells.
    """

    kind: ConfigKind
    source: str
    content: str
    copy: str = ""
    uid: str = ""
    resource_version: str = ""
    made: bool = False

    @property
    def has_copy(self) -> bool:
        """Whether there must be a copy for the pods of the revision."""
        return bool(self.content and self.copy)

    @property
    def waits_for_copy(self) -> bool:
        """Whether it needs a copy of a Secret that was not made yet."""
        return self.kind is ConfigKind.SECRET and self.has_copy and not self.made

    @property
    def name(self) -> str:
        """Name of the object that the pods of the revision read."""
        return self.copy or self.source


class ConfigVersioning(Struct, frozen=True, kw_only=True):
    """`spec.configVersioning`.

    Args:
        enabled: `mode: On`.
        secrets: Secrets too.
        settle_s: changes of sources within this time become one revision.
        retain: copies stay when the Rollout is deleted.
    """

    enabled: bool = True
    secrets: bool = False
    settle_s: float = SETTLE_S
    retain: bool = False


class SourceKnown(Struct, frozen=True, kw_only=True):
    """A source whose content was read in the version that the watch shows now.

    Args:
        immutable: nobody can change it, so it needs no copy.
        changed_at_s: wall clock of its last change, by the API server; when it was seen, if the API server does not date it.
        shared_by: how many Rollouts name it.
    """

    content: str
    immutable: bool
    uid: str
    resource_version: str
    changed_at_s: float
    shared_by: int = 1


class SourceAbsent(Struct, frozen=True):
    """The API server has no such object.

    Args:
        since_s: when it was seen to go; None when it was not seen before.
    """

    since_s: float | None = None


class SourceUnread(Struct, frozen=True):
    """Nobody knows the content: it was not read yet in the present version, or the last attempt failed.

    Args:
        message: why, and what helps; "" when it was simply not read yet.
        needs_a_person: the controller lacks a right.
        asks: a read may help; else the watch has to show the object first.
    """

    message: str = ""
    needs_a_person: bool = False
    asks: bool = True


class SourceLeftAlone(Struct, frozen=True):
    """Its annotation `rollouts.dev/config-versioning` is "off"."""


Source: TypeAlias = SourceKnown | SourceAbsent | SourceUnread | SourceLeftAlone


class CopySeen(Struct, frozen=True, kw_only=True):
    """A copy of a ConfigMap (label `rollouts.dev/name`), as the watch shows it. Copies of Secrets are seen by nobody.

    Args:
        source, content: its annotations.
        owned: this Rollout's uid controls it.
        owner_index: the place of this Rollout among them; -1 when it is none of them.
        claimed: another object controls it, or an earlier Rollout of that name.
        problem: why it cannot be used, and what to do.
        forged: it is not what its name says; `problem` says why.
        checked: its data was read, and is what its name says.
        unread_because: why the last read of it failed.
    """

    kind: ConfigKind
    name: str
    uid: str
    resource_version: str
    source: str
    content: str
    created_at_s: float
    owned: bool = True
    owners: int = 0
    owner_index: int = -1
    claimed: bool = False
    deleting: bool = False
    problem: str = ""
    forged: bool = False
    checked: bool = True
    unread_because: str = ""


class CopyLook(Struct, frozen=True):
    """Answer to `AskSecretCopy`: whether a copy of a Secret was there at `at_s`.

    Args:
        there: None when the API server does not say: a quota or a webhook refuses the question.
    """

    at_s: float
    there: bool | None


class ConfigHold(Struct, frozen=True):
    """Why the Rollout stays at the revision on record although its template or a source may have changed.

    Args:
        message: "" when a read that was just asked for will end it.
    """

    reason: Reason
    message: str
    deadline_s: float | None = None


class ConfigPlan(Struct, frozen=True, kw_only=True):
    """Which revision the spec means now, with the contents of the sources that its template names.

    Args:
        revision: the spec's; the one on record while there is a `hold`; "" if there is none on record.
        uses: what the new ReplicaSet of that revision names; () while there is a `hold`.
        hold: why the revision is not known, or not followed yet.
        unread: sources to read.
        baseline: the uses to note on an existing ReplicaSet that names the sources.
    """

    revision: str
    uses: tuple[ConfigUse, ...] = ()
    hold: ConfigHold | None = None
    unread: tuple[ConfigRef, ...] = ()
    baseline: tuple[ConfigUse, ...] | None = None
