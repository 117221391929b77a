"""The metric servers that files declare, with the credentials that are in the files too, and metrics that do not fit them."""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from rollouts.api.spec.analysis.run import parse_template
from rollouts.api.spec.reading import core_value
from rollouts.api.v1alpha1.analysis_template import MetricWire
from rollouts.api.v1alpha1.metric_servers import server_given
from rollouts.api.v1alpha1.wire import Wire
from rollouts.cli.kubernetes.parts import is_a
from rollouts.cli.kubernetes.schema import Problem
from rollouts.controller.providers.declarations import server_of
from rollouts.core.analysis.metric_server import CredentialPlace, InSecret, MetricServer
from rollouts.core.analysis.recipe import Recipe
from rollouts.core.analysis.source import ServerQuery
from rollouts.core.placeholders import named_in
from rollouts.errors import SpecInvalid
from rollouts.metrics.declared import endpoint_of_server
from rollouts.metrics.recipes import endpoint_of, request_of, window_of, with_recipe
from rollouts.metrics.requests import MetricEndpoint
from rollouts.metrics.samples import NoEvidence
from rollouts.objects import METRIC_PROVIDER, SECRET, Manifest, mapping
from rollouts.secret import Secret

_ANY_FOLDER = Path("/")  # which one credentials are in, a flag of the controller says
_SOME_TIME_S = 1e9
_NOTHING: Mapping[str, str] = MappingProxyType({})


class FileServers(Struct, frozen=True):
    """MetricProviders, by name, with the credentials that are beside them in files or in a namespace.

    Args:
        missing: the credentials that are not there, for people.
    """

    endpoints: Mapping[str, MetricEndpoint]
    missing: Mapping[str, str]


def servers_in(manifests: Iterable[Manifest]) -> FileServers:
    """Those of files that can be read, with the Secrets beside them; what is wrong with the others is for `lint`."""
    manifests = list(manifests)
    return with_credentials(declared_in(manifests), manifests, where="in the files")


def declared_in(manifests: Iterable[Manifest]) -> Mapping[str, MetricServer]:
    """What MetricProviders declare, by name; those that cannot be read are left out."""
    servers: dict[str, MetricServer] = {}
    for manifest in (each for each in manifests if is_a(each, METRIC_PROVIDER)):
        name = str(mapping(manifest.get("metadata")).get("name"))
        with contextlib.suppress(SpecInvalid):
            servers[name] = server_of(name, dict(mapping(manifest.get("spec"))), folder=_ANY_FOLDER, taken=False)
    return servers


def with_credentials(
    servers: Mapping[str, MetricServer],
    manifests: Iterable[Manifest],
    *,
    where: str,
    refused: Mapping[str, str] = _NOTHING,
) -> FileServers:
    """Whom to ask with the credentials of these Secrets.

    Args:
        servers: by name.
        where: the Secrets were looked for, for people.
        refused: why Secrets were not read, by name.
    """
    secrets = {str(mapping(each.get("metadata")).get("name")): _texts(each) for each in manifests if is_a(each, SECRET)}
    endpoints: dict[str, MetricEndpoint] = {}
    missing: dict[str, str] = {}
    for name, server in servers.items():
        texts = {place: _text_at(place, secrets) for place in server.credentials}
        endpoints[name] = endpoint_of_server(server, {place: Secret(text) for place, text in texts.items()})
        if absent := [place for place, text in texts.items() if not text]:
            missing[name] = f"MetricProvider {name}: {why_missing(absent[-1], where, refused)}"
    return FileServers(endpoints, missing)


def why_missing(place: CredentialPlace, where: str, refused: Mapping[str, str]) -> str:
    """Why a credential is not there, for people."""
    match place:
        case InSecret(name):
            return f"{place} cannot be read: {refused[name]}" if name in refused else f"{place} is not {where}"
        case _:
            return f"{place} is mounted for the controller alone"


def _text_at(place: CredentialPlace, secrets: Mapping[str, Mapping[str, str]]) -> str:
    """A credential of the files; "" for one that is not in them."""
    return secrets.get(place.name, {}).get(place.key, "") if isinstance(place, InSecret) else ""


def _texts(secret: Manifest) -> Mapping[str, str]:
    """The values of a Secret of a file; those that are no text are left out."""
    found = {key: value for key, value in mapping(secret.get("stringData")).items() if isinstance(value, str)}
    for key, value in mapping(secret.get("data")).items():
        try:
            found.setdefault(key, base64.b64decode(str(value), validate=True).decode().rstrip("\r\n"))
        except (binascii.Error, ValueError):
            continue
    return found


def server_problems(spec: Any, servers: FileServers) -> Iterator[Problem]:
    """Path and message for metrics of a template that the MetricProviders of the same files cannot answer."""
    try:
        template = parse_template(mapping(spec))
    except SpecInvalid:  # a problem of its own
        return
    for index, metric in enumerate(template.metrics or ()):
        for within, recipe, wire in _servers_of(metric):
            if unfit := _unfit(recipe, wire, servers.endpoints):
                at, why = unfit
                yield f"spec.metrics[{index}].provider.{within}{recipe.name}{at}", why


def _servers_of(metric: MetricWire) -> Iterator[tuple[str, Recipe, Wire]]:
    """The server that a metric asks, for itself or for both arms of a comparison, with the path to it within `provider`."""
    if (provider := metric.provider) is None:
        return
    yield from (("", *given) for given in server_given(provider))
    if provider.compare is not None and provider.compare.of is not None:
        yield from (("compare.of.", *given) for given in server_given(provider.compare.of))


def _unfit(recipe: Recipe, wire: Wire, declared: Mapping[str, MetricEndpoint]) -> Problem | None:
    """Where and why a metric does not fit a server of the files; None where it does, or where the cluster may have its server."""
    fields = core_value(recipe.fields, wire)
    source = ServerQuery(kind=recipe.name, fields=fields, endpoint=fields.server, timeout_s=30.0)
    same = any(each.kind == recipe.name for each in declared.values())
    named = source.endpoint in declared
    if named_in(source.endpoint) or not (named or same):
        return None
    found = endpoint_of(source, declared)
    if isinstance(found, NoEvidence):
        return (".metricProvider", found.why) if named or not source.endpoint else None
    if named_in(wire.model_dump_json()):
        return None  # what is sent is known with the arguments
    asked = with_recipe(source, found)
    request = request_of(asked, found, window_of(asked, now_s=_SOME_TIME_S))
    return ("", request.why) if isinstance(request, NoEvidence) else None
