"""How a declared router sends requests with a header to the canary: the fields of a rule's copy, some of them computed.

    "header": {
        "insert": "first",
        "regex": True,
        "template": {
            "name": {"cel": "rule.name + '-' + name"},
            "match": {"exprs": {"cel": "headers.map(h, {'name': h.name, 'op': h.kind == 'exact' ? '==' : '~~', 'to': h.value})"}},
        },
    }

An object in the template is merged into the rule's object of that name, any other value replaces the rule's. An object
`{"cel": …}` stands for the result of the expression. There are no loops and no conditions besides CEL's, and nothing outside the
rule can be reached.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from rollouts.core.model.traffic import Feature, MatchKind, MatchRoute, NamedMatch, RequestMatch, TextMatch
from rollouts.errors import ExpressionFailed, Unroutable
from rollouts.expressions import Expression, Result
from rollouts.objects import Manifest
from rollouts.traffic.rules.text_matches import as_regex
from rollouts.traffic.settings import SettingsReader

VARIABLES = ("rule", "name", "headers")
EXPRESSIONS_MAX = 16
_BYTES_MAX = 64 * 1024  # size of one rule's copy
_DEPTH_MAX = 16


class HeaderTemplate(Struct, frozen=True, kw_only=True):
    """A template for copies of rules, made by `read_header`.

    Args:
        last: copies go to the end of the list, because the router finds them anywhere; otherwise right before their rule.
        regex: whether values may be regular expressions.
        fields: the fields of the copy: JSON with expressions in it.
    """

    last: bool
    regex: bool
    fields: Mapping[str, Any]

    @property
    def features(self) -> frozenset[Feature]:
        """The features that the template allows besides a share."""
        regex = {Feature.HEADER_REGEX} if self.regex else set[Feature]()
        return frozenset({Feature.HEADER, Feature.SEVERAL_CONDITIONS, Feature.SEVERAL_ROUTES, *regex})

    def of(self, rule: Manifest) -> Mapping[str, Any]:
        """The rule's own fields that the template may change in a copy."""
        return {field: rule.get(field) for field in self.fields}

    def narrowed(self, rule: Manifest, match: RequestMatch, name: str) -> Manifest:
        """A copy of the rule for those of its requests that also match `match`. Raises: Unroutable."""
        if match != RequestMatch(headers=match.headers):
            raise Unroutable(
                f"the provider declares how to route by headers, and by nothing else; change the match of {name}"
            )
        data = {"rule": rule, "name": name, "headers": [self._said(each, name) for each in match.headers]}
        try:
            fields = json.dumps(_evaluated(self.fields, data), allow_nan=False)
        except (ExpressionFailed, TypeError, ValueError) as error:
            raise Unroutable(
                f"cannot make a rule for {name}: {error}; change the provider's header, or the rule"
            ) from error
        if len(fields) > _BYTES_MAX:
            raise Unroutable(
                f"the rule for {name} would have {len(fields)} bytes, and at most {_BYTES_MAX} are allowed"
            )
        merged: Manifest = _merged(rule, json.loads(fields))
        return merged

    def _said(self, header: NamedMatch, name: str) -> Mapping[str, str]:
        """The header as the expressions get it; a prefix becomes a regular expression."""
        if header.value.kind is MatchKind.EXACT:
            return {"name": header.name, "kind": "exact", "value": header.value.value}
        if not self.regex:
            raise Unroutable(
                f"the provider declares how to match a header exactly, and in no other way; change the match of {name}"
            )
        return {"name": header.name, "kind": "regex", "value": as_regex(header.value)}


def read_header(part: SettingsReader | None, *, places: str) -> HeaderTemplate | None:
    """The template in a declaration, None when it has none; problems are noted in `part`."""
    if part is None:
        return None
    insert, regex, fields = part.text("insert", needed=True), part.flag("regex"), part.value("template")
    part.done()
    if insert and insert not in ("first", "last"):
        part.refuse("insert", "must be first or last")
    *rules, backends = places.split(".")
    if not rules or not rules[-1].endswith("[]"):
        part.refuse("", "needs backends inside the items of a list, such as spec.rules[].backends[]")
    if not fields or backends.removesuffix("[]") in fields:
        part.refuse("template", "must have fields of a rule, without its backends")
    count = [0]
    found = _compiled(part, "template", fields, count, depth=0)
    if count[0] > EXPRESSIONS_MAX:
        part.refuse("template", f"may have at most {EXPRESSIONS_MAX} expressions")
    return HeaderTemplate(last=insert == "last", regex=regex, fields=found)


def read_headers(test: SettingsReader) -> tuple[MatchRoute, ...]:
    """The header route of a declaration's test, named `test`; () when it has none."""
    headers: list[NamedMatch] = []
    for each in test.parts("headers"):
        name = each.text("name", needed=True)
        texts = [TextMatch(kind, text) for kind in MatchKind if (text := each.text(kind.value))]
        each.done()
        if len(texts) != 1:
            each.refuse("", "exactly one of exact, prefix and regex is required")
        else:
            headers.append(NamedMatch(name.lower(), texts[0]))
    return (MatchRoute("test", RequestMatch(headers=tuple(headers))),) if headers else ()


def _compiled(part: SettingsReader, path: str, value: Any, count: list[int], *, depth: int) -> Any:
    if depth > _DEPTH_MAX:
        part.refuse(path, "is nested too deeply")
        return None
    match value:
        case {"cel": str(source)} if len(value) == 1:
            count[0] += 1
            return part.compiled(f"{path}.cel", source, variables=VARIABLES, result=Result.ANY)
        case Mapping():
            return {
                name: _compiled(part, f"{path}.{name}", each, count, depth=depth + 1) for name, each in value.items()
            }
        case list():
            return [_compiled(part, f"{path}[{at}]", each, count, depth=depth + 1) for at, each in enumerate(value)]
        case _:
            return value


def _evaluated(value: Any, data: Mapping[str, Any]) -> Any:
    match value:
        case Expression():
            return value.value(data)
        case Mapping():
            return {name: _evaluated(each, data) for name, each in value.items()}
        case list():
            return [_evaluated(each, data) for each in value]
        case _:
            return value


def _merged(own: Any, more: Any) -> Any:
    if not isinstance(own, dict) or not isinstance(more, dict):
        return more
    return {**own, **{name: _merged(own.get(name), each) for name, each in more.items()}}
