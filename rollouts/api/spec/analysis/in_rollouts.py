"""The analyses of a Rollout's spec: their rules, and what the core knows of them. What their templates say is read elsewhere."""

from __future__ import annotations

from rollouts.api.problems import Problems
from rollouts.api.spec.analysis.arguments import check_arguments
from rollouts.api.spec.analysis.name_rules import check_rules
from rollouts.api.spec.analysis.templates import AnalysisUse, TemplateName, use_of
from rollouts.api.spec.metadata import check_entries
from rollouts.api.spec.reading import check_needed, core_value
from rollouts.api.v1alpha1.analysis import AnalysisWire, BackgroundAnalysis
from rollouts.core.model.analysis import Analysis
from rollouts.objects import CLUSTER_ANALYSIS_TEMPLATE


def check_analysis(wire: AnalysisWire | None, path: str, problems: Problems) -> None:
    """Adds a problem for every rule that an analysis at `path` breaks."""
    if wire is None:
        return
    if not wire.templates:
        problems.add_missing(f"{path}.templates", "needs at least one template: without one nothing is measured")
    for index, reference in enumerate(wire.templates or ()):
        check_needed(reference, f"{path}.templates[{index}]", problems)
    if wire.on_deadline is not None and wire.deadline_seconds is None:
        problems.add(f"{path}.onDeadline", "needs deadlineSeconds: without it there is no deadline")
    use = use_of(wire, path)
    check_arguments(use.args, path, problems)
    check_rules(use.dry_run, use.measurement_retention, path, problems)
    if (metadata := wire.analysis_run_metadata) is not None:
        at = f"{path}.analysisRunMetadata"
        check_entries(metadata.labels or {}, f"{at}.labels", problems, labels=True)
        check_entries(metadata.annotations or {}, f"{at}.annotations", problems, labels=False)


def check_without_weight(wire: AnalysisWire | None, path: str, problems: Problems) -> None:
    """The same for an analysis with no weight to go back to: before the update, and of a blue-green one."""
    check_analysis(wire, path, problems)
    if wire is not None and wire.on_failure == "stepBack":
        problems.add(f"{path}.onFailure", "stepBack needs a weight to go back to, and there is none here: use hold")


def check_background(wire: BackgroundAnalysis | None, path: str, problems: Problems, *, steps: int) -> None:
    """The same for the analysis beside the steps."""
    check_analysis(wire, path, problems)
    if wire is not None and wire.deadline_seconds is not None:
        why = "has no meaning beside the steps: their end asks for its verdict; give the deadline to an analysis that is a step"
        problems.add(f"{path}.deadlineSeconds", why)
    if wire is not None and wire.starting_step and wire.starting_step >= steps:
        problems.add(
            f"{path}.startingStep",
            f"is {wire.starting_step}, and there are {steps} steps, with the indexes 0 to {steps - 1}: it would never run",
        )


def core_analysis(wire: AnalysisWire | None, path: str) -> Analysis | None:
    """The core's value of an analysis at `path`, which `check_analysis` has found right; None for none."""
    if wire is None:
        return None
    return core_value(
        Analysis,
        wire,
        path=path,
        settings=wire.model_dump(
            by_alias=True, exclude_none=True, exclude={"on_failure", "starting_step", "deadline_seconds", "on_deadline"}
        ),
        templates=tuple(
            f"{CLUSTER_ANALYSIS_TEMPLATE.kind}/{ref.template_name}" if ref.cluster_scope else ref.template_name or ""
            for ref in wire.templates or ()
        ),
    )


def templates_named(analysis: Analysis) -> tuple[TemplateName, ...]:
    """The templates of an analysis, or of all analyses of an experiment."""
    scoped = f"{CLUSTER_ANALYSIS_TEMPLATE.kind}/"
    return tuple(
        TemplateName(name.removeprefix(scoped), cluster_scope=name.startswith(scoped)) for name in analysis.templates
    )


def use_in(analysis: Analysis) -> AnalysisUse:
    """How the analysis uses its templates, for the builder of runs."""
    return use_of(AnalysisWire.model_validate(analysis.settings), analysis.path)
