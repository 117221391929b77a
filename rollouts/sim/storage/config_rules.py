"""Defaults and validation of ConfigMaps and Secrets.

Source: k8s.io/kubernetes pkg/apis/core/{v1/conversion.go,validation/validation.go}, k8s.io/apimachinery
validation.IsConfigMapKey.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from typing import Any

from rollouts.objects import Manifest
from rollouts.sim.storage.refusals import Cause, Refused, bad_request, value_invalid

DATA_MAX_BYTES = 1024 * 1024  # k8s.io/api core/v1, MaxSecretSize; the limit of ConfigMaps too
KEY_MAX = 253
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_TYPE_NAMES = {bool: "bool", int: "number", float: "number", str: "string", list: "array"}
_FIXED = "Forbidden: field is immutable when `immutable` is set"


def config_map_defaults(config_map: Manifest) -> Manifest:
    """A ConfigMap as the server stores it. Raises: Refused (400) for parts of a wrong type, and for data that is not base64."""
    for value in _bag(config_map, "data", of="map[string]string").values():
        if not isinstance(value, str):
            raise _not_of_type(config_map, "data", value, "string")
    _guard_base64(config_map, "binaryData")
    return _without_nothing(config_map, ("data", "binaryData"))


def secret_defaults(secret: Manifest) -> Manifest:
    """A Secret as the server stores it: `stringData` is written into `data`, and never read again.

    Raises: Refused (400) for parts of a wrong type, and for data that is not base64.
    """
    _guard_base64(secret, "data")
    given = secret.get("stringData")
    if "type" in secret and not given:
        return _without_nothing(secret, ("data",))
    data = {**_bag(secret, "data", of="map[string][]uint8")}
    data |= {key: base64.b64encode(str(value).encode()).decode() for key, value in (given or {}).items()}
    filled = {"type": "Opaque", **{name: part for name, part in secret.items() if name != "stringData"}}
    return _without_nothing({**filled, "data": data}, ("data",))


def config_map_problems(new: Manifest, old: Manifest | None) -> Iterator[Cause]:
    """The problems of a ConfigMap: a change of an immutable one, bad keys, a key that is there twice, too much data."""
    if old is not None:
        yield from _changes_of_immutable(new, old, ("data", "binaryData"))
    data, binary = new.get("data") or {}, new.get("binaryData") or {}
    for key in data:
        yield from _key_problems("data", key)
        if key in binary:
            yield _about_key("data", key, "duplicate of key present in binaryData")
    for key in binary:
        yield from _key_problems("binaryData", key)
    size = sum(len(value.encode()) for value in data.values()) + _decoded_bytes(binary)
    if size > DATA_MAX_BYTES:
        yield _too_long("[]")


def secret_problems(new: Manifest, old: Manifest | None) -> Iterator[Cause]:
    """The problems of a Secret: a changed type, a change of an immutable one, bad keys, too much data."""
    if old is not None:
        if old.get("type") != new.get("type"):
            yield value_invalid("type", json.dumps(new.get("type")), "field is immutable")
        yield from _changes_of_immutable(new, old, ("data",))
    data = new.get("data") or {}
    for key in data:
        yield from _key_problems("data", key)
    if _decoded_bytes(data) > DATA_MAX_BYTES:
        yield _too_long("data")


def _changes_of_immutable(new: Manifest, old: Manifest, bags: tuple[str, ...]) -> Iterator[Cause]:
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield Cause("immutable", "FieldValueForbidden", _FIXED)
    for name in bags:
        if (new.get(name) or {}) != (old.get(name) or {}):
            yield Cause(name, "FieldValueForbidden", _FIXED)


def _key_problems(bag: str, key: str) -> Iterator[Cause]:
    if len(key.encode()) > KEY_MAX:
        yield _about_key(bag, key, f"must be no more than {KEY_MAX} characters")
    if not _KEY.fullmatch(key):
        yield _about_key(bag, key, _KEY_RULE)
    if key in (".", ".."):
        yield _about_key(bag, key, f"must not be '{key}'")
    elif key.startswith(".."):
        yield _about_key(bag, key, "must not start with '..'")


def _about_key(bag: str, key: str, what: str) -> Cause:
    return value_invalid(f"{bag}[{key}]", json.dumps(key, ensure_ascii=False), what)


def _too_long(field: str) -> Cause:
    return Cause(field, "FieldValueTooLong", f"Too long: may not be more than {DATA_MAX_BYTES} bytes")


def _decoded_bytes(bag: Manifest) -> int:
    return sum(len(base64.b64decode(value)) for value in bag.values())


def _bag(manifest: Manifest, name: str, *, of: str) -> Manifest:
    bag = manifest.get(name)
    if bag is not None and not isinstance(bag, dict):
        raise _not_of_type(manifest, name, bag, of)
    return bag or {}


def _guard_base64(manifest: Manifest, name: str) -> None:
    for value in _bag(manifest, name, of="map[string][]uint8").values():
        if not isinstance(value, str):
            raise _not_of_type(manifest, name, value, "[]uint8")
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise _unreadable(manifest, "illegal base64 data at input byte 0") from error
    if not isinstance(manifest.get("immutable"), bool | None):
        raise _not_of_type(manifest, "immutable", manifest["immutable"], "bool")


def _not_of_type(manifest: Manifest, name: str, value: Any, wanted: str) -> Refused:
    given, place = _TYPE_NAMES.get(type(value), "object"), f"{manifest['kind']}.{name}"
    return _unreadable(manifest, f"json: cannot unmarshal {given} into Go struct field {place} of type {wanted}")


def _unreadable(manifest: Manifest, why: str) -> Refused:
    kind = manifest["kind"]
    return bad_request(f'{kind} in version "v1" cannot be handled as a {kind}: {why}')


def _without_nothing(manifest: Manifest, names: tuple[str, ...]) -> Manifest:
    """Without empty parts, which the server does not keep; the same manifest when there are none."""
    empty = [name for name in (*names, "immutable") if name in manifest and manifest[name] in (None, {})]
    return {name: part for name, part in manifest.items() if name not in empty} if empty else manifest
