"""Promise: of each kind of server, an answer that is empty, late, a part, wrong or none is never a success; a good one is judged.

The bad answers are one table over the fakes: what a server with nothing, or with something else than numbers of this time,
says in its own form, and what stands in the way of any answer.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import pytest

from rollouts.api.spec.analysis.run import parse_run
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import MetricCondition, NoData
from rollouts.core.analysis.recipes import RECIPES
from rollouts.core.analysis.source import HttpSource
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace
from rollouts.metrics.evidence import measured
from rollouts.metrics.requests import HttpAnswer, MetricAnswer, NoAnswer
from rollouts.metrics.samples import NoEvidence
from rollouts.metrics.sources import Question, found_in, judged, question_to, window_of
from tests.metrics.answers import MARK, NOW_S
from tests.metrics.servers.fake import Fake, Series, all_fakes, one
from tests.metrics.test_no_evidence_is_never_success import CONDITIONS

FAKES = all_fakes()
BAD_AT_LEAST = 60

VALUES: dict[str, Any] = {
    "null": None,
    "a text": MARK,
    "a number in quotes": "1",
    "NaN in quotes": "NaN",
    "an empty text": "",
    "a truth": True,
    "a lie": False,
    "an object": {"value": 1},
    "an empty object": {},
    "a list": [1],
    "an empty list": [],
    "NaN": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "digits": "١",
    "an integer of 400 digits": 10**400,
    "lists in lists": [[1]],
    "Inf in quotes": "+Inf",
    "a unit": "5ms",
}
TIMES: dict[str, Any] = {
    "an hour late": NOW_S - 3_600,
    "of yesterday": NOW_S - 86_400,
    "of 1970": 0,
    "before 1970": -1e12,
    "of the future": NOW_S + 60,
    "of tomorrow": NOW_S + 86_400,
    "a thousand times later": NOW_S * 1_000,
    "a thousand times earlier": NOW_S / 1_000,
    "no time": None,
    "a word": MARK,
    "a time that is true": True,
    "a time in quotes": str(NOW_S),
    "a time that is a list": [NOW_S],
    "a time that is an object": {},
}
GOOD = (NOW_S - 30, 1.0)


def _worlds(fake: Fake) -> Iterator[tuple[str, Sequence[Series]]]:
    """What is stored there, without evidence in it."""
    yield from ((name, one(value)) for name, value in VALUES.items())
    if not fake.merges:
        yield from ((f"{name}, and a good series", [[(NOW_S - 30, value)], [GOOD]]) for name, value in VALUES.items())
    if fake.times:
        yield from ((name, one(1.0, at_s=at_s)) for name, at_s in TIMES.items())
        yield from (
            (f"{name}, and a good value", [[(at_s, 1.0), GOOD]])
            for name, at_s in TIMES.items()
            if fake.whole and not isinstance(at_s, int | float)
        )
        yield "nulls after an old number", [[(NOW_S - 3_000, 1.0), (NOW_S - 60, None), (NOW_S, None)]]
    yield "nothing", []
    yield "a series without points", [[]]
    yield "nulls", [[(NOW_S - 60, None), (NOW_S, None)]]
    if not fake.rows:
        yield "a series without points, and a good one", [[], [GOOD]]


def _of_the_way(good: bytes) -> Iterator[tuple[str, MetricAnswer]]:
    """What comes in place of the answer, whichever server is asked."""
    for status in (201, 202, 204, 206, 301, 302, 304, 400, 401, 402, 403, 404, 408, 409, 422, 429, 500, 502, 503, 504):
        yield f"a good body with {status}", HttpAnswer(status=status, body=good, content_type="application/json")
    html = f"<!DOCTYPE html><html><body>{MARK}</body></html>".encode()
    bodies = {
        "no body": b"",
        "blanks": b" \n ",
        "HTML": html,
        "cut in the middle": good[: len(good) // 2],
        "cut by one": good[:-1],
        "more after its end": good + b"{}",
        "compressed": gzip.compress(good),
        "not UTF-8": b'{"a":"\xff\xfe"}',
        "very deep": b"[" * 100_000,
        "null": b"null",
        "a number": b"1",
        "a text": b'"1"',
        "true": b"true",
        "an empty list": b"[]",
        "an empty object": b"{}",
        "a list of it": b"[1,2]",
        "its body in a list": b"[" + good + b"]",
        "its body as a text": json.dumps(good.decode()).encode(),
        "too many values": b"[" + b"[1]," * 30_000 + b"1]",
        "an event stream": b"data: " + good + b"\n\n",
    }
    yield from (
        (name, HttpAnswer(status=200, body=body, content_type="application/json")) for name, body in bodies.items()
    )
    yield "no answer", NoAnswer("no answer within 10 s")


def bad_answers(fake: Fake) -> dict[str, MetricAnswer]:
    """All of a fake, by name."""
    request = asked(fake).request
    worlds = {name: fake.answer(request, fake.endpoint, world) for name, world in _worlds(fake)}
    good = fake.answer(request, fake.endpoint, [[GOOD]]).body
    return {**worlds, **dict(_of_the_way(good)), **{f"its own: {name}": each for name, each in fake.bad.items()}}


def source_of(fake: Fake) -> HttpSource:
    """The metric that the fake is asked with."""
    metric = {"name": "m", "successCondition": "result < 1", "provider": {fake.kind: dict(fake.metric)}}
    (read,) = parse_run({"metrics": [metric]}).metrics
    assert isinstance(read.source, HttpSource)
    return read.source


def asked(fake: Fake) -> Question:
    """What is sent at NOW_S."""
    return _asked(fake.name)


@lru_cache(maxsize=64)
def _asked(name: str) -> Question:
    fake = FAKES[name]
    source = source_of(fake)
    question = question_to(source, {"it": fake.endpoint}, window_of(source, NOW_S))
    assert not isinstance(question, NoEvidence), question
    return question


def measured_by(fake: Fake, answer: MetricAnswer, condition: MetricCondition) -> Measurement:
    question = asked(fake)
    return judged(answer, question.source, question.window, condition, NOW_S, NOW_S + 1)


def conditions(fake: Fake) -> list[MetricCondition]:
    """Those of every source, and those that read the number as this server shows it."""
    it = fake.result
    success = [f"{it} < 100", f"{it} != 5", f"{it} >= -1"]
    failure = [f"{it} > 100", f"{it} == 5", f"isNaN({it}) || {it} > 100"]
    success += [f"default({it}, 0) < 100", f"isNil({it}) || {it} < 100", f"{it} == nil || {it} < 100"]
    failure += [f"default({it}, 0) > 100", f"!isNil({it}) && {it} > 100", f"{it} != nil && {it} > 100"]
    return [
        *CONDITIONS,
        *(MetricCondition(success=each) for each in success),
        *(MetricCondition(failure=each) for each in failure),
        MetricCondition(success=f"{it} < 100", failure=f"{it} > 100"),
    ]


@pytest.mark.parametrize("fake", FAKES.values(), ids=FAKES)
def test_a_good_answer_is_judged(fake: Fake) -> None:
    """Otherwise nothing below would mean anything: the fake takes the request, and its number decides."""
    request, condition = asked(fake).request, MetricCondition(success=f"{fake.result} < 100")
    for value, phase in ((1.0, AnalysisPhase.SUCCESSFUL), (1, AnalysisPhase.SUCCESSFUL), (200, AnalysisPhase.FAILED)):
        found = measured_by(fake, fake.answer(request, fake.endpoint, one(value)), condition)
        assert found.phase is phase, found
        assert found.samples == 1


@pytest.mark.parametrize("fake", FAKES.values(), ids=FAKES)
def test_no_bad_answer_is_a_success(fake: Fake) -> None:
    """Of all conditions, also of those that hold for everything; and the status has nothing of what a server sent."""
    bad = bad_answers(fake)
    assert len(bad) >= BAD_AT_LEAST
    promoted = []
    question, all_conditions = asked(fake), conditions(fake)
    for name, answer in bad.items():
        seen = found_in(answer, question.source, question.window)
        for condition in all_conditions:
            found = measured(seen, condition, started_at_s=NOW_S, finished_at_s=NOW_S + 1)
            assert found.phase is not AnalysisPhase.RUNNING
            assert MARK not in repr(found), (name, condition)
            if found.phase is AnalysisPhase.SUCCESSFUL:
                promoted.append((name, condition.success, condition.failure))
    assert promoted == []


@pytest.mark.parametrize("no_data", NoData)
@pytest.mark.parametrize("fake", FAKES.values(), ids=FAKES)
def test_the_template_says_what_no_number_is(fake: Fake, no_data: NoData) -> None:
    """And it never says that it is a success."""
    phases = {NoData.INCONCLUSIVE: AnalysisPhase.INCONCLUSIVE, NoData.FAIL: AnalysisPhase.FAILED}
    answer = fake.answer(asked(fake).request, fake.endpoint, [])
    found = measured_by(fake, answer, MetricCondition(success=f"{fake.result} < 100", no_data=no_data))

    assert found.phase is phases.get(no_data, AnalysisPhase.PENDING)
    assert found.message


@pytest.mark.parametrize(
    "fake", [each for each in FAKES.values() if each.times and not each.whole], ids=lambda each: each.name
)
@pytest.mark.parametrize("turned", [False, True], ids=["oldest first", "newest first"])
def test_the_newest_number_is_judged(fake: Fake, turned: bool) -> None:
    """Whatever the order of points is: the first one is the oldest with most servers, and its number is stable's."""
    points = [(NOW_S - 240, 1.0), (NOW_S - 180, 1.0), (NOW_S - 20, 200.0)]
    series: Series = points[::-1] if turned else points
    found = measured_by(
        fake, fake.answer(asked(fake).request, fake.endpoint, [series]), MetricCondition(success=f"{fake.result} < 100")
    )

    assert found.phase is AnalysisPhase.FAILED
    assert found.value == "200"


@pytest.mark.parametrize("fake", [each for each in FAKES.values() if not each.document], ids=lambda each: each.name)
def test_one_of_several_numbers_is_not_read_by_chance(fake: Fake) -> None:
    """The good one comes first: whoever reads it alone has seen a half."""
    worlds: list[list[Series]] = [[[GOOD], [(NOW_S - 30, 200.0)]]]
    worlds += [[[GOOD, (NOW_S, 200.0)]]] if fake.whole else []
    for world in worlds:
        answer = fake.answer(asked(fake).request, fake.endpoint, world)
        for source in ("result[0] < 100", "result < 100", f"{fake.result} < 100"):
            for condition in (MetricCondition(success=source), MetricCondition(failure=f"!({source})")):
                assert measured_by(fake, answer, condition).phase is not AnalysisPhase.SUCCESSFUL, source


@pytest.mark.parametrize("fake", FAKES.values(), ids=FAKES)
def test_a_request_without_its_credentials_is_refused(fake: Fake) -> None:
    """The fakes look at them, so a recipe that forgot them would be found; and the words of a refusal are ours."""
    if not fake.headers and not fake.bearer:
        return
    bare = replace(fake.endpoint, headers=(), credentials=None)
    answer = fake.answer(asked(fake).request, bare, one(1.0))
    found = measured_by(fake, answer, MetricCondition(success=f"{fake.result} < 100"))

    assert found.phase is AnalysisPhase.ERROR
    assert RECIPES[fake.kind].title in found.message or "the server" in found.message


def test_every_kind_of_server_has_a_fake() -> None:
    """A kind without one would be held to nothing."""
    assert {fake.kind for fake in FAKES.values()} == set(RECIPES)
