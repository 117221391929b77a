"""Promise: `rollouts plan` tells what happens to the traffic with the routes of the file, and where its analyses begin.

It finds what is missing of both: the update would stand still at that step, hours later.
"""

from __future__ import annotations

from typing import Any

from rollouts.objects import Kind, Manifest
from rollouts.sim.network.gateway_types import GROUP, HTTP_ROUTE
from tests.build import analysis_template, backend, http_rule, manifest
from tests.cli.shop import Shop
from tests.cli.test_the_plan_tells_what_will_happen import cart, rules

ROUTED: Manifest = {
    "canary": {
        "stableService": "cart",
        "canaryService": "cart-canary",
        "steps": [{"setWeight": 5}, {"pause": {}}],
        "trafficRouting": {"gatewayAPI": {"httpRoutes": [{"name": "cart"}]}, "maxTrafficWeight": 1000},
    }
}
BACKENDS = [backend("cart", 1), backend("cart-canary", 0)]
ROUTE = manifest(HTTP_ROUTE, "cart", spec={"parentRefs": [{"name": "public"}], "rules": [http_rule(*BACKENDS)]})


def written(empty: Shop, *more: Manifest, strategy: Manifest = ROUTED) -> list[Manifest]:
    """A file with a Rollout, its Services, and more."""
    return [cart(strategy=strategy), empty.service(), empty.service("cart-canary"), *more]


def stuck(plan: Manifest) -> Manifest:
    """The finding about what the update would wait for."""
    (found,) = [each for each in plan["findings"] if each["rule"] == "Stuck"]
    return dict(found)


async def test_a_route_of_the_file_is_taken_as_it_will_be(empty: Shop) -> None:
    """All of it is applied together: no gateway has seen it yet, and one will. So is a route that the Rollout brings along."""
    routing = {**ROUTED["canary"]["trafficRouting"], "own": [ROUTE]}
    own = {"canary": {**ROUTED["canary"], "trafficRouting": routing}}
    for file in (written(empty, ROUTE), written(empty, strategy=own)):
        plan = await empty.planned(*file)

        assert "Stuck" not in rules(plan, "unsafe"), plan["findings"]
        assert 0.5 in [step["weightPercent"] for step in plan["steps"]]


async def test_a_route_that_is_missing_or_may_not_be_read_is_what_the_update_would_wait_for(empty: Shop) -> None:
    """Better to know before. Not to be allowed to look is not to have seen that nothing is there."""
    missing = stuck(await empty.planned(*written(empty)))
    empty.door.refused = (GROUP,)
    unread = stuck(await empty.planned(*written(empty)))

    assert (missing["severity"], "HTTPRoute cart" in missing["what"]) == ("unsafe", True)
    assert "is unknown: you may not read it" in unread["what"]


ISTIO = ("networking.istio.io", "v1")
OF_CART = [{"name": "stable"}, {"name": "canary", "labels": {"app": "cart"}}]
RULE, SERVICES = (Kind(*ISTIO, each, f"{each.lower()}s") for each in ("DestinationRule", "VirtualService"))
SUBSETS = manifest(RULE, "cart-subsets", spec={"host": "cart", "subsets": OF_CART})
SHARES = [
    {"destination": {"host": "cart", "subset": subset}, "weight": weight}
    for subset, weight in (("stable", 100), ("canary", 0))
]
VIRTUAL = manifest(SERVICES, "cart", spec={"hosts": ["cart"], "http": [{"route": SHARES}]})
NAMES = {"name": "cart-subsets", "stableSubsetName": "stable", "canarySubsetName": "canary"}
BY_SUBSETS = {
    "canary": {
        "steps": [{"setWeight": 25}, {"pause": {}}],
        "trafficRouting": {"istio": {"virtualService": {"name": "cart"}, "destinationRule": NAMES}},
    }
}


async def test_subsets_of_the_file_are_taken_as_they_will_be(empty: Shop) -> None:
    """One Service, two subsets of it, and no complaint that it selects both revisions."""
    plan = await empty.planned(cart(strategy=BY_SUBSETS), empty.service(), VIRTUAL, SUBSETS)

    assert rules(plan, "unsafe") == set(), plan["findings"]
    assert "BesideTheSwitch" not in {each["rule"] for each in plan["findings"]}
    assert 25 in [step["weightPercent"] for step in plan["steps"]]


async def test_a_rule_that_is_missing_is_what_the_update_would_wait_for(empty: Shop) -> None:
    """Nothing is said of a VirtualService before it is known which host its subsets are of."""
    plan = await empty.planned(cart(strategy=BY_SUBSETS), empty.service(), VIRTUAL)

    assert "DestinationRule" in stuck(plan)["what"]


async def test_analyses_are_shown_where_they_begin(empty: Shop) -> None:
    """With what follows from them: which numbers they find, and how long that takes, nobody knows beforehand."""

    def by(name: str, **more: Any) -> dict[str, Any]:
        return {"templates": [{"templateName": name}], **more}

    steps = [{"setWeight": 25}, {"analysis": by("errors", onFailure="hold")}, {"setWeight": 50}]
    strategy = {"canary": {"steps": steps, "analysis": by("latency"), "maxSurge": 1, "maxUnavailable": 0}}
    file = (cart(strategy=strategy), template("errors"), template("latency"))
    plan = await empty.planned(*file)
    drawn = " ".join((await empty.plan(*file)).out.split())

    told = [
        (number, wait["why"], wait["seconds"], wait["known"])
        for number, step in enumerate(plan["steps"])
        for wait in step["waits"]
        if wait["reason"] == "AnalysisRunning"
    ]
    assert [each[0] for each in told] == [0, 1]
    assert told[0][1].startswith("background analysis by latency: a failure aborts the update at any later step")
    assert told[1][1].startswith("step analysis by errors: a failure holds the update here")
    assert [each[2:] for each in told] == [(0.0, False)] * 2
    assert (plan["waits"]["analyses"], plan["waits"]["byPeople"]) == (2, 0)
    assert "2 verdicts of analyses" in drawn


def template(name: str, *needed: str, cluster: bool = False) -> Manifest:
    """An analysis template with arguments that somebody has to give."""
    metric = {"name": name, "provider": {"kubernetes": {}}, "count": 1}
    return analysis_template(metric, name=name, cluster=cluster, args=[{"name": each} for each in needed])


async def test_an_analysis_that_cannot_begin_is_found(empty: Shop) -> None:
    """In the file, in the cluster or nowhere."""
    by = {"templates": [{"templateName": "errors"}, {"templateName": "shared", "clusterScope": True}]}
    rollout = cart(strategy={"canary": {"steps": [{"setWeight": 25}, {"analysis": by}]}})
    shared = template("shared", cluster=True)

    def told(plan: dict[str, Any]) -> list[tuple[str, str]]:
        found = [each for each in plan["findings"] if each["rule"] == "AnalysisInvalid"]
        return [(each["severity"], " ".join(each["what"].split(":")[0].split())) for each in found]

    nowhere = told(await empty.planned(rollout))
    assert [severity for severity, _ in nowhere] == ["unsafe", "unsafe"]
    assert "AnalysisTemplate/errors" in nowhere[0][1]
    assert "ClusterAnalysisTemplate/shared" in nowhere[1][1]

    (elsewhere,) = told(await empty.planned(rollout, shared))
    assert "AnalysisTemplate/errors" in elsewhere[1]

    await empty.stage.install((template("errors", "service"),))
    (unfilled,) = told(await empty.planned(rollout, shared))
    assert "service" in unfilled[1]

    assert told(await empty.planned(rollout, shared, template("errors"))) == []


async def test_an_analysis_of_the_cluster_that_never_ends_is_unsafe(empty: Shop) -> None:
    """`lint` says it of templates in the file; here the step's is in the cluster, and the same one may run beside the steps."""
    metric = {"name": "errors", "provider": {"kubernetes": {}}, "interval": "1m"}
    await empty.stage.install((analysis_template(metric, name="errors"),))
    by = {"templates": [{"templateName": "errors"}]}

    step = await empty.planned(cart(strategy={"canary": {"steps": [{"setWeight": 25}, {"analysis": by}]}}))
    beside = await empty.planned(
        cart(strategy={"canary": {"steps": [{"setWeight": 25}, {"pause": {}}], "analysis": by}})
    )

    (found,) = [each for each in step["findings"] if each["rule"] == "AnalysisInvalid"]
    assert (found["severity"], found["path"]) == ("unsafe", "spec.strategy.canary.steps[1].analysis")
    assert "never ends by itself: 'errors' has an interval and no count" in found["what"]
    assert "AnalysisInvalid" not in {each["rule"] for each in beside["findings"]}


async def test_the_plan_says_that_the_update_does_not_begin_as_the_controller_does(empty: Shop) -> None:
    """A template of a later step holds up the first pod. A field that status does not have yet is waited for at its step only."""
    named = {"name": "weight", "valueFrom": {"fieldRef": {"fieldPath": "status.canary.weights"}}}
    later = {"templates": [{"templateName": "there"}], "args": [named]}
    missing = {"templates": [{"templateName": "missing"}]}
    steps = [{"setWeight": 25}, {"analysis": later}, {"analysis": missing}]
    plan = await empty.planned(cart(strategy={"canary": {"steps": steps}}), template("there", "weight"))

    found = {each["path"]: each for each in plan["findings"] if each["rule"] == "AnalysisInvalid"}
    at_step = found["spec.strategy.canary.steps[1].analysis.args[0].valueFrom.fieldRef.fieldPath"]
    before = found["spec.strategy.canary.steps[2].analysis.templates[0]"]
    assert (at_step["severity"], before["severity"]) == ("note", "unsafe")
    assert "the analysis waits at its place" in at_step["what"]
    assert "the update does not begin" in before["what"]
