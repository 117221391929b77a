"""InfluxDB 2, which answers in annotated CSV.

Sources: https://docs.influxdata.com/influxdb/v2/reference/syntax/annotated-csv/, and its API, POST /api/v2/query.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from tests.metrics.answers import MARK, NOW_S
from tests.metrics.servers.fake import Asked, Fake, Series, answered, one

QUERY = 'from(bucket: "shop") |> range(start: -5m) |> filter(fn: (r) => r._measurement == "errors")'


def _objection(asked: Asked) -> str:
    if (asked.method, asked.path, asked.parameter("org")) != ("POST", "/api/v2/query", "shop"):
        return "no such path, or organisation"
    if asked.headers.get("accept") != "application/csv":
        return "another form"
    dialect = {"annotations": ["datatype", "group", "default"], "header": True}
    return "" if asked.body == {"query": QUERY, "type": "flux", "dialect": dialect} else "another query"


def _cell(value: Any) -> str:
    return "" if value is None else json.dumps(value) if isinstance(value, int | float) else f'"{value}"'


def _time(at_s: Any) -> str:
    if isinstance(at_s, bool) or not isinstance(at_s, int | float) or not 0 <= at_s < 1e11:
        return str(at_s)
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _table(place: int, rows: Sequence[str], names: str, types: str) -> str:
    count = names.count(",")
    heads = [f"#datatype,{types}", "#group" + ",false" * count, "#default,_result" + "," * (count - 1), names]
    return "".join(f"{line}\r\n" for line in [*heads, *(f",,{place},{row}" for row in rows)]) + "\r\n"


def _body(series: Sequence[Series]) -> bytes:
    """Flux has one type for a column, so what is no number makes it one of texts."""
    tables = []
    for place, each in enumerate(series):
        numbers = all(value is None or (type(value) in (int, float)) for _, value in each)
        types = f"string,long,dateTime:RFC3339,{'double' if numbers else 'string'},string"
        rows = [f"{_time(at_s)},{_cell(value)},{MARK}" for at_s, value in each]
        tables.append(_table(place, rows, ",result,table,_time,_value,_field", types))
    return "".join(tables).encode()


def _rows(
    text: str, names: str = ",result,table,_time,_value", types: str = "string,long,dateTime:RFC3339,double"
) -> Any:
    return answered(_table(0, [text], names, types).encode())


_GOOD = f"{_time(NOW_S)},1"
_ERROR = b"#datatype,string,string\r\n#group,true,true\r\n#default,,\r\n,error,reference\r\n,failed to read,897\r\n"
_BARE = f",result,table,_time,_value\r\n,,0,{_GOOD}\r\n".encode()

FAKES = (
    Fake(
        name="influxdb",
        kind="influxdb",
        metric={"query": QUERY},
        objection=_objection,
        body=_body,
        result="result[0]",
        whole=True,
        rows=True,
        bearer=True,
        scheme="Token",
        settings={"org": "shop"},
        refused=(404, {"code": "not found", "message": "organization name not found"}),
        bad={
            "an error with 200": answered(_ERROR),
            "an error after good rows": answered(_body(one(1)) + _ERROR),
            "a table without its types": answered(_BARE),
            "a row with fewer columns": answered(_body(one(1)) + b"#datatype,string\r\n,result\r\n,,,,\r\n"),
            "no column of values": _rows(_GOOD, ",result,table,_time,value"),
            "values that are texts": _rows(_GOOD, types="string,long,dateTime:RFC3339,string"),
            "values that are truths": _rows(f"{_time(NOW_S)},true", types="string,long,dateTime:RFC3339,boolean"),
            "a number in hexadecimal": _rows(f"{_time(NOW_S)},0x10"),
            "a number with underscores": _rows(f"{_time(NOW_S)},1_000"),
            "infinity": _rows(f"{_time(NOW_S)},+Inf"),
            "NaN": _rows(f"{_time(NOW_S)},NaN"),
            "a time without a zone": _rows("2026-09-21T14:13:20,1"),
            "a time that is none": _rows("today,1"),
            "a quote that does not end": answered(_body(one(1)) + b',,0,"1\r\n'),
        },
    ),
)

WHOLE = [("influxdb", {"metricProvider": "influxdb", "query": QUERY, "profile": "influxdb"})]
