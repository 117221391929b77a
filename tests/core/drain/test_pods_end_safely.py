"""Promise: a template whose pods would end too soon is completed or told about, and what its owner wrote is never changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.core.context.drain_numbers import drain_numbers
from rollouts.core.drain.pre_stop import injection, unsafe
from rollouts.core.model.drain import DrainMode, DrainSpec, PreStop, ProxyFacts, ProxyMode
from rollouts.core.model.frozen import replace
from rollouts.core.model.pod_exit import ContainerExit, Injection, PodExit
from rollouts.core.model.rollout import Canary
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import World
from tests.core.updates import said, updating
from tests.core.worlds import edited, one, reconciled, settled

FACTS = ProxyFacts(mode=ProxyMode.IPTABLES, min_sync_period_s=1.0)
SPEC = DrainSpec(max_request_s=30.0)
VALIDATE = DrainSpec(pre_stop=PreStop.VALIDATE, max_request_s=30.0)
PLAIN = ContainerExit("app")


def _sleeps(seconds: int) -> ContainerExit:
    return ContainerExit("proxy", has_pre_stop=True, sleep_s=seconds)


OFF = DrainSpec(mode=DrainMode.OFF, pre_stop=PreStop.VALIDATE)
INJECTED: dict[str, tuple[DrainSpec, PodExit, bool, Injection | None]] = {
    "6 s to be forgotten by proxies, 30 for the longest request, 5 to end in": (SPEC, PodExit(30, (PLAIN,)), False,
        Injection(containers=("app",), pre_stop_s=6, grace_s=41, native=False)),
    "beside a container that sleeps longer": (SPEC, PodExit(30, (PLAIN, _sleeps(10))), True,
        Injection(containers=("app",), pre_stop_s=6, grace_s=45, native=True)),
    "a grace period is never lowered": (SPEC, PodExit(600, (PLAIN,)), True,
        Injection(containers=("app",), pre_stop_s=6, grace_s=600, native=True)),
    "Validate only looks": (VALIDATE, PodExit(30, (PLAIN,)), True, None),
    "Off does not even do that": (DrainSpec(pre_stop=PreStop.OFF), PodExit(30, (PLAIN,)), True, None),
    "nor does a Rollout that is not drained": (DrainSpec(mode=DrainMode.OFF), PodExit(30, (PLAIN,)), True, None),
    "a preStop of the user's own is left alone": (SPEC, PodExit(1, (_sleeps(1),)), True, None),
}  # fmt: skip
TOLD: dict[str, tuple[DrainSpec, PodExit, str]] = {
    "need and have, two numbers that a person can act on": (VALIDATE, PodExit(30, (PLAIN, _sleeps(2))),
        ("container app: need a preStop sleep of 6 s, have none; container proxy: need a preStop sleep of 6 s, have 2 s; "
            "terminationGracePeriodSeconds: need 41, have 30")),
    "what is injected is not missing": (SPEC, PodExit(30, (PLAIN,)), ""),
    "what the user wrote can be too short": (SPEC, PodExit(30, (PLAIN, _sleeps(2))),
        "container proxy: need a preStop sleep of 6 s, have 2 s"),
    "a long sleep needs a long grace period": (SPEC, PodExit(30, (_sleeps(10),)),
        "terminationGracePeriodSeconds: need 45, have 30"),
    "a safe template": (VALIDATE, PodExit(41, (_sleeps(6),)), ""),
    "a preStop whose time nobody can tell": (VALIDATE, PodExit(41, (ContainerExit("app", has_pre_stop=True),)), ""),
    "pods that are left as they are": (DrainSpec(pre_stop=PreStop.OFF, max_request_s=30.0), PodExit(1, (_sleeps(1),)), ""),
    "a Rollout that is not to be looked at": (OFF, PodExit(1, (PLAIN,)), ""),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "ends", "native", "made"), INJECTED.values(), ids=list(INJECTED))
def test_a_container_without_a_pre_stop_gets_a_sleep(
    spec: DrainSpec, ends: PodExit, native: bool, made: Injection | None
) -> None:
    """Unless its user says otherwise: who gives pods ten minutes to end has a reason."""
    assert injection(spec, ends, drain_numbers(spec, FACTS), native=native) == made


@pytest.mark.parametrize(("spec", "ends", "told"), TOLD.values(), ids=list(TOLD))
def test_what_is_missing_is_told(spec: DrainSpec, ends: PodExit, told: str) -> None:
    """To say that it is unsafe helps nobody."""
    assert unsafe(spec, ends, drain_numbers(spec, FACTS)) == told


EXITS = st.builds(
    PodExit,
    grace_s=st.integers(0, 4_000),
    containers=st.lists(
        st.builds(
            ContainerExit, st.sampled_from("abc"), has_pre_stop=st.just(True), sleep_s=st.none() | st.integers(0, 4_000)
        )
        | st.builds(ContainerExit, st.sampled_from("abc")),
        max_size=3,
    ).map(tuple),
)


@given(
    ends=EXITS,
    request_s=st.floats(0, 4_000),
    facts=st.sampled_from([FACTS, ProxyFacts(), ProxyFacts(mode=ProxyMode.IPVS)]),
)
def test_no_template_that_is_changed_sleeps_longer_than_its_grace_period(
    ends: PodExit, request_s: float, facts: ProxyFacts
) -> None:
    """The API server refuses such a sleep, and a kubelet cuts it short: the longest request fits in behind every sleep."""
    spec = DrainSpec(max_request_s=request_s)

    made = injection(spec, ends, drain_numbers(spec, facts), native=True)

    if made is not None:
        sleeps_s = [made.pre_stop_s, *(each.sleep_s for each in ends.containers if each.sleep_s is not None)]
        assert made.grace_s >= max(sleeps_s) + request_s
        assert made.grace_s >= ends.grace_s


ASKED = Injection(containers=("app",), pre_stop_s=6, grace_s=45, native=True)
GATED = Canary(steps=(SetWeight(50), PauseUntilPromoted()))


def _unsafe(there: World) -> str:
    return said(there, "DrainUnsafe")


def _admitted(there: World, revision: str, grace_s: int | None, injection: Injection | None = ASKED) -> World:
    """The ReplicaSet of that revision as the API server admitted it."""
    sets = tuple(
        replace(each, injection=injection, grace_s=grace_s) if each.revision == revision else each
        for each in there.replica_sets
    )
    return reconciled(replace(there, replica_sets=sets))


def _updating() -> World:
    return updating(GATED, drain=DrainSpec(max_request_s=30.0))


@pytest.mark.parametrize("revision", ["a", "b"])
def test_a_replica_set_with_less_time_than_was_asked_for_is_told_with_both_numbers(revision: str) -> None:
    """Of the new revision, and of the stable one, whose pods end next. Where nothing ends, and nothing drains, nobody is told."""
    there = _admitted(_updating(), revision, 20)

    name = one(there, revision).name
    assert f"ReplicaSet {name}: terminationGracePeriodSeconds: asked for 45, and it has 20" in _unsafe(there)
    assert "policy" in _unsafe(there)
    assert _unsafe(reconciled(edited(there, drain=DrainSpec(mode=DrainMode.OFF)))) == ""
    assert _unsafe(settled(edited(there, replicas=0))) == ""


@pytest.mark.parametrize("grace_s", [45, 600, None])
def test_as_much_time_or_more_is_no_fault(grace_s: int | None) -> None:
    """A policy may raise it, too; and an older object may not show it."""
    assert [_unsafe(_admitted(_updating(), revision, grace_s)) for revision in "ab"] == ["", ""]


def test_a_template_that_needs_nothing_added_is_compared_with_what_its_author_wrote() -> None:
    """Nothing is injected there, and the cap takes from the author's own sleep."""
    there = settled(edited(_updating(), ends=PodExit(60, (replace(PLAIN, has_pre_stop=True, sleep_s=20),))))

    assert "asked for 60, and it has 20" in _unsafe(_admitted(there, "b", 20, injection=None))
