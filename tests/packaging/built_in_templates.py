"""The ClusterAnalysisTemplates of the chart, and what their queries are with values in the places of arguments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from rollouts.api.spec.analysis.arguments import Updated
from rollouts.api.spec.analysis.run import parse_run
from rollouts.api.spec.analysis.templates import AnalysisUse, TemplateName, run_of
from rollouts.api.v1alpha1.analysis import TemplateRef
from rollouts.api.v1alpha1.analysis_template import TemplateArgument
from rollouts.core.analysis.metric import Metric
from rollouts.core.analysis.source import PrometheusQuery

FILES = sorted((Path(__file__).parents[2] / "helm" / "rollouts" / "files" / "analysis-templates").glob("*.yaml"))
TEMPLATES: Mapping[str, dict[str, Any]] = {
    template["metadata"]["name"]: template
    for path in FILES
    for template in yaml.safe_load_all(path.read_text(encoding="utf-8"))
}


def metric_of(name: str, arguments: Mapping[str, str], *, rollout: Mapping[str, Any] | None = None) -> Metric:
    """The one metric of a run that is made of a template with these arguments, and others that are taken from a Rollout."""
    given = tuple(TemplateArgument(name=each, value=value) for each, value in arguments.items())
    reference = TemplateRef.model_validate({"templateName": name, "clusterScope": True})
    use = AnalysisUse(path="spec", templates=(reference,), args=given)
    updated = None if rollout is None else Updated(manifest=rollout, stable="a1", latest="b2")

    def find(asked: TemplateName) -> Mapping[str, Any] | None:
        template = TEMPLATES.get(asked.name) if asked.cluster_scope else None
        return None if template is None else template["spec"]

    (metric,) = parse_run(run_of(use, find, updated)).metrics
    return metric


def query_of(name: str, arguments: Mapping[str, str]) -> str:
    """The PromQL of a template with these arguments."""
    source = metric_of(name, arguments).source
    assert isinstance(source, PrometheusQuery)
    return source.query
