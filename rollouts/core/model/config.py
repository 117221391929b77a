"""Values about configuration that belongs to a revision: ConfigMaps and Secrets that a pod template names.

A reference is a place in a template that names one. The source is the user's object; a copy is our immutable one. A use is what
one revision has of one source.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

SETTLE_S = 3.0
"""`configVersioning.settleSeconds` when it is not given: the files of one `kubectl apply` are stored within this time."""


class ConfigKind(StrEnum):
    """The kinds that contain configuration; the values are their `kind` in the core API group."""

    CONFIG_MAP = "ConfigMap"
    SECRET = "Secret"  # noqa: S105 - a kind


@dataclass(frozen=True, slots=True, order=True)
class ConfigRef:
    """One source that a pod template names.

    Args:
        optional: pods start without it; every reference to it says so.
    """

    kind: ConfigKind
    name: str
    optional: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigUse:
    """What one revision has of one source.

    Args:
        source: name of the user's object.
        content: hash of its content, see core/config/content.py; "" when the source is absent.
        copy: name of the copy that the ReplicaSet names instead; "" when it names the source itself.
        uid, resource_version: of the source when its content was read; "" when it is absent.
    """

    kind: ConfigKind
    source: str
    content: str
    copy: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def name(self) -> str:
        """Name of the object that the pods of the revision read."""
        return self.copy or self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigVersioning:
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
