"""The analyses of a planned update: whether a run can be made of each, with the templates of the file and of the cluster.

The controller's own builder of runs decides, as it does when the analysis begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rollouts.api.spec.analysis.arguments import Updated, with_its_template
from rollouts.api.spec.analysis.in_rollouts import templates_named, use_in
from rollouts.api.spec.analysis.run import parse_run
from rollouts.api.spec.analysis.templates import TemplateName, run_of
from rollouts.api.spec.experiment_step import experiment_of, pods_beside
from rollouts.cli.commands.lint_analysis import WITH_AN_END, endless_words
from rollouts.cli.commands.templates import TemplatesByName, gathered, templates_in
from rollouts.cli.view.session import Session
from rollouts.cluster.decoding import json_object
from rollouts.core.advice.findings import Finding, Rule, Severity
from rollouts.core.model.analysis import AnalysisKind
from rollouts.core.model.rollout import RolloutSpec, written_analyses
from rollouts.errors import ApiForbidden, ApiNotFound, SpecInvalid
from rollouts.objects import Manifest


async def read_templates(
    session: Session, spec: RolloutSpec, manifests: Sequence[Manifest], *, namespace: str
) -> TemplatesByName | None:
    """The templates of a Rollout's analyses, of the file before those of the cluster; None when they may not be read.

    Raises: what `Client` raises.
    """
    found = written_analyses(spec.strategy).values()
    if not found:
        return {}
    here = [
        manifest for manifest in manifests if (manifest.get("metadata") or {}).get("namespace", namespace) == namespace
    ]
    files, names = templates_in(here), [name for analysis in found for name in templates_named(analysis)]
    try:
        return await gathered(session, names, files, namespace=namespace)
    except ApiForbidden:
        return None
    except ApiNotFound:  # the cluster serves none: those of the file are all there are
        return files


def analysis_findings(rollout: Manifest, spec: RolloutSpec, templates: TemplatesByName | None) -> Iterator[Finding]:
    """What keeps an analysis of the applied Rollout from beginning: a template missing or wrong, an argument without a value."""
    if templates is None:
        what = "nobody knows whether its templates are right: you may not read AnalysisTemplates or ClusterAnalysisTemplates"
        yield Finding(Rule.ANALYSIS_INVALID, Severity.NOTE, "spec.strategy", what, "get the right to read them")
        return

    def find(name: TemplateName) -> Mapping[str, Any] | None:
        template = templates.get(name)
        return template["spec"] if template is not None and isinstance(template.get("spec"), dict) else None

    manifest = with_its_template(rollout, json_object(spec.template_json))
    of = Updated(manifest=manifest, stable="stable", latest=spec.revision)
    for gate, analysis in written_analyses(spec.strategy).items():
        try:
            if gate.kind is AnalysisKind.EXPERIMENT:
                experiment_of(analysis, find, of, pods_beside(spec))
            elif (why := endless_words(parse_run(run_of(use_in(analysis), find, of)), gate)) is not None:
                yield Finding(Rule.ANALYSIS_INVALID, Severity.UNSAFE, analysis.path, why, WITH_AN_END)
        except SpecInvalid as invalid:
            for problem in invalid.problems:
                if problem.may_come:
                    what = f"{problem.message} yet: the analysis waits at its place in the update until it is"
                    yield Finding(
                        Rule.ANALYSIS_INVALID, Severity.NOTE, problem.path, what, "see that it is there by then"
                    )
                    continue
                what = (
                    f"{problem.message}: the update does not begin, and has no pods before every analysis can be made"
                )
                fix = "mend it, or create what is missing; here or in the cluster"
                yield Finding(Rule.ANALYSIS_INVALID, Severity.UNSAFE, problem.path, what, fix)
