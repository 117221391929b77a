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
    pod_total,
    resources_of,
)
from rollouts.objects import Manifest, mapping


def defaults_of(limit_ranges: Iterable[Manifest]) -> Mapping[ResourceSide, Mapping[str, Any]]:
    """What containers get that state nothing. Of several objects the first counts; Kubernetes does not say which."""
    defaults: dict[ResourceSide, dict[str, Any]] = {"limits": {}, "requests": {}}
    for limit_range in limit_ranges:
        own: dict[ResourceSide, dict[str, Any]] = {"limits": {}, "requests": {}}
        for item in _items(limit_range, "Container"):
            own["limits"] |= mapping(item.get("default"))
            own["requests"] |= mapping(item.get("defaultRequest"))
        defaults = {side: {**own[side], **defaults[side]} for side in defaults}
    return defaults


def refusals(pod: Mapping[str, Any], limit_range: Manifest) -> Iterator[str]:
    """Why it refuses every pod with this spec, which is from `requests.as_created`.

    For example: `container app has a cpu limit of 2, and 1 is the most`.
    """
    for item in _items(limit_range, "Container"):
        for container in containers_of(pod):
            who = f"container {container.get('name')}"
            yield from _refused(item, who, resources_of(container, "requests"), resources_of(container, "limits"))
    for item in _items(limit_range, "Pod"):
        requests, limits = (pod_total(pod, side, overhead=False) for side in ("requests", "limits"))
        yield from _refused(item, "the pod", requests, limits)


def _items(limit_range: Manifest, of: str) -> Iterator[Mapping[str, Any]]:
    for _, item in entries(mapping(limit_range.get("spec")).get("limits")):
        if item.get("type") == of:
            yield item


def _refused(item: Mapping[str, Any], who: str, requests: Amounts, limits: Amounts) -> Iterator[str]:
    stated = {"request": requests, "limit": limits}
    bounds = [("min", "request", "least", name, bound) for name, bound in amounts(item.get("min")).items()]
    bounds += [("max", "limit", "most", name, bound) for name, bound in amounts(item.get("max")).items()]
    for side, needed, word, name, bound in bounds:
        rule = f"{amount_text(name, bound)} is the {word}"
        if name not in stated[needed]:
            yield f"{who} has no {name} {needed}, and {rule}"
        for what, given in stated.items():
            if name in given and (given[name] < bound if side == "min" else given[name] > bound):
                yield f"{who} has a {name} {what} of {amount_text(name, given[name])}, and {rule}"
    for name, ratio in amounts(item.get("maxLimitRequestRatio")).items():
        request, limit = (given.get(name, Fraction(0)) for given in (requests, limits))
        if not request or not limit:
            yield f"{who} needs a {name} request and a {name} limit, both above 0"
        elif limit / request > ratio:
            yield f"{who} has a {name} limit of {float(limit / request):g} times its request, and {float(ratio):g} is the most"
