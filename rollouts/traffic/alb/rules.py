"""What the paths of an Ingress ask of a load balancer, so that its rules can be told apart (`probes/alb.py`). Pure.

The AWS Load Balancer Controller makes rules of each path: of its host, its path, and the annotation `conditions.<Service>`.
Source: AWS Load Balancer Controller v2, ingress annotations, "Advanced conditions" and `pkg/ingress/enhanced_backend_builder.go`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from rollouts.core.model.traffic import MatchKind, NamedMatch, RequestMatch, RuleSaid, TextMatch
from rollouts.errors import Unroutable
from rollouts.objects import Manifest
from rollouts.traffic.alb.action import Action, get
from rollouts.traffic.codec import Context
from rollouts.traffic.rules.annotations import default_service, ingress_paths

USE_ANNOTATION = "use-annotation"
HOST = ":authority"
"""The name under which a host is compared, as a header."""


def rules_of(user: Manifest, context: Context, *, root: str, prefix: str) -> tuple[RuleSaid, ...]:
    """The rules of an Ingress, one for each path.

    Args:
        root: the Service whose action carries the split.
        prefix: of the annotations.
    """
    annotations: Mapping[str, str] = user.get("metadata", {}).get("annotations") or {}
    rules = []
    for service, requests in _paths(user, annotations, prefix):
        name, by_annotation = service.get("name", ""), (service.get("port") or {}).get("name") == USE_ANNOTATION
        if by_annotation:
            stable, canary = _of_action(annotations.get(f"{prefix}/actions.{name}"), context)
        else:
            stable, canary = (Fraction(name == each) for each in (context.stable_service, context.canary_service))
        users = not (by_annotation and name == root)
        rules.append(RuleSaid(users=users, requests=requests, stable=stable, canary=canary))
    return tuple(rules)


def _of_action(text: str | None, context: Context) -> tuple[Fraction, Fraction]:
    """The weights of the two Services in an action; 0 in one that forwards to neither, or does something else."""
    sums = {context.stable_service: Fraction(0), context.canary_service: Fraction(0)}
    try:
        for group in Action.of(text or "").groups:
            if (service := get(group, "serviceName", "")) in sums:
                sums[service] += Fraction(int(get(group, "weight", 1)))
    except (Unroutable, TypeError, ValueError):
        pass
    return sums[context.stable_service], sums[context.canary_service]


def _paths(
    user: Manifest, annotations: Mapping[str, str], prefix: str
) -> Iterator[tuple[Manifest, tuple[RequestMatch, ...]]]:
    """The Service of each path, with the requests that it takes; () when its conditions cannot be read."""
    if default := default_service(user):
        yield default, (RequestMatch(),)
    for rule, path, service in ingress_paths(user):
        host = [NamedMatch(HOST, TextMatch(MatchKind.EXACT, rule["host"]))] if rule.get("host") else []
        more = _conditions(annotations.get(f"{prefix}/conditions.{service.get('name', '')}"))
        if more is None:
            yield service, ()
            continue
        headers, query = more
        yield service, (RequestMatch(path=_path(path), headers=(*host, *headers), query=tuple(query)),)


def _path(path: Manifest) -> TextMatch | None:
    text = str(path.get("path") or "/")
    if path.get("pathType") == "Exact":
        return TextMatch(MatchKind.EXACT, text)
    if path.get("pathType") != "Prefix" and not text.endswith("/*"):  # ImplementationSpecific is a pattern of AWS's
        return None if text == "*" else TextMatch(MatchKind.EXACT, text)
    text = text.removesuffix("*").rstrip("/")
    return TextMatch(MatchKind.PREFIX, text) if text else None


def _conditions(text: str | None) -> tuple[list[NamedMatch], list[NamedMatch]] | None:
    """The headers and query parameters of a `conditions.<Service>` annotation; None when it asks for something else."""
    headers: list[NamedMatch] = []
    query: list[NamedMatch] = []
    try:
        for each in json.loads(text) if text is not None else ():
            match str(get(each, "field", "")):
                case "http-header":
                    config = get(each, "httpHeaderConfig", {})
                    name, values = str(get(config, "httpHeaderName", "")), get(config, "values", [])
                    headers.append(NamedMatch(name.lower(), _value(values)))
                case "query-string":
                    (pair,) = get(get(each, "queryStringConfig", {}), "values", [])
                    query.append(NamedMatch(str(get(pair, "key", "")), _value([get(pair, "value", "")])))
                case _:
                    return None
    except (RecursionError, TypeError, Unroutable, ValueError):
        return None
    return headers, query


def _value(values: list[Any]) -> TextMatch:
    """One literal value, or a pattern."""
    one = str(values[0]) if len(values) == 1 else ""
    return TextMatch(MatchKind.REGEX if not one or set(one) & set("*?") else MatchKind.EXACT, one)
