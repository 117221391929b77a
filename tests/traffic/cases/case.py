"""What the conformance suite needs to know of a provider: valid objects of its users, and where in them our part is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from hypothesis import strategies as st

from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import (
    ExperimentShare,
    Feature,
    MatchKind,
    MatchRoute,
    MirrorRoute,
    NamedMatch,
    RequestMatch,
    Split,
    TextMatch,
)
from rollouts.objects import Manifest
from rollouts.traffic.codec import LEDGER, Context, Objects, Provider, destination_of
from tests.traffic.situation import CONTEXT, TESTERS

Edit = Callable[[Manifest], Manifest]
CART: Mapping[str, Any] = {"name": "cart"}
BOOLEANS = st.booleans()
EXPERIMENTS = ("cart-try", "cart-base")
"""Services of Experiments."""
SHARES = st.sampled_from([Fraction(0), Fraction(1)]) | st.integers(0, 100).map(lambda percent: Fraction(percent, 100))
"""Whole percentages, the ends more often."""


@dataclass(frozen=True)
class Crd:
    """Where a CRD comes from: a file of a Go module, by its `@version` and path."""

    module: str
    path: str


@dataclass(frozen=True, kw_only=True)
class Case:
    """One provider with one kind of object.

    Args:
        users: objects as the API server gives them back after a user wrote them.
        example: one of them whose parts a real API server takes.
        names: fields that hold the name of a Service (or of whatever else tells the two apart).
        roles: what they hold for stable and for canary.
        weight: the field with a weight.
        strangers: edits of the object that have nothing to do with us.
        features: what splits may ask for.
        shares: which ones make sense here.
        keeps_user_as_is: all of ours is in an object that we own.
        pair: the names in the context, where they are not those of two Services.
    """

    name: str
    provider: Provider
    settings: Mapping[str, Any]
    users: st.SearchStrategy[Manifest]
    example: Manifest
    crds: tuple[Crd, ...] = ()
    names: frozenset[str] = frozenset({"name"})
    roles: tuple[str, str] = (CONTEXT.stable_service, CONTEXT.canary_service)
    weight: str = "weight"
    strangers: tuple[Edit, ...] = ()
    features: frozenset[Feature] = frozenset()
    shares: st.SearchStrategy[Fraction] = SHARES
    keeps_user_as_is: bool = False
    pair: tuple[str, str] = (CONTEXT.stable_service, CONTEXT.canary_service)

    @property
    def context(self) -> Context:
        """Whom its splits are between."""
        return replace(CONTEXT, stable=destination_of(self.pair[0]), canary=destination_of(self.pair[1]))

    @property
    def edits(self) -> tuple[Edit, ...]:
        """What others may do to the object while it is managed."""
        return (*OF_METADATA, *self.strangers)

    def wants(self) -> st.SearchStrategy[list[Split]]:
        return _wants(self.features, self.shares)

    def scrubbed(self, value: Any) -> Any:
        """The object without what is ours by right: backends and mirrors that we add, the pair's weights, the ledger."""
        match value:
            case dict():
                ours = self._role(value) is not None
                return {
                    name: self.scrubbed(part)
                    for name, part in value.items()
                    if not (ours and name == self.weight)
                    and not (name == "annotations" and isinstance(part, dict) and set(part) == {LEDGER})
                    and name != LEDGER
                    and not (part and isinstance(part, list) and all(map(self._is_mirror, part)))
                }
            case list():
                return [
                    self.scrubbed(item)
                    for item in value
                    if self._role(item) not in (self.roles[1], *EXPERIMENTS) and not self._is_mirror(item)
                ]
            case _:
                return value

    def canary_only(self, objects: Objects) -> list[Any]:
        """Rules whose only backends are the canary's: what match routes are made of."""
        rules = [(each, {self._role(one) for one in self._backends(each)}) for each in _rules(objects.user)]
        return [each for each, sides in rules if sides == {self.roles[1]}]

    def pairs(self, objects: Objects) -> list[Any]:
        """The pairs' weights, rule by rule."""
        found = [tuple(one.get(self.weight) for one in self._backends(each)) for each in _rules(objects.user)]
        return [each for each in found if len(each) >= 2]

    def reweighed(self, value: Any) -> Any:
        """The object after a user has written other weights into each pair, in a ratio that no percentage is."""
        match value:
            case dict():
                return {name: self.reweighed(part) for name, part in value.items()}
            case list() if set(self.roles) <= set(map(self._role, value)):
                given = dict(zip(self.roles, (13, 29), strict=True))
                return [
                    {**item, self.weight: given[role]} if (role := self._role(item)) in given else item
                    for item in value
                ]
            case list():
                return [self.reweighed(item) for item in value]
            case _:
                return value

    def without_experiments(self, value: Any) -> Any:
        """The object without the backends of Experiments."""
        match value:
            case dict():
                return {name: self.without_experiments(part) for name, part in value.items()}
            case list():
                return [self.without_experiments(item) for item in value if self._role(item) not in EXPERIMENTS]
            case _:
                return value

    def applied_again(self, managed: Manifest, original: Manifest) -> Manifest:
        """The object after a GitOps tool has applied its own again: its fields, and what others put beside them in maps."""
        metadata = {**managed["metadata"]}
        if mine := original["metadata"].get("annotations"):
            metadata["annotations"] = {**metadata.get("annotations", {}), **mine}
        return {**original, "metadata": metadata}

    def _role(self, value: Any) -> str | None:
        if not isinstance(value, dict):
            return None
        return next((value[name] for name in self.names if value.get(name) in (*self.roles, *EXPERIMENTS)), None)

    def _is_mirror(self, item: Any) -> bool:
        """Whether it is a filter of the Gateway API that mirrors to the canary's Service."""
        mirror = item.get("requestMirror") if isinstance(item, dict) else None
        return bool(mirror and self._role(mirror["backendRef"]) == self.roles[1])

    def _backends(self, rule: Any) -> list[Manifest]:
        lists = [part for part in rule.values() if isinstance(part, list)] if isinstance(rule, dict) else []
        return [item for part in lists for item in part if self._role(item) is not None]


def noted(field: str, name: str, text: str) -> Edit:
    """An edit of the labels or the annotations."""

    def edit(user: Manifest) -> Manifest:
        there = {**user["metadata"].get(field, {}), name: text}
        return {**user, "metadata": {**user["metadata"], field: there}}

    return edit


OF_METADATA = (noted("labels", "team", "checkout"), noted("annotations", "example.com/note", "hands off"))


def other_spec(name: str, value: Any) -> Edit:
    """An edit of a field of the spec that is not ours."""
    return lambda user: {**user, "spec": {**user["spec"], name: value}}


def one_more(name: str, item: Manifest) -> Edit:
    """An edit that puts an item of the user's behind those of a list of the spec."""
    return lambda user: {**user, "spec": {**user["spec"], name: [*user["spec"][name], item]}}


def written(kind: str, api_version: str, spec: Manifest, metadata: Mapping[str, Any] = CART) -> Manifest:
    """An object as its user writes it."""
    return {"apiVersion": api_version, "kind": kind, "metadata": dict(metadata), "spec": spec}


# Each strategy is made once: making one in each draw costs more than drawing from it.
_ROUTE_NAMES = st.lists(st.sampled_from(["one", "two"]), max_size=2, unique=True)
_PERCENTAGES = st.integers(1, 100)
_PARTS = st.sampled_from([0, 0, 1, 5, 10, 20, 50])
TEXTS = st.sampled_from(["1", "true", "a.b", "it-is"])
NAMES = st.sampled_from(["x-canary", "x-user", "x-tier"])


@cache
def metadata(name: str, namespace: str = CONTEXT.namespace) -> st.SearchStrategy[Manifest]:
    """With labels and annotations of the user's, or without."""
    maps = st.dictionaries(st.sampled_from(["app", "example.com/a~b"]), TEXTS, min_size=1, max_size=2)
    return st.fixed_dictionaries(
        {"name": st.just(name), "namespace": st.just(namespace), "generation": st.integers(1, 9)},
        optional={"labels": maps, "annotations": maps},
    )


@cache
def _named(kinds: tuple[MatchKind, ...]) -> st.SearchStrategy[tuple[NamedMatch, ...]]:
    one = st.builds(NamedMatch, NAMES, st.builds(TextMatch, st.sampled_from(kinds), TEXTS))
    return st.lists(one, max_size=2, unique_by=lambda each: each.name).map(tuple)


@cache
@st.composite
def requests(draw: st.DrawFn, features: frozenset[Feature]) -> RequestMatch:
    """Some requests, by what the provider has words for."""
    kinds = (MatchKind.EXACT, *((MatchKind.PREFIX, MatchKind.REGEX) if Feature.HEADER_REGEX in features else ()))
    method = TextMatch(MatchKind.EXACT, "GET") if Feature.METHOD in features and draw(BOOLEANS) else None
    path = TextMatch(MatchKind.PREFIX, "/cart") if Feature.PATH in features and draw(BOOLEANS) else None
    query = draw(_named((MatchKind.EXACT,))) if Feature.QUERY in features else ()
    cookies = draw(_named((MatchKind.EXACT,)))[:1] if Feature.COOKIE in features else ()
    headers = draw(_named(kinds)) if Feature.HEADER in features else ()
    if not (method or path or query or cookies or headers):
        headers = TESTERS.match.headers
    return RequestMatch(method=method, path=path, headers=headers, cookies=cookies, query=query)


@cache
@st.composite
def splits(draw: st.DrawFn, features: frozenset[Feature], shares: st.SearchStrategy[Fraction]) -> Split:
    """What a Rollout may want of a route with these features."""
    matches: tuple[MatchRoute, ...] = ()
    mirrors: tuple[MirrorRoute, ...] = ()
    if features & {Feature.HEADER, Feature.COOKIE}:
        names = draw(_ROUTE_NAMES)
        matches = tuple(MatchRoute(name, draw(requests(features))) for name in names)
    if Feature.MIRROR in features and draw(BOOLEANS):
        percent = draw(_PERCENTAGES) if Feature.MIRROR_PERCENT in features else 100
        mirrors = (MirrorRoute("copies", tuple(draw(_some_requests(features))), percent),)
    share = taken = draw(shares)
    experiments: tuple[ExperimentShare, ...] = ()
    for service in EXPERIMENTS if Feature.EXPERIMENT in features else ():
        part = Fraction(draw(_PARTS), 100)
        taken += part
        if part and taken <= 1:
            experiments += (ExperimentShare(service, part),)
    return Split(share, matches, mirrors, experiments=experiments)


@cache
def _some_requests(features: frozenset[Feature]) -> st.SearchStrategy[list[RequestMatch]]:
    return st.lists(requests(features), max_size=2)


@cache
def _wants(features: frozenset[Feature], shares: st.SearchStrategy[Fraction]) -> st.SearchStrategy[list[Split]]:
    return st.lists(splits(features, shares), min_size=2, max_size=4)


def _rules(value: Any) -> list[Any]:
    """Every object in every list, at any depth."""
    found: list[Any] = []
    parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    for part in parts:
        if isinstance(value, list) and isinstance(part, dict):
            found.append(part)
        found += _rules(part)
    return found
