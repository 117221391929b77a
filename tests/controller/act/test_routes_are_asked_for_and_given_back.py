"""Routes: found out about on the side, watched from the first one on, and given back when their Rollout is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from rollouts.cluster.structs import RouteObject
from rollouts.controller.act.calls import Apply, AskDataPlanes, AskProbes, Patch, ReadRoute
from rollouts.controller.act.orphans import Orphans
from rollouts.controller.act.performer import Performer
from rollouts.controller.facts.route_kinds import kinds_of
from rollouts.controller.workqueue.inbox import RouteAnswer
from rollouts.controller.workqueue.managed import ManagedServices
from rollouts.controller.workqueue.queue import WorkQueue
from rollouts.core.model.drain import EnvoyProbe, PrometheusProbe
from rollouts.core.model.frozen import replace
from rollouts.core.model.snapshot import DrainSeen
from rollouts.core.model.traffic import ALL_TO_STABLE, LiveSeen, Pace, RouteName, VerifiedBy
from rollouts.errors import ApiConflict
from rollouts.objects import Key, Kind
from rollouts.ports import JSON_PATCH, Clock, DrainQuestion, LiveQuestion, Request, Response
from rollouts.sim.clock import run_virtual
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from rollouts.traffic.registry import registry
from tests.controller.routes import BETA, MARKS, PACE, ROUTE, Reading, route, route_manifest
from tests.controller.world import CART, CART_UID, World, error, ok, says

READ = ReadRoute(route=ROUTE, kinds=(HTTP_ROUTE, BETA))


def serving(*kinds: Kind, objects: dict[str, Any] | None = None) -> Callable[[Request], Response]:
    """An API server that serves these kinds and has these routes."""
    groups: dict[str, list[dict[str, str]]] = {}
    for kind in kinds:
        groups.setdefault(f"/apis/{kind.api_version}", []).append({"name": kind.plural, "kind": kind.kind})

    def answer(request: Request) -> Response:
        if request.path in groups:
            return Response(200, msgspec.json.encode({"resources": groups[request.path]}))
        if (found := (objects or {}).get(request.path)) is not None:
            return Response(200, msgspec.json.encode(found))
        return error(404, "NotFound")

    return answer


def play(scenario: Callable[[World, Performer], Awaitable[None]], **world: Any) -> World:
    """Plays a scenario; all questions are answered when it returns."""
    worlds: list[World] = []

    async def main() -> None:
        worlds.append(World())
        for name, value in world.items():
            setattr(worlds[0].api, name, value)
        async with asyncio.TaskGroup() as questions:
            await scenario(worlds[0], worlds[0].performer(questions))

    run_virtual(main())
    return worlds[0]


async def _ask(world: World, performer: Performer) -> None:
    assert await performer.perform(world.target(), [READ]) == 0


async def _key(queue: WorkQueue) -> Key | None:
    return await queue.take()


@pytest.mark.parametrize(("served", "found"), [((HTTP_ROUTE, BETA), HTTP_ROUTE), ((BETA,), BETA)])
def test_a_route_is_read_in_the_best_version_that_the_server_has(served: tuple[Kind, ...], found: Kind) -> None:
    """Clusters lag behind by a release or two; the codec says which versions it can read."""
    path = found.path("shop", "cart")
    world = play(_ask, otherwise=serving(*served, objects={path: route_manifest(version=4)}))

    answer = world.inbox.route(CART, ROUTE)

    assert answer is not None
    assert answer.user is not None
    assert (answer.kind, answer.user.metadata.resource_version) == (found, "4")
    assert world.found_kinds == [found]


def test_a_kind_that_is_not_installed_is_told_by_its_crd() -> None:
    """ "Not found" sends people looking for a route that is there."""
    world = play(_ask, otherwise=serving())

    answer = world.inbox.route(CART, ROUTE)

    assert answer is not None
    assert answer.user is None
    assert "httproutes.gateway.networking.k8s.io" in answer.message
    assert world.found_kinds == []


def test_a_route_that_is_missing_is_not_taken_for_a_missing_kind() -> None:
    """The kind is looked for again, for its CRD may have been what went."""
    world = play(_ask, otherwise=serving(HTTP_ROUTE))

    answer = world.inbox.route(CART, ROUTE)

    assert answer is not None
    assert (answer.user, answer.message) == (None, "")
    assert [request.path for request in world.api.requests] == [
        "/apis/gateway.networking.k8s.io/v1",
        "/apis/gateway.networking.k8s.io/v1/namespaces/shop/httproutes/cart",
        "/apis/gateway.networking.k8s.io/v1",
    ]


def test_a_route_that_the_controller_may_not_read_is_told_with_the_remedy() -> None:
    """A router that the chart does not enable; a Rollout that only "reads" for ever tells nobody what to do."""

    def answer(request: Request) -> Response:
        forbidden = request.path.endswith("/cart")
        return error(403, "Forbidden", "cannot get httproutes") if forbidden else serving(HTTP_ROUTE)(request)

    found = play(_ask, otherwise=answer).inbox.route(CART, ROUTE)

    assert found is not None
    assert found.user is None
    assert "`routers`" in found.message
    assert "cannot get httproutes" in found.message


def test_an_answer_wakes_its_rollout() -> None:
    """Nobody polls the inbox."""

    async def scenario(world: World, performer: Performer) -> None:
        await _ask(world, performer)
        assert await _key(world.queue) == CART

    play(scenario, otherwise=serving(HTTP_ROUTE))


def test_what_we_own_beside_a_route_is_read_with_it() -> None:
    """A plan needs both as they are now."""
    paths = {HTTP_ROUTE.path("shop", name): route_manifest(name) for name in ("cart", "cart-weights")}
    owning = ReadRoute(route=ROUTE, kinds=(HTTP_ROUTE,), owned_name="cart-weights", owned_kinds=(HTTP_ROUTE,))

    async def scenario(world: World, performer: Performer) -> None:
        await performer.perform(world.target(), [owning])

    world = play(scenario, otherwise=serving(HTTP_ROUTE, objects=paths))

    answer = world.inbox.route(CART, ROUTE)
    assert answer is not None
    assert answer.owned is not None
    assert answer.owned.metadata.name == "cart-weights"


def test_without_data_planes_every_question_is_answered_as_not_known() -> None:
    """Silence would leave the Rollout waiting for an answer that nobody gives."""
    probe = PrometheusProbe(name="p", query="up")
    live = LiveQuestion(
        route=ROUTE, resource_version="7", split=ALL_TO_STABLE, stable_service="cart", canary_service="cart-canary"
    )
    drain = DrainQuestion(namespace="shop", rollout="cart", revision="v1", service="cart", probes=(probe,))

    async def scenario(world: World, performer: Performer) -> None:
        await performer.perform(world.target(), [AskDataPlanes(ROUTE, "7", PACE, live), AskProbes(drain, "a=b")])

    world = play(scenario)

    said, drained = world.inbox.live(CART, ROUTE), world.inbox.drained(CART)["v1"]
    assert said is not None
    assert (said.live, said.resource_version) == (False, "7")
    assert (drained.in_flight, drained.streams) == (None, None)
    assert "--prometheus-url" in drained.message


def test_an_answer_that_says_the_same_again_wakes_its_pass_when_it_is_time_to_ask() -> None:
    """A pass that finds "not yet" once more has nothing to do but to set its timer. "They follow" is acted on each time."""
    question = LiveQuestion(
        route=ROUTE, resource_version="7", split=ALL_TO_STABLE, stable_service="cart", canary_service="cart-canary"
    )
    says = ["v1 is at 0 %", "v1 is at 0 %", "v1 is at 0 %", "v1 is at 5 %", "", ""]
    woken_after_s: list[float] = []

    class DataPlanes:
        def __init__(self, clock: Clock) -> None:
            self.clock = clock

        def asked_by(self, route: RouteName, gateways: tuple[str, ...]) -> VerifiedBy | None:
            return VerifiedBy.CONFIG if route == ROUTE and gateways else None

        async def live(self, question: LiveQuestion, *, deadline_s: float) -> LiveSeen:
            await asyncio.sleep(min(0.005, deadline_s))  # virtual
            message, version = says.pop(0), question.resource_version
            return LiveSeen(
                at_s=self.clock.now_s(),
                resource_version=version,
                live=not message,
                by=VerifiedBy.CONFIG,
                message=message,
            )

        async def drained(self, question: DrainQuestion, *, deadline_s: float) -> DrainSeen:
            raise NotImplementedError

    async def main() -> None:
        world = World()
        pace = Pace(since_s=world.clock.now_s(), first_s=0.05, most_s=0.06)
        async with asyncio.TaskGroup() as questions:
            performer = world.performer(questions, planes=DataPlanes(world.clock))
            while says:
                asked_s = world.clock.monotonic_s()
                await performer.perform(world.target(), [AskDataPlanes(ROUTE, "7", pace, question)])
                assert await world.queue.take() == CART
                world.queue.done(CART)
                woken_after_s.append(round(world.clock.monotonic_s() - asked_s, 3))
                await asyncio.sleep(0.1)  # virtual

    run_virtual(main())

    assert woken_after_s == [0.005, 0.06, 0.065, 0.005, 0.005, 0.005]


def test_the_probes_are_told_which_pods_are_the_revisions() -> None:
    """An Envoy knows addresses, not revisions; a query names the revision, so no pod is listed for it."""
    asked: list[DrainQuestion] = []

    class DataPlanes:
        def asked_by(self, route: RouteName, gateways: tuple[str, ...]) -> VerifiedBy | None:
            return VerifiedBy.CONFIG if route.kind == ROUTE.kind and gateways else None

        async def live(self, question: LiveQuestion, *, deadline_s: float) -> LiveSeen:
            return LiveSeen(
                at_s=deadline_s, resource_version=question.resource_version, live=True, by=VerifiedBy.CONFIG
            )

        async def drained(self, question: DrainQuestion, *, deadline_s: float) -> DrainSeen:
            asked.append(question)
            return DrainSeen(deadline_s, 0)

    def pod(revision: str, address: str) -> dict[str, Any]:
        labels = {"rollouts.dev/revision": revision}
        return {"metadata": {"name": address, "labels": labels}, "status": {"podIP": address}}

    pods = {"metadata": {}, "items": [pod("v1", "10.0.0.1"), pod("v2", "10.0.0.2"), pod("v1", "")]}
    by_query = DrainQuestion(
        namespace="shop", rollout="cart", revision="v1", service="cart", probes=(PrometheusProbe(name="p", query="up"),)
    )
    by_address = replace(by_query, probes=(EnvoyProbe(name="e"),))

    async def main() -> None:
        world = World(says(Response(200, msgspec.json.encode(pods))))
        async with asyncio.TaskGroup() as questions:
            performer = world.performer(questions, planes=DataPlanes())
            await performer.perform(world.target(), [AskProbes(by_address, "rollouts.dev/name=cart")])
        before = len(world.api.requests)
        async with asyncio.TaskGroup() as questions:
            performer = world.performer(questions, planes=DataPlanes())
            await performer.perform(world.target(), [AskProbes(by_query, "rollouts.dev/name=cart")])
        assert len(world.api.requests) == before

    run_virtual(main())

    envoy, query = asked
    assert (envoy.addresses, envoy.others) == (frozenset({"10.0.0.1"}), frozenset({"10.0.0.2"}))
    assert (query.addresses, query.others) == (frozenset(), frozenset())


@pytest.mark.parametrize("namespace", ["shop", "edge"])
def test_a_written_route_is_waited_for_where_it_is(namespace: str) -> None:
    """Read your writes: a pass on the older view would write the same again."""
    patch = Patch(
        kind=HTTP_ROUTE, name="cart", uid="u", body=[], content_type=JSON_PATCH, namespace=namespace, route=ROUTE
    )

    async def scenario(world: World, performer: Performer) -> None:
        table = world.store.add(HTTP_ROUTE, RouteObject)
        await performer.perform(world.target(), [patch])
        assert world.barrier.holds_back(CART)
        table.put("", route(version=99, namespace=namespace))
        assert not world.barrier.holds_back(CART)

    (request,) = play(scenario).api.requests
    assert request.path == HTTP_ROUTE.path(namespace, "cart")


def test_a_write_that_no_watch_will_show_is_not_waited_for() -> None:
    """A controller of some namespaces may be given a route in another."""
    patch = Patch(
        kind=HTTP_ROUTE, name="cart", uid="u", body=[], content_type=JSON_PATCH, namespace="edge", route=ROUTE
    )

    async def scenario(world: World, performer: Performer) -> None:
        world.store.add(HTTP_ROUTE, RouteObject, namespaces=("shop",))
        await performer.perform(world.target(), [patch])
        assert not world.barrier.holds_back(CART)

    play(scenario)


def test_an_object_of_ours_is_applied_and_never_by_force() -> None:
    """Somebody else's fields in it are a conflict, not a prey."""
    apply = Apply(kind=HTTP_ROUTE, name="w", namespace="shop", manifest={"metadata": {"name": "w"}}, route=ROUTE)

    async def scenario(world: World, performer: Performer) -> None:
        assert await performer.perform(world.target(), [apply]) == 1

    (request,) = play(scenario).api.requests
    assert (request.method, request.path) == ("PATCH", HTTP_ROUTE.path("shop", "w"))
    assert request.query == {"fieldManager": "rollouts"}
    assert request.content_type == "application/apply-patch+yaml"


@pytest.mark.parametrize("call", ["patch", "apply"])
def test_a_route_that_is_gone_is_looked_for_again(call: str) -> None:
    """The answer that the plan was made from says nothing any more."""
    calls: dict[str, Patch | Apply] = {
        "patch": Patch(kind=HTTP_ROUTE, name="cart", uid="u", body=[], content_type=JSON_PATCH, route=ROUTE),
        "apply": Apply(kind=HTTP_ROUTE, name="w", namespace="shop", manifest={}, route=ROUTE),
    }

    async def scenario(world: World, performer: Performer) -> None:
        await _ask(world, performer)
        assert await _key(world.queue) == CART
        with pytest.raises(ApiConflict):
            await performer.perform(world.target(), [calls[call]])
        assert world.inbox.route(CART, ROUTE) is None

    objects = {HTTP_ROUTE.path("shop", "cart"): route_manifest()}

    def answer(request: Request) -> Response:
        return error(404, "NotFound") if request.method == "PATCH" else serving(HTTP_ROUTE, objects=objects)(request)

    play(scenario, otherwise=answer)


# Who is woken.


def woken(before: RouteObject | None, after: RouteObject | None, *, asked: str = "") -> set[Key]:
    """Who is woken by a change of a route that `asked` has asked about."""
    found: set[Key] = set()

    async def main() -> None:
        world = World()
        if asked:
            world.inbox.put_route(Key("shop", asked), ROUTE, RouteAnswer(asked_s=0.0))
        found.update(world.triggers().keys(before, after))

    run_virtual(main())
    return found


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, route(**MARKS)),
        (route(**MARKS), None),
        (route(**MARKS), route(version=2, weights=(1, 1), **MARKS)),
        (route(**MARKS), route(version=2)),
    ],
)
def test_a_change_of_a_managed_route_wakes_its_rollout(before: RouteObject | None, after: RouteObject | None) -> None:
    """Somebody's edit is put right at once, and a gateway's answer is not waited for."""
    assert woken(before, after) == {CART}


def test_what_no_decision_reads_wakes_nobody() -> None:
    """managedFields and the resourceVersion change with every write of a gateway controller."""
    assert woken(route(**MARKS), route(version=2, managedFields=[{"manager": "x"}], **MARKS)) == set()


def test_a_rollout_that_asked_about_a_route_learns_that_another_one_has_it() -> None:
    """Both would wait for ever for it to be free, or take it from each other."""
    other = {**MARKS, "annotations": {"rollouts.dev/managed-by": "other"}}

    assert woken(None, route(**other), asked="cart") == {CART, Key("shop", "other")}


# Who is gone.


def released(*answers: Any, **marks: Any) -> list[Request]:
    """What is sent for a key without a Rollout whose route is managed."""
    requests: list[Request] = []

    async def main() -> None:
        world = World(*answers)
        reading = Reading(world)
        reading.shown(route(version=3, **MARKS | marks))
        world.rollouts.replace("", [], "5")
        world.services.replace("", [], "5")
        orphans = Orphans(
            client=world.client,
            store=world.store,
            barrier=world.barrier,
            managed=ManagedServices(),
            routes=reading.reader,
        )
        await orphans.release(CART)
        requests.extend(world.api.requests)

    run_virtual(main())
    return requests


def test_a_deleted_rollout_gives_its_routes_back() -> None:
    """Its weights would lead to one revision's Service for ever."""
    get, patch = released(says(error(404, "NotFound")), says(ok(4)))

    assert get.path.endswith("/rollouts/cart")
    assert patch.path == HTTP_ROUTE.path("shop", "cart")
    assert msgspec.json.decode(patch.body) == [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "3"},
        {"op": "remove", "path": "/metadata/labels/rollouts.dev~1managed"},
        {"op": "remove", "path": "/metadata/annotations/rollouts.dev~1managed-by"},
        {"op": "remove", "path": "/metadata/annotations/rollouts.dev~1router"},
    ]


def test_a_route_is_never_given_back_on_a_doubt() -> None:
    """The Rollout is there: our store is behind."""
    assert [request.method for request in released(says(ok(9, uid=CART_UID)))] == ["GET"]


def test_a_route_whose_codec_is_gone_is_left_and_told() -> None:
    """Nobody may guess which weights were the user's."""
    marks = {"rollouts.dev/managed-by": "cart", "rollouts.dev/router": "acme"}

    assert [request.method for request in released(says(error(404, "NotFound")), annotations=marks)] == ["GET"]


# What was managed before this process began.


def looked_for(*kinds: tuple[Kind, ...], otherwise: Callable[[Request], Response]) -> World:
    """A world in which the controller has looked through these kinds at its start."""

    async def scenario(world: World, _performer: Performer) -> None:
        await world.kinds.look_for_managed(kinds, client=world.client, namespaces=("shop", "edge"))

    return play(scenario, otherwise=otherwise)


def listing(*names: str) -> Callable[[Request], Response]:
    """A server that serves HTTPRoutes and has these managed ones in namespace edge."""

    def answer(request: Request) -> Response:
        if request.path == HTTP_ROUTE.path("edge"):
            return Response(
                200, msgspec.json.encode({"metadata": {}, "items": [route_manifest(name) for name in names]})
            )
        if request.path == HTTP_ROUTE.path("shop"):
            return Response(200, b'{"metadata":{},"items":[]}')
        return serving(HTTP_ROUTE)(request)

    return answer


def test_a_kind_with_a_route_that_is_still_managed_is_watched_from_the_start() -> None:
    """Its Rollout may have been deleted while no controller ran: nobody else would ever name the kind again."""
    world = looked_for((HTTP_ROUTE, BETA), otherwise=listing("left"))

    assert world.found_kinds == [HTTP_ROUTE]
    assert {request.query["labelSelector"] for request in world.api.requests if request.query} == {
        "rollouts.dev/managed=true"
    }


def test_a_kind_without_a_managed_route_costs_no_watch() -> None:
    """Most clusters have routers that no Rollout uses."""
    assert looked_for((HTTP_ROUTE, BETA), otherwise=listing()).found_kinds == []


def test_what_may_not_be_listed_stops_nothing() -> None:
    """The administrator named a router and gave no right to its routes: the next kind is looked at all the same."""
    other = Kind("x.dev", "v1", "Route", "routes")

    def answer(request: Request) -> Response:
        forbidden = request.path.endswith("/routes")
        return error(403, "Forbidden") if forbidden else listing("left")(request)

    def both(request: Request) -> Response:
        return serving(HTTP_ROUTE, other)(request) if request.path.count("/") == 3 else answer(request)

    assert looked_for((other,), (HTTP_ROUTE,), otherwise=both).found_kinds == [HTTP_ROUTE]


@pytest.mark.parametrize("name", sorted(registry()))
def test_every_router_of_ours_tells_its_kinds(name: str) -> None:
    """What `--router` looks through."""
    assert all(kind.plural for kinds in kinds_of(registry()[name]) for kind in kinds)
    assert kinds_of(registry()[name])


def test_a_provider_without_kinds_has_none_to_look_through() -> None:
    """Another package's need not name them."""
    assert kinds_of(object()) == ()
