"""Plays situations on a cluster, real or simulated, all at once, and keeps what the autoscalers say and do."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from rollouts.objects import AUTOSCALER, POD, Kind, Manifest
from rollouts.ports import MERGE_PATCH, ApiServer, Request
from tests.contract.autoscaling.situations import Situation, Stage
from tests.contract.conversation import WIDGET, Conversation

_AT_ONCE = 12
_LONG_S = 3600.0
_POD_NAME = re.compile(r"(?<=Pod )\S+")


@dataclass
class MetricsTable:
    """What the metrics API says now, by label selector, and how often it was asked for each."""

    now_s: float
    answers: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)

    def answer(self, selector: str) -> tuple[int, dict[str, Any]]:
        self.asked[selector] = self.asked.get(selector, 0) + 1
        return self.answers.get(selector, (200, {"items": []}))

    def say(self, situation: Situation, stage: Stage) -> None:
        """Says from now on what a stage says."""
        self.answers[situation.selector or situation.own_selector] = situation.answer(stage, now_s=self.now_s)


@dataclass
class Seen:
    """What was seen of one situation, in its order, without repetitions."""

    statuses: list[Manifest] = field(default_factory=list)  # of the autoscaler, in a form that can be compared
    sizes: list[int] = field(default_factory=list)  # of the target

    def shown(self, situation: Situation) -> Manifest:
        """What must be the same on every cluster."""
        statuses = [_without_messages(each) for each in self.statuses] if situation.loose else self.statuses
        if situation.only_the_end:
            return {"statuses": statuses[-1:], "sizes": self.sizes[-1:]}
        return {"statuses": statuses, "sizes": self.sizes}


async def play(
    talk: Conversation, situations: Sequence[Situation], table: MetricsTable, settled: Callable[[], Awaitable[None]]
) -> dict[str, Seen]:
    """Plays the stages of all situations, each until `settled`, and answers what was seen by their names."""
    seen = {each.name: Seen() for each in situations}
    for situation in situations:
        table.say(situation, situation.stages[0])
    async with asyncio.TaskGroup() as tasks:
        watches = [
            tasks.create_task(_watch(talk, AUTOSCALER, lambda name, body: _keep_status(seen[name], body))),
            tasks.create_task(_watch(talk, WIDGET, lambda name, body: _keep_size(seen[name], body))),
        ]
        await _at_once([_targets(talk, each, now_s=table.now_s) for each in situations])
        await _at_once([_must(talk.create(AUTOSCALER, each.autoscaler())) for each in situations])
        await settled()
        for number in range(1, max(len(each.stages) for each in situations)):
            changed = [each for each in situations if number < len(each.stages)]
            for situation in changed:
                table.say(situation, situation.stages[number])
            await _at_once([_change(talk, each.name, each.stages[number]) for each in changed])
            await settled()
        for watch in watches:
            watch.cancel()
    return seen


async def _targets(talk: Conversation, situation: Situation, *, now_s: float) -> None:
    name = situation.name
    await _must(talk.create(WIDGET, {"metadata": {"name": name}, "spec": {"replicas": situation.replicas}}))
    selector = situation.own_selector if situation.selector is None else situation.selector
    status = {"replicas": situation.replicas, "selector": selector}
    await _must(talk.patch(WIDGET, name, {"status": status}, MERGE_PATCH, "status"))
    for number, pod in enumerate(situation.pods):
        await _must(talk.create(POD, situation.pod(number)))
        filled = {"status": situation.pod_status(number, now_s=now_s)}
        await _must(talk.patch(POD, situation.pod_name(number), filled, MERGE_PATCH, "status"))
        if pod.deleted:
            await _must(talk.delete(POD, situation.pod_name(number)))


async def _change(talk: Conversation, name: str, stage: Stage) -> None:
    if stage.replicas is not None:
        await _must(talk.patch(WIDGET, name, {"spec": {"replicas": stage.replicas}}, MERGE_PATCH))
    if stage.spec:
        await _must(talk.patch(AUTOSCALER, name, {"spec": stage.spec}, MERGE_PATCH))


async def _must(answering: Awaitable[Any]) -> None:
    answer = await answering
    assert answer.status in (200, 201), answer.body


async def _at_once(calls: Sequence[Coroutine[Any, Any, None]]) -> None:
    limit = asyncio.Semaphore(_AT_ONCE)

    async def one(call: Coroutine[Any, Any, None]) -> None:
        async with limit:
            await call

    await asyncio.gather(*(one(call) for call in calls))


async def _watch(talk: Conversation, kind: Kind, keep: Callable[[str, Manifest], None]) -> None:
    request = Request("GET", talk.path(kind), {"watch": "true"})
    api: ApiServer = talk.api
    stream = await api.open_watch(request, deadline_s=30.0, silence_s=_LONG_S)
    try:
        while line := await stream.readline():
            body = json.loads(line)["object"]
            keep(body["metadata"]["name"], body)
    finally:
        await stream.aclose()


def _keep_status(seen: Seen, autoscaler: Manifest) -> None:
    status = autoscaler.get("status") or {}
    conditions = {each["type"]: _words(each) for each in status.get("conditions") or ()}
    form = {
        "current": status.get("currentReplicas", 0),
        "desired": status.get("desiredReplicas"),
        "scaled": "lastScaleTime" in status,
        "metrics": status.get("currentMetrics"),
        "conditions": conditions,
    }
    if seen.statuses[-1:] != [form]:
        seen.statuses.append(form)


def _keep_size(seen: Seen, target: Manifest) -> None:
    size = target["spec"]["replicas"]
    if seen.sizes[-1:] != [size]:
        seen.sizes.append(size)


def _words(condition: Manifest) -> str:
    """Status and reason; of a failure its message too."""
    words = f"{condition['status']} {condition['reason']}"
    if not condition["reason"].startswith(("Failed", "Invalid")):
        return words
    return f"{words}: {_POD_NAME.sub('…', condition['message'])}"


def _without_messages(status: Manifest) -> Manifest:
    return {**status, "conditions": {kind: text.partition(":")[0] for kind, text in status["conditions"].items()}}
