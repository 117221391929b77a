"""Promise: what a Service that the strategy names does to shares and switches is a condition and one Event."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rollouts.objects import SERVICE, Manifest
from tests.behaviour.scenarios import HALF, STABLE_AND_CANARY, canary, rollout, service, updated
from tests.behaviour.stage import Stage, play

CONDITION = "ServiceUnsafe"
STICKY: Manifest = {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 600}}}
PLAIN: Manifest = {"sessionAffinity": "None", "sessionAffinityConfig": None}


def with_fields(name: str, **fields: Any) -> Manifest:
    made = service(name)
    return {**made, "spec": {**made["spec"], **fields}}


def writes_of_two_revisions(*services: Manifest) -> tuple[Counter[str], Counter[str]]:
    """Writes of the first revision and of an update, each to rest."""
    first: Counter[str] = Counter()

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        await stage.until_quiet()
        first.update(stage.witness.effects())
        await updated(stage)

    run = play((*services, rollout(canary(HALF, services=True))), script)
    return first, run.effects - first


def test_the_condition_comes_with_the_field_and_goes_with_it() -> None:
    """The watch of managed Services brings the change: nobody has to touch the Rollout for it."""
    seen: list[Manifest] = []
    told: list[str] = []

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        seen.append(stage.condition(CONDITION))
        stage.merge(SERVICE, "stable", {"spec": STICKY})
        await stage.until(lambda: bool(stage.condition(CONDITION)))
        seen.append(stage.condition(CONDITION))
        stage.merge(SERVICE, "stable", {"spec": PLAIN})
        await stage.until(lambda: not stage.condition(CONDITION))
        await stage.until_quiet()
        told.extend(stage.events(CONDITION))

    run = play((*STABLE_AND_CANARY, rollout(canary(HALF, services=True))), script)

    before, found = seen
    assert (run.violations, run.unexpected, before) == ([], [], {})
    assert (found["status"], found["reason"]) == ("True", CONDITION)
    assert found["message"].startswith("Service stable: spec.sessionAffinity: a client stays with its pod for 600 s")
    assert told == [found["message"]]


def test_it_is_told_before_the_service_is_taken_over() -> None:
    """The first look at a Service is a GET: what is wrong with it must not wait for the watch."""

    async def script(stage: Stage) -> None:
        await stage.until(lambda: bool(stage.condition(CONDITION)))
        managed = stage.find(SERVICE, "stable")
        assert "rollouts.dev/managed" not in (managed["metadata"].get("labels") or {})
        await stage.until_phase("Healthy", "1")

    headless = with_fields("stable", clusterIP="None")
    play((headless, service("canary"), rollout(canary(HALF, services=True))), script)


def test_it_costs_one_status_and_one_event_when_it_is_found_and_nothing_after_that() -> None:
    """Each write is 5 to 8 ms of the API server's CPU; who has ordinary Services pays none."""
    plain_first, plain_update = writes_of_two_revisions(*STABLE_AND_CANARY)
    local = with_fields("stable", internalTrafficPolicy="Local")
    first, update = writes_of_two_revisions(local, service("canary"))

    assert first - plain_first == Counter({"PATCH rollouts/status": 1, "POST events": 1})
    assert update == plain_update
