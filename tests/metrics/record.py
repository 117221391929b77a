"""What metrics ask and what answers are taken for, as a text that people read in a diff.

`python -m tests.metrics.record` writes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rollouts.core.analysis.metric import MetricCondition, NoData
from rollouts.core.analysis.source import HttpSource
from rollouts.core.model.frozen import replace
from rollouts.metrics.requests import MetricAnswer, NoAnswer
from rollouts.metrics.samples import NoEvidence
from rollouts.metrics.sources import judged, question_to, window_of
from tests.metrics import test_the_cluster_is_evidence_when_it_is_whole as cluster
from tests.metrics.answers import NOW_S, QUERY, RANGE, WEB, WEB_PART, answered, asked, matrix, measurement, read, vector
from tests.metrics.documented import ARGO, Documented
from tests.metrics.measured_pods import autoscaler, pod, sample
from tests.metrics.servers.fake import all_fakes, asked_by
from tests.metrics.test_documented_examples_end_as_their_authors_mean import fake_of
from tests.metrics.test_documented_examples_end_as_their_authors_mean import read as metric_of
from tests.metrics.test_no_evidence_is_never_success import BAD
from tests.metrics.test_no_server_promotes_without_evidence import asked as request_to
from tests.said import said

FOLDER = Path(__file__).parent / "measured"
CONDITIONS = (
    MetricCondition(success="result[0] < 100", failure="result[0] > 100"),
    MetricCondition(success="all(result, # < 100)", no_data=NoData.WAIT),
    MetricCondition(success="len(result) == 0 || result[0] < 100", min_samples=0),
    MetricCondition(success="result < 100", no_data=NoData.FAIL),
    MetricCondition(failure="any(result, # > 100)", min_samples=2),
    MetricCondition(),
)
READS = tuple(
    MetricCondition(success=each)
    for each in (
        *("result[0] < 100 && result[1] < 100", "len(result) == 2", "result.data.value < 8", "result.v < 5", "result"),
        *("result[0].v < 5 && result[1].v < 5", "all(result, #.v < 5)", "result[0].v < 5", "any(result, # > 200)"),
    )
)
"""What reads one value, some of them, or all."""
GOOD: Mapping[str, tuple[HttpSource, MetricAnswer]] = {
    "one number": (QUERY, answered(vector("1"))),
    "a large one": (QUERY, answered(vector("101"))),
    "two series": (QUERY, answered(vector("1", "102.5"))),
    "many series": (QUERY, answered(vector(*(str(each) for each in range(40))))),
    "nothing": (QUERY, answered(vector())),
    "a range": (RANGE, answered(matrix([(NOW_S - 60, "1"), (NOW_S, "2")], [(NOW_S, "300")]))),
    "a text": (WEB, answered(b"7", content_type="text/plain")),
    "a document": (WEB, answered(b'{"data": {"value": 7}, "list": [1, 2]}')),
    "a part of a document": (WEB_PART, answered(b'{"data": {"value": 7}}')),
    "a list": (WEB, answered(b"[1, 2, 300]")),
    "a list of objects": (WEB, answered(b'[{"v": 1}, {"v": 20}]')),
    "NaN": (QUERY, answered(vector("NaN"))),
    "true": (WEB, answered(b"true")),
    "no answer": (WEB, NoAnswer("refused")),
}


def _answers(
    table: Mapping[str, tuple[HttpSource, MetricAnswer]], conditions: Sequence[MetricCondition] = CONDITIONS
) -> Iterator[str]:
    for name, (source, answer) in table.items():
        yield f"{name}: {said(read(answer, asked(source)))[:400]}"
        for condition in conditions:
            found = measurement(answer, condition, source=source)
            yield f"  {said(condition)}: {said(found)}"


def _of_the_cluster() -> Iterator[str]:
    tables: Mapping[str, Mapping[str, Any]] = {
        "containers": {name: cluster.of_container(*each[:2]) for name, each in cluster.CONTAINERS.items()},
        "autoscalers": {name: cluster.of_autoscaler(*each[0]) for name, each in cluster.AUTOSCALERS.items()},
        "values": {name: each[0] for name, each in cluster.VALUES.items()},
        "whole": {
            "two pods": cluster.of_container([pod("a"), pod("b")], [sample("a"), sample("b", "300m", age_s=20)]),
            "an autoscaler": cluster.of_autoscaler(autoscaler()),
            "values of pods": cluster.of_pods(cluster.value("a"), cluster.value("b", "7", age_s=20)),
            "series": cluster.of_queue(cluster.value(), cluster.value(number="-2")),
        },
    }
    patient = replace(cluster.ASKED, patience_s=90)
    for table, cases in tables.items():
        for name, found in cases.items():
            yield f"{table}, {name}: {said(found)}"
            for times in (cluster.ASKED, patient):
                yield f"  {said(cluster.judged(found, cluster.ANY_NUMBER[0], asked=times))}"


def _of_servers() -> Iterator[str]:
    for example in ARGO:
        yield f"{example.name}:"
        yield from _of_server(example)


def _of_server(example: Documented) -> Iterator[str]:
    metric, fake = metric_of(example.metric, example.args), fake_of(example)
    assert isinstance(metric.source, HttpSource)
    question = question_to(
        metric.source, {metric.source.endpoint or "it": fake.endpoint}, window_of(metric.source, NOW_S)
    )
    assert not isinstance(question, NoEvidence)
    yield f"  asks {asked_by(question.request, fake.endpoint)}, {said(question.window)}"
    for stored in (*example.good, *example.bad, []):
        answer = fake.answer(question.request, fake.endpoint, stored)
        yield f"  {said(judged(answer, question.source, question.window, metric.condition, NOW_S, NOW_S + 1))}"


def _requests() -> Iterator[str]:
    """What each kind of server is asked."""
    for name, fake in all_fakes().items():
        yield f"{name}: {asked_by(request_to(fake).request, fake.endpoint)}"


PARTS: Mapping[str, Any] = {
    "good": lambda: _answers(GOOD, (*CONDITIONS, *READS)),
    "bad": lambda: _answers(BAD),
    "cluster": _of_the_cluster,
    "servers": _of_servers,
    "requests": _requests,
}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for part, lines in PARTS.items():
        (FOLDER / f"{part}.txt").write_text("".join(f"{line}\n" for line in lines()))
