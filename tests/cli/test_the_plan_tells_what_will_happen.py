"""`rollouts plan` on a simulated cluster over HTTP: what it says is what the controller then does, and it writes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from rollouts.cli.demo.manifests import rollout, service
from rollouts.cli.demo.stage import DemoStage, simulated_stage
from rollouts.cli.main import main
from rollouts.cli.view.objects import RolloutObjects, revision_of, status_of
from rollouts.objects import Manifest
from rollouts.ports import Request, Response, WatchStream
from rollouts.sim.apiserver.http import SimHttp
from rollouts.sim.apiserver.server import SimServer

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
CANARY = {"canary": {"maxSurge": 1, "maxUnavailable": 0, "steps": [{"setWeight": 50}, {"pause": {}}]}}
PATIENCE_S = 20.0


@dataclass
class Door:
    """The API server as the command line finds it: every request is recorded, and some paths are refused.

    Args:
        refused: parts of paths that are answered with 403.
        absent: parts of paths that this server knows no resource for.
    """

    api: SimServer
    requests: list[Request] = field(default_factory=list)
    refused: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        """As the port's."""
        self.requests.append(request)
        if any(part in request.path for part in self.refused):
            return Response(403, b'{"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}')
        if any(part in request.path for part in self.absent):
            message = "the server could not find the requested resource"
            return Response(404, json.dumps({"kind": "Status", "code": 404, "message": message}).encode())
        return await self.api.request(request, deadline_s=deadline_s)

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        """As the port's."""
        self.requests.append(request)
        return await self.api.open_watch(request, deadline_s=deadline_s, silence_s=silence_s)

    def end_watches(self) -> None:
        """Nothing to end: no command here watches."""


@dataclass(frozen=True)
class Shop:
    """A cluster with the real controller, its door for the command line, and a folder for files."""

    stage: DemoStage
    door: Door
    folder: Path

    async def plan(self, text: str, *words: str) -> int:
        """`rollouts plan` of a file with this text, in a thread of its own, as a process of its own would run it."""
        file = self.folder / "file.yaml"
        file.write_text(text, encoding="utf-8")
        arguments = ["plan", "--kubeconfig", str(self.folder / "kubeconfig"), "-f", str(file), *words]
        return await asyncio.to_thread(main, arguments)

    async def healthy(self, *manifests: Manifest, name: str = "cart") -> None:
        """Installs objects and waits until the Rollout is rolled out."""
        await self.stage.install(manifests)
        await self.reaches("Healthy", name=name)

    async def reaches(self, phase: str, *, name: str = "cart") -> RolloutObjects:
        """Waits for the Rollout's phase, of the latest spec."""

        def holds(seen: RolloutObjects) -> bool:
            status = status_of(seen.rollout)
            return status.phase == phase and status.observed_generation == seen.rollout["metadata"]["generation"]

        return await self.stage.until(name, holds, deadline_s=PATIENCE_S, what=phase)


@contextlib.asynccontextmanager
async def shop(folder: Path) -> AsyncIterator[Shop]:
    """An empty namespace."""
    async with simulated_stage(serve=None, seed=3) as stage:
        assert stage.sim is not None
        door = Door(stage.sim.api)
        async with SimHttp(cast(SimServer, door)) as http:
            http.write_kubeconfig(folder / "kubeconfig", namespace=stage.namespace)
            yield Shop(stage, door, folder)


def cart(*, tag: str = "1", strategy: Manifest = CANARY, **spec: Any) -> Manifest:
    """A Rollout of four pods that can be updated safely."""
    manifest = rollout("", "cart", strategy)
    del manifest["metadata"]["namespace"]
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container["image"] = f"cart:{tag}"
    del container["lifecycle"], manifest["spec"]["drain"]
    manifest["spec"] |= spec
    return manifest


def text_of(*manifests: Manifest) -> str:
    """The file."""
    return yaml.safe_dump_all(manifests)


async def planned(there: Shop, capsys: pytest.CaptureFixture[str], text: str, *words: str) -> dict[str, Any]:
    """The plan as data, and that its exit code says whether it is unsafe."""
    capsys.readouterr()
    code = await there.plan(text, "-o", "json", *words)
    (plan,) = json.loads(capsys.readouterr().out)["plans"]
    assert code == (5 if plan["unsafe"] else 0)
    return dict(plan)


def rules(plan: dict[str, Any], severity: str) -> set[str]:
    """Names of the findings of a severity."""
    return {each["rule"] for each in plan["findings"] if each["severity"] == severity}


async def test_a_plan_writes_nothing(tmp_path: Path) -> None:
    """GET and LIST only, for a Rollout that is there and for one that is not: its user may need no right to write."""
    async with shop(tmp_path) as there:
        await there.healthy(cart(), service(there.stage.namespace, "cart", app="cart"))
        for text in (text_of(cart(tag="2")), *(each.read_text(encoding="utf-8") for each in EXAMPLES)):
            assert await there.plan(text) == 0

        assert {request.method for request in there.door.requests} == {"GET"}
        assert all("watch" not in request.query for request in there.door.requests)
        assert len(there.door.requests) > len(EXAMPLES)
        assert all("dryRun" not in request.query for request in there.door.requests)


async def test_what_is_planned_is_what_happens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The revision, and the pods at the step where it waits for a person, are compared with the controller's own."""
    async with shop(tmp_path) as there:
        await there.healthy(cart(), service(there.stage.namespace, "cart", app="cart"))
        plan = await planned(there, capsys, text_of(cart(tag="2")))

        await there.stage.change(
            "cart", [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "cart:2"}]
        )
        step = plan["steps"][1]

        def as_planned(seen: RolloutObjects) -> bool:
            """A step is recorded as done before the last old pod of it goes, so the sizes are waited for."""
            status = status_of(seen.rollout)
            sizes = {revision_of(each): each["spec"]["replicas"] for each in seen.replica_sets}
            return status.phase == "Paused" and step["pods"] == {
                "new": sizes.get(status.current_revision),
                "old": sizes.get(status.stable_revision),
                "others": 0,
            }

        seen = await there.stage.until("cart", as_planned, deadline_s=PATIENCE_S, what=f"{step['pods']} at the pause")
        status = status_of(seen.rollout)
        assert status.step_index == 1
        assert plan["revision"] == {
            "template": status.current_revision,
            "current": status.stable_revision,
            "stable": status.stable_revision,
            "target": status.current_revision,
            "changes": True,
        }
        assert step["what"] == "1 pause until promoted"
        assert step["services"] == {"cart": "both"}
        assert [(wait["reason"], wait["seconds"]) for wait in step["waits"]] == [("PromotionNeeded", None)]
        assert plan["startup"] is not None


async def test_a_rollout_that_is_not_there_is_planned_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its first revision has no steps, so the next update's are shown; a Service of the same file counts as there."""
    strategy = {"blueGreen": {"activeService": "cart", "scaleDownDelaySeconds": 100}}
    async with shop(tmp_path) as there:
        namespace = there.stage.namespace
        plan = await planned(there, capsys, text_of(cart(strategy=strategy), service(namespace, "cart", app="cart")))

        assert (plan["exists"], plan["supposed"], plan["startup"]) == (False, True, None)
        assert [step["kind"] for step in plan["steps"]] == ["preview", "switch", "after"]
        assert [step["services"]["cart"] for step in plan["steps"]] == ["old", "new", "new"]
        assert plan["waits"]["unmeasured"] == 1
        assert plan["waits"]["knownSeconds"] == 100
        assert plan["findings"][-1]["rule"] == "KeptConnections"

        missing = await planned(there, capsys, text_of(cart(strategy=strategy)))
        assert rules(missing, "unsafe") == {"ServiceMissing"}


async def test_a_file_that_changes_no_template_shows_the_next_update(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ "Nothing to do" would be true, and no help to somebody who asks what an update does."""
    async with shop(tmp_path) as there:
        await there.healthy(cart(), service(there.stage.namespace, "cart", app="cart"))
        plan = await planned(there, capsys, text_of(cart()))

        assert (plan["revision"]["changes"], plan["supposed"]) == (False, True)
        assert [step["pods"]["new"] for step in plan["steps"]] == [2, 2, 4]

        assert await there.plan(text_of(cart())) == 0
        said = capsys.readouterr().out
        assert "the file does not change the pods" in said
        assert "0 setWeight 50" in said and "nothing unsafe was found" in said
        assert all(line == line.rstrip() for line in said.splitlines())


async def test_unsafe_services_and_pods_are_found_with_the_fix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The live Service is looked at, not only the file; the exit code is 5, apart from an invalid spec's."""
    async with shop(tmp_path) as there:
        local = service(there.stage.namespace, "cart", app="cart")
        local["spec"]["internalTrafficPolicy"] = "Local"
        local["spec"]["sessionAffinity"] = "ClientIP"
        await there.healthy(cart(), local)
        bare = cart(tag="2")
        del bare["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]

        plan = await planned(there, capsys, text_of(bare))
        assert rules(plan, "unsafe") == {"NoReadinessProbe", "InternalTrafficLocal"}
        assert rules(plan, "warning") == {"SessionAffinity"}
        assert all(each["fix"] for each in plan["findings"])

        mended = service(there.stage.namespace, "cart", app="cart")
        mended["spec"] |= {"internalTrafficPolicy": "Cluster", "sessionAffinity": "None"}
        assert rules(await planned(there, capsys, text_of(cart(tag="2"), mended)), "unsafe") == set()

        assert await there.plan(text_of(bare), "-o", "wide") == 5
        said = capsys.readouterr().out
        assert "unsafe  Service cart  spec.internalTrafficPolicy" in said
        assert "Fix: use Cluster (the default)" in said
        assert "2 unsafe findings" in said


async def test_a_weight_that_no_client_of_the_stable_service_gets_is_unsafe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan sees all Services of the namespace: without one for both revisions, one of ten pods takes everything at 90 %."""
    strategy = {"canary": {"stableService": "cart", "canaryService": "cart-canary", "steps": [{"setWeight": 90}]}}
    async with shop(tmp_path) as there:
        namespace = there.stage.namespace
        pair = [service(namespace, name, app="cart") for name in ("cart", "cart-canary")]
        await there.stage.install(pair)

        alone = await planned(there, capsys, text_of(cart(strategy=strategy)))
        shared = await planned(
            there, capsys, text_of(cart(strategy=strategy), service(namespace, "cart-all", app="cart"))
        )

        assert rules(alone, "unsafe") == {"WeightWithoutEffect"}
        assert "WeightWithoutEffect" in rules(shared, "note")


async def test_a_service_that_selects_other_pods_is_where_it_halts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The controller would wait for somebody; the selector of the file counts, as it is applied together."""
    strategy = {"blueGreen": {"activeService": "cart"}}
    async with shop(tmp_path) as there:
        namespace = there.stage.namespace
        await there.stage.install([service(namespace, "cart", app="other")])

        halted = await planned(there, capsys, text_of(cart(strategy=strategy)))
        assert rules(halted, "unsafe") == {"Stuck"}
        assert "selector" in halted["stuck"]

        mended = await planned(there, capsys, text_of(cart(strategy=strategy), service(namespace, "cart", app="cart")))
        assert (rules(mended, "unsafe"), mended["stuck"]) == (set(), None)


async def test_a_rollback_that_holds_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Applying the same file again changes nothing while the rollback stands, whatever its template is."""
    async with shop(tmp_path) as there:
        await there.healthy(cart(strategy={"canary": {}}), service(there.stage.namespace, "cart", app="cart"))
        await there.stage.change(
            "cart", [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "cart:2"}]
        )
        first = status_of((await there.reaches("Healthy")).rollout).history[0].revision
        rollback = {"rollouts.dev/rollback": first}
        await there.stage.change("cart", [{"op": "add", "path": "/metadata/annotations", "value": rollback}])
        await there.stage.until(
            "cart",
            lambda seen: status_of(seen.rollout).stable_revision == first,
            deadline_s=PATIENCE_S,
            what="the first revision is stable again",
        )

        plan = await planned(there, capsys, text_of(cart(tag="2", strategy={"canary": {}})))
        assert (plan["revision"]["target"], plan["revision"]["changes"]) == (first, False)
        assert plan["revision"]["template"] != first


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"generateName": "cart-"}},
        {"metadata": {"name": "cart", "labels": None, "annotations": None}},
    ],
)
async def test_unusual_files_are_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any]
) -> None:
    """Without a name, with nulls, beside objects that have no name or kind of their own."""
    async with shop(tmp_path) as there:
        odd = {"apiVersion": "example.com/v1", "kind": "Service", "metadata": None}

        plan = await planned(there, capsys, text_of(cart() | change, odd, {"spec": {}}))

        assert plan["exists"] is False


async def test_the_size_that_an_autoscaler_gave_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file without `spec.replicas` leaves the number to the cluster, as `kubectl apply` does."""
    async with shop(tmp_path) as there:
        await there.healthy(cart(replicas=6), service(there.stage.namespace, "cart", app="cart"))
        manifest = cart(tag="2")
        del manifest["spec"]["replicas"]

        plan = await planned(there, capsys, text_of(manifest))

        assert (plan["replicas"], plan["steps"][-1]["pods"]["new"]) == (6, 6)


async def test_one_pod_without_a_surge_is_unsafe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rehearsal passes a moment without any pod."""
    strategy = {"canary": {"maxSurge": 0, "maxUnavailable": 1, "steps": []}}
    async with shop(tmp_path) as there:
        await there.healthy(cart(replicas=1, strategy=strategy), service(there.stage.namespace, "cart", app="cart"))

        plan = await planned(there, capsys, text_of(cart(tag="2", replicas=1, strategy=strategy)))

        assert rules(plan, "unsafe") == {"NoCapacity"}


async def test_what_may_not_be_read_is_said_or_done_without(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pods, slices and kube-system are more than many people may read; the proxy mode can be given by hand."""
    async with shop(tmp_path) as there:
        await there.healthy(cart(), service(there.stage.namespace, "cart", app="cart"))
        there.door.refused = ("/pods", "/endpointslices", "/kube-system/", "/nodes")
        text = text_of(cart(tag="2"))

        unknown = await planned(there, capsys, text)
        assert rules(unknown, "warning") == {"ProxyModeUnknown"}
        assert unknown["startup"] is None
        assert unknown["drain"]["preStopSeconds"] > 120, "it may be ipvs on an old kernel"

        told = await planned(there, capsys, text, "--proxy-mode", "nftables")
        assert rules(told, "warning") == set()
        assert told["drain"]["preStopSeconds"] < 10


async def test_what_ipvs_does_to_connections_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unsafe on kernels before 5.9, and on those that nobody may read; how long it keeps silent connections on all."""
    async with shop(tmp_path) as there:
        await there.healthy(cart(), service(there.stage.namespace, "cart", app="cart"))
        text = text_of(cart(tag="2"))

        new = await planned(there, capsys, text, "--proxy-mode", "ipvs")
        assert (rules(new, "unsafe"), "IpvsForgetsConnections" in rules(new, "note")) == (set(), True)

        there.door.refused = ("/nodes",)
        unread = await planned(there, capsys, text, "--proxy-mode", "ipvs")
        assert rules(unread, "unsafe") == {"IpvsPortReuse"}


@pytest.mark.parametrize(
    ("text", "words", "code", "said"),
    [
        (text_of(cart(replicas=-1)), (), 1, "spec.replicas"),
        ("kind: [", (), 1, "YAML"),
        (text_of(service("shop", "x", app="x")), (), 2, "the file contains no"),
        (text_of(rollout("elsewhere", "cart", CANARY)), ("-n", "shop"), 2, "in namespace elsewhere, but -n says shop"),
        (text_of(cart()), ("--context", "nowhere"), 4, "nowhere"),
    ],
)
async def test_bad_input_has_the_exit_codes_of_every_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: tuple[str, ...], code: int, said: str
) -> None:
    """1 for a spec that cannot be carried out, 2 for the command line, 4 for the cluster; 5 means something else."""
    async with shop(tmp_path) as there:
        assert await there.plan(text, *words) == code
        assert said in " ".join(capsys.readouterr().err.split())


async def test_a_cluster_without_the_crd_says_how_to_install_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ "Not there" is the ordinary case for a Rollout, so it must not hide that no Rollout can be there."""
    async with shop(tmp_path) as there:
        there.door.absent = ("/rollouts.dev/",)

        assert await there.plan(text_of(cart())) == 4
        assert "rollouts crds | kubectl apply --server-side -f -" in capsys.readouterr().err


async def test_yaml_says_the_same_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Several Rollouts of a file are one document."""
    text = "---\n".join(each.read_text(encoding="utf-8") for each in EXAMPLES)
    async with shop(tmp_path) as there:
        assert await there.plan(text, "-o", "yaml") == 0
        from_yaml = yaml.safe_load(capsys.readouterr().out)
        assert await there.plan(text, "-o", "json") == 0

        assert from_yaml == json.loads(capsys.readouterr().out)
        assert len(from_yaml["plans"]) == len(EXAMPLES)
