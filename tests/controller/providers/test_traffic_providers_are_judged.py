"""Promise: a TrafficProvider says by itself whether Rollouts may use it, and what to do if not; without any nothing is asked."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from rollouts.api.schema import crd_manifests
from rollouts.bounded.here import Here
from rollouts.controller.wiring import EXIT_STOPPED, run_controller
from rollouts.objects import ROLLOUT, TRAFFIC_PROVIDER, Manifest
from rollouts.ports import MERGE_PATCH, Request, Response
from rollouts.settings import Settings
from rollouts.sim.cluster import SimulatedCluster
from rollouts.telemetry import Telemetry
from tests import build
from tests.controller.door import Door, refusal
from tests.traffic.cases.declared import APISIX, with_headers

pytestmark = pytest.mark.virtual_time(limit_s=4_000)

NAME = "my-apisix"
PATH = f"spec.strategy.canary.trafficRouting.plugins[{NAME}]"


def _object(**properties: Any) -> Manifest:
    return {"type": "object", "properties": properties}


def _list(of: Manifest) -> Manifest:
    return {"type": "array", "items": of}


TEXT = {"type": "string"}
BACKEND = _object(serviceName=TEXT, weight={"type": "integer", "minimum": 0})
SCHEMA = _object(spec=_object(http=_list(_object(name=TEXT, backends=_list(BACKEND)))))
APISIX_CRD: Manifest = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "apisixroutes.apisix.apache.org"},
    "spec": {
        "group": "apisix.apache.org",
        "scope": "Namespaced",
        "names": {"kind": "ApisixRoute", "plural": "apisixroutes"},
        "versions": [{"name": "v2", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}],
    },
}
SPEC: dict[str, Any] = {
    name: {"path": part} if name == "service" else part for name, part in APISIX.items() if name != "name"
}
TEST: dict[str, Any] = SPEC["tests"][0]


def provider(name: str = NAME, **spec: Any) -> Manifest:
    """A TrafficProvider."""
    return build.manifest(TRAFFIC_PROVIDER, name, spec={**SPEC, **spec})


def rollout(plugin: str = NAME) -> Manifest:
    """A Rollout that names a provider."""
    routing = {"plugins": {plugin: {"name": "cart"}}}
    services = {"stableService": "stable", "canaryService": "canary"}
    canary = {**services, "trafficRouting": routing, "steps": [{"setWeight": 10}]}
    return build.rollout({"canary": canary}, "cart", "default", replicas=1)


class Running:
    """A cluster with a controller."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.door = Door(cluster.api)
        self.ready: list[Telemetry] = []
        self.stops: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def controller(self, identity: str = "one", *, leader_elect: bool = False) -> AsyncIterator[None]:
        """A controller for as long as the block lasts."""
        stop = self.stops[identity] = asyncio.Event()
        settings = Settings(leader_elect=leader_elect, identity=identity, lease_namespace="default")
        running = asyncio.create_task(
            run_controller(
                settings, api=self.door, clock=self.cluster.clock, stop=stop, on_ready=self.ready.append, bounded=Here()
            )
        )
        try:
            yield
        finally:
            stop.set()
            assert await running == EXIT_STOPPED

    @asynccontextmanager
    async def judged(self, made: Manifest | None = None) -> AsyncIterator[None]:
        """A TrafficProvider, and a controller that has had two seconds for it."""
        self.cluster.apply(made or provider())
        async with self.controller():
            await asyncio.sleep(2)
            yield

    def condition(self, kind: str = "Ready", name: str = NAME) -> Manifest:
        """A condition of the TrafficProvider; empty before it is judged."""
        status = (self.cluster.get(TRAFFIC_PROVIDER, "", name) or {}).get("status") or {}
        return next((each for each in status.get("conditions") or () if each["type"] == kind), {})

    def told(self) -> str:
        """What is wrong with the Rollout's spec; "" for nothing."""
        status = (self.cluster.get(ROLLOUT, "default", "cart") or {}).get("status") or {}
        found = (each["message"] for each in status.get("conditions") or () if each["type"] == "InvalidSpec")
        return next(found, "")


@pytest.fixture
def crds() -> Sequence[Manifest]:
    """Ours, and the router's."""
    return *crd_manifests(), APISIX_CRD


@pytest.fixture
def running(cluster: SimulatedCluster) -> Running:
    """A cluster with such CRDs."""
    return Running(cluster)


MAY_NOT_CREATE = 'apisixroutes.apisix.apache.org is forbidden: User "x" cannot create resource "apisixroutes"'


def refused_in_a_dry_run(words: str) -> Callable[[Request], Response | None]:
    """What a door says to dry runs; the rest passes."""
    return lambda asked: refusal(403, "Forbidden", words) if "dryRun" in asked.query else None


async def test_a_good_one_is_ready_after_a_dry_run_that_stores_nothing(running: Running) -> None:
    """Its tests' objects are what the router's own CRD is asked about, before and after."""
    async with running.judged():
        ready, stalled = running.condition(), running.condition("Stalled")
        assert (ready["status"], ready["reason"], ready["observedGeneration"]) == ("True", "Tried", 1)
        assert stalled["status"] == "False"
        weights = [[each["weight"] for each in one["spec"]["http"][0]["backends"]] for one in running.door.tried]
        assert weights == [[100, 0], [90, 10]]
        stored = running.cluster.api.answer(Request("GET", "/apis/apisix.apache.org/v2/apisixroutes"))
        assert b"rollouts-dry-run" not in stored.body
        before = len(running.door.asked)
        await asyncio.sleep(900)
        assert len(running.door.asked) - before <= 20  # watches end and begin again


@pytest.mark.parametrize(
    ("made", "reason", "message"),
    [
        (provider(backends="spec.http"), "InvalidSpec", "spec.backends: must be a path to a list"),
        (provider(service={"cel": "item."}), "InvalidSpec", "spec.service.cel: Syntax error"),
        (provider(tests=[{**TEST, "canaryPercent": 20}]), "InvalidSpec", "spec.tests[0].result: differs from the object"),
        (provider("apisix"), "InvalidSpec", "metadata.name: apisix is the name of a provider that comes with the controller"),
        (provider("knative-x", match={**SPEC["match"], "plural": "x"}), "KindNotServed", "install the CustomResource"),
        (
            provider(tests=[{part: {**TEST[part], "spec": {**TEST[part]["spec"], "more": 1}} for part in ("object", "result")}
                            | {"canaryPercent": 10}]),
            "TestRefused", "spec.tests[0].object: the API server refuses it",
        ),
    ],
)  # fmt: skip
async def test_a_bad_one_says_what_is_wrong(made: Manifest, reason: str, message: str, running: Running) -> None:
    """Its author reads it with kubectl, and nobody's traffic is where it is found out."""
    name = made["metadata"]["name"]
    async with running.judged(made):
        ready = running.condition(name=name)
        assert (ready["status"], ready["reason"]) == ("False", reason)
        assert message in ready["message"]
        assert running.condition("Stalled", name)["status"] == "True"


def with_kind(made: Manifest) -> Manifest:
    """The same, its template with the field that the API server would add."""
    changed: Manifest = copy.deepcopy(made)
    changed["spec"]["header"]["template"]["match"]["kind"] = "any"
    for test in changed["spec"]["tests"]:
        test["result"]["spec"]["http"][0]["match"]["kind"] = "any"
    return changed


def _with_rules() -> Manifest:
    """The CRD of a router whose rules have fields that it fills."""
    crd = copy.deepcopy(APISIX_CRD)
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    rule = schema["properties"]["spec"]["properties"]["http"]["items"]["properties"]
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    rule["match"] = _object(exprs=_list(free), kind={"type": "string", "default": "any"})
    rule["priority"] = {"type": "integer"}
    return crd


@pytest.mark.parametrize("crds", [(*crd_manifests(), _with_rules())], ids=["with rules"])
async def test_a_copy_that_the_api_server_would_make_unknown_is_found_by_the_dry_run(running: Running) -> None:
    """What a CRD adds to a copied rule would hide it from us, and the rule would be made again and again."""
    declaration = with_headers()
    made = provider(header=declaration["header"], tests=declaration["tests"])
    async with running.judged(made):
        hidden = running.condition()
        running.cluster.apply(with_kind(made))
        await asyncio.sleep(2)
        mended = running.condition()
        assert (hidden["status"], hidden["reason"]) == ("False", "TestRefused")
        assert "spec.tests[0].result: the API server changes the object" in hidden["message"]
        assert (mended["status"], mended["reason"]) == ("True", "Tried")


async def test_one_that_may_not_be_tried_is_ready_and_says_what_would_allow_it(running: Running) -> None:
    """The right to create a router's objects is more than the controller needs for its work."""
    running.door.answers = refused_in_a_dry_run(MAY_NOT_CREATE)
    async with running.judged():
        ready = running.condition()
        assert (ready["status"], ready["reason"]) == ("True", "NotTried")
        assert "apiGroups: [apisix.apache.org], resources: [apisixroutes], verbs: [create]" in ready["message"]


async def test_a_webhook_that_says_no_is_not_taken_for_a_missing_right(running: Running) -> None:
    """Both answer 403."""
    running.door.answers = refused_in_a_dry_run(
        'admission webhook "policy.example.com" denied the request: no weights here'
    )
    async with running.judged():
        assert (running.condition()["status"], running.condition()["reason"]) == ("False", "TestRefused")
        assert "no weights here" in running.condition()["message"]


@pytest.mark.parametrize("crds", [crd_manifests()], ids=["no router"])
async def test_it_becomes_ready_when_the_routers_own_kind_is_installed(running: Running) -> None:
    """The order in which things are installed is nobody's business; no more than one request in five minutes asks."""
    async with running.judged():
        assert running.condition()["reason"] == "KindNotServed"
        running.cluster.apply(APISIX_CRD)
        await asyncio.sleep(310)
        assert running.condition()["status"] == "True"


async def test_a_restart_asks_nothing_and_interrupts_nobody(running: Running) -> None:
    """What was found Ready is believed for its generation; the declaration itself is read again."""
    async with running.judged():
        pass
    tried = len(running.door.tried)
    running.cluster.apply(rollout())
    async with running.controller("two"):
        await asyncio.sleep(5)
        assert len(running.door.tried) == tried
        assert running.told() == ""
        assert running.condition()["status"] == "True"


@pytest.mark.parametrize("crds", [crd_manifests()[:1], crd_manifests()], ids=["no such kind", "may not be watched"])
async def test_without_the_kind_the_controller_works_and_asks_no_more(
    crds: tuple[Manifest, ...], running: Running
) -> None:
    """An installation for some namespaces may not watch the cluster's objects, and an older one has not the kind."""
    words = "trafficproviders.rollouts.dev is forbidden"
    running.door.answers = lambda asked: (
        refusal(403, "Forbidden", words) if len(crds) > 1 and TRAFFIC_PROVIDER.plural in asked.path else None
    )
    async with running.controller():
        await asyncio.sleep(2)
        assert running.ready
        asked = running.door.count(TRAFFIC_PROVIDER.plural)
        assert asked <= 2
        await asyncio.sleep(600)
        assert running.door.count(TRAFFIC_PROVIDER.plural) == asked


@pytest.mark.parametrize("crds", [(*crd_manifests()[:1], APISIX_CRD)], ids=["no such kind"])
async def test_a_rollout_that_names_one_makes_the_controller_look_again(running: Running) -> None:
    """Somebody installs the kind after the controller: it is found within two minutes, without a restart."""
    running.cluster.apply(rollout())
    async with running.controller():
        await asyncio.sleep(10)
        assert running.told().startswith(f"{PATH}: there is no provider of this name")
        assert f"write a TrafficProvider {NAME}" in running.told()
        running.cluster.apply(crd_manifests()[1])
        running.cluster.apply(provider())
        await asyncio.sleep(120)
        assert running.condition()["status"] == "True"
        assert running.told() == ""


async def test_nothing_is_called_invalid_before_it_is_known_which_there_are(running: Running) -> None:
    """A slow answer at the start must not turn every Rollout with a declared router Degraded for a moment."""
    async with running.judged():
        pass
    slow = asyncio.Event()
    running.cluster.apply(rollout())
    told: list[str] = []
    unavailable = refusal(503, "ServiceUnavailable", "later")
    running.door.answers = lambda asked: (
        unavailable if TRAFFIC_PROVIDER.plural in asked.path and not slow.is_set() else None
    )
    async with running.controller("two"):
        for _ in range(30):
            await asyncio.sleep(1)
            told.append(running.told())
        slow.set()
        await asyncio.sleep(60)
        assert running.told() == ""
        assert (running.cluster.get(ROLLOUT, "default", "cart") or {}).get("status")
    assert set(told) == {""}


async def test_a_status_that_somebody_writes_over_is_put_right(running: Running) -> None:
    """It is the controller's."""
    async with running.judged():
        body = msgspec.json.encode({"status": {"conditions": []}})
        path = TRAFFIC_PROVIDER.path(None, NAME, "status")
        assert running.cluster.api.answer(Request("PATCH", path, {}, body, MERGE_PATCH)).status == 200
        await asyncio.sleep(2)
        assert running.condition()["status"] == "True"


async def test_two_installations_do_not_fight_over_what_they_say(running: Running) -> None:
    """One may create the router's objects and the other may not: each says so once, and the last word stands."""
    other = Running(running.cluster)
    other.door.answers = refused_in_a_dry_run(MAY_NOT_CREATE)
    async with running.controller("one"), other.controller("two"):
        running.cluster.apply(provider())
        await asyncio.sleep(600)
        writes = [each for each in (*running.door.asked, *other.door.asked) if each.method == "PATCH"]
        assert 1 <= len(writes) <= 3
        assert running.condition()["status"] == "True"


async def test_a_standby_follows_what_the_leader_found(running: Running) -> None:
    """It takes over without a dry run, and without a moment in which a Rollout has no provider."""
    standby = Running(running.cluster)
    running.cluster.apply(rollout())
    async with running.controller("first", leader_elect=True):
        await asyncio.sleep(3)
        async with standby.controller("second", leader_elect=True):
            await asyncio.sleep(3)
            running.cluster.apply(provider())
            await asyncio.sleep(10)
            assert running.condition()["status"] == "True"
            assert (len(running.door.tried), standby.door.tried) == (2, [])
            running.stops["first"].set()
            await asyncio.sleep(30)
            assert b"rollouts_leader 1.0" in standby.ready[0].exposition()
            assert standby.door.tried == []
            assert running.told() == ""
            assert not [each for each in standby.door.asked if TRAFFIC_PROVIDER.plural in each.path and each.body]


async def test_one_that_goes_while_another_is_tried_is_no_trouble(running: Running) -> None:
    """People apply and delete as they like; a crash here would end the controller."""

    def delete_the_other(asked: Request) -> None:
        if "dryRun" in asked.query:
            running.cluster.api.answer(Request("DELETE", TRAFFIC_PROVIDER.path(None, "z-other")))

    running.door.answers = delete_the_other
    running.cluster.apply(provider())
    running.cluster.apply(provider("z-other"))
    async with running.controller():
        await asyncio.sleep(5)
        assert running.condition()["status"] == "True"
        assert running.cluster.get(TRAFFIC_PROVIDER, "", "z-other") is None
