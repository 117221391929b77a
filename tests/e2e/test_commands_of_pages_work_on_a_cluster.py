"""Promise: commands that pages show work on a cluster, and print what the pages say.

Each block runs in a namespace of its own, which stands for the one that the page names, in a folder with the files that it names.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import build
from tests.documents import documents
from tests.e2e.controllers import ROOT, confined_controller
from tests.e2e.manifests import Manifest, canary, config_map, container_of, service
from tests.lab.control_plane import ControlPlane
from tests.pages.blocks import Block, run_by

pytestmark = pytest.mark.controlplane

BLOCKS = run_by(__file__)
WITHIN_S = 120
_NAMESPACES = re.compile(r"\b(?:shop|edge|default)\b(?![/\w.-])")
_AT_GATE = "kubectl wait rollout/{} --for=jsonpath='{{.status.waitingFor.reason}}'=PromotionNeeded --timeout 1m"
_VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"revision [a-z0-9]{10}\b|revision k7x2…"), "revision R"),
    (re.compile(r"-[a-z0-9]{5}  Ready  \w+"), "-POD  Ready"),
    (re.compile(r", for \w+$", re.MULTILINE), ", for T"),
    (re.compile(r"\d+ ready, \d+ available"), "PODS"),  # those that leave are among them for a while
    (re.compile("iptables|nftables"), "MODE"),
)
"""What differs from run to run, and the mode of kube-proxy."""


def web(name: str, **spec: Any) -> Manifest:
    """A Rollout whose pods a plan finds nothing unsafe about."""
    one = canary(name, **spec)
    container_of(one)["readinessProbe"] = {"httpGet": {"path": "/", "port": 8080}}
    return one


EXAMPLE = documents((ROOT / "examples" / "config.yaml").read_text())[0]
CART = (web("cart"), service("cart", app="cart"))
SECRET = {"configVersioning": {"secrets": True}}
TOKEN = {"name": "token", "valueFrom": {"secretKeyRef": {"name": "shop-metrics", "key": "token"}}}
SELECTING_ONE = service("cart", app="cart")
SELECTING_ONE["spec"]["selector"]["rollouts-pod-template-hash"] = "5f"
TEMPLATE = build.analysis_template(build.metric(), namespace="shop", args=[TOKEN])


def _with_secret() -> Manifest:
    one = web("cart", spec=SECRET)
    container_of(one)["envFrom"] = [{"secretRef": {"name": "cart"}}]
    return one


def _deployment() -> Manifest:
    spec = {key: value for key, value in web("cart")["spec"].items() if key in ("replicas", "selector", "template")}
    return build.manifest(build.DEPLOYMENT, "cart", spec=spec)


@dataclass(frozen=True)
class Play:
    """What a block needs; `files` are in the folder where it is typed, beside examples/."""

    files: Mapping[str, tuple[Manifest, ...]] = field(default_factory=dict)
    before: tuple[Manifest, ...] = ()  # objects that are in the namespace
    first: str = ""  # what is typed before it, by somebody who came so far
    controller: bool = False  # whether one is at work


TRIED = "kubectl apply -f examples/config.yaml; kubectl rollouts status podinfo-config --timeout 1m"
PLAYS: dict[str, Play] = {
    "kubectl get rollout cart -o": Play(
        files={"cart.yaml": CART},
        first="kubectl apply -f cart.yaml; kubectl rollouts status cart --timeout 1m; "
        f"kubectl rollouts set image cart web=web:2; {_AT_GATE.format('cart')}",
        controller=True,
    ),
    "rollouts rbac -f templates.yaml": Play(files={"templates.yaml": (TEMPLATE,)}),
    "rollouts rbac -f rollout.yaml": Play(files={"rollout.yaml": (_with_secret(),)}),
    "kubectl apply -f cart.yaml": Play(files={"cart.yaml": CART}, controller=True),
    "kubectl apply -f examples/config.yaml": Play(controller=True),
    "kubectl rollouts plan -f podinfo-config.yaml": Play(
        files={
            "podinfo-config.yaml": ({**EXAMPLE, "data": {**EXAMPLE["data"], "PODINFO_UI_MESSAGE": "Good evening"}},)
        },
        first=TRIED,
        controller=True,
    ),
    "kubectl rollouts plan -f shared.yaml": Play(
        files={"shared.yaml": (config_map("shared", {"LEVEL": "b", "SAMPLING": "b"}),)},
        before=(
            config_map("shared", {"LEVEL": "a", "SAMPLING": "a"}),
            *(web(each, configured_by=["shared"]) for each in ("cart", "checkout", "search")),
        ),
    ),
    "rollouts plan -n shop -f examples/canary-services.yaml": Play(),
    "rollouts lint -f cart.yaml": Play(files={"cart.yaml": CART}),
    "kubectl rollouts migrate -f deployment.yaml": Play(files={"deployment.yaml": (_deployment(),)}),
    "kubectl patch service cart": Play(before=(SELECTING_ONE,)),
}
"""By the beginning of the first command."""


@dataclass(frozen=True)
class Shell:
    """A shell in a folder, whose kubeconfig is about one namespace."""

    plane: ControlPlane
    folder: Path
    namespace: str

    def types(self, text: str) -> str:
        """Runs the lines; what they print. Raises: AssertionError with the output when one fails."""
        differs = 1 if " diff " in text else 0  # they differ, as with diff(1)
        return self.plane.typed(
            self.meant(text),
            home=self.folder,
            cwd=self.folder,
            within_s=WITHIN_S,
            env={**os.environ, "COLUMNS": "110"},
            kubeconfig=self.folder / "kubeconfig",
            code=differs,
        )

    def meant(self, text: str) -> str:
        """A text of a page with this namespace instead of the one that it names."""
        return _NAMESPACES.sub(self.namespace, text)


def _steady(text: str) -> list[str]:
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def _shows(printed: str, shown: str) -> bool:
    """Whether these are its first lines (a page may leave out the rest), or the same words in a table of another width."""
    lines, wanted = _steady(printed), _steady(shown)
    return lines[: len(wanted)] == wanted or _words(lines) == _words(wanted)


def _words(lines: list[str]) -> list[str]:
    return sorted(word for line in lines for word in line.split() if not word.startswith("─"))


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_runs_and_prints_what_the_page_shows(
    block: Block, control_plane: ControlPlane, controller_kubeconfig: Path, namespace: str, tmp_path: Path
) -> None:
    """Every line of it, in its order, as somebody types it who reads the page."""
    (play,) = (each for start, each in PLAYS.items() if block.exchanges[0].command.startswith(start))
    shell = Shell(control_plane, tmp_path, namespace)
    shutil.copy(control_plane.kubeconfig_admin, tmp_path / "kubeconfig")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    shell.types(f"kubectl config set-context --current --namespace {namespace}")
    for name, manifests in play.files.items():
        (tmp_path / name).write_text(shell.meant(yaml.safe_dump_all(json.loads(json.dumps(manifests)))))
    if play.before:
        control_plane.apply(*play.before, namespace=namespace)
    at_work = confined_controller(control_plane, controller_kubeconfig, namespace)
    with at_work if play.controller else nullcontext():
        shell.types(play.first)

        for exchange in block.exchanges:
            printed = shell.types(exchange.command)
            if exchange.shown:
                assert _shows(printed, shell.meant(exchange.shown)), printed


def test_every_play_is_one_of_a_page() -> None:
    """What no page shows any more is not kept here."""
    starts = [block.exchanges[0].command for block in BLOCKS]

    assert [start for start in PLAYS if not any(each.startswith(start) for each in starts)] == []
