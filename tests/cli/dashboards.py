"""A dashboard on loopback, and requests to it as they go over the wire, so that a test can forge any part of one."""

from __future__ import annotations

import asyncio
import contextlib
import html
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from rollouts.cli.dashboard.app import serving
from rollouts.cli.view.session import Session, session_on
from tests.cli.runs import Served
from tests.cli.shop import Shop
from tests.patience import PATIENCE_S


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: str


@dataclass
class Visitor:
    """A browser without a screen: it keeps one cookie, and sends what browsers send."""

    url: str
    cookie: str = ""
    sent: dict[str, str] = field(default_factory=dict)

    @property
    def host(self) -> str:
        """Host and port of the dashboard."""
        return urlsplit(self.url).netloc

    async def get(self, path: str, **headers: str) -> Answer:
        """GET, with headers beside those of a browser, or in their place."""
        return await self._ask("GET", path, "", headers)

    async def post(self, path: str, fields: Mapping[str, str], **headers: str) -> Answer:
        """A form that our own page sends."""
        own = {"Origin": f"http://{self.host}", "Content-Type": "application/x-www-form-urlencoded"}
        return await self._ask("POST", path, urlencode(fields), own | headers)

    async def log_in(self) -> Answer:
        """Opens the printed address and keeps the cookie."""
        address = urlsplit(self.url)
        answer = await self.get(f"{address.path}?{address.query}")
        self.cookie = answer.headers.get("set-cookie", "").partition(";")[0]
        return answer

    async def form(self, path: str) -> dict[str, str]:
        """The fields of the form on the page of an act."""
        page = await self.get(path)
        assert page.status == 200, page
        found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.body)
        return {name: html.unescape(value) for name, value in found}

    @contextlib.asynccontextmanager
    async def stream(self, path: str, **headers: str) -> AsyncIterator[asyncio.StreamReader]:
        """An open stream of events, behind its head."""
        reader, writer = await self._send("GET", path, "", headers)
        async with asyncio.timeout(PATIENCE_S):
            await reader.readuntil(b"\r\n\r\n")
        try:
            yield reader
        finally:
            writer.close()

    async def _ask(self, method: str, path: str, body: str, headers: Mapping[str, str]) -> Answer:
        reader, writer = await self._send(method, path, body, {"Connection": "close"} | dict(headers))
        try:
            async with asyncio.timeout(PATIENCE_S):
                head, _, rest = (await reader.read()).decode().partition("\r\n\r\n")
        finally:
            writer.close()
        first, *lines = head.split("\r\n")
        pairs = (line.partition(": ") for line in lines)
        return Answer(int(first.split(" ")[1]), {name.lower(): value for name, _, value in pairs}, rest)

    async def _send(
        self, method: str, path: str, body: str, headers: Mapping[str, str]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        address = urlsplit(self.url)
        all_headers = {"Host": self.host, "Cookie": self.cookie, "Content-Length": str(len(body))}
        all_headers |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in all_headers.items() if value)]
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(("\r\n".join(lines) + "\r\n\r\n" + body).encode())
        return reader, writer


def session_of(there: Served | Shop) -> Session:
    """Somebody's, whose requests the door keeps and may refuse."""
    return session_on(there.door, namespace="default", request_timeout_s=2.0)


@contextlib.asynccontextmanager
async def dashboard(there: Served | Shop) -> AsyncIterator[Visitor]:
    """A dashboard on a free port, which asks through the door, and somebody who has opened the printed address."""
    async with serving(session_of(there), namespace=None, address="127.0.0.1", port=0) as url:
        visitor = Visitor(url)
        assert (await visitor.log_in()).status == 303
        yield visitor


async def until_page(stream: asyncio.StreamReader, text: str) -> str:
    """Reads the stream until a page with this text comes, and returns the event."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            event = (await stream.readuntil(b"\n\n")).decode()
            if text in event:
                return event
