"""docs/getting-started.md, word for word, on a real node: from `make image` to the last deletion, nothing stands in for anything.

tests/e2e follows the same page on every machine, where kwok stands for the kubelet and no image is built.
"""

from __future__ import annotations

from pathlib import Path

from tests.node.engine import Engine
from tests.node.installed import PRESENT, Installed, give_image
from tests.node.machine import outside
from tests.node.one_run import ROOT
from tests.pages.blocks import blocks_of

PAGE = ROOT / "docs" / "getting-started.md"
WITHIN_S = 600
NEEDS_THE_NETWORK = ("make image\n", "make cli\n")  # blocks that fetch packages, and ask no cluster


def test_the_page_leads_from_a_checkout_to_a_canary_and_back_to_nothing(
    bare_cluster: Installed, image_engine: Engine, tmp_path: Path
) -> None:
    """The image, the chart and the commands are those of the page; its commands fail when a promise is not kept."""
    plane = bare_cluster.plane
    said: dict[str, str] = {}
    for block in blocks_of(PAGE):
        if block.why_not and block.text not in NEEDS_THE_NETWORK:
            continue
        if block.text in NEEDS_THE_NETWORK:
            shell = ("bash", "-euo", "pipefail", "-c", block.text)
            settings = {**image_engine.environment, "PREFIX": f"{tmp_path}/local"}
            said[block.text] = outside(*shell, within_s=WITHIN_S, env=settings, cwd=ROOT)
        else:
            of_engine = image_engine.environment
            said[block.text] = plane.typed(block.text, home=tmp_path, env=of_engine, cwd=ROOT, within_s=WITHIN_S)
        if block.text == "make image\n":  # then the page says how it gets to the nodes of kind, which this is not
            give_image(bare_cluster.node, image_engine, PRESENT)

    assert f"localhost/rollouts:{PRESENT} is built and starts" in said["make image\n"]
    assert "nothing is wrong" in said["kubectl rollouts doctor\n"]
    left = plane.kubectl("get", "crds,deployments,clusterroles,namespaces", "-A", "-o", "name").stdout
    assert "rollouts" not in left
