"""From a write to the route until every request goes where it says."""

from __future__ import annotations

import time

import pytest

from tests.gateways.asking import Asking, asking
from tests.gateways.report import Case, spread
from tests.gateways.routes import WEIGHTED, Route
from tests.node.real_node import RealNode

CHANGES = 120  # enough for a 99th percentile that is not the slowest of all
LIMIT_MS = 150


@pytest.mark.parametrize("route", WEIGHTED[:1], indirect=True)
def test_envoy_gateway_does_what_is_written_within_150_ms(
    node: RealNode, two_versions: Route, cases: list[Case]
) -> None:
    """The wait for live that every step has is short where the data plane is quick."""
    lags, clients = _measure(node, two_versions, changes=CHANGES)
    cases.append(_case(two_versions, lags, clients))

    assert spread(lags)["p99"] <= LIMIT_MS, sorted(lags)[-5:]


@pytest.mark.parametrize("route", WEIGHTED[1:], indirect=True)
def test_the_others_take_their_time(node: RealNode, two_versions: Route, cases: list[Case]) -> None:
    """How long is in the report; none takes longer than the settle time that is assumed where nobody can be asked."""
    lags, clients = _measure(node, two_versions, changes=20)
    cases.append(_case(two_versions, lags, clients))

    assert max(lags) < 5000


def _measure(node: RealNode, route: Route, *, changes: int) -> tuple[list[float], Asking]:
    """Moves everything from one version to the other and back. For each move, in ms: from the API server's answer until the
    last request was sent that the old version answered."""
    lags: list[float] = []
    with asking(route.url) as clients:
        clients.until_only("1")
        for number in range(changes):
            stable, canary = ((0, 100), (100, 0))[number % 2]
            route.set_weights(node.plane, stable, canary)
            written_at = time.time()
            clients.until_only("2" if canary else "1")
            late = [one.sent_at for one in clients.since(written_at) if one.version != ("2" if canary else "1")]
            lags.append(max(late, default=written_at) * 1000 - written_at * 1000)
    return lags, clients


def _case(route: Route, lags: list[float], clients: Asking) -> Case:
    answers = list(clients.answers)
    while answers[0].status != 200:  # before the app's first answer the gateway did not know the route
        answers.pop(0)
    return Case(
        case=f"{len(lags)} changes from one Service to the other",
        gateway=route.gateway.name,
        route=route.kind,
        sent=len(clients.answers),
        failed=sum(not 200 <= one.status < 300 for one in answers),
        shares={},
        lag_ms=spread(lags),
    )
