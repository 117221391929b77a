"""Promise: the Ingress that we make beside the user's is a canary to its router and nothing else, whatever the spec says.

Whoever may write Rollouts must not get more through it than a share of their own Ingress's requests: no second full Ingress, no
text in a router's configuration. Sources: ingress-nginx, user-guide/nginx-configuration/annotations.md#canary and CVE-2021-25742
(snippets), CVE-2023-5043 and CVE-2025-24514 (text of annotations in nginx.conf).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.core.model.traffic import Split
from rollouts.errors import SpecInvalid
from rollouts.objects import Manifest
from rollouts.traffic.nginx import codec as nginx
from tests.traffic.situation import A_TENTH, Situation

PREFIX = "nginx.ingress.kubernetes.io"


def problems(**settings: Any) -> list[str]:
    """What is refused, each as `path: message`."""
    try:
        nginx.PROVIDER.targets({"stableIngress": "cart", **settings}, namespace="shop")
    except SpecInvalid as refused:
        return [str(problem) for problem in refused.problems]
    return []


def canary(user: Mapping[str, Any] = {}, annotations: Mapping[str, str] = {}, **settings: Any) -> Manifest:
    """The Ingress that is made for a tenth beside one with these fields of spec."""
    backend = {"service": {"name": "cart", "port": {"number": 80}}}
    spec = {"rules": [{"host": "a", "http": {"paths": [{"path": "/", "backend": backend}]}}], **user}
    meta = {"name": "cart", "namespace": "shop", **({"annotations": dict(annotations)} if annotations else {})}
    situation = Situation.of(nginx.PROVIDER, {"stableIngress": "cart", **settings}, {"metadata": meta, "spec": spec})
    managed = situation.managed(A_TENTH)
    assert managed.read() == A_TENTH
    assert managed.plan(A_TENTH) == ()
    assert managed.objects.owned is not None
    return managed.objects.owned


@pytest.mark.parametrize(
    ("spec_class", "annotated", "expected"),
    [
        ("web", None, ("web", None)),
        (None, "web", (None, "web")),
        ("web", "old", ("web", None)),
        (None, None, (None, None)),
    ],
)
def test_the_canary_is_of_the_same_class(
    spec_class: str | None, annotated: str | None, expected: tuple[str | None, str | None]
) -> None:
    """A router leaves an Ingress of no class alone; of both forms the API server takes one in a new Ingress.

    ingress-nginx reads `ingressClassName` first (internal/ingress/controller/store).
    """
    user = {"ingressClassName": spec_class} if spec_class else {}
    annotations = {"kubernetes.io/ingress.class": annotated} if annotated else {}

    made = canary(user, annotations)

    told = made["metadata"]["annotations"].get("kubernetes.io/ingress.class")
    assert (made["spec"].get("ingressClassName"), told) == expected


def test_tls_is_not_copied() -> None:
    """ingress-nginx takes servers and their certificates from Ingresses that are no canaries; a copy would only grow old."""
    assert "tls" not in canary({"tls": [{"hosts": ["a"], "secretName": "a-tls"}]})["spec"]


def test_without_a_share_there_is_no_canary_ingress() -> None:
    """One that stays with weight 0 would still take the requests of an annotation by cookie."""
    backend = {"service": {"name": "cart", "port": {"number": 80}}}
    spec = {"rules": [{"http": {"paths": [{"path": "/", "backend": backend}]}}]}
    start = Situation.of(nginx.PROVIDER, {"stableIngress": "cart"}, {"metadata": {"name": "cart"}, "spec": spec})

    assert start.managed(A_TENTH).managed(Split(Fraction(0))).objects.owned is None


@pytest.mark.parametrize("key", ["affinity", f"{PREFIX}/affinity"])
def test_an_additional_annotation_may_have_its_prefix_already(key: str) -> None:
    """As in Argo Rollouts; put before it once more it would be no key at all."""
    assert (
        canary(additionalIngressAnnotations={key: "cookie"})["metadata"]["annotations"][f"{PREFIX}/affinity"]
        == "cookie"
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"annotationPrefix": "example.com"}, "annotationPrefix: 'example.com' is not one of"),
        ({"annotationPrefix": "nginx.org"}, "a second full Ingress"),
        ({"canaryIngressAnnotations": {"kubernetes.io/ingress.class": "internal"}}, "must begin with nginx.ingress"),
        ({"canaryIngressAnnotations": {"cert-manager.io/issuer": "x"}}, "must begin with nginx.ingress"),
        ({"canaryIngressAnnotations": {"rollouts.dev/managed-by": "x"}}, "must begin with nginx.ingress"),
        ({"additionalIngressAnnotations": {"example.com/x": "1"}}, "must begin with nginx.ingress"),
        ({"additionalIngressAnnotations": {"canary": "false"}}, "the controller writes this annotation"),
        ({"additionalIngressAnnotations": {"canary-weight": "100"}}, "the controller writes this annotation"),
        ({"additionalIngressAnnotations": {"canary-weight-total": "1"}}, "the controller writes this annotation"),
        ({"additionalIngressAnnotations": {"canary-by-header": "x"}}, "setHeaderRoute"),
        ({"canaryIngressAnnotations": {f"{PREFIX}/canary-by-header-pattern": "x"}}, "setHeaderRoute"),
        ({"additionalIngressAnnotations": {"configuration-snippet": "return 200;"}}, "configuration of every Ingress"),
        ({"canaryIngressAnnotations": {f"{PREFIX}/server-snippet": "x"}}, "configuration of every Ingress"),
        ({"canaryIngressAnnotations": {f"{PREFIX}/Auth-Snippet": "x"}}, "configuration of every Ingress"),
        ({"additionalIngressAnnotations": {"a\nb": "x"}}, "not a valid key of an annotation"),
        ({"additionalIngressAnnotations": {"": "x"}}, "not a valid key of an annotation"),
        ({"additionalIngressAnnotations": {"a/b": "x"}}, "must begin with nginx.ingress"),
        ({"additionalIngressAnnotations": {"a" * 64: "x"}}, "not a valid key of an annotation"),
        ({"additionalIngressAnnotations": {"auth-url": "http://a\n}"}}, "one line"),
        ({"additionalIngressAnnotations": {"auth-url": "http://a\u2028b"}}, "one line"),
        ({"additionalIngressAnnotations": {"auth-url": "x" * 1025}}, "1024 characters"),
        (
            {
                "additionalIngressAnnotations": {"affinity": "cookie"},
                "canaryIngressAnnotations": {f"{PREFIX}/affinity": "none"},
            },
            "is given twice",
        ),
        ({"stableIngress": "../secrets"}, "stableIngress: '../secrets' is not a valid object name"),
    ],
)
def test_what_would_make_it_more_than_a_canary_is_refused(settings: Mapping[str, Any], words: str) -> None:
    """Each with its key and the way out."""
    (problem,) = problems(**settings)

    assert words in problem


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"canaryIngressAnnotations": {f"{PREFIX}/canary-by-cookie": "beta"}}, f"{PREFIX}/canary-by-cookie"),
        (
            {
                "annotationPrefix": "alb.ingress.kubernetes.io",
                "canaryIngressAnnotations": {"alb.ingress.kubernetes.io/order": "1"},
            },
            "alb.ingress.kubernetes.io/order",
        ),
        ({"annotationPrefix": "higress.io/", "additionalIngressAnnotations": {"timeout": "5"}}, "higress.io/timeout"),
    ],
)
def test_what_routers_say_of_canaries_may_be_given(settings: Mapping[str, Any], key: str) -> None:
    """Cookies are the router's own, and Alibaba's load balancer needs an order."""
    assert key in canary(**settings)["metadata"]["annotations"]


@given(
    annotations=st.dictionaries(
        st.text(max_size=70) | st.sampled_from(["canary", f"{PREFIX}/canary", "x-snippet", "affinity", "a/b"]),
        st.text(),
    ),
    field=st.sampled_from(["additionalIngressAnnotations", "canaryIngressAnnotations"]),
)
def test_whatever_is_taken_is_one_line_under_the_prefix(annotations: dict[str, str], field: str) -> None:
    """Any text at all in either map: refused by name, or an annotation that the API server takes and that is not ours."""
    if problems(**{field: annotations}):
        return

    told = canary(**{field: annotations})["metadata"]["annotations"]
    given = {key: text for key, text in told.items() if not key.startswith((f"{PREFIX}/canary", "rollouts.dev/"))}

    assert len(given) == len(annotations)
    assert all(key.startswith(f"{PREFIX}/") and text.isprintable() for key, text in given.items())
    assert (told[f"{PREFIX}/canary"], told[f"{PREFIX}/canary-weight"]) == ("true", "10")
