"""What the guest is asked to measure, and what it answers: plain values that cross the border as JSON.

Times are seconds since the endpoint was taken out of its EndpointSlice (the request was sent), unless a name says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

STAYING = "staying"  # what the pod that stays in its Service answers
LEAVING = "leaving"  # what the pod that is taken out answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How kube-proxy is to be run: its `--ipvs-*-timeout` flags, so short that their effect is seen within the run."""

    tcp_timeout_s: int = 30
    tcp_fin_timeout_s: int = 20
    udp_timeout_s: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """The controller's numbers that are put to the test, from the kernel, the flags and the lag that was measured before."""

    learnt_lag_s: float  # the slowest of the removals that were measured first
    wait_s: int  # from the endpoint's end in the slice to the pod's, on kernels that reschedule a reused source port
    reuse_wait_s: int  # the same on kernels that do not (`conn_reuse_mode=0` before Linux 5.9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What kube-proxy runs with, and on."""

    kernel: str
    proxy_mode: str  # as kube-proxy says at /proxyMode
    settings: dict[str, int]  # kernel settings under net/ipv4/vs as kube-proxy left them
    timeouts_before_s: list[int]  # of ipvs for TCP, after a FIN, and UDP, as ipvsadm says, before kube-proxy
    timeouts_s: list[int]  # and with it


@dataclass(frozen=True, slots=True, kw_only=True)
class Linger:
    """A real server that leaves while connections to it are open."""

    kept: int  # open connections to the leaving pod
    asked: int  # requests on them between the removal and their end
    answered: int
    new_staying: int  # who answered connections opened after weight 0
    new_leaving: int
    new_failed: dict[str, int]
    listed_s: float  # when the server was last seen in the table before its connections were ended
    ended_s: float  # when its connections were ended (by reset, which the kernel keeps for 10 s)
    deleted_s: float  # when the server was gone from the table


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """A real server that leaves with only closed connections, or with none."""

    closed: int  # connections to it that were closed before the removal
    closed_s: float  # when the last was closed (negative: before the removal)
    weight_zero_seen: bool  # whether the table ever showed weight 0
    deleted_s: float  # when the server was gone from the table
    time_wait_expires_s: float  # the longest life that the kernel gave those connections after their end


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """One more connection from each of the source ports that had been used before the removal, by who answered it."""

    at_s: float
    staying: int
    leaving: int
    failed: dict[str, int]  # why nobody did
    failed_on_leaving: int  # among the ports whose earlier connection went to the leaving pod
    slow: int  # a second or longer, as a dropped SYN takes


@dataclass(frozen=True, slots=True, kw_only=True)
class PortReuse:
    """Clients that use their source ports again after the pod that served them has gone."""

    ports: int  # source ports used before the removal
    on_leaving: int  # those of them whose connection went to the pod that leaves
    weight_zero_s: float  # when the kernel's table showed weight 0, or the server was gone
    died_s: float  # when the pod was killed
    reuses: list[Reuse]  # in order of time
    fresh_sent: int  # from ports never used before, all the time from before the removal to the end
    fresh_failed: dict[str, int]
    fresh_to_leaving: int  # those of them that the leaving pod answered although it had weight 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyLoad:
    """New connections all the time, their source ports in turn from a small range, through the removal and the pod's end."""

    sent: int
    failed: dict[str, int]
    late_to_leaving: int  # answered by the leaving pod later than 1 s after it had weight 0
    slow: int  # those that took a second or longer
    weight_zero_s: float
    died_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Datagrams:
    """UDP flows with fixed source ports, a request every half second, through the removal of a pod that lives on."""

    on_leaving: int  # flows that the leaving pod answered before the removal
    weight_zero_seen: bool  # whether the table ever showed weight 0
    deleted_s: float  # when the real server was gone from the table
    moved: int  # flows of the leaving pod that the staying pod answered in the end
    lost_by_one_flow: int  # the most that one flow lost
    lost_by_others: int  # unanswered requests of the other flows
    late_to_leaving: int  # answers of the leaving pod later than 1 s after the server was gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity:
    """`sessionAffinity: ClientIP`, and the pod that the client sticks to leaves."""

    sent_before: int
    before: int  # of them, connections to the one pod that the client stuck to
    sent_after: int  # after weight 0
    moved: int  # of them, those that the other pod answered
    kept_answered: bool  # a connection opened before was still answered by the first pod after that


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """An endpoint that is taken out and put back, as by a selector that is switched and switched back."""

    kept: int  # open connections to it
    answered: int  # those of them that it answered after its return
    new_sent: int  # connections opened after its return
    new_to_it: int  # those of them that it answered


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long the kernel keeps a fresh entry that hears nothing, and what a client sees that was silent for longer."""

    established_s: float
    fin_wait_s: float
    time_wait_s: float
    udp_s: float
    idle_s: float  # how long the connection was silent
    after_idle: str  # who answered then, or why nobody did


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Everything that one boot of the guest has shown; None is what could not be measured, and `errors` says why.

    Args:
        reuse: port reuse by the wait it was measured with: `none`, `half`, `whole`, and `renewed` (whole, and the ports were
            used once more in the middle of the wait), with the settings of a kernel that does not reschedule; `fixed` with
            `conn_reuse_mode=0` alone, where this kernel's `expire_nodest_conn` reschedules nevertheless.
        load: steady load by the wait it was measured with: `none`, `whole`; with the settings that kube-proxy leaves.
    """

    node: Node | None = None
    waits: Waits | None = None
    phases_s: dict[str, float] = field(default_factory=dict)  # how long after the start each phase of the run was over
    sync_s: float = 0  # how long kube-proxy took to bring the kernel up to date, on average
    linger: Linger | None = None
    closed: Deletion | None = None
    unused: Deletion | None = None
    reuse: dict[str, PortReuse] = field(default_factory=dict)
    load: dict[str, SteadyLoad] = field(default_factory=dict)
    datagrams: Datagrams | None = None
    affinity: Affinity | None = None
    returned: Returned | None = None
    timeouts: Timeouts | None = None
    errors: dict[str, str] = field(default_factory=dict)


Value = TypeVar("Value")


def given(value: Value | None) -> Value:
    """What was measured; where it could not be, `errors` says why, and a test fails."""
    assert value is not None
    return value
