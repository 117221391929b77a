"""Checks `spec.drain` and turns it into the core's values."""

from __future__ import annotations

from rollouts.api.problems import Problems
from rollouts.api.v1alpha1.rollout import Drain
from rollouts.core.drain.query import query_problem
from rollouts.core.model import drain as core
from rollouts.core.model.pod_exit import PodExit


def check_drain(wire: Drain | None, problems: Problems) -> None:
    """Adds every rule that `spec.drain` breaks."""
    names: set[str] = set()
    for index, probe in enumerate((wire.probes if wire is not None else None) or ()):
        path = f"spec.drain.probes[{index}]"
        if probe.name is None:
            problems.add_missing(f"{path}.name", "is required")
        elif probe.name in names:
            problems.add(f"{path}.name", f"another probe has the name {probe.name!r} too")
        else:
            names.add(probe.name)
        if (probe.prometheus is None) == (probe.envoy is None):
            has = "neither" if probe.envoy is None else "both"
            problems.add_missing(path, f"needs exactly one of prometheus and envoy; it has {has}")
        if probe.prometheus is not None:
            if probe.prometheus.query is None:
                problems.add_missing(f"{path}.prometheus.query", "is required")
            elif problem := query_problem(probe.prometheus.query):
                problems.add(f"{path}.prometheus.query", problem)


def drain_spec(wire: Drain, ends: PodExit) -> core.DrainSpec:
    """The core's value of `spec.drain`, with all defaults. `check_drain` has found no problem."""
    longest_s = (
        min(core.DEFAULT_MAX_REQUEST_S, ends.grace_s) if wire.max_request_seconds is None else wire.max_request_seconds
    )
    probes: list[core.DrainProbe] = []
    for probe in wire.probes or ():
        name, max_s = probe.name or "", None if probe.max_seconds is None else float(probe.max_seconds)
        if probe.prometheus is None:
            probes.append(core.EnvoyProbe(name=name, max_s=max_s))
            continue
        interval = probe.prometheus.scrape_interval_seconds
        age_s = core.DEFAULT_SCRAPE_S if interval is None else float(interval)
        probes.append(core.PrometheusProbe(name=name, query=probe.prometheus.query or "", max_s=max_s, age_s=age_s))
    return core.DrainSpec(
        mode=core.DrainMode(wire.mode or core.DrainMode.AUTO),
        pre_stop=core.PreStop(wire.pre_stop or core.PreStop.INJECT),
        max_request_s=float(longest_s),
        timeout_s=float(core.DEFAULT_TIMEOUT_S if wire.timeout_seconds is None else wire.timeout_seconds),
        on_timeout=core.OnTimeout(wire.on_timeout or core.OnTimeout.CONTINUE),
        probes=tuple(probes),
    )
