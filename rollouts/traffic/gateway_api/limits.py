"""The sizes that the CRDs of the Gateway API allow, so that a route that is too large is reported before it is refused.

Source: gateway-api v1.6.1, validation of HTTPRoute and GRPCRoute.
"""

from __future__ import annotations

from rollouts.errors import Unroutable
from rollouts.objects import Manifest

_RULES_MOST, _MATCHES_MOST, _MATCHES_IN_ALL, _CONDITIONS_MOST, _FILTERS_MOST, _BACKENDS_MOST = 16, 64, 128, 16, 16, 16


def check_limits(user: Manifest) -> None:
    """Raises: Unroutable for a route that the API server would refuse."""
    rules: list[Manifest] = user["spec"]["rules"]
    if any(map(_replaces_other_than_one_prefix, rules)):
        raise Unroutable(
            "a rule with replacePrefixMatch has exactly one match, of a PathPrefix; remove exact paths, regular expressions "
            "and further matches from the step, or name the other rules in the spec"
        )
    matches = [rule.get("matches") or [] for rule in rules]
    every = [match for some in matches for match in some]
    conditions = [match.get(name) or () for match in every for name in ("headers", "queryParams")]
    for what, count, most in (
        ("rules", len(rules), _RULES_MOST),
        ("matches in one rule", max(map(len, matches)), _MATCHES_MOST),
        ("matches in total", len(every), _MATCHES_IN_ALL),
        ("headers or query parameters in one match", max(map(len, conditions), default=0), _CONDITIONS_MOST),
        ("filters in one rule", max(len(rule.get("filters") or ()) for rule in rules), _FILTERS_MOST),
        ("backends in one rule", max(len(rule.get("backendRefs") or ()) for rule in rules), _BACKENDS_MOST),
    ):
        if count > most:
            raise Unroutable(
                f"it would have {count} {what}, and at most {most} are allowed; split the route in two, "
                "or name the rules to manage in the spec"
            )


def _replaces_other_than_one_prefix(rule: Manifest) -> bool:
    rewrites = [(each.get("urlRewrite") or {}).get("path") or {} for each in rule.get("filters") or ()]
    paths = [(each.get("path") or {}).get("type", "PathPrefix") for each in rule.get("matches") or [{}]]
    return any(each.get("type") == "ReplacePrefixMatch" for each in rewrites) and paths != ["PathPrefix"]
