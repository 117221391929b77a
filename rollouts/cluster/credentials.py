"""Credentials for the API server, and how they are renewed: fixed ones, a file that rotates, or a plugin that is run.

Times here are the event loop's, so that a jump of the wall clock neither expires a good token nor keeps a dead one.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from rollouts.errors import ApiUnavailable
from rollouts.secret import Secret

RELOAD_PERIOD_S = 60.0  # kubelet rotates a token long before it expires; client-go re-reads once a minute too
PLUGIN_DEADLINE_S = 30.0
PLUGIN_RETRY_S = 10.0
PLUGIN_MAX_BYTES = 1024 * 1024  # a token has a few KB, a certificate with its chain a few more
RENEW_AT_REMAINING = 0.2  # of a plugin token's lifetime; that part is for a slow plugin


class ClientCertificate(Struct, frozen=True):
    """A client certificate and its key, both PEM."""

    certificate: str
    key: Secret


class Credentials:
    """A fixed Authorization header, or none: a token, a password, or a client certificate that the TLS context already has.

    Those below renew theirs.
    """

    certificate: ClientCertificate | None = None
    """The client certificate that a plugin gave, for new connections."""

    def __init__(self, authorization: Secret | None) -> None:
        self._authorization = authorization

    async def authorization(self) -> Secret | None:
        """Value of the header, or None to send none.

        Raises: ApiUnavailable, when no valid one is left and a new one cannot be fetched.
        """
        return self._authorization

    async def renew(self) -> bool:
        """Called after a 401: fetches again, and returns whether there is something new to try. Raises: ApiUnavailable."""
        return False

    async def aclose(self) -> None:
        """Ends processes and tasks that still run."""


class ReloadedCredentials(Credentials):
    """Credentials that are loaded again once a minute, such as those of `auth-provider` users (OIDC).

    Args:
        load: returns the header; raises ApiUnavailable.
    """

    def __init__(self, load: Callable[[], Awaitable[Secret | None]]) -> None:
        super().__init__(None)
        self._load = load
        self._load_again_at_s = float("-inf")

    async def authorization(self) -> Secret | None:
        """See `Credentials.authorization`."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._load_again_at_s:
            self._load_again_at_s = now_s + RELOAD_PERIOD_S
            self._authorization = await self._load()
        return self._authorization

    async def renew(self) -> bool:
        """Loads at once."""
        before = self._authorization
        self._load_again_at_s = float("-inf")
        return await self.authorization() != before


class TokenFile(ReloadedCredentials):
    """A bearer token in a file that changes: a service account's, or a kubeconfig's `tokenFile`.

    While the file cannot be read, the last token stays in use until the API server refuses it. White space around the token is
    ignored.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(self._read)
        self._path = path

    async def _read(self) -> Secret | None:
        try:
            token = self._path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as exc:
            # The error about an undecodable byte contains the bytes around it, so its text is not used.
            why = exc.strerror if isinstance(exc, OSError) else "it is not UTF-8"
            trouble = f"cannot read the token file {self._path}: {why}"
        else:
            if token:
                return Secret(f"Bearer {token}")
            trouble = f"the token file {self._path} is empty"
        if self._authorization is None:
            raise ApiUnavailable(trouble)
        return self._authorization


class ExecPlugin(Credentials):
    """A client-go credential plugin: a program that prints an ExecCredential.

    It runs when a token is first needed, before the token expires, and after a 401. One run serves all requests that wait for
    it, and continues when they give up. A failed renewal does no harm while the old token is still valid.
    Source: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins

    Args:
        environment: the whole environment of the program.
        api_version: apiVersion of the ExecCredential, such as `client.authentication.k8s.io/v1`.
    """

    def __init__(self, *, command: tuple[str, ...], environment: Mapping[str, str], api_version: str) -> None:
        super().__init__(None)
        self._command = command
        info = {"apiVersion": api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
        self._environment = {**environment, "KUBERNETES_EXEC_INFO": json.dumps(info)}
        self._api_version = api_version
        self._have_any = False
        self._renew_at_s = float("-inf")
        self._expires_at_s = float("-inf")
        self._run: asyncio.Task[None] | None = None

    async def authorization(self) -> Secret | None:
        """The header; starts the plugin early enough, and waits for it only when no valid token is left."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._renew_at_s:
            running = self._running()
            if now_s >= self._expires_at_s:
                await asyncio.shield(running)
        return self._authorization

    async def renew(self) -> bool:
        """Runs the plugin at once."""
        before = (self._authorization, self.certificate)
        await asyncio.shield(self._running())
        return (self._authorization, self.certificate) != before

    async def aclose(self) -> None:
        """Kills the plugin if it runs."""
        if self._run is not None and not self._run.done():
            self._run.cancel()
            await asyncio.wait({self._run})

    def _running(self) -> asyncio.Task[None]:
        if self._run is None or self._run.done():
            self._run = asyncio.get_running_loop().create_task(self._refresh(), name="credential-plugin")
            # A run that nobody waits for may fail: the next request that needs a token runs it again and gets the reason.
            self._run.add_done_callback(lambda run: run.cancelled() or run.exception())
        return self._run

    async def _refresh(self) -> None:
        now_s = asyncio.get_running_loop().time()
        self._renew_at_s = now_s + PLUGIN_RETRY_S if self._have_any else float("-inf")
        printed = _credential(await self._printed(), self._api_version)
        if isinstance(printed, str):
            raise ApiUnavailable(
                f"the credential plugin {self._command[0]} printed no usable ExecCredential: {printed}"
            )
        if printed.certificate != self.certificate:  # a connection looks whether it is another object
            self.certificate = printed.certificate
        self._authorization = printed.authorization
        self._have_any = True
        self._expires_at_s = now_s + printed.left_s
        self._renew_at_s = now_s + printed.left_s * (1 - RENEW_AT_REMAINING)

    async def _printed(self) -> bytes:
        """The plugin's output. Its standard error may contain its input, so it is never repeated."""
        program = self._command[0]
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,  # processes that it starts end with it
            )
        except OSError as exc:
            raise ApiUnavailable(f"cannot run the credential plugin {program}: {exc.strerror}") from exc
        try:
            async with asyncio.timeout(PLUGIN_DEADLINE_S):
                assert process.stdout is not None  # noqa: S101 - it is a pipe
                try:
                    printed = await process.stdout.readexactly(PLUGIN_MAX_BYTES + 1)
                    _kill(process)
                except asyncio.IncompleteReadError as end:
                    printed = end.partial
                await process.communicate()
        except TimeoutError as exc:
            raise ApiUnavailable(f"the credential plugin {program} took more than {PLUGIN_DEADLINE_S:.0f} s") from exc
        finally:
            if process.returncode is None:
                _kill(process)  # the event loop reaps it
        if len(printed) > PLUGIN_MAX_BYTES:
            raise ApiUnavailable(f"the credential plugin {program} printed more than {PLUGIN_MAX_BYTES >> 20} MiB")
        if process.returncode != 0:
            raise ApiUnavailable(
                f"the credential plugin {program} failed with exit code {process.returncode}; run it by hand to see its output"
            )
        return printed


class _Credential(Struct, frozen=True):
    """The credential in an ExecCredential."""

    authorization: Secret | None
    certificate: ClientCertificate | None
    left_s: float


def _credential(printed: bytes, api_version: str) -> _Credential | str:
    """The credential, or the problem with it in our own words, without any part of the output."""
    try:
        answer = json.loads(printed)
        status = answer["status"]
        found = answer["apiVersion"]
        certificate = None
        if "clientCertificateData" in status:
            certificate = ClientCertificate(str(status["clientCertificateData"]), Secret(str(status["clientKeyData"])))
        token = status.get("token")
        expires = status.get("expirationTimestamp")
    except KeyError as exc:
        return f"it has no {exc}"  # the name of a field that we read
    except (ValueError, TypeError, AttributeError, RecursionError) as exc:
        return f"it is not such a JSON object ({type(exc).__name__})"
    if found != api_version:
        return f"its apiVersion is not {api_version}"
    if not token and certificate is None:
        return "it has neither a token nor a client certificate"
    try:
        left_s = float("inf")
        if expires:
            moment = datetime.fromisoformat(expires)
            moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
            left_s = max(0.0, (moment - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return "its expirationTimestamp is not an RFC 3339 time"
    return _Credential(Secret(f"Bearer {token}") if token else None, certificate, left_s)


def _kill(process: asyncio.subprocess.Process) -> None:
    if not hasattr(os, "killpg"):  # Windows has no process groups
        process.kill()
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
