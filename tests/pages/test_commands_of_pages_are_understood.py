"""Promise: each command, option and make target that a page names is one that there is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.core
import typer.main
import yaml

from rollouts.cli.main import app
from rollouts.controller.command import main as controller
from tests.architecture.tracked import ROOT, tracked
from tests.cli.test_hands_that_know_argos_plugin import FLAGS
from tests.pages.blocks import Block, all_blocks

PAGES = [page for page in sorted(tracked()) if page.suffix == ".md" and page.name != "CHANGELOG.md"]
FOREIGN = {
    "--api.insecure": "Traefik",
    "--atomic": "Helm",
    "--cascade": "kubectl",
    "--for": "kubectl wait",
    "--force-conflicts": "kubectl apply",
    "--hypothesis-seed": "pytest, by Hypothesis",
    "--ipvs-tcp-timeout": "kube-proxy",
    "--ipvs-tcpfin-timeout": "kube-proxy",
    "--metrics.prometheus": "Traefik",
    "--replicas": "kubectl scale",
    "--server-side": "kubectl apply",
    "--set": "Helm",
    "--strict": "mypy",
    "--sync-rate-limit": "ingress-nginx",
    "--api-versions": "Helm",
    "--take-ownership": "Helm",
    "--validate": "kubectl",
    "--wait": "Helm",
}
"""Options of other programs that pages name, with the program."""
OF_BENCHMARKS = {"--quick", "--idle", "--analyses", "--configs", "--dashboard", "--held", "--updates", "--argo"}
OF_MUTANTS = {"--rooms", "--count", "--seed", "--whole", "--resume", "--tests"}
OF_ARGOS_PLUGIN = {f"--{flag}" for flag in FLAGS}
_PROGRAM = re.compile(
    r"(?:^|(?<!get)(?<!retry)[|&(;$\s])(?:kubectl rollouts|rollouts) +([^|&;<>()`#\n\\]+)", re.MULTILINE
)
_INLINE = re.compile(r"`([^`\n]+)`")
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w.-]*")
ON_EVERY_CLUSTER = {
    "--no-wait",
    *_OPTION.findall(
        (ROOT / "docs" / "cli.md").read_text(encoding="utf-8").partition("## Options of all")[2].partition("\n## ")[0]
    ),
}
"""Options that docs/cli.md explains once, below its table."""
_VALUES = re.compile(
    r"(?:the chart's|chart values?|\(in the chart|in the chart) `([a-z][\w.]+)`|`([a-z][\w.]+)` (?:in|of) the chart"
)


@cache
def commands() -> dict[str, tuple[set[str], ...]]:
    """Every command by its words, such as `analysis get`, with the spellings of each of its options."""

    def walk(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, tuple[set[str], ...]]]:
        if isinstance(command, typer.core.TyperGroup):
            for name, each in command.commands.items():
                yield from walk(each, (*words, name))
        else:
            given = [each for each in command.params if each.param_type_name == "option"]
            yield " ".join(words), tuple({*each.opts, *each.secondary_opts} for each in given)

    return dict(walk(typer.main.get_command(app), ()))


def typed(text: str) -> list[str]:
    """What is said to `rollouts` in a text: command lines from behind the program's name."""
    return [found.strip() for found in _PROGRAM.findall(text)]


def misunderstood(line: str) -> list[str]:
    """What `rollouts` would not understand of a command line; placeholders in capitals are taken for any word."""
    words = shlex.split(line.replace("…", "").replace("'", ""), comments=True)
    if not words or not re.fullmatch(r"[a-z][a-z-]+", words[0]):
        return []
    name = " ".join(words[:2]) if " ".join(words[:2]) in commands() else words[0]
    if name not in commands():
        return [f"there is no command `{name}`"] if name != "controller" and name not in _groups() else []
    known = {"-h", "--help"}.union(*commands()[name])
    given = (word.strip("[]").partition("=")[0] for word in words if re.match(r"\[?--?[a-z]", word))
    return [f"`{name}` has no option {each}" for each in given if each not in known]


def _groups() -> set[str]:
    return {name.split()[0] for name in commands() if " " in name}


@pytest.mark.parametrize("block", [each for each in all_blocks() if each.language in ("sh", "console")], ids=str)
def test_commands_in_blocks_are_understood(block: Block) -> None:
    """Also in a block that no test can run: its options are checked all the same."""
    text = "\n".join(each.command for each in block.exchanges).replace("\\\n", " ")

    assert [problem for line in typed(text) for problem in misunderstood(line)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_sentences_are_understood(page: Path) -> None:
    """`rollouts rollback --full`, in the middle of a sentence, is copied too."""
    spans = _INLINE.findall(page.read_text(encoding="utf-8"))

    assert [problem for span in spans for line in typed(span) for problem in misunderstood(line)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_are_those_of_a_program(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the command line, of the controller, or of a program that is named here."""
    with pytest.raises(SystemExit):
        controller(["--help"])
    of_commands = (each for one in commands().values() for each in one)
    ours = {"--no-color", *_OPTION.findall(capsys.readouterr().out)}.union(*of_commands)

    named = {option for span in _INLINE.findall(page.read_text(encoding="utf-8")) for option in _OPTION.findall(span)}

    assert named - ours - set(FOREIGN) - OF_BENCHMARKS - OF_MUTANTS - OF_ARGOS_PLUGIN == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_targets_are_in_the_makefile(page: Path) -> None:
    """`make` alone lists them."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = page.read_text(encoding="utf-8")
    code = "\n".join([*_INLINE.findall(text), *(block.text for block in all_blocks() if ROOT / block.page == page)])

    assert set(re.findall(r"(?:^|\$ |&& )make ([a-z]+)", code, re.MULTILINE)) - targets == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_values_of_the_chart_are_there(page: Path) -> None:
    """Helm takes a value that no template reads without a word."""
    values = yaml.safe_load((ROOT / "helm" / "rollouts" / "values.yaml").read_text())

    def there(path: str) -> bool:
        found: object = values
        for key in path.split("."):
            if not isinstance(found, dict) or key not in found:
                return False
            found = found[key]
        return True

    named = {first or second for first, second in _VALUES.findall(page.read_text(encoding="utf-8"))}

    assert {each for each in named if not there(each)} == set()


def _rows() -> dict[str, str]:
    """The first cells of the table of commands, by command."""
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8").replace("\\|", "¦")
    cells = re.findall(r"^\| (`[a-z].*?`(?:, `[^`]+`)*) \|", text.partition("## Lists")[0], re.MULTILINE)
    rows: dict[str, str] = {}
    for usage in (usage for cell in cells for usage in _INLINE.findall(cell)):
        words = usage.split()
        name = " ".join(words[:2]) if " ".join(words[:2]) in commands() else words[0]
        rows[name] = f"{rows.get(name, '')} {usage}"
    return rows


@pytest.mark.parametrize("name", sorted(commands()))
def test_the_table_of_commands_has_every_option(name: str) -> None:
    """An option that no page names is found by nobody; one that is gone ends in an error."""
    shown = set(re.findall(r"(?<![\w-])--?[A-Za-z][a-z-]*", _rows()[name]))
    known = commands()[name]

    assert shown - set().union(*known, {"-"}) == set()
    assert [each for each in known if not each & (shown | ON_EVERY_CLUSTER)] == []
