"""Checks `spec.drain` and turns it into the core's values."""

from __future__ import annotations

from rollouts.api.problems import Problems
from rollouts.api.spec.reading import check_needed, core_value
from rollouts.api.v1alpha1.rollout import Drain
from rollouts.core.drain.query import query_problem
from rollouts.core.model import drain as core
from rollouts.core.model.pod_exit import PodExit


def check_drain(wire: Drain | None, problems: Problems) -> None:
    """Adds every rule that `spec.drain` breaks."""
    names: set[str] = set()
    for index, probe in enumerate((wire or Drain.empty()).probes or ()):
        path = f"spec.drain.probes[{index}]"
        check_needed(probe, path, problems)
        if probe.name in names:
            problems.add(f"{path}.name", f"another probe has the name {probe.name!r} too")
        elif probe.name is not None:
            names.add(probe.name)
        if (probe.prometheus is None) == (probe.envoy is None):
            has = "neither" if probe.envoy is None else "both"
            problems.add_missing(path, f"needs exactly one of prometheus and envoy; it has {has}")
        if probe.prometheus is not None:
            check_needed(probe.prometheus, f"{path}.prometheus", problems)
            if probe.prometheus.query is not None and (problem := query_problem(probe.prometheus.query)):
                problems.add(f"{path}.prometheus.query", problem)


def drain_spec(wire: Drain, ends: PodExit) -> core.DrainSpec:
    """The core's value of `spec.drain`, with all defaults. `check_drain` has found no problem."""
    probes: list[core.DrainProbe] = []
    for probe in wire.probes or ():
        if (asked := probe.prometheus) is None:
            probes.append(core_value(core.EnvoyProbe, probe))
            continue
        interval = asked.scrape_interval_seconds
        age_s = core.DEFAULT_SCRAPE_S if interval is None else float(interval)
        probes.append(core_value(core.PrometheusProbe, probe, query=asked.query, age_s=age_s))
    longest = wire.max_request_seconds
    max_request_s = float(min(core.DEFAULT_MAX_REQUEST_S, ends.grace_s) if longest is None else longest)
    return core_value(core.DrainSpec, wire, max_request_s=max_request_s, probes=tuple(probes))
