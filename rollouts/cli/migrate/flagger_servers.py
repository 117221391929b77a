"""The servers of Flagger's MetricTemplates: the metric and the MetricProvider that ask each of them here.

Source: https://docs.flagger.app/usage/metrics
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from rollouts.cli.migrate.vendors import TO_BE_SET, VendorSecret
from rollouts.core.analysis.recipes import RECIPES
from rollouts.metrics.kubernetes_values import go_duration_s
from rollouts.objects import Manifest

EACH = "{}"
"""In place of the number where a condition is about each of several."""

_CLOUD_WATCH_LOOKS_BACK = 10
"""Intervals: CloudWatch is minutes late, so Flagger asks for as many, and so does what comes out."""


class FlaggerServer(Struct, frozen=True, kw_only=True):
    """How a type of MetricTemplate is asked here.

    Args:
        kind: of the recipe.
        result: what a condition writes for the one number, or EACH.
        metric: the fields of the metric, from the query and the interval. Raises: ValueError for a query that is none.
        url: of the server, from the `provider` of the MetricTemplate; "" for the Secret's own.
        left: what an administrator has to do besides.
    """

    kind: str
    secret: VendorSecret
    result: str = "result"
    metric: Callable[[str, str], Manifest] = lambda query, _: {"query": query}
    url: Callable[[Mapping[str, Any]], str] = lambda provider: str(provider.get("address") or "")
    left: tuple[str, ...] = ()

    def fields(self, query: str, interval: str) -> Manifest:
        """The fields of the metric. Raises: ValueError for a query that is none."""
        looks_back = "interval_s" in RECIPES[self.kind].fields.__struct_fields__
        return {**({"interval": interval} if looks_back else {}), **self.metric(query, interval)}


def _cloud_watch_metric(query: str, interval: str) -> Manifest:
    try:
        queries = _with_small_letters(json.loads(query))
    except (RecursionError, ValueError) as exc:
        raise ValueError("no JSON of queries") from exc
    if not isinstance(queries, list) or not all(isinstance(each, dict) for each in queries):
        raise ValueError("no list of queries")
    seconds = int((go_duration_s(interval) or 60.0) * _CLOUD_WATCH_LOOKS_BACK)
    return {"interval": f"{seconds}s", "metricDataQueries": queries}


def _with_small_letters(value: Any) -> Any:
    """AWS's names as AnalysisTemplates have them."""
    match value:
        case dict():
            return {name[:1].lower() + name[1:]: _with_small_letters(part) for name, part in value.items()}
        case list():
            return [_with_small_letters(part) for part in value]
        case _:
            return value


def _new_relic_metric(query: str, interval: str) -> Manifest:
    return {"query": f"{' '.join(query.split())} SINCE {int(go_duration_s(interval) or 60)} seconds ago"}


def _stream_of_splunk(provider: Mapping[str, Any]) -> str:
    """Programs run on another host than the one that people give."""
    scheme, sign, host = str(provider.get("address") or "").partition("://")
    if not sign:
        return ""
    return f"{scheme.replace('ws', 'http', 1)}://{host.replace('api.', 'stream.', 1)}"


_DATADOG_KEYS = {"DD-API-KEY": "datadog_api_key", "DD-APPLICATION-KEY": "datadog_application_key"}

FLAGGER: Mapping[str, FlaggerServer] = {
    "datadog": FlaggerServer(
        kind="datadog", secret=VendorSecret(url="https://api.datadoghq.com", headers=_DATADOG_KEYS)
    ),
    "dynatrace": FlaggerServer(kind="dynatrace", secret=VendorSecret(bearer="dynatrace_token")),
    "splunk": FlaggerServer(
        kind="splunk", secret=VendorSecret(headers={"X-SF-TOKEN": "sf_token_key"}), url=_stream_of_splunk
    ),
    "graphite": FlaggerServer(kind="graphite", secret=VendorSecret(), result=EACH),
    "influxdb": FlaggerServer(kind="influxdb", secret=VendorSecret(bearer="token", settings=("org",)), result=EACH),
    "cloudwatch": FlaggerServer(
        kind="cloudWatch",
        secret=VendorSecret(url=TO_BE_SET),
        result="result[0].Values[0]",
        metric=_cloud_watch_metric,
        url=lambda provider: f"https://monitoring.{region}.amazonaws.com" if (region := provider.get("region")) else "",
    ),
    "newrelic": FlaggerServer(
        kind="newRelic",
        secret=VendorSecret(
            url="https://api.newrelic.com", headers={"API-Key": "newrelic_query_key"}, settings=("accountId",)
        ),
        result="result.result",
        metric=_new_relic_metric,
        url=lambda _: "",
        left=("a user's API key into the Secret, as NerdGraph takes no query key",),
    ),
    "stackdriver": FlaggerServer(
        kind="cloudMonitoring",
        secret=VendorSecret(url="https://monitoring.googleapis.com", bearer="token", settings=("project",)),
        left=("an access token of Google into key token of the Secret, and renew it there",),
    ),
}
"""By the type of a MetricTemplate."""
