"""Asks metric endpoints: one bounded request, to an address that may be asked, with credentials for its own origin alone."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import assert_never

import httpx
import structlog

from rollouts.core.model.frozen import replace
from rollouts.errors import Unanswered
from rollouts.metrics.addresses import ADMINISTRATORS, TenantUrls
from rollouts.metrics.requests import (
    ANSWER_MAX_BYTES,
    Basic,
    Bearer,
    ClientCredentials,
    HttpAnswer,
    HttpRequest,
    MetricAnswer,
    MetricEndpoint,
    NoAnswer,
    ServiceAccount,
    Signature,
    is_below,
    origin_of,
)
from rollouts.ports import Clock
from rollouts.probes.exchange import (
    NotConnected,
    NotPermitted,
    Outgoing,
    Received,
    Resolve,
    exchanged,
    replicas,
    transport,
    trust,
)
from rollouts.probes.sigv4 import Signer
from rollouts.probes.tokens import Tokens, TokenSource, TokenThrottled, basic
from rollouts.secret import Secret

ADDRESSES_TRIED = 3  # of one name, when nobody listens
NAMES_SHARE = 0.8
"""Of the time, for the name: a name server that is silent must not look like a server that is."""

TRANSPORTS_KEPT = 64  # one for each way to check certificates; files of authorities are renewed

RETRY_AFTER_MAX_S = 3_600.0
"""What is asked for beyond is no more believed than that."""
_AWS_ERROR_BYTES = 4_096  # AWS says with 400 that it has had too many requests
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?", re.ASCII)

log = structlog.get_logger()


class MetricAsker:
    """`ports.MetricEndpoints` over HTTP.

    Args:
        tenants: what metrics may ask besides what an administrator declared.
        ca_file: certificates of authorities that are believed besides the public ones, PEM; None for none.
        resolve: the addresses of a host name; by default the system's.

    Raises: SettingsInvalid for a `ca_file` without a certificate in it.
    """

    def __init__(
        self, *, tenants: TenantUrls, clock: Clock, ca_file: Path | None = None, resolve: Resolve | None = None
    ) -> None:
        self._tenants = tenants
        self._clock = clock
        self._ca_file = ca_file
        self._trust = trust(ca_file, flag="--metrics-ca") if ca_file is not None else None
        self._resolve = resolve
        self._transports: dict[_Tls, httpx.AsyncHTTPTransport] = {}
        self._signer = Signer()
        self._tokens = Tokens(clock)

    async def ask(self, request: HttpRequest, endpoint: MetricEndpoint, *, deadline_s: float) -> MetricAnswer:
        """Sends the request, with the endpoint's credentials.

        Args:
            deadline_s: for all of it, with names, tokens and TLS; the request's own timeout, if that is shorter.

        Cancellation: safe. Raises: nothing that a server could cause.
        """
        limit_s = min(deadline_s, request.timeout_s)
        if not is_below(request.url, endpoint.url):
            # Its credentials may open more than the administrator declared, on its own origin too.
            return NoAnswer("the request does not go below its endpoint's URL")
        try:
            async with asyncio.timeout(limit_s):
                return await self._answer(request, endpoint, limit_s)
        except TokenThrottled as exc:
            log.info("metric_token_throttled", endpoint=endpoint.display_name, status=exc.received.status)
            wait_s = _retry_after_s(exc.received.headers, now_s=self._clock.now_s())
            return HttpAnswer(status=429, body=b"", retry_after_s=wait_s)
        except TimeoutError:
            return NoAnswer(f"{endpoint.display_name}: no answer within {limit_s:g} s")
        except Unanswered as exc:
            # Not what the library says: that may be a part of the answer, and an answer may repeat what was sent.
            why = type(exc.__cause__ or exc).__name__
            log.info("metric_not_answered", endpoint=endpoint.display_name, error=why)
            return NoAnswer(str(exc))

    async def aclose(self) -> None:
        """Closes connections; safe to call twice."""
        self._signer.close()
        for used in self._transports.values():
            await used.aclose()

    async def _answer(self, request: HttpRequest, endpoint: MetricEndpoint, limit_s: float) -> MetricAnswer:
        headers = {name.lower(): (name, value) for name, value in (*request.headers, *endpoint.headers)}
        signature = endpoint.credentials if isinstance(endpoint.credentials, Signature) else None
        if endpoint.credentials is not None and not isinstance(endpoint.credentials, Signature):
            authorization = await self._authorization(endpoint.credentials, endpoint, limit_s)
            headers["authorization"] = "Authorization", authorization
        revealed = tuple((name, value.reveal()) for name, value in headers.values())
        if signature is not None:
            asked = replace(request, headers=tuple(headers.values()))
            revealed += await self._signer.signed(asked, signature)
        outgoing = Outgoing(
            url=request.url,
            method=request.method,
            headers=revealed,
            body=request.body,
            server_name=endpoint.server_name,
        )
        received = await self._send(outgoing, endpoint, limit_s, declared=endpoint.declared)
        if received.status == 401 and isinstance(endpoint.credentials, ClientCredentials | ServiceAccount):
            self._tokens.refused(endpoint.credentials)
        content_type = received.headers.get("content-type", "")
        wait_s = _retry_after_s(received.headers, now_s=self._clock.now_s())
        throttled = signature is not None and received.status == 400 and b"Throttl" in received.body[:_AWS_ERROR_BYTES]
        status = 429 if throttled else received.status
        return HttpAnswer(status=status, body=received.body, content_type=content_type, retry_after_s=wait_s)

    async def _authorization(
        self, credentials: Basic | Bearer | TokenSource, endpoint: MetricEndpoint, limit_s: float
    ) -> Secret:
        match credentials:
            case Basic(user, password):
                return basic(user, password)
            case Bearer(token, scheme):
                return Secret(f"{scheme} {token.reveal()}")
            case ClientCredentials() | ServiceAccount():
                # Who may write an administrator's Secret has named the URL in its key.
                declared = credentials.declared if isinstance(credentials, ClientCredentials) else endpoint.declared
                send = partial(self._send, endpoint=endpoint, limit_s=limit_s, declared=declared)
                token = await self._tokens.token_of(credentials, send)
                return Secret(f"Bearer {token.reveal()}")
            case _:
                assert_never(credentials)

    async def _send(self, outgoing: Outgoing, endpoint: MetricEndpoint, limit_s: float, *, declared: bool) -> Received:
        """Sends a request of the endpoint, or for its token.

        Args:
            declared: an administrator named the URL of this request.

        Raises: Unanswered; NotPermitted.
        """
        rules = ADMINISTRATORS if declared else self._tenants
        who = origin_of(outgoing.url)
        try:
            found = await replicas(outgoing.url, self._resolve, rules=rules, deadline_s=limit_s * NAMES_SHARE)
        except NotPermitted:
            raise
        except Unanswered as exc:
            raise Unanswered(f"{who}: has no address") from exc
        used = outgoing.url.lower().startswith("https:")
        tls = _Tls(used=used, checked=True)
        if declared == endpoint.declared:  # what a declaration says of certificates is for the URLs in it
            tls = _Tls(used=used, checked=not endpoint.insecure, authorities=endpoint.authorities)
        by = await self._transport_for(tls)
        last = Unanswered(f"{who}: has no address")
        for replica in found[:ADDRESSES_TRIED]:
            try:
                received = await exchanged(
                    by,
                    replace(replica, display_name=who),  # which address a name has is not for those who named it
                    replace(outgoing, url=replica.base),
                    wanted=lambda _: True,
                    deadline_s=limit_s,
                    most_bytes=ANSWER_MAX_BYTES,
                )
            except NotConnected as exc:
                last = exc
                continue
            # What would come out of a small compressed answer is not known before it is there.
            if received.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
                raise Unanswered(f"{who}: the answer is compressed, which was not asked for")
            return received
        raise last

    async def _transport_for(self, tls: _Tls) -> httpx.AsyncHTTPTransport:
        if tls not in self._transports:
            # Loading the public authorities takes 100 ms and more.
            verify = await asyncio.to_thread(self._verify, tls)
            if len(self._transports) >= TRANSPORTS_KEPT:
                # It keeps no connection, so whoever still asks through it closes what is open.
                self._transports.pop(next(iter(self._transports)))
            self._transports.setdefault(tls, transport(verify))
        return self._transports[tls]

    def _verify(self, tls: _Tls) -> ssl.SSLContext | bool:
        """Raises: Unanswered for authorities that are none."""
        if not tls.used or not tls.checked:
            return False
        if not tls.authorities:
            return self._trust or httpx.create_ssl_context(trust_env=False)
        context = trust(self._ca_file, flag="--metrics-ca") if self._ca_file is not None else None
        context = context or httpx.create_ssl_context(trust_env=False)
        try:
            context.load_verify_locations(cadata=tls.authorities)
        except (ssl.SSLError, ValueError) as exc:
            raise Unanswered("the certificates of its authorities cannot be used") from exc
        return context


@dataclass(frozen=True, slots=True)
class _Tls:
    used: bool
    checked: bool
    authorities: str = field(default="", repr=False)


def _retry_after_s(headers: Mapping[str, str], *, now_s: float) -> float | None:
    """Seconds or a date. Sources: RFC 9110, section 10.2.3; Datadog's `X-RateLimit-Reset` has seconds, too."""
    text = (headers.get("retry-after") or headers.get("x-ratelimit-reset") or "").strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), RETRY_AFTER_MAX_S)
    try:
        return min(max(0.0, parsedate_to_datetime(text).timestamp() - now_s), RETRY_AFTER_MAX_S)
    except (ValueError, OverflowError):
        return None
