"""Turns a MetricProvider into a server; turns a TrafficProvider into a provider, and tries it on the API server.

A trial is a dry run: each object of the declaration's tests is created with `dryRun=All`, so that the router's own CRD and the
cluster's admission policies judge it and nothing is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import structlog

from rollouts.api.problems import Problems
from rollouts.api.spec.metric_provider import read_metric_provider
from rollouts.api.spec.reading import read_model
from rollouts.api.v1alpha1.traffic_provider import TrafficProviderSpec
from rollouts.cluster.client import Client
from rollouts.cluster.discovery import first_served
from rollouts.controller.facts.route_kinds import DISCOVERY_DEADLINE_S, missing
from rollouts.controller.providers.verdicts import MESSAGE_MAX, REFUSED_AGAIN_S, UNAVAILABLE_AGAIN_S, Judged
from rollouts.core.analysis.metric_server import MetricServer
from rollouts.core.model.reasons import Reason
from rollouts.errors import (
    ApiForbidden,
    ApiUnavailable,
    NotLeader,
    RolloutsError,
    SpecInvalid,
    SpecProblem,
    TransientError,
    Unroutable,
)
from rollouts.metrics.declared import declaration_problems
from rollouts.objects import Kind, Manifest
from rollouts.ports import ApiServer
from rollouts.traffic.codec import Provider
from rollouts.traffic.declared.codec import Declared, declared, managed_in_test, says_in_test
from rollouts.traffic.registry import REFUSED

_NOT_ALLOWED = "cannot create resource"
"""The API server's own words when RBAC forbids a request; a webhook that refuses also answers 403, in other words."""

_REPLACED = ("apiVersion", "kind", "metadata", "status")

log = structlog.get_logger()


def server_of(name: str, spec: Manifest, *, folder: Path, taken: bool) -> MetricServer:
    """What a MetricProvider declares.

    Args:
        folder: where files of credentials are mounted.
        taken: whether `--prometheus-url` gives the endpoint `default`.

    Raises: SpecInvalid with every problem; paths are those of the object.
    """
    problems = Problems(quotes=False)
    server = read_metric_provider(spec, problems)
    for problem in declaration_problems(name, server, folder=str(folder), taken=taken):
        problems.add(problem.path, problem.message)
    problems.raise_found()
    return server


def provider_of(name: str, spec: Mapping[str, Any], fixed: Mapping[str, Provider]) -> Declared:
    """The provider that a TrafficProvider declares, after running its tests.

    Args:
        fixed: providers whose names are taken.

    Raises: SpecInvalid, with every problem; paths are those of the object.
    """
    of_types = Problems()
    read_model(TrafficProviderSpec, spec, of_types, root="spec")
    problems = list(of_types.found())
    if name in fixed:
        why = f"{name} is the name of a provider that comes with the controller; use another name, such as my-{name}"
        problems.insert(0, SpecProblem("metadata.name", why))
    elif name in REFUSED:
        why = f"the controller refuses the name {name} ({REFUSED[name]}); use another name, such as my-{name}"
        problems.insert(0, SpecProblem("metadata.name", why))
    found: Declared | None = None
    try:
        found = declared({**spec, "name": name})
    except SpecInvalid as exc:
        told = {problem.path for problem in problems}
        below = [SpecProblem(f"spec.{problem.path}", problem.message) for problem in exc.problems]
        problems += [problem for problem in below if problem.path not in told]
    except Exception as exc:
        # No object's content can end the process, whatever error it causes.
        log.exception("traffic_provider_declaration_crashed", name=name)
        problems.append(SpecProblem("spec", f"cannot be used: {type(exc).__name__} {exc}"))
    if problems or found is None:
        raise SpecInvalid(tuple(problems))
    return found


async def tried(
    provider: Declared, spec: Mapping[str, Any], *, api: ApiServer, client: Client, namespace: str
) -> Judged:
    """Tries the objects of the declaration's tests on the API server, in dry runs.

    Args:
        spec: the spec of `provider`.
        namespace: where the objects would be created.

    Raises: NotLeader.
    """
    try:
        kind = await first_served(api, provider.kinds, deadline_s=DISCOVERY_DEADLINE_S)
        if kind is None:
            return Judged(False, Reason.KIND_NOT_SERVED, missing(provider.kinds), REFUSED_AGAIN_S)
        for at, test in enumerate(spec["tests"]):
            path = f"spec.tests[{at}]"
            made = await _created(f"{path}.object", test["object"], kind, client, namespace)
            if isinstance(made, Judged):
                return made
            try:
                managed, want = managed_in_test(provider, test, made)
                written = await _created(f"{path}.result", managed, kind, client, namespace)
                if isinstance(written, Judged):
                    return written
                if says_in_test(provider, written) != want:  # we would create it again and again
                    message = (
                        f"{path}.result: the API server changes the object, and the provider no longer recognizes its own "
                        "rule; write the fields that the API server adds to a copied rule into header.template: "
                        f"{written.get('spec')}"
                    )
                    return Judged(False, Reason.TEST_REFUSED, message[:MESSAGE_MAX], REFUSED_AGAIN_S)
            except Unroutable as exc:
                message = f"{path}.result: the controller cannot manage the object as the API server returns it: {exc}"
                return Judged(False, Reason.TEST_REFUSED, message[:MESSAGE_MAX], REFUSED_AGAIN_S)
    except NotLeader:
        raise
    except RolloutsError as exc:
        message = f"the API server could not be asked to try its tests: {exc}; the controller tries again"
        return Judged(False, Reason.NOT_TRIED, message[:MESSAGE_MAX], UNAVAILABLE_AGAIN_S)
    return Judged(True, Reason.TRIED, "its tests pass, and the API server accepts their objects")


async def _created(path: str, manifest: Manifest, kind: Kind, client: Client, namespace: str) -> Judged | Manifest:
    """The object as the API server would create it, or the verdict that ends the trial."""
    given = manifest.get("metadata")
    kept = {name: given[name] for name in ("labels", "annotations") if name in given} if isinstance(given, dict) else {}
    made: Manifest = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {**kept, "generateName": "rollouts-dry-run-"},
        **{part: value for part, value in manifest.items() if part not in _REPLACED},
    }
    try:
        answer = await client.create(kind, namespace, made, dry_run=True, strict=True)
    except TransientError:
        raise
    except ApiForbidden as exc:
        if _NOT_ALLOWED in str(exc):
            message = (
                f"its tests pass; the API server was not asked about their objects, because the controller may not create "
                f"{kind.plural}.{kind.group} in namespace {namespace}, not even in a dry run. To allow it, add a Role there with "
                f"apiGroups: [{kind.group}], resources: [{kind.plural}], verbs: [create]"
            )
            return Judged(True, Reason.NOT_TRIED, message)
        return _refused(path, exc)
    except RolloutsError as exc:
        return _refused(path, exc)
    try:
        found: Manifest = msgspec.json.decode(answer)
    except (ValueError, RecursionError) as exc:
        raise ApiUnavailable(f"its answer cannot be read ({exc})") from exc
    return found


def _refused(path: str, exc: RolloutsError) -> Judged:
    message = f"{path}: the API server refuses it: {exc}"
    return Judged(False, Reason.TEST_REFUSED, message[:MESSAGE_MAX], REFUSED_AGAIN_S)
