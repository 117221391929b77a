"""The API server as one controller sees it: all that it asks is kept, and a test may answer in the server's place."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import msgspec

from rollouts.objects import Manifest
from rollouts.ports import ApiServer, Request, Response, WatchStream


class Door:
    """The API server for one controller: what it asks is kept; `answers` are in its place, `after` comes before they arrive."""

    def __init__(
        self,
        api: ApiServer,
        answers: Callable[[Request], Response | None] = lambda _request: None,
        *,
        after: Callable[[Request], Awaitable[None]] | None = None,
    ) -> None:
        self._api = api
        self._after = after
        self.asked: list[Request] = []
        self.answers = answers

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        """As the test says, or the cluster."""
        self.asked.append(request)
        answer = self.answers(request) or await self._api.request(request, deadline_s=deadline_s)
        if self._after is not None:
            await self._after(request)
        return answer

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        """As the test says, or the cluster."""
        self.asked.append(request)
        told = self.answers(request)
        if told is not None:
            return _Refusal(told)
        return await self._api.open_watch(request, deadline_s=deadline_s, silence_s=silence_s)

    async def aclose(self) -> None:
        """The cluster is the test's."""

    @property
    def tried(self) -> list[Manifest]:
        """Objects that were to be created without being."""
        return [json.loads(each.body) for each in self.asked if each.query.get("dryRun") == "All"]

    def count(self, what: str, method: str = "") -> int:
        """Requests whose path has that text; of all methods without one."""
        return sum(what in each.path and method in ("", each.method) for each in self.asked)


class _Refusal:
    """A watch that is refused."""

    def __init__(self, told: Response) -> None:
        self.status = told.status
        self._body = told.body

    async def readline(self) -> bytes:
        """Why."""
        return self._body

    async def aclose(self) -> None:
        """Nothing is open."""


def refusal(code: int, reason: str, message: str = "no") -> Response:
    """As the API server words it."""
    return Response(code, msgspec.json.encode({"kind": "Status", "code": code, "reason": reason, "message": message}))
