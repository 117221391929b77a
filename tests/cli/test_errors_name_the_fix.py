"""What goes wrong with a cluster is told in one sentence, with what to do about it, by every command in the same words."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import rollouts
from rollouts.cli.demo.manifests import rollout
from rollouts.cli.terminal.errors import error_text
from rollouts.cli.view.missing import no_rollout
from rollouts.clock import SystemClock
from rollouts.errors import (
    APPLY_CRDS,
    ApiExists,
    ApiForbidden,
    ApiInvalid,
    ApiNotFound,
    ApiUnauthenticated,
    ApiUnavailable,
    RolloutsError,
    SettingsInvalid,
)
from rollouts.objects import ROLLOUT
from rollouts.sim.apiserver.http import SimHttp
from rollouts.sim.apiserver.server import SimServer
from tests.cli.command_line import CommandLine
from tests.cli.runs import Served
from tests.cli.shop import STEPS

PATH = "GET /apis/rollouts.dev/v1alpha1/namespaces/shop/rollouts"
NO_RIGHT = 'rollouts.rollouts.dev is forbidden: User "jane" cannot {} resource "rollouts" in API group "rollouts.dev"'
NOT_INSTALLED = f"error: Rollouts are not installed in this cluster, or not this version of them: `{APPLY_CRDS}`\n"
COMMANDS = (
    ("get",), ("get", "cart"), ("get", "cart", "-o", "yaml"), ("list", "-A"), ("list", "-w"), ("status", "cart"),
    ("promote", "cart"), ("abort", "cart"), ("undo", "cart"), ("restart", "cart"), ("history", "cart"),
    ("set", "image", "cart", "app=x:1"),
    ("diff", "cart"), ("delete", "cart", "--yes"), ("drain-report", "cart"), ("config", "list", "cart"), ("analysis", "list"),
)  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
async def test_every_command_says_that_rollouts_are_not_installed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """The first thing that a new user meets: `404 page not found` helps nobody."""
    async with SimHttp(SimServer(clock=SystemClock())) as http:
        bare = CommandLine(tmp_path, capsys, http.write_kubeconfig(tmp_path / "kubeconfig", namespace="shop"))

        assert (await bare.run(*words, code=4)).err == NOT_INSTALLED


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ApiForbidden(f'{PATH}: 403 Forbidden {NO_RIGHT.format("list")} in the namespace "shop"'),
         "you may not list rollouts in namespace shop: ask for the ClusterRole `view`, which the chart extends to Rollouts"),
        (ApiForbidden(f'{PATH}: 403 Forbidden {NO_RIGHT.format("patch")} at the cluster scope'),
         "you may not patch rollouts in every namespace: ask for the ClusterRole `edit`, which the chart extends to Rollouts"),
        (ApiNotFound(f'{PATH}/a: 404 NotFound analysisruns.rollouts.dev "a" not found'),
         'analysisruns "a" not found in namespace shop: `kubectl get analysisruns -A` lists all'),
        (ApiNotFound(f'{PATH}: 404 NotFound namespaces "shpo" not found'),
         "there is no namespace shpo: `kubectl create namespace shpo`, or name another one by -n"),
        (ApiUnauthenticated(f"{PATH}: 401 Unauthorized Unauthorized"),
         "the API server does not know who you are: log in again, or look at the user of `kubectl config view --minify`"),
        (ApiUnavailable(f"{PATH}: no answer within 10 s"),
         "the API server cannot be reached: no answer within 10 s; is it the right cluster? (`kubectl cluster-info`)"),
        (ApiInvalid(f'{PATH}: 422 Invalid Rollout.rollouts.dev "cart" is invalid: spec: Required value'),
         'the API server refuses it: Rollout.rollouts.dev "cart" is invalid: spec: Required value'),
        (ApiForbidden(f"{PATH}: 403 Forbidden rollouts.rollouts.dev \"cart\" is forbidden: ValidatingAdmissionPolicy "
                      "'shop.rights' with binding 'shop.rights' denied request: bob may not promote Rollouts"),
         "the policy shop.rights refuses it: bob may not promote Rollouts"),
        (ApiExists(f'POST {PATH[4:]}: 409 AlreadyExists rollouts.rollouts.dev "cart" already exists'),
         'the API server refuses it: rollouts.rollouts.dev "cart" already exists'),
        (ApiNotFound("there is no Rollout cart in namespace shop"), "there is no Rollout cart in namespace shop"),
        (SettingsInvalid("no kubeconfig: set $KUBECONFIG"), "no kubeconfig: set $KUBECONFIG"),
    ],
)  # fmt: skip
def test_an_error_of_the_cluster_is_one_sentence_with_the_fix(error: RolloutsError, text: str) -> None:
    """Not the request and its status code: people know what they typed, and not what it became."""
    assert error_text(error) == text


@pytest.mark.parametrize(
    ("others", "name", "text"),
    [
        ((), "cart", "there is no Rollout cart in namespace default, nor any other: see `kubectl rollouts list -A`"),
        (("cart", "web"), "crat", "there is no Rollout crat in namespace default; did you mean cart?"),
        (("cart", "web"), "zz", "there is no Rollout zz in namespace default; there are cart, web"),
        (tuple("abcdefg"), "zz", "there is no Rollout zz in namespace default; there are a, b, c, d, e and 2 more"),
    ],
)
async def test_a_wrong_name_is_told_with_the_names_that_there_are(
    there: Served, others: tuple[str, ...], name: str, text: str
) -> None:
    """Most wrong names are typing errors, or a wrong namespace."""
    for each in others:
        await there.create(ROLLOUT, rollout("default", each, STEPS))

    assert str(await no_rollout(there.session, name)) == text


@pytest.mark.parametrize("command", [["get"], ["status"], ["promote"], ["delete", "--yes"], ["set", "image"]])
@pytest.mark.parametrize(
    ("name", "words"),
    [("", "'' is not the name of a Rollout"), ("../x", "is not the name of"), ("x/cart", "is not the name of")],
)
def test_what_is_no_name_is_told_before_asking(typed: CommandLine, command: list[str], name: str, words: str) -> None:
    """A script's variable was empty: to the API server, DELETE without a name is about all Rollouts of the namespace."""
    assert words in typed(*command, name, *(["app=x:1"] if command == ["set", "image"] else []), code=2).err


@pytest.mark.parametrize(
    ("images", "words"), [(["app=a:1", "app=b:1"], "app is given two images"), (["app=a: 1"], "an image has no spaces")]
)
def test_images_that_nobody_can_have_meant_are_refused(typed: CommandLine, images: list[str], words: str) -> None:
    """The last of two images would win in silence, and an image with a space starts an update that can never finish."""
    assert words in typed("set", "image", "cart", *images, code=2).err


def test_no_text_of_the_program_sends_its_reader_to_a_file() -> None:
    """Who has the image or the program has no checkout: a message says it, or names a command that does."""
    named = []
    for path in sorted(Path(rollouts.__file__).parent.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        values = (node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in docstrings)
        texts = (value for value in values if isinstance(value, str))
        named += [f"{path.name}: {text}" for text in texts if re.search(r"\bdocs/[\w-]+\.md", text)]

    assert named == []
