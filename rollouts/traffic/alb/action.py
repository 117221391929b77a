"""The JSON of an `actions.<Service>` annotation, read as the AWS Load Balancer Controller reads it: keys have no case.

That controller decodes with Go's encoding/json, which prefers the exact key and accepts any case. Argo Rollouts writes `Type` and
`ForwardConfig`, people write keys as in AWS's documentation. A change keeps the spelling that it finds.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from rollouts.errors import Unroutable
from rollouts.objects import Manifest
from rollouts.traffic.codec import Context
from rollouts.traffic.rules.weights import Weights


class Action(Struct, frozen=True):
    """An action of type forward, with its target groups."""

    whole: Manifest
    config: Manifest
    groups: list[Manifest]

    @classmethod
    def of(cls, text: str) -> Action:
        """Parses the annotation's text. Raises: Unroutable, when it does not split requests between target groups."""
        try:
            whole = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Unroutable(f"its action is not valid JSON ({error}); correct the annotation") from error
        kind = get(whole, "type", "forward")
        if kind != "forward":
            raise Unroutable(
                f"its action is of type {kind}, which cannot split requests; change it to a forward with forwardConfig"
            )
        config = get(whole, "forwardConfig", {})
        groups = get(config, "targetGroups", None)
        if not isinstance(groups, list) or not all(isinstance(each, dict) for each in groups):
            raise Unroutable("its action has no list forwardConfig.targetGroups; correct the annotation")
        return cls(whole, config, groups)

    def pair(self, context: Context) -> Weights:
        """The weights of the two Services; a target group without a weight has 1. Raises: Unroutable."""
        weights: dict[str | None, int] = {}
        for group in self.groups:
            weight = get(group, "weight", 1)
            if not isinstance(weight, int) or isinstance(weight, bool) or weight < 0:
                raise Unroutable(
                    f"its action has a weight that is not a whole number, {weight!r}; correct the annotation"
                )
            weights[service_of(group)] = weight
        needed = (context.stable_service, *([context.canary_service] if context.ping_pong else []))
        for service in needed:
            if service not in weights:
                raise Unroutable(f"its action has no target group for Service {service}; add one")
        return Weights(weights[context.stable_service], weights.get(context.canary_service, 0))

    def changed(self, groups: list[Manifest], stickiness: Manifest | None) -> str:
        """The annotation's text with these target groups and stickiness; None leaves the stickiness as it is."""
        config = put(self.config, "targetGroups", groups)
        if stickiness is not None:
            config = put(config, "targetGroupStickinessConfig", stickiness)
        return json.dumps(put(self.whole, "forwardConfig", config), separators=(",", ":"))


def service_of(group: Manifest) -> str | None:
    """Name of a target group's Service; None when it names none. Raises: Unroutable, when it is no text."""
    found = get(group, "serviceName", None)
    if found is None or isinstance(found, str):
        return found
    raise Unroutable("its action has a serviceName that is not a text; correct the annotation")


def get(value: Any, name: str, absent: Any) -> Any:
    """A field of an object, whatever the case of its key; `absent` when it is left out or null.

    Raises: Unroutable when the field has two spellings, or when `value` is not an object.
    """
    key = _key(value, name)
    return absent if key is None or value[key] is None else value[key]


def put(value: Manifest, name: str, part: Any) -> Manifest:
    """The object with that field, under the spelling that it has already."""
    return {**value, _key(value, name) or name: part}


def _key(value: Any, name: str) -> str | None:
    if not isinstance(value, dict):
        raise Unroutable(f"its action has {name} in something that is not an object; correct the annotation")
    found = [key for key in value if key.lower() == name.lower()]
    if len(found) > 1:
        raise Unroutable(f"its action has both {' and '.join(found)}; keep one of them")
    return found[0] if found else None
