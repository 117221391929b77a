"""What a LimitRange adds to the containers of a new pod, and why it refuses one. Pure.

Sources: https://kubernetes.io/docs/concepts/policy/limit-range/ · kubernetes, plugin/pkg/admission/limitranger/admission.go
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from rollouts.cli.kubernetes.parts import entries
from rollouts.cli.kubernetes.requests import (
    Amounts,
    ResourceSide,
    amount_text,
    amounts,
    containers_of,
    resources_of,
    together,
)
from rollouts.objects import Manifest, mapping


def defaults_of(limit_ranges: Iterable[Manifest]) -> Mapping[ResourceSide, Mapping[str, Any]]:
    """What containers get that state nothing. Of several objects the first counts; Kubernetes does not say which."""
    limits: dict[str, Any] = {}
    requests: dict[str, Any] = {}
    for limit_range in limit_ranges:
        own_limits: dict[str, Any] = {}
        own_requests: dict[str, Any] = {}
        for item in _items(limit_range, "Container"):
            own_limits |= mapping(item.get("default"))
            own_requests |= mapping(item.get("defaultRequest"))
        limits, requests = {**own_limits, **limits}, {**own_requests, **requests}
    return {"limits": limits, "requests": requests}


def refusals(pod: Mapping[str, Any], limit_range: Manifest) -> Iterator[str]:
    """Why it refuses every pod with this spec, which is from `requests.as_created`.

    For example: `container app has a cpu limit of 2, and 1 is the most`.
    """
    for item in _items(limit_range, "Container"):
        for container in containers_of(pod):
            who = f"container {container.get('name')}"
            yield from _refused(item, who, resources_of(container, "requests"), resources_of(container, "limits"))
    for item in _items(limit_range, "Pod"):
        requests, limits = (together(pod, side, overhead=False) for side in ("requests", "limits"))
        yield from _refused(item, "the pod", requests, limits)


def _items(limit_range: Manifest, of: str) -> Iterator[Mapping[str, Any]]:
    for _, item in entries(mapping(limit_range.get("spec")).get("limits")):
        if item.get("type") == of:
            yield item


def _refused(item: Mapping[str, Any], who: str, requests: Amounts, limits: Amounts) -> Iterator[str]:
    stated = (("request", requests), ("limit", limits))
    for name, least in amounts(item.get("min")).items():
        if name not in requests:
            yield f"{who} has no {name} request, and {amount_text(name, least)} is the least"
        for what, each in stated:
            if name in each and each[name] < least:
                yield f"{who} has a {name} {what} of {amount_text(name, each[name])}, and {amount_text(name, least)} is the least"
    for name, most in amounts(item.get("max")).items():
        if name not in limits:
            yield f"{who} has no {name} limit, and {amount_text(name, most)} is the most"
        for what, each in stated:
            if name in each and each[name] > most:
                yield f"{who} has a {name} {what} of {amount_text(name, each[name])}, and {amount_text(name, most)} is the most"
    for name, ratio in amounts(item.get("maxLimitRequestRatio")).items():
        request, limit = (each.get(name, Fraction(0)) for each in (requests, limits))
        if not request or not limit:
            yield f"{who} needs a {name} request and a {name} limit, both above 0"
        elif limit / request > ratio:
            yield f"{who} has a {name} limit of {float(limit / request):g} times its request, and {float(ratio):g} is the most"
