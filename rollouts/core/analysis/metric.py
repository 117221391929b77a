"""A metric of an analysis, resolved: every argument has its value. Field names and defaults are Argo Rollouts'.

Source: https://argo-rollouts.readthedocs.io/en/stable/features/analysis/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from msgspec import Struct

from rollouts.core.analysis.source import Fills, MetricSource
from rollouts.core.filled_texts import filled_body, filled_json, filled_url
from rollouts.core.model.frozen import replace
from rollouts.core.placeholders import Refuse, filled

MEASUREMENTS_KEPT = 10

METRICS_MAX = 64
"""Of a run, and so of a template."""

KEPT_MAX = 1000
"""Measurements of a metric: all of them are in the status, and an object of the API server has its limits."""


class NoData(StrEnum):
    """What a measurement without evidence is: no series, NaN, a value of another type. Never a success."""

    INCONCLUSIVE = "inconclusive"
    FAIL = "fail"
    WAIT = "wait"  # it does not count: the metric is measured again after its interval


class MetricRules(Struct, frozen=True, kw_only=True):
    """When a metric is measured, and how many of its measurements may go wrong.

    Args:
        interval_s: from the end of a measurement to the next; None for a single one, unless `count` says more.
        initial_delay_s: from the start of the run to the first measurement.
        count: measurements that are judged; None with an interval is without end, without one it is 1. Errors do not count. 0 is
            None.
        failure_limit, inconclusive_limit: so many are borne; a negative failure limit is off.
        consecutive_error_limit: so many errors in a row are borne.
        consecutive_success_limit: so many successes in a row end the metric; 0 is off.
        dry_run: it is measured and told, and changes no verdict.
        kept: measurements that the status keeps, the latest.
    """

    name: str
    interval_s: float | None = None
    initial_delay_s: float = 0.0
    count: int | None = None
    failure_limit: int = 0
    inconclusive_limit: int = 0
    consecutive_error_limit: int = 4
    consecutive_success_limit: int = 0
    dry_run: bool = False
    kept: int = MEASUREMENTS_KEPT

    @property
    def effective_count(self) -> int | None:
        """Measurements after which the metric is judged; None when it goes on until something ends it."""
        if self.count:
            return self.count
        return 1 if self.interval_s is None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricCondition:
    """What is good and what is bad, as people wrote it: an expression over `result`; "" for none.

    Args:
        no_data: what a measurement without evidence is.
        min_samples: numbers that a measurement needs at least to be evidence. With 0, conditions that all ask about what is
            missing or not finite (`len`, `isNil`, `default`, `??`, `isNaN`, `isInf`) decide about it themselves.
    """

    success: str = field(default="", repr=False)  # arguments that were filled in may be secrets
    failure: str = field(default="", repr=False)
    no_data: NoData = NoData.INCONCLUSIVE
    min_samples: int = 1


class SecretReference(Struct, frozen=True, kw_only=True):
    """An argument whose value is one key of a Secret in the namespace of the run.

    Args:
        argument: its name; `{{args.NAME}}` stands where the value goes.
    """

    argument: str
    name: str
    key: str


class Metric(Struct, frozen=True, kw_only=True):
    """One metric of a run, with the secrets that its source has places for."""

    rules: MetricRules
    condition: MetricCondition = MetricCondition()
    source: MetricSource
    secrets: tuple[SecretReference, ...] = ()


def with_secret_values(metric: Metric, values: Mapping[str, str], refuse: Refuse = lambda _name, _why: None) -> Metric:
    """The metric with the values in the places of its secrets; nothing that stands in a value is a place.

    Its result is for nobody's eyes, so it is made right before a request.

    Args:
        values: by the name of the argument; of all of `metric.secrets`.
        refuse: is given the argument of each value that may not stand in its place, and why, which has a part of the value.

    Raises: KeyError for a secret without a value.
    """
    known = {f"args.{secret.argument}": values[secret.argument] for secret in metric.secrets}
    if not known:
        return metric
    fills = Fills(
        plain=lambda text: filled(text, known.get),
        url=lambda text: filled_url(text, known.get, refuse),
        body=lambda text: filled_body(text, known.get, refuse),
        json=lambda text: filled_json(text, known.get, refuse),
        query=lambda text: text,  # no secret may stand in a query
    )
    return replace(metric, source=metric.source.filled(fills), secrets=())
