"""Measurements of `prometheus`, `web` and `compare`: bounded requests, with secrets put in right before they are sent."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from msgspec import Struct

from rollouts.cluster.client import Client
from rollouts.cluster.secret_data import secret_data
from rollouts.controller.analysis.pace import WAIT_S
from rollouts.controller.analysis.sources import MeasuredRun, failed, stopped
from rollouts.controller.facts.cluster_metrics import Shared
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import Metric, SecretReference, with_secret_values
from rollouts.core.analysis.run import Due, Task
from rollouts.core.analysis.source import ComparedBy, Comparison, HttpSource, PrometheusQuery, ServerQuery, WebQuery
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace
from rollouts.errors import ApiForbidden, ApiNotFound
from rollouts.metrics.comparison import failure_of, measurement_of
from rollouts.metrics.comparison_arms import ArmSeen, ComparisonLook, look_of, seen_in
from rollouts.metrics.evidence import measured
from rollouts.metrics.requests import HttpAnswer, MetricAnswer, MetricEndpoint, origin_of
from rollouts.metrics.samples import Absence, NoEvidence
from rollouts.metrics.sources import Question, judged, question_to, window_of
from rollouts.ports import BoundedCalls, Clock, MetricEndpoints
from rollouts.secret import Secret

_NUMBERS = re.compile(r"[^\[\], ]+")


WAITED_MAX_S = 600.0
"""How long a measurement waits for a server that has had too many requests; then it is an error."""

KEPT_S = 3.0
"""How long values of Secrets are kept, so that metrics that are measured together make one request."""


class SecretProblem(Struct, frozen=True):
    """Why the value of a secret is not known, in words of ours."""

    why: str


_Data: TypeAlias = Mapping[str, Secret | None] | SecretProblem

SecretValues: TypeAlias = Callable[[str, tuple[SecretReference, ...]], Awaitable[Mapping[str, str] | SecretProblem]]
"""Reads the values of secrets in a namespace; by the names of their arguments."""


@dataclass(slots=True, kw_only=True, eq=False)
class ArgumentSecrets:
    """`SecretValues` of runs: reads them right before a request is sent.

    A Secret is read by its name: the controller has no right to list or watch Secrets, and a Role of its namespace names those
    that it may read.
    """

    client: Client
    _shared: Shared[tuple[str, str], _Data] = field(default_factory=partial(Shared, KEPT_S), init=False)

    async def __call__(self, namespace: str, secrets: tuple[SecretReference, ...]) -> Mapping[str, str] | SecretProblem:
        """The values by the names of their arguments, or why one of them is not known.

        Raises: what `Client.get` raises, but for a Secret that is missing or may not be read. Cancellation: safe.
        """
        values: dict[str, str] = {}
        for secret in secrets:
            read = partial(self._data, namespace, secret.name)
            data = await self._shared.of((namespace, secret.name), read)
            if isinstance(data, SecretProblem):
                return data
            value = data.get(secret.key)
            if value is None:
                why = "no text in its key" if secret.key in data else "no key"
                return SecretProblem(f"Secret {secret.name} in namespace {namespace} has {why} {secret.key}")
            values[secret.argument] = value.reveal()
        return values

    async def _data(self, namespace: str, name: str) -> _Data:
        try:
            return await secret_data(self.client, namespace, name)
        except ApiNotFound:
            return SecretProblem(f"there is no Secret {name} in namespace {namespace}")
        except ApiForbidden:
            return SecretProblem(
                f"the controller may not read Secret {name} in namespace {namespace}: apply what "
                f"`rollouts rbac -f FILE` prints for the template"
            )


@dataclass(slots=True, kw_only=True, eq=False)
class HttpMeasurements:
    """Asks metric endpoints.

    Args:
        declared: the endpoints that an administrator declared, by name.
        why_not: why one that is declared cannot be asked, by its name; "" when it is not declared.
        bounded: evaluates what templates have: conditions, and the times of ranges.
        deadline_s: for each request, below the metric's own timeout.
    """

    endpoints: MetricEndpoints
    declared: Callable[[], Mapping[str, MetricEndpoint]]
    why_not: Callable[[str], str] = lambda _name: ""
    secret_values: SecretValues
    bounded: BoundedCalls
    clock: Clock
    deadline_s: float

    async def measure(self, run: MeasuredRun, metric: Metric, due: Due, *, now_s: float) -> Measurement:
        """See `MeasurementSource.measure`. One whose server asks to wait is in flight until it is asked again."""
        if due.task is Task.STOP:
            return stopped(due, now_s=now_s)
        values: Mapping[str, str] = {}
        if metric.secrets:
            read = await self.secret_values(run.namespace, metric.secrets)
            problem = read.why if isinstance(read, SecretProblem) else _secret_problem(metric, read)
            if problem or isinstance(read, SecretProblem):
                return failed(problem, started_at_s=now_s, finished_at_s=self.clock.now_s())
            values = read
        if isinstance(metric.source, Comparison):
            measurement = await self._compared(metric, metric.source, values, run, due, now_s)
        else:
            measurement = await self._measured(run.namespace, metric, values, due, now_s)
        return without_secrets(measurement, values)

    async def _measured(
        self, tenant: str, metric: Metric, values: Mapping[str, str], due: Due, now_s: float
    ) -> Measurement:
        assert isinstance(metric.source, HttpSource)  # noqa: S101 - the registry knows no other for us
        answered = await self._answer(tenant, metric, values, now_s)
        if isinstance(answered, NoEvidence):
            return measured(answered, metric.condition, started_at_s=now_s, finished_at_s=self.clock.now_s())
        answer, question = answered
        not_yet = isinstance(metric.source, WebQuery) and metric.source.not_yet
        if isinstance(answer, HttpAnswer) and answer.asks_to_wait and answer.status not in (not_yet or ()):
            return _waiting(answer, due, now_s=now_s, finished_at_s=self.clock.now_s())
        # What reads the answer needs no secret, so it gets the source without them.
        source = question.source if isinstance(metric.source, ServerQuery) else metric.source
        judging = (answer, source, question.window, metric.condition, now_s, self.clock.now_s())
        return await self.bounded.call(judged, *judging, tenant=tenant)

    async def _compared(
        self, metric: Metric, source: Comparison, values: Mapping[str, str], run: MeasuredRun, due: Due, now_s: float
    ) -> Measurement:
        """One look at both arms; its queries go out one after the other."""
        look = look_of(source, due.carried, began_at_s=run.started_at_s + source.warm_up_s, now_s=now_s)
        if isinstance(look, NoEvidence):
            return failure_of(look, now_s=now_s)
        seen: list[ArmSeen] = []
        for query in look.queries:
            answered = await self._answer(run.namespace, replace(metric, source=query), values, look.at_s, look)
            if isinstance(answered, NoEvidence):
                return failure_of(answered, now_s=now_s)
            if isinstance(answered[0], HttpAnswer) and answered[0].asks_to_wait:
                return _waiting(answered[0], due, now_s=now_s, finished_at_s=self.clock.now_s())
            recipe = answered[1].endpoint.recipe
            seen.append(await self.bounded.call(seen_in, answered[0], look, recipe, tenant=run.namespace))
        judge = partial(measurement_of, look, seen, started_at_s=now_s, finished_at_s=self.clock.now_s())
        # Importing scipy takes about a second, in which no pass would run.
        measurement = await asyncio.to_thread(judge) if source.by is ComparedBy.RANKS else judge()
        # A number that was seen may be a secret: a comparison shows it rounded, where its text is not found.
        numbers = {number for arm in seen if isinstance(arm, tuple) for number in arm}
        return measurement if numbers.isdisjoint(_numbers(values.values())) else replace(measurement, value="")

    async def _answer(
        self, tenant: str, metric: Metric, values: Mapping[str, str], now_s: float, look: ComparisonLook | None = None
    ) -> tuple[MetricAnswer, Question] | NoEvidence:
        """The answer to a metric's question for these times; or why nobody can be asked. Raises: CallEnded."""
        source = with_secret_values(metric, values).source
        assert isinstance(source, HttpSource)  # noqa: S101 - the registry knows no other for us
        if isinstance(source, PrometheusQuery) and source.range is not None:  # its times are a tenant's expressions
            window = await self.bounded.call(window_of, source, now_s, tenant=tenant)
        else:
            window = window_of(source, now_s) if look is None else look.window_of(source)
        question = question_to(source, self.declared(), window)
        if isinstance(question, NoEvidence):
            why_not = self.why_not(source.endpoint)
            return NoEvidence(why_not, Absence.ERROR) if why_not else question
        answer = await self.endpoints.ask(question.request, question.endpoint, deadline_s=self.deadline_s)
        return answer, question


def _waiting(answer: HttpAnswer, due: Due, *, now_s: float, finished_at_s: float) -> Measurement:
    """The measurement whose server asks to wait: taken again then, but not for longer than WAITED_MAX_S in all."""
    began_s = now_s if due.measurement is None else due.measurement.started_at_s
    wait_s = WAIT_S if answer.retry_after_s is None else answer.retry_after_s
    if finished_at_s + wait_s > began_s + WAITED_MAX_S:
        why = f"the server has had too many requests, and is not to be asked again for {wait_s:.0f} s ({answer.status})"
        return failed(why, started_at_s=began_s, finished_at_s=finished_at_s)
    why = f"the server has had too many requests: it is asked again in {wait_s:.0f} s ({answer.status})"
    return Measurement(
        phase=AnalysisPhase.RUNNING, started_at_s=began_s, resume_at_s=finished_at_s + wait_s, message=why
    )


def without_secrets(measurement: Measurement, values: Mapping[str, str]) -> Measurement:
    """The measurement, without a text in it that has a secret: a server may repeat what it was sent."""
    secrets = {text for text in values.values() if text}
    if any(text in measurement.message for text in secrets):
        measurement = replace(measurement, message="the reason has the value of a secret in it, so it is not shown")
    shown = _NUMBERS.findall(measurement.value)
    if not secrets.isdisjoint(shown) or not _numbers(secrets).isdisjoint(_numbers(shown)):
        measurement = replace(measurement, value="")
    return measurement


def _numbers(texts: Iterable[str]) -> set[float]:
    """Those of the texts that are numbers, however they are spelled."""
    numbers = set()
    for text in texts:
        with contextlib.suppress(ValueError):
            numbers.add(float(text))
    return numbers


def _secret_problem(metric: Metric, values: Mapping[str, str]) -> str:
    """Why the metric cannot be asked with these values; "" when it can."""
    if missing := [secret.argument for secret in metric.secrets if secret.argument not in values]:
        return f"needs the secret {', '.join(missing)}, which has no value"
    others = with_secret_values(metric, {secret.argument: "0" for secret in metric.secrets})
    urls = zip(with_secret_values(metric, values).source.urls(), others.source.urls(), strict=True)
    if any(url != other and (not origin_of(url) or origin_of(url) != origin_of(other)) for url, other in urls):
        # It would be told in messages and logs, and asked of name servers.
        return "a secret stands in the host or the port of a URL, where it would be shown: put it into a header or the path"
    refused: list[str] = []
    with_secret_values(metric, values, lambda name, _why: refused.append(name))
    if refused:
        return f"the secret of {refused[0]} cannot stand in its place, as it would change what is around it"
    return ""
