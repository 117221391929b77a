"""Promise: what docs/config.md shows is what the program prints of examples/config.yaml."""

from __future__ import annotations

import io
from pathlib import Path

import yaml
from rich.console import Console

from rollouts.api.spec.parse import parse_spec
from rollouts.cli.plan.draw import draw_impacts
from rollouts.cli.plan.impact import ConfigImpact
from rollouts.cli.terminal.config import RevisionConfig, draw_changes
from rollouts.cli.terminal.text import MARKS
from rollouts.cli.view.config import SourceChange, changed_sources, content_of, hash_of, key_changes, use_text
from rollouts.core.config.content import config_revision, copy_name
from rollouts.core.model.config import ConfigKind, ConfigUse
from rollouts.core.model.frozen import replace
from rollouts.objects import Manifest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "config.md").read_text(encoding="utf-8")
SOURCE, ROLLOUT, _ = yaml.safe_load_all((ROOT / "examples" / "config.yaml").read_text(encoding="utf-8"))
EDITED = {**SOURCE, "data": {**SOURCE["data"], "PODINFO_UI_MESSAGE": "Good evening"}}
MAP = ConfigKind.CONFIG_MAP


def printed(thing: object) -> str:
    """As it stands in a block of the page."""
    console = Console(file=io.StringIO(), record=True, width=200, color_system=None)
    console.print(thing)
    return "\n".join(line.rstrip() for line in console.export_text().splitlines()) + "\n"


def use(manifest: Manifest) -> ConfigUse:
    """What a revision of the example has of this ConfigMap."""
    name, content = manifest["metadata"]["name"], hash_of(MAP, manifest)
    copy = copy_name(MAP, rollout=ROLLOUT["metadata"]["name"], source=name, content=content)
    return ConfigUse(kind=MAP, source=name, content=content, copy=copy)


def revision(manifest: Manifest, number: int, role: str) -> RevisionConfig:
    """The revision of the example with this ConfigMap."""
    uses = (use(manifest),)
    name = config_revision(parse_spec(ROLLOUT["spec"]).template_hash, uses)
    return RevisionConfig(revision=name, number=number, roles=(role,), uses=uses)


STABLE, CANARY = revision(SOURCE, 1, "stable"), revision(EDITED, 2, "canary")


def test_the_difference_is_the_one_that_is_printed() -> None:
    """Hashes too: they are frozen, so anybody who tries the example gets these."""
    ((before, after),) = changed_sources(STABLE.uses, CANARY.uses)
    keys = key_changes(MAP, content_of(MAP, SOURCE), content_of(MAP, EDITED))
    change = SourceChange(kind=MAP, source=SOURCE["metadata"]["name"], before=before, after=after, keys=keys)

    assert printed(draw_changes([change], STABLE, CANARY, marks=MARKS, full=False)) in PAGE


def test_the_tree_has_the_revisions_and_copies_of_the_example() -> None:
    """The names of the copies follow from contents, so the page is wrong when they are."""
    for each, number in ((STABLE, 1), (CANARY, 2)):
        assert f"#{number} {each.revision}  {each.roles[0]}" in PAGE
        assert use_text(each.uses[0], arrow=MARKS.arrow) in PAGE


def test_the_plans_are_those_that_are_printed() -> None:
    """Of one ConfigMap, and of one that several Rollouts share."""
    one = ConfigImpact(namespace="default", name="podinfo-config", exists=True, keys=("PODINFO_UI_MESSAGE",))
    shared = ConfigImpact(namespace="shop", name="shared", exists=True, keys=("LEVEL", "SAMPLING"))

    assert printed(draw_impacts([replace(one, starts=("podinfo-config",))])) in PAGE
    assert printed(draw_impacts([replace(shared, starts=("cart", "checkout", "search"))])) in PAGE
