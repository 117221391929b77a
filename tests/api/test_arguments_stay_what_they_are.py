"""Promise: an argument is one value where it is put in: it changes no condition, no host, no other field, and no command.

Each kind of place is here: conditions, times, URLs, JSON bodies, JSON paths, headers, scripts of Jobs, names. PromQL has a file
of its own, tests/core/test_values_cannot_change_a_query.py.
"""

from __future__ import annotations

import json
import shlex
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from rollouts.api.spec.analysis.run import parse_run, parse_template
from rollouts.core.analysis.metric import Metric
from rollouts.core.analysis.source import JobMetric, WebQuery
from rollouts.errors import SpecInvalid
from rollouts.metrics.expr_parser import parsed
from rollouts.metrics.expr_tree import At, Binary, Literal, Unary
from tests.api.analysis_specs import metric, prometheus, web
from tests.api.specs import Spec

PIECES = [
    "true", "1", "-1", "||", "&&", " ", "==", "result", "[0]", '"', "'", "`", "\\", "#", "/*", "//", "?", ":", "(", ")",
    "}", "{", "..", "/", "@", "&", "=", "%2e", "%", "a", "\n", "\r\n", "$(x)", ";", "|", "é", ",", ".", "https://",
]  # fmt: skip
ANY = st.text(max_size=24) | st.lists(st.sampled_from(PIECES), max_size=6).map("".join)
VALUES = ANY.filter(lambda text: "{{" not in text)


def filled(spec: Spec, value: str) -> Metric:
    """The metric with that value for its argument. Raises: SpecInvalid."""
    (found,) = parse_run({**spec, "args": [{"name": "x", "value": value}]}).metrics
    return found


def condition(text: str, value: str) -> Any:
    """The tree of a condition with the value in it. Raises: SpecInvalid."""
    return parsed(filled(metric(successCondition=text), value).condition.success)


# Conditions.


@pytest.mark.parametrize("value", ["0.95", "-3", "1e-3", ".5", "true", "false", "nil", "null", '"ok"', "'a b'", "007"])
def test_a_bare_value_of_a_condition_is_a_number_a_truth_value_or_a_text(value: str) -> None:
    """What people write there: `result[0] >= {{args.least}}`."""
    assert isinstance(condition("result == {{args.x}}", value), Binary)


def test_a_bare_value_behind_a_dot_is_the_name_of_a_field() -> None:
    """One template for answers of several shapes."""
    assert condition("result.{{args.x}} > 1", "error_rate") == parsed("result.error_rate > 1")


@pytest.mark.parametrize(
    "value",
    [
        "1 || true", "1) || (1 == 1", "result", "result[0]", "true || true", "1 + 1", "now()", "len(result)", "1; 2",
        '"a" || "b"', '"a" + "b"', "'a' == 'a'", '"', '"a', "", " ", "0.5 # x", "5m", "a.b", "1\n|| true", "{}", "[1]",
    ],
)  # fmt: skip
@pytest.mark.parametrize("text", ["result < {{args.x}}", "result[0] < 5 && result[1] == {{ args.x }}"])
def test_any_other_bare_value_is_refused_and_told(text: str, value: str) -> None:
    """`1 || true` would pass every revision. The message says what may stand there, and what to do."""
    with pytest.raises(SpecInvalid) as refused:
        filled(metric(successCondition=text), value)

    (problem,) = refused.value.problems
    assert problem.path == "spec.metrics[0].successCondition"
    assert "outside of quotes" in problem.message
    assert "put the place in quotes" in problem.message


@pytest.mark.parametrize("field", ["successCondition", "failureCondition"])
def test_a_default_is_checked_before_anybody_uses_it(field: str) -> None:
    """A template that is applied or linted tells it, not the run of an update."""
    spec = {**metric(**{field: "result < {{args.x}}"}), "args": [{"name": "x", "value": "1 || true"}]}

    with pytest.raises(SpecInvalid):
        parse_template(spec)


@given(value=VALUES)
@example("1 || true")
@example("'a' || 'b'")
@example("- 1")
def test_no_value_changes_the_shape_of_a_condition(value: str) -> None:
    """One literal where the place is, or nothing at all."""
    try:
        found = condition("result[0] < {{args.x}} && result[1] == '{{args.x}}'", value)
    except SpecInvalid:
        return

    match found:
        case Binary("&&", Binary("<", At(), bare), Binary("==", At(), Literal(text))):
            assert (text, bare) == (value, parsed(value))
            assert isinstance(bare.of if isinstance(bare, Unary) else bare, Literal)
        case _:
            pytest.fail(f"{value!r}: {found}")


@pytest.mark.parametrize("value", ["now() - 1", "1 || 2", 'duration("1h")', "0) + (1"])
@pytest.mark.parametrize("field", ["start", "end"])
def test_a_bare_value_of_a_time_is_no_expression(field: str, value: str) -> None:
    """`start: now() - duration("{{args.lookback}}")` is how Argo's documentation has it."""
    times = {"start": 'now() - duration("5m")', "end": "now()", "step": "1m", field: "now() - {{args.x}}"}

    with pytest.raises(SpecInvalid):
        filled(prometheus(rangeQuery=times), value)


# URLs.


def asked(value: str, **request: Any) -> WebQuery:
    """A web request with the value in it. Raises: SpecInvalid."""
    source = filled(web(**request), value).source
    assert isinstance(source, WebQuery)
    return source


@pytest.mark.parametrize(
    ("url", "value", "expected"),
    [
        ("https://a.example/q?service={{args.x}}", "a&b=c d#/é+%",
            "https://a.example/q?service=a%26b%3Dc%20d%23/%C3%A9%2B%25"),
        ("https://a.example/{{args.x}}/q", "a/b c?d#e", "https://a.example/a/b%20c%3Fd%23e/q"),
        ("https://a.example:{{args.x}}/q", "9090", "https://a.example:9090/q"),
        ("https://{{args.x}}/q", "m.example:8080", "https://m.example:8080/q"),
        ("https://{{args.x}}.example/q", "eu-1", "https://eu-1.example/q"),
        ("{{args.x}}://a.example/q", "https", "https://a.example/q"),
        ("{{args.x}}", "https://a.example/q?b=c&d=e", "https://a.example/q?b=c&d=e"),
        ("{{ args.x }}/q", "http://a.example:80/base", "http://a.example:80/base/q"),
        ("{{ args.x }}?q=1", "http://a.example/base", "http://a.example/base?q=1"),
        ("{{args.x}}:9090/q", "http://a.example", "http://a.example:9090/q"),
    ],
)  # fmt: skip
def test_a_value_in_a_url_is_a_part_of_that_part(url: str, value: str, expected: str) -> None:
    """Percent-encoded in a path and a query; a host or a port where the host is; the beginning where it begins."""
    assert asked(value, url=url).url == expected


EVIL = {
    "https://{{args.x}}/q": ("a.example/evil", "a@b.example", "a?b", "a#b", "a b", "a\\b", ""),
    "https://a{{args.x}}.example/q": ("@evil.example", "/evil", ".evil/", ":1/", ":80", "?"),
    "https://a.example:{{args.x}}/q": ("80/evil", "80@evil", "x", ""),
    "{{args.x}}/q": ("https://a.example/?x", "https://a@b.example", "ftp://a", "a.example", ""),
    "{{args.x}}.example/q": ("https://evil.test/", "https://evil.test?", "https://a:1"),
    "{{args.x}}://a.example/q": ("https://evil.test/?", "ftp", ""),
}


@pytest.mark.parametrize(("url", "value"), [(url, value) for url, values in EVIL.items() for value in values])
def test_a_value_that_would_change_the_host_is_refused(url: str, value: str) -> None:
    """Whom a template asks is its author's to say, but for the part that they left to the argument."""
    for spec in (web(url=url), prometheus(address=url)):
        with pytest.raises(SpecInvalid) as refused:
            filled(spec, value)
        assert "spec.metrics[0].provider." in str(refused.value)


@given(value=VALUES)
@example("../../admin")
@example("x&service=other")
def test_no_value_changes_another_part_of_a_url(value: str) -> None:
    """Nor its host, nor the names of its parameters; the server reads the value that was given."""
    assume(value.isprintable() or value)
    found = urlsplit(asked(value, url="https://a.example/v1/{{args.x}}/q?service={{args.x}}&z=1").url)

    assert (found.scheme, found.netloc, found.fragment) == ("https", "a.example", "")
    assert unquote(found.path, errors="strict") == f"/v1/{value}/q"
    assert parse_qs(found.query, keep_blank_values=True, strict_parsing=True) == {"service": [value], "z": ["1"]}


def test_the_url_of_a_token_is_a_url() -> None:
    """As any other."""
    oauth2 = {"tokenUrl": "https://{{args.x}}.example/t", "clientId": "c", "clientSecret": "s"}

    with pytest.raises(SpecInvalid):
        filled(web(authentication={"oauth2": oauth2}), "evil.test/")


# Bodies.


def body_of(body: str, value: str) -> str:
    return asked(value, method="POST", body=body).body


@given(value=VALUES)
@example('x", "admin": "true')
def test_a_value_inside_a_string_of_a_json_body_stays_that_string(value: str) -> None:
    """However the body is written."""
    for body in ('{"a": "-{{args.x}}-", "b": 1}', '\n  [{"a": "-{{ args.x }}-", "b": 1}]'):
        found = json.loads(body_of(body, value))
        assert (found[0] if isinstance(found, list) else found) == {"a": f"-{value}-", "b": 1}


@pytest.mark.parametrize("value", ["1", "-0.5", "true", "null", '"a"', "[1, 2]", '{"b": {}}'])
def test_a_bare_value_of_a_json_body_is_json(value: str) -> None:
    """A number, or a whole part of the body."""
    assert json.loads(body_of('{"a": {{args.x}}}', value)) == {"a": json.loads(value)}


@pytest.mark.parametrize("value", ['1, "admin": true', "a", "", '"', "NaN", '1} {"a": 2', "[1"])
def test_any_other_bare_value_of_a_json_body_is_refused(value: str) -> None:
    """It would be another body."""
    with pytest.raises(SpecInvalid, match="JSON"):
        body_of('{"a": {{args.x}}}', value)


def test_a_body_that_is_no_json_takes_values_as_they_are() -> None:
    """Nobody knows what ends a value there; one that is all argument is its user's."""
    assert body_of("-{{ args.x }}-", 'a="b"\\n') == '-a="b"\\n-'
    assert body_of("{{args.x}}", '{"a": 1}') == '{"a": 1}'


# JSON paths.


def test_a_value_in_a_json_path_is_one_name_or_number() -> None:
    """Which part of the answer is judged is its author's to say."""
    for path, value in (
        ("{$.data.{{args.x}}.p99}", "latency-ms"),
        ("{$.data[{{args.x}}]}", "0"),
        ("{{args.x}}", "{$.a.b}"),
    ):
        asked(value, jsonPath=path)
    assert asked("it's.a[0]", jsonPath="{$.data['{{args.x}}']}").json_path == "{$.data['it\\'s.a[0]']}"
    for value in ("a.b", "a[0]", "a}", "*", "", "a'"):
        with pytest.raises(SpecInvalid, match="JSON path"):
            filled(web(jsonPath="{$.data.{{args.x}}}"), value)


# Headers.


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0b"])
@pytest.mark.parametrize("part", ["key", "value"])
def test_a_value_in_a_header_is_one_line(part: str, value: str) -> None:
    """Otherwise it is taken as it is: no character but a line break ends a header."""
    with pytest.raises(SpecInvalid):
        filled(web(headers=[{"key": "A", "value": "b", part: "{{args.x}}"}]), value)


# Jobs.


def job(*command: str, field: str = "args", **container: Any) -> Spec:
    pod = {"containers": [{"name": "a", "image": "a:1", field: list(command), **container}]}
    return {"metrics": [{"name": "m", "provider": {"job": {"spec": {"template": {"spec": pod}}}}}]}


def command_of(spec: Spec, value: str, field: str = "args") -> list[str]:
    """What the container runs. Raises: SpecInvalid."""
    source = filled(spec, value).source
    assert isinstance(source, JobMetric)
    found: list[str] = source.spec["template"]["spec"]["containers"][0][field]
    return found


@given(value=VALUES)
@example("; rm -rf /")
@example("$(cat /etc/passwd)")
@example("{a,b}")
def test_a_value_inside_a_script_is_one_word_or_is_refused(value: str) -> None:
    """What comes behind `-c` is read by a shell, or by another program that reads commands."""
    try:
        found = command_of(job("sh", "-ec", "curl http://{{args.x}}/health && echo ok"), value)
    except SpecInvalid as refused:
        assert "env" in str(refused)
        assert value == "" or shlex.quote(value) != value
        return

    assert shlex.split(found[2]) == ["curl", f"http://{value}/health", "&&", "echo", "ok"]


def test_a_value_that_is_no_part_of_a_script_is_taken_as_it_is() -> None:
    """One argument of a program, an image, a variable: nothing around it can be changed."""
    value = "a b; c"

    assert command_of(job("--to={{args.x}}", "{{args.x}}"), value) == [f"--to={value}", value]
    assert command_of(job("sh", "-c", "{{args.x}}"), value)[2] == value
    assert command_of(job("sh", "-c", 'echo "$X"', env=[{"name": "X", "value": "{{args.x}}"}]), value)[2] == 'echo "$X"'
    with pytest.raises(SpecInvalid):
        command_of(job("echo {{args.x}}", command=["/bin/bash", "-c"]), value)
    with pytest.raises(SpecInvalid):
        command_of(job("sh", "-c", "echo {{args.x}}", field="command"), value, "command")


# Names.


def test_a_value_takes_no_other_fields_place() -> None:
    """A key that is an argument, and the same key beside it: one of them would be lost without a word."""
    with pytest.raises(SpecInvalid, match="stands there twice"):
        filled(web(method="POST", jsonBody={"a": 1, "{{args.x}}": 2}), "a")
    assert filled(web(method="POST", jsonBody={"a": 1, "{{args.x}}": 2}), "b").source
