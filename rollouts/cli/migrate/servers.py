"""What the analyses that came out need from an administrator: servers that metrics may ask, Jobs, and Secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from rollouts.cli.kubernetes.parts import arguments_in, entries, entries_at, is_a
from rollouts.cli.migrate.outcome import Migration, Told, below
from rollouts.cli.migrate.vendors import ARGO, VendorAccount, declare_vendor
from rollouts.core.model.frozen import replace
from rollouts.core.placeholders import filled
from rollouts.objects import (
    ANALYSIS_RUN,
    ANALYSIS_TEMPLATE,
    CLUSTER_ANALYSIS_TEMPLATE,
    EXPERIMENT,
    METRIC_PROVIDER,
    Manifest,
    mapping,
)

EXPLAINED = "`kubectl explain metricprovider.spec`"
_ANALYSES = (ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE, ANALYSIS_RUN, EXPERIMENT)
_PLACE = "{{"
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_SOURCES = (("prometheus", "address"), ("web", "url"), ("compare", "of", "prometheus", "address"))


def declare_servers(migration: Migration) -> None:
    """Adds a MetricProvider for each server that a metric names by a URL: nobody else may be asked (docs/analysis-servers.md)."""
    declared = [each["spec"] for each in migration.objects if is_a(each, METRIC_PROVIDER)]
    analyses = [made for made in migration.made if any(is_a(made.manifest, kind) for kind in _ANALYSES)]
    for made in analyses:
        source = migration.inputs[made.sources[-1]]
        is_itself = source.get("kind") == made.manifest["kind"]
        for path, url, method in _urls(made.manifest):
            _declare(url, method, declared, migration, source, path * is_itself)
        for path, kind, fields in _vendors(made.manifest):
            _declare_vendor(migration, source, path * is_itself, kind, fields)
        for path, what in _rights(made.manifest):
            migration.note(Told.THEN, source, path, what)


def _declare(
    url: str, method: str, declared: list[Manifest], migration: Migration, source: Manifest, path: str
) -> None:
    server = _server_of(url)
    if server is None:
        how = f"an argument names the server ({url}): declare each as a MetricProvider ({EXPLAINED})"
        migration.note(Told.TO_DO, source, path, how)
        return
    known = next((each for each in declared if url.startswith(str(each.get("url")))), None)
    if known is None:
        name, known = _NOT_IN_NAMES.sub("-", urlsplit(server).netloc.lower()).strip("-"), {"url": server}
        migration.add({**METRIC_PROVIDER.head, "metadata": {"name": name}, "spec": known}, source)
        declared.append(known)
        why = f"MetricProvider {name} lets metrics ask {server}; an administrator has to apply it"
        migration.note(Told.CHANGED, source, path, why)
    methods = known.get("methods") or ["GET"]
    if method not in methods:
        known["methods"] = [*methods, method]


def _vendors(manifest: Manifest) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """The metrics of monitoring services: path, kind and fields."""
    for path, metric in entries_at(mapping(manifest.get("spec")), "metrics", "spec"):
        for kind, fields in mapping(metric.get("provider")).items():
            if kind in ARGO and isinstance(fields, dict) and not fields.get("metricProvider"):
                yield f"{path}.provider.{kind}", kind, fields


def _declare_vendor(migration: Migration, source: Manifest, path: str, kind: str, fields: Mapping[str, Any]) -> None:
    secret, address = ARGO[kind], str(fields.get("address") or "")
    url = address if "://" in address or not address else f"https://{address}"
    secret_name = str(fields.get("profile") or mapping(fields.get("secretRef")).get("name") or secret.name)
    name = secret_name or kind.lower()
    if address:
        name = _NOT_IN_NAMES.sub("-", urlsplit(url).netloc.lower()).strip("-")
    if kind == "wavefront" and address:
        secret = replace(secret, bearer=urlsplit(url).netloc)  # its key is the server's name
    account = VendorAccount(kind=kind, name=name, secret=secret, secret_name=secret_name, url=url)
    declare_vendor(migration, source, path, account)


def _urls(manifest: Manifest) -> Iterator[tuple[str, str, str]]:
    """The URLs of servers, each with its path and the method of HTTP; arguments that have a default are filled in."""
    spec = mapping(manifest.get("spec"))
    arguments = [argument for _, argument in entries(spec.get("args")) if isinstance(argument.get("value"), str | int)]
    defaults = {f"args.{argument.get('name')}": str(argument["value"]) for argument in arguments}
    for path, metric in entries_at(spec, "metrics", "spec"):
        for steps in _SOURCES:
            at, value = f"{path}.provider", metric.get("provider")
            for step in steps:
                at, value = below(at, step), mapping(value).get(step)
            if isinstance(value, str) and value:
                method = mapping(mapping(metric.get("provider")).get("web")).get("method") or "GET"
                yield at, filled(value, defaults.get), str(method) if "web" in steps else "GET"


def _server_of(url: str) -> str | None:
    """Scheme, host and port; None if an argument is in them, or if it is no such URL."""
    parts = urlsplit(url.partition(_PLACE)[0])
    known = parts.scheme in ("http", "https") and parts.netloc and (parts.path or _PLACE not in url)
    return f"{parts.scheme}://{parts.netloc}" if known else None


def _rights(manifest: Manifest) -> Iterator[tuple[str, str]]:
    spec = mapping(manifest.get("spec"))
    for path, metric in entries_at(spec, "metrics", "spec"):
        if mapping(metric.get("provider")).get("job"):
            yield f"{path}.provider.job", "Jobs of metrics are off until the chart has analysis.jobs.enabled"
    for path, argument in arguments_in(manifest):
        source: Mapping[str, Any] = mapping(argument.get("valueFrom"))
        if source.get("secretKeyRef"):
            yield f"{path}.valueFrom.secretKeyRef", "`rollouts rbac` prints the Role with which the controller reads it"
