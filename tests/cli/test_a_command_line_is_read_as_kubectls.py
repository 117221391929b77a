"""Words that hands know from kubectl: flags before a command, values of flags, kinds, and the commands of others."""

from __future__ import annotations

import json
import os
import re

import pytest
import typer

from rollouts.cli.demo.manifests import SECOND, with_image
from rollouts.cli.main import app, main
from rollouts.cli.terminal.elsewhere import ROLLOUT_WORDS, SPELLINGS
from rollouts.cli.view.objects import status_of
from tests.cli.command_line import CommandLine
from tests.cli.runs import Served
from tests.cli.shop import Shop

NOWHERE = "no cluster to connect to"


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nobody's own cluster is asked."""
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.delenv("KUBECONFIG", raising=False)


@pytest.mark.parametrize(
    "words",
    [
        ("-n", "shop", "get", "cart"),
        ("--namespace=shop", "get", "cart"),
        ("-nshop", "get", "cart"),
        ("-n=shop", "get", "cart"),
        ("get", "-n", "shop", "cart"),
        ("get", "rollout", "cart", "-n", "shop"),
        ("get", "ro/cart", "-n", "shop"),
        ("-n", "shop", "get", "rollouts.rollouts.dev", "cart"),
        ("-v", "0", "-n", "shop", "--as", "jane", "get", "cart", "--watch=false"),
        ("--request-timeout=5s", "get", "cart", "-n", "shop", "--cache-dir", "x"),
        ("-o", "wide", "get", "cart", "-n", "shop"),
    ],
    ids=" ".join,
)
async def test_a_rollout_is_found_by_all_of_these(words: tuple[str, ...], there: Served) -> None:
    """cobra takes them all, and so do people."""
    said = await there.run(*words, code=4)

    assert (
        said.err.splitlines()[-1]
        == "error: there is no Rollout cart in namespace shop, nor any other: see `kubectl rollouts list -A`"
    )


@pytest.mark.parametrize("kind", sorted(ROLLOUT_WORDS))
async def test_every_command_about_a_rollout_takes_its_kind(kind: str, there: Served) -> None:
    """As `list -o name` prints it, as kubectl does, as Argo's plugin wants it."""
    commands = ("status", "history", "promote", "abort", "retry", "pause", "resume", "undo", "rollback", "restart", "diff",
                "drain-report", "config list", "delete --yes", "set image")  # fmt: skip
    for command in commands:
        images = ["app=x:1"] if command == "set image" else []
        for words in ([kind, "nobody"], [f"{kind}/nobody"]):
            said = await there.run(*command.split(), *words, *images, code=4)
            assert "there is no Rollout nobody in namespace default" in said.err, command


async def test_a_rollout_may_have_the_name_of_a_kind(there: Served) -> None:
    """A word alone is a name where one is needed, or where it is only short for a kind; `rollout/rollout` is one everywhere."""
    assert "no Rollout rollout in" in (await there.run("status", "rollout", code=4)).err
    assert "no Rollout ro in" in (await there.run("get", "ro/ro", code=4)).err
    assert "no Rollout cat in" in (await there.run("get", "cat", code=4)).err
    assert "no Rollouts found" in (await there.run("get", "rollouts")).err


async def test_names_are_listed_for_scripts(healthy: Shop) -> None:
    """What one command prints, the next one takes."""
    (name,) = (await healthy.run("list", "-o", "name")).out.splitlines()

    assert name == "rollout.rollouts.dev/cart" == (await healthy.run("get", "cart", "-o=name")).out.strip()
    assert (await healthy.run("status", name)).out.startswith("rollouts-demo/cart Healthy")
    assert (await healthy.run("list", "cart")).out.splitlines()[1].split()[0] == "cart"
    assert "there is no Rollout cat in" in (await healthy.run("list", "cat", code=4)).err


async def test_what_is_shown_is_data_too(healthy: Shop) -> None:
    """A pipeline reads the state, the revisions and the drain report without taking texts apart."""
    seen = await healthy.reaches("Healthy")
    revision = status_of(seen.rollout).stable_revision

    document = json.loads((await healthy.run("status", "cart", "-o", "json")).out)
    assert (document["phase"], document["replicas"]["available"], document["waitingFor"]) == ("Healthy", 2, None)
    assert document["stableRevision"] == revision and document["currentStepIndex"] == 2
    (row,) = json.loads((await healthy.run("history", "cart", "-o", "json")).out)
    assert (row["number"], row["revision"], row["roles"], row["rollback"]) == (1, revision, ["stable"], False)
    assert json.loads((await healthy.run("drain-report", "cart", "-o", "json")).out)["name"] == "cart"
    assert json.loads((await healthy.run("version", "-o", "json")).out)["server"].startswith("v1.")
    assert "client:" in (await healthy.run("version", "-o", "yaml")).out


async def test_a_watch_ends_with_its_time(healthy: Shop) -> None:
    """And says by its exit code how the Rollout was at the end."""
    await healthy.run("get", "cart", "-w", "--timeout", "1s")
    await healthy.run("list", "--timeout", "1s")
    (line,) = (await healthy.run("list", "-w", "--timestamps", "--timeout", "1s")).out.splitlines()
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ rollouts-demo/cart Healthy", line)
    await healthy.stage.change("cart", with_image(SECOND))
    await healthy.reaches("Paused")
    await healthy.run("get", "cart", "--timeout", "1s", code=3)
    said = await healthy.run("status", "cart", code=3)
    assert said.err == "not finished; to wait for the end: kubectl rollouts status cart -n rollouts-demo -w\n"


async def test_requests_are_printed_by_v_6(there: Served) -> None:
    """As kubectl does; below that level nothing is."""
    assert re.search(
        r"GET /apis/rollouts.dev/v1alpha1/namespaces/default/rollouts\S* 200 in \d+ ms",
        (await there.run("list", "-v6")).err,
    )
    assert "GET" not in (await there.run("list", "-v", "5")).err


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        ("describe cart", "`rollouts get cart`"),
        ("describe rollout cart", "`kubectl describe rollout cart`"),
        ("logs rollout/cart", "`kubectl logs -l rollouts.dev/name=cart`"),
        ("scale cart --replicas=3", "`kubectl scale rollout cart`"),
        ("edit ro cart", "`kubectl edit rollout cart`"),
        ("annotate", "`kubectl annotate rollout NAME`"),
        ("exec cart -- sh", "`kubectl exec POD`"),
        ("top cart", "`kubectl top pods -l rollouts.dev/name=cart`"),
        ("apply -f cart.yaml", "`kubectl apply -f FILE`"),
        ("cluster-info", "`rollouts doctor`"),
        ("options", "`rollouts help options`"),
        ("rollout undo cart --to-revision=2", "`rollouts undo cart --to-revision=2`"),
        ("terminate analysisrun cart-1", "`rollouts analysis terminate cart-1`"),
        ("terminate ar/cart-1", "`rollouts analysis terminate cart-1`"),
        ("terminate cart-1", "`rollouts analysis terminate cart-1`"),
        ("terminate", "`rollouts analysis terminate RUN`"),
        ("terminate experiment x", "`rollouts experiment terminate x`"),
        ("get analysisrun cart-1", "`rollouts analysis get cart-1`"),
        ("get analysisruns", "`rollouts analysis list`"),
        ("list analysisruns", "`rollouts analysis list`"),
        ("get analysistemplate rate", "`kubectl get analysistemplate rate`"),
        ("get pod cart-1", "`kubectl get pod cart-1`"),
        ("list experiments", "`rollouts experiment list`"),
        ("create analysisrun --from rate", "`rollouts analyze TEMPLATE --rollout NAME`"),
        ("notifications trigger get", "metrics.prometheusRule.enabled"),
        ("promot cart", "did you mean `rollouts promote`?"),
        ("analysis terminat x", "did you mean `rollouts analysis terminate`?"),
        ("frobnicate", "`rollouts --help` lists all"),
        ("completion powershell", "bash"),
        ("get cart --nonsense", "see `rollouts get --help`"),
        ("get a b", "see `rollouts get --help`"),
    ],
)  # fmt: skip
def test_a_word_that_is_no_command_gets_one_line_with_what_to_type(
    words: str, instead: str, typed: CommandLine
) -> None:
    """The word of another program, another kind, or a typing error; never a page of help."""
    said = typed(*words.split(), code=2)

    assert instead in said.err and len(said.err.splitlines()) == 1 and said.err.startswith("error: ")


def test_what_hints_name_is_there(typed: CommandLine) -> None:
    """A hint to a command that is not there sends people in a circle."""
    for words in (
        "get",
        "analysis get",
        "analysis list",
        "analysis terminate",
        "analyze",
        "doctor",
        "help options",
        "list",
        "undo",
    ):
        typed(*words.split(), "--help")
    flags = {name: {flag for param in command.params for flag in param.opts} for name, command in commands().items()}
    assert all(
        not ours or ours.partition("=")[0] in flags[name]
        for name, spelled in SPELLINGS.items()
        for ours in spelled.values()
    )


def commands() -> dict[str, typer.core.TyperCommand]:
    """Those without a group before them."""
    return {name: each for name, each in typer.main.get_command(app).commands.items() if each.params}  # type: ignore[attr-defined]


def test_a_command_that_asks_no_cluster_says_so(typed: CommandLine) -> None:
    """An alias has `--context` in it; what has no effect is not passed over in silence."""
    said = typed("--context", "prod", "-n", "shop", "explain", "TimedPause")

    assert said.out.startswith("TimedPause: ")
    assert said.err == "explain asks no cluster, so --context, -n has no effect\n"


@pytest.mark.parametrize("word", ["", " "])
def test_an_empty_word_is_no_name(word: str, typed: CommandLine) -> None:
    """A script's variable was empty: without the name, `get` would list all, and `delete` would be about another word."""
    for command in ("get", "list", "delete", "diff", "drain-report"):
        assert "is not the name of a Rollout" in typed(command, word, code=2).err


async def test_colours_can_be_turned_off(healthy: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a flag, as Argo's plugin has it, or by the variable; the flag leaves nothing behind."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    green = "\x1b[1;32m"

    assert green in (await healthy.run("get", "cart")).out
    for words in (("get", "cart", "--no-color"), ("--no-color", "get", "cart")):
        assert green not in (await healthy.run(*words)).out
    assert "NO_COLOR" not in os.environ
    monkeypatch.setenv("NO_COLOR", "1")
    assert green not in (await healthy.run("get", "cart")).out


def test_the_version_of_this_program_needs_no_cluster(typed: CommandLine) -> None:
    """It is what a report of a bug begins with; that the rest is not known is an error of its own."""
    said = typed("version", code=4)

    assert said.out.startswith("client ") and NOWHERE in said.err


def test_without_words_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """And it is no error, as with kubectl; also for a word that only leads to others."""
    assert main([]) == main(["analysis"]) == 0
    assert "rollouts analysis COMMAND" in capsys.readouterr().out
