"""Promise: what the cluster says of pods, autoscalers and quantities is read as Kubernetes means it; what is missing is no zero.

Use of a container is told by revision, of the named container alone. What an autoscaler has not said is not known, and nonsense
is no number.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from rollouts.core.model.autoscaling import AutoscalerSeen, ContainerMetric, ContainerUse, ScalingCondition
from rollouts.metrics.autoscalers import ListedAutoscaler, listed_autoscalers
from rollouts.metrics.container_use import listed_pods, pod_samples, use_by_revision
from rollouts.metrics.kubernetes_values import go_duration_s, quantity
from tests.metrics.measured_pods import NOW_S, at, autoscaler, listed, pod, sample

CPU, MEMORY = ContainerMetric.CPU, ContainerMetric.MEMORY


def used(
    pods: list[Any], samples: list[Any], *, container: str = "app", resource: ContainerMetric = CPU, **more: float
) -> dict[str, ContainerUse]:
    found, token = listed_pods(listed(*pods), rollout_label="rollouts.dev/name")
    assert token == ""
    return use_by_revision(
        found, pod_samples(listed(*samples)), container=container, resource=resource, now_s=NOW_S, **more
    )


def test_a_list_that_says_nothing_of_itself_has_no_other_page() -> None:
    """`metadata` of a list may be left out."""
    assert listed_pods(b'{"items": []}', rollout_label="rollouts.dev/name") == ((), "")


def test_a_canary_that_burns_its_cpu_shows_beside_idle_pods() -> None:
    """The average over all pods is 55 %; the canary's own is 190 %."""
    pods = [pod("c", revision="new"), *(pod(f"s{each}", revision="old") for each in range(3))]
    samples = [sample("c", "950m"), *(sample(f"s{each}", "50m") for each in range(3))]

    use = used(pods, samples)

    assert use["new"].utilization_percent == pytest.approx(190.0)
    assert use["old"].utilization_percent == pytest.approx(10.0)
    assert (use["old"].pods, use["old"].measured, use["old"].message) == (3, 3, "")
    assert use["new"].oldest_at_s == NOW_S - 10


@pytest.mark.parametrize(
    ("container", "resource", "in_use", "percent"),
    [
        ("app", CPU, 0.25, 50.0),
        ("app", MEMORY, 2.0**29, 50.0),
        ("proxy", CPU, 0.001234567, 0.06172835),
        ("proxy", MEMORY, 20 * 2.0**20, None),
        ("agent", CPU, 0.03, 30.0),
    ],
)
def test_only_the_named_container_counts(
    container: str, resource: ContainerMetric, in_use: float, percent: float | None
) -> None:
    """Sidecars are left out because the container has a name; a native sidecar has one too. `proxy` requests no memory."""
    use = used([pod()], [sample()], container=container, resource=resource)["new"]

    assert use.used == pytest.approx(in_use)
    assert use.utilization_percent == (None if percent is None else pytest.approx(percent))


NO_CPU = "no sample of cpu of container app"
MISSING: dict[str, tuple[Any, list[Any], str]] = {
    "no samples": (pod(), [], "1 of 1 pods: no sample"),
    "another pod's sample": (pod(), [sample("other")], "no sample"),
    "an old sample": (pod(), [sample(age_s=91)], "no sample of the last 90 s"),
    "a sample of the future": (pod(), [sample(age_s=-91)], "its sample is of the future: a clock is wrong"),
    "a clock that is ahead": (pod(), [sample(age_s=-6)], "its sample is of the future: a clock is wrong"),
    "a restarted container": (pod(started=at(-20)), [sample()], "no sample since container app started"),
    "one that has just restarted": (pod(started=at(-10)), [sample()], "no sample since container app started"),
    "a container that is down": (pod(started=None), [sample()], "container app does not run"),
    "no such container": (pod(container="web"), [sample()], "no container app (there is agent, proxy, web)"),
    "negative": (pod(), [sample(cpu="-1m")], NO_CPU),
    "NaN": (pod(), [sample(cpu="NaN")], NO_CPU),
    "infinite": (pod(), [sample(cpu="1e400")], NO_CPU),
    "huge": (pod(), [sample(cpu="99999999999999999999")], NO_CPU),
    "null": (pod(), [sample(cpu=None)], NO_CPU),
    "nonsense": (pod(), [sample(cpu="a lot")], NO_CPU),
    "an object": (pod(), [sample(cpu={"no": "quantity"})], NO_CPU),
    "a sample without containers": (pod(), [sample() | {"containers": []}], NO_CPU),
    "a container without use": (pod(), [sample() | {"containers": [{"name": "app"}]}], NO_CPU),
    "a container twice": (pod(), [sample() | {"containers": sample()["containers"] * 2}], NO_CPU),
    "no objects for containers": (pod(), [sample() | {"containers": [7, {"name": 1}]}], NO_CPU),
    "null for containers": (pod(), [sample() | {"containers": None}], "no sample"),
    "an unknown window": (pod(), [sample(window="soon")], "no sample"),
    "no window": (pod(), [sample(window=None)], "no sample"),
    "no time yet": (pod(), [sample() | {"timestamp": "0001-01-01T00:00:00Z"}], "no sample of the last 90 s"),
    "null for a time": (pod(), [sample() | {"timestamp": None}], "no sample"),
    "no name": (pod(), [sample() | {"metadata": {}}], "no sample"),
    "no objects": (pod(), [None, 3, []], "no sample"),
}


@pytest.mark.parametrize(("one", "samples", "words"), MISSING.values(), ids=MISSING)
def test_what_was_not_measured_is_missing(one: Any, samples: list[Any], words: str) -> None:
    """An average over the rest, or a 0, would let a canary pass about which nothing is known."""
    use = used([one], samples)["new"]

    assert (use.used, use.requested, use.utilization_percent, use.oldest_at_s) == (None, None, None, None)
    assert (use.complete, use.pods, use.measured) == (False, 1, 0)
    assert words in use.message


def test_a_part_of_the_pods_is_not_all_of_them() -> None:
    """The pod without a sample may be the one that burns."""
    use = used([pod("a"), pod("b"), pod("c", started=at(-3))], [sample("a"), sample("c")])["new"]

    assert (use.pods, use.measured, use.complete, use.utilization_percent) == (3, 1, False, None)
    assert use.used == pytest.approx(0.25)
    assert use.message == "1 of 3 pods: no sample; 1 of 3 pods: no sample since container app started"


@pytest.mark.parametrize(
    "requests", [{}, {"cpu": "0"}, {"cpu": "-1"}, {"cpu": "much"}, {"memory": "1Gi"}, {"cpu": "0n"}]
)
def test_without_a_request_there_is_no_utilization(requests: dict[str, str]) -> None:
    """Not of one of them, and so not of all: the sum would hide what it uses."""
    use = used([pod("a"), pod("b", requests=requests)], [sample("a"), sample("b")])["new"]

    assert use.used == pytest.approx(0.5)
    assert (use.requested, use.utilization_percent, use.complete) == (None, None, True)


@pytest.mark.parametrize("gone", [pod(ready="False"), pod(deletionTimestamp=at(-1)), pod(ready="Unknown")])
def test_a_revision_without_ready_pods_is_not_there(gone: dict[str, Any]) -> None:
    """Pods that leave or are not ready have no traffic: an average with them is too low."""
    assert used([gone], [sample()]) == {}


def test_the_newest_of_two_samples_counts() -> None:
    """An API may show a pod twice; the order means nothing."""
    old, new = sample(cpu="1", age_s=60), sample(cpu="2", age_s=5)

    assert used([pod()], [old, new]) == used([pod()], [new, old])
    assert used([pod()], [old, new])["new"].used == 2.0


def test_a_use_tells_the_oldest_and_the_longest_of_its_samples() -> None:
    """A gate asks whether all of it was measured since the last step, and each sample is an average of the time before it."""
    samples = [
        sample("a", age_s=40, window="15s"),
        sample("b", age_s=5, window="30s"),
        sample("c", age_s=20, window="10s"),
    ]
    use = used([pod("a"), pod("b"), pod("c")], samples)["new"]

    assert (use.oldest_at_s, use.newest_at_s, use.window_s) == (NOW_S - 40, NOW_S - 5, 30.0)


def test_a_sample_may_begin_with_its_container_and_be_as_old_as_is_said() -> None:
    """metrics-server's first one begins when the container starts, cut to seconds; an analysis may ask for fresher ones."""
    assert used([pod(started=at(-25))], [sample(age_s=10, window="15.9s")])["new"].complete
    assert not used([pod()], [sample(age_s=31)], max_age_s=30)["new"].complete


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"items": {}}', b"{}", b"[" * 100_000])
def test_what_is_no_list_is_an_error(body: bytes) -> None:
    """Not an empty one: that would be pods without samples, or no pods."""
    with pytest.raises(ValueError, match="cannot be read"):
        pod_samples(body)
    with pytest.raises(ValueError, match="cannot be read"):
        listed_pods(body, rollout_label="rollouts.dev/name")


def read(wire: dict[str, Any]) -> ListedAutoscaler:
    (found,), token = listed_autoscalers(listed(wire, token="next"))
    assert token == "next"
    return found


def test_an_autoscaler_shows_what_it_wants() -> None:
    """With the API server's defaults where the spec is silent."""
    found = read(autoscaler(lastScaleTime=at(-120)))

    assert (found.target_group, found.target_kind, found.target_name) == ("rollouts.dev", "Rollout", "web")
    assert found.seen == AutoscalerSeen(
        name="web", min_replicas=2, max_replicas=10, current=3, desired=3, observed=True,
        scaling_active=ScalingCondition(True, "ValidMetricFound"),
        able_to_scale=ScalingCondition(True, "ReadyForNewScale"),
        scaling_limited=ScalingCondition(False, "DesiredWithinRange"), last_scale_at_s=NOW_S - 120,
        stabilization_up_s=0, stabilization_down_s=300,
    )  # fmt: skip


@pytest.mark.parametrize("status", [{}, {"currentReplicas": 0, "desiredReplicas": 0}, {"conditions": None}])
def test_before_its_first_look_nothing_is_known(status: dict[str, Any]) -> None:
    """The API server shows a new one with counts of 0, which nobody has counted."""
    seen = read(autoscaler() | {"status": status}).seen

    assert (seen.current, seen.desired, seen.observed, seen.last_scale_at_s) == (None, None, False, None)
    assert seen.scaling_active.status is None


@pytest.mark.parametrize(
    ("word", "status"), [("True", True), ("False", False), ("Unknown", None), ("true", None), ("", None)]
)
def test_a_condition_that_is_unknown_is_not_false(word: str, status: bool | None) -> None:
    """And not true either."""
    condition = {"type": "ScalingActive", "status": word, "reason": "FailedGetMetric", "message": "no metrics"}
    seen = read(autoscaler(conditions=[condition])).seen

    assert seen.scaling_active == ScalingCondition(status, "FailedGetMetric", "no metrics")


@pytest.mark.parametrize(
    ("observed", "generation", "truth"), [(1, 2, False), (2, 2, True), (0, 0, True), (None, 2, True)]
)
def test_a_status_may_be_about_an_earlier_spec(observed: int | None, generation: int, truth: bool) -> None:
    """Kubernetes' own controller never says which spec it has seen; API servers that count no generations show 0 for both."""
    wire = autoscaler(observedGeneration=observed)
    wire["metadata"]["generation"] = generation

    assert read(wire).seen.observed is truth


def test_windows_and_owner_are_read() -> None:
    """KEDA makes an autoscaler of a ScaledObject and owns it."""
    wire = autoscaler("keda-hpa-web")
    wire["metadata"]["ownerReferences"] = [
        {"kind": "Tenant", "name": "shop"},
        {"kind": "ScaledObject", "name": "web", "controller": True},
    ]
    wire["spec"]["behavior"] = {
        "scaleUp": {"stabilizationWindowSeconds": 30, "policies": []},
        "scaleDown": {"stabilizationWindowSeconds": 0},
    }
    del wire["spec"]["minReplicas"]
    seen = read(wire).seen

    assert (seen.stabilization_up_s, seen.stabilization_down_s) == (30, 0)
    assert (seen.owner, seen.min_replicas) == ("ScaledObject web", 1)


def test_an_owner_with_a_name_of_a_megabyte_is_cut() -> None:
    """The API server bounds no name in an ownerReference; a status that repeats it is refused from then on."""
    wire = autoscaler("web")
    wire["metadata"]["ownerReferences"] = [{"kind": "K" * 1_000_000, "name": "n" * 1_000_000, "controller": True}]

    assert read(wire).seen.owner == f"{'K' * 63} {'n' * 253}"


def test_metrics_of_one_value_are_named() -> None:
    """An HPA multiplies by all ready pods what it scales by such a metric."""
    metrics = [
        {"type": "Object", "object": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "10"}}},
        {"type": "External", "external": {"metric": {"name": "lag"}, "target": {"type": "Value", "value": "10"}}},
        {"type": "External", "external": {"metric": {"name": "jobs"}, "target": {"type": "AverageValue"}}},
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
    ]
    wire = autoscaler()
    wire["spec"] = {**wire["spec"], "metrics": metrics}

    assert read(wire).seen.by_value == ("queue", "lag")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0.0), ("1", 1.0), ("100m", 0.1), ("1234567n", 0.001234567), ("250u", 0.00025), ("1Ki", 1024.0),
        ("1Gi", 2.0**30), ("1.5Gi", 1.5 * 2**30), ("2Ei", 2.0**61), ("1k", 1e3), ("1E", 1e18), ("1e3", 1e3),
        ("1E3", 1e3), ("12e-3", 0.012), (".5", 0.5), ("5.", 5.0), ("+1", 1.0), ("-100m", -0.1), (7, 7.0), (0.25, 0.25),
    ],
)  # fmt: skip
def test_a_quantity_means_its_number(text: object, number: float) -> None:
    """Every suffix that Kubernetes has; `1E` is an exa and `1E3` an exponent. JSON numbers are quantities too."""
    assert quantity(text) == pytest.approx(number, rel=1e-12)


@pytest.mark.parametrize(
    "value",
    [
        *("", " ", "1 Gi", "Gi", "m", "1gi", "1K", "1mi", "abc", "1e", "1e3Ki", "--1", "1.2.3", "0x10", "1_000", "١"),
        *("NaN", "nan", "inf", "Infinity", "1e400", "1e999", "9223372036854775808", "10Ei", "9" * 41),
        *(math.nan, math.inf, 2**63, 10**400, True, None, [], {}),
    ],
)
def test_nonsense_is_no_number(value: object) -> None:
    """A quantity is below 2^63 in magnitude; what is not is a mistake of whoever wrote it."""
    assert quantity(value) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15.04s", 15.04), ("1m0s", 60.0), ("1h2m3.5s", 3723.5), ("500ms", 0.5), ("0s", 0.0), ("0", 0.0), ("10µs", 1e-5)],
)
def test_go_writes_durations(text: str, seconds: float) -> None:
    """The window of a sample comes as Go prints it."""
    assert go_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("value", ["", "15", "-15s", "s", "1d", "15s ", "NaNs", None, 15, {}])
def test_other_durations_are_none(value: object) -> None:
    """Without its window nobody knows what a sample is about."""
    assert go_duration_s(value) is None
