"""Promise: a TrafficProvider says by itself whether Rollouts may use it, and what to do if not; without any nothing is asked."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from rollouts.api.schema import crd_manifests
from rollouts.bounded.here import Here
from rollouts.controller.wiring import EXIT_STOPPED, run_controller
from rollouts.objects import ROLLOUT, TRAFFIC_PROVIDER, Manifest
from rollouts.ports import MERGE_PATCH, Request
from rollouts.settings import Settings
from rollouts.sim.clock import run_virtual
from rollouts.sim.cluster import SimulatedCluster
from rollouts.telemetry import Telemetry
from tests.controller.door import Door, refusal
from tests.traffic.cases.declared import APISIX, with_headers

NAME = "my-apisix"
PATH = f"spec.strategy.canary.trafficRouting.plugins[{NAME}]"
APISIX_CRD: Manifest = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "apisixroutes.apisix.apache.org"},
    "spec": {
        "group": "apisix.apache.org",
        "scope": "Namespaced",
        "names": {"kind": "ApisixRoute", "plural": "apisixroutes"},
        "versions": [
            {
                "name": "v2",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "http": {
                                        "type": "array",
                                        "items": {
                                            "type": "object",
                                            "properties": {
                                                "name": {"type": "string"},
                                                "backends": {
                                                    "type": "array",
                                                    "items": {
                                                        "type": "object",
                                                        "properties": {
                                                            "serviceName": {"type": "string"},
                                                            "weight": {"type": "integer", "minimum": 0},
                                                        },
                                                    },
                                                },
                                            },
                                        },
                                    }
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}
SPEC: dict[str, Any] = {
    name: {"path": part} if name == "service" else part for name, part in APISIX.items() if name != "name"
}
TEST: dict[str, Any] = SPEC["tests"][0]


def provider(name: str = NAME, **spec: Any) -> Manifest:
    """A TrafficProvider."""
    head = {"apiVersion": TRAFFIC_PROVIDER.api_version, "kind": TRAFFIC_PROVIDER.kind}
    return {**head, "metadata": {"name": name}, "spec": {**SPEC, **spec}}


def rollout(plugin: str = NAME) -> Manifest:
    """A Rollout that names a provider."""
    routing = {"plugins": {plugin: {"name": "cart"}}}
    canary = {
        "stableService": "stable",
        "canaryService": "canary",
        "trafficRouting": routing,
        "steps": [{"setWeight": 10}],
    }
    labels = {"app": "cart"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "cart:1"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "strategy": {"canary": canary}, "template": template}
    head = {"apiVersion": ROLLOUT.api_version, "kind": ROLLOUT.kind}
    return {**head, "metadata": {"name": "cart", "namespace": "default"}, "spec": spec}


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

    def condition(self, kind: str = "Ready", name: str = NAME) -> Manifest:
        """A condition of the TrafficProvider; empty before it is judged."""
        status = (self.cluster.get(TRAFFIC_PROVIDER, "", name) or {}).get("status") or {}
        return next((each for each in status.get("conditions") or () if each["type"] == kind), {})

    def told(self) -> str:
        """What is wrong with the Rollout's spec; "" for nothing."""
        status = (self.cluster.get(ROLLOUT, "default", "cart") or {}).get("status") or {}
        found = (each["message"] for each in status.get("conditions") or () if each["type"] == "InvalidSpec")
        return next(found, "")


def play(scenario: Callable[[Running], Awaitable[None]], *crds: Manifest) -> None:
    """Plays a scenario in virtual time on a cluster with these CRDs."""

    async def main() -> None:
        async with SimulatedCluster(seed=3, crds=crds) as cluster:
            await scenario(Running(cluster))

    run_virtual(main(), limit_s=4_000)


def test_a_good_one_is_ready_after_a_dry_run_that_stores_nothing() -> None:
    """Its tests' objects are what the router's own CRD is asked about, before and after."""

    async def scenario(running: Running) -> None:
        running.cluster.apply(provider())
        async with running.controller():
            await asyncio.sleep(2)
            ready, stalled = running.condition(), running.condition("Stalled")
            assert (ready["status"], ready["reason"], ready["observedGeneration"]) == ("True", "Tried", 1)
            assert stalled["status"] == "False"
            weights = [[each["weight"] for each in one["spec"]["http"][0]["backends"]] for one in running.door.tried]
            assert weights == [[100, 0], [90, 10]]
            assert not running.cluster.api.answer(Request("GET", "/apis/apisix.apache.org/v2/apisixroutes")).body.count(
                b"rollouts-dry-run"
            )
            before = len(running.door.asked)
            await asyncio.sleep(900)
            assert len(running.door.asked) - before <= 20  # watches end and begin again

    play(scenario, *crd_manifests(), APISIX_CRD)


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
def test_a_bad_one_says_what_is_wrong_with_it(made: Manifest, reason: str, message: str) -> None:
    """Its author reads it with kubectl, and nobody's traffic is where it is found out."""
    name = made["metadata"]["name"]

    async def scenario(running: Running) -> None:
        running.cluster.apply(made)
        async with running.controller():
            await asyncio.sleep(2)
            ready = running.condition(name=name)
            assert (ready["status"], ready["reason"]) == ("False", reason)
            assert message in ready["message"]
            assert running.condition("Stalled", name)["status"] == "True"

    play(scenario, *crd_manifests(), APISIX_CRD)


def with_kind(made: Manifest) -> Manifest:
    """The same, its template with the field that the API server would add."""
    changed: Manifest = copy.deepcopy(made)
    changed["spec"]["header"]["template"]["match"]["kind"] = "any"
    for test in changed["spec"]["tests"]:
        test["result"]["spec"]["http"][0]["match"]["kind"] = "any"
    return changed


def test_a_copy_that_the_api_server_would_make_unknown_is_found_by_the_dry_run() -> None:
    """What a CRD adds to a copied rule would hide it from us, and the rule would be made again and again."""
    crd: Manifest = copy.deepcopy(APISIX_CRD)
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    rule = schema["properties"]["spec"]["properties"]["http"]["items"]["properties"]
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    kind = {"type": "string", "default": "any"}
    rule["match"] = {"type": "object", "properties": {"exprs": {"type": "array", "items": free}, "kind": kind}}
    rule["priority"] = {"type": "integer"}
    declaration = with_headers()
    made = provider(header=declaration["header"], tests=declaration["tests"])

    async def scenario(running: Running) -> None:
        running.cluster.apply(made)
        async with running.controller():
            await asyncio.sleep(2)
            hidden = running.condition()
            running.cluster.apply(with_kind(made))
            await asyncio.sleep(2)
            mended = running.condition()
            assert (hidden["status"], hidden["reason"]) == ("False", "TestRefused")
            assert "spec.tests[0].result: the API server changes the object" in hidden["message"]
            assert (mended["status"], mended["reason"]) == ("True", "Tried")

    play(scenario, *crd_manifests(), crd)


def test_one_that_may_not_be_tried_is_ready_and_says_what_would_allow_it() -> None:
    """The right to create a router's objects is more than the controller needs for its work."""
    words = 'apisixroutes.apisix.apache.org is forbidden: User "x" cannot create resource "apisixroutes"'

    async def scenario(running: Running) -> None:
        running.door.answers = lambda asked: refusal(403, "Forbidden", words) if "dryRun" in asked.query else None
        running.cluster.apply(provider())
        async with running.controller():
            await asyncio.sleep(2)
            ready = running.condition()
            assert (ready["status"], ready["reason"]) == ("True", "NotTried")
            assert "apiGroups: [apisix.apache.org], resources: [apisixroutes], verbs: [create]" in ready["message"]

    play(scenario, *crd_manifests(), APISIX_CRD)


def test_a_webhook_that_says_no_is_not_taken_for_a_missing_right() -> None:
    """Both answer 403."""

    async def scenario(running: Running) -> None:
        words = 'admission webhook "policy.example.com" denied the request: no weights here'
        running.door.answers = lambda asked: refusal(403, "Forbidden", words) if "dryRun" in asked.query else None
        running.cluster.apply(provider())
        async with running.controller():
            await asyncio.sleep(2)
            assert (running.condition()["status"], running.condition()["reason"]) == ("False", "TestRefused")
            assert "no weights here" in running.condition()["message"]

    play(scenario, *crd_manifests(), APISIX_CRD)


def test_it_becomes_ready_when_the_routers_own_kind_is_installed() -> None:
    """The order in which things are installed is nobody's business; no more than one request in five minutes asks."""

    async def scenario(running: Running) -> None:
        running.cluster.apply(provider())
        async with running.controller():
            await asyncio.sleep(2)
            assert running.condition()["reason"] == "KindNotServed"
            running.cluster.apply(APISIX_CRD)
            await asyncio.sleep(310)
            assert running.condition()["status"] == "True"

    play(scenario, *crd_manifests())


def test_a_restart_asks_nothing_and_interrupts_nobody() -> None:
    """What was found Ready is believed for its generation; the declaration itself is read again."""

    async def scenario(running: Running) -> None:
        running.cluster.apply(provider())
        async with running.controller():
            await asyncio.sleep(2)
        tried = len(running.door.tried)
        running.cluster.apply(rollout())
        async with running.controller("two"):
            await asyncio.sleep(5)
            assert len(running.door.tried) == tried
            assert running.told() == ""
            assert running.condition()["status"] == "True"

    play(scenario, *crd_manifests(), APISIX_CRD)


@pytest.mark.parametrize("crds", [crd_manifests()[:1], crd_manifests()], ids=["no such kind", "may not be watched"])
def test_where_there_can_be_none_the_controller_works_and_does_not_keep_asking(crds: tuple[Manifest, ...]) -> None:
    """An installation for some namespaces may not watch the cluster's objects, and an older one has not the kind."""

    async def scenario(running: Running) -> None:
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

    play(scenario, *crds)


def test_a_rollout_that_names_one_makes_the_controller_look_again() -> None:
    """Somebody installs the kind after the controller: it is found within two minutes, without a restart."""

    async def scenario(running: Running) -> None:
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

    play(scenario, *crd_manifests()[:1], APISIX_CRD)


def test_nothing_is_called_invalid_before_it_is_known_which_there_are() -> None:
    """A slow answer at the start must not turn every Rollout with a declared router Degraded for a moment."""

    async def scenario(running: Running) -> None:
        running.cluster.apply(provider())
        async with running.controller():
            await asyncio.sleep(2)
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

    play(scenario, *crd_manifests(), APISIX_CRD)


def test_a_status_that_somebody_writes_over_is_put_right() -> None:
    """It is the controller's."""

    async def scenario(running: Running) -> None:
        running.cluster.apply(provider())
        async with running.controller():
            await asyncio.sleep(2)
            body = msgspec.json.encode({"status": {"conditions": []}})
            path = TRAFFIC_PROVIDER.path(None, NAME, "status")
            assert running.cluster.api.answer(Request("PATCH", path, {}, body, MERGE_PATCH)).status == 200
            await asyncio.sleep(2)
            assert running.condition()["status"] == "True"

    play(scenario, *crd_manifests(), APISIX_CRD)


def test_two_installations_do_not_fight_over_what_they_say() -> None:
    """One may create the router's objects and the other may not: each says so once, and the last word stands."""
    words = 'apisixroutes.apisix.apache.org is forbidden: User "x" cannot create resource "apisixroutes"'

    async def scenario(running: Running) -> None:
        other = Running(running.cluster)
        other.door.answers = lambda asked: refusal(403, "Forbidden", words) if "dryRun" in asked.query else None
        async with running.controller("one"), other.controller("two"):
            running.cluster.apply(provider())
            await asyncio.sleep(600)
            writes = [each for each in (*running.door.asked, *other.door.asked) if each.method == "PATCH"]
            assert 1 <= len(writes) <= 3
            assert running.condition()["status"] == "True"

    play(scenario, *crd_manifests(), APISIX_CRD)


def test_a_standby_follows_what_the_leader_found() -> None:
    """It takes over without a dry run, and without a moment in which a Rollout has no provider."""

    async def scenario(running: Running) -> None:
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

    play(scenario, *crd_manifests(), APISIX_CRD)


def test_one_that_goes_while_another_is_tried_is_no_trouble() -> None:
    """People apply and delete as they like; a crash here would end the controller."""

    async def scenario(running: Running) -> None:
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

    play(scenario, *crd_manifests(), APISIX_CRD)
