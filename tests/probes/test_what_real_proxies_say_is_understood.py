"""Promise: what real data planes say makes the split live that they do, and no other.

Recorded from Envoy Gateway 1.9.1 and Contour 1.33.8 (both with Envoy 1.40.0) and Traefik 3.7.12 by `tests/gateways/record.py`:
the route as its user wrote it, and the data plane while clients saw its effect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import ALL_TO_STABLE, MirrorRoute, RouteName, Split
from rollouts.ports import LiveQuestion
from rollouts.probes import envoy, traefik
from rollouts.probes.verdict import Judgement
from tests.probes.dumps import BETA, question, share

RECORDED = Path(__file__).parent / "recorded"
SITUATIONS: Mapping[str, Split] = {
    "weight-0": ALL_TO_STABLE,
    "weight-5": share(5),
    "weight-100": share(100),
    "header-route": Split(Fraction(5, 100), matches=(BETA,)),
    "mirror": Split(Fraction(10, 100), mirrors=(MirrorRoute("shadow", percent=50),)),
}
OF_ALL = "mirror of all"
SPLITS: Mapping[str, Split] = {
    **SITUATIONS,
    OF_ALL: Split(Fraction(10, 100), mirrors=(MirrorRoute("shadow", percent=100),)),
}
INSTEAD = {"contour/httproute-mirror": OF_ALL}  # it accepts half in an HTTPRoute and copies all
ROUTERS = {"HTTPRoute": "gatewayAPI", "HTTPProxy": "contour", "TraefikService": "traefik"}
ALL = sorted(each for situation in SITUATIONS for each in RECORDED.glob(f"*/*-{situation}.json"))


def _judged(said: Mapping[str, Any], asked: LiveQuestion) -> Judgement:
    if "raw" in said:
        return traefik.live_share(json.dumps(said["raw"]).encode(), asked)
    # All endpoints were recorded; an Envoy is asked for some.
    names = unquote(envoy.endpoints_path(asked).partition("name_regex=")[2])
    told = [
        each for each in said["endpoints"]["configs"] if re.fullmatch(names, each["endpoint_config"]["cluster_name"])
    ]
    return envoy.live_share(json.dumps(said["routes"]).encode(), json.dumps({"configs": told}).encode(), asked)


def _question(said: Mapping[str, Any], split: Split) -> LiveQuestion:
    user = said["object"]
    name = RouteName(ROUTERS[user["kind"]], user["kind"], user["metadata"]["namespace"], user["metadata"]["name"])
    services = {"stable_service": "web-stable", "canary_service": "web-canary"}
    return question(split, route=name, gateways=("gateways/any",), objects=(user,), **services)


def _done(file: Path) -> str:
    """What the proxy did: nearly always what its route said."""
    wanted = next(each for each in SITUATIONS if file.stem.endswith(f"-{each}"))
    return INSTEAD.get(f"{file.parent.name}/{file.stem}", wanted)


@pytest.mark.parametrize("file", ALL, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_real_proxy_is_believed_for_what_it_does_and_for_nothing_else(file: Path) -> None:
    """Each product writes weights, headers and copies in its own way, and kinds of one product differ, too."""
    said = json.loads(file.read_text())
    own = _done(file)

    judged = {name: _judged(said, _question(said, split)) for name, split in SPLITS.items()}

    assert {name for name, each in judged.items() if each.live} == {own}, judged
    assert judged[own].message == ""


@pytest.mark.parametrize("file", ALL, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_the_same_words_about_another_route_are_not_believed(file: Path) -> None:
    """A neighbour's route with the same two Services is not the one that is asked about."""
    said = json.loads(file.read_text())
    asked = _question(said, SPLITS[_done(file)])
    other = replace(asked, route=replace(asked.route, name="other"), objects=())

    assert not _judged(said, other).live


def test_every_data_plane_that_is_asked_has_been_recorded() -> None:
    """A missing folder would take its cases away without a word."""
    told = {f"{file.parent.name} {file.stem}" for file in ALL}
    weights = ["weight-0", "weight-5", "weight-100"]
    expected = {
        "envoy-gateway httproute": SITUATIONS,
        "contour httproute": SITUATIONS,
        "contour httpproxy": SITUATIONS,
        "traefik httproute": [*weights, "header-route"],
        "traefik traefikservice": weights,
    }

    assert told == {f"{name}-{situation}" for name, situations in expected.items() for situation in situations}
