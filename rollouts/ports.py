"""Every side effect that the program can have, on one page.

`cluster/connection.py` (a real API server) and `sim/apiserver/server.py` (the simulated one) implement `ApiServer`; the same
client, watches and store run on both, and `tests/contract` holds them to the same answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

LINE_MAX_BYTES = 16 * 1024 * 1024
"""Of a watch's line. etcd takes objects of 1.5 MiB, and a byte of one becomes up to six in JSON (`<` is `\\u003c`): 9 MiB."""

BODY_MAX_BYTES = 64 * 1024 * 1024
"""Of an answer: one object, or one page of a list."""


@dataclass(frozen=True, slots=True)
class Request:
    """One call to the API server.

    Args:
        method: GET, POST, PUT, PATCH or DELETE.
        path: starts with `/api/` or `/apis/`; percent-encoded; no query.
        query: parameters, not yet escaped.
        body: JSON, or empty.
        content_type: of the body; one of the constants above.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = JSON


@dataclass(frozen=True, slots=True)
class Response:
    """What the API server answered; any status, also an error's.

    Args:
        status: HTTP status code.
        body: JSON; for an error a `Status` object.
        retry_after_s: what Retry-After says, in seconds, >= 0 and possibly inf; None without one that can be understood.
    """

    status: int
    body: bytes
    retry_after_s: float | None = None


class WatchStream(Protocol):
    """An open watch: JSON lines until the server or the caller ends it."""

    status: int
    """HTTP status; unless 200, the first line is the `Status` object that says why."""

    async def readline(self) -> bytes:
        """The next event's line; b"" at the end of the stream.

        A line of more than LINE_MAX_BYTES comes cut to that length and without its end; the rest of it is skipped.

        Raises: ApiUnavailable when the connection broke, also in the middle of a line, or was silent for too long.
        Cancellation: safe.
        """
        ...

    async def aclose(self) -> None:
        """Ends the watch; safe to call twice."""
        ...


class ApiServer(Protocol):
    """A Kubernetes API server, real or simulated."""

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        """Sends one request and reads the whole answer.

        Raises: ApiUnavailable (refused, reset, deadline passed; a write may have taken effect).
        Cancellation: safe; whether a write happened shows in the next observation.
        """
        ...

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        """Opens a watch; `deadline_s` is for the answer's head, `silence_s` the longest wait for one line.

        Raises: ApiUnavailable.
        """
        ...

    async def aclose(self) -> None:
        """Closes connections."""
        ...


class Clock(Protocol):
    """The two readings of time. Waiting is the event loop's, so virtual time needs no other port."""

    def now_s(self) -> float:
        """Wall clock, seconds since 1970-01-01T00:00:00Z; may be corrected, by seconds as a rule."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that never go back; only differences mean anything."""
        ...
