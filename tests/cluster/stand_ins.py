"""API servers with nothing behind them, and one that passes everything on."""

from __future__ import annotations

from rollouts.ports import ApiServer, Request, Response, WatchStream


class NoServer:
    """An `ApiServer` that answers nothing; tests override what they need."""

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        raise AssertionError(f"{request.method} {request.path} was not expected within {deadline_s} s")

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        raise AssertionError(f"no watch of {request.path} was expected ({deadline_s} s, {silence_s} s)")

    async def aclose(self) -> None:
        """Holds nothing."""


class PassesOn:
    """An `ApiServer` that stands before another one; tests override what they change on the way."""

    def __init__(self, api: ApiServer) -> None:
        self.api = api

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        return await self.api.request(request, deadline_s=deadline_s)

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        return await self.api.open_watch(request, deadline_s=deadline_s, silence_s=silence_s)

    async def aclose(self) -> None:
        """The server behind it is closed by whom it belongs to."""


class Answers(NoServer):
    """An API server with one answer a path, 404 elsewhere."""

    def __init__(self, answers: dict[str, Response]) -> None:
        self.answers = answers

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        assert deadline_s > 0
        return self.answers.get(request.path, Response(404, b"404 page not found"))
