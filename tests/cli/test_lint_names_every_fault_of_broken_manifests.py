"""Promise: of each broken manifest `rollouts lint` names the path of the fault and what mends it; none passes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.cli.broken_manifests import ACROSS, ALL, GOOD, IN_SPEC, IN_TEMPLATE, Broken
from tests.linted import lint_text


def test_the_file_in_which_nothing_is_broken_passes() -> None:
    """Otherwise the faults below would prove nothing."""
    assert lint_text(yaml.safe_dump_all(GOOD.values())).problems == []
    assert (len(IN_SPEC) >= 30, len(IN_TEMPLATE) >= 15, len(ACROSS) >= 15) == (True, True, True)


EXAMPLES = sorted((Path(__file__).parent.parent.parent / "examples").rglob("*.yaml"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.name)
def test_no_example_has_a_fault(example: Path) -> None:
    """People begin with them: with their Services, autoscalers, ConfigMaps and routes, of every router."""
    report = lint_text(example.read_text())

    assert [each.text(example.name) for each in report.problems] == []
    assert report.checked == 1


@pytest.mark.parametrize("broken", ALL, ids=lambda each: f"{each.kind}-{each.change}={str(each.value)[:20]}")
def test_a_fault_is_named_with_its_path_and_its_fix(broken: Broken) -> None:
    """A person mends it where it stands, before a cluster sees it."""
    told = lint_text(yaml.safe_dump_all(broken.manifests())).problems

    of_it = [
        each.message for each in told if each.subject.startswith(broken.kind) and each.message.startswith(broken.path)
    ]
    assert of_it, [each.message for each in told]
    assert any(broken.words in each for each in of_it), of_it
