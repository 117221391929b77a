"""Promise: what metrics APIs and autoscalers say is evidence when it is whole, fresh and a number; else nothing passes on it.

The conditions here hold for every number, so a Successful measurement means that something was taken for one.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rollouts.core.analysis.cluster_source import (
    AutoscalerMetric,
    ContainerResourceMetric,
    CustomMetric,
    DescribedObject,
    ExternalMetric,
)
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import MetricCondition, NoData
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.autoscaling import ContainerMetric
from rollouts.core.model.frozen import replace
from rollouts.core.scale.settling import is_settled
from rollouts.metrics.autoscalers import listed_autoscalers
from rollouts.metrics.figures import (
    AGAIN_S,
    NAMES,
    VALUES_MAX,
    Figures,
    FiguresFound,
    LookTimes,
    autoscaler_figures,
    container_figures,
    custom_figures,
    external_figures,
    figures_measured,
)
from rollouts.metrics.metric_values import metric_values
from rollouts.metrics.samples import Absence, NoEvidence
from tests.metrics.measured_pods import NOW_S, at, autoscaler, listed, pod, sample
from tests.metrics.test_what_the_cluster_says_is_read_as_it_means_it import MISSING, used

APP = ContainerResourceMetric(container="app", resource=ContainerMetric.CPU)
PODS = CustomMetric(metric="hits")
OBJECT = replace(PODS, of=DescribedObject(api_version="v1", kind="Service", name="web"))
QUEUE = ExternalMetric(metric="queue")

ANY_NUMBER = (
    "result.value <= 0 || result.value >= 0",
    "result.utilizationPercent > -1.0",
    "result.averageValue < 1e300",
)
ASKED = LookTimes(since_s=NOW_S - 600, started_at_s=NOW_S - 1, now_s=NOW_S)


def judged(found: FiguresFound, success: str, *, asked: LookTimes = ASKED, **more: Any) -> Measurement:
    return figures_measured(found, MetricCondition(success=success, **more), asked)


def of_container(pods: list[Any], samples: list[Any]) -> FiguresFound:
    return container_figures(APP, used(pods, samples).get("new"), now_s=NOW_S)


def value(name: str = "web-1", number: Any = "5", *, age_s: float = 5, **changes: Any) -> dict[str, Any]:
    of = {"kind": "Pod", "namespace": "shop", "name": name}
    return {"describedObject": of, "metric": {"name": "hits"}, "timestamp": at(-age_s), "value": number, **changes}


def of_pods(*items: Any, pods: frozenset[str] = frozenset({"a", "b"})) -> FiguresFound:
    return custom_figures(PODS, metric_values(listed(*items)), pods, now_s=NOW_S)


def of_object(*items: Any) -> FiguresFound:
    return custom_figures(OBJECT, metric_values(listed(*items)), None, now_s=NOW_S)


def of_queue(*items: Any) -> FiguresFound:
    return external_figures(QUEUE, metric_values(listed(*items)), now_s=NOW_S)


def of_autoscaler(*wires: dict[str, Any]) -> FiguresFound:
    found, _ = listed_autoscalers(listed(*wires))
    return autoscaler_figures(AutoscalerMetric(), [each.seen for each in found], now_s=NOW_S)


def test_a_burning_container_fails_and_a_cool_one_passes() -> None:
    """With the names that people know from the autoscaler."""
    limit = "result.utilizationPercent <= 90"

    cool = judged(of_container([pod("a"), pod("b")], [sample("a", "100m"), sample("b", "300m")]), limit)
    hot = judged(of_container([pod("a"), pod("b")], [sample("a", "950m"), sample("b", "360m")]), limit)

    assert (cool.phase, cool.samples) == (AnalysisPhase.SUCCESSFUL, 2)
    assert cool.value == "utilizationPercent=40 averageValue=0.2 value=0.4 pods=2 ageSeconds=10"
    assert (hot.phase, hot.value[:22]) == (AnalysisPhase.FAILED, "utilizationPercent=131")


@pytest.mark.parametrize(
    ("success", "phase"),
    [
        ("result.averageValue < 0.3 && result.pods >= 2 && result.ageSeconds < 60", AnalysisPhase.SUCCESSFUL),
        ("result.value > 1.0", AnalysisPhase.FAILED),
        ("result.maximum > 1.0", AnalysisPhase.ERROR),
    ],
)
def test_conditions_read_names(success: str, phase: AnalysisPhase) -> None:
    """A name that there is not is an error, as in any other answer."""
    assert judged(of_container([pod("a"), pod("b")], [sample("a"), sample("b")]), success).phase is phase


def test_usage_without_a_request_can_be_judged_by_itself() -> None:
    """Memory is often limited and not requested."""
    found = of_container([pod(requests={})], [sample()])

    assert judged(found, "result.averageValue < 1.0").phase is AnalysisPhase.SUCCESSFUL
    assert judged(found, "result.utilizationPercent < 90").message.startswith("container app requests no cpu")


def test_pods_and_series_are_put_together() -> None:
    """Of pods the average is the autoscaler's, of series the sum."""
    several = of_pods(value("a", "1500m"), value("b", "3"), value("neighbour", "900"))
    pods = judged(several, "result.averageValue == 2.25")
    queue = judged(of_queue(value(number="7"), value(number="-2", age_s=30)), "result.value == 5.0")
    one = judged(of_object(value("web", "1k")), "result.value == 1000.0")

    assert (pods.phase, pods.samples) == (AnalysisPhase.SUCCESSFUL, 2)
    assert (queue.phase, queue.value[:7]) == (AnalysisPhase.SUCCESSFUL, "value=5")
    assert one.phase is AnalysisPhase.SUCCESSFUL


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        ("0.1", "0.1"),
        ("999999", "999999"),
        ("1M", "1000000"),
        ("-1M", "-1000000"),
        ("512Mi", "536870912"),
        ("1P", "1e+15"),
    ],
)
def test_a_figure_is_shown_as_people_write_it(number: str, shown: str) -> None:
    """`value=1e+06` after `value=999999` looks like another kind of number."""
    assert judged(of_queue(value(number=number)), ANY_NUMBER[0]).value.split()[0] == f"value={shown}"


@pytest.mark.parametrize(
    ("status", "success", "phase"),
    [
        ({}, "result.settled && result.headroomPercent >= 70", AnalysisPhase.SUCCESSFUL),
        ({}, "result.headroomPercent >= 71", AnalysisPhase.FAILED),
        ({"desiredReplicas": 5}, "result.settled", AnalysisPhase.FAILED),
        ({"desiredReplicas": 10, "currentReplicas": 10}, "result.headroomPercent > 0.0", AnalysisPhase.FAILED),
        ({"desiredReplicas": 12}, "result.headroomPercent > 0.0", AnalysisPhase.FAILED),
        ({"lastScaleTime": at(-299)}, "result.settled", AnalysisPhase.FAILED),
        ({"lastScaleTime": at(-300)}, "result.settled && result.secondsSinceScale == 300.0", AnalysisPhase.SUCCESSFUL),
    ],
)
def test_an_autoscaler_shows_its_headroom(status: dict[str, Any], success: str, phase: AnalysisPhase) -> None:
    """In per cent of its maximum; settled is what it is after the longer of its windows."""
    assert judged(of_autoscaler(autoscaler(**status)), success).phase is phase


@pytest.mark.parametrize(("kind", "reason"), [("AbleToScale", "ScaleUpStabilized"), ("ScalingLimited", "ScaleUpLimit")])
def test_an_autoscaler_that_will_grow_has_not_settled(kind: str, reason: str) -> None:
    """It wants what there is for now, because a window or a policy holds it back."""
    wire = autoscaler()
    wire["status"]["conditions"] = [
        {**each, "status": "True", "reason": reason} if each["type"] == kind else each
        for each in wire["status"]["conditions"]
    ]
    (found,), _ = listed_autoscalers(listed(wire))

    assert not is_settled(found.seen, now_s=NOW_S)


def _conditions(**statuses: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status, "reason": "No"} for kind, status in statuses.items()]}


CONTAINERS: dict[str, tuple[list[Any], list[Any], str]] = {
    "no pods": ([], [], "no ready pods"),
    "none of them ready": ([pod(ready="False")], [sample()], "no ready pods"),
    "another revision's": ([pod(revision="old")], [sample()], "no ready pods"),
    "a partial list": ([pod("a"), pod("b")], [sample("a")], "1 of 2 pods: no sample"),
    **{name: ([one], samples, words) for name, (one, samples, words) in MISSING.items()},
}


@pytest.mark.parametrize(("pods", "samples", "words"), CONTAINERS.values(), ids=CONTAINERS)
def test_no_container_passes_on_what_was_not_measured(pods: list[Any], samples: list[Any], words: str) -> None:
    """By default the measurement is inconclusive: a person looks."""
    for success in ANY_NUMBER:
        found = judged(of_container(pods, samples), success)
        assert (found.phase, found.value) == (AnalysisPhase.INCONCLUSIVE, "")
        assert words in found.message


@pytest.mark.parametrize("requests", [{}, {"cpu": "0"}, {"cpu": "0m"}, {"cpu": "-1"}, {"cpu": "many"}])
@pytest.mark.parametrize("min_samples", [0, 1])
def test_no_utilization_is_worked_out_of_a_request_of_nothing(requests: dict[str, str], min_samples: int) -> None:
    """Not even with `default()`, which a condition may have where it asks about what is missing."""
    found = of_container([pod("a"), pod("b", requests=requests)], [sample("a"), sample("b")])

    for success in ("result.utilizationPercent < 1e9", "default(result.utilizationPercent, 0) < 90"):
        assert judged(found, success, min_samples=min_samples).phase is AnalysisPhase.INCONCLUSIVE


@pytest.mark.parametrize(
    ("no_data", "phase"), [(NoData.WAIT, AnalysisPhase.PENDING), (NoData.FAIL, AnalysisPhase.FAILED)]
)
def test_no_data_says_what_follows(no_data: NoData, phase: AnalysisPhase) -> None:
    """As for every other source."""
    assert judged(of_container([pod()], []), ANY_NUMBER[0], no_data=no_data).phase is phase


def test_min_samples_counts_pods() -> None:
    """And not the names that a condition can read."""
    found = of_container([pod("a"), pod("b")], [sample("a"), sample("b")])

    assert judged(found, ANY_NUMBER[0], min_samples=2).phase is AnalysisPhase.SUCCESSFUL
    assert judged(found, ANY_NUMBER[0], min_samples=3).message == "there are 2 of the 3 samples that are needed"


AUTOSCALERS: dict[str, tuple[list[dict[str, Any]], str, AnalysisPhase]] = {
    "none": ([], "no HorizontalPodAutoscaler has the Rollout", AnalysisPhase.INCONCLUSIVE),
    "several": ([autoscaler(), autoscaler("web-2")], "several", AnalysisPhase.ERROR),
    "a new one": ([autoscaler() | {"status": {}}], "has not looked", AnalysisPhase.INCONCLUSIVE),
    "counts without a look": (
        [autoscaler() | {"status": {"currentReplicas": 1, "desiredReplicas": 1, "observedGeneration": 2}}],
        "has not looked", AnalysisPhase.INCONCLUSIVE),
    "a changed spec": ([autoscaler(observedGeneration=1)], "has not looked", AnalysisPhase.INCONCLUSIVE),
    "unknown conditions": ([autoscaler(**_conditions(ScalingActive="Unknown", AbleToScale="True"))], "does not say",
        AnalysisPhase.INCONCLUSIVE),
    "no metrics": ([autoscaler(**_conditions(ScalingActive="False", AbleToScale="True"))], "scales by nothing (No)",
        AnalysisPhase.INCONCLUSIVE),
    "no maximum": ([autoscaler() | {"spec": {"maxReplicas": 0}}], "has no maximum", AnalysisPhase.INCONCLUSIVE),
}  # fmt: skip


@pytest.mark.parametrize(("wires", "words", "phase"), AUTOSCALERS.values(), ids=AUTOSCALERS)
def test_no_autoscaler_passes_on_what_it_has_not_said(wires: list[Any], words: str, phase: AnalysisPhase) -> None:
    """An autoscaler without metrics keeps the last size that it wanted, which says nothing about now."""
    found = judged(of_autoscaler(*wires), "result.headroomPercent >= 0 && result.desired >= 0")

    assert (found.phase, words in found.message) == (phase, True)
    assert judged(of_autoscaler(*wires), "result.settled").phase is not AnalysisPhase.SUCCESSFUL


def test_a_condition_may_ask_whether_the_autoscaler_is_active() -> None:
    """That is known, even though what it wants is not."""
    found = of_autoscaler(autoscaler(**_conditions(ScalingActive="False", AbleToScale="True")))

    assert judged(found, "result.scalingActive").phase is AnalysisPhase.FAILED
    assert judged(found, "result.scalingLimited == false").phase is AnalysisPhase.INCONCLUSIVE
    assert judged(found, "result.secondsSinceScale > 60").message == "autoscaler web has never scaled"


VALUES: dict[str, tuple[FiguresFound, str]] = {
    "no values of pods": (of_pods(), "2 of 2 pods have no value"),
    "a part of the pods": (of_pods(value("a")), "1 of 2 pods have no value"),
    "others' pods": (of_pods(value("a"), value("neighbour")), "1 of 2 pods have no value"),
    "no pods": (of_pods(value("a"), pods=frozenset()), "no ready pods"),
    "a pod twice": (of_pods(value("a"), value("a"), value("b")), "a pod has several values"),
    "nonsense of a pod": (of_pods(value("a"), value("b", "much")), "a value is no number"),
    "NaN": (of_pods(value("a"), value("b", "NaN")), "a value is no number"),
    "null": (of_pods(value("a"), value("b", None)), "a value is no number"),
    "an old value": (of_pods(value("a"), value("b", age_s=91)), "not of the last 90 s"),
    "a value of tomorrow": (of_pods(value("a"), value("b", age_s=-91)), "a value is of the future: a clock is wrong"),
    "an adapter whose clock is ahead": (of_pods(value("a"), value("b", age_s=-60)), "a value is of the future"),
    "a value without time": (of_pods(value("a"), value("b", timestamp=None)), "a value has no time"),
    "no object": (of_pods(value("a"), 7), "1 of 2 pods have no value"),
    "no values of an object": (of_object(), "0 values of the object"),
    "several values of an object": (of_object(value(), value()), "2 values of the object"),
    "no series": (of_queue(), "no values"),
    "an infinite series": (of_queue(value(number="1e999")), "a value is no number"),
    "a huge series": (of_queue(value(number=10**30)), "a value is no number"),
    "an old series": (of_queue(value(), value(age_s=3600)), "not of the last 90 s"),
    "a null list": (external_figures(QUEUE, metric_values(msgspec.json.encode({"items": None})), now_s=NOW_S),
        "no values"),
    "too many series": (of_queue(*([value()] * 10_001)), "more than 10000 values"),
}  # fmt: skip


@pytest.mark.parametrize(("found", "words"), VALUES.values(), ids=VALUES)
def test_no_custom_metric_passes_on_a_part(found: FiguresFound, words: str) -> None:
    """The pod or the series that is missing may be the one that matters."""
    judgement = judged(found, ANY_NUMBER[0])

    assert judgement.phase in (AnalysisPhase.INCONCLUSIVE, AnalysisPhase.ERROR)
    assert (words in judgement.message, judgement.value) == (True, "")


def test_a_measurement_waits_for_a_sample_since_the_run_began() -> None:
    """A sample from before is of a revision that had fewer requests, or none."""
    found = of_container([pod()], [sample(age_s=10)])
    young = LookTimes(since_s=NOW_S - 5, started_at_s=NOW_S - 5, now_s=NOW_S, patience_s=90)

    waits = judged(found, ANY_NUMBER[0], asked=young)
    over = judged(found, ANY_NUMBER[0], asked=replace(young, started_at_s=NOW_S - 90))
    newer = judged(of_container([pod()], [sample(age_s=4)]), ANY_NUMBER[0], asked=young)

    assert (waits.phase, waits.finished, waits.resume_at_s) == (AnalysisPhase.RUNNING, False, NOW_S + AGAIN_S)
    assert (over.phase, over.message) == (AnalysisPhase.INCONCLUSIVE, "there are no samples since the run began")
    assert newer.phase is AnalysisPhase.SUCCESSFUL


@pytest.mark.parametrize("name", ["no pods", "no samples", "a partial list", "a restarted container", "an old sample"])
def test_a_measurement_waits_for_what_is_not_whole_yet(name: str) -> None:
    """A new pod has no sample for half a minute: an update that stood still for that would always stand still."""
    pods, samples, words = CONTAINERS[name]

    waits = judged(of_container(pods, samples), ANY_NUMBER[0], asked=replace(ASKED, patience_s=90))

    assert (waits.phase, waits.finished, waits.resume_at_s) == (AnalysisPhase.RUNNING, False, NOW_S + AGAIN_S)
    assert waits.message.startswith("waits for evidence: ")
    assert words in waits.message


def test_a_part_of_the_pods_measured_before_counts_as_before() -> None:
    """The oldest sample decides."""
    found = of_container([pod("a"), pod("b")], [sample("a", age_s=1), sample("b", age_s=30)])

    waits = judged(found, ANY_NUMBER[0], asked=replace(ASKED, since_s=NOW_S - 20, patience_s=90))

    assert waits.phase is AnalysisPhase.RUNNING


def test_every_name_is_listed() -> None:
    """The linter and the page tell people what there is."""
    wanted = {
        "containerResource": of_container([pod()], [sample()]),
        "hpa": of_autoscaler(autoscaler()),
        "customMetric": of_pods(value("a"), value("b")),
        "externalMetric": of_queue(value()),
    }

    for provider, found in wanted.items():
        assert isinstance(found, Figures)
        assert {*found.values, *found.unknown} == NAMES[provider]


def test_more_values_than_an_expression_takes_are_an_error() -> None:
    """Nobody reads a hundred pages of them in time."""
    found = of_queue(*[value()] * (VALUES_MAX + 1))

    assert found == NoEvidence(f"the metric has more than {VALUES_MAX} values", Absence.ERROR)
