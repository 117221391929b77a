"""Istio: the subsets of a DestinationRule, each of which selects one revision by an additional label. It has no weights.

To the controller a subset is a Service: it selects a revision, has ready pods of it or not, and does not change while requests go
to it (docs/decisions/0025-a-subset-is-a-service.md). Source: istio.io/api v1.28, networking/v1 DestinationRule: a subset's
endpoints are those of the rule's host whose pods have all of its labels.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from rollouts.core.model.revision import REVISION_LABEL
from rollouts.errors import Unroutable
from rollouts.objects import Kind, Manifest
from rollouts.traffic.codec import LEDGER, Op
from rollouts.traffic.rules.difference import patch_of
from rollouts.traffic.rules.ledger import with_annotation

RULE_KINDS = tuple(
    Kind("networking.istio.io", version, "DestinationRule", "destinationrules")
    for version in ("v1", "v1beta1", "v1alpha3")
)


class Subset(Struct, frozen=True):
    """One subset as it was read."""

    revision: str
    labels: Mapping[str, str]


class _Noted(Struct, frozen=True):
    """How a subset was before we managed it."""

    had_labels: bool
    before: str | None
    wrote: str


_Notes: TypeAlias = Mapping[str, _Noted]


def service_of_host(host: str, *, namespace: str) -> str:
    """Name of the Service in `namespace` that an Istio host means; "" for a host elsewhere.

    A short name is in the object's own namespace. Source: istio.io/api v1.28, Destination.host.
    """
    service, *rest = host.split(".")
    return service if (not rest or rest[0] == namespace) and rest[1:2] in ([], ["svc"]) else ""


def host_of(rule: Manifest, *, namespace: str) -> str:
    """Name of the Service whose pods the rule's subsets divide. Raises: Unroutable for a host outside `namespace`."""
    host = str((rule.get("spec") or {}).get("host", ""))
    service = service_of_host(host, namespace=namespace)
    if not service:
        raise Unroutable(
            f"its host {host!r} is not a Service in namespace {namespace}; name the Service of the Rollout's pods"
        )
    return service


def subset_of(rule: Manifest, name: str) -> Subset:
    """The subset of that name. Raises: Unroutable when there is none, or when there are two."""
    labels = dict(_subset(rule, name).get("labels") or {})
    revision = str(labels.pop(REVISION_LABEL, ""))
    return Subset(revision, labels)


def pointed(rule: Manifest, name: str, revision: str) -> tuple[Op, ...]:
    """The write that makes subset `name` select pods of `revision` alone; () when it does already. Raises: Unroutable."""
    before = _subset(rule, name)
    labels = before.get("labels")
    now = (labels or {}).get(REVISION_LABEL)
    if now == revision:
        return ()
    notes = _notes(rule)
    noted = notes.get(name)
    if noted is None or noted.wrote != now:  # otherwise the current label is ours
        noted = _Noted(had_labels=labels is not None, before=now, wrote=revision)
    else:
        noted = _Noted(had_labels=noted.had_labels, before=noted.before, wrote=revision)
    after = _with_labels(rule, name, {**(labels or {}), REVISION_LABEL: revision})
    return patch_of(rule, _with_notes(after, {**notes, name: noted}))


def released(rule: Manifest) -> tuple[Op, ...]:
    """The write that restores the rule as its user wrote it; () when nothing of ours is in it."""
    after = rule
    for name, noted in _notes(rule).items():
        found = next((each for each in _subsets(rule) if each.get("name") == name), None)
        labels = (found or {}).get("labels") or {}
        if labels.get(REVISION_LABEL) != noted.wrote:  # somebody else has removed or changed it since
            continue
        kept: dict[str, Any] | None = {key: value for key, value in labels.items() if key != REVISION_LABEL}
        if noted.before is not None:
            kept = {**labels, REVISION_LABEL: noted.before}
        elif not kept and not noted.had_labels:
            kept = None
        after = _with_labels(after, name, kept)
    return patch_of(rule, _with_notes(after, {}))


def _subsets(rule: Manifest) -> list[Manifest]:
    return list((rule.get("spec") or {}).get("subsets") or ())


def _subset(rule: Manifest, name: str) -> Manifest:
    found = [each for each in _subsets(rule) if each.get("name") == name]
    if not found:
        raise Unroutable(f"it has no subset {name}; add one with the labels that both revisions have, or none")
    if len(found) > 1:
        raise Unroutable(f"it has subset {name} twice; keep one of them")
    return found[0]


def _with_labels(rule: Manifest, name: str, labels: Mapping[str, Any] | None) -> Manifest:
    subsets = _subsets(rule)
    for at, subset in enumerate(subsets):
        if subset.get("name") == name and labels is None:
            subsets[at] = {field: value for field, value in subset.items() if field != "labels"}
        elif subset.get("name") == name:
            subsets[at] = {**subset, "labels": dict(labels or {})}
    return {**rule, "spec": {**rule["spec"], "subsets": subsets}}


def _notes(rule: Manifest) -> _Notes:
    """The notes in the annotation; empty when it cannot be read, because somebody changed it by hand."""
    text = ((rule.get("metadata") or {}).get("annotations") or {}).get(LEDGER)
    try:
        noted = json.loads(text or "{}").get("subsets", {})
        return {
            str(name): _Noted(bool(had_labels), None if before is None else str(before), str(wrote))
            for name, (had_labels, before, wrote) in noted.items()
        }
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _with_notes(rule: Manifest, notes: _Notes) -> Manifest:
    if not notes:
        there = LEDGER in ((rule.get("metadata") or {}).get("annotations") or {})
        return with_annotation(rule, LEDGER, None) if there else rule
    said = {name: [each.had_labels, each.before, each.wrote] for name, each in notes.items()}
    return with_annotation(rule, LEDGER, json.dumps({"subsets": said}, separators=(",", ":"), ensure_ascii=False))
