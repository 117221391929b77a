"""A move under load: what is asked for, and what was seen of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.e2e.stage import Stage
from tests.node.cutover_report import Case
from tests.node.lanes import Job, how_many
from tests.node.moves import Move, until_phase
from tests.node.real_node import RealNode
from tests.node.traffic import PATIENCE_S, Connections, Outcome, Protocol, traffic_of
from tests.node.workload import NAME, App, Drain

RATE = 400  # requests a second, of all cases that run at once


def usual_rate() -> float:
    """Requests a second of one case: its share of RATE when all lanes but one have a case."""
    return RATE / max(1, how_many() - 1)


@dataclass(frozen=True)
class Seen:
    """A trial as it went."""

    outcome: Outcome
    row: Case  # of the report
    namespace: str  # in which it was, for who reads the audit log
    slowest_sync_s: float  # the longest that kube-proxy has taken in this mode until the trial's end


@dataclass(frozen=True, kw_only=True)
class UnderLoad(Job):
    """Something that is done while clients of one kind use an app."""

    app: App = "dies"
    connections: Connections = "new"
    drain: Drain = "auto"
    protocol: Protocol = "http1"
    ask: str = "/"  # path and query of the requests
    rate: float = field(default_factory=usual_rate)  # requests a second
    patience_s: float = PATIENCE_S  # for one request

    def seen(self, node: RealNode, stage: Stage, act: Callable[[], None], *, case: str, service: str = NAME) -> Seen:
        """What became of the requests that were sent from before the act until it was over; `case` is its name in reports."""
        with traffic_of(
            node,
            stage,
            service,
            ask=self.ask,
            rate=self.rate,
            connections=self.connections,
            protocol=self.protocol,
            patience_s=self.patience_s,
        ) as running:
            began = time.monotonic()
            act()
            took_s = time.monotonic() - began
        outcome = running.outcome
        row = Case(
            case=case,
            proxy=str(self.proxy),
            drain=self.drain,
            app=self.app,
            connections=self.connections,
            protocol=self.protocol,
            sent=outcome.sent,
            failed=dict(outcome.failed),
            seconds=round(took_s, 1),
            timeline=outcome.seconds,
        )
        return Seen(outcome, row, stage.namespace, node.slowest_sync_s())


@dataclass(frozen=True, kw_only=True)
class Trial(UnderLoad):
    """One move; `number` tells it from the same one made again."""

    move: Move
    number: int = 0

    def __str__(self) -> str:
        parts = [self.name, str(self.proxy), self.app, self.connections]
        parts += [self.protocol] if self.protocol != "http1" else []
        parts += ["off"] if self.drain == "off" else []
        return "-".join([*parts, *([str(self.number)] if self.number else [])])

    @property
    def name(self) -> str:
        """Of the move, and of what is asked for where that is not the usual."""
        return self.move.name if self.ask == "/" else f"{self.move.name} {self.ask}"

    def run(self, node: RealNode, stage: Stage) -> Seen:
        """Makes the move, until all pods that had to go are gone."""
        stage.apply(*self.move.manifests(self.app, self.drain))
        until_phase(stage, "Healthy")
        return self.seen(node, stage, lambda: self.move.act(stage), case=self.name, service=self.move.service)
