"""Series of metrics come and go with what they are about: a registry that only grows ends a process, too."""

from __future__ import annotations

from rollouts.core.model.status import Phase
from rollouts.objects import Key
from rollouts.telemetry import Telemetry


def phases(telemetry: Telemetry) -> list[bytes]:
    """The series of Rollouts by phase."""
    lines = telemetry.exposition().splitlines()
    return sorted(line for line in lines if line.startswith(b"rollouts_phase{"))


def test_the_series_of_a_namespace_go_with_its_last_rollout() -> None:
    """A cluster whose pipelines make a namespace for each pull request had thousands of dead series a month."""
    telemetry = Telemetry()
    first, second = Key("pr-1", "cart"), Key("pr-1", "shop")
    telemetry.set_phase(Key("prod", "cart"), Phase.HEALTHY)
    for each in (first, second):
        telemetry.set_phase(each, Phase.PROGRESSING)
        telemetry.set_phase(each, Phase.HEALTHY)

    telemetry.set_phase(first, None)
    assert b'rollouts_phase{namespace="pr-1",phase="Healthy"} 1.0' in phases(telemetry)
    telemetry.set_phase(second, None)
    telemetry.set_phase(second, None)

    assert phases(telemetry) == [b'rollouts_phase{namespace="prod",phase="Healthy"} 1.0']


def test_a_namespace_that_comes_back_is_counted_from_nothing() -> None:
    """What went must not be remembered."""
    telemetry = Telemetry()
    key = Key("pr-1", "cart")
    for _ in range(3):
        telemetry.set_phase(key, Phase.PROGRESSING)
        telemetry.set_phase(key, None)
    telemetry.set_phase(key, Phase.PROGRESSING)

    assert phases(telemetry) == [b'rollouts_phase{namespace="pr-1",phase="Progressing"} 1.0']
