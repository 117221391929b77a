"""Specs of Rollouts with analyses, for tests: one bad one for every rule."""

from __future__ import annotations

from tests.api.specs import ANALYSIS, Bad, blue_green, canary, late, step

_STEPS = "spec.strategy.canary.steps"
_CANARY = "spec.strategy.canary"
_BLUE_GREEN = "spec.strategy.blueGreen"

ANALYSED_BAD: tuple[Bad, ...] = (
    late("step analysis without templates", step(analysis={"args": []}), f"{_STEPS}[0].analysis.templates",
        "at least one template"),
    late("background analysis without templates", canary(analysis={"templates": []}), f"{_CANARY}.analysis.templates",
        "at least one template"),
    late("analysis of a preview without templates", blue_green(prePromotionAnalysis={}),
        f"{_BLUE_GREEN}.prePromotionAnalysis.templates", "at least one template"),
    late("analysis after promotion without templates", blue_green(postPromotionAnalysis={}),
        f"{_BLUE_GREEN}.postPromotionAnalysis.templates", "at least one template"),
    Bad("template without a name", step(analysis={"templates": [{"clusterScope": True}]}),
        f"{_STEPS}[0].analysis.templates[0].templateName", "is required"),
    late("two arguments of one name",
        step(analysis={**ANALYSIS, "args": [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]}),
        f"{_STEPS}[0].analysis.args[1].name", "another argument"),
    late("argument with two values",
        step(analysis={**ANALYSIS, "args": [{"name": "a", "value": "1", "valueFrom": {"podTemplateHashValue": "Latest"}}]}),
        f"{_STEPS}[0].analysis.args[0]", "it has both"),
    late("dry run of what is no expression", step(analysis={**ANALYSIS, "dryRun": [{"metricName": "a("}]}),
        f"{_STEPS}[0].analysis.dryRun[0].metricName", "regular expression"),
    late("label of a run that only we set",
        step(analysis={**ANALYSIS, "analysisRunMetadata": {"labels": {"rollouts.dev/step": "1"}}}),
        f"{_STEPS}[0].analysis.analysisRunMetadata.labels[rollouts.dev/step]", "the controller sets"),
    late("background analysis from a step that is not there", canary(analysis={**ANALYSIS, "startingStep": 2}),
        f"{_CANARY}.analysis.startingStep", "there are 2 steps"),
    Bad("something else on failure", step(analysis={**ANALYSIS, "onFailure": "rollback"}),
        f"{_STEPS}[0].analysis.onFailure", "'abort', 'hold' or 'stepBack'"),
    late("a step back of a blue-green update", blue_green(postPromotionAnalysis={**ANALYSIS, "onFailure": "stepBack"}),
        f"{_BLUE_GREEN}.postPromotionAnalysis.onFailure", "needs a weight"),
    late("a step back of a gate before the update", canary(beforeUpdate={**ANALYSIS, "onFailure": "stepBack"}),
        f"{_CANARY}.beforeUpdate.onFailure", "needs a weight"),
    late("a gate without templates", blue_green(beforeUpdate={"deadlineSeconds": 60}),
        f"{_BLUE_GREEN}.beforeUpdate.templates", "at least one template"),
    late("a gate of each weight without templates", canary(beforeSetWeight={"deadlineSeconds": 60}),
        f"{_CANARY}.beforeSetWeight.templates", "at least one template"),
    late("a policy without a deadline", canary(beforeUpdate={**ANALYSIS, "onDeadline": "abort"}),
        f"{_CANARY}.beforeUpdate.onDeadline", "needs deadlineSeconds"),
    late("a deadline beside the steps", canary(analysis={**ANALYSIS, "deadlineSeconds": 60}),
        f"{_CANARY}.analysis.deadlineSeconds", "beside the steps"),
    Bad("a deadline of nothing", step(analysis={**ANALYSIS, "deadlineSeconds": 0}),
        f"{_STEPS}[0].analysis.deadlineSeconds", "1"),
    Bad("a deadline that promotes", canary(beforeUpdate={**ANALYSIS, "deadlineSeconds": 60, "onDeadline": "promote"}),
        f"{_CANARY}.beforeUpdate.onDeadline", "'hold' or 'abort'"),
    Bad("a gate from some step", canary(beforeUpdate={**ANALYSIS, "startingStep": 0}),
        f"{_CANARY}.beforeUpdate.startingStep", "unknown field"),
    late("an analysis from some step that is no background analysis", step(analysis={**ANALYSIS, "startingStep": 1}),
        f"{_STEPS}[0].analysis.startingStep", "unknown field"),
)  # fmt: skip
