"""What the parents of a Gateway API route report about it in `status.parents`, read with care.

The status is necessary and never sufficient: Traefik accepts a route two seconds before it follows it
(docs/traffic-verification.md). Source: gateway-api v1.6.1, RouteParentStatus; gateway-api issue 4980.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from rollouts.core.model.frozen import replace
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
    found = [f"{each.namespace}/{each.name}" for each in parents if each.kind == "Gateway"]
    return tuple(dict.fromkeys(found))


def controllers_of(route: Manifest) -> frozenset[str]:
    """The controllers that have ever written into its status."""
    entries = (route.get("status") or {}).get("parents") or ()
    return frozenset(str(each.get("controllerName", "")) for each in entries)


class _Reference(Struct, frozen=True):
    """A ParentReference with its defaults.

    Args:
        group: "" for the group of Services, which some controllers report as `core` (Linkerd does).
        section: name of a listener, or of a port of a Service; "" for all.
        port: None for all.
    """

    group: str
    kind: str
    namespace: str
    name: str
    section: str
    port: int | None

    def speaks_for(self, wanted: _Reference) -> bool:
        """Whether what is reported of this one is about `wanted`: the same parent, and the same part of it or all of it."""
        part = self.section in ("", wanted.section) and self.port in (None, wanted.port)
        return part and replace(self, section=wanted.section, port=wanted.port) == wanted

    def named(self, *, home: str) -> str:
        """How messages name it; `home` is the namespace of the route."""
        where = "" if self.namespace == home else f"{self.namespace}/"
        port = "" if self.port is None else f"port {self.port}"
        part = ", ".join(filter(None, (self.section, port)))
        return f"{self.kind} {where}{self.name}" + (f" ({part})" if part else "")


def _reference(reference: Manifest, namespace: str) -> _Reference:
    group = reference.get("group")
    return _Reference(
        group=GROUP if group is None else "" if group == "core" else str(group),
        kind=str(reference.get("kind") or "Gateway"),
        namespace=str(reference.get("namespace") or namespace),
        name=str(reference.get("name") or ""),
        section=str(reference.get("sectionName") or ""),
        port=reference.get("port"),
    )


def _parent(reference: Manifest, entries: Iterable[Manifest], generation: int, *, namespace: str) -> Acceptance:
    """The best answer of any controller for this parent, because a controller that is gone leaves its entry forever."""
    wanted = _reference(reference, namespace)
    name = wanted.named(home=namespace)
    found = [
        _entry(each, name, generation)
        for each in entries
        if _reference(each.get("parentRef") or {}, namespace).speaks_for(wanted)
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
