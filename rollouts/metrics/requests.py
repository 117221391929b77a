"""What is sent to a metric endpoint and what comes back, as values. Whatever may hold a secret is never printed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from rollouts.core.analysis.metric_server import READS_ONLY
from rollouts.core.analysis.recipe import Recipe
from rollouts.secret import Secret

HEADERS_MAX = 32
HEADER_MAX_CHARACTERS = 8_192

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
"""Source: RFC 9110, section 5.6.2."""
_VALUE = re.compile(r"[\t\x20-\x7e]*")
_OURS = frozenset(
    ("host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect")
) | frozenset(("accept-encoding", "proxy-authorization", "proxy-connection"))

_ENCODED_MAX = 8  # times; what is encoded more often is nobody's name

ANSWER_MAX_BYTES = 1 << 20
"""Of an answer; what is more is not read to its end."""


class Basic(Struct, frozen=True):
    """User and password. Source: RFC 7617."""

    user: str
    password: Secret


class Bearer(Struct, frozen=True):
    """A token that is sent as it is. Source: RFC 6750.

    Args:
        scheme: what stands before it in `Authorization`; some servers have a word of their own.
    """

    token: Secret
    scheme: str = "Bearer"


class ClientCredentials(Struct, frozen=True):
    """A token is asked for first. Source: RFC 6749, section 4.4.

    Args:
        declared: an administrator named the token's URL. One that a template names is a tenant's, whoever the token is for.
    """

    token_url: str
    client_id: str
    client_secret: Secret
    scopes: tuple[str, ...] = ()
    declared: bool = False


class ServiceAccount(Struct, frozen=True):
    """A token of Google is asked for first. Source: RFC 7523.

    Args:
        key: the JSON of the key file.
    """

    key: Secret
    scopes: tuple[str, ...]


class Signature(Struct, frozen=True):
    """Each request is signed, as AWS wants it (Signature Version 4).

    Args:
        access_key: "" where AWS's own library finds credentials.
        secret_key: of `access_key`.
    """

    region: str
    service: str
    access_key: str = ""
    secret_key: Secret | None = None


MetricCredentials: TypeAlias = Basic | Bearer | ClientCredentials | ServiceAccount | Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricEndpoint:
    """Who is asked.

    Args:
        url: base URL, such as `http://prometheus.monitoring:9090`; all requests go below it.
        declared: an administrator named it, so it may have a private address. One that a tenant names may not.
        credentials: sent to its own origin only; None for none.
        headers: sent with each request, (name, value), after those of the metric.
        authorities: certificates of authorities that are trusted besides the usual ones, PEM; "" for none.
        server_name: the name that its certificate must have; "" for the URL's.
        methods: that metrics of the source web may use on one that is declared.
        kind: name of the recipe of its server; "" for Prometheus and others.
        settings: that the recipe needs, by name.
        recipe: its own; None for that of its kind.
    """

    url: str = field(repr=False)
    declared: bool = False
    credentials: MetricCredentials | None = None
    headers: tuple[tuple[str, Secret], ...] = ()
    insecure: bool = False
    authorities: str = field(default="", repr=False)
    server_name: str = ""
    methods: tuple[str, ...] = READS_ONLY
    kind: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    recipe: Recipe | None = field(default=None, repr=False)

    @property
    def display_name(self) -> str:
        """Scheme, host and port, for people."""
        return origin_of(self.url)


class Window(Struct, frozen=True):
    """The times that are asked for, seconds since 1970; a value of another time answers another question.

    Args:
        start_s: None for an instant query: of `end_s`.
    """

    end_s: float
    start_s: float | None = None
    step_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request.

    Args:
        timeout_s: what the metric allows for all of it.
    """

    url: str = field(repr=False)
    method: str = "GET"
    headers: tuple[tuple[str, Secret], ...] = ()
    body: bytes = field(default=b"", repr=False)
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """An answer that came whole; any status.

    Args:
        retry_after_s: when the server wants to be asked again at the earliest, if it says so.
    """

    status: int
    body: bytes = field(repr=False)
    content_type: str = field(default="", repr=False)
    retry_after_s: float | None = None

    @property
    def asks_to_wait(self) -> bool:
        """The server refuses for now: it has had too many requests, or cannot answer at the moment and says until when."""
        return self.status == 429 or (self.status == 503 and self.retry_after_s is not None)


class NoAnswer(Struct, frozen=True):
    """None came that can be used; why, in words of ours."""

    why: str


MetricAnswer: TypeAlias = HttpAnswer | NoAnswer


def origin_of(url: str) -> str:
    """`https://host:port` of a URL, for people and to compare; "" when it has none. Source: RFC 6454."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    if not parts.hostname or parts.scheme not in ("http", "https"):
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port if port is not None else 443 if parts.scheme == 'https' else 80}"


def is_below(url: str, base: str) -> bool:
    """Whether the URL is the base's, or leads further down from it; one that leads up again anywhere does not."""
    if not origin_of(base) or origin_of(url) != origin_of(base):
        return False
    path, root = urlsplit(url).path, urlsplit(base).path.rstrip("/")
    return (path == root or path.startswith(f"{root}/")) and not leads_up(path)


def leads_up(path: str) -> bool:
    """Whether some server could read the path as one that leads up: `..`, however often it is encoded, with parameters too."""
    for _ in range(_ENCODED_MAX):
        segments = path.replace("\\", "/").split("/")
        if any(segment.partition(";")[0].strip() == ".." for segment in segments):
            return True
        path, before = unquote(path), path
        if path == before:
            return False
    return True


def header_problem(headers: tuple[tuple[str, str], ...]) -> str:
    """What is wrong with headers that people give to a metric, without a part of them; "" for nothing."""
    if len(headers) > HEADERS_MAX:
        return f"headers: {HEADERS_MAX} at most"
    for place, (name, value) in enumerate(headers):
        if not _NAME.fullmatch(name):
            return f"headers[{place}]: its key is no name of a header"
        if name.lower() in _OURS or name.lower().startswith("proxy-"):
            return f"headers[{place}]: it is not for a metric to set"
        if len(value) > HEADER_MAX_CHARACTERS or not _VALUE.fullmatch(value):
            return f"headers[{place}]: its value has a line break, is too long, or is not ASCII"
    return ""


def sent(headers: tuple[tuple[str, str], ...]) -> tuple[tuple[str, Secret], ...]:
    """Headers as they are sent: any of them may be a credential."""
    return tuple((name, Secret(value.strip())) for name, value in headers)
