"""Promise: a simulated HorizontalPodAutoscaler goes through the same statuses as the real one, and gives the same sizes.

What the real controller of Kubernetes 1.36 did in each situation is recorded (`autoscaling/record.py`): every status that was
seen, in its order, with numbers, metrics, conditions with their reasons, and what they say of failures.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest

from rollouts import ports
from rollouts.sim.clock import run_virtual
from rollouts.sim.cluster import SimulatedCluster
from tests.contract.autoscaling.catalogue import FLAGS, OUTCOMES, SERVED, WITHOUT_THE_API
from tests.contract.autoscaling.play import MetricsTable, Seen, play
from tests.contract.autoscaling.situations import Situation
from tests.contract.conversation import CRD, NAMESPACE, WIDGET_CRD, Conversation

RECORDED = json.loads(OUTCOMES.read_text())
STAGE_S = 40.0
IN_ONE_CLUSTER = 24
"""Every autoscaler looks at all pods of its namespace, so several small clusters are quicker than a large one."""

CLUSTERS = [SERVED[first : first + IN_ONE_CLUSTER] for first in range(0, len(SERVED), IN_ONE_CLUSTER)]


@pytest.mark.parametrize("situations", CLUSTERS, ids=lambda some: f"from {some[0].name}")
def test_every_situation_comes_to_what_is_recorded(situations: Sequence[Situation]) -> None:
    """Step by step, not only in the end."""
    found = _played(situations, serves=True)

    assert {name: RECORDED[name] for name in found} == found


def test_without_a_metrics_api_autoscalers_say_what_is_recorded() -> None:
    """Most clusters begin like that."""
    found = _played(WITHOUT_THE_API, serves=False)

    assert {name: RECORDED[name] for name in found} == found


def test_the_record_is_large_and_shows_every_word() -> None:
    """200 situations at least; each reason of each condition that metrics of pods can lead to."""
    reasons = Counter(
        f"{kind} {text.partition(':')[0]}"
        for recorded in RECORDED.values()
        for status in recorded["statuses"]
        for kind, text in status["conditions"].items()
    )

    assert len(RECORDED) == len(SERVED) + len(WITHOUT_THE_API) >= 200
    assert set(reasons) >= {
        "AbleToScale False FailedGetScale",
        "AbleToScale False FailedUpdateScale",
        "AbleToScale True ReadyForNewScale",
        "AbleToScale True ScaleDownStabilized",
        "AbleToScale True ScaleUpStabilized",
        "AbleToScale True SucceededGetScale",
        "AbleToScale True SucceededRescale",
        "ScalingActive False AmbiguousSelector",
        "ScalingActive False FailedGetContainerResourceMetric",
        "ScalingActive False FailedGetResourceMetric",
        "ScalingActive False InvalidSelector",
        "ScalingActive False ScalingDisabled",
        "ScalingActive True ValidMetricFound",
        "ScalingLimited False DesiredWithinRange",
        "ScalingLimited True ScaleDownLimit",
        "ScalingLimited True ScaleUpLimit",
        "ScalingLimited True TooFewReplicas",
        "ScalingLimited True TooManyReplicas",
    }


def _played(situations: Sequence[Situation], *, serves: bool) -> dict[str, object]:
    async def run() -> dict[str, Seen]:
        async with SimulatedCluster() as cluster:
            table = MetricsTable(now_s=cluster.clock.now_s())
            if serves:
                cluster.api.aggregation.register("metrics.k8s.io", "v1beta1", _Told(table))
            cluster.autoscalers(FLAGS)
            talk = Conversation(cluster.api, "contract", is_simulated=True)
            await talk.send("POST", NAMESPACE.path(), {"metadata": {"name": talk.namespace}})
            await talk.send("POST", CRD.path(), WIDGET_CRD)
            return await play(talk, situations, table, lambda: asyncio.sleep(STAGE_S))

    seen = run_virtual(run())
    return {each.name: seen[each.name].shown(each) for each in situations}


class _Told:
    """metrics.k8s.io of the simulated cluster, with the answers of a table."""

    def __init__(self, table: MetricsTable) -> None:
        self._table = table

    def answer(self, request: ports.Request, steps: tuple[str, ...]) -> ports.Response:
        """A list of the pods of a namespace."""
        assert steps[0] == "namespaces"
        status, body = self._table.answer(request.query["labelSelector"])
        return ports.Response(status, msgspec.json.encode(body))
