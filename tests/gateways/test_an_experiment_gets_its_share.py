"""The Experiment of a step gets its share through a real gateway, and its pods go after their requests: none fails.

Its pods are copies of those of the two revisions, so the version of an answer tells of the canary's own share and of that of the
new template together.
"""

from __future__ import annotations

import time

import pytest

from tests.gateways.report import Case, Share
from tests.gateways.routes import Manifest, through
from tests.gateways.shifting import HELD, Moment, Shifting, finished
from tests.node.workload import NAME

TRIED: Manifest = {
    "experiment": {
        "duration": "12s",
        "scaleDownDelaySeconds": 0,
        "templates": [
            {"name": "baseline", "specRef": "stable", "weight": 10, "metadata": {"labels": {"trial": "baseline"}}},
            {"name": "trial", "specRef": "canary", "weight": 15, "metadata": {"labels": {"trial": "trial"}}},
        ],
    }
}
STEPS: list[Manifest] = [{"setWeight": 20}, TRIED, {"setWeight": 50}, {"pause": {"duration": HELD}}]


@pytest.mark.parametrize("route", [through("envoy-gateway", "HTTPRoute")], indirect=True)
def test_the_share_of_an_experiment_is_live_and_leaves_without_a_lost_request(
    shifting: Shifting, cases: list[Case]
) -> None:
    """20 % for the canary and 15 % for pods of its version: 35 of 100 answers. The Services go after the last of them."""
    shifting.set_up(STEPS)
    gone: list[float] = []

    def seen(moment: Moment) -> bool:
        return finished(moment, "Healthy")

    shifting.update(seen)
    deadline_s = time.time() + 120
    while not gone and time.time() < deadline_s:
        names = [each["metadata"]["name"] for each in shifting.stage.all("services")]
        if not any("-experiment-" in name for name in names):
            gone.append(time.time())
        time.sleep(1)

    cases.append(shifting.case("an experiment with a share"))
    both = [one for one in shifting.moments if _experiments(one, "observed") and one.live_weight is not None]
    end = next(one.at for one in shifting.moments if one.at > both[-1].at and not _experiments(one, "desired"))
    share = _share(shifting, both[0].at, end)
    assert shifting.failed == 0, shifting.lost
    assert [each["weight"] for each in _experiments(both[0], "observed")] == [10, 15]
    assert share.answers > 1_000
    assert share.within_chance, share
    assert gone, f"the Services of the Experiment of {NAME} are still there"


def _experiments(moment: Moment, which: str) -> list[dict[str, float]]:
    found: list[dict[str, float]] = (moment.traffic.get(which) or {}).get("experiments", [])
    return found


def _share(shifting: Shifting, begin: float, end: float) -> Share:
    """How the requests of that time were answered: by the version of the canary, or by the other one."""
    whole = [one for one in shifting.outcome.seconds if begin + 1 <= one["at"] and one["at"] + 2 <= end]
    counts = [sum(one["versions"].get(version, 0) for one in whole) for version in ("1", "2")]
    return Share(35, sum(counts), counts[1])
