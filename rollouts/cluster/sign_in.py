"""Whether the API server accepts our credentials. A 401 is no missing right: it ends with a new token, or a repaired clock.

The connection has read the credentials again before a 401 comes here, so each one means that there are no better ones yet.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from rollouts.ports import ApiServer, Clock, Request, Response, WatchStream

REMEDY = (
    "each refused request reads the token file again, so a new token is used at once; check that the ServiceAccount exists, that "
    "the kubelet renews its token, and the clocks of the nodes"
)
_OF_OTHERS = "metrics.k8s.io/"  # aggregated APIs, whose servers have a 401 of their own

log = structlog.get_logger()


class SignIn:
    """Follows the answers of all connections that have the same credentials."""

    def __init__(self, clock: Clock) -> None:
        self.on_accepted: Callable[[], None] = lambda: None
        """Called when a request is answered that would have been refused before."""
        self._clock = clock
        self._refused_since_s: float | None = None

    def through(self, api: ApiServer) -> ApiServer:
        """The API server, with its answers noted here."""
        return _Followed(api, self)

    @property
    def refused(self) -> bool:
        """Whether the last answer was a 401."""
        return self._refused_since_s is not None

    def why_not(self) -> str:
        """Why this process can do nothing; "" while its credentials are accepted."""
        if self._refused_since_s is None:
            return ""
        since_s = self._clock.monotonic_s() - self._refused_since_s
        return f"the API server has refused the controller's credentials (401) for {since_s:.0f} s: {REMEDY}"

    def answered(self, path: str, status: int) -> None:
        """Notes an answer."""
        if _OF_OTHERS in path or (status == 401) == self.refused:
            return
        if status == 401:
            self._refused_since_s = self._clock.monotonic_s()
            log.error("credentials_refused", path=path, remedy=REMEDY)
            return
        took_s = self._clock.monotonic_s() - (self._refused_since_s or 0.0)
        self._refused_since_s = None
        log.info("credentials_accepted", refused_for_s=round(took_s, 1))
        self.on_accepted()


class _Followed:
    """Implements `ports.ApiServer`."""

    def __init__(self, api: ApiServer, sign_in: SignIn) -> None:
        self._api = api
        self._sign_in = sign_in

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        answer = await self._api.request(request, deadline_s=deadline_s)
        self._sign_in.answered(request.path, answer.status)
        return answer

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        stream = await self._api.open_watch(request, deadline_s=deadline_s, silence_s=silence_s)
        self._sign_in.answered(request.path, stream.status)
        return stream

    async def aclose(self) -> None:
        await self._api.aclose()
