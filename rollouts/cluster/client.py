"""Reads and writes single objects: with the fence, a deadline, patience with 429, and errors named by their remedy.

The fence is asked before every write, and again by the connection when it writes the first byte, so the work of a leader that has
lost its lease ends there at the latest. A paused process, for example, may wake in the middle of a pass, or of a TLS handshake.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from rollouts.cluster.decoding import ServerStatus, status_of
from rollouts.errors import (
    ApiConflict,
    ApiExists,
    ApiForbidden,
    ApiGone,
    ApiInvalid,
    ApiNotFound,
    ApiThrottled,
    ApiUnauthenticated,
    ApiUnavailable,
    RolloutsError,
)
from rollouts.objects import POD, Kind, Manifest
from rollouts.ports import APPLY_PATCH, JSON, JSON_PATCH, METADATA, ApiServer, Clock, Request, Response

OnRequest: TypeAlias = Callable[[str, str, int, float], None]
"""Called after every attempt with the verb as RBAC names it, the plural, the HTTP status (0 for no answer) and the seconds."""

Body: TypeAlias = bytes | Mapping[str, Any] | Sequence[Any]
"""JSON, or a value that becomes JSON."""

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
RETRY_AFTER_MAX_S = 60.0  # a proxy before the server may send any value; the server itself sends 1 s
THROTTLED_PAUSE_S = 1.0  # for a 429 without a time, as in client-go


class Client:
    """Sends requests for single objects to any `ApiServer`. Returns the server's answers, as bytes.

    Besides the errors that `errors.py` lists for HTTP statuses, every method raises: NotLeader before a write (reads are always
    sent); ApiUnavailable when the deadline passed or the connection broke: a write may then have taken effect, and is never
    sent again automatically. Cancellation: safe; whether a write happened shows in the next observation.
    """

    def __init__(
        self,
        api: ApiServer,
        *,
        clock: Clock,
        may_write: Callable[[], bool],
        request_deadline_s: float,
        on_request: OnRequest | None = None,
        rng: random.Random | None = None,
        field_manager: str | None = None,
    ) -> None:
        """A client that shares the connection's pool.

        Args:
            may_write: the fence, `Elector.holds` or a function that returns True.
            request_deadline_s: of one call, including all its retries.
            field_manager: of each write that names none; None to leave the name to the server.
        """
        self._api = api
        self._clock = clock
        self._may_write = may_write
        self._request_deadline_s = request_deadline_s
        self._on_request = on_request
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._field_manager = field_manager

    async def get(self, kind: Kind, namespace: str | None, name: str, *, metadata_only: bool = False) -> bytes:
        """One object as it is now, not from a cache."""
        accept = METADATA if metadata_only else JSON
        return await self._read("get", kind, Request("GET", kind.path(namespace, name), accept=accept))

    async def list_page(
        self,
        kind: Kind,
        namespace: str | None,
        *,
        label_selector: str = "",
        limit: int = 500,
        continue_token: str = "",
    ) -> bytes:
        """One page of a consistent list. Raises also ApiGone, when the continue token has expired: list again from the start."""
        query = {"limit": str(limit)}
        if label_selector:
            query["labelSelector"] = label_selector
        if continue_token:
            query["continue"] = continue_token
        return await self._read("list", kind, Request("GET", kind.path(namespace), query))

    async def read(self, kind: Kind, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """What is at a path that is no object or list of a kind: a metric of an aggregated API, a list of what is served.

        Args:
            kind: what it is counted as among requests.
        """
        return await self._read("get", kind, Request("GET", path, query or {}))

    async def create(
        self,
        kind: Kind,
        namespace: str | None,
        manifest: Manifest,
        field_manager: str | None = None,
        *,
        dry_run: bool = False,
        strict: bool = False,
    ) -> bytes:
        """Creates an object. Raises also ApiExists.

        Args:
            dry_run: validate and answer, change nothing. The fence is checked all the same.
            strict: the server refuses unknown fields (ApiInvalid) instead of dropping them.
        """
        query = _write_query(field_manager or self._field_manager, dry_run=dry_run, strict=strict)
        return await self._write("create", kind, Request("POST", kind.path(namespace), query, _encode(manifest), JSON))

    async def patch(  # noqa: PLR0913 - PATCH has that many parameters
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        body: Body,
        content_type: str,
        *,
        subresource: str | None = None,
        field_manager: str | None = None,
        force: bool = False,
        dry_run: bool = False,
        strict: bool = False,
    ) -> bytes:
        """Patches an object; `content_type` says how (`ports.MERGE_PATCH`, `JSON_PATCH`, `APPLY_PATCH`).

        Args:
            force: take over fields from other managers; server-side apply only.
            dry_run: validate and answer, change nothing. The fence is checked all the same.
            strict: as for `create`.

        Raises also: ApiConflict, for an old resourceVersion, a field of another manager, or a JSON Patch `test` that failed.
        """
        query = _write_query(field_manager or self._field_manager, dry_run=dry_run, strict=strict)
        if force and content_type == APPLY_PATCH:
            query["force"] = "true"
        path = kind.path(namespace, name, subresource)
        return await self._write("patch", kind, Request("PATCH", path, query, _encode(body), content_type))

    async def delete(
        self, kind: Kind, namespace: str | None, name: str, uid: str | None = None, resource_version: str | None = None
    ) -> bytes:
        """Deletes an object; its dependents are deleted in the background.

        Args:
            uid: uid of the object; another object of the same name is not deleted.

        Raises also: ApiNotFound; ApiConflict, when a precondition does not hold.
        """
        wanted = {"uid": uid, "resourceVersion": resource_version}
        options: Manifest = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if preconditions := {name: value for name, value in wanted.items() if value}:
            options["preconditions"] = preconditions
        return await self._write(
            "delete", kind, Request("DELETE", kind.path(namespace, name), {}, _encode(options), JSON)
        )

    async def evict(self, namespace: str, pod_name: str, uid: str) -> bytes:
        """Evicts a pod, if its disruption budget allows it now.

        Raises also: ApiThrottled, without a retry, when the budget refuses; ApiNotFound; ApiConflict, when the uid differs.
        """
        eviction: Manifest = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod_name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        request = Request("POST", POD.path(namespace, pod_name, "eviction"), {}, _encode(eviction), JSON)
        # A budget does not change within seconds, so waiting here would only delay the pass.
        return await self._write("create", POD, request, patience=False)

    async def _read(self, verb: str, kind: Kind, request: Request) -> bytes:
        return await self._call(verb, kind, request, retried=(ApiThrottled, ApiUnavailable))

    async def _write(self, verb: str, kind: Kind, request: Request, *, patience: bool = True) -> bytes:
        # Throttled is the only answer that says: nothing happened, and a retry may help.
        fenced = msgspec.structs.replace(request, fence=self._may_write)
        return await self._call(verb, kind, fenced, retried=(ApiThrottled,) if patience else ())

    async def _call(
        self, verb: str, kind: Kind, request: Request, *, retried: tuple[type[ApiThrottled | ApiUnavailable], ...]
    ) -> bytes:
        deadline_at_s = self._clock.monotonic_s() + self._request_deadline_s
        attempt = 0
        while True:
            request.ask_fence()
            try:
                return await self._send(verb, kind, request, deadline_at_s)
            except ApiUnauthenticated:
                raise  # the connection has tried the newest credentials
            except retried as exc:
                if not await self._pause(exc, attempt, deadline_at_s):
                    raise
                attempt += 1

    async def _send(self, verb: str, kind: Kind, request: Request, deadline_at_s: float) -> bytes:
        began_s = self._clock.monotonic_s()
        status = 0
        try:
            response = await self._api.request(request, deadline_s=max(0.001, deadline_at_s - began_s))
            status = response.status
        finally:
            if self._on_request is not None:
                self._on_request(verb, kind.plural, status, self._clock.monotonic_s() - began_s)
        return answer_of(request, response)

    async def _pause(self, exc: ApiThrottled | ApiUnavailable, attempt: int, deadline_at_s: float) -> bool:
        """Waits before the next attempt; returns False at once when the deadline leaves no time for it."""
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**attempt) * (0.5 + self._rng.random())
        if isinstance(exc, ApiThrottled):
            pause_s += exc.retry_after_s  # never earlier than the server asks, and not all clients at the same moment
        if self._clock.monotonic_s() + pause_s >= deadline_at_s:
            return False
        await asyncio.sleep(pause_s)
        return True


def _write_query(field_manager: str | None, *, dry_run: bool, strict: bool) -> dict[str, str]:
    query = {"fieldManager": field_manager} if field_manager else {}
    if dry_run:
        query["dryRun"] = "All"
    if strict:
        query["fieldValidation"] = "Strict"
    return query


def answer_of(request: Request, response: Response) -> bytes:
    """The body of a successful answer.

    Raises: the error that `errors.py` lists for the status and the reason of any other one, with the server's own message.
    """
    if 200 <= response.status < 300:
        return response.body
    said = status_of(response.body)
    message = f"{request.method} {request.path}: {response.status} {said.reason} {said.message}".rstrip()
    raise _error(request, response, said, message)


_BY_STATUS = {401: ApiUnauthenticated, 403: ApiForbidden, 404: ApiNotFound, 410: ApiGone}
_ADMISSION = "admission webhook "
"""Source: apiserver, pkg/admission/plugin/webhook/errors/statuserror.go."""


def _error(request: Request, response: Response, said: ServerStatus, message: str) -> RolloutsError:
    match response.status:
        case (401 | 403 | 404 | 410) as status:
            return _BY_STATUS[status](message)
        case 409 if said.reason == "AlreadyExists":
            return ApiExists(message)
        case 409:
            return ApiConflict(message)
        case 422 if request.content_type == JSON_PATCH and _ADMISSION in message:
            return ApiInvalid(message)  # a webhook chooses its code, and its answer has no details
        case 422 if request.content_type == JSON_PATCH and not (said.details and said.details.kind):
            # The patch does not fit the current object: a `test` failed, or a path is gone. kube-apiserver 1.36 says only "error
            # in our request"; when it refuses the resulting object instead, it names the object's kind.
            return ApiConflict(message)
        case 429:
            after_s = THROTTLED_PAUSE_S if response.retry_after_s is None else response.retry_after_s
            return ApiThrottled(message, retry_after_s=min(after_s, RETRY_AFTER_MAX_S))
        case status if 400 <= status < 500:
            return ApiInvalid(message)
        case _:  # 5xx; also 1xx and 3xx, which no API server sends
            return ApiUnavailable(message)


def _encode(body: Body) -> bytes:
    return body if isinstance(body, bytes) else msgspec.json.encode(body)
