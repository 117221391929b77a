"""AnalysisRuns and Experiments of a Rollout: one for each judgement of a revision."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from rollouts.core.model.analysis import AnalysisGate, AnalysisKind
from rollouts.core.model.intents import CreateAnalysisRun, LetPodsGo, TerminateAnalysisRun
from rollouts.core.model.rollout import Rollout
from rollouts.manifests.ownership import (
    ANALYSIS,
    ATTEMPT,
    KEEP_PODS,
    KEEP_PODS_VALUE,
    NAME,
    REVISION,
    STEP,
    name_label,
    owner_reference,
)
from rollouts.objects import Manifest, whole_number


def analysis_run(rollout: Rollout, intent: CreateAnalysisRun) -> Manifest:
    """The whole AnalysisRun or Experiment, without a status. Of two labels with one key, that of `analysisRunMetadata` loses."""
    ours = {NAME: name_label(rollout.name), REVISION: intent.revision, **gate_labels(intent.gate)}
    kept = {KEEP_PODS: KEEP_PODS_VALUE} if intent.draft.keeps_pods else {}
    return {
        **intent.gate.kind.object_kind.head,
        "metadata": {
            "name": intent.name,
            "namespace": rollout.namespace,
            "labels": {**intent.draft.labels, **ours},
            "annotations": {**intent.draft.annotations, ATTEMPT: str(intent.attempt), **kept},
            "ownerReferences": [owner_reference(rollout)],
        },
        "spec": json.loads(intent.draft.spec_json),
    }


def termination_patch(intent: TerminateAnalysisRun) -> Manifest:
    """The merge patch that tells a run to end; it conflicts with another uid."""
    return {"metadata": {"uid": intent.uid}, "spec": {"terminate": True}}


def let_go_patch(intent: LetPodsGo) -> Manifest:
    """The merge patch that tells an Experiment until when it keeps its pods; it conflicts with another uid."""
    return {"metadata": {"uid": intent.uid, "annotations": {KEEP_PODS: str(math.ceil(intent.until_s))}}}


def gate_labels(gate: AnalysisGate) -> dict[str, str]:
    """The labels that say where in an update a run belongs; `gate_of` reads them."""
    step = {} if gate.step is None else {STEP: str(gate.step)}
    return {ANALYSIS: gate.kind.value, **step}


def gate_of(labels: Mapping[str, str]) -> AnalysisGate | None:
    """Where in an update a run belongs; None when its labels do not say it."""
    kind = labels.get(ANALYSIS, "")
    if kind not in AnalysisKind._value2member_map_:
        return None
    if not AnalysisKind(kind).is_step:
        return AnalysisGate(AnalysisKind(kind))
    step = whole_number(labels.get(STEP, ""), digits=9)
    return None if step is None else AnalysisGate(AnalysisKind(kind), step)
