"""What a fake of a metric server has: it takes requests as the real one documents them, refuses others, and answers in its form.

A fake does its own arithmetic, from the server's documentation, and knows nothing of recipes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

from rollouts.controller.providers.declarations import server_of
from rollouts.core.analysis.recipe import Recipe
from rollouts.metrics.requests import Bearer, HttpAnswer, HttpRequest, MetricEndpoint, Signature
from rollouts.secret import Secret
from tests.metrics import servers
from tests.metrics.answers import NOW_S

Series: TypeAlias = Sequence[tuple[Any, Any]]
"""(Seconds since 1970, value), in any order; either may be something else."""

TOKEN = "pl4nted-t0ken"
REGION, ACCESS_KEY = "eu-west-1", "AKIDEXAMPLE"
ADDRESS = "https://address.example"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request as a server gets it: headers by name in lower case, each parameter with all its values, the body as JSON."""

    method: str
    path: str
    parameters: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: Any

    def parameter(self, name: str) -> str:
        """The value of a parameter that stands there once; "" otherwise."""
        values = self.parameters.get(name, [])
        return values[0] if len(values) == 1 else ""


@dataclass(frozen=True, kw_only=True)
class Fake:
    """One kind of server, asked in one way.

    Args:
        metric: the block in `provider` of a metric.
        document: its answer is what a condition sees, so what a condition says of a missing member holds.
        merges: it works one number out of all that is there.
        headers, bearer, settings, recipe: what a MetricProvider of the type says.
        objection: why the server refuses a request; "" for one that it answers.
        body: what it answers when these series are there.
        signed: the service of AWS that requests are signed for; "" for none.
        refused: how it says no, with a status.
        result: what a condition writes for the one number.
        whole: every number is judged; otherwise the newest of each series.
        times: its answers have times.
        rows: it answers with a row for each point, so that a series without points is none.
        bad: answers without evidence that only this server gives, by name.
    """

    name: str
    kind: str
    metric: Mapping[str, Any]
    objection: Callable[[Asked], str]
    body: Callable[[Sequence[Series]], Any]
    result: str
    whole: bool = False
    times: bool = True
    rows: bool = False
    document: bool = False
    merges: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    bearer: bool = False
    scheme: str = "Bearer"
    signed: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    recipe: Mapping[str, Any] | None = None
    refused: tuple[int, Any] = (400, {"errors": ["no"]})
    bad: Mapping[str, HttpAnswer] = field(default_factory=dict)

    @property
    def endpoint(self) -> MetricEndpoint:
        """The server as its MetricProvider declares it."""
        return MetricEndpoint(
            url=f"https://{self.kind.lower()}.example/base",
            declared=True,
            kind=self.kind,
            headers=tuple((name, Secret(value)) for name, value in self.headers.items()),
            credentials=self._credentials(),
            settings=tuple(self.settings.items()),
            recipe=self._recipe(),
        )

    def _credentials(self) -> Bearer | Signature | None:
        if self.signed:
            return Signature(REGION, self.signed, ACCESS_KEY, Secret(TOKEN))
        return Bearer(Secret(TOKEN), self.scheme) if self.bearer else None

    def _recipe(self) -> Recipe | None:
        if self.recipe is None:
            return None
        spec = {"url": "https://it.example", "recipe": self.recipe}
        return server_of("it", spec, folder=Path("/nowhere"), taken=False).recipe

    def answer(self, request: HttpRequest, endpoint: MetricEndpoint, series: Sequence[Series]) -> HttpAnswer:
        """What the server says when these series are there."""
        asked = asked_by(request, endpoint)
        if why := self.why_refused(asked):
            status, body = self.refused
            return HttpAnswer(status=status, body=written({**body, "why": why}), content_type="application/json")
        return HttpAnswer(status=200, body=written(self.body(series)), content_type="application/json")

    def why_refused(self, asked: Asked) -> str:
        """Why the server would not answer; "" for a request that it answers."""
        wanted = {name.lower(): value for name, value in self.headers.items()}
        if self.bearer:
            wanted["authorization"] = f"{self.scheme} {TOKEN}"
        for name, value in wanted.items():
            if asked.headers.get(name) != value:
                return f"{name} is not ours"
        return self.objection(asked)


def asked_by(request: HttpRequest, endpoint: MetricEndpoint) -> Asked:
    """The request as it is sent to the endpoint; below its base path."""
    parts = urlsplit(request.url)
    headers = {name.lower(): value.reveal() for name, value in (*request.headers, *endpoint.headers)}
    if isinstance(endpoint.credentials, Bearer):
        headers["authorization"] = f"{endpoint.credentials.scheme} {endpoint.credentials.token.reveal()}"
    return Asked(
        method=request.method,
        path=parts.path.removeprefix(urlsplit(endpoint.url).path),
        parameters=parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)),
        headers=headers,
        body=body_of(request.body, headers),
    )


def body_of(body: bytes, headers: Mapping[str, str]) -> Any:
    """The body as its type says; None for none."""
    if not body:
        return None
    return body.decode() if headers.get("content-type") == "text/plain" else json.loads(body)


def written(body: Any) -> bytes:
    """JSON, also of numbers that are none in JSON; bytes as they are."""
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def answered(body: Any, *, status: int = 200) -> HttpAnswer:
    return HttpAnswer(status=status, body=written(body), content_type="application/json")


def one(value: Any, *, at_s: Any = NOW_S) -> list[Series]:
    """One series with one point."""
    return [[(at_s, value)]]


def timed(at_s: Any, factor: int = 1) -> Any:
    """A time in the server's unit; what is no number stays as it is."""
    return at_s * factor if isinstance(at_s, int | float) and not isinstance(at_s, bool) else at_s


_MODULES = sorted(module.name for module in iter_modules(servers.__path__) if module.name != "fake")


def whole_metrics() -> list[tuple[str, dict[str, Any]]]:
    """Blocks of `provider`, in which every field of each kind of server has a value; `ADDRESS` is the server's URL."""
    return [each for name in _MODULES for each in import_module(f"tests.metrics.servers.{name}").WHOLE]


def all_fakes() -> dict[str, Fake]:
    """Every fake by its name: each module beside this one has some."""
    fakes = [fake for name in _MODULES for fake in import_module(f"tests.metrics.servers.{name}").FAKES]
    return {fake.name: fake for fake in fakes}
