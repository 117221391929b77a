"""Promise: the template of a workload means what it would mean in `spec.template`, and without it a spec has none."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.api.spec.parse import WorkloadTemplate, parse_spec
from rollouts.core.model.drain import PreStop
from rollouts.core.model.frozen import replace
from rollouts.core.model.workload_ref import Hold, NamedWorkload, OnAbort, ScaleDownWorkload, WorkloadKind, WorkloadMode
from rollouts.errors import SpecInvalid
from tests.api.specs import CANARY, GONE, Spec, changed
from tests.api.workload_specs import IN_PLACE, referring

_TEMPLATE: Spec = CANARY["template"]
_SELECTOR: Spec = CANARY["selector"]


def _problems(spec: Spec, template: Any, selector: Any = None) -> list[str]:
    with pytest.raises(SpecInvalid) as refused:
        parse_spec(spec, WorkloadTemplate(template, selector))
    return [str(problem) for problem in refused.value.problems]


@pytest.mark.parametrize("own", [_SELECTOR, GONE], ids=["a selector of its own", "the workload's selector"])
def test_a_joined_spec_is_the_spec_with_that_template(own: Any) -> None:
    """So a migration that moves the template from one place to the other rolls out nothing."""
    spec = changed(referring(), selector=own)

    joined = parse_spec(spec, WorkloadTemplate(_TEMPLATE, _SELECTOR))

    assert joined.workload_ref == NamedWorkload(kind=WorkloadKind.DEPLOYMENT, name="cart")
    assert replace(joined, workload_ref=None) == parse_spec(CANARY)


def test_the_selector_of_the_spec_is_used_before_that_of_the_workload() -> None:
    """As in Argo Rollouts."""
    joined = parse_spec(referring(), WorkloadTemplate(_TEMPLATE, {"matchLabels": {"tier": "web"}}))

    assert joined.selector_text == "app=cart"


def test_nulls_that_the_api_server_writes_change_no_revision() -> None:
    """It answers with `creationTimestamp: null` in each pod template."""
    written = {**_TEMPLATE, "metadata": {**_TEMPLATE["metadata"], "creationTimestamp": None}}

    assert parse_spec(referring(), WorkloadTemplate(written)).revision == parse_spec(CANARY).revision


def test_a_spec_whose_workload_is_not_known_has_no_revision() -> None:
    """It can still be read, for everything that is the Rollout's own."""
    spec = parse_spec(changed(referring(kind="PodTemplate", apiVersion="v1"), replicas=7))

    assert (spec.revision, spec.template_hash, spec.template_json, spec.config_refs) == ("", "", b"{}", ())
    assert (spec.replicas, spec.selector_text) == (7, "app=cart")
    assert spec.workload_ref == NamedWorkload(kind=WorkloadKind.POD_TEMPLATE, name="cart")


def test_a_reference_has_argos_defaults() -> None:
    """Argo Rollouts' manifests leave the mode out, and scale nothing down."""
    reference = parse_spec(referring()).workload_ref

    assert reference is not None
    assert (reference.mode, reference.scale_down) == (WorkloadMode.TEMPLATE, ScaleDownWorkload.NEVER)
    assert parse_spec(referring(scaleDown="progressively")).workload_ref == replace(
        reference, scale_down=ScaleDownWorkload.PROGRESSIVELY
    )


def test_what_a_spec_does_not_allow_of_a_template_is_told_with_the_workload() -> None:
    """The user looks for it there, not in the Rollout."""
    labels = {"app": "till", "rollouts.dev/name": "x"}
    template = changed(_TEMPLATE, metadata__labels=labels, spec__restartPolicy="Never")

    problems = _problems(referring(), template)

    assert [problem.partition(": Deployment cart: ")[2].partition(":")[0] for problem in problems] == [
        "spec.template.metadata.labels[rollouts.dev/name]",
        "spec.template.spec.restartPolicy",
        "spec.template.metadata.labels",
    ]


def test_what_the_strategy_says_of_the_template_is_judged_with_it() -> None:
    """Metadata of a role must not take a label of the template, wherever that stands."""
    spec = changed(referring(), strategy__canary__canaryMetadata={"labels": {"tier": "x"}})

    assert parse_spec(spec).template_hash == ""
    assert "is in spec.template.metadata too" in _problems(spec, _TEMPLATE)[0]


def test_a_deployment_in_place_keeps_its_template_as_it_is() -> None:
    """Copies of configuration and an injected sleep would change it, so neither is a default here."""
    spec = parse_spec(IN_PLACE, WorkloadTemplate(_TEMPLATE, _SELECTOR))

    assert spec.workload_ref == NamedWorkload(kind=WorkloadKind.DEPLOYMENT, name="cart", mode=WorkloadMode.IN_PLACE)
    assert (spec.workload_ref.hold, spec.config_versioning.enabled) == (Hold.AUTO, False)
    assert spec.drain.pre_stop is PreStop.VALIDATE


def test_a_stateful_set_in_place_is_taken_as_a_deployment_is() -> None:
    """Its template and selector, and nothing else."""
    spec = parse_spec(changed(IN_PLACE, workloadRef__kind="StatefulSet"), WorkloadTemplate(_TEMPLATE, _SELECTOR))

    assert spec.workload_ref == NamedWorkload(kind=WorkloadKind.STATEFUL_SET, name="cart", mode=WorkloadMode.IN_PLACE)


def test_a_daemon_set_in_place_says_what_an_abort_does_and_which_nodes_are_first() -> None:
    """By default its nodes stay as they are: only a template makes pods."""
    spec = changed(IN_PLACE, workloadRef__kind="DaemonSet")
    held = parse_spec(spec, WorkloadTemplate(_TEMPLATE, _SELECTOR)).workload_ref
    assert held == NamedWorkload(kind=WorkloadKind.DAEMON_SET, name="cart", mode=WorkloadMode.IN_PLACE)
    assert held.on_abort is OnAbort.HOLD

    nodes = {"matchLabels": {"tier": "canary"}}
    reverts = changed(spec, workloadRef__onAbort="RevertTemplate", workloadRef__canaryNodes=nodes)
    assert parse_spec(reverts, WorkloadTemplate(_TEMPLATE, _SELECTOR)).workload_ref == replace(
        held, on_abort=OnAbort.REVERT_TEMPLATE, canary_nodes="tier=canary"
    )


@pytest.mark.parametrize("changes", [{"replicas": 1}, {"drain": {"preStop": "Validate"}}, {"drain": {"preStop": "Off"}},
    {"configVersioning": {"mode": "Off"}}], ids=str)  # fmt: skip
def test_what_says_the_same_as_the_defaults_in_place_is_taken(changes: Spec) -> None:
    """`replicas: 1` is what the API server writes where the field is absent."""
    assert parse_spec(changed(IN_PLACE, **changes), WorkloadTemplate(_TEMPLATE, _SELECTOR)).revision
