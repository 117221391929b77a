"""The guest's program: reads /run/host/plan.json, measures, writes /run/host/measured.json and switches the guest off.

Run by init.sh inside the user-mode Linux, never on a machine of one's own: it makes namespaces and switches off.
"""

from __future__ import annotations

import asyncio
import ctypes
import http.client
import json
import os
import re
import subprocess
import time
import traceback
from collections.abc import Coroutine, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rollouts.core.context.drain_numbers import drain_numbers
from rollouts.core.model.drain import DrainSpec, ProxyFacts, ProxyMode
from rollouts.core.model.frozen import replace
from tests.ipvs.guest import experiments, network, tables, traffic
from tests.ipvs.guest.control_plane import ControlPlane, Service
from tests.ipvs.guest.experiments import Lab
from tests.ipvs.plan import LEAVING, STAYING, Measured, Node, Plan, Waits
from tests.lab.processes import Processes

_SHARED = Path("/run/host")
_STAY = "stay"
_REUSE_CASES = ("none", "half", "whole", "renewed")
_CASES = (
    *_REUSE_CASES,
    *("fixed", "linger", "closed", "unused", "load-none", "load-whole", "udp", "affinity", "returned"),
)
_SETTINGS = ("conn_reuse_mode", "expire_nodest_conn", "expire_quiescent_template", "conntrack")
_PROXY_WITHIN_S = 120.0
_APART_S = 0.7
_SYNC = "kubeproxy_sync_proxy_rules_duration_seconds"
_POWER_OFF = 0x4321FEDC  # <linux/reboot.h>


def main() -> None:
    """Measures and switches off, whatever happens."""
    measured: dict[str, Any] = {}
    try:
        plan = Plan(**json.loads((_SHARED / "plan.json").read_text()))
        measured = asdict(_measure(plan))
    except Exception:  # the console log and the host's test tell
        measured = {"errors": {"guest": traceback.format_exc()}}
    finally:
        _write(_SHARED / "measured.json", json.dumps(measured))
        os.sync()
        ctypes.CDLL(None).reboot(_POWER_OFF)


def _write(path: Path, text: str) -> None:
    """The host sees the file only when it is whole."""
    part = path.with_suffix(".new")
    with part.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())  # the guest's kernel writes to the host later, else
    part.replace(path)


def _measure(plan: Plan) -> Measured:
    started = time.monotonic()
    node = network.node_network("node", [_STAY, *_CASES])
    network.build(node)
    servers = {pod.name: traffic.serve(pod, says=STAYING if pod.name == _STAY else LEAVING) for pod in node.pods}
    _say(f"network and {len(servers)} pods after {time.monotonic() - started:.1f} s")
    return asyncio.run(_measure_on(plan, node, servers, started))


async def _measure_on(
    plan: Plan, node: network.NodeNetwork, servers: dict[str, traffic.Server], started: float
) -> Measured:
    phases = {"network": time.monotonic() - started}
    timeouts_before_s = _ipvs_timeouts(node.name)
    processes = Processes(_SHARED / "logs")
    plane = ControlPlane(Path(os.environ["ROLLOUTS_PROGRAMS"]), processes)
    await plane.start()
    phases["apiserver"] = time.monotonic() - started
    _say(f"kube-apiserver ready after {phases['apiserver']:.1f} s")
    services = _services(node)
    await plane.add_node(node)
    for service in services.values():
        await plane.add_service(service)
    plane.start_proxy(
        node,
        f"--ipvs-tcp-timeout={plan.tcp_timeout_s}s",
        f"--ipvs-tcpfin-timeout={plan.tcp_fin_timeout_s}s",
        f"--ipvs-udp-timeout={plan.udp_timeout_s}s",
    )
    seen = tables.Tables([node.name])
    sampling = asyncio.create_task(seen.sample())
    lab = Lab(plan, plane, seen, servers)
    await seen.until(
        lambda: all(lab.weight(one, pod) == 1 for one in services.values() for pod in one.pods),
        within_s=_PROXY_WITHIN_S,
        what="all real servers in the tables",
    )
    while not (await asyncio.to_thread(_syncs, node.name))[0]:  # the first goes on after the last real server
        processes.check()
        await asyncio.sleep(0.5)
    found = Node(
        kernel=os.uname().release,
        proxy_mode=(await asyncio.to_thread(_get, node.name, "/proxyMode")),
        settings={name: network.setting(node.name, f"ipv4/vs/{name}") for name in _SETTINGS},
        timeouts_before_s=timeouts_before_s,
        timeouts_s=_ipvs_timeouts(node.name),
    )
    phases["proxy"] = time.monotonic() - started
    _say(f"kube-proxy ready after {phases['proxy']:.1f} s: {found}")
    results, errors = await _run_all(lab, services)
    sampling.cancel()
    phases["experiments"] = time.monotonic() - started
    count, spent_s = await asyncio.to_thread(_syncs, node.name)
    _say(f"{count} syncs of {spent_s / count:.1f} s")
    processes.stop(patience_s=1)
    same_name = ("waits", "linger", "closed", "unused", "affinity", "returned", "timeouts")
    return Measured(
        node=found,
        phases_s=phases,
        sync_s=spent_s / count,
        reuse={name: results[name] for name in (*_REUSE_CASES, "fixed") if name in results},
        load={name: results[f"load-{name}"] for name in ("none", "whole") if f"load-{name}" in results},
        datagrams=results.get("udp"),
        errors=errors,
        **{name: results.get(name) for name in same_name},
    )


async def _run_all(lab: Lab, services: Mapping[str, Service]) -> tuple[dict[str, Any], dict[str, str]]:
    """As many at the same time as their settings allow: the run is little longer than the two minutes that TIME_WAIT lasts."""
    results: dict[str, Any] = {}
    errors: dict[str, str] = {}

    async def run(name: str, experiment: Coroutine[Any, Any, Any]) -> None:
        try:
            results[name] = await experiment
            _say(f"{name}: {results[name]}")
        except Exception:  # the others go on; the test of this one fails with the words
            errors[name] = traceback.format_exc()
            _say(f"{name} failed: {errors[name]}")

    def begin(name: str, experiment: Coroutine[Any, Any, Any]) -> asyncio.Task[None]:
        return asyncio.create_task(run(name, experiment))

    long = [
        begin("closed", experiments.closed(lab, services["closed"])),
        begin("linger", experiments.linger(lab, services["linger"])),
        begin("timeouts", experiments.timeouts(lab, services["timeouts"], services["timeouts-udp"])),
    ]
    await asyncio.sleep(_APART_S)
    for name, experiment in (
        ("udp", experiments.datagrams),
        ("affinity", experiments.affinity),
        ("returned", experiments.returned),
        ("unused", experiments.unused),
    ):
        await run(name, experiment(lab, services[name]))

    waits = _waits(lab)
    results["waits"] = waits
    _say(f"{waits}")
    await asyncio.gather(
        run("load-none", experiments.steady_load(lab, services["load-none"], dies_s=0)),
        run("load-whole", experiments.steady_load(lab, services["load-whole"], dies_s=waits.wait_s)),
    )

    # From here on a kernel before 5.9, as kube-proxy sets it; but one with the fix of Linux 5.16, as this kernel is.
    node = services["fixed"].node
    network.setting(node, "ipv4/vs/conn_reuse_mode", 0)
    await run(
        "fixed", experiments.port_reuse(lab, services["fixed"], dies_s=waits.wait_s, reused_s=[waits.wait_s + 1.5])
    )
    # And now one without it: there conn_reuse_mode=0 keeps expire_nodest_conn from looking at reused ports.
    network.setting(node, "ipv4/vs/expire_nodest_conn", 0)
    whole = waits.reuse_wait_s
    for name, dies_s, reused_s in (
        ("whole", whole, [whole + 1.5]),
        ("renewed", whole, [whole / 2, whole + 1.5]),
        ("half", whole / 2, [whole / 2 + 2]),
        ("none", 0, [2.0]),
    ):
        long.append(begin(name, experiments.port_reuse(lab, services[name], dies_s=dies_s, reused_s=reused_s)))
        await asyncio.sleep(_APART_S)
    await asyncio.gather(*long)
    return results, errors


def _waits(lab: Lab) -> Waits:
    """What the controller derives when it has seen these removals; the flags are told to it too."""
    facts = ProxyFacts(
        mode=ProxyMode.IPVS,
        oldest_kernel=(6, 1),
        ipvs_tcp_timeout_s=lab.flags.tcp_timeout_s,
        ipvs_tcp_fin_timeout_s=lab.flags.tcp_fin_timeout_s,
        learnt_lag_s=max(lab.lags_s),
    )
    return Waits(
        learnt_lag_s=max(lab.lags_s),
        wait_s=drain_numbers(DrainSpec(), facts).pre_stop_s,
        reuse_wait_s=drain_numbers(DrainSpec(), replace(facts, oldest_kernel=(5, 8))).pre_stop_s,
    )


def _services(node: network.NodeNetwork) -> dict[str, Service]:
    """A Service a case, of the pod that stays and the case's own; and two of the former alone, for the timeouts."""
    staying, *leaving = node.pods
    alone = {"timeouts": "TCP", "timeouts-udp": "UDP"}
    return {
        name: Service(name, node.name, f"10.96.0.{100 + place}", (staying,), protocol=protocol)
        for place, (name, protocol) in enumerate(alone.items())
    } | {
        name: Service(
            name,
            node.name,
            f"10.96.0.{10 + place}",
            (staying, pod),
            protocol="UDP" if name == "udp" else "TCP",
            affinity="ClientIP" if name == "affinity" else "None",
        )
        for place, (name, pod) in enumerate(zip(_CASES, leaving, strict=True))
    }


def _ipvs_timeouts(node: str) -> list[int]:
    """Of an open TCP connection, one after a FIN, and UDP, in seconds."""
    asked = ["ip", "netns", "exec", node, "ipvsadm", "-L", "--timeout"]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    return [int(word) for word in said.partition(":")[2].split()]


def _syncs(node: str) -> tuple[int, float]:
    """How many times kube-proxy has brought the kernel up to date, and how long that took altogether, by its own metrics."""
    metrics = _get(node, "/metrics")
    count, spent_s = (re.search(rf"^{_SYNC}_{end}\b.* (\S+)$", metrics, re.MULTILINE) for end in ("count", "sum"))
    return (int(float(count[1])), float(spent_s[1])) if count and spent_s else (0, 0.0)


def _get(node: str, path: str) -> str:
    """What kube-proxy answers on its node."""
    with network.inside(node):
        connection = http.client.HTTPConnection("127.0.0.1", 10249, timeout=20)
        connection.request("GET", path)
        return connection.getresponse().read().decode()


def _say(line: str) -> None:
    print(f"guest: {line}", flush=True)


if __name__ == "__main__":
    main()
