"""Each command of Argo Rollouts' plugin, with `argo` left out: it does what its user means, or says in one line what to type.

The commands are those of the table in docs/cli.md, which has each command and each flag of the plugin's own documentation.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from rollouts.cli.demo.manifests import SECOND, rollout, with_image
from rollouts.cli.view.objects import RolloutObjects, images_of, status_of
from rollouts.core.model.status import RolloutStatus, Verb
from tests.cli.command_line import CommandLine, Said
from tests.cli.shop import STEPS, Shop
from tests.patience import PATIENCE_S

DOCS = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
TABLE = DOCS.partition("## From kubectl argo rollouts")[2].partition("\n## ")[0]
ROWS = [line.strip("| \n").split(" | ") for line in TABLE.splitlines() if line.startswith("| `")]
LINES = {line: here for typed, here in ROWS for line in re.findall(r"`([^`]+)`", typed)}
REFUSED = {line: here for line, here in LINES.items() if here.startswith("refused")}
SERVED = "dashboard"
"""It goes on until it is stopped; test_the_dashboard_shows_and_acts.py types it."""
DONE = [line for line in LINES if line not in REFUSED and not line.startswith(SERVED)]
FLAGS = (
    *(
        "as",
        "as-group",
        "as-uid",
        "cache-dir",
        "certificate-authority",
        "client-certificate",
        "client-key",
        "cluster",
        "context",
    ),
    *(
        "disable-compression",
        "insecure-skip-tls-verify",
        "kloglevel",
        "kubeconfig",
        "loglevel",
        "namespace",
        "request-timeout",
    ),
    *(
        "server",
        "tls-server-name",
        "token",
        "user",
        "no-color",
        "watch",
        "timeout-seconds",
        "argument",
        "from",
        "from-file",
    ),
    *(
        "generate-name",
        "global",
        "instance-id",
        "name",
        "port",
        "root-path",
        "filename",
        "all-namespaces",
        "timestamps",
        "full",
    ),
    *("in", "timeout", "to-revision", "short", "skip-current-step", "skip-all-steps"),
    *("config-map", "output", "password", "proxy-url", "recipient", "secret", "username"),  # of `notifications`
)
SHORT = {"namespace": "n"}
OTHER_WORDS = {
    "create": ("ar",),
    "get": ("ro", "rollouts", "exp", "experiments"),
    "list": ("ro", "rollout", "experiment"),
    "retry": ("ro", "rollouts", "exp", "experiments"),
    "terminate": ("ar", "analysisruns", "exp", "experiments"),
}
"""For kinds, which the plugin takes too."""


def test_the_table_has_each_flag_and_each_word_of_the_plugin() -> None:
    """What is left out is what nobody has tried."""
    typed = f"{' '.join(LINES)} "
    lines = {tuple(line.split()[:2]) for line in LINES}

    assert [flag for flag in FLAGS if f"--{flag}" not in typed and f" -{SHORT.get(flag, '?')} " not in typed] == []
    assert {(command, word) for command, words in OTHER_WORDS.items() for word in words} <= lines


@pytest.mark.parametrize("line", REFUSED)
def test_what_is_not_here_names_what_to_type(line: str, typed: CommandLine) -> None:
    """One line, and the exit code of a usage error, before anything is asked of a cluster."""
    said = typed(*shlex.split(line), code=2)

    named = re.findall(r"`([^`]+)`", REFUSED[line])
    assert len(said.err.splitlines()) == 1 and said.err.startswith("error: ") and not said.out
    assert all(f"rollouts {words}`" in said.err for words in named) or not named
    assert "Usage" not in said.err


class Expected(NamedTuple):
    """In which phase the Rollout is when the command is typed, and what is so afterwards."""

    phase: str
    holds: Callable[[RolloutObjects], object]


def at_rest(seen: RolloutObjects) -> bool:
    """The Rollout is as it was."""
    return bool(status_of(seen.rollout).stable_revision)


def recorded(verb: Verb) -> Callable[[RolloutObjects], object]:
    """Whether the controller has such a command on record."""
    return lambda seen: any(command.verb is verb for command in status_of(seen.rollout).commands)


def status(holds: Callable[[RolloutStatus], object]) -> Callable[[RolloutObjects], object]:
    """What holds of the status."""
    return lambda seen: holds(status_of(seen.rollout))


EXPECTED = {
    "abort": Expected("Paused", status(lambda now: now.phase == "Aborted")),
    "pause": Expected("Paused", recorded(Verb.PAUSE)),
    "promote": Expected("Paused", status(lambda now: now.phase == "Healthy" and now.step_index == 2)),
    "restart": Expected("Healthy", recorded(Verb.RESTART)),
    "retry": Expected("Aborted", status(lambda now: now.attempt == 1 and now.abort is None)),
    "set": Expected("Healthy", lambda seen: "registry.example/app:2" in images_of({"spec": seen.rollout["spec"]})),
    "undo": Expected("Paused", recorded(Verb.ROLLBACK)),
}
WATCHES = re.compile(r" (-w|--watch)(?!=)")


@pytest.mark.parametrize("line", DONE)
async def test_a_line_of_the_plugin_does_what_its_user_means(line: str, healthy: Shop) -> None:
    """On a cluster where the Rollout cart waits, or is as the line needs it."""
    expected = EXPECTED.get(line.split(maxsplit=1)[0], Expected("Healthy", at_rest))
    if expected.phase != "Healthy":
        await healthy.stage.change("cart", with_image(SECOND))
        await healthy.reaches("Paused")
    if expected.phase == "Aborted":
        await healthy.run("abort", "cart")
        await healthy.reaches("Aborted")
    words = _filled(line, healthy)
    if words[0] == "create":
        await _created(healthy, words)
        return
    if WATCHES.search(line) and words[0] != "status" and "--timeout-seconds" not in words:
        words = [*words, "--timeout", "1s"]  # whoever watches ends it by Ctrl-C

    said = await healthy.run(*words)

    assert _answers(words, said), said
    await healthy.stage.until("cart", lambda seen: bool(expected.holds(seen)), deadline_s=20, what=line)


def _filled(line: str, there: Shop) -> list[str]:
    """The words, with what the placeholders of the page stand for."""
    url = there.kubeconfig.read_text().partition('"server": "')[2].partition('"')[0] if there.kubeconfig else ""
    container = images_of_container(there)
    file = there.file({**rollout(there.namespace, "web", STEPS)}, name="cart.yaml")
    values = {"NAMESPACE": there.namespace, "KUBECONFIG": str(there.kubeconfig), "CONTEXT": "simulated", "URL": url,
              "CLUSTER": "simulated", "USER": "anyone", "FILE": file, "NAME": "x", "cart.yaml": file}  # fmt: skip
    words = [values.get(word, word) for word in shlex.split(line.replace("*=", "'*'="))]
    return [word.replace("app=registry", f"{container}=registry") for word in words]


def images_of_container(there: Shop) -> str:
    """The name of the container of the demo's app."""
    container: str = rollout(there.namespace, "cart", STEPS)["spec"]["template"]["spec"]["containers"][0]["name"]
    return container


def _answers(words: list[str], said: Said) -> bool:
    """Whether a command that only shows something has shown it."""
    match words:
        case ["get" | "list" | "status", *_]:
            return "cart" in said.out and "error" not in said.err
        case ["completion", shell]:
            return "rollouts __complete" in said.out and shell in said.out
        case ["version", *_]:
            return said.out.startswith("client")
        case _:
            return True


async def _created(there: Shop, words: list[str]) -> None:
    """The Rollout of the file is there; a watch goes on until it is deleted."""
    begun = there.begin(*words)
    await there.prints("Rollout web created")
    if "-w" in words or "--watch" in words:
        await there.prints("web")
        await there.run("delete", "web", "--yes")
    async with asyncio.timeout(PATIENCE_S):
        assert await begun == 0
