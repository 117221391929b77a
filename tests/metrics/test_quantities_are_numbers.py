"""Promise: a quantity is the number that Kubernetes means by it, and nonsense is no number."""

from __future__ import annotations

import math

import pytest

from rollouts.metrics.quantities import go_duration_s, quantity


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0.0), ("1", 1.0), ("100m", 0.1), ("1234567n", 0.001234567), ("250u", 0.00025), ("1Ki", 1024.0),
        ("1Gi", 2.0**30), ("1.5Gi", 1.5 * 2**30), ("2Ei", 2.0**61), ("1k", 1e3), ("1E", 1e18), ("1e3", 1e3),
        ("1E3", 1e3), ("12e-3", 0.012), (".5", 0.5), ("5.", 5.0), ("+1", 1.0), ("-100m", -0.1), (7, 7.0), (0.25, 0.25),
    ],
)  # fmt: skip
def test_a_quantity_means_its_number(text: object, number: float) -> None:
    """Every suffix that Kubernetes has; `1E` is an exa and `1E3` an exponent. JSON numbers are quantities too."""
    assert quantity(text) == pytest.approx(number, rel=1e-12)


@pytest.mark.parametrize(
    "value",
    [
        *("", " ", "1 Gi", "Gi", "m", "1gi", "1K", "1mi", "abc", "1e", "1e3Ki", "--1", "1.2.3", "0x10", "1_000", "١"),
        *("NaN", "nan", "inf", "Infinity", "1e400", "1e999", "9223372036854775808", "10Ei", "9" * 41),
        *(math.nan, math.inf, 2**63, 10**400, True, None, [], {}),
    ],
)
def test_nonsense_is_no_number(value: object) -> None:
    """A quantity is below 2^63 in magnitude; what is not is a mistake of whoever wrote it."""
    assert quantity(value) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15.04s", 15.04), ("1m0s", 60.0), ("1h2m3.5s", 3723.5), ("500ms", 0.5), ("0s", 0.0), ("0", 0.0), ("10µs", 1e-5)],
)
def test_go_writes_durations(text: str, seconds: float) -> None:
    """The window of a sample comes as Go prints it."""
    assert go_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("value", ["", "15", "-15s", "s", "1d", "15s ", "NaNs", None, 15, {}])
def test_other_durations_are_none(value: object) -> None:
    """Without its window nobody knows what a sample is about."""
    assert go_duration_s(value) is None
