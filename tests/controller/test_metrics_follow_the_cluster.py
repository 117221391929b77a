"""Series of metrics come and go with what they are about: a registry that only grows ends a process, too."""

from __future__ import annotations

from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.status import Phase, RolloutStatus
from rollouts.objects import Key
from rollouts.telemetry import Telemetry


def phases(telemetry: Telemetry) -> list[bytes]:
    """The series of Rollouts by phase that count some."""
    lines = telemetry.exposition().splitlines()
    return sorted(line for line in lines if line.startswith(b"rollouts_phase{") and not line.endswith(b" 0.0"))


def test_the_series_of_a_namespace_go_with_its_last_rollout() -> None:
    """A cluster whose pipelines make a namespace for each pull request had thousands of dead series a month."""
    telemetry = Telemetry()
    first, second = Key("pr-1", "cart"), Key("pr-1", "shop")
    telemetry.show(Key("prod", "cart"), RolloutStatus(phase=Phase.HEALTHY))
    for each in (first, second):
        telemetry.show(each, RolloutStatus(phase=Phase.PROGRESSING))
        telemetry.show(each, RolloutStatus(phase=Phase.HEALTHY))

    telemetry.show(first, None)
    assert b'rollouts_phase{namespace="pr-1",phase="Healthy"} 1.0' in phases(telemetry)
    telemetry.show(second, None)
    telemetry.show(second, None)

    assert phases(telemetry) == [b'rollouts_phase{namespace="prod",phase="Healthy"} 1.0']


def test_a_namespace_that_comes_back_is_counted_from_nothing() -> None:
    """What went must not be remembered."""
    telemetry = Telemetry()
    key = Key("pr-1", "cart")
    for _ in range(3):
        telemetry.show(key, RolloutStatus(phase=Phase.PROGRESSING))
        telemetry.show(key, None)
    telemetry.show(key, RolloutStatus(phase=Phase.PROGRESSING))

    assert phases(telemetry) == [b'rollouts_phase{namespace="pr-1",phase="Progressing"} 1.0']


def test_experiments_are_counted_by_namespace_and_phase() -> None:
    """With every phase and no name, and not at all once the last one of a namespace is gone or this process no longer leads."""
    telemetry = Telemetry(rollout_series=10)
    first, second = Key("shop", "one"), Key("shop", "two")
    telemetry.show_experiment(first, AnalysisPhase.RUNNING)
    telemetry.show_experiment(second, AnalysisPhase.FAILED)
    telemetry.show_experiment(first, AnalysisPhase.FAILED)
    told = telemetry.exposition().decode()

    for phase in AnalysisPhase:
        count = 2.0 if phase is AnalysisPhase.FAILED else 0.0
        assert f'rollouts_experiment_phase{{namespace="shop",phase="{phase}"}} {count}' in told
    assert '"one"' not in told
    telemetry.show_experiment(first, None)
    telemetry.show_experiment(second, None)
    assert "rollouts_experiment_phase{" not in telemetry.exposition().decode()
    telemetry.show_experiment(first, AnalysisPhase.PENDING)
    telemetry.forget_objects()
    assert "rollouts_experiment_phase{" not in telemetry.exposition().decode()


def test_a_namespace_with_rollouts_has_every_phase() -> None:
    """`rollouts_phase{phase="Degraded"} == 0` holds before the first one was ever Degraded."""
    telemetry = Telemetry()
    telemetry.show(Key("prod", "cart"), RolloutStatus(phase=Phase.HEALTHY))
    told = telemetry.exposition().decode()

    assert {phase for phase in Phase if f'{{namespace="prod",phase="{phase}"}}' in told} == set(Phase)
