"""`rollouts analysis providers`: the metric servers that MetricProviders declare, and what they answer to an empty question.

They are asked from here, with the credentials that are in the files, or that whoever asks may read. The controller may reach
others.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from rollouts.cli.commands.metric_servers import FileServers, declared_in, with_credentials
from rollouts.cli.exits import Exit
from rollouts.cli.kubernetes.parts import is_a
from rollouts.cli.terminal.listing import print_drawn
from rollouts.cli.terminal.options import note
from rollouts.cli.terminal.text import plain
from rollouts.cli.view.follow import Collection, list_all
from rollouts.cli.view.session import Session
from rollouts.cluster.decoding import manifest_from
from rollouts.core.analysis.metric_server import InSecret
from rollouts.core.analysis.recipe import ServerFields
from rollouts.core.analysis.recipes import RECIPES
from rollouts.core.analysis.servers.declared import DeclaredQuery
from rollouts.core.analysis.source import HttpSource, PrometheusQuery, ServerQuery
from rollouts.errors import ApiForbidden, ApiNotFound
from rollouts.metrics.addresses import TenantUrls
from rollouts.metrics.recipe_requests import filled_by_metrics
from rollouts.metrics.requests import MetricEndpoint, NoAnswer
from rollouts.metrics.samples import NoEvidence
from rollouts.metrics.sources import question_to, window_of
from rollouts.objects import METRIC_PROVIDER, SECRET, Manifest, mapping
from rollouts.ports import Clock, MetricEndpoints
from rollouts.probes.metric_asker import MetricAsker

_HEADINGS = ("NAME", "TYPE", "URL", "READY", "ANSWER")
_NO_QUESTION = "it is there, and an empty question is none to it"
_MEANINGS = {
    401: "it does not take the credentials",
    403: "it does not take the credentials",
    404: "nothing is there: look at the path of its URL, and at its type",
    429: "it is there, and wants to be asked less often",
}
"""What a status says, where its class does not say it. Source: RFC 9110, section 15."""


class ProviderLine(Struct, frozen=True, kw_only=True):
    """One MetricProvider, for people.

    Args:
        ready: what the controller says of it; "-" where none has looked at it.
        answer: to an empty question, from here; "-" where it was not asked.
        good: nothing is known to be wrong with it.
    """

    name: str
    kind: str
    url: str
    ready: str
    answer: str = "-"
    good: bool = True

    @classmethod
    def of(cls, manifest: Manifest) -> ProviderLine:
        """What the object says."""
        spec, conditions = mapping(manifest.get("spec")), mapping(manifest.get("status")).get("conditions")
        ready = next((each for each in conditions or () if mapping(each).get("type") == "Ready"), None)
        good = ready is None or ready.get("status") == "True"
        return cls(
            name=str(mapping(manifest.get("metadata")).get("name")),
            kind=str(spec.get("type") or ("its own recipe" if "recipe" in spec else "prometheus")),
            url=str(spec.get("url")),
            ready="-" if ready is None else "yes" if good else f"{ready.get('reason')}: {ready.get('message')}",
            good=good,
        )


async def show_providers(
    manifests: Sequence[Manifest], servers: FileServers | None, *, clock: Clock, ca_file: Path | None, deadline_s: float
) -> Exit:
    """Prints a line for each MetricProvider.

    Args:
        servers: whom to ask; None to ask nobody.

    Returns: BAD when one is not Ready, or gives no answer that a metric could use.
    """
    lines = [ProviderLine.of(each) for each in manifests if is_a(each, METRIC_PROVIDER)]
    if not lines:
        note("there are no MetricProviders: metrics ask the server of --prometheus-url, and URLs that they name")
        return Exit.OK
    if servers is not None:
        async with contextlib.aclosing(MetricAsker(tenants=TenantUrls(), clock=clock, ca_file=ca_file)) as asker:
            asked = [_asked(line, servers, asker, clock=clock, deadline_s=deadline_s) for line in lines]
            lines = await asyncio.gather(*asked)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in _HEADINGS:
        table.add_column(heading, overflow="fold")
    for line in sorted(lines, key=lambda line: line.name):
        cells = (line.name, line.kind, line.url, line.ready, line.answer)
        table.add_row(*map(plain, cells), style="" if line.good else "red")
    print_drawn(Console(), table)
    return Exit.OK if all(line.good for line in lines) else Exit.BAD


async def _asked(
    line: ProviderLine, servers: FileServers, endpoints: MetricEndpoints, *, clock: Clock, deadline_s: float
) -> ProviderLine:
    """The line with the answer to an empty question. Raises: nothing that a server could cause."""
    if (missing := servers.missing.get(line.name)) is not None:
        return msgspec.structs.replace(line, answer=f"not asked: {missing}", good=False)
    endpoint = servers.endpoints.get(line.name)
    if endpoint is None:
        return msgspec.structs.replace(line, answer="not asked: `rollouts lint` says what is wrong with it", good=False)
    source = empty_question(line.name, endpoint)
    question = question_to(source, servers.endpoints, window_of(source, clock.now_s()), anywhere=True)
    if isinstance(question, NoEvidence):
        return msgspec.structs.replace(line, answer=f"not asked: {question.why}", good=False)
    began_s = clock.monotonic_s()
    answer = await endpoints.ask(question.request, question.endpoint, deadline_s=deadline_s)
    if isinstance(answer, NoAnswer):
        return msgspec.structs.replace(line, answer=f"none: {answer.why}", good=False)
    status, took_ms = answer.status, (clock.monotonic_s() - began_s) * 1_000
    other = "it fails" if status >= 500 else _NO_QUESTION if status >= 400 else "it answers"
    return msgspec.structs.replace(
        line,
        answer=f"{status} in {took_ms:.0f} ms: {_MEANINGS.get(status, other)}",
        good=line.good and status < 500 and status not in (401, 403, 404),
    )


def empty_question(name: str, endpoint: MetricEndpoint) -> HttpSource:
    """A query that costs the server nothing: a constant for Prometheus, and fields without a word for the others."""
    if not endpoint.kind:
        return PrometheusQuery(query="vector(1)", endpoint=name, timeout_s=10.0)
    fields = RECIPES[endpoint.kind].fields
    empty: ServerFields
    if endpoint.recipe is not None:
        empty = DeclaredQuery(fields=dict.fromkeys(filled_by_metrics(endpoint.recipe), ""))
    else:
        empty = fields(**{field.name: "" for field in msgspec.structs.fields(fields) if field.required})
    return ServerQuery(kind=endpoint.kind, fields=empty, endpoint=name, timeout_s=10.0)


async def cluster_providers(session: Session) -> list[Manifest]:
    """The MetricProviders of the cluster. Raises: what `Client` raises."""
    found, _ = await list_all(session, Collection(kind=METRIC_PROVIDER, namespace=None, query={}))
    return list(found)


async def with_secrets(session: Session, providers: Iterable[Manifest], *, namespace: str) -> FileServers:
    """Whom to ask, with the Secrets of that namespace that whoever asks may read. Raises: what else `Client` raises."""
    servers, secrets, refused = declared_in(providers), list[Manifest](), dict[str, str]()
    places = {place for server in servers.values() for place in server.credentials}
    for name in sorted({place.name for place in places if isinstance(place, InSecret)}):
        try:
            secrets.append(manifest_from(await session.client.get(SECRET, namespace, name)))
        except (ApiForbidden, ApiNotFound) as exc:
            refused[name] = str(exc)
    return with_credentials(servers, secrets, where=f"in namespace {namespace}", refused=refused)
