"""A move under load, and the row of the report that it makes."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tests.e2e.stage import Stage
from tests.node.cutover_report import Case
from tests.node.moves import Move, until_phase
from tests.node.real_node import Proxy, RealNode
from tests.node.traffic import PATIENCE_S, Connections, Outcome, Protocol, traffic
from tests.node.workload import App, Drain

RATE = 400
"""Requests a second."""


@dataclass(frozen=True)
class Cutover:
    """Where moves are made: a node, a namespace with a controller, kube-proxy in some mode, and the rows so far."""

    node: RealNode
    stage: Stage
    proxy: Proxy
    cases: list[Case]

    def under_load(
        self,
        move: Move,
        *,
        app: App,
        connections: Connections,
        drain: Drain = "auto",
        protocol: Protocol = "http1",
        ask: str = "/",
        rate: float = RATE,
        patience_s: float = PATIENCE_S,
    ) -> Outcome:
        """What became of the requests that were sent from before the move until all pods that had to go were gone.

        Args:
            ask: path and query of the requests.
            rate: requests a second.
            patience_s: for one request.
        """
        self.stage.apply(*move.manifests(app, drain))
        until_phase(self.stage, "Healthy")
        address = self.stage.get("service", move.service)["spec"]["clusterIP"]
        with traffic(
            self.node,
            f"http://{address}{ask}",
            rate=rate,
            connections=connections,
            protocol=protocol,
            patience_s=patience_s,
            name=f"load-{self.stage.namespace}",
        ) as running:
            began = time.monotonic()
            move.act(self.stage)
            took_s = time.monotonic() - began
        outcome = running.outcome
        self.cases.append(
            Case(
                case=move.name if ask == "/" else f"{move.name} {ask}",
                proxy=str(self.proxy),
                drain=drain,
                app=app,
                connections=connections,
                protocol=protocol,
                sent=outcome.sent,
                failed=dict(outcome.failed),
                seconds=round(took_s, 1),
                timeline=outcome.seconds,
            )
        )
        return outcome
