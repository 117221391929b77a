"""Promise: the value of a Secret comes into a metric right before its request is made, where its place is and nowhere else."""

from __future__ import annotations

import json

import pytest

from rollouts.core.analysis.metric import Metric, MetricRules, SecretReference, with_secret_values
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
from rollouts.core.model.frozen import replace

TOKEN = SecretReference(argument="token", name="shop", key="k")
OTHER = SecretReference(argument="other", name="shop", key="o")


def _filled(source: MetricSource, **values: str) -> MetricSource:
    secrets = tuple(each for each in (TOKEN, OTHER) if each.argument in values)
    metric = with_secret_values(Metric(rules=MetricRules(name="m"), source=source, secrets=secrets), values)
    assert metric.secrets == ()
    return metric.source


CLIENT = OAuth2(token_url="https://x", client_id="c", client_secret="{{args.token}}", scopes=("s",))
PLACES, FILLED = (
    BasicAuth(username="{{args.token}}", password="{{ args.other }}"),
    BasicAuth(username="t", password="o"),
)
ARM = PrometheusQuery(query='up{hash="{{arm}}"}', headers=(("A", "{{args.token}}"),))
COMPARED = Comparison(canary="a", stable="b", by=ComparedBy.VALUES, of=ARM, effect=Effect(size=1.0))
SOURCES: dict[str, tuple[MetricSource, MetricSource]] = {
    "URL, headers, body and credentials of a request": (
        WebQuery(
            url="https://x/{{args.token}}", headers=(("A", "Bearer {{ args.token }}"), ("B", "b")), body="<{{args.token}}>",
            authentication=OAuth2(
                token_url="https://{{args.token}}", client_id="{{args.token}}", client_secret="{{args.other}}"),
        ),
        WebQuery(
            url="https://x/t", headers=(("A", "Bearer t"), ("B", "b")), body="<t>",
            authentication=OAuth2(token_url="https://t", client_id="t", client_secret="o"),
        )),
    "user and password of a query": (
        PrometheusQuery(query="up", authentication=PLACES), PrometheusQuery(query="up", authentication=FILLED)),
    "user and password of a request": (
        WebQuery(url="https://x", authentication=PLACES), WebQuery(url="https://x", authentication=FILLED)),
    "headers and credentials of a query; its text has no place, as queries are shown": (
        PrometheusQuery(query="up", headers=(("A", "{{args.token}}"),), authentication=CLIENT),
        PrometheusQuery(query="up", headers=(("A", "t"),), authentication=replace(CLIENT, client_secret="t"))),
    "headers of a comparison, which are those of its query": (
        COMPARED, replace(COMPARED, of=replace(ARM, headers=(("A", "t"),)))),
    "a Job, which everybody may read who may not read a Secret": (
        JobMetric(metadata={}, spec={"a": "{{args.token}}"}), JobMetric(metadata={}, spec={"a": "{{args.token}}"})),
    "evidence of pods": (PodEvidence(), PodEvidence()),
}  # fmt: skip


@pytest.mark.parametrize(("source", "filled"), SOURCES.values(), ids=list(SOURCES))
def test_every_place_that_may_have_a_secret_is_filled_and_no_other(source: MetricSource, filled: MetricSource) -> None:
    """Where its place is and nowhere else."""
    assert _filled(source, token="t", other="o") == filled


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


def test_a_clients_secret_is_not_shown() -> None:
    """An error that names a request must not print what it was sent with."""
    shown = repr(OAuth2(token_url="https://x", client_id="c", client_secret="hunter2"))

    assert "hunter2" not in shown
    assert "password" not in repr(BasicAuth(username="u", password="password"))
