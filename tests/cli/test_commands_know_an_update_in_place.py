"""Promise: commands show whose pods a Rollout in place steps, all of them, and what to type where kubectl does the work."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rollouts.objects import ANALYSIS_RUN
from tests.cli.in_place import apply, at_rest, deployment, in_a_step, objects, pods, revision
from tests.cli.shop import Shop, empty_shop


@pytest.fixture
async def stepped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Shop]:
    """A Deployment whose second template is at 25 %. The terminal is wide."""
    monkeypatch.setenv("COLUMNS", "200")
    async with empty_shop(tmp_path, capsys) as empty:
        yield await in_a_step(empty)


async def test_the_tree_shows_the_pods_of_the_deployment(stepped: Shop) -> None:
    """They carry no label of ours; and as many are wanted as the Deployment says, not the Rollout."""
    said = (await stepped.run("get", "cart")).out

    assert "Updates  Deployment cart in place" in said
    assert "4 desired, 4 ready, 4 available, 1 updated" in said
    for tag in ("1", "2"):
        assert [name for name in pods(stepped, tag) if name not in said] == []
    assert "4/4" in (await stepped.run("list")).out


async def test_history_has_revisions_from_before_the_rollout(empty: Shop) -> None:
    """Their ReplicaSets have no label of ours either. The numbers are those of `kubectl rollout history`."""
    shop = await at_rest(empty, before="0")
    apply(shop, deployment("2"))
    await shop.reaches("Paused")

    said = (await shop.run("history", "cart")).out
    assert [line.split()[:2] for line in said.splitlines()[1:]] == [
        ["#3", revision(shop, "2")],
        ["#2", revision(shop, "1")],
        ["#1", revision(shop, "0")],
    ]
    assert revision(shop, "0") in (await shop.run("diff", "cart", "1", "2", code=1)).out


async def test_the_difference_of_two_templates_has_no_name_of_a_revision(stepped: Shop) -> None:
    """The Deployment's controller writes it into every template."""
    said = (await stepped.run("diff", "cart", code=1)).out

    assert "+  - image: cart:2" in said
    assert "pod-template-hash" not in said


@pytest.mark.parametrize(
    ("words", "kubectl"),
    [
        (("restart", "cart"), "kubectl rollout restart deployment/cart"),
        (("set", "image", "cart", "app=cart:3"), "kubectl set image deployment/cart"),
        (("rollback", "cart", "--to", "1"), "kubectl rollout undo deployment/cart --to-revision=1"),
    ],
)
async def test_what_is_a_new_template_is_refused_with_kubectls_command(
    empty: Shop, words: tuple[str, ...], kubectl: str
) -> None:
    """Before anything is written on the Rollout."""
    shop = await at_rest(empty, before="0")
    before = len(shop.door.asked)
    said = await shop.run(*words, code=1)

    assert kubectl in said.err
    assert {request.method for request in shop.door.asked[before:]} == {"GET"}


async def test_undo_in_a_step_brings_the_stable_pods_back(stepped: Shop) -> None:
    """The stable revision needs no new template."""
    said = await stepped.run("undo", "cart")

    assert f"rolls back from revision {revision(stepped, '2')} to revision {revision(stepped, '1')}" in said.out
    await stepped.reaches("RolledBack")


async def test_a_deletion_says_that_the_pods_stay_and_what_releases_the_deployment(stepped: Shop) -> None:
    """In a step the Deployment is left paused, and the command that ends it is printed."""
    said = await stepped.run("delete", "cart", "--yes")
    resume = f"kubectl rollout resume deployment/cart -n {stepped.namespace}"

    assert "pods" not in said.out.partition("deleted")[0]
    assert f"Deployment cart is left paused in its update: to go on with it: {resume}" in said.out


async def test_a_deletion_at_rest_says_that_nothing_changes(empty: Shop) -> None:
    """The Deployment's own controller rolls out its templates from then on."""
    shop = await at_rest(empty)
    said = await shop.run("delete", "cart", "--yes")

    assert "Deployment cart keeps its pods, and rolls out new templates by itself from now on" in said.out


ANALYSED = """
apiVersion: rollouts.dev/v1alpha1
kind: AnalysisTemplate
metadata: {name: use}
spec:
  args:
  - {name: image, valueFrom: {fieldRef: {fieldPath: "spec.template.spec.containers[0].image"}}}
  metrics:
  - name: cpu
    successCondition: result.utilizationPercent < 90
    provider: {containerResource: {container: app, resource: cpu}}
"""


async def test_an_analysis_by_hand_has_the_template_of_the_deployment(stepped: Shop, tmp_path: Path) -> None:
    """Its fields are arguments, as in an analysis of the update."""
    file = tmp_path / "use.yaml"
    file.write_text(ANALYSED)
    await stepped.run("analyze", "use", "-f", str(file), "--rollout", "cart")

    (run,) = objects(stepped, ANALYSIS_RUN)
    assert run["spec"]["args"] == [{"name": "image", "value": "cart:2"}]
