"""Promise: what a recipe says is sent, and nothing else; of an answer what it says counts, and what does not has its reason.

Recipes are made up here, so that each of their fields is alone in a case; those of servers are held by the servers' fakes.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from rollouts.core.analysis.recipe import (
    AnswerForm,
    AnswerPlan,
    AskTemplate,
    Exchange,
    Limits,
    Recipe,
    ResultKind,
    Setting,
    TimeForm,
)
from rollouts.core.analysis.servers.declared import DeclaredQuery
from rollouts.core.analysis.servers.influxdb import InfluxDB
from rollouts.core.analysis.servers.new_relic import NewRelic
from rollouts.core.analysis.source import ServerQuery
from rollouts.core.model.frozen import replace
from rollouts.metrics.answer_forms import decoded_answer
from rollouts.metrics.recipe_answers import AnswerReader
from rollouts.metrics.recipe_requests import BODY_MAX_BYTES, URL_MAX, places_of, request_from
from rollouts.metrics.recipes import data_of, endpoint_of, request_of
from rollouts.metrics.requests import HttpAnswer, HttpRequest, MetricEndpoint, Window
from rollouts.metrics.samples import Absence, Document, NoEvidence, Numbers, ResultShape, Sample
from rollouts.secret import Secret
from tests.metrics.answers import NOW_S

WINDOW = Window(NOW_S, NOW_S - 300)
NEWEST = AnswerPlan(
    kind=ResultKind.NEWEST, result="all[*]", values="at[*][1]", times="at[*][0]", listed="many", refused=("no", "never"),
    whole=(("checked", (True,)), ("done", (True, None))), more=("next",), counts=("hits",),
)  # fmt: skip
ALL = AnswerPlan(kind=ResultKind.ALL, result="all[*]", values="at[*][1]", times="at[*][0]")
TIMELESS = AnswerPlan(kind=ResultKind.ALL, result="all[*]", values="v[*]", times="t[*]", timeless=True)
BARE = AnswerPlan(kind=ResultKind.NEWEST, result="all[*]")
WITHIN = AnswerPlan(kind=ResultKind.DOCUMENT, result="all", series="all[*]", values="at[*][1]", times="at[*][0]")
VALUE = AnswerPlan(kind=ResultKind.DOCUMENT, result="it", times="end", missing=("made", "empty"))
ROWS = AnswerPlan(kind=ResultKind.ROWS, result="it")

UNREADABLE = NoEvidence("the answer is not one of It's API", Absence.ERROR)
REFUSED = NoEvidence("It refuses the query", Absence.ERROR)
NOT_WHOLE = NoEvidence("It says that the answer is not whole")
NO_NUMBER = NoEvidence("a value is no number", Absence.ERROR)
LATE = NoEvidence("the newest value is older than what was asked for")
FUTURE = NoEvidence("a value is of the future: a clock, or a unit of time, is wrong")
A_PART = NoEvidence("the answer has further pages, so it is a part only: let the query give less")
MADE_UP = NoEvidence("a value is one that the server has made up, as it has none")
NO_ORDER = NoEvidence("the values of a result are not in the order that was asked for")


def _series(*series: list[tuple[float, Any]], **more: Any) -> dict[str, Any]:
    """The points of each series, with the age of each; the answer is whole and has measured something."""
    return {"all": [{"at": [[NOW_S - age_s, value] for age_s, value in each]} for each in series], "hits": 1, **more}


def _numbers(shape: ResultShape, *samples: tuple[float, float, int]) -> Numbers:
    return Numbers(shape, tuple(Sample(value, NOW_S - age_s, place) for age_s, value, place in samples))


SCALAR, VECTOR, MATRIX = ResultShape.SCALAR, ResultShape.VECTOR, ResultShape.MATRIX


@pytest.mark.parametrize(
    ("plan", "body", "found"),
    [
        (NEWEST, _series([(20, 1), (10, 2), (15, 3)]), _numbers(SCALAR, (10, 2, 0))),
        (NEWEST, _series([(20, 1)], many=["a"]), _numbers(VECTOR, (20, 1, 0))),
        (NEWEST, _series([(20, 1)], many=[]), _numbers(SCALAR, (20, 1, 0))),
        (NEWEST, _series([(9, 1)], [(20, 2), (8, None)]), _numbers(VECTOR, (9, 1, 0), (20, 2, 1))),
        (NEWEST, _series(), _numbers(VECTOR)),
        (NEWEST, _series([(9, None)]), _numbers(SCALAR)),
        (NEWEST, _series([(9, None)], [(9, 1)]), NoEvidence("one of the series has no value")),
        (NEWEST, _series([(9, 1)], [(9, True)]), NO_NUMBER),
        (NEWEST, _series([(9, 1)], hits=0), NoEvidence("nothing was found that could be measured")),
        (NEWEST, {"all": []}, UNREADABLE),
        (NEWEST, _series([(9, 1)], never="x"), REFUSED),
        (NEWEST, _series([(9, 1)], no="", next="2"), A_PART),
        (NEWEST, _series([(9, 1)], done=False), NOT_WHOLE),
        (NEWEST, _series([(9, 1)], checked=False), NOT_WHOLE),
        (NEWEST, _series([(9, 1)], checked=True, done=None), _numbers(SCALAR, (9, 1, 0))),
        (NEWEST, _series([(305, 1)]), _numbers(SCALAR, (305, 1, 0))),
        (NEWEST, _series([(306, 1)]), LATE),
        (NEWEST, _series([(-5, 1)]), _numbers(SCALAR, (-5, 1, 0))),
        (NEWEST, _series([(9, 1), (-6, 1)]), FUTURE),
        (NEWEST, [], UNREADABLE),
        (replace(NEWEST, unit=TimeForm.MILLISECONDS, counts=()), {"all": [{"at": [[NOW_S * 1_000, 1]]}]},
            _numbers(SCALAR, (0, 1, 0))),
        (replace(NEWEST, unit=TimeForm.RFC3339, counts=()), {"all": [{"at": [["2026-09-21T14:13:20Z", 1]]}]},
            _numbers(SCALAR, (0, 1, 0))),
        (replace(NEWEST, unit=TimeForm.MINUTE), _series([(9, 1)]), UNREADABLE),
        (replace(NEWEST, times="at[0][0]"), _series([(9, 1), (8, 1)]), UNREADABLE),
        (ALL, _series([(400, 0), (20, 1), (10, 2)], [(305, 3)]), _numbers(MATRIX, (20, 1, 0), (10, 2, 0), (305, 3, 1))),
        (TIMELESS, {"all": [{"v": [1, 2], "t": []}, {"v": [3], "t": [NOW_S - 9]}]},
            _numbers(MATRIX, (0, 1, 0), (0, 2, 0), (9, 3, 1))),
        (replace(TIMELESS, timeless=False), {"all": [{"v": [1], "t": []}]}, UNREADABLE),
        (BARE, {"all": [1, 2]}, _numbers(VECTOR, (0, 1, 0), (0, 2, 1))),
        (WITHIN, _series([(9, 1), (10, 2)], [(8, 3)]),
            Document(_series([(9, 1.0), (10, 2.0)], [(8, 3.0)])["all"], counted=(1.0, 2.0, 3.0))),
        (WITHIN, _series([(10, 1), (9, 2)]), NO_ORDER),
        (WITHIN, _series([(9, 1)], [(9, None)]), NoEvidence("one of the results has no value")),
        (WITHIN, _series([(9, "1")]), NO_NUMBER),
        (VALUE, {"it": {"a": 1}}, Document({"a": 1.0})),
        (VALUE, {"it": {"a": 1}, "end": NOW_S - 305}, Document({"a": 1.0})),
        (VALUE, {"it": {"a": 1}, "end": NOW_S - 306}, LATE),
        (VALUE, {"it": {"a": 1}, "end": "x"}, UNREADABLE),
        (VALUE, {"it": [{"a": {"empty": True}}]}, MADE_UP),
        (VALUE, {"it": {"a": 0, "empty": False, "made": "x"}}, Document({"a": 0.0, "empty": False, "made": "x"})),
        (ROWS, {"it": [{"a": 1}]}, Document({"a": 1.0}, rows=1)),
        (ROWS, {"it": [1, 2]}, Document([1.0, 2.0], rows=2)),
        (ROWS, {"it": []}, Document([], rows=0)),
        (ROWS, {"it": 1}, UNREADABLE),
        (ROWS, {}, UNREADABLE),
    ],
)  # fmt: skip
def test_an_answer_is_what_its_plan_makes_of_it(plan: AnswerPlan, body: Any, found: Any) -> None:
    """Numbers with their times and series, or the reason in words of ours, and whether it is an error."""
    assert AnswerReader("It", plan, WINDOW).data_of(json.dumps(body).encode()) == found


@pytest.mark.parametrize(
    ("window", "age_s", "found"),
    [
        (Window(NOW_S), 5, _numbers(SCALAR, (5, 1, 0))),
        (Window(NOW_S), 6, LATE),
        (Window(NOW_S, NOW_S - 7_200), 900, _numbers(SCALAR, (900, 1, 0))),
        (Window(NOW_S, NOW_S - 7_200), 901, LATE),
    ],
    ids=["of now", "not of now", "of the last quarter of an hour", "not of it"],
)
def test_the_newest_number_is_of_the_time_that_is_asked_for(window: Window, age_s: float, found: Any) -> None:
    """However long that is, what is 15 minutes old is from before the canary."""
    body = json.dumps(_series([(age_s, 1)])).encode()
    assert AnswerReader("It", NEWEST, window).data_of(body) == found


FLUX = """\
#datatype,string,long,dateTime:RFC3339,dateTime:RFC3339,double
#group,false,false,true,false,false
#default,_result,,,,
,result,table,_stop,_time,_value
,,0,2026-09-21T14:00:00Z,2026-09-21T13:59:00Z,1.5
,,0,2026-09-21T14:00:00Z,2026-09-21T13:59:30Z,
,,1,2026-09-21T14:00:00Z,2026-09-21T13:59:00Z,2

#datatype,string,long,dateTime:RFC3339,unsignedLong
,result,table,_stop,_value
,,0,2026-09-21T14:01:00Z,3

#datatype,string,long,string
,result,table,_value
,,0,4

#datatype,string,string
,error,reference
,failed,897
,,1
"""


def test_tables_of_flux_are_those_of_each_part() -> None:
    """Each part counts its tables from 0; of several times the one of the value is its own, and a text is no number."""
    assert decoded_answer(FLUX.replace("\n", "\r\n").encode(), AnswerForm.FLUX) == {
        "tables": [
            {"values": [1.5, None], "times": ["2026-09-21T13:59:00Z", "2026-09-21T13:59:30Z"]},
            {"values": [2.0], "times": ["2026-09-21T13:59:00Z"]},
            {"values": [3.0], "times": ["2026-09-21T14:01:00Z"]},
            {"values": ["4"], "times": []},
        ],
        "errors": ["failed", "error"],
    }
    assert decoded_answer(b"", AnswerForm.FLUX) == {"tables": [], "errors": []}
    head = b"#datatype,string,long,double\n,result,table,_value\n"
    for digits, value in ((65_536, 1.0), (65_537, "0" * 65_536 + "1")):
        answer = head + b",,0," + b"0" * (digits - 1) + b"1\n"
        assert decoded_answer(answer, AnswerForm.FLUX)["tables"] == [{"values": [value], "times": []}]


SIGNALS = """\
id: 1
retry: 5
event: control-message
data: {"event": "STREAM_START"}

: a comment

event:data
data:{"logicalTimestampMs": 1000,
data: "data": [{"tsId": "A", "value": 1}, {"tsId": "B", "value": 2}]}

event: data
data: {"logicalTimestampMs": 2000, "data": [{"tsId": "A", "value": 3}]}

event: control-message
data: {"event": "END_OF_CHANNEL"}

event: data
data: {"logicalTimestampMs": 3000, "data": []}
"""


@pytest.mark.parametrize(
    ("more", "ended", "errors"),
    [
        ("", True, []),
        ('event: error\ndata: {"error": 1}\n\n', True, ["error"]),
        ('event: message\ndata: {"errors": []}\n\n', True, ["error"]),
        ('event: control-message\ndata: {"event": "CHANNEL_ABORT"}\n\n', True, ["error"]),
    ],
)
def test_events_of_signal_flow_become_series(more: str, ended: bool, errors: list[str]) -> None:
    """Of each time series its values in their order; the last event does not count, as it has no end."""
    assert decoded_answer((more + SIGNALS).encode(), AnswerForm.SIGNAL_FLOW) == {
        "series": [{"values": [1, 3], "times": [1000, 2000]}, {"values": [2], "times": [1000]}],
        "ended": ended,
        "errors": errors,
    }


PLAIN = MetricEndpoint(url="https://it.example/base/", declared=True, kind="declared")
ITS = AskTemplate(
    path="/q/{{query}}/x", method="POST", times=TimeForm.RFC3339,
    query=(("a", "{{query}}"), ("n", "{{none}}"), ("l", "{{list}}"), ("t", "{{timeout}}s"), ("f", "{{half}} {{yes}}")),
    headers=(("X-Org", " {{org}}:{{account}} "),),
    body={"{{query}}": ["{{list}}", "{{yes}}", "from {{start}} to {{end}}"], "w": "{{window}}", "n": 1, "s": "{{whole}}"},
)  # fmt: skip
IT = Recipe(
    name="it", title="It", text="", fields=DeclaredQuery,
    exchanges=(Exchange(ask=ITS, read=NEWEST),),
    settings=(Setting(name="org", text="name of the organisation", default="shop"),
        Setting(name="account", text="number of the account", number=True)),
)  # fmt: skip
VALUES: dict[str, Any] = {
    "query": "a/b ü", "none": "", "list": ["x", "", 2.0], "half": 0.5, "whole": 3.0, "yes": True, "timeout": 30,
    "org": "shop", "account": 7, "start": "S", "end": "E", "window": 300,
}  # fmt: skip


def test_places_are_filled_with_times_settings_and_fields() -> None:
    """Settings that nobody gives have their default; a field of the metric comes before all of them."""
    fields = DeclaredQuery(query="up", fields={"window": "mine"}, interval_s=60)
    endpoint = replace(PLAIN, settings=(("account", "7"),))

    assert places_of(IT, fields, endpoint, WINDOW, TimeForm.SECONDS, Limits(timeout_s=12.5)) == {
        "start": 1_789_999_700, "end": 1_790_000_000, "window": "mine", "timeout": 12, "org": "shop", "account": 7,
        "metric_provider": "", "query": "up", "fields": {"window": "mine"}, "interval_s": 60,
    }  # fmt: skip
    assert places_of(IT, fields, PLAIN, WINDOW, TimeForm.SECONDS, Limits()) == NoEvidence(
        "It needs the number of the account: its MetricProvider must say it in spec.settings.account", Absence.ERROR
    )


@pytest.mark.parametrize(
    ("form", "start", "end"),
    [
        (TimeForm.SECONDS, 1_789_999_700, 1_790_000_000),
        (TimeForm.MILLISECONDS, 1_789_999_700_500, 1_790_000_000_000),
        (TimeForm.RFC3339, "2026-09-21T14:08:20Z", "2026-09-21T14:13:20Z"),
        (TimeForm.MINUTE, "2026-09-21 1408", "2026-09-21 1413"),
    ],
)
def test_times_are_written_as_the_server_reads_them(form: TimeForm, start: Any, end: Any) -> None:
    """In UTC; an instant is its own beginning."""
    recipe = replace(IT, settings=())
    places = places_of(recipe, DeclaredQuery(), PLAIN, Window(NOW_S, NOW_S - 299.5), form, Limits())
    instant = places_of(recipe, DeclaredQuery(), PLAIN, Window(NOW_S), form, Limits())

    assert isinstance(places, dict)
    assert isinstance(instant, dict)
    assert (places["start"], places["end"], places["window"]) == (start, end, 299)
    assert (instant["start"], instant["end"], instant["window"]) == (end, end, 0)


@pytest.mark.parametrize(
    ("changes", "body", "more"),
    [
        ({}, b'{"a/b \xc3\xbc":[["x","",2.0],true,"from S to E"],"w":300,"n":1,"s":3.0}',
            (("Content-Type", Secret("application/json")),)),
        ({"body": "{{query}} {{whole}}"}, b"a/b \xc3\xbc 3", (("Content-Type", Secret("text/plain")),)),
        ({"body": None}, b"", ()),
        ({"body": {}, "headers": (("content-TYPE", "x"), ITS.headers[0])}, b"{}", ()),
    ],
    ids=["JSON", "a text", "none", "a type of its own"],
)  # fmt: skip
def test_a_request_is_its_template_with_values(changes: dict[str, Any], body: bytes, more: Any) -> None:
    """A value stays in its place: encoded in path and parameters, with its type in JSON, and each of a list once."""
    own = (("content-TYPE", Secret("x")),) if len(changes) == 2 else ()

    assert request_from(replace(ITS, **changes), VALUES, PLAIN, Limits(timeout_s=9)) == HttpRequest(
        url="https://it.example/base/q/a%2Fb%20%C3%BC/x?a=a%2Fb%20%C3%BC&l=x&l=2&t=30s&f=0.5%20true",
        method="POST", headers=(*own, ("X-Org", Secret("shop:7")), *more), body=body, timeout_s=9,
    )  # fmt: skip


def test_a_request_without_parameters_has_no_question_mark() -> None:
    """Some servers take it for a parameter without a name."""
    found = request_from(AskTemplate(path="/q"), {}, PLAIN, Limits())

    assert found == HttpRequest(url="https://it.example/base/q", timeout_s=30)


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (AskTemplate(path="/{{other}}"), "the recipe has a place 'other' that the metric does not fill"),
        (AskTemplate(path="/{{" + "o" * 41 + "}}"),
            f"the recipe has a place '{'o' * 40}' that the metric does not fill"),
        (AskTemplate(path="/", body="{{broken}}"), "the query has half of a surrogate pair in it, which is no text"),
        (AskTemplate(path="/" + "a" * (URL_MAX - 23)),
            "the query is too long: it may have 16384 characters in a URL, or 131072 bytes in a body"),
        (AskTemplate(path="/", body="a" * (BODY_MAX_BYTES + 1)),
            "the query is too long: it may have 16384 characters in a URL, or 131072 bytes in a body"),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_is_told(ask: AskTemplate, why: str) -> None:
    """Before anybody is asked."""
    assert request_from(ask, {"broken": "\ud800"}, PLAIN, Limits()) == NoEvidence(why, Absence.ERROR)


def test_the_longest_request_is_sent() -> None:
    """Both at once."""
    ask = AskTemplate(path="/" + "a" * (URL_MAX - 24), body="a" * BODY_MAX_BYTES)
    found = request_from(ask, {}, PLAIN, Limits())

    assert isinstance(found, HttpRequest)
    assert (len(found.url), len(found.body)) == (URL_MAX, BODY_MAX_BYTES)


def _of(kind: str, name: str = "") -> ServerQuery:
    fields = {"influxdb": InfluxDB(query="q"), "newRelic": NewRelic(query="q")}
    return ServerQuery(kind=kind, fields=fields[kind], endpoint=name, timeout_s=10)


FLUX_SERVER = MetricEndpoint(url="https://flux/base", declared=True, kind="influxdb")
OTHER = MetricEndpoint(url="https://other", declared=True)


@pytest.mark.parametrize(
    ("name", "declared", "found"),
    [
        ("", {"a": FLUX_SERVER, "b": OTHER}, FLUX_SERVER),
        ("", {"b": OTHER}, "InfluxDB is asked by a MetricProvider of type influxdb: declare one"),
        ("", {"a": FLUX_SERVER, "c": FLUX_SERVER},
            "InfluxDB is asked by a MetricProvider of type influxdb: there are 2, so the metric must name one"),
        ("a", {"a": FLUX_SERVER, "c": FLUX_SERVER}, FLUX_SERVER),
        ("b", {"a": FLUX_SERVER, "b": OTHER}, "MetricProvider b is not of type influxdb"),
        ("c", {"a": FLUX_SERVER}, "there is no MetricProvider c: declare it, with type influxdb"),
        ("https://flux/base/", {"b": OTHER, "a": FLUX_SERVER}, FLUX_SERVER),
        ("https://other", {"b": OTHER, "a": FLUX_SERVER}, MetricEndpoint(url="https://other", kind="influxdb")),
    ],
)  # fmt: skip
def test_the_server_is_the_one_that_is_named_or_the_only_one(
    name: str, declared: dict[str, MetricEndpoint], found: MetricEndpoint | str
) -> None:
    """Never one of another type; and a URL that nobody declared gets no credentials and no private address."""
    wanted = NoEvidence(found, Absence.ERROR) if isinstance(found, str) else found
    assert endpoint_of(_of("influxdb", name), declared) == wanted


def test_a_kind_without_a_recipe_needs_one() -> None:
    """Its MetricProvider has it."""
    source = ServerQuery(kind="declared", fields=DeclaredQuery(query="q"), timeout_s=10)

    assert request_of(source, PLAIN, WINDOW) == NoEvidence("its MetricProvider has no recipe", Absence.ERROR)


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (401, "New Relic does not take the credentials (401)"),
        (403, "New Relic does not take the credentials (403)"),
        (500, "New Relic answers 500"),
    ],
)
def test_a_status_says_what_to_look_at(status: int, why: str) -> None:
    """Credentials, or the server."""
    assert data_of(HttpAnswer(status=status, body=b"{}"), _of("newRelic"), WINDOW) == NoEvidence(why, Absence.ERROR)
