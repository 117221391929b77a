"""Servers of the loopback: small ones of the tests' own, how one waits for those of others, and what goes on meanwhile."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias, TypeVar

import httpx

from tests.lab.processes import Processes

READY_WITHIN_S = 60.0

Answer: TypeAlias = tuple[int, Any]
"""An HTTP status and a body: text in Prometheus' format, or what goes as JSON."""

Found = TypeVar("Found")


@contextmanager
def answering(answer: Callable[[str], Answer], *, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """An HTTP server while the block runs; gives its port. Several threads ask for the answer to a GET of a path and query."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, body = answer(self.path)
            is_text = isinstance(body, str)
            content = (body if is_text else json.dumps(body)).encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4" if is_text else "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


def wait_for(
    asked: Callable[[], Found | None],
    what: str,
    processes: Processes | None = None,
    *,
    within_s: float = READY_WITHIN_S,
) -> Found:
    """Asks until the answer is true, and gives it; what the HTTP client raises means not yet. No watch tells of it.

    Raises: TimeoutError; ProcessEnded when one of `processes` has ended.
    """
    deadline, pause = time.monotonic() + within_s, threading.Event()
    while time.monotonic() < deadline:
        if processes is not None:
            processes.check()
        with contextlib.suppress(httpx.HTTPError):
            if found := asked():
                return found
        pause.wait(0.05)
    raise TimeoutError(f"{what}: not within {within_s:g} s")


@contextmanager
def meanwhile(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Something is done in a thread while the block runs, until its event is set; what it raises is raised at the end."""
    over = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work, over)
        try:
            yield
        finally:
            over.set()
            done.result()
