"""Waits that lose no request cost time; they are as long as the proxies and the longest request make them, and little more."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.node.cutover import Seen, Trial
from tests.node.lanes import seen_of
from tests.node.moves import BLUE_GREEN
from tests.node.real_node import Proxy, RealNode
from tests.node.workload import MAX_REQUEST_S, NAME

SPARE_S = 3.0


@seen_of(*(Trial(move=BLUE_GREEN, proxy=Proxy(mode)) for mode in ("iptables", "nftables")))
def test_the_old_side_goes_soon_after_the_last_request_that_it_can_have(seen: Seen, node: RealNode) -> None:
    """From the slices' change to the first old pod's deletion: the slowest sync seen, the longest request, three seconds."""
    switched, deleted = _cutover_times(node.plane.audit_events(), seen.namespace)

    limit_s = seen.slowest_sync_s + MAX_REQUEST_S + SPARE_S
    assert MAX_REQUEST_S <= (deleted - switched).total_seconds() <= limit_s


def _cutover_times(events: list[dict[str, Any]], namespace: str) -> tuple[datetime, datetime]:
    """When the active Service's slices were last written before the first deletion of a pod, an old one, and when that was."""
    here = [event for event in events if event.get("objectRef", {}).get("namespace") == namespace]
    deleted = min(_when(one) for one in here if one["verb"] == "delete" and _name(one, "pods").startswith(f"{NAME}-"))
    switched = [
        _when(one)
        for one in here
        if one["verb"] in {"update", "patch", "create"}
        and _name(one, "endpointslices").startswith(f"{NAME}-")
        and not _name(one, "endpointslices").startswith(f"{NAME}-preview-")
    ]
    return max(when for when in switched if when < deleted), deleted


def _name(event: dict[str, Any], resource: str) -> str:
    reference = event["objectRef"]
    return str(reference.get("name", "")) if reference["resource"] == resource else ""


def _when(event: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(event["stageTimestamp"])
