"""What the controller asked of the API server, by the server's own account: its audit log, filtered by user."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from tests.lab.control_plane import ControlPlane

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


class _Object(msgspec.Struct, rename="camel"):
    resource: str = ""
    subresource: str = ""


class _Status(msgspec.Struct):
    code: int = 0


class _User(msgspec.Struct):
    username: str = ""


class _Entry(msgspec.Struct, rename="camel"):
    stage: str
    verb: str
    user: _User
    audit_id: str = msgspec.field(name="auditID")
    request_received_timestamp: str = ""
    stage_timestamp: str = ""
    object_ref: _Object | None = None
    response_status: _Status | None = None


_decode = msgspec.json.Decoder(_Entry).decode


@dataclass(frozen=True, slots=True)
class Asked:
    """One request.

    Args:
        at_s: wall clock, when the server received it.
        resource: with its subresource: `rollouts/status`; empty for paths that are no resources.
        code: of the answer; 200 for a watch that has begun.
        took_s: until the server had answered.
    """

    at_s: float
    took_s: float
    verb: str
    resource: str
    code: int

    @property
    def writes(self) -> bool:
        """Whether it changes something, or tries to."""
        return self.verb in WRITES

    @property
    def kind(self) -> str:
        """Verb and resource, as RBAC names them."""
        return f"{self.verb} {self.resource}"


@dataclass(frozen=True, slots=True)
class Load:
    """What a phase asked, without the Lease.

    Args:
        requests: all of them.
        writes: besides Events.
        events: writes of Events.
        failed: requests that were answered with 400 or more.
        kinds: how many of each verb and resource.
    """

    requests: int
    writes: int
    events: int
    failed: int
    kinds: Mapping[str, int]


class Audit:
    """The audit log of one user, or of all whose names begin so, if it ends with a colon."""

    def __init__(self, plane: ControlPlane, *, user: str) -> None:
        self._path = Path(plane.folder, "logs", "audit.log")
        self._user = user

    def mark(self) -> int:
        """A place in the log (bytes)."""
        return self._path.stat().st_size

    def asked(self, *, since: int) -> list[Asked]:
        """The user's requests after a mark, oldest first. A watch counts from its beginning."""
        needle = self._user.encode()
        found: dict[str, Asked] = {}
        with self._path.open("rb") as log:
            log.seek(since)
            for line in log:
                if needle not in line or not line.endswith(b"\n"):
                    continue
                entry = _decode(line)
                if not self._is_of(entry.user.username) or entry.audit_id in found:
                    continue
                found[entry.audit_id] = _asked(entry)
        return sorted(found.values(), key=lambda each: each.at_s)

    def _is_of(self, username: str) -> bool:
        return username == self._user or (self._user.endswith(":") and username.startswith(self._user))

    def load(self, *, since: int) -> Load:
        """The sums of a phase."""
        return load_of(self.asked(since=since))

    async def quiet(
        self, *, for_s: float, deadline_s: float, counted: Callable[[Load], int] = lambda load: load.requests
    ) -> None:
        """Returns when the user has asked nothing but its Lease for `for_s` seconds.

        Args:
            counted: which requests must end; all of them by default.

        Raises: TimeoutError with what it still asks.
        """
        give_up_s = time.monotonic() + deadline_s
        while True:
            mark = self.mark()
            await asyncio.sleep(for_s)
            load = self.load(since=mark)
            if counted(load) == 0:
                return
            if time.monotonic() > give_up_s:
                raise TimeoutError(f"the controller was not quiet within {deadline_s:g} s: {dict(load.kinds)}")


def load_of(asked: list[Asked]) -> Load:
    """The sums of these requests, without the Lease."""
    rest = [each for each in asked if each.resource != "leases"]
    return Load(
        requests=len(rest),
        writes=sum(each.writes and each.resource != "events" for each in rest),
        events=sum(each.writes and each.resource == "events" for each in rest),
        failed=sum(each.code >= 400 for each in rest),
        kinds=dict(
            Counter(each.kind if each.code < 400 else f"{each.kind} {each.code}" for each in rest).most_common()
        ),
    )


def _asked(entry: _Entry) -> Asked:
    what = entry.object_ref or _Object()
    began = datetime.fromisoformat(entry.request_received_timestamp)
    return Asked(
        at_s=began.timestamp(),
        took_s=(datetime.fromisoformat(entry.stage_timestamp) - began).total_seconds(),
        verb=entry.verb,
        resource=f"{what.resource}/{what.subresource}" if what.subresource else what.resource,
        code=entry.response_status.code if entry.response_status else 0,
    )
