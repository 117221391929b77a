"""Promise: what pages show as output without a cluster is what the program prints."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
import yaml

from rollouts.cli.commands.drain_report import report
from rollouts.cli.main import main
from rollouts.core.model.frozen import replace
from rollouts.core.model.pod_exit import Injection
from rollouts.core.model.status import Cutover, Idle, RolloutStatus
from tests.architecture.tracked import ROOT
from tests.cli.test_an_analysis_can_be_tried_before_it_counts import vector
from tests.pages.blocks import Block, all_blocks, run_by
from tests.probes.servers import ok, serving

AT_S = 1_790_000_000.0
CART = next(each for each in all_blocks() if each.page == "README.md" and each.language == "yaml").text
Printed = pytest.CaptureFixture[str]


def block(page: str, start: str) -> Block:
    """The block of a page that begins so."""
    (found,) = (each for each in all_blocks() if each.page == page and each.text.startswith(start))
    return found


def drawn(name: str) -> str:
    """A screen that is kept as a test."""
    return (ROOT / "tests" / "cli" / "screens" / f"{name}.txt").read_text(encoding="utf-8")


def test_the_list_and_the_tree_are_of_those_that_are_drawn() -> None:
    """Lines of the list, and the head of the tree."""
    shown = block("docs/cli.md", "NAME ").text.splitlines()

    assert [line for line in shown if line not in [each.rstrip() for each in drawn("list-pipe").splitlines()]] == []
    assert drawn("get-paused-120").startswith(block("docs/cli.md", "cart  shop").text)


def test_the_drain_report_is_the_one_of_such_a_cutover() -> None:
    """Every line of it."""
    longest = "3 s until no proxy sends new connections, and 60 s for the longest request"
    cutover = Cutover(
        service="cart", from_revision="a1b2", to_revision="b7k2", confirmed_at_s=AT_S, proxy_lag_s=3.0, needed_s=63.0,
        until_s=AT_S + 6, message=f"{longest}; ended early: nothing was in flight on 3 polls in a row", drained=True,
        idle=Idle(3, AT_S + 6), in_flight=0,
    )  # fmt: skip
    added = Injection(containers=("app",), pre_stop_s=6, grace_s=71, native=True)
    status = replace(RolloutStatus(current_revision="b7k2"), injection=added, cutovers=(cutover,))

    (shown,) = block("docs/drain.md", "$ rollouts drain-report").exchanges
    assert list(report(status, now_s=AT_S + 60)) == shown.shown.splitlines()


def test_the_settings_for_argo_cd_are_those_that_are_printed(tmp_path: Path, capsys: Printed) -> None:
    """Of README's cart, in the namespace shop."""
    (tmp_path / "cart.yaml").write_text(CART.replace("{name: cart}\nspec:", "{name: cart, namespace: shop}\nspec:"))

    assert main(["gitops", "-f", str(tmp_path / "cart.yaml"), "--for", "argocd"]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)["spec"]
    shown = yaml.safe_load(block("docs/gitops.md", "# Argo CD").text)["spec"]
    assert shown["syncPolicy"] == printed["syncPolicy"]
    assert [each for each in shown["ignoreDifferences"] if each not in printed["ignoreDifferences"]] == []


def test_a_shell_takes_the_completion() -> None:
    """Of the line for bash, all of it; the other shells get a script that is not empty."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    lines = block("docs/cli.md", "source <(").text.splitlines()

    command = ["bash", "-euc", f"{lines[0]}; complete -p rollouts"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for shell in ("zsh", "fish"):
        assert any(f"rollouts completion {shell}" in line for line in lines)
        assert main(["completion", shell]) == 0


async def test_an_analysis_that_is_tried_says_what_the_page_shows(
    tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The template, the command and the answer of docs/analysis.md, with a Prometheus that has these numbers."""
    template = block("docs/analysis.md", "apiVersion: ").text
    (tmp_path / "success-rate.yaml").write_text(template)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "240")
    queries = [each["provider"]["prometheus"]["query"] for each in yaml.safe_load(template)["spec"]["metrics"]]
    meant = [each.replace("{{args.service}}", "cart-canary") for each in queries]
    answers = {
        f"/api/v1/query?{urlencode({'query': query}, quote_via=quote)}": ok(vector(value))
        for query, value in zip(meant, (0.9982, 0.7341), strict=True)
    }

    async with serving(answers) as server:
        command = block("docs/analysis.md", "rollouts analyze -f").text.replace("http://127.0.0.1:9090", server.url())
        code = await asyncio.to_thread(main, command.split()[1:])

    assert code == 1
    shown = block("docs/analysis.md", "AnalysisTemplate/success-rate").text
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        line.split() for line in shown.splitlines()
    ]


def test_each_block_that_names_this_file_is_here() -> None:
    """A block that says so and is not would be run by nobody."""
    assert len(run_by(__file__)) == 8
