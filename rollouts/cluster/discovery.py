"""Asks the API server for its release and its kinds: at the start, or beside a pass, never during one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypeAlias, TypeVar
from urllib.parse import quote

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
    """

    major: int
    minor: int
    git_version: str


async def server_version(api: ApiServer, *, deadline_s: float) -> ServerVersion:
    """Asks for the release. Raises: ApiUnavailable, ApiForbidden."""
    said = await _answered(api, "/version", _Version, deadline_s)
    return ServerVersion(int(said.major.rstrip("+")), int(said.minor.rstrip("+")), said.git_version)


async def served(api: ApiServer, kind: Kind, *, deadline_s: float) -> bool:
    """Whether the server has the kind in this version, that is, whether its CRD is installed.

    Raises: ApiUnavailable, ApiForbidden; an error never counts as "not installed".
    """
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    try:
        listed = await _answered(api, root, _Resources, deadline_s)
    except ApiNotFound:
        return False
    return any(resource.name == kind.plural and resource.kind == kind.kind for resource in listed.resources)


async def kind_named(api: ApiServer, api_version: str, kind: str, *, deadline_s: float) -> Kind | None:
    """The kind that objects with this `apiVersion` and `kind` have; None when the server does not serve it.

    Raises: ApiUnavailable, ApiForbidden.
    """
    group, _, version = api_version.rpartition("/")
    root = f"/{'apis' if group else 'api'}/{quote(api_version)}"
    try:
        listed = await _answered(api, root, _Resources, deadline_s)
    except ApiNotFound:
        return None
    named = (each for each in listed.resources if each.kind == kind and "/" not in each.name)
    found = next(named, None)
    return None if found is None else Kind(group, version, kind, found.name, namespaced=found.namespaced)


async def first_served(api: ApiServer, kinds: Iterable[Kind], *, deadline_s: float) -> Kind | None:
    """The first of `kinds` that the server has: for versions of one kind, the preferred one; None when it has none.

    Raises: ApiUnavailable, ApiForbidden; an error never counts as "not installed".
    """
    for kind in kinds:
        if await served(api, kind, deadline_s=deadline_s):
            return kind
    return None


async def _answered(api: ApiServer, path: str, of: type[T], deadline_s: float) -> T:
    request = Request("GET", path)
    body = answer_of(request, await api.request(request, deadline_s=deadline_s))
    try:
        return msgspec.json.decode(body, type=of)
    except (ValueError, RecursionError) as exc:
        raise ApiUnavailable(f"GET {path}: the answer is not a Kubernetes API server's: {body[:80]!r}") from exc


_Number: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,9}\+?$")]


class _Version(msgspec.Struct, rename="camel"):
    major: _Number
    minor: _Number
    git_version: str


class _Resource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = True


class _Resources(msgspec.Struct):
    resources: list[_Resource]
