"""One bad spec for every rule about `spec.drain`."""

from __future__ import annotations

from tests.api.specs import CANARY, Bad, changed, late

_PROBE = "spec.drain.probes[0]"

DRAIN_BAD: tuple[Bad, ...] = (
    Bad("drain mode unknown", changed(CANARY, drain={"mode": "Manual"}), "spec.drain.mode", "Auto"),
    Bad("preStop unknown", changed(CANARY, drain={"preStop": "Maybe"}), "spec.drain.preStop", "Inject"),
    Bad("onTimeout unknown", changed(CANARY, drain={"onTimeout": "Abort"}), "spec.drain.onTimeout", "Continue"),
    Bad("longest request below 0", changed(CANARY, drain={"maxRequestSeconds": -1}), "spec.drain.maxRequestSeconds",
        "0 or more"),
    Bad("longest request of more than a day", changed(CANARY, drain={"maxRequestSeconds": 86_401}),
        "spec.drain.maxRequestSeconds", "86400 or less"),
    Bad("drain timeout of more than a day", changed(CANARY, drain={"timeoutSeconds": 86_401}),
        "spec.drain.timeoutSeconds", "86400 or less"),
    Bad("probe without a name", changed(CANARY, drain={"probes": [{"envoy": {}}]}), f"{_PROBE}.name", "is required"),
    Bad("probe that asks nobody", changed(CANARY, drain={"probes": [{"name": "rq"}]}), _PROBE, "exactly one of"),
    Bad("probe that asks two",
        changed(CANARY, drain={"probes": [{"name": "rq", "envoy": {}, "prometheus": {"query": "x{{revision}}"}}]}),
        _PROBE, "exactly one of"),
    Bad("two probes of one name",
        changed(CANARY, drain={"probes": [{"name": "rq", "envoy": {}}, {"name": "rq", "envoy": {}}]}),
        "spec.drain.probes[1].name", "another probe"),
    Bad("probe without a query", changed(CANARY, drain={"probes": [{"name": "rq", "prometheus": {}}]}),
        f"{_PROBE}.prometheus.query", "is required"),
    late("query of every revision",
        changed(CANARY, drain={"probes": [{"name": "rq", "prometheus": {"query": "sum(in_flight)"}}]}),
        f"{_PROBE}.prometheus.query", "needs {{revision}}"),
    late("query with an unknown place",
        changed(CANARY, drain={"probes": [{"name": "rq", "prometheus": {"query": "x{{revision}}{{pod}}"}}]}),
        f"{_PROBE}.prometheus.query", "{{pod}}"),
)  # fmt: skip
