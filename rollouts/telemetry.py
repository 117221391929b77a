"""Structured logs, Prometheus metrics, and an optional OpenTelemetry span for each pass."""

from __future__ import annotations

import logging
import sys
from collections import Counter as Counted
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from functools import cache, partial
from itertools import islice
from typing import Any, Protocol

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.status import Phase, RolloutStatus
from rollouts.objects import Key, Kind
from rollouts.settings import LogFormat, LogLevel

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The content type of `Telemetry.exposition`: Prometheus' text format."""

# A pass takes 0.3 to 1 ms without writes and 10 to 100 ms with them.
_PASS_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


def set_up_logging(*, log_format: LogFormat, log_level: LogLevel, own_process: bool) -> None:
    """Writes one line for each event to standard error: JSON for machines, or coloured text for people at a terminal.

    Args:
        own_process: nothing else in this process sets up logging, so every logger may keep its first configuration.
    """
    level = logging.getLevelNamesMapping()[log_level.upper()]
    last: list[Any] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if log_format == "json"
        # rich would format nicer tracebacks and cost 10 MiB.
        else [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            *last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=own_process,
    )
    logging.basicConfig(
        level=max(level, logging.WARNING), stream=sys.stderr, format="%(levelname)s %(name)s %(message)s"
    )


class WatchedTable(Protocol):
    """A watched kind, as far as metrics show it."""

    kind: Kind

    @property
    def unreadable(self) -> Sized:
        """Objects that exist and cannot be read."""
        ...

    def age_s(self) -> float:
        """Seconds since its watches last sent anything."""
        ...


class AnalysisMetrics:
    """The part of the controller's metrics that is about AnalysisRuns. No label is a name of a run, a metric or a query."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        self.measurements = counter("rollouts_measurements", "Measurements of AnalysisRuns.", ["source", "phase"])
        self.measurement_seconds = Histogram(
            "rollouts_measurement_seconds",
            "Duration of a measurement, with the answer of whoever was asked.",
            ["source"],
            buckets=_PASS_BUCKETS_S,
            registry=registry,
        )
        self.measurements_active = gauge("rollouts_measurements_active", "Measurements that are being taken.")
        self.measurements_waiting = gauge(
            "rollouts_measurements_waiting", "Measurements that are due and wait for their turn."
        )
        self.runs = counter("rollouts_analysis_runs", "AnalysisRuns that are over, by phase.", ["phase"])
        self.runs_active = gauge("rollouts_analysis_runs_active", "AnalysisRuns that are not over.")
        self.errors = counter(
            "rollouts_analysis_errors", "Looks at AnalysisRuns that failed, by class of error.", ["error"]
        )


class RolloutMetrics(Collector):
    """Rollouts by phase for each namespace, and by name for the first `limit` Rollouts; 0 turns the names off.

    The series are made when they are read, so what is over or gone leaves none behind. The revision is no label, as each update
    would make a new series; neither is `waitingFor.reason`, which changes several times in a step.
    """

    def __init__(self, registry: CollectorRegistry, *, limit: int) -> None:
        self.shown: dict[Key, tuple[Phase, str]] = {}
        """By Rollout its phase, and the reason of its condition Ready. The longest known comes first."""
        self._limit = limit
        gauge = partial(Gauge, registry=registry)
        gauge("rollouts_info_limit", "How many Rollouts may have a series of rollouts_info.").set(limit)
        omitted = gauge("rollouts_info_omitted", "Rollouts without a series of rollouts_info.")
        omitted.set_function(lambda: float(max(0, len(self.shown) - limit)))
        registry.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The series as they are now."""
        found = Counted((key.namespace, phase.value) for key, (phase, _) in self.shown.items())
        yield _by_phase("rollouts_phase", "Rollouts by phase.", found, Phase)
        labels = ("namespace", "name", "phase", "reason")
        info = GaugeMetricFamily("rollouts_info", "1 for each Rollout, with its phase and the reason.", labels=labels)
        for key, (phase, reason) in islice(self.shown.items(), self._limit):
            info.add_metric((key.namespace, key.name, phase.value, reason), 1.0)
        yield info


class ExperimentMetrics(Collector):
    """Experiments by phase for each namespace. None has a name: one runs once, and would leave a series behind in Prometheus.

    Failed looks have a count of their own, as those at AnalysisRuns have: an alert about passes is about Rollouts.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        text = "Looks at Experiments that failed, by class of error."
        self.errors = Counter("rollouts_experiment_errors", text, ["error"], registry=registry)
        self.shown: dict[Key, AnalysisPhase] = {}
        """By Experiment its phase."""
        registry.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The series as they are now."""
        found = Counted((key.namespace, phase.value) for key, phase in self.shown.items())
        yield _by_phase("rollouts_experiment_phase", "Experiments by phase.", found, AnalysisPhase)


def _by_phase(name: str, text: str, found: Counted[tuple[str, str]], phases: Iterable[str]) -> GaugeMetricFamily:
    """How many there are by namespace and phase. A namespace that has some has every phase."""
    family = GaugeMetricFamily(name, text, labels=("namespace", "phase"))
    for namespace in sorted({namespace for namespace, _ in found}):
        for phase in phases:
            family.add_metric((namespace, str(phase)), found[namespace, str(phase)])
    return family


class Telemetry:
    """The controller's metrics, in a registry of their own, so that several controllers fit into one process.

    Only `rollouts_info` has labels with the name of an object: the number of all other series must not grow with the cluster.
    """

    def __init__(self, *, rollout_series: int = 0) -> None:
        # They would be a second series for each counter, which nobody reads.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has not annotated it
        registry = CollectorRegistry()
        self._registry = registry
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry, buckets=_PASS_BUCKETS_S)
        self.passes = counter("rollouts_passes", "Passes over a Rollout.", ["outcome"])
        self.pass_seconds = histogram("rollouts_pass_seconds", "Duration of a pass, including its writes.")
        self.errors = counter("rollouts_pass_errors", "Passes that failed, by class of error.", ["error"])
        self.requests = counter("rollouts_api_requests", "Requests to the API server.", ["verb", "resource", "code"])
        self.credentials_refused = gauge("rollouts_credentials_refused", "1 while the API server answers 401.")
        self.request_seconds = histogram(
            "rollouts_api_request_seconds", "Duration of requests to the API server.", ["verb"]
        )
        self.queue_depth = gauge("rollouts_queue_depth", "Rollouts waiting for a worker.")
        self.barrier_waits = counter(
            "rollouts_barrier_waits", "Passes postponed until the watch has shown the last write."
        )
        self.events_dropped = counter("rollouts_events_dropped", "Events that were not sent.", ["why"])
        self.flux_events_dropped = counter(
            "rollouts_flux_events_dropped", "Events that Flux was not sent or did not accept.", ["why"]
        )
        self.route_writes = counter(
            "rollouts_route_writes",
            "Writes of routes and of the objects that the controller owns beside them.",
            ["router"],
        )
        self.route_drifts = counter(
            "rollouts_route_drifts", "Routes that somebody else changed and the controller set again."
        )
        self.analysis = AnalysisMetrics(registry)
        self.leader = gauge("rollouts_leader", "1 while this process may write.")
        self.watch_ages = gauge(
            "rollouts_watch_age_seconds",
            "Time since the watch last sent anything: bookmarks come about once a minute. +Inf before the first list.",
            ["resource"],
        )
        self.unreadable = gauge("rollouts_unreadable_objects", "Objects that exist and cannot be read.", ["resource"])
        self._shown = RolloutMetrics(registry, limit=rollout_series).shown
        self.experiments = ExperimentMetrics(registry)
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def on_request(self, verb: str, plural: str, status: int, seconds: float) -> None:
        """Counts one request; `status` 0 when there was no answer."""
        self.requests.labels(verb, plural, str(status)).inc()
        self.request_seconds.labels(verb).observe(seconds)

    def show(self, key: Key, status: RolloutStatus | None) -> None:
        """Shows the phase of the Rollout and its reason; None when the Rollout is gone."""
        if status is None:
            self._shown.pop(key, None)
        else:
            ready = (condition.reason for condition in status.conditions if condition.type == "Ready")
            self._shown[key] = (status.phase, next(ready, ""))

    def show_experiment(self, key: Key, phase: AnalysisPhase | None) -> None:
        """Shows the phase of the Experiment; None when it is gone."""
        if phase is None:
            self.experiments.shown.pop(key, None)
        else:
            self.experiments.shown[key] = phase

    def forget_objects(self) -> None:
        """Shows no Rollout and no Experiment: this process no longer leads, and the next leader shows them."""
        self._shown.clear()
        self.experiments.shown.clear()

    def follow_table(self, table: WatchedTable) -> None:
        """Adds the kind's watches and unreadable objects to the metrics."""
        kind = table.kind
        resource = f"{kind.plural}/{kind.view}" if kind.view else kind.plural
        self.watch_ages.labels(resource).set_function(table.age_s)
        self.unreadable.labels(resource).set_function(lambda: float(len(table.unreadable)))


@contextmanager
def pass_span(key: Key) -> Iterator[None]:
    """An OpenTelemetry span around one pass if the process uses OpenTelemetry; otherwise nothing."""
    tracer = _tracer()
    if tracer is None:
        yield
        return
    with tracer.start_as_current_span(
        "rollouts.pass", attributes={"k8s.namespace.name": key.namespace, "rollouts.name": key.name}
    ):
        yield


@cache
def _tracer() -> Any | None:
    """The tracer; None when the process does not use OpenTelemetry, as spans would only cost time then."""
    # Importing the API costs 25 ms and 4 MiB, so only a process that already uses it gets spans.
    trace = sys.modules.get("opentelemetry.trace")
    return None if trace is None else trace.get_tracer("rollouts")
