"""Specs of Rollouts with analyses, for tests: one bad one for every rule."""

from __future__ import annotations

from tests.api.specs import ANALYSIS, Bad, blue_green, canary, step

_STEPS = "spec.strategy.canary.steps"
_CANARY = "spec.strategy.canary"
_BLUE_GREEN = "spec.strategy.blueGreen"

ANALYSED_BAD: tuple[Bad, ...] = (
    Bad(
        "step analysis without templates",
        step(analysis={"args": []}),
        f"{_STEPS}[0].analysis.templates",
        "at least one template",
        by_schema=False,
    ),
    Bad(
        "background analysis without templates",
        canary(analysis={"templates": []}),
        f"{_CANARY}.analysis.templates",
        "at least one template",
        by_schema=False,
    ),
    Bad(
        "analysis of a preview without templates",
        blue_green(prePromotionAnalysis={}),
        f"{_BLUE_GREEN}.prePromotionAnalysis.templates",
        "at least one template",
        by_schema=False,
    ),
    Bad(
        "analysis after promotion without templates",
        blue_green(postPromotionAnalysis={}),
        f"{_BLUE_GREEN}.postPromotionAnalysis.templates",
        "at least one template",
        by_schema=False,
    ),
    Bad(
        "template without a name",
        step(analysis={"templates": [{"clusterScope": True}]}),
        f"{_STEPS}[0].analysis.templates[0].templateName",
        "is required",
    ),
    Bad(
        "two arguments of one name",
        step(analysis={**ANALYSIS, "args": [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]}),
        f"{_STEPS}[0].analysis.args[1].name",
        "another argument",
        by_schema=False,
    ),
    Bad(
        "argument with two values",
        step(
            analysis={
                **ANALYSIS,
                "args": [{"name": "a", "value": "1", "valueFrom": {"podTemplateHashValue": "Latest"}}],
            }
        ),
        f"{_STEPS}[0].analysis.args[0]",
        "it has both",
        by_schema=False,
    ),
    Bad(
        "dry run of what is no expression",
        step(analysis={**ANALYSIS, "dryRun": [{"metricName": "a("}]}),
        f"{_STEPS}[0].analysis.dryRun[0].metricName",
        "regular expression",
        by_schema=False,
    ),
    Bad(
        "label of a run that only we set",
        step(analysis={**ANALYSIS, "analysisRunMetadata": {"labels": {"rollouts.dev/step": "1"}}}),
        f"{_STEPS}[0].analysis.analysisRunMetadata.labels[rollouts.dev/step]",
        "the controller sets",
        by_schema=False,
    ),
    Bad(
        "background analysis from a step that is not there",
        canary(analysis={**ANALYSIS, "startingStep": 2}),
        f"{_CANARY}.analysis.startingStep",
        "there are 2 steps",
        by_schema=False,
    ),
    Bad(
        "something else on failure",
        step(analysis={**ANALYSIS, "onFailure": "rollback"}),
        f"{_STEPS}[0].analysis.onFailure",
        "'abort', 'hold' or 'stepBack'",
    ),
    Bad(
        "a step back of a blue-green update",
        blue_green(postPromotionAnalysis={**ANALYSIS, "onFailure": "stepBack"}),
        f"{_BLUE_GREEN}.postPromotionAnalysis.onFailure",
        "needs weights",
        by_schema=False,
    ),
    Bad(
        "an analysis from some step that is no background analysis",
        step(analysis={**ANALYSIS, "startingStep": 1}),
        f"{_STEPS}[0].analysis.startingStep",
        "unknown field",
        by_schema=False,
    ),
)
