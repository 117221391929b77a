"""Promise: a metric asks the server that it names; a declared one with its credentials, which no template weakens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rollouts.core.analysis.source import OAuth2, PrometheusQuery, WebQuery
from rollouts.metrics.endpoints import endpoint_of
from rollouts.metrics.requests import Bearer, ClientCredentials, MetricEndpoint
from rollouts.metrics.samples import Absence, NoEvidence
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
    [
        (PLAIN, True),
        (GUARDED, False),
        (TENANT, False),
        (replace(GUARDED, insecure=True), True),
    ],
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


def test_a_template_with_an_identity_of_its_own_uses_it() -> None:
    """In place of the declared one."""
    found = endpoint_of(PrometheusQuery(query="up", endpoint="thanos", authentication=OWN), DECLARED)

    assert isinstance(found, MetricEndpoint)
    assert found.credentials == ClientCredentials("https://login.example", "i", Secret("s"))
