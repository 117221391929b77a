"""Promise: the label that tells the revisions of another controller apart becomes ours by `migrate`, and `lint` tells of it.

Without the label Kubernetes ignores the key: two nodes, a required anti-affinity, and every update of a migrated Deployment waits
for a node that there is not.
"""

from __future__ import annotations

from copy import deepcopy

import pytest
import yaml

from rollouts.cli.kubernetes.hash_labels import LABELS, hash_uses
from rollouts.cli.migrate.migrated import migrated
from rollouts.cli.migrate.outcome import Migration
from rollouts.core.model.revision import REVISION_LABEL
from rollouts.objects import Manifest
from tests.cli.flagger_canaries import CANARIES, DEPLOYMENT
from tests.linted import lint_text

SELECTOR = {"matchLabels": {"app": "podinfo"}}
TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": SELECTOR}
REQUIRED, PREFERRED = (f"{each}DuringSchedulingIgnoredDuringExecution" for each in ("required", "preferred"))


def _field(label: str) -> Manifest:
    return {"fieldRef": {"fieldPath": f"metadata.labels['{label}']"}}


def _spread(label: str, **fields: object) -> Manifest:
    return {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **TERM, "matchLabelKeys": [label], **fields}


def _env(label: str) -> list[Manifest]:
    return [{"name": "A", "value": "a"}, {"name": "HASH", "valueFrom": _field(label)}]


def _expression(label: str) -> Manifest:
    return {"matchExpressions": [{"key": label, "operator": "Exists"}]}


def _apart(how: str, term: Manifest) -> Manifest:
    return {"affinity": {"podAntiAffinity": {how: [term]}}}


def _volume(**source: Manifest) -> Manifest:
    return {"volumes": [{"name": "v", **source}]}


def _places(label: str) -> dict[str, Manifest]:
    """By path in the pod's spec, what names the label there."""
    term = {**TERM, "matchLabelKeys": ["tier", label]}
    item = {"path": "hash", **_field(label)}
    projected = {"sources": [{"configMap": {"name": "c"}}, {"downwardAPI": {"items": [item]}}]}
    container = deepcopy(DEPLOYMENT["spec"]["template"]["spec"]["containers"][0])
    in_spread = {**TERM, "labelSelector": _expression(label)}
    other = _spread("tier", labelSelector=_expression(label))
    near = {"affinity": {"podAffinity": {REQUIRED: [{**TERM, "mismatchLabelKeys": [label]}]}}}
    started = [{"name": "i", "image": "i", "env": _env(label)}]
    return {
        f"affinity.podAntiAffinity.{REQUIRED}[0].matchLabelKeys[1]": _apart(REQUIRED, term),
        f"affinity.podAffinity.{REQUIRED}[0].mismatchLabelKeys[0]": near,
        f"affinity.podAntiAffinity.{PREFERRED}[0].podAffinityTerm.matchLabelKeys[1]": _apart(
            PREFERRED, {"weight": 1, "podAffinityTerm": term}
        ),
        f"affinity.podAntiAffinity.{REQUIRED}[0].labelSelector.matchExpressions[0].key": _apart(REQUIRED, in_spread),
        "topologySpreadConstraints[0].matchLabelKeys[0]": {"topologySpreadConstraints": [_spread(label)]},
        "topologySpreadConstraints[0].labelSelector.matchExpressions[0].key": {"topologySpreadConstraints": [other]},
        "containers[0].env[1].valueFrom.fieldRef.fieldPath": {"containers": [{**container, "env": _env(label)}]},
        "initContainers[0].env[1].valueFrom.fieldRef.fieldPath": {"initContainers": started},
        "volumes[0].downwardAPI.items[0].fieldRef.fieldPath": _volume(downwardAPI={"items": [item]}),
        "volumes[0].projected.sources[1].downwardAPI.items[0].fieldRef.fieldPath": _volume(projected=projected),
    }


def _deployment(pod: Manifest) -> Manifest:
    deployment = deepcopy(DEPLOYMENT)
    deployment["spec"]["template"]["spec"].update(deepcopy(pod))
    return deployment


def _rollout(outcome: Migration) -> Manifest:
    (rollout,) = [each for each in outcome.objects if each["kind"] == "Rollout"]
    return rollout


EVERY = [(label, path) for label in LABELS for path in _places(label)]


@pytest.mark.parametrize(("label", "path"), EVERY)
def test_a_migrated_template_names_our_label_and_says_so(label: str, path: str) -> None:
    """The same pods, kept apart by revision as before."""
    outcome = migrated([_deployment(_places(label)[path])])

    pod = _rollout(outcome)["spec"]["template"]["spec"]
    assert pod == {**pod, **_places(REVISION_LABEL)[path]}
    note = f"changed: Deployment podinfo spec.template.spec.{path}: {REVISION_LABEL} in the place of {label}"
    assert note in map(str, outcome.notes)
    assert _remarks(_rollout(outcome)) == []


def _remarks(rollout: Manifest) -> list[str]:
    report = lint_text(yaml.safe_dump(rollout))
    assert [each.message for each in report.problems] == []
    return [each.message for each in report.advice if each.rule == "HashLabel"]


@pytest.mark.parametrize(("label", "path"), EVERY)
def test_lint_tells_of_each_place_and_what_to_write(label: str, path: str) -> None:
    """A Rollout that was written by hand from a Deployment has the same fault, and nothing else says why pods are Pending."""
    rollout = _rollout(migrated([deepcopy(DEPLOYMENT)]))
    rollout["spec"]["template"]["spec"].update(_places(label)[path])

    (told,) = _remarks(rollout)
    assert f"spec.template.spec.{path}: no pod of a Rollout has the label {label}" in told
    assert REVISION_LABEL in told


def test_a_selector_with_the_hash_of_one_revision_is_for_a_person() -> None:
    """The value is the name of a ReplicaSet that goes: under our label it would match no pod either."""
    selectors: tuple[Manifest, ...] = (
        {"matchLabels": {"pod-template-hash": "5d4f8c"}},
        {"matchExpressions": [{"key": "pod-template-hash", "operator": "NotIn", "values": ["5d4f8c"]}]},
    )
    for selector in selectors:
        pod = {"topologySpreadConstraints": [_spread("tier", labelSelector=selector)]}
        outcome = migrated([_deployment(pod)])

        (spread,) = _rollout(outcome)["spec"]["template"]["spec"]["topologySpreadConstraints"]
        assert spread["labelSelector"] == selector
        assert any("take it out" in str(each) and str(each).startswith("to do") for each in outcome.notes)
        assert "so it matches none of them" in _remarks(_rollout(outcome))[0]


def test_the_objects_that_came_in_stay_as_they_are() -> None:
    """A Canary and a Deployment share the template."""
    deployment = _deployment(_places(LABELS[0])["topologySpreadConstraints[0].matchLabelKeys[0]"])
    before = deepcopy(deployment)

    outcome = migrated([CANARIES["kubernetes"], deployment])

    assert deployment == before
    assert _rollout(outcome)["spec"]["template"] != before["spec"]["template"]


def test_a_template_that_gives_its_pods_the_label_itself_is_left_alone() -> None:
    """Then the pods have it, whatever its author means by it."""
    deployment = _deployment(_places(LABELS[0])["topologySpreadConstraints[0].matchLabelKeys[0]"])
    deployment["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] = "mine"

    assert _rollout(migrated([deployment]))["spec"]["template"]["spec"] == deployment["spec"]["template"]["spec"]


@pytest.mark.parametrize("strange", [None, 1, "a", [1, None], {"a": 1}, [{"matchLabelKeys": {"a": 1}}]])
def test_a_template_of_another_shape_stops_nothing(strange: object) -> None:
    """`lint` names what is wrong with it; here nothing is found."""
    spec = {"affinity": strange, "topologySpreadConstraints": strange, "containers": strange, "volumes": strange}

    assert list(hash_uses({"metadata": strange, "spec": spec}, "spec.template")) == []
