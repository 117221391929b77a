"""Signing in with a bearer token of the cluster: the API server says whose it is, and the session ends with it."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Callable
from http import HTTPStatus

from rollouts.cli.dashboard.guard import RefusedRequest
from rollouts.cli.dashboard.sessions import Sessions, SignedIn
from rollouts.cli.terminal.errors import error_text
from rollouts.cli.view.rights import OWN_IDENTITY
from rollouts.errors import ApiNotFound, ApiUnauthenticated, RolloutsError
from rollouts.ports import ApiServer
from rollouts.secret import Secret

TOKEN_MAX_BYTES = 12 * 1024
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, 2.1


async def sign_in(
    sessions: Sessions, connect: Callable[[Secret], ApiServer], token: str, host: str
) -> tuple[SignedIn, str] | RefusedRequest:
    """A new session with the value of its cookie, or why there is none.

    Args:
        connect: to the API server with a token, and with no other credentials.
        host: at which it is good.
    """
    token = token.strip().removeprefix("Bearer ").strip()
    if len(token) > TOKEN_MAX_BYTES or not _TOKEN.fullmatch(token):
        return RefusedRequest(HTTPStatus.BAD_REQUEST, "This is no bearer token.")
    try:
        begun = await sessions.begin(lambda: connect(Secret(token)), host, expires_s=expiry_s(token))
    except ApiUnauthenticated:
        why = "The API server does not accept this token: it has expired, or is for another cluster or audience."
        return RefusedRequest(HTTPStatus.UNAUTHORIZED, why)
    except RolloutsError as error:
        # Whoever has not signed in is told nothing of the cluster.
        sys.stderr.write(f"error: a token could not be checked: {error_text(error)}\n")
        why = "the API server cannot be reached, or refuses to say whose it is; the dashboard's log has more"
        if isinstance(error, ApiNotFound) and OWN_IDENTITY.plural in str(error):
            why = "this API server cannot say whose it is: Kubernetes 1.28 or newer is needed"
        return RefusedRequest(HTTPStatus.BAD_GATEWAY, f"The token could not be checked: {why}.")
    return begun or RefusedRequest(HTTPStatus.UNAUTHORIZED, "The API server does not say whose token this is.")


def expiry_s(token: str) -> float | None:
    """When a token ends that the API server has accepted, in seconds since 1970; None for one that does not say."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        payload = parts[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(claims["exp"])
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
        return None
