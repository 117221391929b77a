"""Promise: an owner of a copy changes only as it was seen, and a dry run without data asks whether a Secret's copy is there."""

from __future__ import annotations

import json

import pytest

from rollouts.controller.act.calls import Adopt, Patch
from rollouts.controller.act.performer import Performer
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AdoptConfigCopy, AskSecretCopy, ReleaseConfigCopy
from rollouts.objects import CONFIG_MAP, SECRET
from rollouts.ports import Response
from rollouts.sim.storage.patches import json_patch
from rollouts.sim.storage.refusals import Refused
from tests.controller.world import CART, CART_UID, World, answered, error, ok, owned, rendered, says

pytestmark = pytest.mark.virtual_time

OTHERS = {"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "theirs"}
SEEN = {"metadata": {"name": "c", "uid": "u", "resourceVersion": "4", "ownerReferences": [OTHERS, *owned()]}}
RELEASE = ReleaseConfigCopy(name="c", uid="u", resource_version="4", owner_index=1)
TRY = AskSecretCopy("token-x")


def test_a_copy_that_is_released_keeps_its_other_owners() -> None:
    """Only the Rollout goes, from its place in the version that was seen; if somebody else has it by now, nobody does."""
    (call,), (misplaced,) = rendered(RELEASE), rendered(replace(RELEASE, owner_index=0))

    assert isinstance(call, Patch) and isinstance(misplaced, Patch)
    assert (call.kind, call.name, call.uid) == (CONFIG_MAP, "c", "u")
    assert json_patch(SEEN, call.body)["metadata"] == {**SEEN["metadata"], "ownerReferences": [OTHERS]}
    with pytest.raises(Refused):
        json_patch(SEEN, misplaced.body)


@pytest.mark.parametrize("has_owners", [True, False])
def test_a_copy_is_adopted_after_a_look_at_the_rollout(has_owners: bool) -> None:
    """One that is adopted for a Rollout in deletion would be deleted with it."""
    (call,) = rendered(AdoptConfigCopy(name="c", uid="u", resource_version="4", has_owners=has_owners))
    before = {"metadata": {"uid": "u", "resourceVersion": "4"} | ({"ownerReferences": [OTHERS]} if has_owners else {})}

    assert isinstance(call, Adopt)
    owners = json_patch(before, call.patch.body)["metadata"]["ownerReferences"]
    assert [each["uid"] for each in owners] == [*(["theirs"] if has_owners else []), CART_UID]


@pytest.mark.parametrize(
    ("answer", "there"),
    [
        (ok(9), False),
        (error(409, "AlreadyExists"), True),
        (error(403, "Forbidden", "exceeded quota"), None),
        (error(422, "Invalid"), None),
        (error(400, "BadRequest", "admission webhook does not support dry run"), None),
    ],
)
async def test_whether_a_copy_of_a_secret_is_there_is_what_a_creation_would_meet(
    answer: Response, there: bool | None, world: World, performer: Performer
) -> None:
    """What else refuses it says nothing about the copy. Nothing of a Secret is in the question."""
    world.api.answers = [says(answer)]
    assert await performer.perform(world.target(), rendered(AskSecretCopy("token-x"))) == 0
    await answered()

    (request,) = world.api.requests
    assert (request.method, request.path, request.query["dryRun"]) == ("POST", SECRET.path("shop"), "All")
    body = json.loads(request.body)
    assert (body["metadata"]["name"], "data" in body, "stringData" in body) == ("token-x", False, False)
    assert body["metadata"]["labels"] == {"rollouts.dev/name": "cart", "rollouts.dev/config-copy": "true"}
    assert world.inbox.of(CART).copies["token-x"].there is there
    assert len(world.queue) == 1


async def test_a_question_that_fails_leaves_what_was_known_and_comes_again(world: World, performer: Performer) -> None:
    """An error is never read as absence."""
    world.api.answers = [says(error(500, "InternalError"))]
    await performer.perform(world.target(), [TRY])
    await answered()
    assert world.inbox.of(CART).copies == {}


async def test_answers_about_copies_that_nobody_asks_for_are_forgotten(world: World, performer: Performer) -> None:
    """Each rotation makes a copy of another name."""
    world.api.answers = [says(ok(9))]
    for number in range(150):
        await performer.perform(world.target(), [AskSecretCopy(f"token-{number}")])
    await answered()
    assert len(world.inbox.of(CART).copies) == 100
