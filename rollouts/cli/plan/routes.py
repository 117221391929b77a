"""The routes of a Rollout for `rollouts plan`: those in the file as they will be, the others as they are in the cluster."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from rollouts.cli.commands.lint_routes import providers
from rollouts.cli.view.follow import Collection, list_all
from rollouts.cli.view.session import Session
from rollouts.cluster.decoding import decode_route
from rollouts.controller.act.answers import read_route
from rollouts.controller.act.render_routes import question_about
from rollouts.controller.facts.route_kinds import RouteKinds
from rollouts.controller.observe.places import is_at, places_of
from rollouts.controller.workqueue.inbox import RouteAnswer
from rollouts.core.model.rollout import RolloutSpec
from rollouts.core.model.traffic import RouteName
from rollouts.errors import ApiForbidden, ApiNotFound
from rollouts.manifests.own_route import with_note
from rollouts.objects import TRAFFIC_PROVIDER, Manifest
from rollouts.traffic.codec import Provider


class Routes(Struct, frozen=True):
    """The routes by their names, and what is needed to read them; no gateway has seen those in the file yet."""

    kinds: RouteKinds
    answers: Mapping[RouteName, RouteAnswer] = field(default_factory=dict)
    from_file: frozenset[RouteName] = frozenset()
    providers: Mapping[str, Provider] = field(default_factory=providers)


async def read_declared(session: Session) -> tuple[Manifest, ...]:
    """The TrafficProviders of the cluster, without those whose condition Ready is False.

    Raises: what `Client` raises. Where the kind is not installed or may not be read, there are none.
    """
    try:
        found, _ = await list_all(session, Collection(kind=TRAFFIC_PROVIDER, namespace=None))
    except (ApiForbidden, ApiNotFound):
        return ()
    return tuple(
        provider
        for provider in found
        if not any(
            (condition.get("type"), condition.get("status")) == ("Ready", "False")
            for condition in (provider.get("status") or {}).get("conditions") or ()
        )
    )


async def read_routes(
    session: Session,
    spec: RolloutSpec,
    *,
    namespace: str,
    manifests: Iterable[Manifest],
    known: Mapping[str, Provider],
) -> Routes:
    """Reads the routes that the spec's routers name, in the file before those in the cluster.

    Raises: what `Client` raises. For a route that may not be read, the answer says so.
    """
    kinds = RouteKinds(api=session.api, on_found=lambda _kind: None)
    answers: dict[RouteName, RouteAnswer] = {}
    from_file: set[RouteName] = set()
    written = tuple(manifests)
    for place in places_of(spec, known, namespace=namespace):
        asked_s = session.clock.monotonic_s()
        if place.own is not None:
            found: Manifest | None = with_note(place.own)
        else:
            found = next((manifest for manifest in written if is_at(place, manifest, namespace=namespace)), None)
        if found is not None:
            name = place.route.name
            as_stored = {"namespace": place.route.namespace, "uid": f"rehearsed-{name}", "resourceVersion": "1"}
            stored = {**found, "metadata": {**found["metadata"], **as_stored}}
            seen = decode_route(json.dumps(stored).encode())
            answers[place.route] = RouteAnswer(asked_s=asked_s, kind=place.target.kinds[0], user=seen)
            from_file.add(place.route)
            continue
        try:
            question = question_about(place)
            answers[place.route] = await read_route(question, client=session.client, kinds=kinds, clock=session.clock)
        except ApiForbidden:
            message = f"{place.route} is unknown: you may not read it"
            answers[place.route] = RouteAnswer(asked_s=asked_s, message=message)
    return Routes(kinds, answers, frozenset(from_file), known)
