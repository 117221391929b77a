"""Promise: a watch of a kind whose CRD is new tells of its objects, and an audit log that is being written of whole events."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import httpx
import pytest

from tests.lab.control_plane import ControlPlane, whole_events

PATH = "/apis/rollouts.dev/v1alpha1/rollouts"
REFUSED = httpx.Response(httpx.codes.TOO_MANY_REQUESTS, headers={"Retry-After": "0"})


def _plane(answers: Iterable[httpx.Response]) -> ControlPlane:
    """The handle of a control plane whose API server gives these answers in turn."""
    plane = ControlPlane(folder="", programs="", url="", certificate="", token="", process_ids={})
    turns = iter(answers)
    transport = httpx.MockTransport(lambda _: next(turns))
    plane.__dict__["api"] = httpx.Client(base_url="https://plane.test", transport=transport)
    return plane


def test_it_is_asked_again_until_the_kind_is_served() -> None:
    """Storage of a new kind takes a second to start; a run on the real node had ended with that answer."""
    plane = _plane([REFUSED, REFUSED, httpx.Response(200, text='{"type": "ADDED"}\n{"type": "MODIFIED"}\n')])

    with plane.watch(PATH, timeout_s=30) as events:
        assert [each["type"] for each in events] == ["ADDED", "MODIFIED"]


def test_what_stays_refused_is_an_error_when_the_time_of_the_watch_is_over() -> None:
    """A server that is really too busy must not hang the test."""
    with pytest.raises(httpx.HTTPStatusError, match="429"), _plane([REFUSED] * 2).watch(PATH, timeout_s=-1):
        pass


@pytest.mark.parametrize(
    ("since", "seen"), [(0, [1, 2]), (8, [2]), (1, [2]), (7, [2]), (9, []), (16, []), (20, [])], ids=str
)
def test_a_mark_in_the_middle_of_a_line_is_after_that_event(tmp_path: Path, since: int, seen: list[int]) -> None:
    """The API server writes a line in more than one piece: a canary through a gateway failed on the rest of one."""
    log = tmp_path / "audit.log"
    log.write_bytes(b'{"n":1}\n{"n":2}\n{"n":3')

    assert [each["n"] for each in whole_events(log, since=since)] == seen
