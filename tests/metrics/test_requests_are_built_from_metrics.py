"""Promise: what a metric asks becomes one request, or is refused with the reason; nothing in it breaks out of its place.

It goes to the server that the metric names; to a declared one with its credentials, which no template weakens.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest

from rollouts.core.analysis.metric_server import (
    BasicPlace,
    BearerPlace,
    Identity,
    InFile,
    MetricServer,
    OAuth2Place,
    SignaturePlace,
)
from rollouts.core.analysis.recipes import RECIPES
from rollouts.core.analysis.source import BasicAuth, HttpSource, OAuth2, PrometheusQuery, QueryRange, WebQuery
from rollouts.core.model.frozen import replace
from rollouts.errors import ExpressionFailed, ExpressionInvalid
from rollouts.metrics.declared import CREDENTIAL_MAX_CHARACTERS, credential_problem, endpoint_of_server
from rollouts.metrics.requests import (
    HEADER_MAX_CHARACTERS,
    Basic,
    Bearer,
    ClientCredentials,
    HttpAnswer,
    MetricEndpoint,
    Signature,
    is_below,
    origin_of,
)
from rollouts.metrics.samples import Absence, Document, NoEvidence, Numbers, ResultShape
from rollouts.metrics.sources import endpoint_of, question_of, question_to, window_of
from rollouts.metrics.web import json_path, part_of
from rollouts.secret import Secret
from tests.metrics.answers import (
    ENDPOINT,
    MARK,
    NOW_S,
    QUERY,
    RANGE,
    WEB,
    answered,
    asked,
    matrix,
    prometheus,
    read,
    vector,
)

TOKEN = "t0ken-of-a-tenant"  # searched for in all that is printed


def test_an_instant_query_says_for_when() -> None:
    """The answer must be of that time, and the server stops when we do."""
    request = asked(QUERY).request

    found = urlsplit(request.url)
    assert (request.method, found.path) == ("GET", "/api/v1/query")
    assert dict(parse_qsl(found.query)) == {"query": QUERY.query, "time": "1790000000.000", "timeout": "30s"}


def test_a_range_query_has_its_times_from_expressions() -> None:
    """Below a path of the endpoint's own, too."""
    found = question_of(RANGE, MetricEndpoint(url="http://mimir/prometheus/"), window_of(RANGE, NOW_S))
    assert not isinstance(found, NoEvidence)

    url = urlsplit(found.request.url)
    times = {"start": "1789999700.000", "end": "1790000000.000", "step": "60"}
    assert url.path == "/prometheus/api/v1/query_range"
    assert dict(parse_qsl(url.query)) == {"query": RANGE.query, **times, "timeout": "30s"}


@pytest.mark.parametrize("length", [10, 3_000])
def test_a_querys_headers_are_sent_whatever_its_length(length: int) -> None:
    """The tenant of a Mimir is in one."""
    request = asked(replace(QUERY, query="a" * length, headers=(("X-Scope-OrgID", "shop"),))).request

    assert ("X-Scope-OrgID", "shop") in [(name, value.reveal()) for name, value in request.headers]


def test_a_long_query_is_posted() -> None:
    """Proxies cut long URLs."""
    request = asked(replace(QUERY, query="a" * 3_000)).request

    assert (request.method, urlsplit(request.url).query) == ("POST", "")
    assert parse_qs(request.body.decode())["query"] == ["a" * 3_000]
    assert [name for name, _ in request.headers] == ["Content-Type"]


@pytest.mark.parametrize(
    "query", ['a"} or vector(1) #', "x&time=1&query=1", "a\r\nHost: b", "a%00b", "é#?/../..", "{{args.a}}"]
)
def test_a_query_stays_in_its_place(query: str) -> None:
    """Whatever it is, the request has one query, and it is this."""
    request = asked(replace(QUERY, query=query)).request

    assert parse_qs(urlsplit(request.url).query)["query"] == [query]
    assert urlsplit(request.url).netloc == "prometheus.monitoring:9090"


def _range(start: str = "now() - duration('5m')", end: str = "now()", step_s: float = 60) -> PrometheusQuery:
    return PrometheusQuery(query="up", range=QueryRange(start=start, end=end, step_s=step_s))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (_range(start="now("), "rangeQuery.start"),
        (_range(end="yesterday"), "rangeQuery.end"),
        (_range(end="now() - duration('6m')"), "a start before its end"),
        (_range(step_s=0), "a step"),
        (_range(step_s=-1), "a step"),
        (_range(step_s=float("nan")), "a step"),
        (_range(step_s=0.01), "more than 11000 points"),
        (replace(QUERY, query="\ud800"), "surrogate"),
        (replace(QUERY, headers=(("Host", "other"),)), "not for a metric"),
        (replace(QUERY, headers=(("X-A", f"{TOKEN}\r\nX-B: 1"),)), "headers[0]"),
        (replace(QUERY, headers=(("X A", TOKEN),)), "no name"),
        (replace(WEB, headers=(("X-Fine", "1"), ("Transfer-Encoding", TOKEN))), "headers[1]"),
        (replace(WEB, headers=(("Accept-Encoding", "gzip"),)), "not for a metric"),
        (replace(WEB, headers=(("Proxy-Authorization", TOKEN),)), "not for a metric"),
        (replace(WEB, headers=(("A", "é"),)), "not ASCII"),
        (replace(WEB, headers=(("A", "a" * (HEADER_MAX_CHARACTERS + 1)),)), "is too long"),
        (replace(WEB, headers=(("A", "1"),) * 33), "32 at most"),
        (replace(WEB, method="DELETE"), "one of GET, POST, PUT"),
        (replace(WEB, body=TOKEN), "a GET has none"),
        (replace(WEB, method="POST", body="a" * 70_000), "65536"),
        (replace(WEB, method="POST", body="\ud800"), "surrogate"),
        (replace(WEB, json_path="{.a[*]}"), "jsonPath may name several"),
    ],
)
def test_what_cannot_be_asked_is_an_error(source: HttpSource, words: str) -> None:
    """It is told in our words, and nothing is sent."""
    found = question_of(source, ENDPOINT, window_of(source, NOW_S))

    assert isinstance(found, NoEvidence)
    assert found.absence is Absence.ERROR
    assert words in found.why
    assert TOKEN not in found.why


def test_a_web_request_is_sent_as_it_was_written() -> None:
    """Method, headers and body as in Argo Rollouts."""
    headers = (("Authorization", f"Bearer {TOKEN}"),)
    source = WebQuery(url="https://shop/quality?a=1", method="POST", headers=headers, body='{"a":1}')
    request = asked(source).request

    assert (request.method, request.url, request.body, request.timeout_s) == ("POST", source.url, b'{"a":1}', 10.0)
    assert [(name, value.reveal()) for name, value in request.headers] == [("Authorization", f"Bearer {TOKEN}")]


def test_nothing_that_is_printed_has_a_secret() -> None:
    """Arguments from Secrets come into URLs, queries, headers and bodies."""
    web = WebQuery(
        url=f"https://shop/{TOKEN}", method="PUT", headers=(("X-Token", TOKEN),), body=TOKEN, json_path="{$.a}"
    )
    query = PrometheusQuery(query=f'up{{a="{TOKEN}"}}', headers=(("X-Token", TOKEN),))
    secret = Secret(TOKEN)
    for credentials in (Basic("user", secret), Bearer(secret), ClientCredentials("https://a/token", "id", secret)):
        endpoint = MetricEndpoint(
            url=f"https://user:{TOKEN}@prometheus/{TOKEN}", credentials=credentials, headers=(("X-Token", secret),)
        )
        for source in (web, query):
            question = question_of(source, endpoint, window_of(source, NOW_S))
            assert TOKEN not in repr(question)
            assert TOKEN not in f"{question}{source}{endpoint}{endpoint.display_name}"
    answer = HttpAnswer(status=200, body=TOKEN.encode(), content_type=TOKEN)
    assert TOKEN not in repr(answer)
    assert TOKEN not in repr(read(answer, asked(WEB)))


@pytest.mark.parametrize(
    ("body", "shape", "numbers", "series"),
    [
        (vector("1", "2"), ResultShape.VECTOR, (1.0, 2.0), [0, 1]),
        (prometheus("scalar", [NOW_S, "5e-1"]), ResultShape.SCALAR, (0.5,), [0]),
        (matrix([(NOW_S - 15, "1"), (NOW_S, "2")], [(NOW_S, "3")]), ResultShape.MATRIX, (1.0, 2.0, 3.0), [0, 0, 1]),
        (vector("1", infos=["PromQL info: metric might not be a counter"]), ResultShape.VECTOR, (1.0,), [0]),
    ],
)
def test_an_answer_becomes_numbers(
    body: bytes, shape: ResultShape, numbers: tuple[float, ...], series: list[int]
) -> None:
    """With their times and series; what Prometheus only remarks is no warning."""
    found = read(answered(body), asked(QUERY))

    assert isinstance(found, Numbers)
    assert (found.shape, found.numbers) == (shape, numbers)
    assert [each.series for each in found.samples] == series
    assert found.warnings == ()
    assert max(each.at_s for each in found.samples) == NOW_S


def test_warnings_are_kept_and_not_printed() -> None:
    """For whoever reads them by hand; they are text of a server."""
    found = read(answered(vector("1", warnings=[MARK])), asked(QUERY))

    assert isinstance(found, Numbers)
    assert found.warnings == (MARK,)
    assert "warnings" not in repr(found)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (400, b'{"status":"error","errorType":"bad_data","error":"parse"}', "the query failed: bad_data (400)"),
        (503, b'{"status":"error","errorType":"timeout"}', "the query failed: timeout (503)"),
        (200, b'{"status":"error","errorType":"execution"}', "the query failed: execution"),
        (422, b'{"status":"error","errorType":"surprise"}', "unknown error (422)"),
        (401, b"{}", "does not take the credentials (401)"),
        (502, b"<html>", "Prometheus answers 502"),
        (200, b"<html>", "not one of Prometheus' API"),
    ],
)
def test_an_error_is_told_by_its_type(status: int, body: bytes, words: str) -> None:
    """And in our words."""
    found = read(answered(body, status=status), asked(QUERY))

    assert isinstance(found, NoEvidence)
    assert (found.absence, words in found.why) == (Absence.ERROR, True)


@pytest.mark.parametrize(
    ("source", "value", "expected"),
    [
        ("{$}", 5, 5), ("", 5, 5), ("{$.data.ok}", {"data": {"ok": True}}, True), ("{.data}", {"data": 1}, 1),
        ("$.key[0].key2.value", {"key": [{"key2": {"value": 1}}]}, 1), ("{ $.a[-1] }", {"a": [1, 2]}, 2),
        ("{$['a.b']['c d'][\"e\"]}", {"a.b": {"c d": {"e": 1}}}, 1), ("{.a\\.b}", {"a.b": 1}, 1),
        ("{@.a}", {"a": None}, None),
    ],
)  # fmt: skip
def test_a_json_path_names_one_value(source: str, value: Any, expected: Any) -> None:
    """Forms of Argo Rollouts' documentation and of kubectl's."""
    assert part_of(value, json_path(source)) == expected


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{.a[*].b}", "several"), ("{..a}", "several"), ("{.a[0:2]}", "several"), ("{.a[0,1]}", "several"),
        ("{.a[?(@.b==1)]}", "several"), ("{range .a[*]}{.b}{end}", "several"), ("data.ok", "cannot be read"),
        ("{$.a", "cannot be read"), ("{.a}{.b}", "cannot be read"), ("{$.}", "cannot be read"),
        ("." + "a" * 2_000, "1024 characters"), (".a" * 40, "32 members"),
    ],
)  # fmt: skip
def test_other_json_paths_are_refused(source: str, words: str) -> None:
    """What names several values would be judged by one of them."""
    with pytest.raises(ExpressionInvalid, match=words):
        json_path(source)


@pytest.mark.parametrize(
    ("source", "value"),
    [("{.a}", {}), ("{.a}", []), ("{.a[1]}", {"a": [1]}), ("{[0]}", {"0": 1}), ("{.a.b}", {"a": "b"})],
)
def test_a_path_that_leads_nowhere_is_told(source: str, value: Any) -> None:
    """By its place, not by its words."""
    with pytest.raises(ExpressionFailed, match="nothing at its part"):
        part_of(value, json_path(source))


def test_integers_of_an_answer_are_doubles() -> None:
    """As Go's JSON has them, so `result + 0.5` means something."""
    found = read(answered(b'{"a": [1, true, "x", null, {"b": 2}]}'), asked(WEB))

    assert found == Document({"a": [1.0, True, "x", None, {"b": 2.0}]})
    assert isinstance(found, Document)
    assert [type(each) for each in found.result["a"][:2]] == [float, bool]


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://a/b?c", "http://a:80"), ("HTTPS://A:8443/", "https://a:8443"),
        ("https://user:word@a", "https://a:443"), ("http://[::1]:9090/x", "http://[::1]:9090"), ("ftp://a", ""),
        ("http://a:99999", ""), ("http://[::1", ""), ("//a", ""), ("", ""),
    ],
)  # fmt: skip
def test_an_origin_is_scheme_host_and_port(url: str, origin: str) -> None:
    """For people, and to send credentials to nobody else."""
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    ("url", "base", "below"),
    [
        ("http://a/api/v1/query?x=..", "http://a", True), ("http://a:80/mimir/api", "http://a/mimir/", True),
        ("http://a/mimir?query=1", "http://a/mimir", True), ("http://a/mimir2/api", "http://a/mimir", False),
        ("http://a/admin", "http://a/mimir", False), ("http://a/mimir/../admin", "http://a/mimir", False),
        ("http://a/mimir/%2e%2E/admin", "http://a/mimir", False),
        ("http://a/mimir/..%2fadmin", "http://a/mimir", False),
        ("http://a/mimir/%252e%252e/admin", "http://a/mimir", False),
        ("http://a/mimir/..%5cadmin", "http://a/mimir", False),
        ("http://a/mimir/%" + "25" * 20 + "41", "http://a/mimir", False), ("https://a/mimir", "http://a/mimir", False),
        ("http://a:81/mimir", "http://a/mimir", False), ("http://a@b/mimir", "http://a/mimir", False), ("", "", False),
    ],
)  # fmt: skip
def test_credentials_open_no_more_than_was_declared(url: str, base: str, below: bool) -> None:
    """A metric names a path below the declared URL, and none beside it."""
    assert is_below(url, base) is below


PLAIN = MetricEndpoint(url="http://prom:9090", declared=True)
GUARDED = MetricEndpoint(url="https://thanos/base/", declared=True, credentials=Bearer(Secret("t")))
TENANT = MetricEndpoint(url="https://thanos/base/", declared=True, headers=(("X-Scope-OrgID", Secret("a")),))
DECLARED = {"default": PLAIN, "thanos": GUARDED}
OWN = OAuth2(token_url="https://login.example", client_id="i", client_secret="s")


@pytest.mark.parametrize(
    ("name", "endpoint"),
    [
        ("default", PLAIN),
        ("thanos", GUARDED),
        ("http://prom:9090", PLAIN),
        ("https://thanos/base", GUARDED),
        ("https://thanos/other", MetricEndpoint(url="https://thanos/other")),
        ("https://evil.example", MetricEndpoint(url="https://evil.example")),
    ],
)
def test_a_name_or_a_url_is_whom_it_asks(name: str, endpoint: MetricEndpoint) -> None:
    """A URL that nobody declared is the template's own: it gets nobody's credentials and no private address."""
    assert endpoint_of(PrometheusQuery(query="up", endpoint=name), DECLARED) == endpoint


def test_a_name_that_nobody_declares_says_how_to_declare_it() -> None:
    """The flag for `default`, a MetricProvider for any other."""
    for name, words in (("default", "--prometheus-url"), ("other", "a MetricProvider other")):
        found = endpoint_of(PrometheusQuery(query="up", endpoint=name), {})
        assert isinstance(found, NoEvidence)
        assert words in found.why
        assert found.absence is Absence.ERROR


@pytest.mark.parametrize(
    ("declared", "unchecked"),
    [(PLAIN, True), (GUARDED, False), (TENANT, False), (replace(GUARDED, insecure=True), True)],
)
def test_a_template_does_not_give_away_credentials_of_a_server(declared: MetricEndpoint, unchecked: bool) -> None:
    """Without the check of a certificate, whoever stands between would get them; whether it is left out is the declaration's."""
    for source in (
        PrometheusQuery(query="up", endpoint="one", insecure=True),
        WebQuery(url=f"{declared.url.rstrip('/')}/x", insecure=True),
    ):
        found = endpoint_of(source, {"one": declared})
        assert isinstance(found, MetricEndpoint)
        assert found.insecure is unchecked


PLACE = InFile("/run/secrets/token")
LOGIN = "https://login.example"


@pytest.mark.parametrize(
    ("kind", "identity", "credentials"),
    [
        ("", None, None),
        ("", BasicPlace("me", PLACE), Basic("me", Secret(TOKEN))),
        ("", BearerPlace(PLACE), Bearer(Secret(TOKEN))),
        ("influxdb", BearerPlace(PLACE), Bearer(Secret(TOKEN), "Token")),
        (
            "",
            OAuth2Place(token_url=LOGIN, client_id="me", client_secret=PLACE, scopes=("a",)),
            ClientCredentials(LOGIN, "me", Secret(TOKEN), ("a",), declared=True),
        ),
        ("", SignaturePlace(region="eu-west-1"), Signature("eu-west-1", "aps", "", None)),
        ("cloudWatch", SignaturePlace(region="eu-west-1"), Signature("eu-west-1", "monitoring", "", None)),
        ("graphite", SignaturePlace(region="eu-west-1"), Signature("eu-west-1", "aps", "", None)),
        (
            "cloudWatch",
            SignaturePlace(region="eu-west-1", service="es", access_key="AKID", secret_key=PLACE),
            Signature("eu-west-1", "es", "AKID", Secret(TOKEN)),
        ),
    ],
)
def test_a_declared_server_is_asked_as_its_administrator_says(
    kind: str, identity: Identity | None, credentials: Any
) -> None:
    """It may have a private address, and so may the server of its tokens: an administrator has named both."""
    shared: dict[str, Any] = {
        "url": "https://prometheus.monitoring", "server_name": "prom", "insecure": True, "methods": ("GET", "POST"),
        "kind": kind, "settings": (("org", "shop"),), "recipe": RECIPES["graphite"],
    }  # fmt: skip
    server = MetricServer(identity=identity, headers=(("X-A", "1"), ("X-B", PLACE)), **shared)
    headers = (("X-A", Secret("1")), ("X-B", Secret(TOKEN)))
    expected = MetricEndpoint(declared=True, credentials=credentials, headers=headers, authorities="PEM", **shared)

    assert endpoint_of_server(server, {PLACE: Secret(TOKEN)}, authorities="PEM") == expected


@pytest.mark.parametrize("declared", [PLAIN, GUARDED, TENANT])
@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("own", [None, OWN])
def test_a_declared_server_is_only_read_unless_it_says_more(
    declared: MetricEndpoint, method: str, own: OAuth2 | None
) -> None:
    """A template that may not reach a server must not delete its data with the controller's credentials, or from its address."""
    base = declared.url.rstrip("/")
    source = WebQuery(url=f"{base}/api/v1/admin/tsdb/delete_series", method=method, authentication=own)

    more = endpoint_of_server(MetricServer(url=declared.url, methods=("GET", method)), {})
    refused = endpoint_of(source, {"one": declared})
    allowed = endpoint_of(source, {"one": more})

    assert isinstance(refused, NoEvidence)
    assert (refused.absence, f"method: {method} to {declared.display_name}" in refused.why) == (Absence.ERROR, True)
    assert "spec.methods" in refused.why
    assert isinstance(allowed, MetricEndpoint)


def test_a_query_of_prometheus_may_be_posted() -> None:
    """A long one is, as a form, and Prometheus only reads there: what is sent is ours, not the template's."""
    source = PrometheusQuery(query="up + " * 600 + "up", endpoint="thanos")

    question = question_to(source, DECLARED, window_of(source, 0.0))

    assert not isinstance(question, NoEvidence)
    assert (question.request.method, question.endpoint) == ("POST", GUARDED)


def test_a_server_that_nobody_declared_gets_the_methods_of_the_template() -> None:
    """It sees nobody's credentials, and no private address is asked."""
    url = "https://example.com/quality"

    assert endpoint_of(WebQuery(url=url, method="POST"), DECLARED) == MetricEndpoint(url=url)


def test_a_person_may_ask_all_urls_of_a_template_from_their_own_machine() -> None:
    """`rollouts analyze` sends what they could send themselves, a request for a token too."""
    source = WebQuery(url="https://own.example", authentication=OWN)

    question = question_to(source, DECLARED, window_of(source, 0.0), anywhere=True)

    assert not isinstance(question, NoEvidence)
    assert question.endpoint.declared
    assert question.endpoint.credentials == ClientCredentials("https://login.example", "i", Secret("s"), declared=True)


@pytest.mark.parametrize(
    ("own", "credentials"),
    [
        (BasicAuth(username="me", password="p"), Basic("me", Secret("p"))),
        (OWN, ClientCredentials("https://login.example", "i", Secret("s"), declared=False)),
    ],
)
def test_a_template_with_an_identity_of_its_own_uses_it(own: BasicAuth | OAuth2, credentials: object) -> None:
    """In place of the declared one, at a declared server and at any other; the URL of its token stays the template's."""
    for source in (
        PrometheusQuery(query="up", endpoint="thanos", authentication=own),
        WebQuery(url="https://other.example", authentication=own),
    ):
        found = endpoint_of(source, DECLARED)
        assert isinstance(found, MetricEndpoint)
        assert found.credentials == credentials


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x" * CREDENTIAL_MAX_CHARACTERS, ""),
        ("x" * (CREDENTIAL_MAX_CHARACTERS + 1), "has more than 8192 characters"),
        ("", "is empty"),
        ("two\nlines", "must be one line of printable ASCII characters"),
        ("pässword", "must be one line of printable ASCII characters"),
    ],
    ids=["as long as may be", "longer", "empty", "a line's end", "a letter that a header has not"],
)
def test_a_text_that_fits_into_no_header_is_no_credential(text: str, problem: str) -> None:
    """And what is said of it repeats no part of it."""
    assert credential_problem(text, PLACE, MetricServer(url="https://a", identity=BearerPlace(PLACE))) == problem
