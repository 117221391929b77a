"""Asks the API server for its release and its kinds: at the start, or beside a pass, never during one."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from rollouts.cluster.client import answer_of
from rollouts.errors import ApiNotFound, ApiUnavailable
from rollouts.objects import Kind
from rollouts.ports import ApiServer, Request


class ServerVersion(Struct, frozen=True):
    """The API server's release.

    Args:
        major: 1.
        minor: 36; some distributions write `36+`, which is 36 here.
        git_version: the whole version, such as `v1.36.1`.
    """

    major: int
    minor: int
    git_version: str


async def server_version(api: ApiServer, *, deadline_s: float) -> ServerVersion:
    """Asks for the release.

    Raises: ApiUnavailable, ApiForbidden.
    """
    request = Request("GET", "/version")
    body = answer_of(request, await api.request(request, deadline_s=deadline_s))
    try:
        said = msgspec.json.decode(body, type=_Version)
        return ServerVersion(_number(said.major), _number(said.minor), said.git_version)
    except (ValueError, RecursionError) as exc:
        raise ApiUnavailable(f"GET /version: the answer is not a Kubernetes API server's: {body[:80]!r}") from exc


async def served(api: ApiServer, kind: Kind, *, deadline_s: float) -> bool:
    """Whether the server has the kind in this version, that is, whether its CRD is installed.

    Raises: ApiUnavailable, ApiForbidden; an error never counts as "not installed".
    """
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    request = Request("GET", root)
    try:
        body = answer_of(request, await api.request(request, deadline_s=deadline_s))
    except ApiNotFound:
        return False
    try:
        resources = msgspec.json.decode(body, type=_Resources).resources
    except (ValueError, RecursionError) as exc:
        raise ApiUnavailable(f"GET {root}: the answer is not a Kubernetes API server's: {body[:80]!r}") from exc
    return any(resource.name == kind.plural and resource.kind == kind.kind for resource in resources)


async def first_served(api: ApiServer, kinds: Iterable[Kind], *, deadline_s: float) -> Kind | None:
    """The first of `kinds` that the server has: for versions of one kind, the preferred one; None when it has none.

    Raises: ApiUnavailable, ApiForbidden; an error never counts as "not installed".
    """
    for kind in kinds:
        if await served(api, kind, deadline_s=deadline_s):
            return kind
    return None


class _Version(msgspec.Struct, rename="camel"):
    major: str
    minor: str
    git_version: str


class _Resource(msgspec.Struct):
    name: str
    kind: str


class _Resources(msgspec.Struct):
    resources: list[_Resource]


def _number(text: str) -> int:
    return int(text.rstrip("+"))
