"""Help, program name and docs: what people read before they type."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from rollouts.api.schema import crd_manifests
from rollouts.cli.commands.lint_rules import RULES
from rollouts.cli.exits import Exit
from rollouts.cli.main import app, main, program_name
from rollouts.cli.terminal.examples import EXAMPLES
from rollouts.core.model.reasons import Reason
from tests.cli.command_line import CommandLine

DOCS = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
COMMANDS = sorted(command.name or "" for command in app.registered_commands)
GROUPS = {
    f"{group.name} {command.name}"
    for group in app.registered_groups
    for command in (group.typer_instance.registered_commands if group.typer_instance is not None else ())
}


def test_the_commands_are_these() -> None:
    """Taking one away, or renaming it, breaks somebody's script."""
    assert COMMANDS == [
        "abort", "analyze", "completion", "crds", "create", "dashboard", "delete", "demo", "diff", "doctor", "drain-report",
        "explain", "get", "gitops", "help", "history", "lint", "list", "migrate", "pause", "plan", "promote", "rbac", "restart",
        "resume", "retry", "rollback", "status", "undo", "version",
    ]  # fmt: skip
    assert {
        "analysis get",
        "analysis list",
        "analysis providers",
        "analysis terminate",
        "config diff",
        "config list",
        "experiment get",
        "experiment list",
        "experiment terminate",
        "set image",
    } == GROUPS


@pytest.mark.parametrize("command", [*COMMANDS, *sorted(GROUPS)])
def test_every_command_has_help_and_a_row_in_the_docs(command: str, typed: CommandLine) -> None:
    """A command that nobody can find out about is not there."""
    assert f"rollouts {command} " in typed(*command.split(), "--help").out
    assert f"`{command}" in DOCS


@pytest.mark.parametrize("code", list(Exit))
def test_every_exit_code_is_in_the_docs_and_in_the_help(code: Exit, capsys: pytest.CaptureFixture[str]) -> None:
    """Scripts are written from these."""
    main(["--help"])

    assert f"\n  {int(code)}  " in capsys.readouterr().out.partition("Exit codes:")[2]
    assert f"\n| {int(code)} | " in DOCS


@pytest.mark.parametrize("path", EXAMPLES)
def test_the_help_of_a_command_has_examples_that_can_be_typed(path: str, typed: CommandLine) -> None:
    """Two or three for each command; what is shown there is typed."""
    shown = typed(*path.split(), "--help").out.partition("Examples:")[2]
    root = typer.main.get_command(app)
    for command in leaves(root):
        command.callback = None  # it is read, and not carried out

    for words, about in EXAMPLES[path]:
        assert f"rollouts {words}" in shown and about in shown
        assert root.main(shlex.split(re.split("[|>]", words)[0]), standalone_mode=False) in (None, 0)


def test_every_command_has_examples() -> None:
    """Those of a group are those of its commands too."""
    assert {path for path in EXAMPLES if path} == {*COMMANDS, *GROUPS, *(path.split()[0] for path in GROUPS)}
    assert all(len(EXAMPLES[path]) in (2, 3) for path in (*COMMANDS, *GROUPS))


def leaves(command: Any) -> Iterator[Any]:
    """The commands that are no groups."""
    for below in getattr(command, "commands", {}).values():
        yield from leaves(below) if hasattr(below, "commands") else [below]


def test_help_is_a_command_too(typed: CommandLine) -> None:
    """As kubectl's; and the options that choose a cluster have a page of their own."""
    assert typed("help", "get").out == typed("get", "--help").out == typed("get", "-h").out
    assert typed("help", "set", "image").out.startswith("Usage: rollouts set image NAME CONTAINER=IMAGE")
    options = typed("help", "options").out
    assert all(flag in options for flag in ("--as-group", "--token", "-s, --server", "--tls-server-name", "-v"))
    assert "--as-group" not in typed("get", "--help").out


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_is_explained(reason: Reason, typed: CommandLine) -> None:
    """Whoever has no checkout reads here what a word in a condition means, and what to do about it."""
    said = typed("explain", reason.value.lower()).out

    assert said.startswith(f"{reason.value}: {reason.meaning}\n")
    assert reason.remedy.replace("`rollouts ", "`kubectl rollouts ") in said


def test_what_waits_for_somebody_says_what_to_do() -> None:
    """Each reason of a wait has its remedy, also that it ends by itself."""
    waits = [reason for reason in Reason if reason.meaning.startswith("Waits")]
    assert waits and [reason for reason in waits if not reason.remedy] == []


def test_what_is_no_reason_is_told_with_the_one_that_was_meant(typed: CommandLine) -> None:
    """And a field is explained by kubectl, whose command has the same name."""
    assert "did you mean PodsNotAvailable?" in typed("explain", "PodNotAvailable", code=2).err
    assert "`kubectl explain rollout.spec.strategy`" in typed("explain", "rollout.spec.strategy", code=2).err
    assert typed("explain").out.count("\n") == len({*RULES, *map(str, Reason)}) + 1
    assert json.loads(typed("explain", "Draining", "-o", "json").out)["Draining"]["remedy"] == Reason.DRAINING.remedy


def test_help_has_groups(typed: CommandLine) -> None:
    """Thirty commands in one list are read by nobody; without words the help is shown, as kubectl does."""
    said = typed().out
    assert said == typed("--help").out
    titles = re.findall(r"^([A-Z][\w ]+):$", said, re.MULTILINE)
    assert titles[:5] == ["See Rollouts", "Change Rollouts", "Analyses", "Check and convert files", "Install and learn"]
    assert not re.search(r"\.\.\.$", said, re.MULTILINE)  # what is said of a command is not cut


@pytest.mark.parametrize(
    ("executable", "name"),
    [
        ("/usr/local/bin/rollouts", "rollouts"),
        ("/x/rollouts/__main__.py", "rollouts"),
        ("/usr/local/bin/kubectl-rollouts", "kubectl rollouts"),
        ("kubectl-rollouts.exe", "kubectl rollouts"),
    ],
)
def test_the_program_is_called_what_people_typed(executable: str, name: str) -> None:
    """Help that says `rollouts get` to somebody who has only `kubectl rollouts get` sends them nowhere."""
    assert program_name(executable) == name


def test_crds_prints_what_kubectl_applies(typed: CommandLine) -> None:
    """`rollouts crds | kubectl apply --server-side --force-conflicts -f -`."""
    documents = list(yaml.safe_load_all(typed("crds").out))
    names = [document["metadata"]["name"] for document in documents]
    assert "rollouts.rollouts.dev" in names and "trafficproviders.rollouts.dev" in names
    assert names == [crd["metadata"]["name"] for crd in crd_manifests()]


@pytest.mark.parametrize(
    "words", [["nonsense"], ["get", "--nonsense"], ["promote"], ["lint"], ["plan"], ["demo", "--context", "x"]]
)
def test_a_command_line_that_cannot_be_understood_exits_with_2(typed: CommandLine, words: list[str]) -> None:
    """As every Unix program does, and apart from 1, which says that a Rollout is bad."""
    typed(*words, code=2)


def test_looking_at_a_rollout_loads_neither_controller_nor_simulator_nor_what_checks_specs() -> None:
    """`get` is typed a hundred times a day: it must not pay for the demo, nor a third of its time for the models of specs."""
    rooms = ("controller.wiring", "controller.loop", "core.decide", "sim", "cli.plan", "api.schema", "api.v1alpha1")
    names = (*(f"rollouts.{each}" for each in rooms), "pydantic.")
    code = f"import sys, rollouts.cli.main; print([name for name in sys.modules if name.startswith({names})])"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
