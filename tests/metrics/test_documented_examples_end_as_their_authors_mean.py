"""Promise: what Argo Rollouts' and Flagger's documentation shows of metric servers asks the same here, and is judged as meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rollouts.api.spec.analysis.run import parse_run
from rollouts.cli.migrate.migrated import migrated
from rollouts.controller.providers.declarations import server_of
from rollouts.core.analysis.metric import Metric
from rollouts.core.analysis.metric_server import BearerPlace, CredentialPlace
from rollouts.core.analysis.source import HttpSource
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.metrics.declared import endpoint_of_server
from rollouts.metrics.requests import MetricEndpoint
from rollouts.metrics.samples import NoEvidence
from rollouts.metrics.sources import judged, question_to, window_of
from rollouts.secret import Secret
from tests import build
from tests.cli.flagger_canaries import DEPLOYMENT, WEIGHTS, canary
from tests.cli.migration_inputs import METRIC_TEMPLATE
from tests.metrics.answers import NOW_S
from tests.metrics.documented import ARGO, Documented
from tests.metrics.documented_by_flagger import FLAGGER, URLS
from tests.metrics.servers.fake import TOKEN, Asked, Fake, Series, all_fakes, asked_by

FAKES = all_fakes()


def fake_of(example: Documented) -> Fake:
    """The server's fake, which takes what the example asks and nothing else."""

    def objection(asked: Asked) -> str:
        return "" if example.sends(asked) == example.sent else f"another question: {example.sends(asked)}"

    fake = FAKES[example.fake]
    return replace(fake, objection=objection, body=example.body or fake.body)


def read(metric: Mapping[str, Any], args: Mapping[str, str]) -> Metric:
    values = [{"name": name, "value": value} for name, value in args.items()]
    (found,) = parse_run({"args": values, "metrics": [dict(metric)]}).metrics
    return found


def phase_of(metric: Metric, fake: Fake, endpoint: MetricEndpoint, stored: Sequence[Series]) -> AnalysisPhase:
    """How the metric ends when these series are there."""
    assert isinstance(metric.source, HttpSource)
    name = metric.source.endpoint or "it"
    question = question_to(metric.source, {name: endpoint}, window_of(metric.source, NOW_S))
    assert not isinstance(question, NoEvidence), question
    assert fake.why_refused(asked_by(question.request, endpoint)) == ""
    answer = fake.answer(question.request, endpoint, stored)
    return judged(answer, question.source, question.window, metric.condition, NOW_S, NOW_S + 1).phase


@pytest.mark.parametrize("example", ARGO, ids=lambda each: each.name)
def test_an_example_of_argo_is_judged_as_its_authors_mean(example: Documented) -> None:
    """From the template's text to the verdict; what is not there at all is a success in none of them."""
    metric, fake = read(example.metric, example.args), fake_of(example)

    for phase, worlds in ((AnalysisPhase.SUCCESSFUL, example.good), (AnalysisPhase.FAILED, example.bad)):
        for stored in worlds:
            assert phase_of(metric, fake, fake.endpoint, stored) is phase, stored
    assert phase_of(metric, fake, fake.endpoint, []) is not AnalysisPhase.SUCCESSFUL


@pytest.mark.parametrize("example", FLAGGER, ids=lambda each: each.name)
def test_an_example_of_flagger_is_judged_as_its_authors_mean(example: Documented) -> None:
    """After `rollouts migrate`, once an administrator has put in what stands in the Secret: the declared server is asked."""
    spec = {"provider": example.metric["provider"], "query": example.metric["query"]}
    use = {name: example.metric[name] for name in ("interval", "thresholdRange")}
    template = build.manifest(METRIC_TEMPLATE, "m", "test", spec=spec)
    analysed = canary(analysis={**WEIGHTS, "metrics": [{"name": "m", "templateRef": {"name": "m"}, **use}]})
    outcome = migrated([analysed, DEPLOYMENT, template])
    (provider,) = (each["spec"] for each in outcome.objects if each["kind"] == "MetricProvider")
    (analysis,) = (each["spec"] for each in outcome.objects if each["kind"] == "AnalysisTemplate")
    (made,) = analysis["metrics"]
    metric, fake = read(made, {}), fake_of(example)
    if fake.settings:
        assert provider["settings"].keys() == fake.settings.keys()
        provider = {**provider, "settings": dict(fake.settings)}
    server = server_of("it", provider, folder=Path("/nowhere"), taken=False)

    assert server.url == URLS.get(example.name, server.url)
    values: dict[CredentialPlace, Secret] = {
        place: Secret(fake.headers[name]) for name, place in server.headers if not isinstance(place, str)
    }
    if isinstance(server.identity, BearerPlace):
        values[server.identity.token] = Secret(TOKEN)
    endpoint = endpoint_of_server(server, values)
    for phase, worlds in ((AnalysisPhase.SUCCESSFUL, example.good), (AnalysisPhase.FAILED, example.bad)):
        for stored in worlds:
            assert phase_of(metric, fake, endpoint, stored) is phase, stored
    assert phase_of(metric, fake, endpoint, []) is AnalysisPhase.FAILED, "as Flagger counts it"
