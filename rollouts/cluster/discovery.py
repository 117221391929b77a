"""Asks the API server for its release and its kinds: at the start, or beside a pass, never during one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec
from msgspec import Struct

from rollouts.cluster.client import answer_of
from rollouts.errors import ApiNotFound, ApiUnavailable
from rollouts.objects import Kind
from rollouts.ports import ApiServer, Request

T = TypeVar("T")


class ServerVersion(Struct, frozen=True):
    """The API server's release.

    Args:
        minor: 36; some distributions write `36+`, which is 36 here.
        git_version: the whole version, such as `v1.36.1`.
    """

    major: int
    minor: int
    git_version: str


async def server_version(api: ApiServer, *, deadline_s: float) -> ServerVersion:
    """Asks for the release. Raises: ApiUnavailable, ApiForbidden."""

    def version_in(body: bytes) -> ServerVersion:
        said = msgspec.json.decode(body, type=_Version)
        return ServerVersion(int(said.major.rstrip("+")), int(said.minor.rstrip("+")), said.git_version)

    return await _answered(api, "/version", version_in, deadline_s)


async def served(api: ApiServer, kind: Kind, *, deadline_s: float) -> bool:
    """Whether the server has the kind in this version, that is, whether its CRD is installed.

    Raises: ApiUnavailable, ApiForbidden; an error never counts as "not installed".
    """
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    try:
        listed = await _answered(api, root, _RESOURCES.decode, deadline_s)
    except ApiNotFound:
        return False
    return any(resource.name == kind.plural and resource.kind == kind.kind for resource in listed.resources)


async def first_served(api: ApiServer, kinds: Iterable[Kind], *, deadline_s: float) -> Kind | None:
    """The first of `kinds` that the server has: for versions of one kind, the preferred one; None when it has none.

    Raises: ApiUnavailable, ApiForbidden; an error never counts as "not installed".
    """
    for kind in kinds:
        if await served(api, kind, deadline_s=deadline_s):
            return kind
    return None


async def _answered(api: ApiServer, path: str, read: Callable[[bytes], T], deadline_s: float) -> T:
    request = Request("GET", path)
    body = answer_of(request, await api.request(request, deadline_s=deadline_s))
    try:
        return read(body)
    except (ValueError, RecursionError) as exc:
        raise ApiUnavailable(f"GET {path}: the answer is not a Kubernetes API server's: {body[:80]!r}") from exc


class _Version(msgspec.Struct, rename="camel"):
    major: str
    minor: str
    git_version: str


class _Resource(msgspec.Struct):
    name: str
    kind: str


class _Resources(msgspec.Struct):
    resources: list[_Resource]


_RESOURCES = msgspec.json.Decoder(_Resources)
