"""Reads and writes say by their error what to do next, are patient within a deadline, and never leave without the lease."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rollouts.cluster.client import RETRY_AFTER_MAX_S, Client, OnRequest, answer_of
from rollouts.errors import (
    ApiConflict,
    ApiExists,
    ApiForbidden,
    ApiGone,
    ApiInvalid,
    ApiNotFound,
    ApiThrottled,
    ApiUnauthenticated,
    ApiUnavailable,
    NotLeader,
    RolloutsError,
)
from rollouts.objects import CONFIG_MAP, POD, REPLICA_SET, ROLLOUT
from rollouts.ports import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, METADATA, Request, Response
from rollouts.sim.clock import SimClock
from tests.cluster.stand_ins import NoServer

pytestmark = pytest.mark.virtual_time(limit_s=7200)

OK = Response(200, b'{"metadata":{"resourceVersion":"7"}}')
THROTTLED = Response(429, b'{"reason":"TooManyRequests"}', 2.0)


class Script(NoServer):
    """An API server that gives the scripted answers in turn, and then OK."""

    def __init__(self, *answers: Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []
        self.deadlines_s: list[float] = []

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        self.requests.append(request)
        self.deadlines_s.append(deadline_s)
        answer = self.answers.pop(0) if self.answers else OK
        if isinstance(answer, Exception):
            raise answer
        return answer


def client(api: Script, *, may_write: Callable[[], bool] = lambda: True, on_request: OnRequest | None = None) -> Client:
    """A client on the running loop's virtual time, with a deadline of 10 s."""
    clock = SimClock(asyncio.get_running_loop())
    return Client(api, clock=clock, may_write=may_write, request_deadline_s=10, on_request=on_request)


def refusal(status: int, reason: str = "", **fields: Any) -> Response:
    return Response(status, json.dumps({"kind": "Status", "reason": reason, "message": "because", **fields}).encode())


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(400, "BadRequest"), ApiInvalid),
        (refusal(401, "Unauthorized"), ApiUnauthenticated),
        (refusal(403, "Forbidden"), ApiForbidden),
        (refusal(404, "NotFound"), ApiNotFound),
        (refusal(409, "AlreadyExists"), ApiExists),
        (refusal(409, "Conflict"), ApiConflict),
        (refusal(410, "Expired"), ApiGone),
        (refusal(415, "UnsupportedMediaType"), ApiInvalid),
        (refusal(422, "Invalid", details={"kind": "ReplicaSet"}), ApiInvalid),
        (refusal(500, "InternalError"), ApiUnavailable),
        (refusal(504, "Timeout"), ApiUnavailable),
        (Response(502, b"<html>bad gateway</html>"), ApiUnavailable),
        (Response(300, b""), ApiUnavailable),
    ],
)
async def test_an_error_is_named_by_its_remedy(answer: Response, error: type[RolloutsError]) -> None:
    """Whether to wait, to look again or to ask a person is decided by the error's class alone."""
    with pytest.raises(error):
        await client(Script(answer)).patch(REPLICA_SET, "shop", "cart", {"spec": {}}, MERGE_PATCH)


DENIED = 'admission webhook "routes.example.com" denied the request: not on Fridays'


@pytest.mark.parametrize(
    ("answer", "error", "told"),
    [
        (refusal(422, "Invalid", details={}), ApiConflict, None),
        (refusal(422, "Invalid", details={"kind": "Service"}), ApiInvalid, None),
        (refusal(422, message=DENIED), ApiInvalid, "not on Fridays"),
    ],
    ids=["a test that failed", "a refused object, which names its kind", "a webhook, which chooses its code"],
)
async def test_a_json_patch_that_does_not_fit_is_a_conflict(
    answer: Response, error: type[RolloutsError], told: str | None
) -> None:
    """kube-apiserver answers 422 to each (tried on 1.36). What is taken for a conflict is sent again without end or a word."""
    patch = [{"op": "test", "path": "/x", "value": 1}]
    with pytest.raises(error, match=told):
        await client(Script(answer)).patch(REPLICA_SET, "shop", "cart", patch, JSON_PATCH)


async def test_a_read_is_repeated_after_a_broken_connection() -> None:
    """A read has no effect, so one lost connection must not cost a pass."""
    api = Script(ApiUnavailable("reset"), refusal(503))
    assert await client(api).get(ROLLOUT, "shop", "cart") == OK.body
    assert len(api.requests) == 3


async def test_a_write_is_never_repeated_after_a_broken_connection() -> None:
    """It may have taken effect; only a new observation can tell."""
    api = Script(ApiUnavailable("reset"))
    with pytest.raises(ApiUnavailable):
        await client(api).create(REPLICA_SET, "shop", {"metadata": {"name": "cart"}})
    assert len(api.requests) == 1


async def test_a_throttled_write_waits_as_long_as_it_was_asked_to() -> None:
    """Priority and fairness names a time; coming back earlier makes the overload worse."""
    api = Script(THROTTLED)
    began_s = asyncio.get_running_loop().time()
    await client(api).create(REPLICA_SET, "shop", {})
    assert 2.0 <= asyncio.get_running_loop().time() - began_s < 3.0
    assert len(api.requests) == 2


async def test_pauses_double_and_are_scattered_by_half() -> None:
    """A server that comes back meets its clients one after another; none of them waits for minutes."""
    random_values = random.Random(4)  # noqa: S311 - a test's
    pauses_s: list[list[float]] = []
    for _ in range(20):
        api = Script(*[ApiUnavailable("reset")] * 7)
        clock = SimClock(asyncio.get_running_loop())
        ours = Client(api, clock=clock, may_write=lambda: True, request_deadline_s=100, rng=random_values)
        await ours.get(ROLLOUT, "shop", "cart")
        pauses_s.append([before - after for before, after in itertools.pairwise(api.deadlines_s)])

    for number, drawn_s in enumerate(zip(*pauses_s, strict=True)):
        longest_s = min(0.1 * 2**number, 5.0)
        assert all(0.5 * longest_s <= pause_s + 1e-6 and pause_s - 1e-6 <= 1.5 * longest_s for pause_s in drawn_s)
        assert max(drawn_s) - min(drawn_s) > 0.5 * longest_s


async def test_patience_ends_with_the_deadline() -> None:
    """All retries together have one deadline, and the error says how long the server wanted us to wait."""
    api = Script(*[THROTTLED] * 50)
    began_s = asyncio.get_running_loop().time()
    with pytest.raises(ApiThrottled) as caught:
        await client(api).get(ROLLOUT, "shop", "cart")
    assert asyncio.get_running_loop().time() - began_s <= 10
    assert caught.value.retry_after_s == 2.0
    assert api.deadlines_s == sorted(api.deadlines_s, reverse=True)


async def test_a_429_without_a_time_counts_as_one_second() -> None:
    """client-go's assumption, too."""
    with pytest.raises(ApiThrottled) as caught:
        await client(Script(refusal(429))).evict("shop", "cart-1", "u1")
    assert caught.value.retry_after_s == 1.0


async def test_a_blocked_eviction_comes_back_at_once() -> None:
    """A disruption budget is not open again within seconds; the pass has other things to do."""
    api = Script(THROTTLED)
    with pytest.raises(ApiThrottled):
        await client(api).evict("shop", "cart-1", "u1")
    (request,) = api.requests
    assert request.path == POD.path("shop", "cart-1", "eviction")
    assert json.loads(request.body)["deleteOptions"] == {"preconditions": {"uid": "u1"}}


async def test_no_write_leaves_without_the_lease() -> None:
    """A leader that was paused may wake in the middle of a pass: the fence is its last gate."""
    api = Script()
    fenced = client(api, may_write=lambda: False)
    writes: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: fenced.create(REPLICA_SET, "shop", {}),
        lambda: fenced.patch(REPLICA_SET, "shop", "cart", {}, MERGE_PATCH),
        lambda: fenced.patch(REPLICA_SET, "shop", "cart", {}, APPLY_PATCH, dry_run=True),
        lambda: fenced.delete(REPLICA_SET, "shop", "cart"),
        lambda: fenced.evict("shop", "cart-1", "u1"),
    )
    for write in writes:
        with pytest.raises(NotLeader):
            await write()
    assert api.requests == []
    assert await fenced.get(ROLLOUT, "shop", "cart") == OK.body


async def test_the_fence_is_asked_again_before_a_retry() -> None:
    """The lease may be lost while a throttled write waits."""
    api = Script(THROTTLED)
    with pytest.raises(NotLeader):
        await client(api, may_write=lambda: not api.requests).create(REPLICA_SET, "shop", {})
    assert len(api.requests) == 1


async def test_a_patch_says_who_how_and_whether_for_real() -> None:
    """Field manager, force and dry run are query parameters; force belongs to server-side apply only."""
    api = Script()
    ours = client(api)
    said: dict[str, Any] = {"subresource": "status", "field_manager": "rollouts", "force": True, "dry_run": True}
    await ours.patch(ROLLOUT, "shop", "cart", {}, APPLY_PATCH, **said)
    await ours.patch(ROLLOUT, "shop", "cart", b"{}", MERGE_PATCH, force=True)
    first, second = api.requests
    assert first.path == "/apis/rollouts.dev/v1alpha1/namespaces/shop/rollouts/cart/status"
    assert first.query == {"fieldManager": "rollouts", "force": "true", "dryRun": "All"}
    assert first.content_type == APPLY_PATCH
    assert (second.query, second.body, second.content_type) == ({}, b"{}", MERGE_PATCH)


async def test_a_deletion_carries_what_it_was_decided_on() -> None:
    """Without the uid a deletion may hit an object of the same name that was made since."""
    api = Script()
    await client(api).delete(REPLICA_SET, "shop", "cart", uid="u1", resource_version="7")
    await client(api).delete(REPLICA_SET, "shop", "cart")
    first, second = (json.loads(request.body) for request in api.requests)
    assert first["preconditions"] == {"uid": "u1", "resourceVersion": "7"}
    assert "preconditions" not in second


async def test_metadata_is_asked_for_where_nothing_else_is_needed() -> None:
    """A list of ConfigMaps with their data may be gigabytes."""
    api = Script()
    ours = client(api)
    await ours.get(CONFIG_MAP, "shop", "settings", metadata_only=True)
    await ours.get(CONFIG_MAP, "shop", "settings")
    await ours.list_page(CONFIG_MAP, "shop")
    assert [request.accept for request in api.requests] == [METADATA, JSON, JSON]


async def test_every_attempt_is_counted() -> None:
    """The promise to ask for nothing unneeded is measured here, lost answers included."""
    seen: list[tuple[str, str, int]] = []
    api = Script(ApiUnavailable("reset"), refusal(429))
    counted = client(api, on_request=lambda *attempt: seen.append(attempt[:3]))
    await counted.get(ROLLOUT, "shop", "cart")
    await counted.list_page(ROLLOUT, None, label_selector="a=b", continue_token="c")
    counted_as = [("get", 0), ("get", 429), ("get", 200), ("list", 200)]
    assert seen == [(verb, "rollouts", status) for verb, status in counted_as]
    assert api.requests[-1].query == {"limit": "500", "labelSelector": "a=b", "continue": "c"}


async def test_each_call_is_counted_by_its_verb_and_kind() -> None:
    """The verbs are those of RBAC, where an eviction is created, so that the figures can be read beside the rules."""
    seen: list[tuple[str, str]] = []
    ours = client(Script(), on_request=lambda *attempt: seen.append(attempt[:2]))
    await ours.get(POD, "shop", "cart")
    await ours.list_page(POD, "shop")
    await ours.create(ROLLOUT, "shop", {})
    await ours.patch(REPLICA_SET, "shop", "cart-v1", {}, MERGE_PATCH)
    await ours.delete(CONFIG_MAP, "shop", "settings")
    await ours.evict("shop", "cart-v1-abcde", uid="u1")

    plurals = ["pods", "pods", "rollouts", "replicasets", "configmaps", "pods"]
    assert seen == list(zip(["get", "list", "create", "patch", "delete", "create"], plurals, strict=True))


@pytest.mark.parametrize("asked_s", [61.0, 86_400.0, float("9" * 400)])
def test_a_server_is_given_a_minute_of_patience_and_no_more(asked_s: float) -> None:
    """A proxy that says 86400 would hold a Rollout's key for a day; 400 nines for ever."""
    request = Request("GET", "/x")

    with pytest.raises(ApiThrottled) as refused:
        answer_of(request, Response(429, b"{}", retry_after_s=asked_s))

    assert refused.value.retry_after_s == RETRY_AFTER_MAX_S == 60
