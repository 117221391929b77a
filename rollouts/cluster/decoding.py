"""Decodes JSON of the API server into the structs of `structs.py`, and handles objects that cannot be read.

Depth alone makes nothing unreadable: the parts that we read are less deep than LEVELS_MAX, and a `spec` or `status` that is kept
as bytes has a parser of its own that may refuse it. An object that still cannot be read is named by its metadata, so that only it
is affected, and not its neighbours.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from rollouts.cluster.json_parts import CutOff, beginning, members, shallow
from rollouts.cluster.kept import as_kept
from rollouts.cluster.structs import (
    STRUCTS,
    ConfigContent,
    ConfigMapMetadata,
    ConfigMapObject,
    Metadata,
    Partial,
    RouteObject,
    T,
)
from rollouts.errors import ApiUnavailable
from rollouts.objects import Kind, Manifest
from rollouts.ports import LINE_MAX_BYTES

LEVELS_MAX = 64
"""Levels of brackets that are read in an object that is nested too deeply for the decoder. Our structs end at the tenth level."""

SERVED_LEVELS_MAX = 10_000
"""The API server takes no JSON that is deeper. Source: encoding/json, `maxNestingDepth`."""

_Any = TypeVar("_Any")
_MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class StatusDetails(Partial, frozen=True):
    """`.details` of a `Status`: which object was refused; empty when the error is not about an object."""

    kind: str = ""


class ServerStatus(Partial, frozen=True):
    """The `Status` object of an error answer; it is never kept."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


class UnreadableObject(Struct, frozen=True):
    """An object that exists and cannot be read.

    Args:
        metadata: as much of it as can be read; at least name and resourceVersion.
    """

    metadata: Metadata
    why: str


class WatchEvent(Struct, Generic[T], frozen=True):
    """One line of a watch.

    Args:
        object: the object; for a BOOKMARK only its metadata is meaningful; None for an ERROR.
        unreadable: set instead of `object` when it cannot be read.
    """

    type: str
    object: T | None
    error: ServerStatus | None = None
    unreadable: UnreadableObject | None = None


class Page(Struct, Generic[T], frozen=True):
    """One page of a list.

    Args:
        continue_token: for the request of the next page; empty on the last one.
        unreadable: objects of the list that are not in `items`, because they cannot be read.
    """

    items: tuple[T, ...]
    resource_version: str
    continue_token: str
    unreadable: tuple[UnreadableObject, ...] = ()


class Decoder(Generic[T]):
    """Decodes one kind's objects, lists and watch lines. Its results share no memory with the input.

    Raises: ApiUnavailable from every method, when the bytes are not what the API promises (cut off, a proxy's HTML).
    """

    def __init__(self, struct: type[T]) -> None:
        # The type parameters are values here, which mypy cannot follow: hence the casts to Any.
        kept: Any = struct
        self._object = msgspec.json.Decoder(kept)
        self._event = msgspec.json.Decoder(_Event[kept])
        self._list = msgspec.json.Decoder(_List[kept])

    def object(self, data: bytes) -> T:
        """One object, as GET, POST and PATCH return it."""
        try:
            decoded: T = _decoded(self._object, data)
        except RecursionError:
            decoded = self._deep(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise _unreadable(data, exc) from exc
        return _kept(decoded)

    def page(self, data: bytes) -> Page[T]:
        """One page of a list. An object that cannot be read is named; a list that cannot be split into objects is an error."""
        try:
            page = _decoded(self._list, data)
            items = tuple(_kept(item) for item in page.items or ())
        except (*_MALFORMED, ApiUnavailable):
            return self._page_in_parts(data)
        return Page(items, _version(page.metadata.resource_version), page.metadata.continue_)

    def event(self, line: bytes) -> WatchEvent[T]:
        """One line of a watch. A line of LINE_MAX_BYTES may be the beginning of a longer one."""
        try:
            event = _decoded(self._event, line)
            if event.type != "ERROR":
                return WatchEvent(event.type, _kept(event.object))
        except (*_MALFORMED, ApiUnavailable) as exc:
            if (error := _error_in(line)) is None:  # a Status may not fit the kind's struct
                return self._event_in_parts(line, exc)
            return WatchEvent("ERROR", None, error)
        return WatchEvent("ERROR", None, _error_in(line))

    def _deep(self, data: bytes) -> T:
        """An object that no API server takes, it is so deep: the parts that we read, and its raw fields as they are."""
        try:
            decoded: T = self._object.decode(shallow(data, most_levels=LEVELS_MAX))
            parts = dict(members(data))
        except (*_MALFORMED, CutOff) as exc:
            raise _unreadable(data, exc) from exc
        struct: Any = decoded
        for field in msgspec.structs.fields(struct):
            value = parts.get(b'"%b"' % field.encode_name.encode())
            if field.type is msgspec.Raw and value is not None:
                msgspec.structs.force_setattr(struct, field.name, msgspec.Raw(value))
        return decoded

    def _page_in_parts(self, data: bytes) -> Page[T]:
        items: list[T] = []
        unreadable: list[UnreadableObject] = []
        try:
            metadata, listed = _listed(data)
        except (*_MALFORMED, CutOff, KeyError) as exc:
            raise _unreadable(data, exc) from exc
        for item in listed:
            try:
                items.append(self.object(item))
            except ApiUnavailable as exc:
                if (named := _named(item, str(exc.__cause__ or exc))) is None:
                    raise
                unreadable.append(named)
        return Page(tuple(items), _version(metadata.resource_version), metadata.continue_, tuple(unreadable))

    def _event_in_parts(self, line: bytes, exc: Exception) -> WatchEvent[T]:
        kind, data, cut = _event_parts(line)
        too_long = cut and len(line) >= LINE_MAX_BYTES
        if kind not in _CHANGES or (cut and not too_long):
            raise _unreadable(line, exc) from exc
        why = f"it has more than {LINE_MAX_BYTES >> 20} MiB"
        if not too_long:
            try:
                return WatchEvent(kind, self.object(data))
            except ApiUnavailable as unread:
                why = str(unread.__cause__ or unread)
        if (named := _named(data, why)) is None:
            raise _unreadable(line, exc) from exc
        return WatchEvent(kind, None, unreadable=named)


def decode(kind: Kind, data: bytes) -> Any:
    """The struct of `STRUCTS` for one object's JSON.

    Raises: ApiUnavailable, when the bytes are not such an object; KeyError for a kind without a struct.
    """
    if kind not in _DECODERS:
        _DECODERS[kind] = Decoder(STRUCTS[kind])
    return _DECODERS[kind].object(data)


def decode_secret_metadata(data: bytes) -> ConfigMapMetadata:
    """The metadata of a Secret that was asked for without the rest.

    Raises: ApiUnavailable, without any part of the answer: `kubectl apply` writes the Secret's data into an annotation.
    """
    try:
        return _SECRETS.object(data).metadata
    except ApiUnavailable:
        raise ApiUnavailable("the API server's answer about a Secret cannot be read") from None


def decode_route(data: bytes) -> RouteObject:
    """A route of any kind. Raises: ApiUnavailable, when the bytes are not an object."""
    return _ROUTES.object(data)


def decode_config(data: bytes) -> ConfigContent:
    """A whole ConfigMap or Secret. Raises: ApiUnavailable, without any part of the answer, which may be a Secret's."""
    try:
        return _CONFIGS.object(data)
    except ApiUnavailable:
        raise ApiUnavailable("the API server's answer about a ConfigMap or a Secret cannot be read") from None


def manifest_from(data: bytes) -> Manifest:
    """The whole object or list; if it is nested too deeply for a parser, with null below LEVELS_MAX.

    Raises: ValueError, when the bytes are not JSON.
    """
    try:
        found: Manifest = json.loads(data)
    except RecursionError:
        found = json.loads(shallow(data, most_levels=LEVELS_MAX))
    return found


def json_object(data: bytes) -> Manifest:
    """A part of an object that was kept undecoded, such as `spec`; {} when it is missing, or is no object."""
    try:
        value = msgspec.json.decode(data) if data else {}
    except _MALFORMED:
        return {}
    return value if isinstance(value, dict) else {}


def metadata_of(data: bytes) -> Metadata:
    """Metadata of the answer to a write, for `Store.wrote`; a DELETE may answer with a Status, whose metadata is empty.

    Raises: ApiUnavailable.
    """
    return _ONLY_METADATA.object(data).metadata


def status_of(data: bytes) -> ServerStatus:
    """The `Status` in an error's body; any other body (a proxy's HTML) becomes the message of one, shortened."""
    try:
        return _STATUS.decode(data)
    except _MALFORMED:
        return ServerStatus(message=data[:200].decode(errors="replace"))


class _Event(msgspec.Struct, Generic[T], gc=False):
    type: str
    object: T


class _ListMetadata(Partial, frozen=True):
    resource_version: str = "0"
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, Generic[T]):
    metadata: _ListMetadata = _ListMetadata()
    items: list[T] | None = None


class _OnlyMetadata(Partial, frozen=True):
    metadata: Metadata = Metadata()


_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})
_ONLY_METADATA: Decoder[_OnlyMetadata] = Decoder(_OnlyMetadata)
_METADATA = msgspec.json.Decoder(Metadata)
_LIST_METADATA = msgspec.json.Decoder(_ListMetadata)
_STATUS = msgspec.json.Decoder(ServerStatus)
_DECODERS: dict[Kind, Decoder[Any]] = {}
_ROUTES: Decoder[RouteObject] = Decoder(RouteObject)
_CONFIGS: Decoder[ConfigContent] = Decoder(ConfigContent)
_SECRETS: Decoder[ConfigMapObject] = Decoder(ConfigMapObject)


class _RawEvent(Partial, frozen=True):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw()


class _RawList(msgspec.Struct, frozen=True):
    metadata: _ListMetadata
    items: list[msgspec.Raw]


_RAW_EVENT = msgspec.json.Decoder(_RawEvent)
_RAW_LIST = msgspec.json.Decoder(_RawList)
_RAW_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _decoded(decoder: msgspec.json.Decoder[_Any], data: bytes) -> _Any:
    """What the decoder makes of JSON that may be as deep as the API server takes it.

    Python 3.11 counts each bracket as a call, and takes 1,000; one needs 30 bytes of the stack. No Python code runs meanwhile.

    Raises: what `decode` raises; RecursionError for more levels, and for fewer where Python has a limit of its own for C code.
    """
    try:
        return decoder.decode(data)
    except RecursionError:
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(before + 2 * SERVED_LEVELS_MAX)
        try:
            return decoder.decode(data)
        finally:
            sys.setrecursionlimit(before)


def _listed(data: bytes) -> tuple[_ListMetadata, list[bytes]]:
    """Metadata and items of a list. Raises: KeyError and CutOff too, besides what a decoder raises."""
    with suppress(*_MALFORMED):
        found = _decoded(_RAW_LIST, data)
        return found.metadata, [bytes(item) for item in found.items]
    parts = dict(members(data))
    return _decoded(_LIST_METADATA, parts[b'"metadata"']), [value for _, value in members(parts[b'"items"'])]


def _event_parts(line: bytes) -> tuple[str, bytes, bool]:
    """Type and object of a line, and whether it was cut off; then what is there of the object."""
    with suppress(*_MALFORMED):
        found = _decoded(_RAW_EVENT, line)
        return found.type, bytes(found.object), False
    parts: dict[bytes, bytes] = {}
    cut = len(line) >= LINE_MAX_BYTES
    if cut:  # its end is not looked for
        parts = {name: beginning(line, name) for name in (b'"type"', b'"object"')}
        kind = parts[b'"type"'].partition(b",")[0].rstrip()
    else:
        try:
            parts.update(members(line))  # before it raises, it has added the members that it found
        except CutOff:
            cut = True
        kind = parts.get(b'"type"', b"")
    return kind.strip(b'"').decode(errors="replace"), parts.get(b'"object"', b""), cut


def _error_in(line: bytes) -> ServerStatus | None:
    try:
        event = _RAW_EVENT.decode(line)
    except _MALFORMED:
        return None
    return status_of(bytes(event.object)) if event.type == "ERROR" else None


def _named(data: bytes, why: str) -> UnreadableObject | None:
    """An unreadable object with the readable part of its metadata; None when that does not name the object."""
    parts: dict[str, bytes] = {}
    with suppress(*_MALFORMED):
        parts = {name: bytes(part) for name, part in _decoded(_RAW_MEMBERS, _metadata_in(data)).items()}
    found: list[bytes] = []
    for name, part in parts.items():
        with suppress(*_MALFORMED):
            member = b"%b:%b" % (msgspec.json.encode(name), part)
            _decoded(_METADATA, b"{%b}" % member)
            found.append(member)
    try:
        metadata = _decoded(_METADATA, b"{%b}" % b",".join(found))
    except _MALFORMED:
        return None
    if not metadata.name or not _is_version(metadata.resource_version):
        return None
    return UnreadableObject(metadata, why)


def _metadata_in(data: bytes) -> bytes:
    """The metadata of an object that may be cut off behind it."""
    with suppress(*_MALFORMED):
        return bytes(_decoded(_RAW_MEMBERS, data).get("metadata", b"{}"))
    inside: list[bytes] = []
    with suppress(CutOff):
        for name, value in members(beginning(data, b'"metadata"')):
            inside.append(b"%b:%b" % (name, value))
    return b"{%b}" % b",".join(inside)


def _is_version(text: str) -> bool:
    """Whether it is decimal (KEP-5504), with at most 20 digits, which is enough for 64 bits."""
    return text.isascii() and text.isdigit() and len(text) <= 20


def _version(text: str) -> str:
    if not _is_version(text):
        raise ApiUnavailable(f"the API server's answer cannot be read (resourceVersion {text[:40]!r} is not a number)")
    return text


def _kept(decoded: T) -> T:
    _version(decoded.metadata.resource_version)
    return as_kept(decoded)


def _unreadable(data: bytes, exc: Exception) -> ApiUnavailable:
    return ApiUnavailable(f"the API server's answer cannot be read ({exc}): {data[:80]!r}")
