"""`rollouts plan` on a simulated cluster over HTTP: what it says is what the controller then does, and it writes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rollouts.cli.demo.manifests import rollout, service
from rollouts.cli.view.objects import RolloutObjects, revision_of, status_of
from rollouts.errors import APPLY_CRDS
from rollouts.objects import Manifest
from tests.cli.shop import STEPS, Shop
from tests.patience import PATIENCE_S

EXAMPLES = [
    each.read_text(encoding="utf-8") for each in sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
]
NEW_IMAGE = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "cart:2"}]


def cart(*, tag: str = "1", strategy: Manifest = STEPS, **spec: Any) -> Manifest:
    """A Rollout of four pods that can be updated safely."""
    manifest = rollout("", "cart", strategy)
    del manifest["metadata"]["namespace"]
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container["image"] = f"cart:{tag}"
    del container["lifecycle"], manifest["spec"]["drain"]
    manifest["spec"] |= spec
    return manifest


def rules(plan: dict[str, Any], severity: str) -> set[str]:
    """Names of the findings of a severity."""
    return {each["rule"] for each in plan["findings"] if each["severity"] == severity}


@pytest.fixture
async def running(empty: Shop) -> Shop:
    """The Rollout and its Service are there."""
    await empty.installed(cart(), empty.service())
    return empty


async def test_a_plan_writes_nothing(running: Shop) -> None:
    """GET and LIST only, for a Rollout that is there and for one that is not: its user may need no right to write."""
    await running.plan(cart(tag="2"))
    for example in EXAMPLES:
        await running.plan(example)

    assert {request.method for request in running.door.asked} == {"GET"}
    assert all("watch" not in request.query for request in running.door.asked)
    assert len(running.door.asked) > len(EXAMPLES)
    assert all("dryRun" not in request.query for request in running.door.asked)


async def test_what_is_planned_is_what_happens(running: Shop) -> None:
    """The revision, and the pods at the step where it waits for a person, are compared with the controller's own."""
    plan = await running.planned(cart(tag="2"))

    await running.stage.change("cart", NEW_IMAGE)
    step = plan["steps"][1]

    def as_planned(seen: RolloutObjects) -> bool:
        """A step is recorded as done before the last old pod of it goes, so the sizes are waited for."""
        status = status_of(seen.rollout)
        sizes = {revision_of(each): each["spec"]["replicas"] for each in seen.replica_sets}
        new, old = sizes.get(status.current_revision), sizes.get(status.stable_revision)
        return status.phase == "Paused" and step["pods"] == {"new": new, "old": old, "others": 0}

    seen = await running.stage.until("cart", as_planned, deadline_s=PATIENCE_S, what=f"{step['pods']} at the pause")
    status = status_of(seen.rollout)
    assert status.step_index == 1
    new, old = status.current_revision, status.stable_revision
    assert plan["revision"] == {"template": new, "current": old, "stable": old, "target": new, "changes": True}
    assert step["what"] == "2 pause until promoted"
    assert step["services"] == {"cart": "both"}
    assert [(wait["reason"], wait["seconds"]) for wait in step["waits"]] == [("PromotionNeeded", None)]
    assert plan["startup"] is not None


async def test_a_rollout_that_is_not_there_is_planned_too(empty: Shop) -> None:
    """Its first revision has no steps, so the next update's are shown; a Service of the same file counts as there."""
    strategy = {"blueGreen": {"activeService": "cart", "scaleDownDelaySeconds": 100}}
    plan = await empty.planned(cart(strategy=strategy), empty.service())

    assert (plan["exists"], plan["supposed"], plan["startup"]) == (False, True, None)
    assert [step["kind"] for step in plan["steps"]] == ["preview", "switch", "after"]
    assert [step["services"]["cart"] for step in plan["steps"]] == ["old", "new", "new"]
    assert plan["waits"]["unmeasured"] == 1
    assert plan["waits"]["knownSeconds"] == 100
    assert plan["findings"][-1]["rule"] == "KeptConnections"

    missing = await empty.planned(cart(strategy=strategy))
    assert rules(missing, "unsafe") == {"ServiceMissing"}


async def test_a_file_that_changes_no_template_shows_the_next_update(running: Shop) -> None:
    """ "Nothing to do" would be true, and no help to somebody who asks what an update does."""
    plan = await running.planned(cart())

    assert (plan["revision"]["changes"], plan["supposed"]) == (False, True)
    assert [step["pods"]["new"] for step in plan["steps"]] == [2, 2, 4]

    said = (await running.plan(cart())).out
    assert "the file does not change the pods" in said
    assert "1 setWeight 50" in said and "nothing unsafe was found" in said
    assert all(line == line.rstrip() for line in said.splitlines())


async def test_unsafe_services_and_pods_are_found_with_the_fix(empty: Shop) -> None:
    """The live Service is looked at, not only the file; the exit code is 5, apart from an invalid spec's."""
    local = empty.service()
    local["spec"]["internalTrafficPolicy"] = "Local"
    local["spec"]["sessionAffinity"] = "ClientIP"
    await empty.installed(cart(), local)
    bare = cart(tag="2")
    del bare["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]

    plan = await empty.planned(bare)
    assert rules(plan, "unsafe") == {"NoReadinessProbe", "InternalTrafficLocal"}
    assert rules(plan, "warning") == {"SessionAffinity"}
    assert all(each["fix"] for each in plan["findings"])

    mended = empty.service()
    mended["spec"] |= {"internalTrafficPolicy": "Cluster", "sessionAffinity": "None"}
    assert rules(await empty.planned(cart(tag="2"), mended), "unsafe") == set()

    said = (await empty.plan(bare, words=("-o", "wide"), code=5)).out
    assert "unsafe  Service cart  spec.internalTrafficPolicy" in said
    assert "Fix: use Cluster (the default)" in said
    assert "2 unsafe findings" in said


async def test_a_weight_that_no_client_of_the_stable_service_gets_is_unsafe(empty: Shop) -> None:
    """The plan sees all Services of the namespace: without one for both revisions, one of ten pods takes everything at 90 %."""
    strategy = {"canary": {"stableService": "cart", "canaryService": "cart-canary", "steps": [{"setWeight": 90}]}}
    await empty.stage.install([empty.service(name) for name in ("cart", "cart-canary")])

    alone = await empty.planned(cart(strategy=strategy))
    shared = await empty.planned(cart(strategy=strategy), empty.service("cart-all"))

    assert rules(alone, "unsafe") == {"WeightWithoutEffect"}
    assert "WeightWithoutEffect" in rules(shared, "note")


async def test_a_service_that_selects_other_pods_is_where_it_halts(empty: Shop) -> None:
    """The controller would wait for somebody; the selector of the file counts, as it is applied together."""
    strategy = {"blueGreen": {"activeService": "cart"}}
    await empty.stage.install([empty.service(app="other")])

    halted = await empty.planned(cart(strategy=strategy))
    assert rules(halted, "unsafe") == {"Stuck"}
    assert "selector" in halted["stuck"]

    mended = await empty.planned(cart(strategy=strategy), empty.service())
    assert (rules(mended, "unsafe"), mended["stuck"]) == (set(), None)


async def test_a_rollback_that_holds_is_told(empty: Shop) -> None:
    """Applying the same file again changes nothing while the rollback stands, whatever its template is."""
    await empty.installed(cart(strategy={"canary": {}}), empty.service())
    await empty.stage.change("cart", NEW_IMAGE)
    first = status_of((await empty.reaches("Healthy")).rollout).history[0].revision
    rollback = {"rollouts.dev/rollback": first}
    await empty.stage.change("cart", [{"op": "add", "path": "/metadata/annotations", "value": rollback}])
    await empty.stage.until(
        "cart",
        lambda seen: status_of(seen.rollout).stable_revision == first,
        deadline_s=PATIENCE_S,
        what="the first revision is stable again",
    )

    plan = await empty.planned(cart(tag="2", strategy={"canary": {}}))
    assert (plan["revision"]["target"], plan["revision"]["changes"]) == (first, False)
    assert plan["revision"]["template"] != first


async def test_unusual_files_are_planned(empty: Shop) -> None:
    """Without a name, with nulls, beside objects that have no name or kind of their own."""
    odd = {"apiVersion": "example.com/v1", "kind": "Service", "metadata": None}
    for metadata in ({"generateName": "cart-"}, {"name": "cart", "labels": None, "annotations": None}):
        plan = await empty.planned(cart() | {"metadata": metadata}, odd, {"spec": {}})

        assert plan["exists"] is False


async def test_the_size_that_an_autoscaler_gave_is_kept(empty: Shop) -> None:
    """A file without `spec.replicas` leaves the number to the cluster, as `kubectl apply` does."""
    await empty.installed(cart(replicas=6), empty.service())
    manifest = cart(tag="2")
    del manifest["spec"]["replicas"]

    plan = await empty.planned(manifest)

    assert (plan["replicas"], plan["steps"][-1]["pods"]["new"]) == (6, 6)


async def test_one_pod_without_a_surge_is_unsafe(empty: Shop) -> None:
    """The rehearsal passes a moment without any pod."""
    strategy = {"canary": {"maxSurge": 0, "maxUnavailable": 1, "steps": []}}
    await empty.installed(cart(replicas=1, strategy=strategy), empty.service())

    plan = await empty.planned(cart(tag="2", replicas=1, strategy=strategy))

    assert rules(plan, "unsafe") == {"NoCapacity"}


async def test_what_may_not_be_read_is_said_or_done_without(running: Shop) -> None:
    """Pods, slices and kube-system are more than many people may read; the proxy mode can be given by hand."""
    running.door.refused = ("/pods", "/endpointslices", "/kube-system/", "/nodes")
    unknown = await running.planned(cart(tag="2"))
    assert rules(unknown, "warning") == {"ProxyModeUnknown"}
    assert unknown["startup"] is None
    assert unknown["drain"]["preStopSeconds"] > 120, "it may be ipvs on an old kernel"

    told = await running.planned(cart(tag="2"), words=("--proxy-mode", "nftables"))
    assert rules(told, "warning") == set()
    assert told["drain"]["preStopSeconds"] < 10


async def test_what_ipvs_does_to_connections_is_told(running: Shop) -> None:
    """Unsafe on kernels before 5.9, and on those that nobody may read; how long it keeps silent connections on all."""
    new = await running.planned(cart(tag="2"), words=("--proxy-mode", "ipvs"))
    assert (rules(new, "unsafe"), "IpvsForgetsConnections" in rules(new, "note")) == (set(), True)

    running.door.refused = ("/nodes",)
    unread = await running.planned(cart(tag="2"), words=("--proxy-mode", "ipvs"))
    assert rules(unread, "unsafe") == {"IpvsPortReuse"}


@pytest.mark.parametrize(
    ("file", "words", "code", "said"),
    [
        (cart(replicas=-1), (), 1, "spec.replicas"),
        ("kind: [", (), 1, "YAML"),
        (service("shop", "x", app="x"), (), 2, "the file contains no"),
        (rollout("elsewhere", "cart", STEPS), ("-n", "shop"), 2, "in namespace elsewhere, but -n says shop"),
        (cart(), ("--context", "nowhere"), 4, "nowhere"),
    ],
)
async def test_bad_input_has_the_exit_codes_of_every_command(
    empty: Shop, file: Manifest | str, words: tuple[str, ...], code: int, said: str
) -> None:
    """1 for a spec that cannot be carried out, 2 for the command line, 4 for the cluster; 5 means something else."""
    assert said in (await empty.plan(file, words=words, code=code)).error


async def test_a_cluster_without_the_crd_says_how_to_install_it(empty: Shop) -> None:
    """ "Not there" is the ordinary case for a Rollout, so it must not hide that no Rollout can be there."""
    empty.door.absent = ("/rollouts.dev/",)

    assert APPLY_CRDS in (await empty.plan(cart(), code=4)).err


async def test_yaml_says_the_same_as_json(empty: Shop) -> None:
    """Several Rollouts of a file are one document."""
    from_yaml = yaml.safe_load((await empty.plan(*EXAMPLES, words=("-o", "yaml"))).out)
    from_json = json.loads((await empty.plan(*EXAMPLES, words=("-o", "json"))).out)

    assert from_yaml == from_json
    assert len(from_yaml["plans"]) == len(EXAMPLES)
