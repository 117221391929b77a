"""Promise: a MetricProvider's spec becomes a server, or every one of its problems is told with its path."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.api.problems import Problems
from rollouts.api.spec.metric_provider import read_metric_provider
from rollouts.core.analysis.metric_server import (
    BasicPlace,
    BearerPlace,
    InFile,
    InSecret,
    MetricServer,
    OAuth2Place,
    ServiceAccountPlace,
)

KEY = {"secretKeyRef": {"name": "prom", "key": "token"}}
SECRET = InSecret("prom", "token")
URL = "https://prom.example"
RECIPE = {"request": {"path": "/q"}, "answer": {"kind": "rows"}}


def read(spec: Any) -> tuple[MetricServer, list[str]]:
    problems = Problems(quotes=False)
    return read_metric_provider(spec, problems), [str(each) for each in problems.found()]


@pytest.mark.parametrize(
    ("spec", "server"),
    [
        ({}, MetricServer(url=URL)),
        ({"basic": {"username": "me", "password": KEY}}, MetricServer(url=URL, identity=BasicPlace("me", SECRET))),
        ({"bearer": {"file": "/a/b"}}, MetricServer(url=URL, identity=BearerPlace(InFile("/a/b")))),
        ({"oauth2": {"tokenUrl": "https://l", "clientId": "i", "clientSecret": KEY, "scopes": ["a", "b"]}},
            MetricServer(url=URL, identity=OAuth2Place(
                token_url="https://l", client_id="i", client_secret=SECRET, scopes=("a", "b")))),
        ({"google": {"key": KEY}}, MetricServer(url=URL, identity=ServiceAccountPlace(key=SECRET))),
        ({"google": {"key": KEY, "scopes": ["a"]}},
            MetricServer(url=URL, identity=ServiceAccountPlace(key=SECRET, scopes=("a",)))),
        ({"headers": [{"name": "A", "value": "b"}, {"name": "C", "valueFrom": KEY}]},
            MetricServer(url=URL, headers=(("A", "b"), ("C", SECRET)))),
        ({"tls": {"caFile": "/a/ca", "serverName": "prom"}},
            MetricServer(url=URL, ca_file=InFile("/a/ca"), server_name="prom")),
        ({"tls": {"insecureSkipVerify": True}}, MetricServer(url=URL, insecure=True)),
        ({"methods": ["GET", "POST"]}, MetricServer(url=URL, methods=("GET", "POST"))),
    ],
)  # fmt: skip
def test_a_good_one_is_read(spec: dict[str, Any], server: MetricServer) -> None:
    """Where credentials are, never they themselves."""
    assert read({"url": URL, **spec}) == (server, [])


def test_all_that_is_read_before_it_is_asked_is_named_once() -> None:
    """A Secret of several keys, one of them twice; the file of authorities."""
    other, authorities = InSecret("prom", "b"), InFile("/ca")
    headers = (("A", SECRET), ("B", other))
    server = MetricServer(url=URL, identity=BearerPlace(SECRET), headers=headers, ca_file=authorities)

    assert server.places == (SECRET, other, authorities)


TOKENS = {"clientId": "a", "clientSecret": KEY}


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        ({}, ["spec.url"]),
        ({"url": ""}, ["spec.url"]),
        ({"url": 1}, ["spec.url"]),
        ({"url": URL, "methods": []}, ["spec.methods"]),
        ({"url": URL, "type": "nagios"}, ["spec.type"]),
        ({"url": URL, "type": "declared"}, ["spec.type"]),
        ({"url": URL, "type": "graphite", "recipe": RECIPE}, ["spec.recipe"]),
        ({"url": URL, "recipe": {}}, ["spec.recipe.request", "spec.recipe.answer"]),
        ({"url": URL, "recipe": {"request": {}, "answer": {}}}, ["spec.recipe.request.path", "spec.recipe.answer.kind"]),
        ({"url": URL, "recipe": {**RECIPE, "request": {"path": "/", "body": {}}}}, ["spec.recipe.request.body"]),
        ({"url": URL, "recipe": {**RECIPE, "answer": {"kind": "rows", "whole": [{}]}}},
            [f"spec.recipe.answer.whole[0].{each}" for each in ("path", "values")]),
        ({"url": URL, "methods": ["DELETE"]}, ["spec.methods[0]"]),
        ({"url": URL, "more": 1}, ["spec.more"]),
        ({"url": URL, "basic": {}}, ["spec.basic.username", "spec.basic.password"]),
        ({"url": URL, "basic": {"username": "a:b", "password": KEY}}, ["spec.basic.username"]),
        ({"url": URL, "basic": {"username": "a", "password": "hunter2"}}, ["spec.basic.password"]),
        ({"url": URL, "bearer": {}}, ["spec.bearer"]),
        ({"url": URL, "bearer": {"file": "/a", **KEY}}, ["spec.bearer"]),
        ({"url": URL, "bearer": {"secretKeyRef": {"name": "a"}}}, ["spec.bearer.secretKeyRef.key"]),
        ({"url": URL, "bearer": {"secretKeyRef": {"name": "A", "key": "a"}}}, ["spec.bearer.secretKeyRef.name"]),
        ({"url": URL, "bearer": KEY, "basic": {"username": "a", "password": KEY}}, ["spec"]),
        ({"url": URL, "google": {}}, ["spec.google.key"]),
        ({"url": URL, "oauth2": {}}, [f"spec.oauth2.{each}" for each in ("tokenUrl", "clientId", "clientSecret")]),
        ({"url": URL, "headers": [{}]}, ["spec.headers[0].name", "spec.headers[0]"]),
        ({"url": URL, "headers": [{"name": "a", "value": "b", "valueFrom": KEY}]}, ["spec.headers[0]"]),
        ({"url": URL, "headers": [{"name": "a", "valueFrom": {}}]}, ["spec.headers[0].valueFrom"]),
        ({"url": URL, "tls": {"insecureSkipVerify": True, "caFile": "/a"}}, ["spec.tls.insecureSkipVerify"]),
        ({"url": "http://prom", "tls": {"caFile": "/a"}}, ["spec.tls"]),
        ({"url": "http://prom", "tls": {"caFile": "/a"}, "oauth2": {**TOKENS, "tokenUrl": "http://id"}}, ["spec.tls"]),
        ({"url": "http://prom", "tls": {"caFile": "/a"}, "oauth2": {**TOKENS, "tokenUrl": "https://id"}}, []),
        ({"url": URL, "tls": {"caFile": "/a"}, "oauth2": {**TOKENS, "tokenUrl": "http://id"}}, []),
        ({"tls": {"insecureSkipVerify": 1}, "headers": 1}, ["spec.headers", "spec.tls.insecureSkipVerify", "spec.url"]),
    ],
)  # fmt: skip
def test_every_problem_has_its_path(spec: dict[str, Any], paths: list[str]) -> None:
    """All of them at once, so that nobody mends one after the other; and no value of a field that may be a secret."""
    _, found = read(spec)

    assert sorted(each.partition(": ")[0] for each in found) == sorted(paths)
    assert "hunter2" not in str(found)
