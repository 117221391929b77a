"""TrafficProviders: from an object to a provider, how it is tried on the API server, and what its status says. No watch here.

A trial is a dry run: each object of the declaration's tests is created with `dryRun=All`, so that the router's own CRD and the
cluster's admission policies judge it and nothing is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from rollouts.api.times import format_time
from rollouts.api.v1alpha1.traffic_provider import provider_problems
from rollouts.cluster.client import Client
from rollouts.cluster.discovery import first_served
from rollouts.controller.facts.route_kinds import DISCOVERY_DEADLINE_S, missing
from rollouts.core.model.reasons import Reason
from rollouts.errors import (
    ApiForbidden,
    NotLeader,
    RolloutsError,
    SpecInvalid,
    SpecProblem,
    TransientError,
    Unroutable,
)
from rollouts.manifests.ownership import FIELD_MANAGER
from rollouts.objects import Kind, Manifest
from rollouts.ports import ApiServer
from rollouts.traffic.codec import Provider
from rollouts.traffic.declared.codec import Declared, declared, managed_in_test, says_in_test
from rollouts.traffic.registry import REFUSED

REFUSED_AGAIN_S = 300.0  # CRDs and admission policies change without an event that we would see
UNAVAILABLE_AGAIN_S = 15.0
MESSAGE_MAX = 8_000  # characters: a status is not the place for whole objects

_NOT_ALLOWED = "cannot create resource"
"""The API server's own words when RBAC forbids; a webhook that says no answers 403 too, in words of its own."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Judged:
    """What came out.

    Args:
        ready: Rollouts may use it.
        reason: one of `core/model/reasons.py`, or what an earlier version said.
        again_in_s: when to try again; None for not before it changes.
    """

    ready: bool
    reason: str
    message: str
    again_in_s: float | None = None


def provider_of(name: str, spec: Mapping[str, Any], fixed: Mapping[str, Provider]) -> Declared:
    """The provider that a TrafficProvider declares, its own tests run.

    Args:
        fixed: providers whose names are taken.

    Raises: SpecInvalid, with every problem; paths are those of the object.
    """
    problems = [SpecProblem("metadata.name", why)] if (why := _taken(name, fixed)) else []
    problems += provider_problems(spec)
    found: Declared | None = None
    try:
        found = declared({**spec, "name": name})
    except SpecInvalid as exc:
        told = {each.path for each in problems}
        below = [SpecProblem(f"spec.{each.path}", each.message) for each in exc.problems]
        problems += [each for each in below if each.path not in told]
    except Exception as exc:
        # No object's content can end the process, whatever it makes of a declaration.
        log.exception("traffic_provider_broke", name=name)
        problems.append(SpecProblem("spec", f"cannot be used: {type(exc).__name__} {exc}"))
    if problems or found is None:
        raise SpecInvalid(tuple(problems))
    return found


def invalid(exc: SpecInvalid) -> Judged:
    """A declaration that is wrong in itself."""
    return Judged(False, Reason.INVALID_SPEC, "; ".join(map(str, exc.problems))[:MESSAGE_MAX])


async def tried(
    provider: Declared, spec: Mapping[str, Any], *, api: ApiServer, client: Client, namespace: str
) -> Judged:
    """What the API server makes of the objects in the declaration's tests.

    Args:
        spec: what `provider` was made of.
        namespace: where they would be created.

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
                if says_in_test(provider, written) != want:
                    return _not_known_again(f"{path}.result", written)
            except Unroutable as exc:
                message = f"{path}.result: what the API server makes of it cannot be managed: {exc}"
                return Judged(False, Reason.TEST_REFUSED, message[:MESSAGE_MAX], REFUSED_AGAIN_S)
    except NotLeader:
        raise
    except RolloutsError as exc:
        message = f"could not be tried: {exc}; it will be tried again"
        return Judged(False, Reason.NOT_TRIED, message[:MESSAGE_MAX], UNAVAILABLE_AGAIN_S)
    return Judged(True, Reason.TRIED, "its tests pass, and the API server takes their objects")


async def _created(path: str, manifest: Manifest, kind: Kind, client: Client, namespace: str) -> Judged | Manifest:
    """The object that would have been created; or what ends the trial."""
    try:
        answer = await client.create(kind, namespace, _as_new(manifest, kind), FIELD_MANAGER, dry_run=True, strict=True)
    except TransientError:
        raise
    except ApiForbidden as exc:
        if _NOT_ALLOWED in str(exc):
            message = (
                f"its tests pass; the API server was not asked about their objects, since the controller may not create "
                f"{kind.plural}.{kind.group} in namespace {namespace}, not even in a dry run. A Role there with apiGroups: "
                f"[{kind.group}], resources: [{kind.plural}], verbs: [create] would allow it"
            )
            return Judged(True, Reason.NOT_TRIED, message)
        return _refused(path, exc)
    except RolloutsError as exc:
        return _refused(path, exc)
    found: Manifest = msgspec.json.decode(answer)
    return found


def _not_known_again(path: str, made: Manifest) -> Judged:
    """What the API server adds to a copied rule hides it from us: the rule would be made again and again."""
    message = (
        f"{path}: the API server makes something else of it, which is not known again; write what it adds to a copied rule into "
        f"header.template: {made.get('spec')}"
    )
    return Judged(False, Reason.TEST_REFUSED, message[:MESSAGE_MAX], REFUSED_AGAIN_S)


def _refused(path: str, exc: RolloutsError) -> Judged:
    message = f"{path}: the API server refuses it: {exc}"
    return Judged(False, Reason.TEST_REFUSED, message[:MESSAGE_MAX], REFUSED_AGAIN_S)


def _as_new(manifest: Manifest, kind: Kind) -> Manifest:
    given = manifest.get("metadata")
    kept = {name: given[name] for name in ("labels", "annotations") if name in given} if isinstance(given, dict) else {}
    body = {name: part for name, part in manifest.items() if name not in ("apiVersion", "kind", "metadata", "status")}
    head = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {**kept, "generateName": "rollouts-dry-run-"},
    }
    return {**head, **body}


def _taken(name: str, fixed: Mapping[str, Provider]) -> str:
    if name in fixed:
        return f"{name} is the name of a provider that comes with the controller; take another one, such as my-{name}"
    if name in REFUSED:
        return f"{name} is a name that the controller refuses ({REFUSED[name]}); take another one, such as my-{name}"
    return ""


def status_of(judged: Judged, *, generation: int, before: Manifest, now_s: float) -> Manifest:
    """`.status` that says it; equal to `before` when nothing differs. Conditions in kstatus form."""
    old = {each.get("type"): each for each in before.get("conditions") or () if isinstance(each, dict)}
    conditions = []
    for kind, holds in (("Ready", judged.ready), ("Stalled", not judged.ready)):
        was = old.get(kind, {})
        word = "True" if holds else "False"
        since = was.get("lastTransitionTime") if was.get("status") == word else None
        conditions.append(
            {
                "type": kind,
                "status": word,
                "reason": str(judged.reason),
                "message": judged.message,
                "lastTransitionTime": since or format_time(float(int(now_s))),
                "observedGeneration": generation,
            }
        )
    return {"observedGeneration": generation, "conditions": conditions}


def judged_before(status: Manifest, *, generation: int) -> Judged | None:
    """What an earlier controller, or another one, found of that generation, if it was Ready."""
    said = _ready(status, generation)
    if said.get("status") != "True":
        return None
    return Judged(True, str(said.get("reason", "")), str(said.get("message", "")))


def is_shown(status: Manifest, *, generation: int) -> bool:
    """Whether a status says of that generation if it is Ready."""
    return _ready(status, generation).get("status") in ("True", "False")


def _ready(status: Manifest, generation: int) -> Manifest:
    """The condition Ready of that generation; empty when there is none."""
    for each in status.get("conditions") or ():
        if isinstance(each, dict) and (each.get("type"), each.get("observedGeneration")) == ("Ready", generation):
            return each
    return {}
