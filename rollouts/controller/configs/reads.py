"""One read of a source of configuration. What it brings is hashed or copied, and is shown to nobody.

The hash of a Secret's content is made with a key that only those know who may read the Secrets of its namespace: the hash is on
ReplicaSets, and in names, where more people see it. The key is in a Secret of its own, which the first read makes.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from rollouts.cluster.client import Client
from rollouts.cluster.decoding import decode_config
from rollouts.cluster.structs import ConfigContent, ConfigMapMetadata
from rollouts.controller.configs.contents import ReadFailed
from rollouts.core.config.content import hashing
from rollouts.core.model.config import ConfigKind
from rollouts.errors import ApiConflict, ApiExists, ApiForbidden, ApiNotFound, ApiUnavailable, RolloutsError
from rollouts.manifests.config_copy import CONFIG_KEY_BYTES, TOKEN_TYPE, config_key, config_key_of, kind_of
from rollouts.manifests.ownership import CONFIG_COPY, CONFIG_KEY_NAME
from rollouts.objects import SECRET

_ENTRIES = msgspec.json.Decoder(dict[str, str] | None)
_DENIERS = ("admission webhook ", "ValidatingAdmissionPolicy ")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRead:
    """A ConfigMap or Secret as it was read; it is shown to nobody.

    Args:
        type: "" for a ConfigMap.
        binary_data: a ConfigMap's `binaryData`, or a Secret's `data`; base64.
        content: the hash of both.
    """

    metadata: ConfigMapMetadata
    type: str
    immutable: bool
    data: Mapping[str, str] = field(repr=False)
    binary_data: Mapping[str, str] = field(repr=False)
    content: str

    @property
    def is_token(self) -> bool:
        """Whether it is the token of a ServiceAccount, which is left alone."""
        return self.type == TOKEN_TYPE


async def read_source(client: Client, kind: ConfigKind, namespace: str, name: str) -> SourceRead:
    """One ConfigMap or Secret as it is now.

    Raises: what `Client.get` raises; for a Secret also what `Client.create` raises, about the key; ApiExists, when the Secret of
    the key has none. Cancellation: safe.
    """
    read = decode_config(await client.get(kind_of(kind), namespace, name))
    data, binary_data = _entries(read, kind)
    steps = hashing(data, binary_data, key=await _hash_key(client, namespace) if kind is ConfigKind.SECRET else b"")
    while True:
        try:
            next(steps)
        except StopIteration as hashed:
            content = str(hashed.value)
            break
        await asyncio.sleep(0)  # passes go on between the pieces
    return SourceRead(
        metadata=read.metadata,
        type=read.type,
        immutable=read.immutable,
        data=data,
        binary_data=binary_data,
        content=content,
    )


def remedy_of(kind: ConfigKind, verb: str) -> str:
    """What helps somebody whose controller lacks a right on sources or copies."""
    plural = kind_of(kind).plural
    match kind:
        case ConfigKind.CONFIG_MAP:
            return f"grant {verb} of {plural}, or set spec.configVersioning.mode: Off"
        case ConfigKind.SECRET:
            role = "rollouts rbac -f FILE prints the Role"
            return f"grant {verb} of {plural} ({role}), or set spec.configVersioning.secrets: false"


def refusal_remedy(kind: ConfigKind, text: str) -> str:
    """What helps when a copy is refused, to be put behind the refusal; "" when its own words say all, as those of a quota do.

    Args:
        text: the refusal. RBAC names the verb and the resource; webhooks and policies say that they denied the request.
    """
    if f'cannot create resource "{kind_of(kind).plural}"' in text:
        return f"; {remedy_of(kind, 'create')}"
    return f"; exempt objects with the label {CONFIG_COPY}" if is_denied(text) else ""


def is_denied(text: str) -> bool:
    """Whether a webhook or a policy denied a request, by the words of the refusal."""
    return any(" denied" in text.partition(denier)[2] for denier in _DENIERS)


def not_readable(kind: ConfigKind, name: str, why: ApiForbidden) -> ApiForbidden:
    """The refusal of a read, with what helps."""
    return ApiForbidden(f"the controller may not read {kind} {name}: {remedy_of(kind, 'get')}: {why}")


def read_failed(kind: ConfigKind, name: str, error: Exception) -> ReadFailed:
    """What passes see of a read, or of a look, that failed."""
    match error:
        case ApiForbidden():
            return ReadFailed(message=str(not_readable(kind, name, error)), needs_a_person=True)
        case RolloutsError():
            return ReadFailed(message=f"{kind} {name} cannot be read: {error}", needs_a_person=False)
        case _:
            why = "the controller's log says why"
            return ReadFailed(message=f"{kind} {name} cannot be read; {why}", needs_a_person=False)


def without_values(text: str, read: SourceRead) -> str:
    """A refusal in the API server's words, or a webhook's; of a Secret nothing, if a value is in it."""
    if not read.type:  # a ConfigMap
        return text
    plain = [_decoded(value) for value in read.binary_data.values()]
    if any(value and value in text for value in (*read.binary_data.values(), *plain)):
        return "the reason has a value of the Secret in it, and is shown to nobody"
    return text


async def _hash_key(client: Client, namespace: str) -> bytes:
    """The key of a namespace, which is made when there is none."""
    try:
        secret = decode_config(await client.get(SECRET, namespace, CONFIG_KEY_NAME))
    except ApiNotFound:
        key = secrets.token_bytes(CONFIG_KEY_BYTES)
        try:
            await client.create(SECRET, namespace, config_key(namespace, key))
        except ApiExists as exc:
            raise ApiConflict(f"Secret {CONFIG_KEY_NAME} was created while the controller read it") from exc
        except ApiForbidden as exc:
            remedy = remedy_of(ConfigKind.SECRET, "create")
            raise ApiForbidden(f"the controller may not create Secret {CONFIG_KEY_NAME}: {remedy}: {exc}") from exc
        return key
    except ApiForbidden as exc:
        raise not_readable(ConfigKind.SECRET, CONFIG_KEY_NAME, exc) from exc
    usable = config_key_of(_entries(secret, ConfigKind.SECRET)[1])
    if usable is None:
        raise ApiExists(f"Secret {CONFIG_KEY_NAME} has no key of the controller: delete it")
    return usable


def _decoded(value: str) -> str:
    try:
        return base64.b64decode(value).decode(errors="replace").strip()
    except (binascii.Error, ValueError):
        return value


def _entries(read: ConfigContent, kind: ConfigKind) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Text and base64 by key. Raises: ApiUnavailable, without any part of it."""
    try:
        data = (_ENTRIES.decode(read.data) if bytes(read.data) else None) or {}
        binary_data = (_ENTRIES.decode(read.binary_data) if bytes(read.binary_data) else None) or {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ApiUnavailable(f"the data of {kind} {read.metadata.name} cannot be read") from None
    return ({}, data) if kind is ConfigKind.SECRET else (data, binary_data)
