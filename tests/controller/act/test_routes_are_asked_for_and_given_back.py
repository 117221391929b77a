"""Routes: found out about on the side, watched from the first one on, and given back when their Rollout is gone."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from rollouts.cluster.decoding import decode_route
from rollouts.cluster.structs import RouteObject
from rollouts.controller.act.calls import Apply, AskDataPlanes, CreateRoute, Patch, ReadRoute
from rollouts.controller.act.performer import Performer, RouteWriteRefused
from rollouts.controller.facts.route_kinds import kinds_of
from rollouts.controller.workqueue.inbox import RouteAnswer
from rollouts.core.model.drain import EnvoyProbe, PrometheusProbe
from rollouts.core.model.frozen import replace
from rollouts.core.model.snapshot import DrainSeen
from rollouts.core.model.traffic import ALL_TO_STABLE, LiveSeen, Pace, VerifiedBy
from rollouts.errors import ApiConflict
from rollouts.objects import Key, Kind
from rollouts.ports import JSON_PATCH, DrainQuestion, LiveQuestion, Request, Response
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from rollouts.traffic.registry import registry
from tests.controller.routes import BETA, MARKS, ROUTE, Planes, Reading, release, route, route_manifest
from tests.controller.world import CART, CART_UID, Answer, World, answered, error, metadata, ok, owned, says

pytestmark = pytest.mark.virtual_time

READ = ReadRoute(route=ROUTE, kinds=(HTTP_ROUTE, BETA))
PATCH = Patch(kind=HTTP_ROUTE, name="cart", uid="u", body=[], content_type=JSON_PATCH, route=ROUTE)
LIVE = LiveQuestion(
    route=ROUTE, resource_version="7", split=ALL_TO_STABLE, stable_service="cart", canary_service="cart-canary"
)
BY_QUERY = (PrometheusProbe(name="p", query="up"),)
DRAINED = DrainQuestion(namespace="shop", rollout="cart", revision="v1", service="cart", probes=BY_QUERY)


def serving(*kinds: Kind, objects: dict[str, Any] | None = None) -> Answer:
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


async def asked(world: World, performer: Performer, answer: Answer) -> RouteAnswer:
    """What the inbox has once such a server was asked for the route; nobody polls it, so the answer wakes the Rollout."""
    world.api.otherwise = answer
    assert await performer.perform(world.target(), [READ]) == 0
    assert await world.queue.take() == CART
    found = world.inbox.route(CART, ROUTE)
    assert found is not None
    return found


@pytest.mark.parametrize(("served", "found"), [((HTTP_ROUTE, BETA), HTTP_ROUTE), ((BETA,), BETA)])
async def test_a_route_is_read_in_the_best_version_that_the_server_has(
    served: tuple[Kind, ...], found: Kind, world: World, performer: Performer
) -> None:
    """Clusters lag behind by a release or two; the codec says which versions it can read."""
    objects = {found.path("shop", "cart"): route_manifest(version=4)}
    answer = await asked(world, performer, serving(*served, objects=objects))

    assert answer.user is not None
    assert (answer.kind, answer.user.metadata.resource_version) == (found, "4")
    assert world.found_kinds == [found]


async def test_a_kind_that_is_not_installed_is_told_by_its_crd(world: World, performer: Performer) -> None:
    """ "Not found" sends people looking for a route that is there."""
    answer = await asked(world, performer, serving())

    assert answer.user is None
    assert "httproutes.gateway.networking.k8s.io" in answer.message
    assert world.found_kinds == []


async def test_a_route_that_is_missing_is_not_taken_for_a_missing_kind(world: World, performer: Performer) -> None:
    """The kind is looked for again, for its CRD may have been what went."""
    answer = await asked(world, performer, serving(HTTP_ROUTE))

    assert (answer.user, answer.message) == (None, "")
    assert [request.path for request in world.api.requests] == [
        "/apis/gateway.networking.k8s.io/v1",
        "/apis/gateway.networking.k8s.io/v1/namespaces/shop/httproutes/cart",
        "/apis/gateway.networking.k8s.io/v1",
    ]


async def test_a_route_that_may_not_be_read_is_told_with_the_remedy(world: World, performer: Performer) -> None:
    """A router that the chart does not enable; a Rollout that only "reads" for ever tells nobody what to do."""

    def answer(request: Request) -> Response:
        forbidden = request.path.endswith("/cart")
        return error(403, "Forbidden", "cannot get httproutes") if forbidden else serving(HTTP_ROUTE)(request)

    with capture_logs() as logs:
        found = await asked(world, performer, answer)

    assert found.user is None
    assert "`routers`" in found.message
    (logged,) = (each for each in logs if each["event"] == "route_forbidden")
    assert (logged["log_level"], logged["route"]) == ("warning", str(ROUTE))
    assert "cannot get httproutes" in logged["why"]
    assert "cannot get httproutes" in found.message


async def test_what_we_own_beside_a_route_is_read_with_it(world: World, performer: Performer) -> None:
    """A plan needs both as they are now."""
    paths = {HTTP_ROUTE.path("shop", name): route_manifest(name) for name in ("cart", "cart-weights")}
    owning = ReadRoute(route=ROUTE, kinds=(HTTP_ROUTE,), owned_name="cart-weights", owned_kinds=(HTTP_ROUTE,))
    world.api.otherwise = serving(HTTP_ROUTE, objects=paths)
    await performer.perform(world.target(), [owning])
    await answered()

    answer = world.inbox.route(CART, ROUTE)
    assert answer is not None
    assert answer.owned is not None
    assert answer.owned.metadata.name == "cart-weights"


async def test_an_answer_that_says_the_same_again_wakes_its_pass_when_it_is_time_to_ask(world: World) -> None:
    """A pass that finds "not yet" once more has nothing to do but to set its timer. "They follow" is acted on each time."""
    says = ["v1 is at 0 %", "v1 is at 0 %", "v1 is at 0 %", "v1 is at 5 %", "", ""]
    woken_after_s: list[float] = []

    async def live(question: LiveQuestion) -> LiveSeen:
        await asyncio.sleep(0.005)
        message, version = says.pop(0), question.resource_version
        at_s = world.clock.now_s()
        return LiveSeen(at_s=at_s, resource_version=version, live=not message, by=VerifiedBy.CONFIG, message=message)

    pace = Pace(since_s=world.clock.now_s(), first_s=0.05, most_s=0.06)
    async with asyncio.TaskGroup() as questions:
        performer = world.performer(questions, planes=Planes(live=live))
        while says:
            asked_s = world.clock.monotonic_s()
            await performer.perform(world.target(), [AskDataPlanes(ROUTE, "7", pace, LIVE)])
            assert await world.queue.take() == CART
            world.queue.done(CART)
            woken_after_s.append(round(world.clock.monotonic_s() - asked_s, 3))
            await asyncio.sleep(0.1)  # virtual

    assert woken_after_s == [0.005, 0.06, 0.065, 0.005, 0.005, 0.005]


async def test_the_probes_are_told_which_pods_are_the_revisions(world: World) -> None:
    """An Envoy knows addresses, not revisions; a query names the revision, so no pod is listed for it."""
    told: list[DrainQuestion] = []

    def drained(question: DrainQuestion) -> DrainSeen:
        told.append(question)
        return DrainSeen(0.0, 0)

    def pod(revision: str, address: str) -> dict[str, Any]:
        labels = {"rollouts.dev/revision": revision}
        return {"metadata": {"name": address, "labels": labels}, "status": {"podIP": address}}

    pages = (
        {"metadata": {"continue": "more"}, "items": [pod("v1", "10.0.0.1"), pod("v2", "10.0.0.2")]},
        {"metadata": {}, "items": [pod("v1", ""), pod("v1", "10.0.0.3")]},
    )
    by_address = replace(DRAINED, probes=(EnvoyProbe(name="e"),))
    world.api.answers = [says(Response(200, msgspec.json.encode(page))) for page in pages]
    async with asyncio.TaskGroup() as questions:
        performer = world.performer(questions, planes=Planes(drained=drained))
        await performer.perform(world.target(), [by_address])
    assert [each.query.get("continue") for each in world.api.requests] == [None, "more"]
    before = len(world.api.requests)
    async with asyncio.TaskGroup() as questions:
        performer = world.performer(questions, planes=Planes(drained=drained))
        await performer.perform(world.target(), [DRAINED])
    assert len(world.api.requests) == before

    envoy, query = told
    assert (envoy.addresses, envoy.others) == (frozenset({"10.0.0.1", "10.0.0.3"}), frozenset({"10.0.0.2"}))
    assert (query.addresses, query.others) == (frozenset(), frozenset())


@pytest.mark.parametrize("namespace", ["shop", "edge"])
async def test_a_written_route_is_waited_for_where_it_is(namespace: str, world: World, performer: Performer) -> None:
    """Read your writes: a pass on the older view would write the same again."""
    table = world.store.add(HTTP_ROUTE, RouteObject)
    await performer.perform(world.target(), [replace(PATCH, namespace=namespace)])
    assert world.barrier.holds_back(CART)
    table.put("", route(version=99, namespace=namespace))
    assert not world.barrier.holds_back(CART)
    (request,) = world.api.requests
    assert request.path == HTTP_ROUTE.path(namespace, "cart")


async def test_a_write_that_no_watch_will_show_is_not_waited_for(world: World, performer: Performer) -> None:
    """A controller of some namespaces may be given a route in another."""
    world.store.add(HTTP_ROUTE, RouteObject, namespaces=("shop",))
    await performer.perform(world.target(), [replace(PATCH, namespace="edge")])
    assert not world.barrier.holds_back(CART)


async def test_an_object_of_ours_is_applied_and_never_by_force(world: World, performer: Performer) -> None:
    """Somebody else's fields in it are a conflict, not a prey."""
    world.store.add(HTTP_ROUTE, RouteObject)
    apply = Apply(kind=HTTP_ROUTE, name="w", namespace="edge", manifest={"metadata": {"name": "w"}}, route=ROUTE)
    assert await performer.perform(world.target(), [apply]) == 1
    (request,) = world.api.requests
    assert (request.method, request.path) == ("PATCH", HTTP_ROUTE.path("edge", "w"))
    assert request.query == {"fieldManager": "rollouts"}
    assert request.content_type == "application/apply-patch+yaml"
    assert world.barrier.holds_back(CART), "its watch is to show it first"


async def test_a_refused_write_of_a_route_is_told_of_that_route(world: World, performer: Performer) -> None:
    """The pass goes on without it."""
    world.api.answers = [says(error(403, "Forbidden", "cannot patch httproutes"))]
    with pytest.raises(RouteWriteRefused, match="cannot patch httproutes") as refused:
        await performer.perform(world.target(), [PATCH])
    assert refused.value.route == ROUTE


@pytest.mark.parametrize(
    ("answer", "words"),
    [(error(409, "AlreadyExists"), "already exists"), (error(404, "NotFound"), "its namespace or its kind is gone")],
)
async def test_a_route_that_cannot_be_made_is_looked_at_again(
    answer: Response, words: str, world: World, performer: Performer
) -> None:
    """Somebody was faster, or the CRD has gone: what is there now decides."""
    make = CreateRoute(kind=HTTP_ROUTE, name="cart", manifest=route_manifest(), route=ROUTE)
    world.inbox.put_route(CART, ROUTE, RouteAnswer(asked_s=0.0))
    world.api.answers = [says(answer)]
    with pytest.raises(ApiConflict, match=words):
        await performer.perform(world.target(), [make])
    assert world.inbox.route(CART, ROUTE) is None


@pytest.mark.parametrize(
    "call",
    [PATCH, Apply(kind=HTTP_ROUTE, name="w", namespace="shop", manifest={}, route=ROUTE)],
    ids=["patch", "apply"],
)
async def test_a_route_that_went_is_looked_for_again(call: Patch | Apply, world: World, performer: Performer) -> None:
    """The answer that the plan was made from says nothing any more."""
    objects = {HTTP_ROUTE.path("shop", "cart"): route_manifest()}

    def answer(request: Request) -> Response:
        return error(404, "NotFound") if request.method == "PATCH" else serving(HTTP_ROUTE, objects=objects)(request)

    await asked(world, performer, answer)
    with pytest.raises(ApiConflict):
        await performer.perform(world.target(), [call])
    assert world.inbox.route(CART, ROUTE) is None


# Who is woken.

ACCEPTED = {**route_manifest(version=2, **MARKS), "status": {"parents": []}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, route(**MARKS)),
        (route(**MARKS), None),
        (route(**MARKS), route(version=2, weights=(1, 1), **MARKS)),
        (route(**MARKS), route(version=2)),
        (route(**MARKS), decode_route(msgspec.json.encode(ACCEPTED))),
    ],
)
async def test_a_change_of_a_managed_route_wakes_its_rollout(
    before: RouteObject | None, after: RouteObject | None, world: World
) -> None:
    """Somebody's edit is put right at once, and a gateway's answer is not waited for."""
    assert set(world.triggers().keys(before, after)) == {CART}


async def test_what_no_decision_reads_wakes_nobody(world: World) -> None:
    """managedFields and the resourceVersion change with every write of a gateway controller."""
    after = route(version=2, managedFields=[{"manager": "x"}], **MARKS)
    assert not list(world.triggers().keys(route(**MARKS), after))


async def test_a_rollout_that_asked_about_a_route_learns_that_another_one_has_it(world: World) -> None:
    """Both would wait for ever for it to be free, or take it from each other."""
    other = {**MARKS, "annotations": {"rollouts.dev/managed-by": "other"}}
    world.inbox.put_route(CART, ROUTE, RouteAnswer(asked_s=0.0))

    assert set(world.triggers().keys(None, route(**other))) == {CART, Key("shop", "other")}


# Who is gone.


async def released(world: World, answer: Answer, *, count: int = 0, **marks: Any) -> list[Request]:
    """What is sent for a key without a Rollout whose route is managed; the first answer is about the Rollout.

    Args:
        count: how many routes are told to be released.
    """
    world.api.answers = [answer]
    reading = Reading(world)
    reading.shown(route(version=3, **MARKS | marks))
    assert await release(reading) == count
    return world.api.requests


OF_ACME = {"rollouts.dev/managed-by": "cart", "rollouts.dev/router": "acme"}


async def test_a_deleted_rollout_gives_its_routes_back(world: World) -> None:
    """Its weights would lead to one revision's Service for ever."""
    get, patch = await released(world, says(error(404, "NotFound")), count=1)

    assert get.path.endswith("/rollouts/cart")
    assert patch.path == HTTP_ROUTE.path("shop", "cart")
    assert msgspec.json.decode(patch.body) == [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "3"},
        {"op": "remove", "path": "/metadata/labels/rollouts.dev~1managed"},
        {"op": "remove", "path": "/metadata/annotations/rollouts.dev~1managed-by"},
        {"op": "remove", "path": "/metadata/annotations/rollouts.dev~1router"},
    ]


@pytest.mark.parametrize(
    ("answer", "marks"),
    [
        (ok(9, uid=CART_UID), {}),
        (error(404, "NotFound"), {"annotations": OF_ACME}),
    ],
    ids=["our store is behind", "its codec is gone"],
)
async def test_a_route_is_never_given_back_on_a_doubt(answer: Response, marks: Any, world: World) -> None:
    """Its Rollout is there, or nobody knows which weights were the user's: then the log says what is left, and why."""
    with capture_logs() as logs:
        assert [request.method for request in await released(world, says(answer), **marks)] == ["GET"]

    left = [each for each in logs if each["event"] == "route_not_released"]
    assert [(each["rollout"], "HTTPRoute" in each["route"], "'acme'" in each["why"]) for each in left] == [
        ("shop/cart", True, True)
    ] * len(marks)


# What was managed before this process began.


async def looked_for(world: World, *kinds: tuple[Kind, ...], otherwise: Answer) -> list[Kind]:
    """The kinds that are watched after the controller has looked through these at its start."""
    world.api.otherwise = otherwise
    await world.kinds.look_for_managed(kinds, client=world.client, namespaces=("shop", "edge"))
    return world.found_kinds


def listing(*names: str) -> Answer:
    """A server that serves HTTPRoutes and has these managed ones in namespace edge."""

    def answer(request: Request) -> Response:
        if request.path == HTTP_ROUTE.path("edge"):
            items = [route_manifest(name) for name in names]
            return Response(200, msgspec.json.encode({"metadata": {}, "items": items}))
        if request.path == HTTP_ROUTE.path("shop"):
            return Response(200, b'{"metadata":{},"items":[]}')
        return serving(HTTP_ROUTE)(request)

    return answer


async def test_a_kind_with_a_route_that_is_still_managed_is_watched_from_the_start(world: World) -> None:
    """Its Rollout may have been deleted while no controller ran: nobody else would ever name the kind again."""
    assert await looked_for(world, (HTTP_ROUTE, BETA), otherwise=listing("left")) == [HTTP_ROUTE]
    assert {request.query["labelSelector"] for request in world.api.requests if request.query} == {
        "rollouts.dev/managed=true"
    }


async def test_a_kind_without_a_managed_route_costs_no_watch(world: World) -> None:
    """Most clusters have routers that no Rollout uses."""
    assert await looked_for(world, (HTTP_ROUTE, BETA), otherwise=listing()) == []


async def test_what_may_not_be_listed_stops_nothing(world: World) -> None:
    """The administrator named a router and gave no right to its routes: the next kind is looked at all the same."""
    other = Kind("x.dev", "v1", "Route", "routes")

    def answer(request: Request) -> Response:
        forbidden = request.path.endswith("/routes")
        return error(403, "Forbidden") if forbidden else listing("left")(request)

    def both(request: Request) -> Response:
        return serving(HTTP_ROUTE, other)(request) if request.path.count("/") == 3 else answer(request)

    assert await looked_for(world, (other,), (HTTP_ROUTE,), otherwise=both) == [HTTP_ROUTE]


def test_every_router_of_ours_tells_its_kinds() -> None:
    """What `--router` looks through. Another package's need not name them."""
    for name, each in registry().items():
        assert kinds_of(each), name
        assert all(kind.plural for kinds in kinds_of(each) for kind in kinds), name
    assert kinds_of(object()) == ()


INGRESS = Kind("networking.k8s.io", "v1", "Ingress", "ingresses")
OURS = owned()
MARK = {"annotations": {"rollouts.dev/managed-by": "cart"}}


@pytest.mark.parametrize(
    ("metadata_of_beside", "deleted"),
    [
        ({}, False),
        (MARK, False),
        ({"annotations": {"rollouts.dev/managed-by": "other"}, "ownerReferences": OURS}, False),
        ({**MARK, "ownerReferences": [{**OURS[0], "name": "other"}]}, False),
        ({**MARK, "ownerReferences": OURS}, True),
    ],
    ids=["nobody's", "a mark alone", "another mark", "another owner", "ours"],
)
async def test_what_stands_beside_a_route_is_deleted_only_when_it_is_ours(
    metadata_of_beside: Any, deleted: bool, world: World, reading: Reading
) -> None:
    """The annotation `beside` is anybody's text: it made the controller delete whatever Ingress it named."""
    world.api.answers = [says(error(404, "NotFound"))]
    world.kinds.learn((INGRESS,), INGRESS)
    table = world.store.add(INGRESS, RouteObject)
    marks = {"managed-by": "cart", "router": "nginx", "beside": "victim"}
    annotations = {f"rollouts.dev/{name}": text for name, text in marks.items()}
    user = metadata("mine", labels={"rollouts.dev/managed": "true"}, annotations=annotations)
    for meta in (user, metadata("victim", **metadata_of_beside)):
        seen = decode_route(msgspec.json.encode({"metadata": meta, "spec": {}}))
        table.put("", seen)
        reading.managed_routes.learn(INGRESS, None, seen)
    await release(reading)
    assert ("DELETE" in [each.method for each in world.api.requests]) is deleted
