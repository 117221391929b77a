"""Promise: `rollouts plan` shows the analyses of an update where they begin, and finds those that cannot begin."""

from __future__ import annotations

from typing import Any

from rollouts.objects import Manifest
from tests.build import analysis_template
from tests.cli.shop import Shop
from tests.cli.test_the_plan_tells_what_will_happen import cart


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
    """In the file, in the cluster or nowhere; the update would stand still at that step, hours later."""
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
