"""Records what real autoscalers do in all situations: `python -m tests.contract.autoscaling.record`, about five minutes.

It starts a control plane of its own. Run it after a new version of Kubernetes, and after a change of the situations.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rollouts.cluster.connection import connect
from rollouts.objects import AUTOSCALER
from tests.contract.autoscaling.catalogue import FLAGS, OUTCOMES, SERVED, WITHOUT_THE_API
from tests.contract.autoscaling.play import MetricsTable, Seen, play
from tests.contract.autoscaling.situations import Situation
from tests.contract.conversation import CRD, WIDGET, WIDGET_CRD, Conversation, until_widgets_are_served
from tests.lab import supervisor
from tests.lab.control_plane import ControlPlane
from tests.lab.launch import MANAGER_FLAGS
from tests.lab.metrics_api import served_answers

_PREFIX = "--horizontal-pod-autoscaler"
_FLAGS_TEXT = (
    f"{_PREFIX}-sync-period={FLAGS.sync_period_s:g}s {_PREFIX}-downscale-stabilization={FLAGS.downscale_stabilization_s:g}s "
    f"{_PREFIX}-cpu-initialization-period={FLAGS.cpu_initialization_s:g}s"
)
KINDS_KNOWN_S = 35.0  # so long after its CRD the controller knows a kind: it asks for all kinds every 30 s
QUIET_S, LOOKS = 12.0, 4
"""A stage has settled after so long without a change, and after so many looks at each autoscaler that asks for metrics."""
STAGE_MAX_S = 120.0


def main() -> None:
    """Records, and writes the file of outcomes."""
    folder = Path(tempfile.mkdtemp(prefix=f"autoscaling-{secrets.token_hex(3)}-"))
    os.environ[MANAGER_FLAGS] = _FLAGS_TEXT
    with supervisor.own(folder) as plane:
        seen = asyncio.run(_recorded(plane))
    lines = [
        f"{json.dumps(each.name)}: {json.dumps(seen[each.name].shown(each))}" for each in (*WITHOUT_THE_API, *SERVED)
    ]
    OUTCOMES.write_text("{\n" + ",\n".join(lines) + "\n}\n")


async def _recorded(plane: ControlPlane) -> dict[str, Seen]:
    connection = await connect(kubeconfig=plane.kubeconfig_admin, context=None, user_agent="contract/1")
    try:
        with plane.fresh_namespace() as absent, plane.fresh_namespace() as served:
            talk = Conversation(connection, absent, is_simulated=False)
            assert (await talk.send("POST", CRD.path(), WIDGET_CRD)).status == 201
            await until_widgets_are_served(connection)
            await asyncio.sleep(KINDS_KNOWN_S)
            found = await _played(talk, WITHOUT_THE_API)
            table = MetricsTable(now_s=time.time())
            with served_answers(plane, namespace=served, answer=table.answer):
                talk = Conversation(connection, served, is_simulated=False)
                return found | await play(talk, SERVED, table, lambda: _settled(talk, table))
    finally:
        await connection.aclose()


async def _played(talk: Conversation, situations: Sequence[Situation]) -> dict[str, Seen]:
    return await play(talk, situations, MetricsTable(now_s=time.time()), lambda: asyncio.sleep(QUIET_S))


async def _settled(talk: Conversation, table: MetricsTable) -> None:
    """Waits until nothing has changed for a while, and everybody who asks for metrics has asked several times."""
    asked, versions = dict(table.asked), await _versions(talk)
    began_s = changed_s = time.monotonic()
    while time.monotonic() - began_s < STAGE_MAX_S:
        await asyncio.sleep(1.0)
        found = await _versions(talk)
        if found != versions:
            versions, changed_s = found, time.monotonic()
        looks = [count - asked.get(selector, 0) for selector, count in table.asked.items()]
        enough = all(count == 0 or count >= LOOKS for count in looks) and any(looks)
        if enough and time.monotonic() - changed_s >= QUIET_S:
            return


async def _versions(talk: Conversation) -> dict[str, str]:
    found: dict[str, str] = {}
    for kind in (AUTOSCALER, WIDGET):
        items = (await talk.list(kind)).body["items"]
        found |= {f"{kind.kind} {each['metadata']['name']}": each["metadata"]["resourceVersion"] for each in items}
    return found


if __name__ == "__main__":
    main()
