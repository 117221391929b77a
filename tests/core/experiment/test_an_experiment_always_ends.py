"""Promise: whatever becomes of the pods, the runs and the writes of an Experiment, it ends, and then nothing of it is left.

A model of the cluster carries out a prefix of each look's intents, in random order of events and with time that passes by itself.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

import pytest

from rollouts.core.experiment.decide import decide_experiment
from rollouts.core.experiment.model import (
    DeleteService,
    ExperimentIntent,
    ExperimentSpec,
    ExperimentStatus,
    ExperimentView,
    GroupAnalysis,
    GroupPods,
    GroupService,
    MakeReplicaSet,
    MakeRun,
    MakeService,
    PodGroup,
    SetReplicaSet,
    name_of_pods,
    name_of_service,
)
from rollouts.core.experiment.times import VERDICT_S
from rollouts.core.model.analysis import AnalysisPhase, Draft, DraftProblem, RunDraft, RunSeen
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import TerminateAnalysisRun
from rollouts.core.model.service_traits import ServicePort

ENDS = [AnalysisPhase.SUCCESSFUL, AnalysisPhase.SUCCESSFUL, AnalysisPhase.FAILED, AnalysisPhase.INCONCLUSIVE]
LOOKS_MAX = 600


def _group(name: str, rng: random.Random) -> PodGroup:
    ports = (ServicePort(port=80, name="http"),) if rng.random() < 0.5 else ()
    service = rng.choice([None, "", f"{name}-svc"])
    return PodGroup(
        name=name,
        template_json=b"{}",
        selector_json=b"{}",
        replicas=rng.choice([0, 1, 3]),
        service=service,
        ports=ports,
    )


def _spec(rng: random.Random) -> ExperimentSpec:
    analyses = tuple(GroupAnalysis(name=name, required=rng.random() < 0.4) for name in "ab"[: rng.randint(0, 2)])
    return ExperimentSpec(
        groups=tuple(_group(name, rng) for name in ("blue", "green")[: rng.randint(1, 2)]),
        analyses=analyses,
        content_hash="hash",
        duration_s=rng.choice([None, 0.0, 300.0]),
        progress_deadline_s=rng.choice([60.0, 600.0]),
        scale_down_delay_s=rng.choice([0.0, 30.0]),
    )


@dataclass
class World:
    """What a cluster makes of the intents."""

    rng: random.Random
    spec: ExperimentSpec
    now_s: float = 1_000.0
    status: ExperimentStatus = field(default_factory=ExperimentStatus)
    pods: dict[str, GroupPods] = field(default_factory=dict)
    services: dict[str, GroupService] = field(default_factory=dict)
    runs: dict[str, RunSeen] = field(default_factory=dict)
    healthy: bool = True
    kept_until_s: float = 0.0
    """Until when a Rollout has it keep its pods."""

    def view(self) -> ExperimentView:
        """What the next look sees."""
        draft: Draft = RunDraft(b"{}", "", "")
        if not self.healthy and self.rng.random() < 0.3:
            draft = DraftProblem("a template is missing")
        drafts = {each.name: draft for each in self.spec.analyses}
        return ExperimentView(
            name="exp", uid="u", generation=1, created_at_s=1_000.0, now_s=self.now_s, spec=self.spec, status=self.status,
            pods=dict(self.pods), services=dict(self.services), runs=dict(self.runs), drafts=drafts,
            kept_until_s=self.kept_until_s,
        )  # fmt: skip

    def look(self) -> None:
        """One look, of which a crash may lose the end: a prefix of the intents, and the status only after all of them."""
        decision = decide_experiment(self.view())
        done = len(decision.intents) if self.rng.random() < 0.8 else self.rng.randint(0, len(decision.intents))
        for intent in decision.intents[:done]:
            self.carry_out(intent)
        if done == len(decision.intents) and self.rng.random() < 0.9:
            assert not self.status.phase.over or decision.status.phase is self.status.phase
            assert self.status.available_at_s in (None, decision.status.available_at_s)
            self.status = decision.status
        at_s = decision.wake_at_s
        assert at_s is None or at_s >= self.now_s
        step_s = self.rng.choice([1.0, 7.0, 45.0])
        self.now_s = max(self.now_s + 0.1, min(self.now_s + step_s, at_s if at_s is not None else self.now_s + step_s))

    def carry_out(self, intent: ExperimentIntent) -> None:
        """What the API server does."""
        match intent:
            case MakeReplicaSet(group):
                name = name_of_pods("exp", "u", group)
                self.pods[group.name] = GroupPods(
                    name=name,
                    uid=name,
                    replicas=group.replicas,
                    min_ready_s=0,
                    current=0,
                    ready=0,
                    available=0,
                    settled=False,
                )
            case SetReplicaSet():
                found = next(key for key, each in self.pods.items() if each.name == intent.name)
                self.pods[found] = replace(self.pods[found], replicas=intent.replicas, settled=False)
                if intent.replicas == 0:
                    assert self.status.phase.over and not self.services, "pods go after the end, and after the Services"
                    assert self.now_s >= (self.status.completed_at_s or 0) + self.spec.scale_down_delay_s
                    assert self.now_s >= self.kept_until_s, "a route may send them requests"
            case MakeService(group):
                name = name_of_service("exp", "u", group)
                self.services[group.name] = GroupService(name=name, uid=name, resource_version="1", ready=0)
            case DeleteService():
                assert self.now_s >= self.kept_until_s, "a route may name it"
                self.services = {key: each for key, each in self.services.items() if each.name != intent.name}
            case MakeRun():
                assert [each.spec_hash for each in self.status.runs if each.run == intent.name] == [
                    intent.draft.spec_hash
                ]
                assert self.status.available_at_s is not None
                self.runs[intent.name] = RunSeen(
                    name=intent.name, uid=intent.name, resource_version="1", gate=None, revision="",
                    created_at_s=self.now_s, spec_hash=intent.draft.spec_hash,
                )  # fmt: skip
            case TerminateAnalysisRun():
                self.runs[intent.name] = replace(self.runs[intent.name], terminate=True)

    def events(self) -> None:
        """What kubelets, the run's controller and people do."""
        for key, pods in self.pods.items():
            up = pods.replicas if self.healthy or self.rng.random() < 0.5 else 0
            self.pods[key] = replace(pods, current=pods.replicas, ready=up, available=up, settled=True)
            if key in self.services:
                self.services[key] = replace(self.services[key], ready=up)
        for name, run in tuple(self.runs.items()):
            if not run.phase.over and (run.terminate or self.rng.random() < 0.05):
                self.runs[name] = replace(run, phase=self.rng.choice(ENDS))
            elif not self.healthy and self.rng.random() < 0.01:
                del self.runs[name]
        if math.isinf(self.kept_until_s) and self.rng.random() < 0.05:  # its Rollout lets them go, and they drain
            self.kept_until_s = self.now_s + 40.0
        if self.rng.random() < 0.005:
            self.spec = replace(self.spec, terminate=True)
        if not self.healthy and self.rng.random() < 0.002:
            self.spec = replace(self.spec, content_hash="other")

    @property
    def at_rest(self) -> bool:
        """It is over, and nothing of it runs."""
        pods = any(each.replicas for each in self.pods.values())
        runs = any(not each.phase.over and not each.terminate for each in self.runs.values())
        return self.status.phase.over and not pods and not self.services and not runs


@pytest.mark.parametrize("seed", range(200))
def test_any_world_comes_to_rest(seed: int) -> None:
    """Also one in which pods crash, runs are deleted and the spec is edited."""
    rng = random.Random(seed)  # noqa: S311 - a test's seed
    world = World(rng, _spec(rng), healthy=seed % 2 == 0, kept_until_s=math.inf if seed % 3 == 0 else 0.0)
    for _ in range(LOOKS_MAX):
        world.look()
        if rng.random() < 0.7:
            world.events()
        if world.at_rest:
            break
    assert world.at_rest, (world.status, world.pods, world.services, world.runs)
    records = {each.name: each.phase for each in world.status.runs}
    if world.status.phase is AnalysisPhase.SUCCESSFUL:
        needed = [each.name for each in world.spec.analyses if each.required] or [
            each.name for each in world.spec.analyses
        ]
        assert all(records[name] is AnalysisPhase.SUCCESSFUL for name in needed)
        assert world.status.available_at_s is not None


def test_a_run_that_never_ends_ends_the_wait_for_it() -> None:
    """Its controller may be gone; a person who asked for the end gets one."""
    rng = random.Random(1)  # noqa: S311 - a test's seed
    group = PodGroup(name="blue", template_json=b"{}", selector_json=b"{}", replicas=0)
    spec = ExperimentSpec(groups=(group,), analyses=(GroupAnalysis(name="a"),), content_hash="hash", duration_s=60.0)
    world = World(rng, spec)
    for _ in range(200):
        decision = decide_experiment(world.view())
        for intent in decision.intents:
            world.carry_out(intent)
        world.status = decision.status
        world.pods = {key: replace(each, settled=True) for key, each in world.pods.items()}
        world.now_s += 10.0
        if world.status.phase.over:
            break

    assert world.status.phase is AnalysisPhase.ERROR
    assert f"has no verdict {VERDICT_S:g} s after it was told to end" in world.status.message
