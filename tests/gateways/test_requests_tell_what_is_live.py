"""Where nobody lets the controller at the proxies, what they did with requests tells what is live: counted by a real Prometheus.

Here it scrapes every two seconds. The controller asks nobody else: neither Envoy's admin interface nor Traefik's API.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from itertools import groupby

import pytest

from rollouts.core.routing.verification import COUNTED_S
from tests.gateways import contour
from tests.gateways.asking import asking
from tests.gateways.report import Case
from tests.gateways.routes import Manifest, accepted, through
from tests.gateways.shifting import HELD, Moment, Shifting, finished
from tests.node.real_node import RealNode

ALL = [through("contour", "HTTPProxy"), through("traefik", "HTTPRoute"), through("traefik", "TraefikService")]
STEPS: Sequence[Manifest] = [
    {"setWeight": 25},
    {"pause": {"duration": HELD}},
    {"setWeight": 100},
    {"pause": {"duration": HELD}},
]
BY_COUNTERS = [(weight, "Counters") for weight in (0, 25, 100, 0)]
LONGER_S = COUNTED_S + 5  # silent counters are waited for a minute, and then time alone would do


@pytest.mark.parametrize("route", ALL, indirect=True)
def test_a_canary_goes_by_what_became_of_requests(counted: Shifting, cases: list[Case]) -> None:
    """Every weight, the last zero too, is confirmed by counters before the next step is begun; no request fails."""
    set_up(counted)

    counted.update(lambda moment: finished(moment, "Healthy"))

    cases.append(counted.case("canary by counters"))
    assert counted.failed == 0, counted.lost
    assert [share for share in counted.shares() if share.percent and not share.within_chance] == []
    assert _confirmed(counted) == BY_COUNTERS


@pytest.mark.parametrize("route", [through("contour", "HTTPRoute")], indirect=True)
def test_a_weight_that_the_proxy_does_not_do_is_not_live(node: RealNode, counted: Shifting, cases: list[Case]) -> None:
    """Contour has taken the route, and its status says so; its Envoy goes on with a quarter, as no news reaches it.

    It is told what is counted instead. Only when Envoy has got the news, long after all times that would be waited for silent
    counters, the weight is live.
    """
    told: list[Moment] = []
    freed: list[float] = []
    taken: list[bool] = []

    with contour.over_a_line(node) as relay:

        def seen(moment: Moment) -> bool:
            if moment.live_weight == 25 and not told:
                os.kill(relay, signal.SIGSTOP)
            if "not 100 %" in json.dumps(moment.rollout["status"].get("waitingFor")):
                told.append(moment)
                taken.append(accepted(counted.route.read(node.plane)))
            if told and not freed and moment.at > told[0].at + LONGER_S:
                os.kill(relay, signal.SIGCONT)
                freed.append(moment.at)
            return finished(moment, "Healthy")

        set_up(counted)
        counted.update(seen)

    cases.append(counted.case("a proxy that does not do it, by counters"))
    whole = counted.first(lambda moment: moment.live_weight == 100)
    assert all(taken)
    assert whole.at > freed[0]
    assert counted.failed == 0, counted.lost
    assert [share for share in counted.shares() if share.percent and not share.within_chance] == []
    assert _confirmed(counted) == BY_COUNTERS


def set_up(counted: Shifting) -> None:
    """With a client at the gateway already: that the canary gets nothing is counted, too."""
    with asking(counted.route.url, clients=1):
        counted.set_up(STEPS)


def _confirmed(counted: Shifting) -> list[tuple[float, str]]:
    """The weights that were live, one after the other, with how that was found out."""
    live = ((each.live_weight, each.traffic.get("verifiedBy", "")) for each in counted.moments)
    return [(weight, by) for (weight, by), _ in groupby(live) if weight is not None]
