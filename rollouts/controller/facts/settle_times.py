"""Settle times: how long to wait for a route where no data plane can be asked. The operator's figures override the codecs'."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from rollouts.core.model.traffic import SETTLE_S
from rollouts.errors import SettingsInvalid
from rollouts.traffic.codec import Target

MOST_S = 3600.0

SettleTimes: TypeAlias = Mapping[str, float]
"""Seconds by router (`alb`) or by gateway (`edge/public`)."""


def parse_settle_times(texts: Iterable[str]) -> SettleTimes:
    """Parses flags: `ROUTER=SECONDS` or `NAMESPACE/GATEWAY=SECONDS`. The cluster may declare the router later.

    Raises: SettingsInvalid for the first text that cannot be used, naming it and the remedy.
    """
    times: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not all(name.split("/")) or name.count("/") > 1 or (seconds := _seconds(number)) is None:
            raise SettingsInvalid(
                f"--settle-time: {text!r} is neither ROUTER=SECONDS nor NAMESPACE/GATEWAY=SECONDS; for example alb=120;"
                f" the most is {MOST_S:g}"
            )
        if name in times:
            raise SettingsInvalid(f"--settle-time: {name} is given twice")
        times[name] = seconds
    return MappingProxyType(times)


def settle_s(declared: SettleTimes, *, router: str, target: Target, gateways: tuple[str, ...]) -> float:
    """The seconds within which every proxy follows the route; of several gateways, the slowest one's.

    A figure for the gateway overrides one for its router, and that overrides the codec's own.
    """
    codecs = SETTLE_S if target.settle_s is None else target.settle_s
    otherwise = declared.get(router, codecs)
    return max((declared.get(gateway, otherwise) for gateway in gateways), default=otherwise)


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and 0 <= seconds <= MOST_S else None
