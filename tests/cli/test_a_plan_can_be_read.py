"""A plan fits a terminal, and docs/graceful.md shows what `rollouts plan` prints."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from rich.console import Console

from rollouts.cli.plan.draw import draw_plan
from rollouts.cli.plan.limits import NamespaceLimits
from rollouts.cli.plan.live import Live, snapshot_of, with_file
from rollouts.cli.plan.report import report_of
from rollouts.clock import SystemClock
from rollouts.controller.facts.proxies import ClusterFacts
from rollouts.core.model.drain import ProxyFacts, ProxyMode

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
NO_LIMITS = NamespaceLimits()
DOCS = (Path(__file__).parents[2] / "docs" / "graceful.md").read_text(encoding="utf-8")


def on_a_terminal(
    path: Path,
    *,
    columns: int,
    wide: bool = False,
    facts: ClusterFacts | None = None,
    limits: NamespaceLimits = NO_LIMITS,
) -> str:
    """The plan of a file whose objects are not in the cluster yet, as a terminal without colours shows it."""
    documents = [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each]
    services = tuple(each for each in documents if each["kind"] == "Service")
    applied = with_file(next(each for each in documents if each["kind"] == "Rollout"), None, namespace="shop")
    live = Live(rollout=None)
    seen = snapshot_of(applied, live, clock=SystemClock(), facts=facts or ClusterFacts())
    console = Console(width=columns, force_terminal=True, color_system=None)
    report = report_of(applied, seen, live, from_file=services, templates={}, limits=limits)
    with console.capture() as captured:
        console.print(draw_plan(report, wide=wide, lines=True))
    return captured.get()


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_a_terminal_of_100_columns_is_wide_enough(path: Path, wide: bool) -> None:
    """Nothing is cut off: numbers and step names stay on one line, and reasons are folded."""
    said = on_a_terminal(path, columns=100, wide=wide)

    assert "…" not in said
    assert max(len(line) for line in said.splitlines()) <= 100
    assert ("AVAILABLE" in said) is wide


def test_the_docs_show_what_is_printed() -> None:
    """An output that was pasted once is wrong a month later."""
    proxy = ProxyFacts(
        mode=ProxyMode.IPTABLES, known_by="ConfigMap kube-system/kube-proxy says iptables", min_sync_period_s=1.0
    )
    example = next(path for path in EXAMPLES if path.name == "canary-services.yaml")
    said = on_a_terminal(example, columns=112, facts=ClusterFacts(proxy=proxy))

    block = "\n".join(line.rstrip() for line in said.splitlines())
    assert f"```console\n$ rollouts plan -n shop -f examples/canary-services.yaml\n{block}\n```" in DOCS, block
