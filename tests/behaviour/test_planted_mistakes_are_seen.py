"""Promise: a mistake in what the controller remembers, observes or decides is seen from outside: its writes break a rule.

Replacing a part of the product is right here: it is the accused. What judges it reads the cluster's own history.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rollouts.cluster.store import Table
from rollouts.controller.observe import services
from rollouts.core.drain import cutover
from rollouts.core.scale import sizing
from rollouts.objects import POD, REPLICA_SET
from tests.behaviour.reading import REVISION
from tests.behaviour.scenarios import ACTIVE_AND_PREVIEW, blue_green, rollout, updated
from tests.behaviour.stage import KEY, Script, Stage, play

Plant = Callable[[pytest.MonkeyPatch], None]
LATE_S = 8.0
"""Slices of a control plane that is busy."""

SHORT_DRAIN = {"preStop": "Off", "maxRequestSeconds": 5}


def _counts_that_fall_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store: an event that comes with fewer available pods is taken for an old one."""
    right = Table.put

    def put(self: Table[Any], scope: str, seen: Any) -> Any:
        known = self.get(seen.metadata.namespace, seen.metadata.name)
        fewer = self.kind == REPLICA_SET and known and seen.status.available_replicas < known.status.available_replicas
        return self.bookmark(scope, seen.metadata.resource_version) if fewer else right(self, scope, seen)

    monkeypatch.setattr(Table, "put", put)


def _all_endpoints_are_of_the_selected_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Observer: whatever pods the slices show are taken for those that the selector means, so the old ones seem to have left."""
    right = vars(services)["service_seen"]

    def seen(service: Any, labels: Any, ready: dict[str, int], label: str) -> Any:
        selected = (service.spec.selector or {}).get(label, "")
        return right(service, labels, {selected: sum(ready.values())}, label)

    monkeypatch.setattr(services, "service_seen", seen)


def _drains_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """decide: old pods go although their requests are in flight."""
    monkeypatch.setattr(sizing, "draining", lambda *_: None)


def _the_clock_starts_at_the_selector(monkeypatch: pytest.MonkeyPatch) -> None:
    """decide: a Service that selects another revision counts as left, while its slices lead to the old one."""
    selects = lambda ctx, left: ctx.services_seen[left.service].revision == left.from_revision  # noqa: E731
    monkeypatch.setattr(cutover, "_shows", selects)


async def _promoted_when_its_pods_have_failed(stage: Stage) -> None:
    """The preview's pods fail in the moment in which somebody promotes it."""
    await stage.until_phase("Healthy", "1")
    await stage.update("2", "Paused")
    for pod in list(stage.cluster.api.history.select(POD, KEY.namespace)):
        if pod.labels[REVISION] == stage.status["currentRevision"]:
            stage.cluster.kubelets.crash(pod.key)
    await stage.until(lambda: stage.available("2") == 0)
    await stage.order("promote", "true", "Healthy", "2")


MISTAKES: dict[Plant, tuple[str, Script]] = {
    _counts_that_fall_are_dropped: ("S1", _promoted_when_its_pods_have_failed),
    _all_endpoints_are_of_the_selected_revision: ("S24", updated),
    _drains_are_not_waited_for: ("S24", updated),
    _the_clock_starts_at_the_selector: ("S24", updated),
}


def _broken(script: Script) -> set[str]:
    automatic = script is updated
    strategy = blue_green(autoPromotionEnabled=automatic, previewReplicaCount=2, scaleDownDelaySeconds=0)
    manifests = (*ACTIVE_AND_PREVIEW, rollout(strategy, drain=SHORT_DRAIN))
    found = play(manifests, script, slice_lag_s=LATE_S if automatic else 0.02).violations
    return {each.partition(" s: ")[2].partition(":")[0] for each in found}


@pytest.mark.parametrize(("plant", "rule", "script"), [(plant, *MISTAKES[plant]) for plant in MISTAKES])
def test_a_planted_mistake_is_seen(plant: Plant, rule: str, script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the number of its rule."""
    plant(monkeypatch)

    assert rule in _broken(script)


@pytest.mark.parametrize("script", [updated, _promoted_when_its_pods_have_failed])
def test_without_a_mistake_nothing_is_told(script: Script) -> None:
    """The same updates, by the controller as it is."""
    assert _broken(script) == set()
