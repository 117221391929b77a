"""Promise: whatever a name is, it is one segment of a URL's path; it never leads to another object, namespace or verb."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.objects import LEASE, SERVICE, Kind, name_problem, namespace_problem

ROUTE = Kind("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes")
HOSTILE = st.sampled_from(
    ["..", ".", "../x", "a/b", "a?b=c", "a#b", "%2e%2e", "%2F", "a b", "ä", "\n", "a;b", "a\\b", "..;"]
)


@given(namespace=HOSTILE | st.text(min_size=1), name=HOSTILE | st.text(min_size=1))
def test_a_name_is_one_segment(namespace: str, name: str) -> None:
    """`../../other/httproutes/web` went to another namespace, with the controller's rights."""
    for kind in (SERVICE, LEASE, ROUTE):
        path = kind.path(namespace, name, "status")
        *_, spaces, where, plural, what, part = path.split("/")

        assert (spaces, plural, part) == ("namespaces", kind.plural, "status")
        assert (unquote(where), unquote(what)) == (namespace, name)
        assert path.count("/") == ROUTE.path("a", "b", "status").count("/") - (kind.group == "") * 1
        assert not {".", "..", ""} & set(path.split("/")[1:])
        assert path.isascii()
        assert not set(path) & set("?#; \n\\")


@pytest.mark.parametrize("name", ["web", "a", "0", "web-1.v2", "a" * 253])
def test_the_names_that_kubernetes_takes_stay_as_they_are(name: str) -> None:
    """Paths are in logs and tests, and in the cache of whoever counts requests."""
    assert name_problem(name) == ""
    assert SERVICE.path("shop", name) == f"/api/v1/namespaces/shop/services/{name}"


@pytest.mark.parametrize("name", ["", ".", "..", "Web", "web-", "-web", "a..b", "a_b", "a/b", "a" * 254, "web\n", "ä"])
def test_other_names_are_none(name: str) -> None:
    """Source: apimachinery, validation.IsDNS1123Subdomain and IsDNS1123Label."""
    assert name_problem(name) != ""
    assert namespace_problem(name) != ""
    assert namespace_problem("a.b") != ""
    assert namespace_problem("a" * 64) != ""
    assert namespace_problem("shop-1") == ""
