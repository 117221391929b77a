"""Promise: an AnalysisRun that we make carries what was decided, and says what it is about; it is told to end by its uid."""

from __future__ import annotations

import pytest

from rollouts.api.spec.parse import parse_rollout
from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, RunDraft
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import CreateAnalysisRun, TerminateAnalysisRun
from rollouts.manifests.analysis_run import analysis_run, gate_labels, gate_of, termination_patch
from rollouts.manifests.ownership import name_label, owner_reference
from tests.api.specs import CANARY

CART = parse_rollout(
    namespace="shop",
    name="cart",
    uid="u-1",
    resource_version="42",
    generation=1,
    created_at_s=0.0,
    annotations={},
    spec=CANARY,
)


def test_a_run_says_what_it_is_about() -> None:
    """By its labels the controller finds its place again after a restart; by its owner it goes with the Rollout."""
    draft = RunDraft(spec_json=b'{"metrics":[{"name":"a"}]}', latest="abc", stable="old")
    gate = AnalysisGate(AnalysisKind.STEP, 2)
    intent = CreateAnalysisRun(name="cart-abc-step-2-x", gate=gate, revision="abc", attempt=1, draft=draft)

    assert analysis_run(CART, intent) == {
        "apiVersion": "rollouts.dev/v1alpha1",
        "kind": "AnalysisRun",
        "metadata": {
            "name": "cart-abc-step-2-x",
            "namespace": "shop",
            "labels": {
                "rollouts.dev/name": "cart",
                "rollouts.dev/revision": "abc",
                "rollouts.dev/analysis": "step",
                "rollouts.dev/step": "2",
            },
            "annotations": {"rollouts.dev/attempt": "1"},
            "ownerReferences": [owner_reference(CART)],
        },
        "spec": {"metrics": [{"name": "a"}]},
    }


def test_the_users_metadata_of_a_run_takes_none_of_ours_away() -> None:
    """A label of the user's that said another revision would bind the verdict to that one."""
    theirs = {"team": "shop", "rollouts.dev/revision": "old", "rollouts.dev/name": "other"}
    notes = {"note": "x", "rollouts.dev/attempt": "9"}
    draft = RunDraft(spec_json=b"{}", latest="abc", stable="old", labels=theirs, annotations=notes)
    gate = AnalysisGate(AnalysisKind.BACKGROUND)
    intent = CreateAnalysisRun(name="r", gate=gate, revision="abc", attempt=0, draft=draft)

    made = analysis_run(replace(CART, name="n" * 80), intent)["metadata"]

    assert made["labels"] == {
        "team": "shop",
        "rollouts.dev/name": name_label("n" * 80),
        "rollouts.dev/revision": "abc",
        "rollouts.dev/analysis": "background",
    }
    assert made["annotations"] == {"note": "x", "rollouts.dev/attempt": "0"}


@pytest.mark.parametrize("kind", list(AnalysisKind))
def test_the_place_of_a_run_comes_back_from_its_labels(kind: AnalysisKind) -> None:
    """It is kept nowhere else on the run."""
    gate = AnalysisGate(kind, 7 if kind is AnalysisKind.STEP else None)

    assert gate_of(gate_labels(gate)) == gate


def test_a_run_is_told_to_end_by_its_uid() -> None:
    """Another run of that name goes on."""
    patch = termination_patch(TerminateAnalysisRun(name="r", uid="u"))

    assert patch == {"metadata": {"uid": "u"}, "spec": {"terminate": True}}
