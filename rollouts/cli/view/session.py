"""The connection that one command uses, made from its options."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from rollouts.clock import SystemClock
from rollouts.cluster.client import Client
from rollouts.cluster.connection import connect, connector_of_bearers, connector_of_people
from rollouts.cluster.target import NO_FLAGS, AccessFlags
from rollouts.ports import ApiServer, Clock, Request, Response, WatchStream
from rollouts.secret import Secret

USER_AGENT = "rollouts-cli"
OnAnswer: TypeAlias = Callable[[Request, int, float], object]


class Options(Struct, frozen=True, kw_only=True):
    """The options of every command that talks to a cluster; None for what the kubeconfig says, or the pod's own account.

    Args:
        on_answer: called with each request, the status of its answer, and how many seconds it took.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None
    request_timeout_s: float = 10.0
    flags: AccessFlags = NO_FLAGS
    on_answer: OnAnswer | None = None


class Session(Struct, frozen=True, kw_only=True):
    """An open connection, with its client, namespace, clock and timeout."""

    api: ApiServer
    client: Client
    namespace: str
    clock: Clock
    request_timeout_s: float


def session_on(api: ApiServer, *, namespace: str, request_timeout_s: float, clock: Clock | None = None) -> Session:
    """A session on an open connection, which the caller closes; with this machine's clock if no other is given."""
    clock = clock or SystemClock()
    # A person at a terminal needs no lease: the fence is the controller's.
    client = Client(api, clock=clock, may_write=lambda: True, request_deadline_s=request_timeout_s)
    return Session(api=api, client=client, namespace=namespace, clock=clock, request_timeout_s=request_timeout_s)


class _Watched:
    """Implements `ports.ApiServer`: passes everything on, and tells of each answer."""

    def __init__(self, api: ApiServer, on_answer: OnAnswer) -> None:
        self._api = api
        self._on_answer = on_answer

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        begun_s = time.monotonic()
        answer = await self._api.request(request, deadline_s=deadline_s)
        self._on_answer(request, answer.status, time.monotonic() - begun_s)
        return answer

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        begun_s = time.monotonic()
        stream = await self._api.open_watch(request, deadline_s=deadline_s, silence_s=silence_s)
        self._on_answer(request, stream.status, time.monotonic() - begun_s)
        return stream

    async def aclose(self) -> None:
        await self._api.aclose()


async def bearers_of(options: Options) -> Callable[[Secret], ApiServer]:
    """What connects to the cluster of the options for whoever has a bearer token, and with no other credentials.

    Raises: SettingsInvalid (no usable kubeconfig, with the remedy).
    """
    return await connector_of_bearers(
        kubeconfig=options.kubeconfig, context=options.context, flags=options.flags, user_agent=USER_AGENT
    )


async def impersonating(options: Options) -> Callable[[str, tuple[str, ...]], ApiServer]:
    """What connects to the cluster of the options as a user with groups, whom their own account impersonates.

    Raises: SettingsInvalid (no usable kubeconfig, with the remedy).
    """
    return await connector_of_people(
        kubeconfig=options.kubeconfig, context=options.context, flags=options.flags, user_agent=USER_AGENT
    )


@asynccontextmanager
async def open_session(options: Options) -> AsyncIterator[Session]:
    """Connects, and closes at the end. Raises: SettingsInvalid (no usable kubeconfig, with the remedy)."""
    api = await connect(
        kubeconfig=options.kubeconfig, context=options.context, flags=options.flags, user_agent=USER_AGENT
    )
    try:
        namespace = options.namespace or api.namespace
        watched = api if options.on_answer is None else _Watched(api, options.on_answer)
        yield session_on(watched, namespace=namespace, request_timeout_s=options.request_timeout_s)
    finally:
        await api.aclose()
