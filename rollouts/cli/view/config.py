"""What revisions have of ConfigMaps and Secrets, and how two of them differ, as values. Pure. No value of a Secret is in them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from rollouts.core.config.content import content_hash
from rollouts.core.model.config import ConfigKind, ConfigUse
from rollouts.manifests.config_copy import config_key_of
from rollouts.manifests.ownership import config_note_of
from rollouts.objects import Manifest, mapping


class ConfigValues(Struct, frozen=True):
    """What pods can read from a ConfigMap or Secret: the bytes of each key's file; `binary` are the keys without text."""

    values: Mapping[str, bytes] = field(default_factory=dict)
    binary: frozenset[str] = frozenset()


class KeyValue(Struct, frozen=True):
    """The value of one key; without its text for binary data, and for a Secret."""

    size_bytes: int
    text: str | None


class KeyChange(Struct, frozen=True):
    """One key that differs; None where it is not there."""

    key: str
    before: KeyValue | None
    after: KeyValue | None


class SourceChange(Struct, frozen=True, kw_only=True):
    """One ConfigMap or Secret that differs between two revisions, with its keys, or why they are not known."""

    kind: ConfigKind
    source: str
    before: ConfigUse | None
    after: ConfigUse | None
    keys: tuple[KeyChange, ...] = ()
    unknown: str = ""


def uses_of(replica_set: Manifest) -> tuple[ConfigUse, ...]:
    """What the ReplicaSet's revision has of each source, as its annotation notes; () without a note that can be read."""
    annotations = mapping(mapping(replica_set.get("metadata")).get("annotations"))
    return config_note_of({name: text for name, text in annotations.items() if isinstance(text, str)}) or ()


def use_text(use: ConfigUse, *, arrow: str) -> str:
    """`ConfigMap app-config → app-config-k7x92mzq4c`; what is absent or has no copy says so."""
    if not use.content:
        return f"{use.kind} {use.source}: absent"
    return f"{use.kind} {use.source} {arrow} {use.copy}" if use.copy else f"{use.kind} {use.source}: no copy"


def changed_sources(
    before: Iterable[ConfigUse], after: Iterable[ConfigUse]
) -> tuple[tuple[ConfigUse | None, ConfigUse | None], ...]:
    """The sources whose contents differ, as pairs, by kind and name; an absent one is None."""
    old, new = ({(use.kind, use.source): use for use in uses if use.content} for uses in (before, after))
    pairs = ((old.get(key), new.get(key)) for key in sorted(old.keys() | new.keys()))
    return tuple((one, other) for one, other in pairs if not one or not other or one.content != other.content)


def changes_text(before: Iterable[ConfigUse], after: Iterable[ConfigUse]) -> str:
    """The names of the sources that differ: `app-config, +flags, -legacy`; a Secret has its kind before it. "" for none."""
    names = []
    for old, new in changed_sources(before, after):
        if (use := new or old) is not None:
            sign = "+" if old is None else "-" if new is None else ""
            names.append(f"{sign}{'Secret ' if use.kind is ConfigKind.SECRET else ''}{use.source}")
    return ", ".join(names)


def content_of(kind: ConfigKind, manifest: Manifest) -> ConfigValues:
    """The content of a ConfigMap or Secret; also of one in a file, where a Secret may have `stringData`."""
    data, binary = _texts(manifest.get("data")), _texts(manifest.get("binaryData"))
    if kind is ConfigKind.SECRET:
        plain = _texts(manifest.get("stringData"))
        values = {key: _decoded(text) for key, text in data.items()}
        return ConfigValues(values | {key: text.encode() for key, text in plain.items()}, frozenset(values))
    values = {key: _decoded(text) for key, text in binary.items()}
    return ConfigValues({key: text.encode() for key, text in data.items()} | values, frozenset(values))


def key_in(manifest: Manifest | None) -> bytes:
    """The key that the hashes of a namespace's Secrets are made with, from its Secret; b"" for none that can be used."""
    return config_key_of(_texts((manifest or {}).get("data"))) or b""


def hash_of(kind: ConfigKind, manifest: Manifest, *, key: bytes = b"") -> str:
    """The hash of its content, as a ReplicaSet's note has it; that of a Secret needs the key, see `key_in`."""
    data, binary = _texts(manifest.get("data")), _texts(manifest.get("binaryData"))
    if kind is not ConfigKind.SECRET:
        return content_hash(data, binary)
    plain = _texts(manifest.get("stringData"))
    return content_hash(None, data | {key: base64.b64encode(plain[key].encode()).decode() for key in plain}, key=key)


def key_changes(kind: ConfigKind, before: ConfigValues | None, after: ConfigValues | None) -> tuple[KeyChange, ...]:
    """The keys that differ; None is an object that is not there."""
    old, new = before or ConfigValues(), after or ConfigValues()
    return tuple(
        KeyChange(key, _value(kind, old, key), _value(kind, new, key))
        for key in sorted(old.values.keys() | new.values.keys())
        if old.values.get(key) != new.values.get(key)
    )


def size_text(size_bytes: int) -> str:
    """`312 bytes`, `12 KiB`."""
    if size_bytes < 1 << 10:
        return f"{size_bytes} bytes"
    return f"{size_bytes / 2**10:.3g} KiB" if size_bytes < 1000 << 10 else f"{size_bytes / 2**20:.3g} MiB"


def _value(kind: ConfigKind, content: ConfigValues, key: str) -> KeyValue | None:
    value = content.values.get(key)
    if value is None:
        return None
    hidden = kind is ConfigKind.SECRET or key in content.binary
    return KeyValue(len(value), None if hidden else value.decode(errors="replace"))


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return text.encode()


def _texts(value: Any) -> dict[str, str]:
    return {str(key): text for key, text in mapping(value).items() if isinstance(text, str)}
