"""Promise: a declaration may say how a rule is copied for requests with a header; `setHeaderRoute` works then as elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from rollouts.controller.providers.declarations import provider_of
from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import Feature, MatchKind, MatchRoute, Split, TextMatch
from rollouts.errors import Unroutable
from rollouts.objects import Manifest
from rollouts.traffic.codec import Destination
from rollouts.traffic.declared.codec import declared
from tests.traffic.cases.declared import GLOO, assert_refused, with_headers
from tests.traffic.situation import CONTEXT, Situation, by_header

BASE = with_headers()
BETWEEN = replace(CONTEXT, stable=Destination("stable"), canary=Destination("canary"))


def beta(kind: MatchKind = MatchKind.EXACT, **other: Any) -> Split:
    """Requests with the header go to the canary, and nobody else."""
    return Split(Fraction(0), (MatchRoute("beta", by_header("x-beta", kind=kind, **other)),))


def header(**changes: Any) -> dict[str, Any]:
    return {**BASE, "header": {**BASE["header"], **changes}}


def route(*rules: Manifest) -> Manifest:
    return {"metadata": {"name": "web", "namespace": CONTEXT.namespace}, "spec": {"http": list(rules)}}


def rule(name: str, **more: Any) -> Manifest:
    backends = [{"serviceName": "stable", "weight": 3}, {"serviceName": "canary", "weight": 0}]
    return {"name": name, "backends": backends, **more}


def names(situation: Situation) -> list[str]:
    return [each["name"] for each in situation.objects.user["spec"]["http"]]


def test_a_copy_stands_before_its_rule_and_goes_without_a_trace() -> None:
    """What the rule asks for the copy asks for too, and the fields that nobody named are the rule's."""
    own = {"subject": {"scope": "Query", "name": "v"}, "op": "Equal", "value": "2"}
    written = route(rule("a", timeout="5s", match={"paths": ["/*"], "exprs": [own]}), rule("b"))
    start = Situation.of(declared(BASE), {"name": "web"}, written, BETWEEN)

    managed = start.managed(beta())
    copy = managed.objects.user["spec"]["http"][0]

    assert names(managed) == ["a-beta", "a", "b-beta", "b"]
    assert copy == {
        "name": "a-beta",
        "priority": 1,
        "timeout": "5s",
        "match": {
            "paths": ["/*"],
            "exprs": [own, {"subject": {"scope": "Header", "name": "x-beta"}, "op": "Equal", "value": "1"}],
        },
        "backends": [{"serviceName": "canary", "weight": 1}],
    }
    assert managed.read() == beta()
    assert managed.given_back().objects.user == written


def test_copies_stand_at_the_end_where_the_router_finds_them_anywhere() -> None:
    """No rule of the user's changes its place."""
    start = Situation.of(declared(with_headers(first=False)), {"name": "web"}, route(rule("a"), rule("b")), BETWEEN)

    assert names(start.managed(beta())) == ["a", "b", "a-beta", "b-beta"]


def test_what_is_not_declared_is_refused_in_words() -> None:
    """Cookies, queries, methods, mirrors; and patterns, where the router is not said to know them."""
    exact = declared({**header(regex=False), "tests": BASE["tests"][:1]})
    start = Situation.of(exact, {"name": "web"}, route(rule("a")), BETWEEN)

    offered = exact.features(start.objects, start.target)
    assert offered == {Feature.HEADER, Feature.SEVERAL_CONDITIONS, Feature.SEVERAL_ROUTES}
    for want in (beta(MatchKind.PREFIX), beta(MatchKind.REGEX)):
        with pytest.raises(Unroutable, match="how to match a header exactly"):
            start.plan(want)
    with pytest.raises(Unroutable, match="by headers, and by nothing else"):
        start.plan(beta(method=TextMatch(MatchKind.EXACT, "GET")))


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ([rule("a", priority="high")], "cannot make a rule for beta"),
        ([rule("a", priority=2**70)], "beta"),
        ([{"backends": rule("a")["backends"]}], "cannot make a rule for beta: rule.name"),
        ([rule("a", match={"exprs": [{"value": "x" * 70_000}]})], "70151 bytes, and at most 65536 are allowed"),
    ],
)
def test_a_rule_that_the_template_does_not_fit_is_told(rules: list[Manifest], told: str) -> None:
    """Somebody else's objects look otherwise than those of the tests; nothing is written then."""
    start = Situation.of(declared(BASE), {"name": "web"}, route(*rules), BETWEEN)

    with pytest.raises(Unroutable, match=re.escape(told)):
        start.plan(beta())


BAD: list[tuple[Mapping[str, Any], str]] = [
    (header(insert="middle"), "header.insert: must be first or last"),
    (header(insert=None), "header.insert: is required"),
    (header(template=None), "header.template: must be an object"),
    (header(template={}), "header.template: must have fields of a rule"),
    (header(template={"backends": []}), "header.template: must have fields of a rule, without its backends"),
    (header(template={"name": {"cel": "rule.name +"}}), "header.template.name.cel: Syntax error"),
    (header(template={"a": [{"cel": "nobody"}]}), "header.template.a[0].cel: undeclared reference"),
    (header(template={str(at): {"cel": "name"} for at in range(17)}),
        "header.template: may have at most 16 expressions"),
    (header(template={"name": "same"}), "tests[0].result: differs from the object"),
    (header(template={"name": {"cel": "b'x'"}}), "tests[0].object: cannot be managed: cannot make a rule for test"),
    (header(template={"name": {"cel": "0.0 / 0.0"}}),
        "tests[0].object: cannot be managed: cannot make a rule for test"),
    (header(template={"name": {"cel": "rule.title"}}),
        "tests[0].object: cannot be managed: cannot make a rule for test"),
    (header(more=1), "header.more: unknown field"),
    ({**BASE, "tests": BASE["tests"][:1]}, "tests: need one test with headers for header, with a match of kind regex"),
    ({**BASE, "tests": BASE["tests"][1:2]}, "tests: need one test with headers for header, with a match of kind exact"),
    ({**BASE, "header": None}, "tests[0].object: cannot be managed"),
    ({**BASE, "tests": [{**BASE["tests"][0], "headers": [{"name": "x"}]}]},
        "tests[0].headers[0]: exactly one of exact, prefix and regex is required"),
    ({**GLOO, "header": BASE["header"]}, "header: needs backends inside the items of a list"),
]  # fmt: skip


@pytest.mark.parametrize(("declaration", "told"), BAD, ids=[str(at) for at in range(len(BAD))])
def test_a_template_that_is_wrong_is_refused(declaration: Mapping[str, Any], told: str) -> None:
    """Before anybody relies on it, by the declaration's own tests."""
    assert_refused(declaration, told)


def test_the_object_of_the_cluster_says_the_same() -> None:
    """The types of the API take what the declaration takes."""
    spec = {**BASE, "service": {"path": BASE["service"]}}
    del spec["name"]

    found = provider_of("my-router", spec, {})

    assert found.header is not None
    assert found.header.features >= {Feature.HEADER, Feature.HEADER_REGEX}
