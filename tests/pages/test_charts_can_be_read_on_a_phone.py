"""Charts can be read where the page is 390 pixels wide, on light and dark pages, and their text is text."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.figures import Results
from benchmarks.report import draw as draw_benchmark
from benchmarks.report import table
from tests.node.cutover_report import Case, draw

IMAGES = Path(__file__).parents[2] / "docs" / "images"
ON_A_PHONE_PX = 358  # 390 without the margins that GitHub leaves on both sides
SMALLEST_PX = 12
DARK = "@media (prefers-color-scheme: dark)"


def texts(picture: str) -> dict[str, float]:
    """The words of a picture, each with its height in pixels on a phone."""
    root = ElementTree.fromstring(picture)  # noqa: S314  our own
    width = float(root.attrib["viewBox"].split()[2])
    found = {}
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        size = re.search(r"font-size: ([\d.]+)px|font: (?:\w+ )?([\d.]+)px", text.attrib["style"])
        assert size is not None, text.attrib
        found["".join(text.itertext())] = float(size[1] or size[2]) * ON_A_PHONE_PX / width
    return found


def case(lost: int) -> Case:
    """Six seconds of an update; in the fourth so many were lost."""
    failed = {3: {"refused": lost}} if lost else {}
    timeline = [
        {
            "at": second,
            "sent": 400,
            "failed": failed.get(second, {}),
            "versions": {"1": 400 - 60 * second, "2": 60 * second},
        }
        for second in range(6)
    ]
    return Case(
        case="canary", proxy="iptables", drain="auto", app="dies", connections="new", protocol="http1", sent=2_400,
        failed={"refused": lost} if lost else {}, seconds=6, timeline=timeline,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["beside-argo", "cutover", "bench"])
def test_the_charts_of_the_pages_are_readable(name: str) -> None:
    """The first picture that a visitor sees had text of three pixels."""
    picture = (IMAGES / f"{name}.svg").read_text()
    small = {words: size for words, size in texts(picture).items() if size < SMALLEST_PX}

    assert texts(picture) and not small
    assert DARK in picture


def test_a_chart_says_what_each_controller_lost_and_when(tmp_path: Path) -> None:
    """Total, second and versions stand beside what they are about: no colour is needed to tell them apart."""
    draw("Requests lost", [("Theirs", case(38)), ("Ours", case(0))], tmp_path / "chart.svg")
    words = texts((tmp_path / "chart.svg").read_text())

    assert {"Requests lost", "Theirs: 38 of 2,400", "Ours: 0 of 2,400", "38", "old version", "new version"} <= set(
        words
    )


def test_a_benchmark_names_each_curve_and_bar_beside_it(tmp_path: Path) -> None:
    """With Argo Rollouts where it was measured, and without it where it was not."""
    results = Results(title="3 updates", settings={})
    results.add("peak RSS", 95, "MiB", limit=130)
    results.series = {"Deployments": [1.0, 2.0, 3.0], "Rollouts": [1.0, 2.0, 4.0]}
    draw_benchmark(results, tmp_path / "alone.svg")
    results.argo = {"peak RSS": 198}
    draw_benchmark(results, tmp_path / "both.svg")
    alone, both = (texts((tmp_path / f"{name}.svg").read_text()) for name in ("alone", "both"))

    assert {"Deployments, 3 s", "Rollouts, 4 s"} <= set(alone)
    assert set(both) - set(alone) == {"Controller memory, peak", "Rollouts: 95 MiB", "Argo Rollouts: 198 MiB"}
    assert table(results)[-1] == "| peak RSS | 130 MiB | 95 MiB | 198 MiB |"
