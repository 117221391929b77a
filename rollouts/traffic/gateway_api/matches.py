"""Matches of the Gateway API's routes: each match of a rule, combined by AND with those of a managed route.

Source: gateway-api v1.6.1, HTTPRouteMatch and GRPCRouteMatch. PathPrefix compares path elements, as the API says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rollouts.core.model.traffic import IDLE_HEADER, IDLE_VALUE, MatchKind, NamedMatch, RequestMatch, TextMatch
from rollouts.errors import Unroutable
from rollouts.objects import Manifest
from rollouts.traffic.rules.text_matches import as_regex, cookie_pattern

_ALL_PATHS = {"type": "PathPrefix", "value": "/"}


def narrowed_matches(own: Sequence[Manifest], wanted: Sequence[RequestMatch], *, grpc: bool) -> list[Manifest]:
    """Matches for the requests that match one of `own` and one of `wanted`; [] when no request can.

    Raises: Unroutable when it cannot be known whether a request can match both, or when the API cannot express it.
    """
    narrow = _grpc if grpc else _http
    return merged([both for match in own or [{}] for want in wanted if (both := narrow(match, want)) is not None])


def merged(*lists: Sequence[Manifest]) -> list[Manifest]:
    """All matches of the lists, each once."""
    every = [match for matches in lists for match in matches]
    return [match for at, match in enumerate(every) if match not in every[:at]]


def are_all(wanted: Sequence[RequestMatch], own: Sequence[Manifest], *, grpc: bool) -> bool:
    """Whether every request of `own` matches one of `wanted`; an empty `wanted` matches all requests. Raises: Unroutable."""
    if not wanted:
        return True
    narrowed = [_with_path(match) for match in narrowed_matches(own, wanted, grpc=grpc)]
    return all(_with_path(match) in narrowed for match in own or [{}])


def _with_path(match: Manifest) -> Manifest:
    return {**match, "path": match.get("path") or _ALL_PATHS}


def request_of(match: Manifest, *, grpc: bool) -> RequestMatch:
    """The requests of one match of a route. Parts that products match in their own ways become patterns."""
    method = match.get("method")
    path = _call_path(method or {}) if grpc else _text_of(match.get("path") or _ALL_PATHS)
    return RequestMatch(
        method=TextMatch(MatchKind.EXACT, str(method)) if method and not grpc else None,
        path=path,
        headers=tuple(_named_of(each, lower=True) for each in match.get("headers") or ()),
        query=tuple(_named_of(each, lower=False) for each in match.get("queryParams") or ()),
    )


_KINDS = {"Exact": MatchKind.EXACT, "PathPrefix": MatchKind.PREFIX}


def _text_of(part: Manifest) -> TextMatch | None:
    """The path of a match; None for all paths."""
    kind, value = part.get("type", "PathPrefix"), str(part.get("value", "/"))
    return None if (kind, value) == ("PathPrefix", "/") else TextMatch(_KINDS.get(kind, MatchKind.REGEX), value)


def _call_path(method: Manifest) -> TextMatch | None:
    """The path of gRPC calls to a method: `/service/method`."""
    service, name = method.get("service", ""), method.get("method", "")
    if not service and not name:
        return None
    if method.get("type", "Exact") != "Exact" or not service:
        return TextMatch(MatchKind.REGEX, f"/{service}/{name}")
    return TextMatch(MatchKind.EXACT if name else MatchKind.PREFIX, f"/{service}/{name}")


def _named_of(part: Manifest, *, lower: bool) -> NamedMatch:
    name = str(part.get("name", ""))
    kind = MatchKind.EXACT if part.get("type", "Exact") == "Exact" else MatchKind.REGEX
    return NamedMatch(name.lower() if lower else name, TextMatch(kind, str(part.get("value", ""))))


def idle_match(*, grpc: bool) -> Manifest:
    """A match that no request fulfils."""
    header = {"type": "Exact", "name": IDLE_HEADER, "value": IDLE_VALUE}
    return {**({} if grpc else {"path": _ALL_PATHS}), "headers": [header]}


def outrank(narrowed: Sequence[Manifest], own: Sequence[Manifest]) -> bool:
    """Whether requests go to `narrowed` rather than to `own`, wherever the two are in the route; False when that is not certain.

    Source: HTTPRouteRule.matches: an exact path, the longest prefix, a method, more headers, more query parameters, the order.
    Each product ranks regular expressions among paths in its own way.
    """
    return all(_rank(match) > _rank(other) for match in narrowed for other in own or [{}] if _may_meet(match, other))


def _may_meet(match: Manifest, other: Manifest) -> bool:
    """Whether the path of `other` may cover that of `match`. A path within that of `match` has a narrowed copy of its own."""
    mine, theirs = match.get("path") or _ALL_PATHS, other.get("path") or _ALL_PATHS
    match mine.get("type", "PathPrefix"), theirs.get("type", "PathPrefix"):
        case (("Exact" | "PathPrefix"), "PathPrefix"):
            return _is_under(mine["value"], theirs["value"])
        case (("Exact" | "PathPrefix"), "Exact"):
            return bool(mine == theirs)
        case _:
            return True


def _rank(match: Manifest) -> tuple[int, ...]:
    path, method = match.get("path") or _ALL_PATHS, match.get("method") or ""
    kind, length = path.get("type", "PathPrefix"), len(path.get("value", "/"))
    if kind == "RegularExpression":
        length = -1
    called = (len(method.get("service", "")), len(method.get("method", ""))) if isinstance(method, dict) else (0, 0)
    named = len(match.get("headers") or ()), len(match.get("queryParams") or ())
    return (kind == "Exact", length, bool(method), *called, *named)


def _grpc(match: Manifest, want: RequestMatch) -> Manifest | None:
    if want.path or want.method or want.query or want.cookies:
        raise Unroutable("a GRPCRoute matches by headers only; remove path, method, query and cookies from the step")
    return _with(match, headers=_named(match.get("headers"), _headers(want), header=True))


def _http(match: Manifest, want: RequestMatch) -> Manifest | None:
    path = _path(match.get("path") or _ALL_PATHS, want.path)
    method = _method(match.get("method"), want.method)
    if path is None or method is None:
        return None
    query = [_condition(each) for each in want.query]
    return _with(
        {**match, "path": path, **({"method": method} if method else {})},
        headers=_named(match.get("headers"), _headers(want), header=True),
        queryParams=_named(match.get("queryParams"), query, header=False),
    )


def _with(match: Manifest, **lists: list[Manifest] | None) -> Manifest | None:
    if any(items is None for items in lists.values()):
        return None
    return {**match, **{name: items for name, items in lists.items() if items}}


def _method(own: str | None, want: TextMatch | None) -> str | None:
    """The method that both ask for: "" for any method, None when no request can have both."""
    if want is None:
        return own or ""
    if want.kind is not MatchKind.EXACT:
        raise Unroutable("the Gateway API matches methods exactly; write method.exact")
    return want.value if own in (None, want.value) else None


def _path(own: Manifest, want: TextMatch | None) -> Manifest | None:
    if want is None:
        return own
    kind, value = own.get("type", "PathPrefix"), str(own.get("value", "/"))
    match kind, want.kind:
        case "Exact", MatchKind.EXACT:
            return own if value == want.value else None
        case "Exact", MatchKind.PREFIX:
            return own if _is_under(value, want.value) else None
        case "PathPrefix", MatchKind.EXACT:
            return {"type": "Exact", "value": want.value} if _is_under(want.value, value) else None
        case "PathPrefix", MatchKind.PREFIX if _is_under(want.value, value):
            return {"type": "PathPrefix", "value": want.value}
        case "PathPrefix", MatchKind.PREFIX:
            return own if _is_under(value, want.value) else None
        case "PathPrefix", MatchKind.REGEX if value == "/":
            return {"type": "RegularExpression", "value": want.value}
        case _ if (kind, want.kind) == ("RegularExpression", MatchKind.REGEX) and value == want.value:
            return own
    raise Unroutable(
        f"it cannot be known which paths match both {kind} {value} and {want.kind} {want.value}; "
        "use exact or prefix, or remove the path from the step"
    )


def _is_under(path: str, prefix: str) -> bool:
    prefix = prefix.rstrip("/")
    return path == prefix or path.startswith(prefix + "/")


def _headers(want: RequestMatch) -> list[Manifest]:
    if len(want.cookies) > 1:
        raise Unroutable(
            "the Gateway API can match one cookie at most, because all cookies are one header; keep one of them"
        )
    cookies = [{"type": "RegularExpression", "name": "cookie", "value": cookie_pattern(each)} for each in want.cookies]
    return [*map(_condition, want.headers), *cookies]


def _condition(want: NamedMatch) -> Manifest:
    if want.value.kind is MatchKind.EXACT:
        return {"type": "Exact", "name": want.name, "value": want.value.value}
    return {"type": "RegularExpression", "name": want.name, "value": as_regex(want.value)}


def _named(own: Any, more: list[Manifest], *, header: bool) -> list[Manifest] | None:
    """Both lists as one, each name once; None when a name would need two values."""
    found: list[Manifest] = list(own or ())
    for want in more:
        name = str.lower if header else str
        same = next((each for each in found if name(each["name"]) == name(want["name"])), None)
        if same is None:
            found.append(want)
        elif (kinds := {same.get("type", "Exact"), want["type"]}) and same.get("value") != want["value"]:
            if kinds == {"Exact"}:
                return None
            raise Unroutable(
                f"a rule matches {want['name']} already, and a match can have each name once; use another name"
            )
    return found
