"""Promise: what the controller remembers comes back exactly; what somebody spoilt is named and never promotes anything."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from rollouts.api.schema import crd_manifests
from rollouts.api.status.codec import to_json
from rollouts.api.status.wire import can_wait, merge_patch, read_status, status_from_wire, status_to_wire
from rollouts.core.model.analysis import RECORD_MESSAGE_MAX, AnalysisGate, AnalysisKind, AnalysisPhase, AnalysisRecord
from rollouts.core.model.status import Phase, RolloutStatus
from tests.api.declared import unknown, values_of

STATUSES = values_of(RolloutStatus)
(CRD,) = (
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    for crd in crd_manifests()
    if crd["spec"]["names"]["kind"] == "Rollout"
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def _applied(target: Any, patch: Any) -> Any:
    """RFC 7396, section 2, word for word."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _applied(result.get(key), value)
    return result


@given(status=STATUSES)
@settings(max_examples=150, deadline=None)
def test_every_field_comes_back(status: RolloutStatus) -> None:
    """The API is the only memory: a field that is lost on the way is a decision that is forgotten at the next restart."""
    wire = status_to_wire(status)

    read = read_status(json.dumps(wire).encode())

    assert read.status == status
    assert read.problems == ()


def test_a_field_without_a_declaration_is_an_error() -> None:
    """It would be in nobody's JSON, and forgotten at the next restart."""

    class Memory(Struct):
        visits: int = 0

    with pytest.raises(TypeError, match=r"Memory\.visits says nothing about its JSON"):
        to_json(Memory())


@given(status=STATUSES)
@settings(max_examples=50, deadline=None)
def test_the_crd_knows_every_field_that_is_written(status: RolloutStatus) -> None:
    """The API server drops what the CRD does not name, without a word."""
    assert unknown(status_to_wire(status, step_count=5), CRD) == []


@given(name=st.sampled_from([*sorted(CRD["properties"])]), junk=JSON)
@settings(max_examples=300, deadline=None)
def test_a_spoilt_status_is_read_all_the_same(name: str, junk: Any) -> None:
    """Somebody may edit a status by hand; the Rollout must still be looked after."""
    read = read_status({"stableRevision": "abc", name: junk})

    assert isinstance(read.status, RolloutStatus)
    assert name == "stableRevision" or read.status.stable_revision == "abc"


@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b"null", {}, [], None, "x"])
def test_what_is_no_status_is_a_new_rollouts(junk: Any) -> None:
    """Also empty bytes, which the store holds before the first pass."""
    assert status_from_wire(junk) == RolloutStatus()


def test_what_could_not_be_read_is_named() -> None:
    """The controller tells people which part of its memory it had to do without."""
    read = read_status({"phase": "Splendid", "replicas": -1, "waitingFor": {"reason": "Tea"}, "history": [5, {}]})

    assert read.problems == (
        "status.phase: is not a Phase of this version",
        "status.replicas: is not an integer of 0 or more",
        "status.waitingFor.reason: cannot be read, so status.waitingFor is left out",
        "status.history[0]: is not an object",
        "status.history[1].revision: cannot be read, so status.history[1] is left out",
    )


@pytest.mark.parametrize("field", ["weight", "progressedAt", "replicas"])
def test_a_number_of_a_thousand_digits_is_read_or_named(field: str) -> None:
    """JSON may hold it, and no float does: an error that nobody expects would end each pass of the Rollout."""
    read = read_status(f'{{"{field}": {10**1000}}}'.encode())

    assert (read.problems != ()) is (field != "replicas")


def test_half_of_an_injection_says_nothing() -> None:
    """What pods sleep is told from the ReplicaSet's note and from status by one codec: neither fills gaps with zeros."""
    read = read_status({"drain": {"preStop": {"containers": ["app"], "seconds": 6}}})

    assert read.status.injection is None
    assert read.problems == ("status.drain.preStop.*: cannot be read, so status.drain.preStop is left out",)


def test_an_abort_of_a_newer_controller_holds() -> None:
    """An unknown reason must not let an aborted revision go on."""
    abort = status_from_wire({"abort": {"revision": "abc", "at": "2026-01-01T00:00:00Z", "reason": "NewReason"}}).abort

    assert abort is not None
    assert abort.revision == "abc"


NEW_YEAR = "2026-01-01T00:00:00Z"
PROMOTE = {"verb": "promote", "value": "abc", "revision": "abc", "at": NEW_YEAR}
RECORD = {"kind": "step", "step": 1, "number": 1, "run": "a", "phase": "Successful", "at": NEW_YEAR}


@pytest.mark.parametrize(
    "spoilt",
    [{"step": "two"}, {"analysis": "canary-judgement"}, {"analysis": 3}, {"analysis": ["background"]}],
    ids=str,
)
def test_a_promotion_of_an_unreadable_gate_is_no_promotion_of_all_steps(spoilt: dict[str, Any]) -> None:
    """An absent step, or verdict, means every one, so an unreadable one must not look absent."""
    assert len(status_from_wire({"commands": [PROMOTE]}).commands) == 1
    assert status_from_wire({"commands": [{**PROMOTE, **spoilt}]}).commands == ()


@pytest.mark.parametrize(
    "spoilt",
    [
        {"phase": "Splendid"}, {"phase": None}, {"kind": "tea"}, {"kind": "background"}, {"step": None}, {"step": -1},
        {"run": 5}, {"at": "noon"},
    ],
)  # fmt: skip
def test_half_a_record_of_a_run_says_nothing(spoilt: dict[str, Any]) -> None:
    """The run is looked at again: a verdict that somebody has edited must not pass for one."""
    assert len(status_from_wire({"analyses": [RECORD]}).analyses) == 1

    read = read_status({"analyses": [{**RECORD, **spoilt}]})

    assert read.status.analyses == ()
    assert any("so status.analyses[0] is left out" in problem for problem in read.problems)


@pytest.mark.parametrize("spoilt", ["much", -1, 200, True, {}])
def test_a_weight_to_go_back_to_that_cannot_be_read_is_zero(spoilt: object) -> None:
    """It holds the canary there; without it the weight would rise again."""
    read = read_status({"analyses": [{**RECORD, "phase": "Failed", "backToWeight": spoilt}]})

    assert read.status.stepped_back is not None
    assert read.status.stepped_back.back_to_percent == 0
    assert read.problems


def test_the_records_of_all_steps_have_room() -> None:
    """A spec has up to 100 steps, and an object of the API server holds 1.5 MB."""
    records = tuple(
        AnalysisRecord(
            gate=AnalysisGate(AnalysisKind.STEP, index),
            number=1,
            run="r" * 253,
            phase=AnalysisPhase.FAILED,
            message="\N{WARNING SIGN}" * 100_000,
            spec_hash="a" * 64,
            uid="b" * 36,
        )
        for index in range(100)
    )

    wire = status_to_wire(RolloutStatus(analyses=records))

    assert {len(each["message"]) for each in wire["analyses"]} == {RECORD_MESSAGE_MAX}
    assert len(json.dumps(wire, ensure_ascii=False).encode()) < 500_000


def test_an_author_that_cannot_be_read_is_named() -> None:
    """The command stands without one."""
    read = read_status({"commands": [{**PROMOTE, "by": 5}]})

    assert [command.by for command in read.status.commands] == [None]
    assert read.problems == ("status.commands[0].by: cannot be read",)


@pytest.mark.parametrize("outcome", ["Refused", "Over", "Whatever", 3])
def test_only_an_accepted_command_is_carried_out(outcome: object) -> None:
    """Nothing follows from an outcome of a newer controller, or from one that somebody has edited."""
    (read,) = status_from_wire({"commands": [{**PROMOTE, "outcome": outcome}]}).commands

    assert not read.holds


def test_an_abort_of_a_controller_that_told_no_outcome_is_not_carried_out_again() -> None:
    """It was done in the write that recorded it; the revision may have been tried again since."""
    (read,) = status_from_wire({"commands": [{**PROMOTE, "verb": "abort", "value": "true", "takenOff": True}]}).commands

    assert read.over


def test_a_gate_that_cannot_be_read_is_closed() -> None:
    """Fail closed: nothing is promoted on a guess."""
    assert status_from_wire({"blueGreen": {"gatePassed": "yes"}}).gate_passed is False


@given(old=STATUSES, new=STATUSES)
@settings(max_examples=80, deadline=None)
def test_a_patch_turns_the_old_status_into_the_new(old: RolloutStatus, new: RolloutStatus) -> None:
    """One patch a pass, and exactly what the core decided."""
    before, after = status_to_wire(old), status_to_wire(new)

    assert _applied(before, merge_patch(before, after)) == after


@given(status=STATUSES)
@settings(max_examples=30, deadline=None)
def test_an_equal_status_is_an_empty_patch(status: RolloutStatus) -> None:
    """A pass that changes nothing writes nothing."""
    assert merge_patch(status_to_wire(status), json.loads(json.dumps(status_to_wire(status)))) == {}


def test_counts_may_wait_and_decisions_may_not() -> None:
    """Counts change with every pod; writing each change would cost the API server more than the rollout itself."""
    before = status_to_wire(RolloutStatus(phase=Phase.HEALTHY))
    updated: dict[str, Any] = {"updated_replicas": 1, "updated_ready_replicas": 1, "updated_available_replicas": 1}
    now = RolloutStatus(phase=Phase.HEALTHY, replicas=2, ready_replicas=2, available_replicas=1, **updated)
    counts = status_to_wire(now)
    paused = status_to_wire(RolloutStatus(phase=Phase.PAUSED, replicas=2))

    assert can_wait(merge_patch(before, counts))
    assert not can_wait(merge_patch(before, paused))
    assert not can_wait({"observedGeneration": 2, "replicas": 1})


def test_the_step_column_counts_what_is_done() -> None:
    """Read by people only; a canary without steps shows none."""
    assert status_to_wire(RolloutStatus(step_index=2), step_count=5)["step"] == "2/5"
    assert status_to_wire(RolloutStatus(step_index=9), step_count=5)["step"] == "5/5"
    assert "step" not in status_to_wire(RolloutStatus())


def test_a_message_is_cut_before_the_api_server_refuses_it() -> None:
    """A refused status would stop the Rollout; conditions hold 32,768 characters at most."""
    assert len(status_to_wire(RolloutStatus(message="x" * 40_000))["message"]) == 32_768
