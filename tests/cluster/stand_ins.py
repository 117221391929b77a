"""An API server with nothing behind it."""

from __future__ import annotations

from rollouts.ports import Request, Response, WatchStream


class NoServer:
    """An `ApiServer` that answers nothing; tests override what they need."""

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        raise AssertionError(f"{request.method} {request.path} was not expected within {deadline_s} s")

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        raise AssertionError(f"no watch of {request.path} was expected ({deadline_s} s, {silence_s} s)")

    async def aclose(self) -> None:
        """Holds nothing."""


class Answers(NoServer):
    """An API server with one answer a path, 404 elsewhere."""

    def __init__(self, answers: dict[str, Response]) -> None:
        self.answers = answers

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        assert deadline_s > 0
        return self.answers.get(request.path, Response(404, b"404 page not found"))
