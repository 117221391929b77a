"""Promise: a metric asks the server that it names; a declared one with its credentials, which no template weakens."""

from __future__ import annotations

import pytest

from rollouts.core.analysis.metric_server import MetricServer
from rollouts.core.analysis.source import BasicAuth, OAuth2, PrometheusQuery, WebQuery
from rollouts.core.model.frozen import replace
from rollouts.metrics.declared import CREDENTIAL_MAX_CHARACTERS, credential_problem, endpoint_of_server
from rollouts.metrics.endpoints import endpoint_of, question_to
from rollouts.metrics.requests import Basic, Bearer, ClientCredentials, MetricEndpoint
from rollouts.metrics.samples import Absence, NoEvidence
from rollouts.metrics.sources import window_of
from rollouts.secret import Secret

PLAIN = MetricEndpoint(url="http://prom:9090", declared=True)
GUARDED = MetricEndpoint(url="https://thanos/base/", declared=True, credentials=Bearer(Secret("t")))
TENANT = MetricEndpoint(url="https://thanos/base/", declared=True, headers=(("X-Scope-OrgID", Secret("a")),))
DECLARED = {"default": PLAIN, "thanos": GUARDED}
OWN = OAuth2(token_url="https://login.example", client_id="i", client_secret="s")


@pytest.mark.parametrize(
    ("name", "endpoint"),
    [
        ("default", PLAIN),
        ("thanos", GUARDED),
        ("http://prom:9090", PLAIN),
        ("https://thanos/base", GUARDED),
        ("https://thanos/other", MetricEndpoint(url="https://thanos/other")),
        ("https://evil.example", MetricEndpoint(url="https://evil.example")),
    ],
)
def test_a_name_or_a_url_is_whom_it_asks(name: str, endpoint: MetricEndpoint) -> None:
    """A URL that nobody declared is the template's own: it gets nobody's credentials and no private address."""
    assert endpoint_of(PrometheusQuery(query="up", endpoint=name), DECLARED) == endpoint


def test_a_name_that_nobody_declares_says_how_to_declare_it() -> None:
    """The flag for `default`, a MetricProvider for any other."""
    for name, words in (("default", "--prometheus-url"), ("other", "a MetricProvider other")):
        found = endpoint_of(PrometheusQuery(query="up", endpoint=name), {})
        assert isinstance(found, NoEvidence)
        assert words in found.why
        assert found.absence is Absence.ERROR


@pytest.mark.parametrize(
    ("declared", "unchecked"),
    [(PLAIN, True), (GUARDED, False), (TENANT, False), (replace(GUARDED, insecure=True), True)],
)
def test_a_template_does_not_give_away_credentials_of_a_server(declared: MetricEndpoint, unchecked: bool) -> None:
    """Without the check of a certificate, whoever stands between would get them; whether it is left out is the declaration's."""
    for source in (
        PrometheusQuery(query="up", endpoint="one", insecure=True),
        WebQuery(url=f"{declared.url.rstrip('/')}/x", insecure=True),
    ):
        found = endpoint_of(source, {"one": declared})
        assert isinstance(found, MetricEndpoint)
        assert found.insecure is unchecked


@pytest.mark.parametrize("declared", [PLAIN, GUARDED, TENANT])
@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("own", [None, OWN])
def test_a_declared_server_is_only_read_unless_it_says_more(
    declared: MetricEndpoint, method: str, own: OAuth2 | None
) -> None:
    """A template that may not reach a server must not delete its data with the controller's credentials, or from its address."""
    base = declared.url.rstrip("/")
    source = WebQuery(url=f"{base}/api/v1/admin/tsdb/delete_series", method=method, authentication=own)

    more = endpoint_of_server(MetricServer(url=declared.url, methods=("GET", method)), {})
    refused = endpoint_of(source, {"one": declared})
    allowed = endpoint_of(source, {"one": more})

    assert isinstance(refused, NoEvidence)
    assert (refused.absence, f"method: {method} to {declared.display_name}" in refused.why) == (Absence.ERROR, True)
    assert "spec.methods" in refused.why
    assert isinstance(allowed, MetricEndpoint)


def test_a_query_of_prometheus_may_be_posted() -> None:
    """A long one is, as a form, and Prometheus only reads there: what is sent is ours, not the template's."""
    source = PrometheusQuery(query="up + " * 600 + "up", endpoint="thanos")

    question = question_to(source, DECLARED, window_of(source, 0.0))

    assert not isinstance(question, NoEvidence)
    assert (question.request.method, question.endpoint) == ("POST", GUARDED)


def test_a_server_that_nobody_declared_gets_the_methods_of_the_template() -> None:
    """It sees nobody's credentials, and no private address is asked."""
    url = "https://example.com/quality"

    assert endpoint_of(WebQuery(url=url, method="POST"), DECLARED) == MetricEndpoint(url=url)


def test_a_person_may_ask_all_urls_of_a_template_from_their_own_machine() -> None:
    """`rollouts analyze` sends what they could send themselves, a request for a token too."""
    source = WebQuery(url="https://own.example", authentication=OWN)

    question = question_to(source, DECLARED, window_of(source, 0.0), anywhere=True)

    assert not isinstance(question, NoEvidence)
    assert question.endpoint.declared
    assert question.endpoint.credentials == ClientCredentials("https://login.example", "i", Secret("s"), declared=True)


@pytest.mark.parametrize(
    ("own", "credentials"),
    [
        (BasicAuth(username="me", password="p"), Basic("me", Secret("p"))),
        (OWN, ClientCredentials("https://login.example", "i", Secret("s"), declared=False)),
    ],
)
def test_a_template_with_an_identity_of_its_own_uses_it(own: BasicAuth | OAuth2, credentials: object) -> None:
    """In place of the declared one, at a declared server and at any other; the URL of its token stays the template's."""
    for source in (
        PrometheusQuery(query="up", endpoint="thanos", authentication=own),
        WebQuery(url="https://other.example", authentication=own),
    ):
        found = endpoint_of(source, DECLARED)
        assert isinstance(found, MetricEndpoint)
        assert found.credentials == credentials


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x" * CREDENTIAL_MAX_CHARACTERS, ""),
        ("x" * (CREDENTIAL_MAX_CHARACTERS + 1), "has more than 8192 characters"),
        ("", "is empty"),
        ("two\nlines", "must be one line of printable ASCII characters"),
        ("pässword", "must be one line of printable ASCII characters"),
    ],
    ids=["as long as may be", "longer", "empty", "a line's end", "a letter that a header has not"],
)
def test_a_text_that_fits_into_no_header_is_no_credential(text: str, problem: str) -> None:
    """And what is said of it repeats no part of it."""
    assert credential_problem(text) == problem
