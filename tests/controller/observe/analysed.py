"""Rollouts with analyses, and what an observer sees of them."""

from __future__ import annotations

from typing import Any

from rollouts.api.spec.parse import parse_spec
from rollouts.controller.observe.observer import Observer, Seen
from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, Draft, DraftProblem
from rollouts.core.model.snapshot import Snapshot
from rollouts.objects import Manifest
from tests.controller.world import CART, World, rollout, spec_of
from tests.typed import misfit

ERRORS = {"templates": [{"templateName": "errors"}]}
STEP_0 = AnalysisGate(AnalysisKind.STEP, 0)
BACKGROUND = AnalysisGate(AnalysisKind.BACKGROUND)


def revision_of(spec: Manifest) -> str:
    """The revision of its pods."""
    return parse_spec(spec).revision


def updating(spec: Manifest, **status: Any) -> Manifest:
    """The status of a Rollout that is being updated from revision v1 to that of its spec."""
    return {"currentRevision": revision_of(spec), "stableRevision": "v1", "phase": "Progressing", **status}


def snapshot(world: World, observer: Observer | None = None) -> Snapshot:
    """What is seen of Rollout cart, by an observer that has seen nothing before unless it is given."""
    seen = (observer or world.observer()).observe(CART)
    assert isinstance(seen, Seen)
    assert misfit(seen.snapshot, Snapshot) == ""
    return seen.snapshot


def only_draft(world: World) -> Draft:
    """The one draft that is seen."""
    (draft,) = snapshot(world).drafts.values()
    return draft


def problem(world: World) -> str:
    """Why there is no run,."""
    draft = only_draft(world)
    assert isinstance(draft, DraftProblem)
    return draft.message


def analysing(*steps: Any, image: str = "app:2", **canary: Any) -> Manifest:
    """The spec of a canary whose first step is an analysis, unless `steps` say something else."""
    return spec_of(*(steps or ({"analysis": ERRORS},)), image=image, **canary)


def under_way(world: World, *, version: int = 1, **more: Any) -> None:
    """An update to a revision whose first step is an analysis."""
    spec = analysing()
    world.rollouts.put("", rollout(spec=spec, status=updating(spec), version=version, **more))
