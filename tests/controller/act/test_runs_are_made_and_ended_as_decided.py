"""Act: AnalysisRuns are created, told to end and deleted once, and only those that were looked at."""

from __future__ import annotations

import pytest

from rollouts.controller.act.performer import Performer
from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, RunDraft
from rollouts.core.model.intents import CreateAnalysisRun, DeleteAnalysisRun, Intent, TerminateAnalysisRun
from rollouts.errors import ApiExists
from rollouts.ports import Response
from tests.controller.world import CART, World, analysis_run, error, ok, owned, rendered, says

pytestmark = pytest.mark.virtual_time

RUN = AnalysisGate(AnalysisKind.STEP, 0)
MEASURE = CreateAnalysisRun(
    name="cart-run", gate=RUN, revision="v2", attempt=0, draft=RunDraft(spec_json=b"{}", latest="v2", stable="v1")
)
END = TerminateAnalysisRun(name="cart-run", uid="cart-run-uid")
CLEAR = DeleteAnalysisRun(name="cart-run", uid="cart-run-uid", resource_version="3")

OURS = ok(5, ownerReferences=owned(), labels={"rollouts.dev/revision": "v2"})


@pytest.mark.parametrize(
    ("intent", "answers", "methods"),
    [
        (MEASURE, [ok(5, name="cart-run", uid="cart-run-uid")], ["POST"]),
        (MEASURE, [error(409, "AlreadyExists"), OURS], ["POST", "GET"]),
        (END, [ok(5)], ["PATCH"]),
        (CLEAR, [ok(5)], ["DELETE"]),
    ],
    ids=["made", "there already", "told to end", "deleted"],
)
async def test_no_pass_decides_before_it_sees_what_became_of_a_run(
    intent: Intent, answers: list[Response], methods: list[str], world: World, performer: Performer
) -> None:
    """A pass that does not see its own run yet would make it again; one that sees a deleted run would judge by it."""
    world.api.answers = [says(each) for each in answers]
    world.runs.put("", analysis_run(version=3))
    await performer.perform(world.target(), rendered(intent))

    assert world.barrier.holds_back(CART)
    assert [request.method for request in world.api.requests] == methods
    assert {request.path.split("/")[6] for request in world.api.requests} == {"analysisruns"}


async def test_a_run_is_refused_by_a_server_that_would_drop_a_field_of_it(world: World, performer: Performer) -> None:
    """It would measure something else, and have another hash than status has on record."""
    world.api.answers = [says(ok(5, name="cart-run", uid="cart-run-uid"))]
    await performer.perform(world.target(), rendered(MEASURE))

    assert [request.query.get("fieldValidation") for request in world.api.requests] == ["Strict"]


async def test_a_run_is_told_to_end_and_deleted_as_it_was_seen(world: World, performer: Performer) -> None:
    """Another run may have the name by now, and one that has changed may not be over."""
    await performer.perform(world.target(), [*rendered(END), *rendered(CLEAR)])

    assert world.api.body(0) == {"metadata": {"uid": "cart-run-uid"}, "spec": {"terminate": True}}
    assert world.api.body(1)["preconditions"] == {"uid": "cart-run-uid", "resourceVersion": "3"}


async def test_a_run_of_another_owner_is_no_run_of_ours(world: World, performer: Performer) -> None:
    """Its verdict is about something else."""
    stranger = ok(5, ownerReferences=owned(uid="an older cart"), labels={"rollouts.dev/revision": "v2"})
    world.api.answers = [says(error(409, "AlreadyExists")), says(stranger)]
    with pytest.raises(ApiExists, match="AnalysisRun cart-run exists and is not controlled by this Rollout"):
        await performer.perform(world.target(), rendered(MEASURE))
