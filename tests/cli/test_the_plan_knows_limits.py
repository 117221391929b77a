"""Promise: `rollouts plan` says which steps need more than quotas, LimitRanges and autoscalers of the namespace allow.

It never changes the exit code: nothing of it loses requests, pods wait.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from rollouts.api.times import parse_time
from rollouts.cli.kubernetes.quotas import Quota, Scope, charge
from rollouts.cli.plan.limit_reads import pod_specs
from rollouts.cli.plan.limits import (
    Excess,
    LimitKind,
    NamespaceLimits,
    PodSpecs,
    PresentPods,
    excess_text,
    limits_report,
)
from rollouts.cli.plan.live import Live
from rollouts.core.forecast import GrownSizes
from rollouts.core.model.autoscaling import AutoscalerSeen
from rollouts.core.model.frozen import replace
from rollouts.objects import AUTOSCALER, LIMIT_RANGE, RESOURCE_QUOTA, Manifest
from rollouts.ports import MERGE_PATCH
from tests import build
from tests.cli.shop import Shop
from tests.cli.test_a_plan_can_be_read import EXAMPLES, on_a_terminal
from tests.cli.test_the_plan_tells_what_will_happen import cart

Spec = dict[str, Any]
NEW, OLD = "b", "a"
STEP = (GrownSizes(NEW, {OLD: 10, NEW: 4}),)


def pod(**requests: str) -> Spec:
    """A pod of one container."""
    return {"containers": [{"name": "app", "resources": {"requests": requests}}]}


def quota(
    hard: dict[str, str | int], used: dict[str, str | int] | None = None, scopes: tuple[Scope, ...] = ()
) -> Quota:
    """A quota of the namespace."""
    amounts = ({name: Fraction(each) for name, each in (part or {}).items()} for part in (hard, used))
    return Quota(name="team", hard=next(amounts), used=next(amounts), scopes=scopes)


def autoscaler(most: int) -> AutoscalerSeen:
    """An autoscaler of the Rollout."""
    return AutoscalerSeen(name="cart", min_replicas=1, max_replicas=most, current=None, desired=None, observed=False)


def outgrown(
    found: Quota,
    growths: tuple[GrownSizes, ...] = STEP,
    *,
    new: Spec | None = None,
    old: Spec | None = None,
    present: tuple[PresentPods, ...] | None = None,
) -> list[tuple[str, str, str, int]]:
    """Resource, need, allowance and waiting pods of each excess of one step; ten old pods run now."""
    specs = PodSpecs(
        new=new or pod(cpu="1"),
        by_revision={OLD: old or pod(cpu="1")},
        present=(PresentPods(old or pod(cpu="1"), 10),) if present is None else present,
    )
    report = limits_report(NamespaceLimits(quotas=(found,)), specs, [growths], replicas=10)
    return [(each.resource, str(each.needs), str(each.allows), each.pods) for each in report.by_stage[0]]


CASES: dict[str, tuple[list[tuple[str, str, str, int]], list[tuple[str, str, str, int]]]] = {
    "enough for all": (outgrown(quota({"pods": 14}, {"pods": 10})), []),
    "two too few": (outgrown(quota({"pods": 12}, {"pods": 10})), [("pods", "14", "12", 2)]),
    "others use three of them": (outgrown(quota({"pods": 15}, {"pods": 13})), [("pods", "14", "12", 2)]),
    "others use more than there is": (outgrown(quota({"pods": 5}, {"pods": 16})), [("pods", "14", "0", 4)]),
    "own pods that have ended count in count/pods only": (
        outgrown(
            quota({"count/pods": 14, "pods": 14}, {"count/pods": 12, "pods": 10}),
            present=(PresentPods(pod(cpu="1"), 10), PresentPods(pod(cpu="1"), 2, ended=True)),
        ),
        [],
    ),
    "larger new pods": (
        outgrown(quota({"requests.cpu": 16}, {"requests.cpu": 10}), new=pod(cpu="2")),
        [("requests.cpu", "18", "16", 1)],
    ),
    "a part of a pod is a pod": (outgrown(quota({"cpu": "12.5"}, {"cpu": 10})), [("cpu", "14", "25/2", 2)]),
    "pods of another size that go make room": (
        outgrown(quota({"cpu": 14}, {"cpu": 20}), (GrownSizes(NEW, {OLD: 3, NEW: 8}),), old=pod(cpu="2")),
        [],
    ),
    "a quota that does not count the new pods": (outgrown(quota({"pods": 12}, {"pods": 10}, (Scope(name="BestEffort"),))), []),
    "what the new pods do not request": (outgrown(quota({"requests.memory": 1}, {"requests.memory": 5})), []),
    "a step that grows nothing": (outgrown(quota({"pods": 1}, {"pods": 10}), ()), []),
    "the moment that lacks the most": (
        outgrown(quota({"pods": 12}, {"pods": 10}), (GrownSizes(NEW, {OLD: 10, NEW: 3}), *STEP, GrownSizes(NEW, {NEW: 10}))),
        [("pods", "14", "12", 2)],
    ),
    "several resources": (
        outgrown(quota({"pods": 13, "cpu": 12}, {"pods": 10, "cpu": 10})),
        [("pods", "14", "13", 1), ("cpu", "14", "12", 2)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("found", "wanted"), CASES.values(), ids=CASES)
def test_a_quota_refuses_the_pods_that_do_not_fit(
    found: list[tuple[str, str, str, int]], wanted: list[tuple[str, str, str, int]]
) -> None:
    """Ten pods of one core run, and the step makes it fourteen: what they use now is room for what comes."""
    assert found == wanted


def test_an_autoscaler_bounds_the_replicas_and_not_the_surge() -> None:
    """The pods beyond its maximum do not wait, but somebody counted on that maximum."""
    specs = PodSpecs(new=pod(), by_revision={})
    report = limits_report(NamespaceLimits(autoscalers=(autoscaler(10),)), specs, [STEP, ()], replicas=12)

    ((excess,), nothing) = report.by_stage
    assert (excess.kind, int(excess.needs), int(excess.allows), excess.pods) == (LimitKind.AUTOSCALER, 14, 10, 4)
    assert nothing == ()
    assert report.notes == ("the plan is for 12 replicas, and autoscaler cart scales to its maxReplicas, 10",)


def test_an_autoscaler_that_multiplies_by_all_pods_is_told_where_a_canary_adds_some() -> None:
    """It would grow without more load."""
    limits = NamespaceLimits(autoscalers=(replace(autoscaler(50), by_value=("queue",)),))
    specs = PodSpecs(new=pod(), by_revision={})

    (note,) = limits_report(limits, specs, [STEP], replicas=10, adds_pods=True).notes
    assert note.startswith(
        "HorizontalPodAutoscaler cart scales by the Value of queue, which it multiplies by all ready pods"
    )
    assert limits_report(limits, specs, [STEP], replicas=10).notes == ()


def test_what_could_not_be_checked_is_said() -> None:
    """Silence would mean that there is room."""
    waiting = Quota(name="fresh", hard={}, used={})
    scoped = quota({"pods": 1}, {"pods": 1}, (Scope(name="PriorityClass"),))
    limits = NamespaceLimits(quotas=(waiting, scoped), unread=(AUTOSCALER, RESOURCE_QUOTA, LIMIT_RANGE))

    assert limits_report(limits, PodSpecs(new=pod(), by_revision={}), [STEP], replicas=10).notes == (
        "not checked: you may not list HorizontalPodAutoscalers, ResourceQuotas and LimitRanges here",
        "not checked: quota fresh has no status yet",
        "not checked: quota team, as the template does not tell whether its scope has these pods",
    )


EXCESS = Excess(kind=LimitKind.QUOTA, name="team", resource="pods", needs=Fraction(14), allows=Fraction(12),
                hard=Fraction(16), others=Fraction(4), pods=2)  # fmt: skip


@pytest.mark.parametrize(
    ("excess", "several", "line"),
    [
        (EXCESS, False, "step 3 needs 14 pods; quota team allows 12 (16, of which others use 4): 2 pods would wait"),
        (replace(EXCESS, others=Fraction(0), pods=1), True, "steps 1 and 3 need 14 pods; quota team allows 12: 1 pod would wait"),
        (
            replace(EXCESS, resource="limits.memory", needs=Fraction(15 * 2**29), allows=Fraction(6 * 2**30), others=Fraction(0)),
            False,
            "step 3 needs limits.memory 7680Mi; quota team allows 6Gi: 2 pods would wait",
        ),
        (replace(EXCESS, kind=LimitKind.AUTOSCALER, name="cart"), False,
         "step 3 has 14 pods; autoscaler cart has maxReplicas 12, which bounds spec.replicas and not these"),
    ],
)  # fmt: skip
def test_a_limit_is_told_in_one_line(excess: Excess, several: bool, line: str) -> None:
    """What is needed, what is allowed, and what follows."""
    assert excess_text("steps 1 and 3" if several else "step 3", excess, several=several) == line


def test_lines_stand_below_the_steps_at_80_columns() -> None:
    """Steps that need the same are told together, parts without a number by their words."""
    example = next(path for path in EXAMPLES if path.name == "canary-services.yaml")
    of: dict[str, Any] = {"autoscalers": (autoscaler(5),), "quotas": (quota({"pods": 6}, {"pods": 1}),)}
    said = on_a_terminal(example, columns=80, limits=NamespaceLimits(**of, unread=(LIMIT_RANGE,)))

    assert max(len(line) for line in said.splitlines()) <= 80
    lines = [line.rstrip() for line in said.splitlines()]
    first = next(index for index, line in enumerate(lines) if line.startswith("  Limits"))
    end = next(index for index, line in enumerate(lines) if line.startswith("  Together"))
    assert lines[first:end] == [
        "  Limits  step 1 needs 6 pods; quota team allows 5 (6, of which others use 1): 1",
        "          pod would wait",
        "          step 1 has 6 pods; autoscaler cart has maxReplicas 5, which bounds",
        "          spec.replicas and not these",
        '          step 3 and "all pods are new" need 7 pods; quota team allows 5 (6, of',
        "          which others use 1): 2 pods would wait",
        '          step 3 and "all pods are new" have 7 pods; autoscaler cart has',
        "          maxReplicas 5, which bounds spec.replicas and not these",
        "          not checked: you may not list LimitRanges here",
        "",
    ]


def running(revision: str, spec: Spec, *, phase: str = "Running", **metadata: Any) -> Manifest:
    """A pod as the API server gives it."""
    labels = {"labels": {"rollouts.dev/revision": revision}}
    return {"metadata": {"name": "pod", **labels, **metadata}, "spec": spec, "status": {"phase": phase}}


def replica_set(revision: str, spec: Spec, replicas: int) -> Manifest:
    """A ReplicaSet of that template."""
    labels = {"labels": {"rollouts.dev/revision": revision}}
    return {"metadata": labels, "spec": {"template": {"spec": spec}}, "status": {"replicas": replicas}}


def test_what_admission_added_to_a_running_pod_counts_for_the_new_ones() -> None:
    """A sidecar and a priority class that are in no template do; a container that the file drops does not."""
    proxy = {"name": "proxy", "resources": {"requests": {"cpu": "500m"}}}
    before = {"containers": [*pod(cpu="1")["containers"], {"name": "dropped"}]}
    live = Live(
        rollout={},
        replica_sets=(replica_set(OLD, before, 1),),
        pods=(running(OLD, {"containers": [*before["containers"], proxy], "priorityClassName": "usual"}),),
    )
    specs = pod_specs({"spec": pod(cpu="2")}, live, NamespaceLimits(), now_s=0.0)

    assert [each["name"] for each in specs.new["containers"]] == ["app", "proxy"]
    assert specs.new["priorityClassName"] == "usual"
    assert charge(specs.new)["cpu"] == Fraction(5, 2)
    assert charge(specs.of(OLD))["cpu"] == Fraction(3, 2)


def test_pods_that_have_ended_no_longer_count() -> None:
    """One that succeeded, and one whose node is lost: its grace is over. One within its grace still counts."""
    lost: dict[str, Any] = {"deletionTimestamp": "2026-11-23T10:00:00Z", "deletionGracePeriodSeconds": 30}
    ended = (running(OLD, pod(), phase="Succeeded"), running(OLD, pod(), **lost))
    live = Live(rollout={}, pods=(running(OLD, pod()), *ended))

    def counted_at(time: str) -> list[bool]:
        specs = pod_specs({"spec": pod()}, live, NamespaceLimits(), now_s=parse_time(time))
        return [not each.ended for each in specs.present]

    assert counted_at("2026-11-23T10:00:10Z") == [True, False, True]
    assert counted_at("2026-11-23T10:00:31Z") == [True, False, False]


def test_without_the_right_to_list_pods_their_replica_sets_tell_how_many_there_are() -> None:
    """With the defaults of LimitRanges, which their templates do not have."""
    least = {"type": "Container", "defaultRequest": {"cpu": "250m"}}
    bounds = build.manifest(LIMIT_RANGE, "team", spec={"limits": [least]})
    live = Live(rollout={}, replica_sets=(replica_set(OLD, pod(), 3), replica_set("z", pod(), 0)))
    specs = pod_specs({"spec": pod()}, live, NamespaceLimits(limit_ranges=(bounds,)), now_s=0.0)

    assert [(each.count, charge(each.spec)["cpu"]) for each in specs.present] == [(3, Fraction(1, 4))]


async def test_the_limits_of_the_cluster_are_read(empty: Shop) -> None:
    """The Rollout's own four pods are taken off what is used; the exit code stays 0. What may not be listed is said."""
    await empty.installed(cart())
    amounts = {"hard": {"pods": "6"}, "used": {"pods": "6"}}
    least = {"limits": [{"type": "Container", "min": {"memory": "1Gi"}}]}
    client = empty.stage.session.client
    made = build.manifest(RESOURCE_QUOTA, "team", spec={"hard": {"pods": "6"}})
    await client.create(RESOURCE_QUOTA, empty.namespace, made)
    await client.patch(RESOURCE_QUOTA, empty.namespace, "team", {"status": amounts}, MERGE_PATCH, subresource="status")
    await client.create(LIMIT_RANGE, empty.namespace, build.manifest(LIMIT_RANGE, "team", spec=least))
    await client.create(AUTOSCALER, empty.namespace, build.autoscaler("cart", most=4))
    plan = await empty.planned(cart(tag="2"))

    short = {"resource": "pods", "needs": "5", "allows": "4", "pods": 1}
    told_of_step = [
        {**short, "kind": "ResourceQuota", "name": "team", "hard": "6", "others": "2"},
        {**short, "kind": "HorizontalPodAutoscaler", "name": "cart", "hard": "4", "others": "0"},
    ]
    assert [step["outgrown"] for step in plan["steps"]] == [told_of_step, [], told_of_step]
    assert plan["limits"] == {
        "refusals": ["LimitRange team refuses the new pods: container app has no memory request, and 1Gi is the least"],
        "notes": [],
    }
    empty.door.refused = ("/resourcequotas", "/limitranges", "/horizontalpodautoscalers")
    assert (await empty.planned(cart(tag="2")))["limits"]["notes"] == [
        "not checked: you may not list HorizontalPodAutoscalers, ResourceQuotas and LimitRanges here"
    ]
