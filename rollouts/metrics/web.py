"""A request whose answer is JSON, or a text: what is sent, and which value a condition sees. Argo Rollouts' `web` metric.

A text is for a condition alone and never for a status. What is JSON by its type or its beginning must be whole, and a web page is
no evidence: a failure condition about a value would not hold for it, which says nothing good.
Source: https://argo-rollouts.readthedocs.io/en/stable/analysis/web/
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from rollouts.core.analysis.source import WebQuery, WebResult
from rollouts.errors import ExpressionFailed, ExpressionInvalid
from rollouts.metrics.requests import HttpAnswer, HttpRequest, MetricEndpoint, Window, header_problem, sent
from rollouts.metrics.samples import Absence, Document, NoEvidence, document

METHODS = ("GET", "POST", "PUT")
BODY_MAX_BYTES = 65_536
TEXT_MAX_BYTES = 4_096

PATH_MAX = 1_024
SEGMENTS_MAX = 32

Path: TypeAlias = tuple[str | int, ...]

_SEGMENT = re.compile(
    r"""\.(?P<name>(?:[\w@$/:-]|\\.)+)
    |\[\s*(?P<place>-?\d{1,6})\s*\]
    |\[\s*'(?P<single>(?:[^'\\]|\\.)*)'\s*\]
    |\[\s*"(?P<double>(?:[^"\\]|\\.)*)"\s*\]""",
    re.VERBOSE,
)
_SEVERAL = re.compile(r"\*|\.\.|\?\(|\[[^'\"\[\]:,]*[:,]")
_ESCAPED = re.compile(r"\\(.)")


def endpoint_of(source: WebQuery, declared: Mapping[str, MetricEndpoint]) -> MetricEndpoint | NoEvidence:
    """The endpoint whose URL the source's begins with.

    A declared one is only read, unless its declaration allows more: a template must not change what it could not reach itself.
    """
    url, method = source.url, source.method
    same = [endpoint for endpoint in declared.values() if f"{url}/".startswith(f"{endpoint.url.rstrip('/')}/")]
    if same and method not in same[0].methods:
        # The server believes the controller, and many have an API that deletes beside the one that measures.
        may = f"a metric may use {' and '.join(same[0].methods)} there; its MetricProvider says so in spec.methods"
        return NoEvidence(f"method: {method} to {same[0].display_name} is refused: {may}", Absence.ERROR)
    return same[0] if same else MetricEndpoint(url=url)


def window_of(_source: WebQuery, *, now_s: float) -> Window:
    """Now."""
    return Window(now_s)


def request_of(source: WebQuery, _endpoint: MetricEndpoint, _window: Window) -> HttpRequest | NoEvidence:
    """What is sent."""
    problem = header_problem(source.headers)
    if source.method not in METHODS:
        problem = problem or f"method: must be one of {', '.join(METHODS)}"
    elif source.body and source.method == "GET":
        problem = problem or "body: a GET has none; the method must be POST or PUT"
    elif len(source.body) > BODY_MAX_BYTES:
        problem = problem or f"body: must have at most {BODY_MAX_BYTES} bytes"
    if problem:
        return NoEvidence(problem, Absence.ERROR)
    try:
        body = source.body.encode()
        if source.json_path:
            json_path(source.json_path)
    except UnicodeEncodeError:
        return NoEvidence("body: has half of a surrogate pair in it, which is no text", Absence.ERROR)
    except ExpressionInvalid as error:
        return NoEvidence(f"jsonPath {error}", Absence.ERROR)
    return HttpRequest(
        url=source.url, method=source.method, headers=sent(source.headers), body=body, timeout_s=source.timeout_s
    )


def data_of(answer: HttpAnswer, source: WebQuery, _window: Window) -> Document | NoEvidence:
    """What a condition sees of the answer. Raises: nothing."""
    if answer.status in source.not_yet:
        return NoEvidence(f"the answer's status is {answer.status}: not yet", Absence.NOT_YET)
    if source.result is WebResult.STATUS:
        return document(answer.status)
    if not 200 <= answer.status < 300:
        return NoEvidence(f"the answer's status is {answer.status}, which is no success", Absence.ERROR)
    body = answer.body.strip()
    if not body:
        return NoEvidence("the answer is empty")
    if body.startswith(b"<"):
        return NoEvidence("the answer is a web page, or XML", Absence.ERROR)
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return _text(answer, body, source)
    found = document(value)
    if isinstance(found, NoEvidence) or not source.json_path:
        return found
    try:
        return Document(part_of(found.value, json_path(source.json_path)))
    except (ExpressionFailed, ExpressionInvalid) as error:
        return NoEvidence(f"jsonPath: {error}", Absence.ERROR)


def _text(answer: HttpAnswer, body: bytes, source: WebQuery) -> Document | NoEvidence:
    if "json" in answer.content_type.lower() or body.startswith((b"{", b"[", b'"')):
        return NoEvidence("the answer is not whole, or no JSON", Absence.ERROR)
    if source.json_path:
        return NoEvidence("the answer is no JSON, so jsonPath leads nowhere", Absence.ERROR)
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return NoEvidence("the answer is neither JSON nor a text in UTF-8", Absence.ERROR)
    if len(body) > TEXT_MAX_BYTES or "\0" in text:
        return NoEvidence(f"the answer is no JSON, and no text of at most {TEXT_MAX_BYTES} bytes", Absence.ERROR)
    return Document(text)


@lru_cache(maxsize=512)
def json_path(source: str) -> Path:
    """Which members and items of a JSON answer to go through: of kubectl's JSONPath what names one value.

    `{$.data.items[0]['p99']}`; without the braces it means the same. What may name several values (`*`, `..`, `[?()]`, `[0:2]`)
    is refused: Argo Rollouts takes the first of them, and which one that is is chance.
    Source: https://kubernetes.io/docs/reference/kubectl/jsonpath/

    Raises: ExpressionInvalid, with words that have no part of it.
    """
    text = source.strip()
    if len(text) > PATH_MAX:
        raise ExpressionInvalid(f"must have at most {PATH_MAX} characters")
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    text = text.removeprefix("$").removeprefix("@")
    found: list[str | int] = []
    at = 0
    while at < len(text):
        match = _SEGMENT.match(text, at)
        if match is None:
            if _SEVERAL.search(text, at):
                raise ExpressionInvalid("may name several values: name one, such as {$.data[0].value}")
            raise ExpressionInvalid(f"cannot be read at its character {at + 1} after $: write {{$.data.value}}")
        at = match.end()
        if match["place"] is not None:
            found.append(int(match["place"]))
        else:
            name = next(given for given in (match["name"], match["single"], match["double"]) if given is not None)
            found.append(_ESCAPED.sub(r"\1", name))
    if len(found) > SEGMENTS_MAX:
        raise ExpressionInvalid(f"must have at most {SEGMENTS_MAX} members and items")
    return tuple(found)


def part_of(value: Any, path: Path) -> Any:
    """The value there. Raises: ExpressionFailed when there is none."""
    for depth, step in enumerate(path, start=1):
        match value, step:
            case dict(), str() if step in value:
                value = value[step]
            case list(), int() if -len(value) <= step < len(value):
                value = value[step]
            case _:
                raise ExpressionFailed(f"there is nothing at its part {depth} of {len(path)}")
    return value
