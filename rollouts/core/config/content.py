"""The names that follow from configuration: the hash of a source's content, its copy, and the revision with it (scheme v2).

Frozen, as scheme v1 is: an upgrade that changes one of them rolls everybody's workload.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from json.encoder import encode_basestring
from typing import TypeAlias

from rollouts.core.model.config import ConfigKind, ConfigUse
from rollouts.core.model.revision import canonical_json, short_hash, short_name
from rollouts.objects import NAME_MAX

PIECE_CHARS = 16_384
"""What is hashed between two pauses, in characters."""

Hashing: TypeAlias = Generator[None, None, str]
"""Pauses between two pieces of the work; its result is the hash."""


def content_hash(data: Mapping[str, str] | None, binary_data: Mapping[str, str] | None, *, key: bytes = b"") -> str:
    """The hash of all that pods can read from a ConfigMap or Secret. Keys have no order; labels and annotations do not count.

    Args:
        data: a ConfigMap's `data`; None is the same as no keys.
        binary_data: a ConfigMap's `binaryData` or a Secret's `data`, base64.
        key: of a Secret's hash, which more people see than may read the Secret: without the key nobody can try values
            until one has this hash. HMAC with SHA-256, RFC 2104.
    """
    steps = hashing(data, binary_data, key=key)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return str(done.value)


def hashing(data: Mapping[str, str] | None, binary_data: Mapping[str, str] | None, *, key: bytes = b"") -> Hashing:
    """`content_hash` in pieces, for whoever must not be held up: 1 MiB in 100,000 keys takes a fifth of a second.

    What is hashed is the canonical JSON of `{"binaryData": …, "data": …}`, see core/model/revision.py.
    """
    digest = hmac.new(key, digestmod="sha256") if key else hashlib.sha256()
    waiting: list[str] = []
    size_chars = 0
    for part in _canonical(data or {}, binary_data or {}):
        waiting.append(part)
        size_chars += len(part)
        if size_chars >= PIECE_CHARS:
            digest.update("".join(waiting).encode())
            waiting, size_chars = [], 0
            yield
    digest.update("".join(waiting).encode())
    return short_hash(digest.digest()) if key else short_name(digest.digest())


@lru_cache(maxsize=1024)  # each pass asks for the names of the same copies
def copy_name(kind: ConfigKind, *, rollout: str, source: str, content: str, salt: str = "") -> str:
    """`<source>-<hash>`, at most 253 characters: a copy's name. Two Rollouts never share one; equal content has it again.

    Args:
        rollout: the Rollout's name.
        source: the source's name; a long one is cut.
        content: from `content_hash`.
        salt: another one makes another name, for copies that belong to one ReplicaSet alone.
    """
    ending = short_hash(canonical_json([kind.value, rollout, source, content, *([salt] if salt else ())]))
    return f"{source[: NAME_MAX - 1 - len(ending)].rstrip('-.')}-{ending}"


def config_revision(template_hash: str, uses: Iterable[ConfigUse]) -> str:
    """The revision of a template with the contents of its sources: scheme v2, or `template_hash` (v1) without any use.

    Args:
        template_hash: the hash of the template, see core/model/revision.py.
        uses: in any order. Only kind, source and content count.
    """
    config = tuple(sorted([(use.kind.value, use.source, use.content) for use in uses]))
    return _config_revision(template_hash, config) if config else template_hash


@lru_cache(maxsize=1024)  # each pass asks for the same revision
def _config_revision(template_hash: str, config: tuple[tuple[str, str, str], ...]) -> str:
    """`config_revision` of at least one use, as kind, source and content."""
    return short_hash(canonical_json({"template": template_hash, "config": [list(use) for use in config]}))


def _canonical(data: Mapping[str, str], binary_data: Mapping[str, str]) -> Iterator[str]:
    """Canonical JSON in parts of at most a piece or two."""
    yield '{"binaryData":{'
    for index, name in enumerate(sorted(binary_data)):
        yield f"{',' if index else ''}{encode_basestring(name)}:"
        text = binary_data[name]
        with suppress(ValueError):  # what is no base64 stays as it is, and the API server refuses it
            raw = binascii.a2b_base64("".join(text.split()), strict_mode=True)
            text = binascii.b2a_base64(raw, newline=False).decode()  # one text for the same bytes
        yield from _quoted(text)
    yield '},"data":{'
    for index, name in enumerate(sorted(data)):
        yield f"{',' if index else ''}{encode_basestring(name)}:"
        yield from _quoted(data[name])
    yield "}}"


def _quoted(text: str) -> Iterator[str]:
    """A JSON string. Each character is escaped by itself, so it can be cut anywhere."""
    yield '"'
    for at in range(0, len(text), PIECE_CHARS):
        yield encode_basestring(text[at : at + PIECE_CHARS])[1:-1]
    yield '"'
