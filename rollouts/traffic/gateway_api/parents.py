"""What the parents of a Gateway API route report about it in `status.parents`, read with care.

The status is necessary and never sufficient: Traefik accepts a route two seconds before it follows it
(docs/traffic-verification.md). Source: gateway-api v1.6.1, RouteParentStatus; gateway-api issue 4980.
"""

from __future__ import annotations

from collections.abc import Iterable

from rollouts.core.model.traffic import Acceptance, Answer
from rollouts.objects import Manifest

GROUP = "gateway.networking.k8s.io"


def taken_by_parents(route: Manifest, *, namespace: str) -> Acceptance:
    """Yes when every parent that the spec names has accepted all of the latest generation; otherwise the worst answer.

    Entries of parents that the spec does not name do not count.
    """
    spec, status = route.get("spec") or {}, route.get("status") or {}
    generation = route.get("metadata", {}).get("generation", 0)
    entries = status.get("parents") or ()
    verdicts = [_parent(each, entries, generation, namespace=namespace) for each in spec.get("parentRefs") or ()]
    if not verdicts:
        return Acceptance(Answer.UNKNOWN, "it names no parent")
    worst = {verdict.answer: verdict for verdict in reversed(verdicts)}
    return worst.get(Answer.NO) or worst.get(Answer.UNKNOWN) or worst[Answer.YES]


def gateways_of(route: Manifest, *, namespace: str) -> tuple[str, ...]:
    """The Gateways among its parents, as `namespace/name`; a Service as a parent is a mesh."""
    parents = [_reference(each, namespace) for each in (route.get("spec") or {}).get("parentRefs") or ()]
    found = [f"{each['namespace']}/{each['name']}" for each in parents if each["kind"] == "Gateway"]
    return tuple(dict.fromkeys(found))


def controllers_of(route: Manifest) -> frozenset[str]:
    """The controllers that have ever written into its status."""
    entries = (route.get("status") or {}).get("parents") or ()
    return frozenset(str(each.get("controllerName", "")) for each in entries)


def _reference(reference: Manifest, namespace: str) -> Manifest:
    return {"group": GROUP, "kind": "Gateway", "namespace": namespace, **reference}


def _parent(reference: Manifest, entries: Iterable[Manifest], generation: int, *, namespace: str) -> Acceptance:
    """The best answer of any controller for this parent, because a controller that is gone leaves its entry forever."""
    wanted = _reference(reference, namespace)
    name = f"{wanted['kind']} {wanted['name']}"
    found = [
        _entry(each, name, generation)
        for each in entries
        if _reference(each.get("parentRef") or {}, namespace) == wanted
    ]
    by_answer = {verdict.answer: verdict for verdict in reversed(found)}
    nobody = Acceptance(
        Answer.UNKNOWN, f"{name} has not reported anything yet; check that it exists and that a controller serves it"
    )
    return by_answer.get(Answer.YES) or by_answer.get(Answer.NO) or by_answer.get(Answer.UNKNOWN) or nobody


def _entry(entry: Manifest, name: str, generation: int) -> Acceptance:
    conditions = {each.get("type"): each for each in entry.get("conditions") or ()}
    for kind, good in (("Accepted", "True"), ("ResolvedRefs", "True"), ("PartiallyInvalid", "False")):
        condition = conditions.get(kind)
        if condition is None and kind == "PartiallyInvalid":
            continue
        if condition is None or condition.get("observedGeneration", 0) < generation:
            return Acceptance(Answer.UNKNOWN, f"{name} has not processed generation {generation} yet")
        if condition.get("status") != good:
            told = ": ".join(filter(None, (condition.get("reason"), condition.get("message"))))
            return Acceptance(Answer.NO, f"{name} says {kind} {condition.get('status')}: {told}")
    return Acceptance(Answer.YES)
