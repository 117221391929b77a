"""One number from Prometheus' HTTP API, for what is in flight. No evidence is never nothing: it is None, and why.

Source: https://prometheus.io/docs/prometheus/latest/querying/api/#instant-queries
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

QUERY_PATH = "/api/v1/query"


def in_flight(body: bytes) -> tuple[int | None, str]:
    """The count that an instant query gave, rounded up; None and the reason when it gave none.

    Raises: msgspec.DecodeError when it is no answer of Prometheus'.
    """
    answer = msgspec.json.decode(body, type=_Answer)
    if answer.status != "success" or answer.data is None:
        return None, f"the query failed: {answer.error_type}: {answer.error}"
    if answer.warnings:
        return None, f"the answer may be of a part only: {answer.warnings[0]}"
    match answer.data.result_type:
        case "scalar":
            sample: Any = answer.data.result
        case "vector" if isinstance(answer.data.result, list):
            if len(answer.data.result) != 1:
                many = f"{len(answer.data.result)} series, sum() makes them one" if answer.data.result else "no series"
                return None, f"the query gave {many}"
            first = answer.data.result[0]
            sample = first.get("value") if isinstance(first, dict) else None
        case other:
            return None, f"the query gave a {other}, not one number"
    return _count(sample)


def _count(sample: object) -> tuple[int | None, str]:
    """From Prometheus' `[time, "value"]`."""
    try:
        value = float(sample[1])  # type: ignore[index]
    except (TypeError, IndexError, KeyError, ValueError):
        return None, "the query gave no number"
    if not math.isfinite(value) or value < 0:
        return None, f"the query gave {value:g}, which is no count"
    return math.ceil(value), ""


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: Any = None


class _Answer(msgspec.Struct, rename="camel"):
    status: str = ""
    data: _Data | None = None
    error_type: str = ""
    error: str = ""
    warnings: list[str] | None = None
