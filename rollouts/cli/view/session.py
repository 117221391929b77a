"""The connection that one command uses, made from its options."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from rollouts.clock import SystemClock
from rollouts.cluster.client import Client
from rollouts.cluster.connection import connect
from rollouts.ports import ApiServer, Clock

USER_AGENT = "rollouts-cli"


class Options(Struct, frozen=True, kw_only=True):
    """The options of every command that talks to a cluster; None for what the kubeconfig says, or the pod's own account."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None
    request_timeout_s: float = 10.0


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


@asynccontextmanager
async def open_session(options: Options) -> AsyncIterator[Session]:
    """Connects, and closes at the end. Raises: SettingsInvalid (no usable kubeconfig, with the remedy)."""
    api = await connect(kubeconfig=options.kubeconfig, context=options.context, user_agent=USER_AGENT)
    try:
        namespace = options.namespace or api.namespace
        yield session_on(api, namespace=namespace, request_timeout_s=options.request_timeout_s)
    finally:
        await api.aclose()
