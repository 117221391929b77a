"""Promise: what matches of the Gateway API ask for is told as its data planes see it, and what its CRDs refuse is told before."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import MatchKind, NamedMatch, RequestMatch, TextMatch
from rollouts.errors import Unroutable
from rollouts.objects import Manifest
from rollouts.traffic.gateway_api.features import check_limits
from rollouts.traffic.gateway_api.matches import narrowed_matches, outrank, request_of
from tests.traffic.situation import TESTERS, by_path

HEADER = TESTERS.match


@pytest.mark.parametrize(
    ("own", "want", "found"),
    [
        (("PathPrefix", "/"), ("/a", MatchKind.PREFIX), ("PathPrefix", "/a")),
        (("PathPrefix", "/a"), ("/", MatchKind.PREFIX), ("PathPrefix", "/a")),
        (("PathPrefix", "/a"), ("/ab", MatchKind.PREFIX), None),
        (("PathPrefix", "/a"), ("/a/b", MatchKind.EXACT), ("Exact", "/a/b")),
        (("PathPrefix", "/a"), ("/b", MatchKind.EXACT), None),
        (("Exact", "/a"), ("/a", MatchKind.PREFIX), ("Exact", "/a")),
        (("Exact", "/a"), ("/b", MatchKind.EXACT), None),
        (("PathPrefix", "/"), ("/a.*", MatchKind.REGEX), ("RegularExpression", "/a.*")),
        (("RegularExpression", "/a.*"), ("/a.*", MatchKind.REGEX), ("RegularExpression", "/a.*")),
    ],
)
def test_both_of_two_paths(own: tuple[str, str], want: tuple[str, MatchKind], found: tuple[str, str] | None) -> None:
    """A managed route is for the requests of its rule that match; a rule that can have none of them gets no copy."""
    matches = [{"path": {"type": own[0], "value": own[1]}}]

    both = narrowed_matches(matches, [by_path(*want)], grpc=False)

    assert both == ([] if found is None else [{"path": {"type": found[0], "value": found[1]}}])


CALLS = [
    {"method": each}
    for each in ({"service": "shop"}, {"service": "shop.Cart"}, {"service": "shop.Cart", "method": "Add"})
]
OTHERS = [{"headers": [{"name": "a"}]}, {"headers": [{"name": "a"}, {"name": "b"}]}]


@pytest.mark.parametrize("ranked", [CALLS, OTHERS], ids=["calls", "headers"])
def test_the_more_that_a_match_says_the_earlier_it_counts(ranked: list[Manifest]) -> None:
    """The longer names of a service and of its method, more headers."""
    for low, high in pairwise([{}, *ranked]):
        assert outrank([high], [low])
        assert not outrank([low], [high])


def test_what_nobody_can_tell_is_refused() -> None:
    """Two regular expressions: no program can say simply which texts match both."""
    own = [{"path": {"type": "RegularExpression", "value": "/a.*"}}]

    with pytest.raises(Unroutable, match="use exact or prefix"):
        narrowed_matches(own, [by_path("/b.*", MatchKind.REGEX)], grpc=False)


def test_a_header_that_must_have_two_values_matches_nothing() -> None:
    """Header names are the same in any case of their letters."""
    own = [{"headers": [{"type": "Exact", "name": "X-Canary", "value": "0"}]}]

    assert narrowed_matches(own, [HEADER], grpc=True) == []
    own[0]["headers"][0]["type"] = "RegularExpression"
    with pytest.raises(Unroutable, match="a rule matches x-canary already"):
        narrowed_matches(own, [HEADER], grpc=True)


@pytest.mark.parametrize(
    "more",
    [
        {"path": TextMatch(MatchKind.EXACT, "/cart")},
        {"method": TextMatch(MatchKind.EXACT, "POST")},
        {"query": HEADER.headers},
        {"cookies": HEADER.headers},
    ],
    ids=lambda more: next(iter(more)),
)
def test_a_grpc_route_can_ask_for_headers_alone(more: dict[str, Any]) -> None:
    """Left out without a word, the step would send the canary what its author did not mean."""
    with pytest.raises(Unroutable, match="a GRPCRoute matches by headers only"):
        narrowed_matches([], [replace(HEADER, **more)], grpc=True)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ({"service": "shop.Cart", "method": "Add"}, TextMatch(MatchKind.EXACT, "/shop.Cart/Add")),
        ({"service": "shop.Cart"}, TextMatch(MatchKind.PREFIX, "/shop.Cart/")),
        ({"method": "Add"}, TextMatch(MatchKind.REGEX, "//Add")),
        ({"type": "RegularExpression", "service": "shop.*"}, TextMatch(MatchKind.REGEX, "/shop.*/")),
        ({}, None),
    ],
)
def test_a_grpc_match_is_about_the_path_of_its_calls(method: Manifest, path: TextMatch | None) -> None:
    """That is how a data plane shows it."""
    assert request_of({"method": method}, grpc=True) == RequestMatch(path=path)


def test_names_of_headers_are_the_same_in_any_case_and_those_of_parameters_are_not() -> None:
    """RFC 9110, 5.1; a query parameter is the application's."""
    match = {
        "headers": [{"name": "X-Env", "value": "a"}],
        "queryParams": [{"type": "RegularExpression", "name": "Page", "value": "1."}],
    }

    assert request_of(match, grpc=False) == RequestMatch(
        headers=(NamedMatch("x-env", TextMatch(MatchKind.EXACT, "a")),),
        query=(NamedMatch("Page", TextMatch(MatchKind.REGEX, "1.")),),
    )


def test_a_cookie_is_found_among_others() -> None:
    """All cookies are one header."""
    want = RequestMatch(cookies=(NamedMatch("v", TextMatch(MatchKind.EXACT, "2.0")),))
    ((header,),) = [each["headers"] for each in narrowed_matches([], [want], grpc=False)]

    for text in ("v=2.0", "a=1; v=2.0; b=3", "a=1;v=2.0"):
        assert re.search(header["value"], text)
    for text in ("vv=2.0", "v=2x0", "v=2.01"):
        assert not re.search(header["value"], text)


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([{}] * 17, "17 rules, and at most 16"),
        ([{"matches": [{}] * 65}], "65 matches in one rule, and at most 64"),
        ([{"matches": [{}] * 43}] * 3, "129 matches in total, and at most 128"),
        ([{"matches": [{"headers": [{}] * 17}]}], "17 headers or query parameters in one match, and at most 16"),
        ([{"matches": [{"queryParams": [{}] * 17}]}], "17 headers or query parameters in one match, and at most 16"),
        ([{"filters": [{}] * 17}], "17 filters in one rule, and at most 16"),
        ([{"backendRefs": [{}] * 17}], "17 backends in one rule, and at most 16"),
    ],
)
def test_a_route_that_is_full_says_so(rules: list[Manifest], words: str) -> None:
    """Before the API server does, in its own words."""
    with pytest.raises(Unroutable, match=f"it would have {words} are allowed"):
        check_limits({"spec": {"rules": rules}})
