"""Comparisons of canary and stable: templates of them, and one bad one for every rule."""

from __future__ import annotations

from typing import Any

from tests.api.specs import GONE, Bad, Spec, changed

COMPARED: Spec = {
    "canary": "{{args.canary-hash}}",
    "stable": "{{args.stable-hash}}",
    "of": {"prometheus": {"query": 'http_requests_total{hash="{{arm}}",code=~"5.."}'}},
    "total": 'http_requests_total{hash="{{arm}}"}',
    "effect": "1%",
}


def compare(rules: Spec | None = None, **changes: Any) -> Spec:
    """A template of one comparison; its arms are arguments."""
    usual = {"name": "errors", "interval": "30s", "count": 20}
    return {
        "args": [{"name": "canary-hash", "value": "7f9c"}, {"name": "stable-hash", "value": "5d8b"}],
        "metrics": [changed({**usual, "provider": {"compare": changed(COMPARED, **changes)}}, **(rules or {}))],
    }


RANKS: Spec = {
    "prometheus": {
        "query": 'histogram_quantile(0.95, sum by (le) (rate(seconds_bucket{hash="{{arm}}"}[1m])))',
        "rangeQuery": {"start": 'now() - duration("20m")', "end": "now()", "step": "1m"},
    }
}
LATENCY: Spec = {"prometheus": {"query": 'max(seconds{hash="{{arm}}"})'}}
_COMPARE = "spec.metrics[0].provider.compare"

BAD_COMPARISONS: tuple[Bad, ...] = (
    Bad("comparison of a canary with itself", compare(stable="{{args.canary-hash}}"), f"{_COMPARE}.stable", "the same"),
    Bad("comparison without a canary", compare(canary=GONE), f"{_COMPARE}.canary", "is required"),
    Bad("comparison of nothing", compare(of={}), f"{_COMPARE}.of.prometheus", "is required"),
    Bad("comparison without an effect", compare(effect=GONE), f"{_COMPARE}.effect", "is required"),
    Bad("effect of nothing", compare(effect="0"), f"{_COMPARE}.effect", "above 0"),
    Bad("effect below nothing", compare(effect="-1%"), f"{_COMPARE}.effect", "above 0"),
    Bad("effect of everything", compare(effect="100%"), f"{_COMPARE}.effect", "below 100%"),
    Bad("effect that is a word", compare(effect="NaN"), f"{_COMPARE}.effect", "must be a number"),
    Bad("alpha of a coin", compare(alpha="0.5"), f"{_COMPARE}.alpha", "up to 0.2"),
    Bad("alpha of nothing", compare(alpha="0"), f"{_COMPARE}.alpha", "up to 0.2"),
    Bad("alpha above everything", compare(alpha="5"), f"{_COMPARE}.alpha", "up to 0.2"),
    Bad("comparison without an end", compare({"count": GONE}), "spec.metrics[0].count", "is required"),
    Bad("comparison of one look", compare({"interval": GONE}), "spec.metrics[0].interval", "is required"),
    Bad("rate of nothing", compare(total=GONE), f"{_COMPARE}.total", "is required of a rate"),
    Bad("value with a total", compare(kind="value"), f"{_COMPARE}.total", "has no meaning"),
    Bad(
        "comparison that asks the same of both arms",
        compare(of={"prometheus": {"query": "errors_total"}}),
        f"{_COMPARE}.of.prometheus.query",
        "must have {{arm}}",
    ),
    Bad(
        "rate of a rate",
        compare(total='sum(rate(http_requests_total{hash="{{arm}}"}[1m]))'),
        f"{_COMPARE}.total",
        "must select counters",
    ),
    Bad(
        "ranks again and again",
        compare(test="mannWhitney", kind="value", of=RANKS, total=GONE),
        "spec.metrics[0].count",
        "must not be given",
    ),
    Bad(
        "ranks of one moment",
        compare({"interval": GONE, "count": GONE}, test="mannWhitney", kind="value", of=LATENCY, total=GONE),
        f"{_COMPARE}.of.prometheus.rangeQuery",
        "is required with mannWhitney",
    ),
    Bad(
        "looks at ranges",
        compare(kind="value", of=RANKS, total=GONE),
        f"{_COMPARE}.of.prometheus.rangeQuery",
        "is for mannWhitney",
    ),
    Bad(
        "condition beside a comparison",
        compare({"successCondition": "result[0] < 1"}),
        "spec.metrics[0].successCondition",
        "has no meaning beside compare",
    ),
    Bad("limit beside a comparison", compare({"failureLimit": 3}), "spec.metrics[0].failureLimit", "has no meaning"),
)
