"""Parts of the spec that the API leaves free: the settings of routers, the manifests of `trafficRouting.own`."""

from __future__ import annotations

from typing import Any


def json_value(value: Any) -> Any:
    """A copy with sorted fields, so that nothing depends on their order, and without nulls, which Kubernetes drops.

    Callers must not change it, because a spec is parsed once and shared.

    Raises: UnicodeEncodeError for a text that JSON cannot hold (a lone surrogate, from a YAML file); RecursionError.
    """
    match value:
        case dict():
            return {json_value(name): json_value(part) for name, part in sorted(value.items()) if part is not None}
        case list():
            return [json_value(part) for part in value]
        case str():
            value.encode()
            return value
        case _:
            return value
