"""Where texts and lists of others come in, each with inputs of a size that anybody may choose."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from rollouts.api.status.analysis_run import read_run_status
from rollouts.api.status.wire import read_status
from rollouts.api.times import parse_time
from rollouts.api.v1alpha1.wire import parse_duration, parse_int_or_percent
from rollouts.cluster.decoding import Decoder
from rollouts.cluster.json_parts import members, shallow
from rollouts.cluster.structs import RolloutObject, annotators_of
from rollouts.core.advice.graceful_exit import sigterm, sleep_s_of
from rollouts.core.advice.service_contradictions import contradictions
from rollouts.core.analysis.source import PrometheusQuery
from rollouts.core.config.content import content_hash, hashing
from rollouts.core.config.references import references
from rollouts.core.drain.query import query_problem
from rollouts.core.placeholders import filled, is_unclosed, named_in
from rollouts.core.promql import filled_query, is_selector, metrics_named_in
from rollouts.errors import RolloutsError
from rollouts.manifests.analysis_job import success_policy_holds
from rollouts.manifests.ownership import config_note_of, injection_of, pod_metadata_of
from rollouts.metrics.autoscalers import listed_autoscalers
from rollouts.metrics.expr_cel import cel_of, reads_of
from rollouts.metrics.expr_parser import parsed
from rollouts.metrics.kubernetes_values import go_duration_s, quantity
from rollouts.metrics.metric_values import metric_values
from rollouts.metrics.prometheus import data_of
from rollouts.metrics.requests import HttpAnswer, Window
from rollouts.metrics.samples import document
from rollouts.metrics.web import json_path
from rollouts.probes.traefik import live_share
from rollouts.traffic.alb.action import Action
from rollouts.traffic.codec import LEDGER
from rollouts.traffic.rules.ledger import ledger_of
from tests.probes.dumps import question

REFUSED = (RolloutsError, ValueError)
"""What an entry point may raise for what it does not take."""


@dataclass(frozen=True)
class EntryPoint:
    """A function that reads what others wrote.

    Args:
        name: unique.
        make: an input of that size; several ways of being hostile have several entry points.
        read: what is done with it.
        most: the largest size that comes in: characters of a text, or items of a list.
        surface: the same for all entry points that read texts with one function; "" for one that reads no text.
    """

    name: str
    make: Callable[[int], Any]
    read: Callable[[Any], object]
    most: int
    surface: str = ""

    def call(self, given: Any) -> None:
        """Reads it; a refusal is an answer."""
        with suppress(*REFUSED):
            self.read(given)


MIB = 1_048_576
ANNOTATION = 262_144
CRD_TEXT = 4_096
QUERY = 16_384


def texts(name: str, read: Callable[[str], object], most: int, *units: str) -> list[EntryPoint]:
    """An entry point for each text that is a unit, many times."""
    return [EntryPoint(f"{name} of {unit!r}", partial(_repeated, unit), read, most, name) for unit in units]


def _repeated(unit: str, size: int) -> str:
    return (unit * (size // len(unit) + 1))[:size]


def _refuse(name: str, why: str) -> None:
    """Nothing."""


def _layers(size: int) -> bytes:
    """Services of Traefik in nine layers, each of which leads to all of the next."""
    wide = max(1, size // 9)
    services = {
        f"l{layer}-{index}@kubernetescrd": {
            "weighted": {"services": [{"name": f"l{layer + 1}-{each}", "weight": 1} for each in range(min(wide, 4))]}
        }
        for layer in range(9)
        for index in range(wide)
    }
    routers = {"r@kubernetescrd": {"rule": "Host(`a`)", "service": "l0-0", "status": "enabled"}}
    return json.dumps({"routers": routers, "services": services}).encode()


def _watched(unit: bytes) -> Callable[[int], bytes]:
    """A line of a watch whose object has the unit many times, and the depth at which Python's own limit is met."""
    deep = b"[" * 1_000 + b"]" * 1_000
    line = b'{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"b","resourceVersion":"7"},"spec":{"d":%b,"x":[%b]}}}'
    return lambda size: line % (deep, b",".join([unit] * (size // (len(unit) + 1))))


def _event(line: bytes) -> object:
    return Decoder(RolloutObject).event(line)


def _pod(field: str, item: Callable[[int], Any]) -> Callable[[int], Any]:
    return lambda size: {"spec": {"containers": [{"name": "a", field: [item(each) for each in range(size)]}]}}


def _refer(template: Any) -> object:
    return references(template, secrets=True)


def _lists(name: str, item: Callable[[int], Any], **more: Any) -> Callable[[int], Any]:
    """An object with a list of so many items in one of its fields."""
    return lambda size: {**more, name: [item(number) for number in range(size)]}


def _as_json(make: Callable[[int], Any]) -> Callable[[int], bytes]:
    return lambda size: json.dumps(make(size)).encode()


def _note(text: str) -> object:
    readers = {"ephemeral-metadata": pod_metadata_of, "pre-stop": injection_of, "config": config_note_of}
    return [read({f"rollouts.dev/{name}": text}) for name, read in readers.items()]


def _command(number: int) -> Any:
    about = {"verb": "promote", "revision": "a", "at": "2026-01-01T00:00:00Z", "outcome": "Accepted"}
    return {**about, "value": f"v{number}"}


def _managed(number: int) -> Any:
    fields: Any = {"f:metadata": {"f:annotations": {"f:rollouts.dev/a": {}}}}
    return {"manager": f"m{number}", "time": "t", "fieldsV1": fields}


def _measured(size: int) -> Any:
    measurements = [{"phase": "Successful", "value": "1"} for _ in range(size)]
    return {"phase": "Running", "metricResults": [{"name": "m", "measurements": measurements}]}


def _routers(size: int) -> Any:
    router = {"rule": "Path(`/`)", "service": "s", "status": "enabled"}
    return {"routers": {f"httproute-shop-cart-gw-{number}@a": router for number in range(size)}, "services": {}}


def _vector(size: int) -> HttpAnswer:
    result = [{"metric": {"pod": f"p-{each}"}, "value": [1, "1"]} for each in range(size)]
    found = {"status": "success", "data": {"resultType": "vector", "result": result}}
    return HttpAnswer(status=200, body=json.dumps(found).encode())


ENTRY_POINTS: tuple[EntryPoint, ...] = (
    *texts("a success policy",
        lambda text: success_policy_holds({"rules": [{"succeededIndexes": text}] * 20}, "0-99998"), 4_096, "0-99999,",
        "1,", "-", ",", "9"),
    *texts("completed indexes", lambda text: success_policy_holds({"rules": [{"succeededCount": 10**8}]}, text), MIB,
        "1,3,", "0-9,", "9"),
    *texts("a JSONPath", json_path.__wrapped__, CRD_TEXT, "[", ".a", "['a", "\\", "[0]", ".a\\"),
    *texts("a query's metrics", metrics_named_in, QUERY, "{", "a(", "[", "by (", '"', "a ", "{a=", "#", "{{args.a}}",
        "1", "\\"),
    *texts("a selector", is_selector, QUERY, "{", "a", ","),
    *texts("a drain's query", query_problem, CRD_TEXT, "{", "a{b='c'}", "by (", "sum(", "[1m]", "{{", "namespace=",
        "("),
    *texts("a filled query", lambda text: filled_query(text, lambda _: "1", _refuse), QUERY, "{{args.a}}",
        '"{{args.a}}', "\\{{args.a}}", "`", "{{"),
    *texts("places", lambda text: (named_in(text), is_unclosed(text), filled(text, lambda _: "x")), QUERY, "{{a}}",
        "{{", "{", "}", "{{{a}}"),
    *texts("an expr condition", lambda text: cel_of(parsed(text), defaults=True), 1_024, "(", "[", "!", "-", "1+", "a.",
        "a?b:", "result[0]", "all(", "not ", "a ?? ", "1..", "{", "'", "filter(result, ", "1 in ", "a|"),
    *texts("what an expr condition reads", lambda text: reads_of(parsed(text)), 1_024, "result[0]+", "1+", "-",
        "result.a.", "(", "!"),
    *texts("a quantity", quantity, MIB, "9", "1.", "1e9", "0", "+"),
    *texts("Go's duration", go_duration_s, MIB, "1h", "1.1", "1", "h"),
    *texts("a duration", parse_duration, MIB, "1", "1h", ".", "1.", "1.1"),
    *texts("an amount", parse_int_or_percent, MIB, "1", "%"),
    *texts("a time", parse_time, MIB, "1", "2026-01-01T00:00:00Z", "0"),
    *texts("a script", lambda text: sigterm(["sh", "-c", text]), MIB, "a", ";", "a;", "'", '"', "\\", "#\n", "a|b\n",
        " ", "exec ", "wait ", "if;fi;"),
    *texts("a shell's flags", lambda text: sigterm(["sh", "-" + text, "a"]), MIB, "c", "-", "ca"),
    *texts("a preStop", lambda text: sleep_s_of(["sh", "-c", text]), MIB, "sleep ", "9", "a "),
    *texts("a note on a route", lambda text: ledger_of({"metadata": {"annotations": {LEDGER: text}}}), ANNOTATION, "[",
        '{"a":', '{"pairs":[', "9", '{"share":"1e9', " "),
    *texts("an ALB action", Action.of, ANNOTATION, "[", '{"a":', "9", " "),
    *texts("a note on a ReplicaSet", _note, ANNOTATION, "[", '{"a":', "9", "[{},"),
    EntryPoint("an object of many levels", _watched(b"[" * 4_500 + b"]" * 4_500), _event, MIB),
    EntryPoint("an object of many brackets", _watched(b"[[],{}]"), _event, MIB),
    EntryPoint("containers with variables",
        _pod("env", lambda n: {"name": f"a{n}", "valueFrom": {"configMapKeyRef": {"name": f"c{n}"}}}), _refer, 1_024),
    EntryPoint("containers with sources", _pod("envFrom", lambda n: {"secretRef": {"name": f"c{n}"}}), _refer, 3_300),
    EntryPoint("volumes",
        lambda size: {"spec": {"containers": [], "volumes": [{"configMap": {"name": f"c{n}"}} for n in range(size)]}},
        _refer, 256),
    EntryPoint("a Service's ports",
        lambda size: {"spec": {"selector": {"a": "b"}, "ports": [{"port": n, "targetPort": f"p{n}"} for n in range(size)]}},
        lambda service: list(contradictions(service, {"spec": {"containers": []}}, rollout="cart")), 20_000),
    EntryPoint("a piece of a ConfigMap's keys", lambda size: {f"k{n}": "v" for n in range(size)},
        lambda data: next(hashing(data, None), None), 50_000),
    EntryPoint("commands in status", _lists("commands", _command), read_status, 5_000),
    EntryPoint("conditions in status",
        _lists("conditions", lambda n: {"type": f"T{n}", "status": "True", "reason": "A", "message": "m"}), read_status,
        10_000),
    EntryPoint("history in status", _lists("history", lambda n: {"revision": f"r{n}", "outcome": "Promoted"}),
        read_status, 10_000),
    EntryPoint("measurements of a run", _measured, read_run_status, 10_000),
    EntryPoint("results of a run",
        _lists("metricResults", lambda n: {"name": f"m{n}", "phase": "Running"}, phase="Running"), read_run_status,
        10_000),
    EntryPoint("a web answer", _lists("a", lambda n: {"b": n}), document, 50_000),
    EntryPoint("a metric's values", _as_json(_lists("items", lambda _: {"metricName": "m", "value": "1"})),
        metric_values, 10_000),
    EntryPoint("autoscalers",
        _as_json(_lists("items", lambda n: {"metadata": {"name": f"a{n}", "namespace": "b"}, "spec": {}})),
        listed_autoscalers, 5_000),
    EntryPoint("managed fields", _as_json(lambda size: list(map(_managed, range(size)))),
        lambda raw: annotators_of(raw, ["rollouts.dev/a"], prefix="rollouts.dev/"), 5_000),
    EntryPoint("services in services of Traefik", _layers, lambda raw: live_share(raw, question()), 900),
)  # fmt: skip

OF_A_BROKEN_SERVER: tuple[EntryPoint, ...] = (
    *texts("JSON in parts", lambda text: list(members(text.encode())), MIB, "[", "{", '"', "\\", ",", '{"a":', '"\\"'),
    *texts("JSON made shallow", lambda text: shallow(text.encode(), most_levels=64), MIB, "[", '{"a":', '"', "]", "[]"),
)
"""What no tenant can bring about: work in proportion is enough."""

ELSEWHERE: tuple[EntryPoint, ...] = (
    EntryPoint("a ConfigMap's keys", lambda size: {f"k{n}": "v" for n in range(size)},
        lambda data: content_hash(data, None), 50_000),
    EntryPoint("series of Prometheus", _vector, lambda answer: data_of(answer, PrometheusQuery(query=""), Window(1.0)), 10_000),
    EntryPoint("routers of Traefik", _as_json(_routers), lambda raw: live_share(raw, question()), 2_000),
)  # fmt: skip
"""What is read in pieces, in a thread when it is long, or in the process that may be ended: work in proportion is enough."""
