"""Promise: the value of a Secret comes into a metric right before its request is made, where its place is and nowhere else."""

from __future__ import annotations

import json

import pytest

from rollouts.core.analysis.metric import Metric, MetricRules, SecretReference
from rollouts.core.analysis.secret_values import with_secret_values
from rollouts.core.analysis.source import (
    BasicAuth,
    ComparedBy,
    Comparison,
    Effect,
    JobMetric,
    MetricSource,
    OAuth2,
    PodEvidence,
    PrometheusQuery,
    WebQuery,
)

TOKEN = SecretReference(argument="token", name="shop", key="k")
OTHER = SecretReference(argument="other", name="shop", key="o")


def _filled(source: MetricSource, **values: str) -> MetricSource:
    secrets = tuple(each for each in (TOKEN, OTHER) if each.argument in values)
    metric = with_secret_values(Metric(rules=MetricRules(name="m"), source=source, secrets=secrets), values)
    assert metric.secrets == ()
    return metric.source


def test_every_place_of_a_web_request_is_filled() -> None:
    """URL, headers, body and credentials."""
    source = WebQuery(
        url="https://x/{{args.token}}",
        headers=(("A", "Bearer {{ args.token }}"), ("B", "b")),
        body="<{{args.token}}>",
        authentication=OAuth2(
            token_url="https://{{args.token}}", client_id="{{args.token}}", client_secret="{{args.other}}"
        ),
    )

    assert _filled(source, token="t", other="o") == WebQuery(
        url="https://x/t",
        headers=(("A", "Bearer t"), ("B", "b")),
        body="<t>",
        authentication=OAuth2(token_url="https://t", client_id="t", client_secret="o"),
    )


def test_user_and_password_are_filled() -> None:
    """Of a query and of a web request: both may be in a Secret."""
    places = BasicAuth(username="{{args.token}}", password="{{ args.other }}")
    filled = BasicAuth(username="t", password="o")

    for source in (
        PrometheusQuery(query="up", authentication=places),
        WebQuery(url="https://x", authentication=places),
    ):
        found = _filled(source, token="t", other="o")
        assert isinstance(found, PrometheusQuery | WebQuery)
        assert found.authentication == filled
    assert "password" not in repr(BasicAuth(username="u", password="password"))


def test_headers_and_credentials_of_a_query_are_filled() -> None:
    """Its text never has a place for a secret, as queries are shown."""
    source = PrometheusQuery(
        query="up",
        headers=(("A", "{{args.token}}"),),
        authentication=OAuth2(token_url="https://x", client_id="c", client_secret="{{args.token}}", scopes=("s",)),
    )

    assert _filled(source, token="t") == PrometheusQuery(
        query="up",
        headers=(("A", "t"),),
        authentication=OAuth2(token_url="https://x", client_id="c", client_secret="t", scopes=("s",)),
    )


def test_headers_of_a_comparison_are_filled() -> None:
    """They are those of its query; nothing else of it has a place for a secret."""
    query = PrometheusQuery(query='up{hash="{{arm}}"}', headers=(("A", "{{args.token}}"),))
    source = Comparison(canary="a", stable="b", by=ComparedBy.VALUES, of=query, effect=Effect(size=1.0))

    found = _filled(source, token="t")

    assert isinstance(found, Comparison)
    assert found.of == PrometheusQuery(query='up{hash="{{arm}}"}', headers=(("A", "t"),))


@pytest.mark.parametrize("secret", ['a"b', "back\\slash", "two\nlines", '", "admin": true, "x": "'])
def test_in_a_json_body_a_secret_is_one_text(secret: str) -> None:
    """A password with a quote in it must not break the body, nor write into it."""
    source = WebQuery(url="https://x", body='{"a": ["-{{args.token}}-"]}', body_is_json=True)

    found = _filled(source, token=secret)

    assert isinstance(found, WebQuery)
    assert json.loads(found.body) == {"a": [f"-{secret}-"]}


def test_a_value_that_looks_like_a_place_is_none() -> None:
    """Who may write one Secret must not read another one by it."""
    source = WebQuery(url="https://x", body="{{args.token}} {{args.other}}")

    found = _filled(source, token="{{args.other}}", other="{{args.token}}")

    assert isinstance(found, WebQuery)
    assert found.body == "{{args.other}} {{args.token}}"


def test_a_secret_without_a_value_is_not_sent_as_its_place() -> None:
    """The server would be shown a wrong token, and the user a wrong reason."""
    metric = Metric(rules=MetricRules(name="m"), source=WebQuery(url="https://{{args.token}}"), secrets=(TOKEN,))

    with pytest.raises(KeyError, match="token"):
        with_secret_values(metric, {})


@pytest.mark.parametrize("source", [JobMetric(metadata={}, spec={"a": "{{args.token}}"}), PodEvidence()])
def test_objects_of_the_cluster_get_no_secret(source: MetricSource) -> None:
    """Everybody may read a Job who may not read a Secret."""
    assert _filled(source, token="t") == source


def test_a_clients_secret_is_not_shown() -> None:
    """An error that names a request must not print what it was sent with."""
    shown = repr(OAuth2(token_url="https://x", client_id="c", client_secret="hunter2"))

    assert "hunter2" not in shown
