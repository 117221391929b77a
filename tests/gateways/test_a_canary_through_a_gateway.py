"""A canary through a real gateway: no request fails, every weight is what clients see, and zero means zero.

Clients send 400 requests a second from before the update until the last pod that had to go is gone: the final hand-back of the
requests to the stable Service is in it. A client of its own sends the header that the header route is for.
"""

from __future__ import annotations

import pytest

from tests.gateways.report import Case
from tests.gateways.routes import WEIGHTED, through
from tests.gateways.shifting import BY_HEADER, WEIGHTS, Moment, Shifting, finished, until_a_person_decides, whole_canary

ALL = [*WEIGHTED, through("traefik", "Ingress")]  # with the annotations of ingress-nginx


@pytest.mark.parametrize("route", ALL, indirect=True)
def test_a_whole_canary_loses_nothing_and_keeps_its_shares(shifting: Shifting, cases: list[Case]) -> None:
    """1, 5, 25, 50 and 100 percent, a header route and a mirror on the way, and the hand-back to the stable Service."""
    shifting.set_up(whole_canary(shifting.route.features))

    shifting.update(lambda moment: finished(moment, "Healthy"))

    cases.append(shifting.case("canary"))
    shares = shifting.shares()
    assert shifting.failed == 0, shifting.lost
    assert [share.percent for share in shares if share.percent][: len(WEIGHTS)] == list(WEIGHTS)
    assert [share for share in shares if share.percent and not share.within_chance] == []
    if "header" in shifting.route.features:
        begin, end = shifting.live_time(BY_HEADER)
        live = [one for one in shifting.by_header if begin <= one.sent_at and one.answered_at <= end]
        assert {one.version for one in live} == {"2"}
    if "mirror" in shifting.route.features:
        assert shifting.mirrored_share > 0.9


@pytest.mark.parametrize("route", ALL, indirect=True)
def test_an_abort_takes_every_request_back(shifting: Shifting, cases: list[Case]) -> None:
    """Half of the requests and all with the header go to the canary; once zero is live, none does any more."""
    shifting.set_up(until_a_person_decides(shifting.route.features))
    aborted: list[float] = []

    def seen(moment: Moment) -> bool:
        waiting = (moment.rollout["status"].get("waitingFor") or {}).get("reason")
        if waiting == "PromotionNeeded" and not aborted:
            aborted.append(moment.at)
            shifting.stage.annotate(moment.rollout["metadata"]["name"], "abort", "true")
        return finished(moment, "Aborted")

    shifting.update(seen)

    cases.append(shifting.case("abort at half"))
    zero = shifting.first(lambda moment: bool(aborted) and moment.at > aborted[0] and moment.live_weight == 0)
    assert shifting.failed == 0, shifting.lost
    assert [share for share in shifting.shares() if share.percent == 50 and not share.within_chance] == []
    assert shifting.answers_after(zero.at, "2") == 0
