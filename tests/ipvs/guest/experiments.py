"""What is done to each Service, and what its clients saw. Each function is one experiment, and they run at the same time."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from tests.ipvs import plan
from tests.ipvs.guest import network, tables
from tests.ipvs.guest.control_plane import ControlPlane, Service, server_place
from tests.ipvs.guest.traffic import Answer, Connection, Flow, Server, ask_once, failures
from tests.ipvs.plan import LEAVING, STAYING

SEEN_WITHIN_S = 40.0  # for kube-proxy to carry out one change; the guest has one processor for everything
CHECKED_EVERY_S = 60.0  # kube-proxy's check of the real servers with weight 0 (`rsCheckDeleteInterval`)
_SANDBOX_LIVES_S = 0.5  # after its container: the kubelet takes the pod's namespace away a moment later
_REUSED_PORTS = 30
_LOAD_PORTS = 100
_LOAD_EVERY_S = 0.08
_FRESH_EVERY_S = 0.3
_FRESH_PORTS = 600  # more than the longest wait has room for
_FLOW_PORTS = range(22_000, 22_012)
_FLOW_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Lab:
    """What every experiment works with; `servers` by pod name, `lags_s` from a removal to its being in the kernel."""

    flags: plan.Plan
    plane: ControlPlane
    seen: tables.Tables
    servers: dict[str, Server]
    lags_s: list[float] = field(default_factory=list)

    def weight(self, service: Service, pod: network.Pod) -> int | None:
        """Weight of a pod's real server in the kernel; None when it is not there."""
        return self.seen.weight(service.node, service.place, server_place(pod))

    def zero_was_seen(self, service: Service, pod: network.Pod) -> bool:
        """Whether the pod's real server has had weight 0."""
        return self.seen.zero_was_seen(service.node, service.place, server_place(pod))

    async def unweighted(self, service: Service, pod: network.Pod) -> float:
        """Waits until no new connection is scheduled to the pod, which was taken out just now; the time."""
        asked = time.monotonic()
        what = f"{pod.name} without weight in {service.name}"
        at = await self.seen.until(lambda: self.weight(service, pod) in {0, None}, within_s=SEEN_WITHIN_S, what=what)
        self.lags_s.append(at - asked)
        return at

    async def deleted(self, service: Service, pod: network.Pod, *, within_s: float) -> float:
        """Waits until the pod's real server is gone; the time."""
        what = f"{pod.name} gone from {service.name}"
        return await self.seen.until(lambda: self.weight(service, pod) is None, within_s=within_s, what=what)

    async def take_out(self, service: Service) -> float:
        """The second pod of a Service begins to terminate; the time at which that was asked for."""
        staying, leaving = service.pods
        asked = time.monotonic()
        await self.plane.set_endpoints(service, [staying], [leaving])
        return asked

    async def kill(self, pod: network.Pod) -> float:
        """Ends a pod's app, and a moment later its sandbox; the time of the former."""
        died = time.monotonic()
        self.servers[pod.name].kill()
        await asyncio.sleep(_SANDBOX_LIVES_S)
        network.remove(pod.name)
        return died


async def linger(lab: Lab, service: Service) -> plan.Linger:
    """Connections stay open across the removal, longer than kube-proxy's check is apart, and are reset then."""
    leaving = service.pods[1]
    connections = [Connection(network.CLIENT, service.place) for _ in range(10)]
    kept = [one for one in connections if (await one.ask()).by == LEAVING]
    removed = await lab.take_out(service)
    zero = await lab.unweighted(service, leaving)
    new = [await ask_once(network.CLIENT, service.place) for _ in range(20)]
    answers: list[Answer] = []
    listed = zero
    while time.monotonic() < removed + CHECKED_EVERY_S + 5:
        answers += await asyncio.gather(*(one.ask() for one in kept))
        if lab.weight(service, leaving) == 0:
            listed = time.monotonic()
        await asyncio.sleep(1)
    for one in connections:
        one.reset()
    ended = time.monotonic()
    deleted = await lab.deleted(service, leaving, within_s=CHECKED_EVERY_S + 30)
    return plan.Linger(
        kept=len(kept),
        asked=len(answers),
        answered=_by(answers, LEAVING),
        new_staying=_by(new, STAYING),
        new_leaving=_by(new, LEAVING),
        new_failed=failures(new),
        listed_s=listed - removed,
        ended_s=ended - removed,
        deleted_s=deleted - removed,
    )


async def closed(lab: Lab, service: Service) -> plan.Deletion:
    """All connections are closed in the usual way before the removal; the kernel remembers them in TIME_WAIT."""
    leaving = service.pods[1]
    answers = [await ask_once(network.CLIENT, service.place) for _ in range(6)]
    last = max(one.at for one in answers if one.by == LEAVING)
    remembered = tables.entries_of(service.node, server_place(leaving), state="TIME_WAIT")
    removed = await lab.take_out(service)
    await lab.unweighted(service, leaving)
    deleted = await lab.deleted(service, leaving, within_s=2 * CHECKED_EVERY_S + 90)
    return plan.Deletion(
        closed=_by(answers, LEAVING),
        closed_s=last - removed,
        weight_zero_seen=lab.zero_was_seen(service, leaving),
        deleted_s=deleted - removed,
        time_wait_expires_s=max((one.expires_s for one in remembered), default=0),
    )


async def unused(lab: Lab, service: Service) -> plan.Deletion:
    """Nobody has ever connected."""
    leaving = service.pods[1]
    removed = await lab.take_out(service)
    deleted = await lab.deleted(service, leaving, within_s=SEEN_WITHIN_S)
    seen = lab.zero_was_seen(service, leaving)
    return plan.Deletion(
        closed=0, closed_s=0, weight_zero_seen=seen, deleted_s=deleted - removed, time_wait_expires_s=0
    )


async def port_reuse(lab: Lab, service: Service, *, dies_s: float, reused_s: Sequence[float]) -> plan.PortReuse:
    """Source ports are used, the pod leaves and dies `dies_s` after, and the ports are used again at `reused_s`."""
    leaving = service.pods[1]
    ports = _ports(service, _REUSED_PORTS)
    before = await _ask_from(service, ports)
    async with _fresh_connections(service) as fresh:
        removed = await lab.take_out(service)
        zero = asyncio.create_task(lab.unweighted(service, leaving))
        dying = asyncio.create_task(_kill_at(lab, leaving, removed + dies_s))
        reuses = []
        for at_s in reused_s:
            await _sleep_until(removed + at_s)
            started = time.monotonic()
            again = await _ask_from(service, ports)
            reuses.append(_reuse(before, again, at_s=started - removed))
        died, unweighted = await dying, await zero
    return plan.PortReuse(
        ports=len(before),
        on_leaving=_by(before, LEAVING),
        weight_zero_s=unweighted - removed,
        died_s=died - removed,
        reuses=reuses,
        fresh_sent=len(fresh),
        fresh_failed=failures(fresh),
        fresh_to_leaving=sum(one.by == LEAVING and one.at > unweighted + 1 for one in fresh),
    )


async def steady_load(lab: Lab, service: Service, *, dies_s: float) -> plan.SteadyLoad:
    """12 connections a second, each source port again after 8 s, from one round before the removal to 8 s after the pod's end."""
    leaving = service.pods[1]
    ports = _ports(service, _LOAD_PORTS)
    asking: list[asyncio.Task[Answer]] = []
    stop = asyncio.Event()

    async def ask_on() -> None:
        due = time.monotonic()
        while not stop.is_set():
            port = ports[len(asking) % len(ports)]
            asking.append(asyncio.create_task(ask_once(network.CLIENT, service.place, source_port=port)))
            due += _LOAD_EVERY_S
            await _sleep_until(due)

    load = asyncio.create_task(ask_on())
    await asyncio.sleep(len(ports) * _LOAD_EVERY_S)
    if dies_s == 0:  # the kubelet and the EndpointSlice controller hear of the end at the same time
        died, removed = await asyncio.gather(lab.kill(leaving), lab.take_out(service))
    else:
        removed = await lab.take_out(service)
        died = removed
    zero = await lab.unweighted(service, leaving)
    if dies_s:
        died = await _kill_at(lab, leaving, removed + dies_s)
    await asyncio.sleep(8)
    stop.set()
    await load
    answers = [await one for one in asking]
    return plan.SteadyLoad(
        sent=len(answers),
        failed=failures(answers),
        late_to_leaving=sum(one.by == LEAVING and one.at > zero + 1 for one in answers),
        slow=sum(one.seconds >= 1 for one in answers),
        weight_zero_s=zero - removed,
        died_s=died - removed,
    )


async def datagrams(lab: Lab, service: Service) -> plan.Datagrams:
    """UDP flows go on while one of the two pods leaves the Service and lives on."""
    leaving = service.pods[1]
    flows = [Flow(network.CLIENT, service.place, port) for port in _FLOW_PORTS]
    before = await _round(flows)
    removed = await lab.take_out(service)
    deletion = asyncio.create_task(lab.deleted(service, leaving, within_s=SEEN_WITHIN_S))
    rounds = []
    while not deletion.done() or time.monotonic() < await deletion + 4:
        started = time.monotonic()
        rounds.append(await _round(flows))
        await _sleep_until(started + _FLOW_EVERY_S)
    deleted = await deletion
    for flow in flows:
        flow.close()
    lost = [sum(bool(answers[number].failure) for answers in rounds) for number in range(len(flows))]
    was_leaving = [one.by == LEAVING for one in before]
    return plan.Datagrams(
        on_leaving=sum(was_leaving),
        weight_zero_seen=lab.zero_was_seen(service, leaving),
        deleted_s=deleted - removed,
        moved=sum(was and one.by == STAYING for was, one in zip(was_leaving, rounds[-1], strict=True)),
        lost_by_one_flow=max((count for was, count in zip(was_leaving, lost, strict=True) if was), default=0),
        lost_by_others=sum(count for was, count in zip(was_leaving, lost, strict=True) if not was),
        late_to_leaving=sum(one.by == LEAVING and one.at > deleted + 1 for answers in rounds for one in answers),
    )


async def affinity(lab: Lab, service: Service) -> plan.Affinity:
    """The client sticks to one pod, which leaves, with a connection open to it."""
    kept = Connection(network.CLIENT, service.place)
    name = (await kept.ask()).by
    before = [await ask_once(network.CLIENT, service.place) for _ in range(6)]
    if name == STAYING:
        service = replace(service, pods=service.pods[::-1])
    await lab.take_out(service)
    await lab.unweighted(service, service.pods[1])
    after = [await ask_once(network.CLIENT, service.place) for _ in range(6)]
    kept_answered = (await kept.ask()).by == name
    kept.close()
    return plan.Affinity(
        sent_before=len(before),
        before=_by(before, name),
        sent_after=len(after),
        moved=sum(one.by not in {name, ""} for one in after),
        kept_answered=kept_answered,
    )


async def returned(lab: Lab, service: Service) -> plan.Returned:
    """A pod is dropped from the slice without terminating, has weight 0, and comes back while connections to it are open."""
    staying, leaving = service.pods
    connections = [Connection(network.CLIENT, service.place) for _ in range(8)]
    kept = [one for one in connections if (await one.ask()).by == LEAVING]
    await lab.plane.set_endpoints(service, [staying])
    await lab.unweighted(service, leaving)
    await lab.plane.set_endpoints(service, [staying, leaving])
    what = f"{leaving.name} back in {service.name}"
    await lab.seen.until(lambda: lab.weight(service, leaving) == 1, within_s=SEEN_WITHIN_S, what=what)
    answers = [await one.ask() for one in kept]
    new = [await ask_once(network.CLIENT, service.place) for _ in range(10)]
    for one in connections:
        one.close()
    return plan.Returned(kept=len(kept), answered=_by(answers, LEAVING), new_sent=len(new), new_to_it=_by(new, LEAVING))


async def timeouts(lab: Lab, service: Service, udp_service: Service) -> plan.Timeouts:
    """One connection of each kind, what the kernel gives it to live, and one that is silent for longer than that."""
    client, server = network.CLIENT, server_place(service.pods[0])
    silent = Connection(client, service.place, 23_001)
    half = Connection(client, service.place, 23_002)
    flow = Flow(client, udp_service.place, 23_004)
    await silent.ask()
    silent_since = time.monotonic()
    await half.ask(b"half")
    await ask_once(client, service.place, source_port=23_003)
    await flow.ask(within_s=2)
    expires = {
        (one.source_port, one.state): float(one.expires_s)
        for one in tables.entries_of(service.node, server)
        if one.service in {service.place, udp_service.place}
    }
    flow.close()
    half.reset()
    await _sleep_until(silent_since + lab.flags.tcp_timeout_s + 6)
    idle_s = time.monotonic() - silent_since
    answer = await silent.ask()
    silent.reset()
    return plan.Timeouts(
        established_s=expires.get((23_001, "ESTABLISHED"), -1),
        fin_wait_s=expires.get((23_002, "FIN_WAIT"), -1),
        time_wait_s=expires.get((23_003, "TIME_WAIT"), -1),
        udp_s=expires.get((23_004, "UDP"), -1),
        idle_s=idle_s,
        after_idle=answer.by or answer.failure,
    )


@asynccontextmanager
async def _fresh_connections(service: Service) -> AsyncIterator[list[Answer]]:
    """Connections from ports never used before, one after another; the list is whole when the context is left.

    The kernel's own choice would not do: it begins anew every 10 s at a place of chance (RFC 6056, as Linux has it),
    so one in a hundred or so had been used within the 120 s that IPVS remembers.
    """
    answers: list[Answer] = []
    stop = asyncio.Event()

    async def ask_on() -> None:
        for port in _fresh_ports(service):
            answers.append(await ask_once(network.CLIENT, service.place, source_port=port))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _FRESH_EVERY_S)
            if stop.is_set():
                return
        raise RuntimeError(f"{service.name}: {_FRESH_PORTS} fresh ports did not last; raise _FRESH_PORTS")

    asking = asyncio.create_task(ask_on())
    try:
        yield answers
    finally:
        stop.set()
        await asking


def _reuse(before: Sequence[Answer], again: Sequence[Answer], *, at_s: float) -> plan.Reuse:
    return plan.Reuse(
        at_s=at_s,
        staying=_by(again, STAYING),
        leaving=_by(again, LEAVING),
        failed=failures(again),
        failed_on_leaving=sum(
            bool(now.failure) and then.by == LEAVING for then, now in zip(before, again, strict=True)
        ),
        slow=sum(one.seconds >= 1 for one in again),
    )


def _ports(service: Service, count: int) -> range:
    """Source ports of a Service's own: behind two Services on one pod, a client's port would meet its own connection there."""
    first = 10_000 + 200 * _number(service)
    return range(first, first + count)


def _fresh_ports(service: Service) -> range:
    """Of a Service's own too, apart from all others here and below those that the kernel gives (from 32,768)."""
    first = 22_100 + _FRESH_PORTS * _number(service)
    return range(first, first + _FRESH_PORTS)


def _number(service: Service) -> int:
    return int(service.address.rpartition(".")[2])


async def _ask_from(service: Service, ports: Sequence[int]) -> list[Answer]:
    return list(await asyncio.gather(*(ask_once(network.CLIENT, service.place, source_port=port) for port in ports)))


async def _round(flows: Sequence[Flow]) -> list[Answer]:
    return list(await asyncio.gather(*(one.ask(within_s=_FLOW_EVERY_S * 0.9) for one in flows)))


async def _kill_at(lab: Lab, pod: network.Pod, at: float) -> float:
    await _sleep_until(at)
    return await lab.kill(pod)


async def _sleep_until(at: float) -> None:
    await asyncio.sleep(max(at - time.monotonic(), 0))


def _by(answers: Sequence[Answer], name: str) -> int:
    return sum(one.by == name for one in answers)
