"""Promise: a router that shares by weights in lists needs no code; a wrong declaration says so before it manages anything."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from rollouts.controller.providers.declarations import provider_of
from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import Answer, Split
from rollouts.errors import Unroutable
from rollouts.traffic.codec import Destination
from rollouts.traffic.declared.codec import declared
from rollouts.traffic.registry import registry
from tests.traffic.cases.declared import APISIX, GLOO, IN_CEL, assert_refused
from tests.traffic.situation import CONTEXT, Situation

PAGE = (Path(__file__).parents[3] / "docs" / "traffic-declared-routers.md").read_text()
COSTLY = "[1, 2, 3, 4, 5].all(a, [1, 2, 3, 4, 5].all(b, a > b || true)) ? string(item.serviceName) : ''"
BAD: list[tuple[Mapping[str, Any], str]] = [
    ({**APISIX, "backends": "spec.http"}, "backends: must be a path to a list"),
    ({**APISIX, "match": {"group": "g", "kind": "K", "plural": "ks"}}, "match.versions: is required"),
    ({**APISIX, "match": None}, "match: is required"),
    ({**APISIX, "tests": []}, "tests: is required"),
    ({**APISIX, "lua": "x"}, "lua: unknown field"),
    ({**APISIX, "service": "name"}, "tests[0].object: cannot be managed"),
    ({**APISIX, "weight": {"path": "share"}}, "tests[0].result: differs from the object"),
    ({**APISIX, "tests": [{**APISIX["tests"][0], "canaryPercent": 20}]}, "tests[0].result: differs from the object"),
    ({**APISIX, "tests": [{"object": {}, "canaryPercent": 1}]}, "tests[0].result: must be an object"),
    ({**APISIX, "tests": [{**APISIX["tests"][0], "canaryPercent": 101}]}, "tests[0].canaryPercent: must be 0 to 100"),
    ({**APISIX, "service": {}}, "service: exactly one of path and cel is required"),
    ({**APISIX, "service": {"path": "serviceName", "cel": "item.a"}}, "service: exactly one of path and cel"),
    ({**APISIX, "service": {"cel": "item.serviceName +"}}, "service.cel: Syntax error"),
    ({**APISIX, "service": {"cel": "size(item)"}}, "service.cel: must give a string, not INT"),
    ({**APISIX, "service": {"cel": "item.name"}}, "tests[0].object: cannot be managed"),
    ({**APISIX, "accepted": {"cel": "object.ok", "type": "Ready"}}, "accepted: cel excludes conditions and type"),
    ({**APISIX, "accepted": {"cel": "'yes'"}}, "accepted.cel: must give a bool, not STRING"),
    ({**APISIX, "accepted": {"type": "Ready"}}, "accepted.conditions: is required"),
    ({**APISIX, "tests": [{**APISIX["tests"][0], "note": "x" * 13_000}]}, "tests: has 13"),
    ({**APISIX, "accepted": {"cel": "[object.a]" + ".map(x, x + x + x)" * 4 + "[0] == 1"}},
        "accepted.cel: may cost too much for any input"),
    ({**APISIX, "service": {"cel": COSTLY}}, "tests: cost too much together"),
    ({**APISIX, "settleSeconds": 301}, "settleSeconds: must be 1 to 300"),
    ({**APISIX, "tests": [{"object": [], "canaryPercent": 1, "result": {}}]}, "tests[0].object: must be an object"),
    ({**APISIX, "tests": [{"object": {"spec": {"http": [7]}}, "canaryPercent": 1, "result": {}}]},
        "tests[0].object: cann"),
    ({**APISIX, "tests": [{"object": {"spec": {"http": {"a": 1}}}, "canaryPercent": 1, "result": {}}]},
        "tests[0].object"),
]  # fmt: skip
BETWEEN = replace(CONTEXT, stable=Destination("stable"), canary=Destination("canary"))


@pytest.mark.parametrize(("declaration", "told"), BAD, ids=[told for _, told in BAD])
def test_a_wrong_declaration_is_refused(declaration: Mapping[str, Any], told: str) -> None:
    """Its own tests among the reasons: a path that leads nowhere would else show in production."""
    assert_refused(declaration, told)


def test_it_goes_by_its_name_beside_the_others() -> None:
    """As another package's provider does."""
    assert registry((declared(GLOO),))["my-gloo"].name == "my-gloo"


def test_the_objects_of_the_documentation_are_good() -> None:
    """They are copied too; what they test of themselves holds."""
    blocks = [block.partition("```")[0] for block in PAGE.split("```yaml\n")[1:]]
    found = [
        one for one in map(yaml.safe_load, blocks) if isinstance(one, dict) and one.get("kind") == "TrafficProvider"
    ]

    split, apisix = [provider_of(one["metadata"]["name"], one["spec"], registry()) for one in found]

    assert (split.name, split.settle_s, apisix.name) == ("traffic-split", 10.0, "my-apisix")
    assert (split.live is not None, apisix.header is not None) == (True, True)


def test_the_example_of_the_documentation_is_one() -> None:
    """People start from it."""
    names: dict[str, Any] = {}

    exec(PAGE.partition("```python\n")[2].partition("```")[0], names)  # noqa: S102 - our own text

    assert names["PROVIDER"].name == "myrouter"


def hosts(stable: int, canary: int, *more: Any) -> dict[str, Any]:
    """An object whose backends tell a Service by the first part of a host."""
    backends = [{"host": "stable.test.svc", "weight": stable}, {"host": "canary.test.svc", "weight": canary}, *more]
    return {"metadata": {"name": "test"}, "spec": {"http": [{"backends": backends}]}}


TEST = {"object": hosts(100, 0), "canaryPercent": 10, "result": hosts(90, 10)}
HOSTS = {**APISIX, "service": {"cel": "item.host.split('.')[0]"}, "tests": [TEST]}


def test_what_names_a_service_may_be_computed() -> None:
    """Some routers know hosts and no Services. Backends that have none are somebody else's."""
    provider = declared(HOSTS)
    situation = Situation.of(provider, {"name": "test"}, hosts(100, 0, {"url": "https://a.io", "weight": 7}), BETWEEN)

    situation = situation.managed(Split(Fraction(1, 4)))

    assert situation.read() == Split(Fraction(1, 4))
    assert [each["weight"] for each in situation.objects.user["spec"]["http"][0]["backends"]] == [75, 25, 7]


def test_a_computed_name_cannot_be_written_so_both_services_must_be_there() -> None:
    """Told when the route is first read, and not when the first step is to send requests to nobody."""
    user = hosts(100, 0)
    del user["spec"]["http"][0]["backends"][1]
    situation = Situation.of(declared(HOSTS), {"name": "test"}, user, BETWEEN)

    with pytest.raises(Unroutable, match="add canary beside stable with weight 0"):
        situation.read()


@pytest.mark.parametrize("spec", [{"http": [3]}, {"http": [{"backends": [3]}]}, {"http": {"backends": 1}}, []])
def test_an_object_of_another_form_is_unroutable_and_no_crash(spec: Any) -> None:
    """Whoever declared the provider knew some objects of the kind, not all."""
    situation = Situation.of(declared(APISIX), {"name": "test"}, {"metadata": {"name": "test"}, "spec": spec}, BETWEEN)

    with pytest.raises(Unroutable):
        situation.read()


def test_how_long_a_write_is_given_can_be_declared() -> None:
    """Where nobody can be asked, time is all there is."""
    (target,) = declared({**APISIX, "settleSeconds": 20}).targets({"name": "cart"}, namespace="shop")
    (undeclared,) = declared(APISIX).targets({"name": "cart"}, namespace="shop")

    assert (target.settle_s, undeclared.settle_s) == (20.0, None)


IS_TRUE = {"type": "ResourcesAvailable", "status": "True"}
IS_FALSE = {"type": "ResourcesAvailable", "status": "False"}


@pytest.mark.parametrize(
    ("declaration", "status", "answer"),
    [
        (IN_CEL, None, Answer.UNKNOWN),
        (IN_CEL, {"conditions": []}, Answer.UNKNOWN),
        (IN_CEL, {"conditions": [IS_FALSE]}, Answer.UNKNOWN),
        (IN_CEL, {"conditions": [IS_TRUE]}, Answer.YES),
        (IN_CEL, {"observedGeneration": 3, "conditions": [IS_TRUE]}, Answer.UNKNOWN),
        (IN_CEL, {"observedGeneration": 4, "conditions": [IS_TRUE]}, Answer.YES),
        (IN_CEL, {"conditions": [{"status": "True"}]}, Answer.UNKNOWN),
        (APISIX, {}, Answer.UNKNOWN),
        (APISIX, {"conditions": [{**IS_TRUE, "observedGeneration": 3}]}, Answer.UNKNOWN),
        (APISIX, {"conditions": [IS_TRUE]}, Answer.YES),
        (APISIX, {"conditions": [{**IS_FALSE, "observedGeneration": 4}]}, Answer.NO),
    ],
)
def test_it_says_how_its_object_tells_that_it_was_taken(
    declaration: Mapping[str, Any], status: Mapping[str, Any] | None, answer: Answer
) -> None:
    """By an expression, which says nothing where it has no value, or by a condition; of an old generation both say nothing."""
    user = {"metadata": {"name": "cart", "generation": 4}, "spec": {}, **({} if status is None else {"status": status})}
    situation = Situation.of(declared(declaration), {"name": "cart"}, user)

    assert situation.provider.accepted(situation.objects, situation.target).answer is answer
