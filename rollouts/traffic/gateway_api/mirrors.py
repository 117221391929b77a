"""Mirrors of the Gateway API: a filter of a rule that sends copies of its requests to one more backend.

Source: gateway-api v1.6.1, HTTPRequestMirrorFilter.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from rollouts.core.model.traffic import MirrorRoute
from rollouts.objects import Manifest


def with_mirror(rule: Manifest, mirror: MirrorRoute, backend: Manifest) -> Manifest:
    """The rule with copies of its requests going to the backend's Service."""
    to = {name: backend[name] for name in ("group", "kind", "name", "namespace", "port") if name in backend}
    percent = {"percent": mirror.percent} if mirror.percent < 100 else {}
    ours = {"type": "RequestMirror", "requestMirror": {"backendRef": to, **percent}}
    return {**rule, "filters": [*(rule.get("filters") or ()), ours]}


def without_mirrors(rule: Manifest, is_ours: Callable[[Manifest], bool]) -> Manifest:
    """The rule without mirrors to our backends, and without a list of filters that is then empty; `rule` if nothing changes."""
    filters = rule.get("filters") or []
    kept = [each for each in filters if not is_ours((each.get("requestMirror") or {}).get("backendRef") or {})]
    if len(kept) == len(filters):
        return rule
    rest = {name: value for name, value in rule.items() if name != "filters"}
    return {**rest, "filters": kept} if kept else rest


def copied_percents(rule: Manifest, is_canary: Callable[[Manifest], bool]) -> tuple[Fraction, ...]:
    """For each mirror of a rule to the canary Service, the percentage of requests that it copies."""
    percents = []
    for each in rule.get("filters") or ():
        mirror = each.get("requestMirror") or {}
        if not is_canary(mirror.get("backendRef") or {}):
            continue
        if (part := mirror.get("fraction")) is not None:
            percents.append(100 * Fraction(int(part.get("numerator", 0)), int(part.get("denominator") or 100)))
        else:
            percents.append(Fraction(100 if mirror.get("percent") is None else mirror["percent"]))
    return tuple(percents)
