"""Requests that an API server refuses for a while, and worlds whose parts can be refused."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from typing import Any

import msgspec
from msgspec import Struct

from rollouts.objects import Manifest
from rollouts.ports import ApiServer, Request, Response, WatchStream
from rollouts.sim.apiserver.watches import RefusedWatch
from rollouts.sim.storage.refusals import Refused as Refusal
from rollouts.traffic.nginx.settings import INGRESS_KINDS
from tests import build
from tests.behaviour.configured import CONF
from tests.behaviour.routed import routed
from tests.behaviour.routes.subsets import crd
from tests.behaviour.scenarios import canary, rollout
from tests.behaviour.stage import KEY, Between, Stage
from tests.cluster.stand_ins import PassesOn

FORBIDDEN = 403
(INGRESS,) = INGRESS_KINDS
INGRESS_CRD = crd(INGRESS)
_PREFIX = "nginx.ingress.kubernetes.io"


class Refused(Struct, frozen=True):
    """Requests that are refused.

    Args:
        plural: of their objects.
        status, said: of the answer.
    """

    plural: str
    method: str = "PATCH"
    status: int = FORBIDDEN
    said: str = "no right to do that"


class Refusing(PassesOn):
    """An API server that refuses some requests.

    Args:
        refused: those that it refuses now.
        refused_at_s: when it refused one, in the time of the loop.
    """

    def __init__(self, api: ApiServer) -> None:
        super().__init__(api)
        self.refused: set[Refused] = set()
        self.refused_at_s: list[float] = []

    def allow_all(self) -> None:
        self.refused = set()

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        if (said := self._refusal(request)) is not None:
            self.refused_at_s.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0.001)
            return Response(said.code, msgspec.json.encode(said.status()))
        return await super().request(request, deadline_s=deadline_s)

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        if (said := self._refusal(request)) is not None:
            return RefusedWatch(said)
        return await super().open_watch(request, deadline_s=deadline_s, silence_s=silence_s)

    def _refusal(self, request: Request) -> Refusal | None:
        for each in self.refused:
            if request.method == each.method and f"/{each.plural}" in request.path:
                reason = "Forbidden" if each.status == FORBIDDEN else "Invalid"
                return Refusal(each.status, reason, each.said, {"kind": each.plural})
        return None


def noted(servers: list[Refusing]) -> Between:
    """Puts such a server before the cluster's, and into the list."""

    def between(api: ApiServer) -> ApiServer:
        servers.append(Refusing(api))
        return servers[-1]

    return between


def configured_route(*steps: Manifest, **options: Any) -> Manifest:
    """A Rollout with a route whose pods read a ConfigMap."""
    return _reading({"configMapKeyRef": {"name": CONF, "key": "key"}}, routed(*steps, **options))


def _reading(source: Manifest, rollout: Manifest) -> Manifest:
    container = rollout["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "VALUE", "valueFrom": source}]
    return rollout


def secret(value: str) -> Manifest:
    return build.secret("cred", KEY.namespace, type="Opaque", stringData={"key": value})


def with_secret(*steps: Manifest, **options: Any) -> Manifest:
    """A Rollout with a route whose pods read that Secret."""
    made = routed(*steps, configVersioning={"secrets": True}, **options)
    return _reading({"secretKeyRef": {"name": "cred", "key": "key"}}, made)


def ingress() -> Manifest:
    """The user's Ingress; the controller makes another one beside it."""
    backend = {"service": {"name": "stable", "port": {"number": 80}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    rules = [{"host": "web.example", "http": {"paths": paths}}]
    return build.manifest(INGRESS, KEY.name, KEY.namespace, spec={"ingressClassName": "nginx", "rules": rules})


def ingressed(*steps: Manifest, replicas: int) -> Manifest:
    """A Rollout whose steps are carried out by a canary Ingress."""
    routing = {"nginx": {"stableIngress": KEY.name}}
    strategy = canary(*steps, services=True, trafficRouting=routing, scaleDownDelaySeconds=2)
    return rollout(strategy, replicas=replicas)


def ingress_share(stage: Stage) -> Fraction:
    """The canary's part of the requests, as the Ingresses say it."""
    ours = [each for each in stage.cluster.list(INGRESS, KEY.namespace) if each["metadata"]["name"] != KEY.name]
    annotations = ours[0]["metadata"]["annotations"] if ours else {}
    return Fraction(int(annotations.get(f"{_PREFIX}/canary-weight", "0")), 100)
