"""Tier 4: one boot of the guest for all tests of this folder, which read what it measured.

Run by `make ipvs`, not by `make test`: it takes five minutes. build/reports/ipvs.json gets every number; after a failure
build/ipvs-logs/ has the guest's console and the logs of its programs.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.ipvs import guest_machine
from tests.ipvs.plan import Measured, Plan, Waits

_ROOT = Path(__file__).parent.parent.parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make test` leaves this tier out and says so, once a file."""
    if os.environ.get("ROLLOUTS_IPVS"):
        return
    for item in items:
        if "measured" in getattr(item, "fixturenames", ()) and item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.skip(reason="tier 4 boots an IPVS kernel for five minutes: `make ipvs`"))


@pytest.fixture(scope="session")
def plan() -> Plan:
    """How kube-proxy runs in the guest."""
    return Plan()


@pytest.fixture(scope="session")
def waits(measured: Measured) -> Waits:
    """The controller's numbers that the guest has tried."""
    assert measured.waits is not None, measured.errors
    return measured.waits


@pytest.fixture(scope="session")
def measured(
    plan: Plan, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Measured]:
    if reason := guest_machine.unavailable():
        if os.environ.get("ROLLOUTS_LAB_REQUIRED"):
            pytest.fail(f"no IPVS kernel: {reason}")
        pytest.skip(f"no IPVS kernel: {reason}")
    folder = tmp_path_factory.mktemp("ipvs")
    logs = _ROOT / "build" / "ipvs-logs"
    failed_before = request.session.testsfailed
    try:
        started = time.monotonic()
        seen = guest_machine.measure(plan, folder)
        _report(plan, seen, seconds=time.monotonic() - started)
        yield seen
    except guest_machine.GuestFailed:
        guest_machine.keep_logs(folder, logs)
        raise
    if request.session.testsfailed > failed_before:
        guest_machine.keep_logs(folder, logs)


def _report(plan: Plan, seen: Measured, *, seconds: float) -> None:
    path = _ROOT / "build" / "reports" / "ipvs.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    report = {"seconds": round(seconds, 1), "plan": asdict(plan), **asdict(seen)}
    path.write_text(json.dumps(report, indent=1) + "\n")
