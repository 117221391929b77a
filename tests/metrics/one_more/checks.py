"""What the API, its CRDs and `lint` know of one more server; run by `test_one_more_server_is_one_module_and_its_fake.py`."""

from __future__ import annotations

import yaml

from rollouts.api.schema import crd_files
from rollouts.objects import ANALYSIS_TEMPLATE, METRIC_PROVIDER, Manifest
from tests import build
from tests.linted import lint_text

HEADER = {"name": "X-Stats-Key", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "k"}}}


def _problems(*, fields: Manifest, headers: list[Manifest]) -> list[str]:
    spec = {"url": "https://it.example", "type": "statsBox", "headers": headers}
    metric = {"name": "m", "successCondition": "result < 5", "provider": {"statsBox": fields}}
    template = build.manifest(ANALYSIS_TEMPLATE, "t", "shop", spec={"metrics": [metric]})
    found = lint_text(yaml.safe_dump_all([build.manifest(METRIC_PROVIDER, "it", None, spec=spec), template]))
    return [each.message for each in found.problems]


def test_the_crds_of_statsbox_have_its_fields() -> None:
    """In a template, with what its author is told of each; and as a type of a MetricProvider."""
    files = crd_files()

    for kind in ("analysistemplates", "clusteranalysistemplates", "analysisruns"):
        text = files[f"rollouts.dev_{kind}.yaml"]
        assert "statsBox:" in text
        assert "The query: errors{service=cart}." in text
    assert '"statsBox"' in files["rollouts.dev_metricproviders.yaml"]


def test_a_metric_of_statsbox_is_checked() -> None:
    """What it needs is known from its declaration."""
    assert _problems(fields={"query": "errors", "interval": "10m"}, headers=[HEADER]) == []
    (needed,) = _problems(fields={"interval": "10m"}, headers=[HEADER])
    assert "provider.statsBox.query: is required" in needed
    (header,) = _problems(fields={"query": "errors"}, headers=[])
    assert "X-Stats-Key" in header
