"""Rollouts with analyses, and what an observer sees of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rollouts.api.spec.parse import parse_spec
from rollouts.controller.observe.observer import Observer, Seen
from rollouts.controller.workqueue.managed import ManagedServices
from rollouts.core.model.analysis import (
    AnalysisGate,
    AnalysisKind,
    DraftProblem,
    RunDraft,
)
from rollouts.core.model.snapshot import Snapshot
from rollouts.sim.clock import run_virtual
from tests.controller.world import CART, World, rollout

ERRORS = {"templates": [{"templateName": "errors"}]}
STEP_0 = AnalysisGate(AnalysisKind.STEP, 0)
BACKGROUND = AnalysisGate(AnalysisKind.BACKGROUND)


def spec_of(*, steps: list[Any] | None = None, image: str = "app:2", **canary: Any) -> dict[str, Any]:
    """A canary whose first step is an analysis, unless `steps` says something else."""
    return {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "cart"}},
        "strategy": {"canary": {"steps": [{"analysis": ERRORS}] if steps is None else steps, **canary}},
        "template": {
            "metadata": {"labels": {"app": "cart"}},
            "spec": {"containers": [{"name": "app", "image": image}]},
        },
    }


def revision_of(spec: dict[str, Any]) -> str:
    """The revision of its pods."""
    return parse_spec(spec).revision


def updating(spec: dict[str, Any], **status: Any) -> dict[str, Any]:
    """The status of a Rollout that is being updated from revision v1 to that of its spec."""
    return {"currentRevision": revision_of(spec), "stableRevision": "v1", "phase": "Progressing", **status}


def snapshots(*arrange: Callable[[World], None]) -> list[Snapshot]:
    """What one observer sees after each of these."""
    found: list[Snapshot] = []

    async def main() -> None:
        world = World()
        observer = Observer(
            store=world.store,
            inbox=world.inbox,
            managed=ManagedServices(),
            clock=world.clock,
            analyses=world.analyses,
        )
        for each in arrange:
            each(world)
            seen = observer.observe(CART)
            assert isinstance(seen, Seen)
            found.append(seen.snapshot)

    run_virtual(main())
    return found


def snapshot(arrange: Callable[[World], None]) -> Snapshot:
    """What is seen after `arrange`."""
    return snapshots(arrange)[0]


def only_draft(arrange: Callable[[World], None]) -> RunDraft | DraftProblem:
    """The one draft that is seen after `arrange`."""
    (draft,) = snapshot(arrange).drafts.values()
    return draft


def problem(arrange: Callable[[World], None]) -> str:
    """Why there is no run, after `arrange`."""
    draft = only_draft(arrange)
    assert isinstance(draft, DraftProblem)
    return draft.message


def under_way(world: World, *, version: int = 1, **more: Any) -> None:
    """An update to a revision whose first step is an analysis."""
    spec = spec_of()
    world.rollouts.put("", rollout(spec=spec, status=updating(spec), version=version, **more))
