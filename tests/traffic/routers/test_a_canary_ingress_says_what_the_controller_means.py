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

from rollouts.core.model.traffic import MatchRoute, MirrorRoute, RequestMatch, Split
from rollouts.errors import SpecInvalid, Unroutable
from rollouts.objects import Manifest
from rollouts.traffic.nginx import codec as nginx
from tests.traffic.situation import A_TENTH, TESTERS, Situation

PREFIX, ALB = "nginx.ingress.kubernetes.io", "alb.ingress.kubernetes.io"
NONE = {f"{PREFIX}/affinity": "none"}


def problems(**settings: Any) -> list[str]:
    """What is refused, each as `path: message`."""
    try:
        nginx.PROVIDER.targets({"stableIngress": "cart", **settings}, namespace="shop")
    except SpecInvalid as refused:
        return [str(problem) for problem in refused.problems]
    return []


def ingress(user: Mapping[str, Any] = {}, annotations: Mapping[str, str] = {}, **settings: Any) -> Situation:
    """With these fields of spec, and a path to the stable Service beside one to another."""
    backends = [{"service": {"name": name, "port": {"number": 80}}} for name in ("cart", "legacy")]
    paths = [{"path": "/", "pathType": "Prefix", "backend": each} for each in backends]
    spec = {"rules": [{"host": "a", "http": {"paths": paths}}], **user}
    meta = {"name": "cart", "namespace": "shop", **({"annotations": dict(annotations)} if annotations else {})}
    return Situation.of(nginx.PROVIDER, {"stableIngress": "cart", **settings}, {"metadata": meta, "spec": spec})


def owned_of(managed: Situation) -> Manifest:
    assert managed.objects.owned is not None
    return managed.objects.owned


def canary(user: Mapping[str, Any] = {}, annotations: Mapping[str, str] = {}, **settings: Any) -> Manifest:
    """The Ingress that is made for a tenth."""
    managed = ingress(user, annotations, **settings).managed(A_TENTH)
    assert managed.read() == A_TENTH
    assert managed.plan(A_TENTH) == ()
    return owned_of(managed)


def test_the_canary_ingress_leads_the_same_paths_to_the_canary() -> None:
    """And no annotation of the user's is copied: the controller inherits them, and copies would grow old."""
    made = canary(annotations={f"{PREFIX}/rewrite-target": "/"})

    assert made["metadata"]["annotations"] == {f"{PREFIX}/canary": "true", f"{PREFIX}/canary-weight": "10"}
    (path,) = made["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"] == {"name": "cart-canary", "port": {"number": 80}}


def test_parts_of_a_percent_need_a_dialect_that_counts_in_totals() -> None:
    """Elsewhere 0.1 % would be read as nothing, or refused by somebody who tells nobody."""
    split = Split(Fraction(1, 1000))

    annotations = owned_of(ingress().managed(split))["metadata"]["annotations"]

    assert annotations[f"{PREFIX}/canary-weight-total"] == "1000"
    with pytest.raises(Unroutable, match="whole percentages only"):
        ingress(annotationPrefix="mse.ingress.kubernetes.io").plan(split)


def test_a_canary_ingress_that_somebody_changed_is_written_again() -> None:
    """By hand or by another controller: what it says then is not what was wanted."""
    managed = ingress().managed(A_TENTH)
    owned_of(managed)["metadata"]["annotations"][f"{PREFIX}/canary-by-cookie"] = "me"

    assert not managed.read().whole
    assert managed.managed(A_TENTH).read() == A_TENTH


TWO_HEADERS = MatchRoute("two", RequestMatch(headers=TESTERS.match.headers * 2))


@pytest.mark.parametrize(
    ("matches", "mirrors"), [((TWO_HEADERS,), ()), ((TESTERS, TESTERS), ()), ((), (MirrorRoute("m"),))]
)
def test_what_a_canary_ingress_has_no_words_for_is_refused(matches: Any, mirrors: Any) -> None:
    """One header in one route is all."""
    with pytest.raises(Unroutable):
        ingress().plan(Split(Fraction(0), matches, mirrors))


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
    assert ingress().managed(A_TENTH).managed(Split(Fraction(0))).objects.owned is None


@pytest.mark.parametrize("key", ["affinity", f"{PREFIX}/affinity"])
def test_an_additional_annotation_may_have_its_prefix_already(key: str) -> None:
    """As in Argo Rollouts; put before it once more it would be no key at all."""
    made = canary(additionalIngressAnnotations={key: "cookie"})

    assert made["metadata"]["annotations"][f"{PREFIX}/affinity"] == "cookie"


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
        ({"additionalIngressAnnotations": {"affinity": "cookie"}, "canaryIngressAnnotations": NONE}, "is given twice"),
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
        ({"annotationPrefix": ALB, "canaryIngressAnnotations": {f"{ALB}/order": "1"}}, f"{ALB}/order"),
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
