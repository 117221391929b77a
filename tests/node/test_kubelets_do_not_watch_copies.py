"""A kubelet watches each ConfigMap that its pods read, for as long as they run; an immutable copy it does not watch."""

from __future__ import annotations

from dataclasses import dataclass

from tests.build import config_map
from tests.e2e.stage import Stage
from tests.node.lanes import Job, seen_of
from tests.node.moves import until_phase
from tests.node.real_node import RealNode
from tests.node.workload import NAME, canary, mounting, service

SOURCES = 10


@dataclass(frozen=True)
class Watches:
    """A kubelet's watches of the ConfigMaps of one Rollout, once its pods are ready."""

    open: int  # at that time
    begun: int  # until then


@dataclass(frozen=True, kw_only=True)
class Reading(Job):
    """Four pods that read ten ConfigMaps, as volumes."""

    versions: bool

    def __str__(self) -> str:
        return "copies" if self.versions else "sources"

    def run(self, node: RealNode, stage: Stage) -> Watches:
        mark = node.plane.audit_mark()
        mode = "On" if self.versions else "Off"
        rollout = canary("graceful", "auto", spec={"configVersioning": {"mode": mode}})
        names = [f"settings-{number}" for number in range(SOURCES)]
        mounts = ({"name": name, "mountPath": f"/etc/{name}"} for name in names)
        reading = mounting(rollout, *mounts, **{name: {"configMap": {"name": name}} for name in names})
        stage.apply(*(config_map(name, data={"value": name}) for name in names), service(), reading)
        until_phase(stage, "Healthy")
        return _watches(node, stage.namespace, since=mark)


def _watches(node: RealNode, namespace: str, *, since: int) -> Watches:
    begun: set[str] = set()
    ended: set[str] = set()
    for event in node.plane.audit_events(since=since):
        asked = event.get("objectRef", {})
        if (event["verb"], asked.get("resource"), asked.get("namespace")) != ("watch", "configmaps", namespace):
            continue
        if event.get("userAgent", "").startswith("kubelet/"):
            (begun if event["stage"] == "ResponseStarted" else ended).add(event["auditID"])
    return Watches(open=len(begun - ended), begun=len(begun | ended))


@seen_of(Reading(versions=False))
def test_a_kubelet_watches_each_source_that_its_pods_read(seen: Watches) -> None:
    """This is what is saved, and shows that the audit log is read rightly: one for each ConfigMap, however many pods read it."""
    assert seen.open == SOURCES, f"of {NAME}"


@seen_of(Reading(versions=True))
def test_a_kubelet_keeps_no_watch_of_a_copy(seen: Watches) -> None:
    """docs/config.md promises it: the API server has one watch less for each copy on each node."""
    assert seen.open == 0, f"{seen.begun} were begun"
