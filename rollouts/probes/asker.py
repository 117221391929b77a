"""Sends GETs to the interfaces of data planes: to every address of a name, nowhere else; the rules are those of `exchange.py`.

Administrators name them all: in flags, in TrafficProviders, and as nodes of the cluster.
"""

from __future__ import annotations

from pathlib import Path

import httpx
import structlog

from rollouts.core.model.frozen import replace
from rollouts.errors import Unanswered
from rollouts.metrics.addresses import ADMINISTRATORS
from rollouts.probes.exchange import Outgoing, Replica, Resolve, exchanged, replicas, transport, trust

BODY_MAX_BYTES = 16 * 1024 * 1024
_OK = 200
_LOGGED = 500  # characters

log = structlog.get_logger()


class Asker:
    """Asks at low rates.

    Args:
        tls: whether some of the URLs are `https://`. Loading the public authorities takes 100 ms and more.
        ca_file: PEM file of certificate authorities to trust besides the public ones; None for none. Read once.
        resolve: finds the addresses of a host name; by default the system does.

    Raises: SettingsInvalid for a `ca_file` without a certificate in it.
    """

    def __init__(self, *, tls: bool, ca_file: Path | None = None, resolve: Resolve | None = None) -> None:
        self._tls = tls
        self._resolve = resolve
        self._transport = transport(trust(ca_file, flag="--data-plane-ca") if ca_file is not None else tls)

    async def replicas(self, url: str, *, deadline_s: float) -> tuple[Replica, ...]:
        """One replica for each address of the URL's host. Raises: Unanswered."""
        if url.lower().startswith("https:") and not self._tls:
            raise ValueError(f"{url} is asked without certificates")
        found = await replicas(url, self._resolve, rules=ADMINISTRATORS, deadline_s=deadline_s)
        return tuple(replace(replica, base=replica.base.rstrip("/")) for replica in found)

    async def get(self, replica: Replica, path: str, *, deadline_s: float, most_bytes: int | None = None) -> bytes:
        """The body of a 200 answer; `path` includes the query. A body over `most_bytes`, or BODY_MAX_BYTES, counts as no answer.

        Cancellation: safe. Raises: Unanswered.
        """
        try:
            received = await exchanged(
                self._transport,
                replica,
                Outgoing(url=replica.base + path),
                wanted=lambda status: status == _OK,
                deadline_s=deadline_s,
                most_bytes=BODY_MAX_BYTES if most_bytes is None else most_bytes,
            )
        except Unanswered as exc:
            if isinstance(why := exc.__cause__, httpx.HTTPError | httpx.InvalidURL):
                # Its text may have parts of the answer in it, and the message ends in a status.
                error = type(why).__name__
                log.info("question_unanswered", address=replica.display_name, error=error, why=str(why)[:_LOGGED])
            raise
        if received.status != _OK:
            raise Unanswered(f"{replica.display_name}: answers {received.status}")
        return received.body

    async def aclose(self) -> None:
        """Closes connections; safe to call twice."""
        await self._transport.aclose()
