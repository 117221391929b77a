"""What the guest is asked to measure, and what it answers: plain values that cross the border as JSON.

Times are seconds since the endpoint was taken out of its EndpointSlice (the request was sent), unless a name says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field

STAYING = "staying"
"""What the pod that stays in its Service answers."""

LEAVING = "leaving"
"""What the pod that is taken out answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How kube-proxy is to be run: its `--ipvs-*-timeout` flags, so short that their effect is seen within the run."""

    tcp_timeout_s: int = 30
    tcp_fin_timeout_s: int = 20
    udp_timeout_s: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """The controller's numbers that are put to the test, from the kernel, the flags and the lag that was measured before.

    Args:
        learnt_lag_s: the slowest of the removals that were measured first.
        wait_s: from the endpoint's end in the EndpointSlice to the pod's end, on kernels that reschedule a reused source port.
        reuse_wait_s: the same on kernels that do not (`conn_reuse_mode=0` before Linux 5.9).
    """

    learnt_lag_s: float
    wait_s: int
    reuse_wait_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What kube-proxy runs with, and on.

    Args:
        proxy_mode: as kube-proxy says at /proxyMode.
        settings: kernel settings under net/ipv4/vs as kube-proxy left them.
        timeouts_before_s, timeouts_s: of ipvs for TCP, after a FIN, and UDP, before kube-proxy and with it, as ipvsadm says.
    """

    kernel: str
    proxy_mode: str
    settings: dict[str, int]
    timeouts_before_s: list[int]
    timeouts_s: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Linger:
    """A real server that leaves while connections to it are open.

    Args:
        kept: open connections to the leaving pod.
        asked, answered: requests on them between the removal and their end, and the answers.
        new_staying, new_leaving, new_failed: who answered connections opened after weight 0.
        weight_zero_s: when the kernel's table showed weight 0.
        listed_s: when the server was last seen in the table before its connections were ended.
        ended_s: when its connections were ended (by reset, which the kernel keeps for 10 s).
        deleted_s: when the server was gone from the table.
    """

    kept: int
    asked: int
    answered: int
    new_staying: int
    new_leaving: int
    new_failed: dict[str, int]
    weight_zero_s: float
    listed_s: float
    ended_s: float
    deleted_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """A real server that leaves with only closed connections, or with none.

    Args:
        closed: connections to it that were closed before the removal.
        closed_s: when the last was closed (negative: before the removal).
        weight_zero_seen: whether the table ever showed weight 0.
        deleted_s: when the server was gone from the table.
        time_wait_expires_s: the longest life that the kernel's connection table gave those connections after their end.
    """

    closed: int
    closed_s: float
    weight_zero_seen: bool
    deleted_s: float
    time_wait_expires_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """One more connection from each of the source ports that had been used before the removal.

    Args:
        at_s: when.
        staying, leaving, failed: who answered, or why nobody did.
        failed_on_leaving: the failed ones among the ports whose earlier connection went to the leaving pod.
        slow: those that took a second or longer, as a dropped SYN does.
    """

    at_s: float
    staying: int
    leaving: int
    failed: dict[str, int]
    failed_on_leaving: int
    slow: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PortReuse:
    """Clients that use their source ports again after the pod that served them has gone.

    Args:
        ports: source ports used before the removal.
        on_leaving: those of them whose connection went to the pod that leaves.
        weight_zero_s: when the kernel's table showed weight 0, or the server was gone.
        died_s: when the pod was killed.
        reuses: in order of time.
        fresh_sent, fresh_failed: connections from ports never used before, all the time from before the removal to the end.
        fresh_to_leaving: those of them that the leaving pod answered although it had weight 0.
    """

    ports: int
    on_leaving: int
    weight_zero_s: float
    died_s: float
    reuses: list[Reuse]
    fresh_sent: int
    fresh_failed: dict[str, int]
    fresh_to_leaving: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyLoad:
    """New connections all the time, their source ports taken in turn from a small range, through the removal and the pod's end.

    Args:
        late_to_leaving: answered by the leaving pod later than 1 s after it had weight 0.
        slow: those that took a second or longer.
    """

    sent: int
    failed: dict[str, int]
    first_failure_s: float | None
    last_failure_s: float | None
    late_to_leaving: int
    slow: int
    weight_zero_s: float
    died_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Datagrams:
    """UDP flows with fixed source ports, a request every half second, through the removal of a pod that lives on.

    Args:
        on_leaving: flows that the leaving pod answered before the removal.
        weight_zero_seen: whether the table ever showed weight 0.
        deleted_s: when the real server was gone from the table.
        moved: flows of the leaving pod that the staying pod answered in the end.
        lost: unanswered requests of the flows of the leaving pod, in total.
        lost_by_one_flow: the most that one flow lost.
        lost_by_others: unanswered requests of the other flows.
        late_to_leaving: answers of the leaving pod later than 1 s after the server was gone.
    """

    flows: int
    on_leaving: int
    weight_zero_seen: bool
    deleted_s: float
    moved: int
    lost: int
    lost_by_one_flow: int
    lost_by_others: int
    late_to_leaving: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity:
    """`sessionAffinity: ClientIP`, and the pod that the client sticks to leaves.

    Args:
        before: connections to the one pod that the client stuck to, of `sent_before`.
        moved: connections opened after weight 0 that the other pod answered, of `sent_after`.
        kept_answered: whether a connection opened before still was answered by the first pod after that.
    """

    sent_before: int
    before: int
    sent_after: int
    moved: int
    kept_answered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """An endpoint that is taken out and put back, as by a selector that is switched and switched back.

    Args:
        kept: open connections to it.
        answered: those of them that it answered after its return.
        new_to_it: connections opened after its return that it answered, of `new_sent`.
    """

    kept: int
    answered: int
    new_sent: int
    new_to_it: int
    weight_zero_s: float
    back_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long the kernel keeps an entry that hears nothing, and what a client sees that was silent for longer.

    Args:
        established_s, fin_wait_s, time_wait_s, udp_s: what the connection table gave a fresh entry of that state.
        idle_s: how long the connection was silent.
        after_idle: who answered then, or why nobody did.
    """

    established_s: float
    fin_wait_s: float
    time_wait_s: float
    udp_s: float
    idle_s: float
    after_idle: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Everything that one boot of the guest has shown; None is what could not be measured, and `errors` says why.

    Args:
        phases_s: how long after the start each phase of the run was over.
        sync_s: how long kube-proxy took to bring the kernel up to date, on average.
        reuse: port reuse by the wait it was measured with: `none`, `half`, `whole`, and `renewed` (whole, and the ports were
            used once more in the middle of the wait), with the settings of a kernel that does not reschedule; `fixed` with
            `conn_reuse_mode=0` alone, where this kernel's `expire_nodest_conn` reschedules nevertheless.
        load: steady load by the wait it was measured with: `none`, `whole`; with the settings that kube-proxy leaves.
    """

    node: Node | None = None
    waits: Waits | None = None
    phases_s: dict[str, float] = field(default_factory=dict)
    sync_s: float = 0
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
