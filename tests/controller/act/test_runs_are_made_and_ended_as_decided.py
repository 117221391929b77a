"""Act: AnalysisRuns are created, told to end and deleted once, and only those that were looked at."""

from __future__ import annotations

import pytest

from rollouts.api.spec.parse import parse_rollout
from rollouts.controller.act.calls import Ask, Write
from rollouts.controller.act.performer import Performer
from rollouts.controller.act.render import render
from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, RunDraft
from rollouts.core.model.intents import CreateAnalysisRun, DeleteAnalysisRun, Intent, TerminateAnalysisRun
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import RolloutStatus
from rollouts.errors import ApiExists
from tests.controller.world import (
    CART,
    CART_UID,
    Answer,
    World,
    analysis_run,
    error,
    ok,
    owned,
    rollout,
    run,
    says,
)

RUN = AnalysisGate(AnalysisKind.STEP, 0)
MEASURE = CreateAnalysisRun(
    name="cart-run", gate=RUN, revision="v2", attempt=0, draft=RunDraft(spec_json=b"{}", latest="v2", stable="v1")
)
END = TerminateAnalysisRun(name="cart-run", uid="cart-run-uid")
CLEAR = DeleteAnalysisRun(name="cart-run", uid="cart-run-uid", resource_version="3")


def calls_for(intent: Intent) -> tuple[Write | Ask, ...]:
    """What carries out an intent of Rollout cart."""
    cart = parse_rollout(
        namespace="shop",
        name="cart",
        uid=CART_UID,
        resource_version="7",
        generation=1,
        created_at_s=0.0,
        annotations={},
        spec=bytes(rollout().spec),
    )
    return render(Snapshot(now_s=0.0, rollout=cart, status=RolloutStatus()), intent)


@pytest.mark.parametrize(
    ("intent", "answers", "methods"),
    [
        (MEASURE, [says(ok(5, name="cart-run", uid="cart-run-uid"))], ["POST"]),
        (
            MEASURE,
            [
                says(error(409, "AlreadyExists")),
                says(ok(5, ownerReferences=owned(), labels={"rollouts.dev/revision": "v2"})),
            ],
            ["POST", "GET"],
        ),
        (END, [says(ok(5))], ["PATCH"]),
        (CLEAR, [says(ok(5))], ["DELETE"]),
    ],
)
def test_no_pass_decides_before_it_sees_what_became_of_a_run(
    intent: Intent, answers: list[Answer], methods: list[str]
) -> None:
    """A pass that does not see its own run yet would make it again; one that sees a deleted run would judge by it."""

    async def scenario(world: World, performer: Performer) -> None:
        world.runs.put("", analysis_run(version=3))
        await performer.perform(world.target(), calls_for(intent))

        assert world.barrier.holds_back(CART)

    api = run(scenario, *answers).api

    assert [request.method for request in api.requests] == methods
    assert {request.path.split("/namespaces/shop/")[1].split("/")[0] for request in api.requests} == {"analysisruns"}


def test_a_run_is_refused_by_a_server_that_would_drop_a_field_of_it() -> None:
    """It would measure something else, and have another hash than status has on record."""

    async def scenario(world: World, performer: Performer) -> None:
        await performer.perform(world.target(), calls_for(MEASURE))

    api = run(scenario, says(ok(5, name="cart-run", uid="cart-run-uid"))).api

    assert [request.query.get("fieldValidation") for request in api.requests] == ["Strict"]


def test_a_run_is_told_to_end_and_deleted_as_it_was_seen() -> None:
    """Another run may have the name by now, and one that has changed may not be over."""

    async def scenario(world: World, performer: Performer) -> None:
        await performer.perform(world.target(), [*calls_for(END), *calls_for(CLEAR)])

    api = run(scenario).api

    assert api.body(0) == {"metadata": {"uid": "cart-run-uid"}, "spec": {"terminate": True}}
    assert api.body(1)["preconditions"] == {"uid": "cart-run-uid", "resourceVersion": "3"}


def test_a_run_of_another_owner_is_no_run_of_ours() -> None:
    """Its verdict is about something else."""

    async def scenario(world: World, performer: Performer) -> None:
        with pytest.raises(ApiExists, match="AnalysisRun cart-run exists and is not controlled by this Rollout"):
            await performer.perform(world.target(), calls_for(MEASURE))

    stranger = ok(5, ownerReferences=owned(uid="an older cart"), labels={"rollouts.dev/revision": "v2"})
    run(scenario, says(error(409, "AlreadyExists")), says(stranger))
