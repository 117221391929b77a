"""Promise: times lose nothing on the way, and a verb's patch says exactly what was asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.api import verbs
from rollouts.api.times import format_time, parse_time
from rollouts.core.model.status import Verb


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("2026-01-01T00:00:00Z", 1767225600.0),
        ("2026-01-01T00:00:00.25Z", 1767225600.25),
        ("2026-01-01T00:00:00.123456789Z", 1767225600.123456),
        ("2026-01-01T02:00:00+02:00", 1767225600.0),
        ("2025-12-31t23:30:00-00:30", 1767225600.0),
        ("1969-12-31T23:59:59.5Z", -0.5),
    ],
)
def test_a_time_is_read_in_every_form_that_rfc_3339_has(text: str, seconds: float) -> None:
    """Users write offsets, Kubernetes writes microseconds, Go writes nanoseconds."""
    assert parse_time(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "", "now", "2026-01-01", "2026-01-01 00:00:00Z", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z",
        "2026-02-29T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:00:60Z", "2026-01-01T00:00:00+24:00",
        "٢٠٢٦-01-01T00:00:00Z",
    ],
)  # fmt: skip
def test_what_is_no_time_is_refused(text: str) -> None:
    """A guess here would restart or promote at the wrong moment."""
    with pytest.raises(ValueError, match="must be"):
        parse_time(text)


@given(st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999))
def test_a_time_comes_back_to_the_microsecond(microseconds: int) -> None:
    """Pauses are measured from times that went through the API."""
    at_s = microseconds / 1_000_000

    assert parse_time(format_time(at_s)) == pytest.approx(at_s, abs=2e-5)


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00+01:00"])
def test_a_time_at_the_end_of_the_calendar_can_be_written_again(text: str) -> None:
    """A status that somebody edited must not stop every later write of it."""
    assert parse_time(format_time(parse_time(text))) == pytest.approx(parse_time(text), abs=3601)


def test_whole_seconds_are_written_short() -> None:
    """As Kubernetes writes them."""
    assert format_time(1767225600) == "2026-01-01T00:00:00Z"
    assert format_time(1767225600.25) == "2026-01-01T00:00:00.250000Z"
    assert format_time(parse_time("0001-01-01T00:00:00Z")) == "0001-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("patch", "annotations"),
    [
        (verbs.promote("abc"), {"promote": "abc"}), (verbs.promote("abc", step=0), {"promote": "abc@0"}),
        (verbs.promote("abc", full=True), {"promote": "abc@full"}), (verbs.abort("abc"), {"abort": "abc"}),
        (verbs.retry("abc", attempt=2), {"retry": "abc@2", "abort": None}), (verbs.pause(), {"pause": "true"}),
        (verbs.resume(), {"pause": None}), (verbs.rollback("abc"), {"rollback": "abc"}),
        (verbs.rollback_to_previous("abc"), {"rollback": "previous@abc"}),
        (verbs.restart(1767225600.0), {"restart": "2026-01-01T00:00:00Z"}),
        (verbs.withdraw(Verb.ABORT), {"abort": None}),
    ],
)  # fmt: skip
def test_a_verb_is_one_annotation(patch: dict[str, object], annotations: dict[str, str | None]) -> None:
    """The values are the API's: people and GitOps write the same ones by hand."""
    assert patch == {
        "metadata": {"annotations": {f"rollouts.dev/{name}": value for name, value in annotations.items()}}
    }


def test_a_verb_can_be_bound_to_what_was_seen() -> None:
    """Between looking and typing the Rollout may have moved on."""
    assert verbs.abort("abc", resource_version="7")["metadata"]["resourceVersion"] == "7"
