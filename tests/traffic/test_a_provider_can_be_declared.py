"""Promise: a router that shares by weights in lists needs no code; a wrong declaration says so before it steers anything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rollouts.core.traffic import Answer
from rollouts.errors import SpecInvalid
from rollouts.traffic.declared import declared
from rollouts.traffic.registry import registry
from tests.traffic.cases.declared import APISIX, GLOO
from tests.traffic.situation import Situation

BAD: list[tuple[Mapping[str, Any], str]] = [
    ({**APISIX, "backends": "spec.http"}, "backends: must be a path to a list"),
    ({**APISIX, "match": {"group": "g", "kind": "K", "plural": "ks"}}, "match.versions: is required"),
    ({**APISIX, "match": None}, "match: is required"),
    ({**APISIX, "tests": []}, "tests: is required"),
    ({**APISIX, "lua": "x"}, "lua: unknown field"),
    ({**APISIX, "service": "name"}, "tests[0].object: cannot be steered"),
    ({**APISIX, "weight": {"path": "share"}}, "tests[0].result: is not what becomes of the object"),
    ({**APISIX, "tests": [{**APISIX["tests"][0], "canaryPercent": 20}]}, "tests[0].result: is not what becomes"),
    ({**APISIX, "tests": [{"object": {}, "canaryPercent": 1}]}, "tests[0].result: must be an object"),
]


@pytest.mark.parametrize(("declaration", "told"), BAD, ids=[told for _, told in BAD])
def test_a_wrong_declaration_is_refused(declaration: Mapping[str, Any], told: str) -> None:
    """Its own tests among the reasons: a path that leads nowhere would else show in production."""
    with pytest.raises(SpecInvalid) as error:
        declared(declaration)

    assert [str(each) for each in error.value.problems if str(each).startswith(told)]


def test_it_goes_by_its_name_beside_the_others() -> None:
    """As another package's provider does."""
    assert registry((declared(GLOO),))["my-gloo"].name == "my-gloo"


def test_the_example_of_the_documentation_is_one() -> None:
    """People start from it."""
    text = (Path(__file__).parent.parent.parent / "docs" / "traffic.md").read_text()
    code = text.partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}

    exec(code, names)  # noqa: S102 - our own text

    assert names["PROVIDER"].name == "myrouter"


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        ({}, Answer.UNKNOWN),
        ({"conditions": [{"type": "ResourcesAvailable", "status": "True", "observedGeneration": 3}]}, Answer.UNKNOWN),
        ({"conditions": [{"type": "ResourcesAvailable", "status": "True"}]}, Answer.YES),
        ({"conditions": [{"type": "ResourcesAvailable", "status": "False", "observedGeneration": 4}]}, Answer.NO),
    ],
)
def test_its_condition_is_what_it_declares(status: Mapping[str, Any], answer: Answer) -> None:
    """An old generation is no answer; a condition without generations is all that some routers have."""
    user = {"metadata": {"name": "cart", "generation": 4}, "spec": {}, "status": dict(status)}
    situation = Situation.of(declared(APISIX), {"name": "cart"}, user)

    assert situation.provider.accepted(situation.objects, situation.target).answer is answer
