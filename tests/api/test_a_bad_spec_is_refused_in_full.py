"""Promise: whatever is wrong with a spec is told, all of it at once, with the path and a word on how to mend it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from rollouts.api.spec.parse import parse_spec
from rollouts.errors import SpecInvalid, SpecProblem
from tests.api.analysed_specs import ANALYSED_BAD
from tests.api.autoscaling_specs import AUTOSCALING_BAD
from tests.api.config_specs import CONFIG_BAD
from tests.api.drain_specs import DRAIN_BAD
from tests.api.routing_specs import ROUTING_BAD, routed
from tests.api.specs import BAD, BLUE_GREEN, CANARY, Bad, Spec, canary, changed, places, put
from tests.api.workload_specs import WORKLOAD_BAD

EVERY_BAD = (*BAD, *ANALYSED_BAD, *AUTOSCALING_BAD, *CONFIG_BAD, *DRAIN_BAD, *ROUTING_BAD, *WORKLOAD_BAD)


def _problems(spec: Any) -> tuple[SpecProblem, ...]:
    with pytest.raises(SpecInvalid) as refused:
        parse_spec(spec)
    return refused.value.problems


@pytest.mark.parametrize("bad", EVERY_BAD, ids=lambda bad: bad.name)
def test_a_broken_rule_is_named_with_its_path(bad: Bad) -> None:
    """A user mends what a message points at; a rule that nobody enforces is worse than none."""
    problems = _problems(bad.spec)

    told = [problem.message for problem in problems if problem.path == bad.path]
    assert any(bad.words in message for message in told), problems


def test_there_is_a_row_for_every_rule() -> None:
    """The table is the list of rules; it shrinks only on purpose."""
    assert len(EVERY_BAD) >= 100
    assert len({bad.name for bad in EVERY_BAD}) == len(EVERY_BAD)


def test_everything_wrong_is_told_at_once() -> None:
    """One round trip for the user, not seven: types, rules and planned fields of one spec come together."""
    steps = [{"setWeight": "x"}, {}, {"pause": {"duration": "soon"}}, 5, {"setCanaryScale": {"replicas": 1}}]
    steps.append({"plugin": {"name": "a/b"}})
    spec = changed(canary(steps=steps, maxSurge=0, maxUnavailable=0), replicas=-1, colour="red")

    paths = {problem.path for problem in _problems(spec)}

    assert paths == {
        "spec.replicas", "spec.colour", "spec.strategy.canary.maxSurge", "spec.strategy.canary.steps[0].setWeight",
        "spec.strategy.canary.steps[1]", "spec.strategy.canary.steps[2].pause.duration",
        "spec.strategy.canary.steps[3]", "spec.strategy.canary.steps[4].setCanaryScale",
        "spec.strategy.canary.steps[5].plugin",
    }  # fmt: skip


def test_what_could_not_be_read_is_not_called_missing_too() -> None:
    """Two messages about one mistake send the user looking for a second one."""
    spec = changed(BLUE_GREEN, strategy__blueGreen__activeService=5, selector=7)

    assert [problem.path for problem in _problems(spec)] == ["spec.selector", "spec.strategy.blueGreen.activeService"]


@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b"null", b'{"a":' * 300, [], "x", None])
def test_what_is_no_object_is_refused(junk: Any) -> None:
    """Whatever the store holds, the controller gets an answer that it can show, never a crash."""
    assert _problems(junk)[0].path == "spec"


@pytest.mark.parametrize("value", [None, 0, -1, "", "x", True, [], [[]], {}, {"a": {}}, [{"a": [1]}], 1.5])
def test_no_value_anywhere_makes_the_parser_crash(value: Any) -> None:
    """Each field of a full spec in turn gets each kind of junk: the answer is a spec or SpecInvalid, nothing else."""
    full = canary(
        stableService="a",
        canaryService="b",
        trafficRouting={
            "istio": {"virtualService": {"name": "a", "routes": ["x"]}},
            "plugins": {"mine": {"a": 1}},
            "managedRoutes": [{"name": "beta"}, {"name": "shadow"}],
            "maxTrafficWeight": 1000,
        },
        steps=[
            {"setWeight": 1},
            {"setHeaderRoute": {"name": "beta", "match": [{"headerName": "a", "headerValue": {"exact": "b"}}]}},
            {
                "setMirrorRoute": {
                    "name": "shadow",
                    "match": [{"path": {"prefix": "/"}, "headers": {"a": {"regex": "b"}}}],
                }
            },
        ],
        canaryMetadata={"labels": {"role": "canary"}},
        antiAffinity={"requiredDuringSchedulingIgnoredDuringExecution": {}},
        analysis={"templates": [{"templateName": "a"}], "args": [{"name": "a", "value": "b"}]},
    )
    for way in places(full):
        spec = copy.deepcopy(full)
        put(spec, way, value)
        try:
            parse_spec(spec)
        except SpecInvalid as refused:
            assert refused.problems


def test_the_spec_that_was_given_is_not_changed() -> None:
    """The caller's object may be the store's."""
    spec = changed(canary(steps=["x"]), replicas="x")
    before = copy.deepcopy(spec)

    _problems(spec)

    assert spec == before


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (changed(CANARY, template__metadata__annotations={"note": "\ud800"}), "spec.template"),
        (routed(plugins={"mine": {"rules": ["\ud800"]}}), "spec.strategy"),
    ],
    ids=["template", "settings of a plugin"],
)
def test_text_that_json_cannot_hold_is_a_problem_of_its_part(spec: Spec, path: str) -> None:
    """A lone surrogate (from a YAML file) cannot be written as UTF-8; a plugin's settings are read by its provider alone."""
    assert [problem.path for problem in _problems(spec)] == [path]


def test_a_field_whose_name_is_no_text_is_refused() -> None:
    """Half of a surrogate pair, as a YAML file may have it; the rest of the spec cannot be read beside it."""
    assert SpecProblem("spec", "cannot be used (string_unicode)") in _problems({**CANARY, "\ud800": 1})
