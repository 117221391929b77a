"""Worlds whose traffic is split by an HTTPRoute, people who use them, and clients who come through the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

import msgspec

from rollouts.manifests.ownership import REVISION
from rollouts.objects import REPLICA_SET, Kind, Manifest
from rollouts.ports import APPLY_PATCH, JSON_PATCH, Request
from rollouts.sim.network.gateway import ENVOY, GatewaySettings
from rollouts.sim.network.gateway_clients import GatewayClients
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from rollouts.sim.network.route_table import PLAIN, WebRequest
from tests import build
from tests.behaviour.scenarios import STABLE_AND_CANARY, canary, rollout
from tests.behaviour.stage import GATEWAY_NAME, KEY, Behind, Run, Stage, play

BETA = WebRequest(headers=(("x-beta", "1"),))
BETA_ROUTE: Manifest = {
    "setHeaderRoute": {"name": "beta", "match": [{"headerName": "X-Beta", "headerValue": {"exact": "1"}}]}
}
NO_BETA_ROUTE: Manifest = {"setHeaderRoute": {"name": "beta"}}
COPIES: Manifest = {"setMirrorRoute": {"name": "copies", "percentage": 20, "match": [{"path": {"prefix": "/"}}]}}
NO_COPIES: Manifest = {"setMirrorRoute": {"name": "copies"}}
STAY_S = 6
STAY: Manifest = {"pause": {"duration": f"{STAY_S}s"}}
WEIGHTS = (1, 5, 25, 50, 100)
RATE_PER_S = 50.0
BETA_RATE_PER_S = 7.1  # no part of the other: a proxy takes turns, and both kinds would fall in step with them
GRACE_S = 0.1
"""A route that somebody else has just changed is seen a moment later."""


def weight(percent: float) -> Manifest:
    """A step."""
    return {"setWeight": percent}


LADDER: tuple[Manifest, ...] = (
    BETA_ROUTE, weight(1), STAY, COPIES, weight(5), STAY, NO_COPIES, weight(25), STAY, weight(50), STAY,
    NO_BETA_ROUTE, weight(100), STAY,
)  # fmt: skip
"""1 → 5 → 25 → 50 → 100 %, with a way in by header until 100 %, and copies at 5 %."""
QUARTER: tuple[Manifest, ...] = (BETA_ROUTE, weight(25), {"pause": {"duration": "30s"}}, weight(100), STAY)
_AT_A_QUARTER = 2


def http_route(*, stable: int = 100, canary: int = 0, more: tuple[Manifest, ...] = (), **backends: int) -> Manifest:
    """The users' route: one rule between the two Services, maybe with other backends, and other rules before it."""
    weights = {"stable": stable, "canary": canary, **backends}
    split = build.http_rule(*(build.backend(name, weight) for name, weight in weights.items()))
    spec = {"parentRefs": [{"name": GATEWAY_NAME}], "rules": [*more, split]}
    return build.manifest(HTTP_ROUTE, KEY.name, KEY.namespace, spec=spec)


def routed(*steps: Manifest, replicas: int = 4, strategy: Manifest | None = None, **spec: Any) -> Manifest:
    """A Rollout whose steps are carried out by the route."""
    routing = {
        "gatewayAPI": {"httpRoutes": [{"name": KEY.name}]},
        "managedRoutes": [{"name": "beta"}, {"name": "copies"}],
    }
    delay = {} if (strategy or {}).get("dynamicStableScale") else {"scaleDownDelaySeconds": 2}
    options = {**delay, **(strategy or {})}
    return rollout(canary(*steps, services=True, trafficRouting=routing, **options), replicas=replicas, **spec)


def world(*steps: Manifest, route: Manifest | None = None, **options: Any) -> tuple[Manifest, ...]:
    return (*STABLE_AND_CANARY, route or http_route(), routed(*steps, **options))


@dataclass
class Users:
    """Clients of the gateway: some by the plain address, some with a header that beta users send.

    Args:
        shares, beta_shares, all_shares: what part of the requests, plain, beta, and together, reached an image during each
            measured stay, by its name.
        copies: how many copies did.
    """

    plain: GatewayClients
    beta: GatewayClients
    shares: dict[str, float] = field(default_factory=dict)
    beta_shares: dict[str, float] = field(default_factory=dict)
    all_shares: dict[str, float] = field(default_factory=dict)
    copies: dict[str, int] = field(default_factory=dict)

    @property
    def lost(self) -> int:
        return self.plain.tally.lost.total() + self.beta.tally.lost.total()

    @property
    def sent(self) -> int:
        return self.plain.tally.sent.total() + self.beta.tally.sent.total()

    @property
    def causes(self) -> dict[int, int]:
        return dict(self.plain.causes + self.beta.causes)

    def stop(self) -> None:
        self.plain.stop()
        self.beta.stop()

    async def measure(self, stage: Stage, name: str, tag: str, *, for_s: float) -> None:
        """Counts for a while which part of the requests reaches an image."""
        revision = revision_of(stage, tag)
        before = [each.tally.sent.copy() for each in (self.plain, self.beta)]
        copied = self.plain.copies[revision]
        await asyncio.sleep(for_s)
        sent = [each.tally.sent - was for each, was in zip((self.plain, self.beta), before, strict=True)]
        counted = [(each[revision], each.total()) for each in sent]
        self.shares[name], self.beta_shares[name] = (came / of for came, of in counted)
        self.all_shares[name] = sum(came for came, _ in counted) / sum(sent for _, sent in counted)
        self.copies[name] = self.plain.copies[revision] - copied


RoutedScript: TypeAlias = Callable[[Stage, Users], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Outcome:
    run: Run
    users: Users


def play_routed(
    manifests: tuple[Manifest, ...],
    script: RoutedScript,
    *,
    settings: GatewaySettings = ENVOY,
    behind: Behind | None = None,
    duration_s: float = 0.02,
    **options: Any,
) -> Outcome:
    """Plays a script under traffic, from the first revision's readiness until all is at rest.

    Args:
        duration_s: of a request.
    """
    came: list[Users] = []

    async def under_traffic(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        await asyncio.sleep(3.0)
        plain, beta = (
            stage.cluster.gateway_clients(stage.gateway, rate_per_s=rate, request=request, duration_s=duration_s)
            for request, rate in ((PLAIN, RATE_PER_S), (BETA, BETA_RATE_PER_S))
        )
        came.append(Users(plain, beta))
        await script(stage, came[0])
        await asyncio.sleep(20.0)
        came[0].stop()

    run = play(manifests, under_traffic, behind=behind or Behind(settings=settings), **options)
    return Outcome(run, came[0])


async def at_a_quarter(stage: Stage) -> None:
    """Image 2 has its 25 % and stays there for 30 s."""
    stage.image("2")
    await stage.until(lambda: stage.status.get("currentStepIndex") == _AT_A_QUARTER)


def assert_good(outcome: Outcome, phase: str = "Healthy", *, lost: tuple[int, ...] = ()) -> None:
    """It went to its end within the rules; nothing was lost but by what somebody else did."""
    outcome.run.assert_clean()
    assert set(outcome.users.causes) <= set(lost), outcome.users.causes
    assert outcome.run.end["status"]["phase"] == phase, outcome.run.end["status"]


def rules_broken(run: Run) -> set[str]:
    """Numbers of the invariants that a run broke."""
    return {each.split(": ")[1].split(",")[0] for each in run.violations}


def revision_of(stage: Stage, tag: str) -> str:
    """The revision of an image; "" when there is none yet."""
    for each in stage.cluster.list(REPLICA_SET):
        image = each["spec"]["template"]["spec"]["containers"][0]["image"]
        if image.rpartition(":")[2] == tag:
            return str(each["metadata"]["labels"][REVISION])
    return ""


def stored_weights(stage: Stage) -> tuple[int, int]:
    """Weights of the pair in the rule that has both; (0, 0) when there is no route."""
    manifest = stage.cluster.get(HTTP_ROUTE, KEY.namespace, KEY.name)
    if manifest is None:
        return 0, 0
    rules = (
        {each["name"]: each["weight"] for each in rule.get("backendRefs") or ()} for rule in manifest["spec"]["rules"]
    )
    weights = next(each for each in rules if {"stable", "canary"} <= each.keys())
    return weights["stable"], weights["canary"]


def stored_share(stage: Stage) -> Fraction:
    """The canary's part of the pair, as the route says it."""
    stable, canary_ = stored_weights(stage)
    return Fraction(canary_, stable + canary_) if stable + canary_ else Fraction(-1)


def patch(stage: Stage, kind: Kind, name: str, operations: list[Manifest]) -> None:
    body = msgspec.json.encode(operations)
    answer = stage.cluster.api.answer(
        Request("PATCH", kind.path(KEY.namespace, name), {"fieldManager": "somebody"}, body, JSON_PATCH)
    )
    assert answer.status == 200, answer.body


def set_weights(stage: Stage, *, stable: int, canary: int) -> None:
    """Somebody edits the pair in the last rule by hand."""
    rules = stage.find(HTTP_ROUTE)["spec"]["rules"]
    last, wanted = len(rules) - 1, {"stable": stable, "canary": canary}
    operations = [
        {"op": "replace", "path": f"/spec/rules/{last}/backendRefs/{index}/weight", "value": wanted[each["name"]]}
        for index, each in enumerate(rules[last]["backendRefs"])
        if each["name"] in wanted
    ]
    patch(stage, HTTP_ROUTE, KEY.name, operations)


def apply_as_gitops(stage: Stage, manifest: Manifest) -> None:
    """Server-side apply with force, as Flux does: what Git says comes back."""
    path = HTTP_ROUTE.path(KEY.namespace, KEY.name)
    query = {"fieldManager": "gitops", "force": "true"}
    answer = stage.cluster.api.answer(Request("PATCH", path, query, msgspec.json.encode(manifest), APPLY_PATCH))
    assert answer.status in (200, 201), answer.body
