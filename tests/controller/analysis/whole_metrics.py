"""Metrics in which every field of the schema has a value: what a test of all fields plants its texts into."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from rollouts.api.schema import structural
from rollouts.api.spec.analysis.run import parse_run
from rollouts.api.v1alpha1.wire import Wire
from rollouts.core.analysis.recipes import RECIPES
from rollouts.errors import SpecInvalid
from tests.metrics.servers.fake import ADDRESS, whole_metrics

Path = tuple[str | int, ...]

_OAUTH = {"tokenUrl": "https://login.example/t", "clientId": "i", "clientSecret": "s", "scopes": ["a"]}
_BASIC = {"username": "me", "password": "p"}
_SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
_METRIC = {"name": "queue", "selector": _SELECTOR}
_OBJECT = {"apiVersion": "v1", "kind": "Service", "name": "cart"}
_RANGE = {"start": 'now() - duration("5m")', "end": "now()", "step": "1m"}


def _sources(declared: str, arm: str = "a") -> Iterator[tuple[str, dict[str, Any]]]:
    """The sources that two arms may have; `declared` is the URL of the server `default`, and `arm` tells the arms apart."""
    query, headers = f'up{{hash="{arm}"}}', [{"key": "X-Own", "value": arm}]
    metric, thing = {**_METRIC, "name": f"queue-{arm}"}, {**_OBJECT, "name": f"cart-{arm}"}
    asks, named = {"address": declared, "query": query}, {"metricProvider": "default", "query": query}
    oauth, basic = {"authentication": {"oauth2": _OAUTH}}, {"authentication": {"basicAuth": _BASIC}}
    yield "prometheus by its address", {"prometheus": {**asks, "headers": [{"key": "X-Own", "value": "1"}]}}
    yield "prometheus by its name", {"prometheus": {**named, "timeout": 5, "rangeQuery": _RANGE}}
    yield "prometheus with a token", {"prometheus": {**asks, **oauth}}
    yield "web", {"web": {"url": f"{declared}/q", "headers": headers, "jsonPath": "{$.a}", "timeoutSeconds": 5}}
    yield "web with a body", {"web": {"url": f"{declared}/{arm}", "method": "POST", "body": "text"}}
    yield "web with JSON", {"web": {"url": f"{declared}/{arm}", "method": "POST", "jsonBody": {"a": "b"}}}
    yield "web with a token", {"web": {"url": f"{declared}/{arm}", **oauth}}
    yield "prometheus with a password", {"prometheus": {**asks, **basic}}
    yield "web with a password", {"web": {"url": f"{declared}/{arm}", **basic}}
    yield "containerResource", {"containerResource": {"container": "app", "resource": "cpu", "maxAgeSeconds": 90}}
    yield "customMetric", {"customMetric": {"metric": metric, "describedObject": thing, "maxAgeSeconds": 90}}
    yield "externalMetric", {"externalMetric": {"metric": metric, "maxAgeSeconds": 90}}


def whole_runs(declared: str) -> dict[str, dict[str, Any]]:
    """Specs of AnalysisRuns by what their only metric measures."""
    providers = dict(_sources(declared))
    providers |= {
        "job": {"job": {"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}}, "spec": _job()}},
        "kubernetes": {"kubernetes": {"maxRestarts": 1, "minReadyPercent": 90, "containers": ["app"]}},
        "hpa": {"hpa": {"name": "cart"}},
    }
    arms = {"canary": "new", "stable": "old", "effect": "10%", "alpha": "0.05"}
    for place, (kind, fields) in enumerate(whole_metrics()):
        here = {name: declared if value == ADDRESS else value for name, value in fields.items()}
        providers[f"{kind} {place}"] = {kind: here}
        if not RECIPES[kind].not_compared:
            of = {kind: {**of_each_arm(kind, fields), **_addresses(here, fields)}}
            providers[f"compare: {kind} {place}"] = {
                "compare": {**arms, "kind": "value", "of": of, **path_of_number(kind)}
            }
    for name, source in _sources(declared, "{{arm}}"):
        # A value of a range takes the other test, which has a rule of its own for it.
        test = {"test": "mannWhitney"} if "rangeQuery" in source.get("prometheus", {}) else {"kind": "value"}
        providers[f"compare: {name}"] = {"compare": {**arms, **test, "of": source}}
    counters = {"prometheus": {"address": declared, "query": 'errors_total{hash="{{arm}}"}'}}
    rates = {**arms, "effect": "1%", "of": counters, "total": 'requests_total{hash="{{arm}}"}'}
    providers["compare: rates"] = {"compare": rates}
    return {name: _run(name, provider) for name, provider in copy.deepcopy(providers).items()}


def path_of_number(kind: str, path: str = "a.value") -> dict[str, str]:
    """What a comparison needs of a service that answers with JSON."""
    return {"path": path} if RECIPES[kind].gives_json else {}


def _addresses(here: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: here[name] for name, value in fields.items() if value == ADDRESS}


def of_each_arm(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with `{{arm}}` in the first text that may have it, and without what a comparison has no use for."""
    bare = {name: value for name, value in fields.items() if name != "interval"}
    place = _place_of_arm(kind, json.dumps(bare))
    return planted(bare, place, f"{value_at(bare, place)}{{{{arm}}}}")


@lru_cache(maxsize=64)  # kinds, each with a few metrics
def _place_of_arm(kind: str, fields: str) -> Path:
    bare = json.loads(fields)
    texts = (path for path in leaves_of(bare) if isinstance(value_at(bare, path), str))
    return next(
        path for path in texts if _may_be_compared({kind: planted(bare, path, f"{value_at(bare, path)}{{{{arm}}}}")})
    )


def _may_be_compared(of: Mapping[str, Any]) -> bool:
    compare = {"canary": "new", "stable": "old", "effect": "10%", "kind": "value", "of": of, **path_of_number(*of)}
    try:
        parse_run(_run("compare", {"compare": compare}))
    except SpecInvalid:
        return False
    return True


def _run(name: str, provider: Mapping[str, Any]) -> dict[str, Any]:
    compared = "compare" in provider
    ranks = provider.get("compare", {}).get("test") == "mannWhitney"
    conditions = {} if compared else {"successCondition": "true", "failureCondition": "false", "minSamples": 1}
    limits = {"failureLimit": 1, "inconclusiveLimit": 1, "consecutiveErrorLimit": 1, "consecutiveSuccessLimit": 1}
    metric = {"name": "m", "initialDelay": "1s", "provider": provider, **conditions, **({} if compared else limits)}
    if not ranks:
        metric |= {"interval": "1m", "count": 9}
    secret = {"name": "s", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "k"}}}
    return {
        "metrics": [metric],
        "args": [{"name": "x", "value": "1"}, secret],
        "dryRun": [{"metricName": "m"}],
        "measurementRetention": [{"metricName": "m", "limit": 3}],
    }


def _job() -> dict[str, Any]:
    return {"template": {"spec": {"containers": [{"name": "a", "image": "a:1", "command": ["a"]}]}}}


def leaves_of(value: Any, path: Path = ()) -> Iterator[Path]:
    """The places of all texts and numbers in JSON."""
    match value:
        case dict():
            for name, each in value.items():
                yield from leaves_of(each, (*path, name))
        case list():
            for index, each in enumerate(value):
                yield from leaves_of(each, (*path, index))
        case bool() | None:
            return
        case _:
            yield path


def value_at(spec: Mapping[str, Any], path: Path) -> Any:
    """What stands in that place."""
    at: Any = spec
    for part in path:
        at = at[part]
    return at


def planted(spec: Mapping[str, Any], path: Path, text: str) -> dict[str, Any]:
    """A copy of the spec with the text in that place."""
    found: dict[str, Any] = copy.deepcopy(dict(spec))
    at: Any = found
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = text
    return found


def fields_of(model: type[Wire]) -> frozenset[str]:
    """The fields of a schema that take a text: `metrics[].provider.web.url`; what is free below a field is that field's."""
    return frozenset(_fields(structural(model), ""))


def _fields(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    if "properties" in schema:
        for name, part in schema["properties"].items():
            yield from _fields(part, f"{path}.{name}" if path else name)
    elif isinstance(schema.get("items"), dict):
        yield from _fields(schema["items"], f"{path}[]")
    elif isinstance(schema.get("additionalProperties"), dict):
        yield from _fields(schema["additionalProperties"], f"{path}{{}}")
    elif not schema.get("enum") and schema.get("type") not in ("integer", "boolean", "number"):
        yield path


def field_at(path: Path, fields: frozenset[str]) -> str | None:
    """The field of a schema that a place in JSON belongs to; None for one that takes no text of its author's choice."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += "[]"
        else:
            text = f"{text}{{}}" if f"{text}{{}}" in fields else f"{text}.{part}" if text else part
        if text in fields:
            return text
    return None
