"""One bad spec for every rule about `spec.drain`."""

from __future__ import annotations

from typing import Any

from tests.api.specs import CANARY, Bad, Spec, changed, late

_PROBE = "spec.drain.probes[0]"


def _drain(**fields: Any) -> Spec:
    return changed(CANARY, drain=fields)


def _probes(*probes: Spec) -> Spec:
    return _drain(probes=list(probes))


DRAIN_BAD: tuple[Bad, ...] = (
    Bad("drain mode unknown", _drain(mode="Manual"), "spec.drain.mode", "Auto"),
    Bad("preStop unknown", _drain(preStop="Maybe"), "spec.drain.preStop", "Inject"),
    Bad("onTimeout unknown", _drain(onTimeout="Abort"), "spec.drain.onTimeout", "Continue"),
    Bad("longest request below 0", _drain(maxRequestSeconds=-1), "spec.drain.maxRequestSeconds", "0 or more"),
    Bad("longest request of more than a day", _drain(maxRequestSeconds=86_401),
        "spec.drain.maxRequestSeconds", "86400 or less"),
    Bad("drain timeout of more than a day", _drain(timeoutSeconds=86_401), "spec.drain.timeoutSeconds", "86400 or less"),
    Bad("probe without a name", _probes({"envoy": {}}), f"{_PROBE}.name", "is required"),
    Bad("probe that asks nobody", _probes({"name": "rq"}), _PROBE, "exactly one of"),
    Bad("probe that asks two",
        _probes({"name": "rq", "envoy": {}, "prometheus": {"query": "x{{revision}}"}}), _PROBE, "exactly one of"),
    Bad("two probes of one name",
        _probes({"name": "rq", "envoy": {}}, {"name": "rq", "envoy": {}}), "spec.drain.probes[1].name", "another probe"),
    Bad("probe without a query", _probes({"name": "rq", "prometheus": {}}), f"{_PROBE}.prometheus.query", "is required"),
    late("query of every revision",
        _probes({"name": "rq", "prometheus": {"query": "sum(in_flight)"}}), f"{_PROBE}.prometheus.query", "needs {{revision}}"),
    late("query with an unknown place",
        _probes({"name": "rq", "prometheus": {"query": "x{{revision}}{{pod}}"}}), f"{_PROBE}.prometheus.query", "{{pod}}"),
)  # fmt: skip
