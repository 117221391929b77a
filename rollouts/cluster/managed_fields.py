"""Finds out who set an annotation: `.metadata.managedFields` names a field manager for each, but no user.

Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec


class _OwnedMetadata(msgspec.Struct, frozen=True, gc=False):
    annotations: dict[str, Any] = msgspec.field(default_factory=dict, name="f:annotations")


class _OwnedFields(msgspec.Struct, frozen=True, gc=False):
    metadata: _OwnedMetadata = msgspec.field(default_factory=_OwnedMetadata, name="f:metadata")


class _Entry(msgspec.Struct, frozen=True, gc=False):
    manager: str = ""
    time: str = ""
    fields: _OwnedFields = msgspec.field(default_factory=_OwnedFields, name="fieldsV1")


_ENTRIES = msgspec.json.Decoder(list[_Entry])


def annotators_of(
    managed_fields: msgspec.Raw, annotations: Collection[str] | None, *, prefix: str
) -> dict[str, str] | None:
    """The field manager that set each annotation with that prefix; the last one if several did; {} if it cannot be read.

    None when there is no such annotation: then the JSON of managedFields, which is long, is not read.

    Raises: nothing: the result is only shown to people, and nothing is decided on it.
    """
    asked = [key for key in annotations or () if key.startswith(prefix)]
    if not asked:
        return None
    try:
        entries = _ENTRIES.decode(managed_fields)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    found: dict[str, str] = {}
    for entry in sorted(entries, key=lambda field: field.time):
        for key in asked:
            if f"f:{key}" in entry.fields.metadata.annotations:
                found[key] = entry.manager
    return found
