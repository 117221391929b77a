"""Promise: what expressions of a TrafficProvider make of objects is worked out beside the event loop, and is the same.

An object may have thousands of backends, and its owner makes it as expensive as it may be. A bound for each expression is no
bound for a pass.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from fractions import Fraction
from typing import Any, cast

import pytest

from rollouts.bounded.here import Here
from rollouts.bounded.process import BoundedProcess
from rollouts.clock import SystemClock
from rollouts.controller.adapters import bounded_process
from rollouts.controller.facts.off_loop import ENDED_AGAIN_S, NotWorkedOut, OffLoop, WorkedOut, off_loop
from rollouts.core.model.traffic import Answer, MatchKind, MatchRoute, NamedMatch, RequestMatch, Split, TextMatch
from rollouts.errors import CallEnded, Unroutable
from rollouts.ports import BoundedCalls
from rollouts.sim.clock import SimClock
from rollouts.traffic.codec import Objects
from rollouts.traffic.declared.codec import Declared, declared
from rollouts.traffic.declared.probe import read_probe
from rollouts.traffic.settings import SettingsReader
from tests.traffic.cases.declared import APISIX, IN_CEL, with_headers
from tests.traffic.situation import CONTEXT, NAMESPACE

BETA = MatchRoute("beta", RequestMatch(headers=(NamedMatch("x-beta", TextMatch(MatchKind.EXACT, "1")),)))


def route(*backends: str) -> dict[str, Any]:
    """An object with these backends, all weight on the first one."""
    lists = [{"serviceName": name, "weight": 100 if at == 0 else 0} for at, name in enumerate(backends)]
    status = {"conditions": [{"type": "ResourcesAvailable", "status": "True"}]}
    metadata = {"name": "cart", "namespace": NAMESPACE}
    return {"metadata": metadata, "spec": {"http": [{"name": "r", "backends": lists}]}, "status": status}


@pytest.fixture
async def process() -> AsyncIterator[BoundedProcess]:
    """The process of a controller."""
    found = bounded_process(SystemClock())
    yield found
    await found.aclose()


async def answer_of(ask: Callable[[], Any]) -> tuple[Any, int]:
    """What a pass gets at last, and how often it had to begin again."""
    again = 0
    while True:
        try:
            return ask(), again
        except NotWorkedOut as waits:
            again += 1
            await waits.work_out()


@pytest.mark.parametrize("declaration", [IN_CEL, with_headers()], ids=["names", "headers"])
async def test_it_answers_what_the_provider_answers(process: BoundedProcess, declaration: dict[str, Any]) -> None:
    """From another process, with one question for each answer, however many expressions are in it."""
    plain = declared(declaration)
    provider = off_loop(plain, WorkedOut(process, clock=SystemClock()))
    assert isinstance(provider, OffLoop)
    (target,) = provider.targets({"name": "cart"}, namespace=NAMESPACE)
    objects = Objects(route("cart", "cart-canary"))
    wanted = Split(Fraction(1, 4), (BETA,) if plain.header is not None else ())

    for of in (plain, provider):
        assert (await answer_of(lambda of=of: of.read(objects, target, CONTEXT)))[0] == Split(Fraction(0))  # type: ignore[misc]
        assert (await answer_of(lambda of=of: of.accepted(objects, target)))[0].answer is Answer.YES  # type: ignore[misc]
    planned, again = await answer_of(lambda: provider.plan(objects, target, CONTEXT, wanted))
    assert (planned, again) == (plain.plan(objects, target, CONTEXT, wanted), 1)
    assert (await answer_of(lambda: provider.plan(objects, target, CONTEXT, wanted)))[1] == 0
    assert (await answer_of(lambda: provider.release(objects, target, CONTEXT)))[0] == ()


async def test_what_it_cannot_say_is_the_same_too(process: BoundedProcess) -> None:
    """For people, in the same words."""
    plain = declared(IN_CEL)
    provider = off_loop(plain, WorkedOut(process, clock=SystemClock()))
    (target,) = provider.targets({"name": "cart"}, namespace=NAMESPACE)
    with pytest.raises(Unroutable) as expected:
        plain.read(Objects(route("other")), target, CONTEXT)

    with pytest.raises(Unroutable) as found:
        await answer_of(lambda: provider.read(Objects(route("other")), target, CONTEXT))
    assert str(found.value) == str(expected.value)


async def test_a_probe_is_judged_there(process: BoundedProcess) -> None:
    """Its path is an expression over an object, and its verdict one over an answer."""
    http = {"url": "http://admin", "path": {"cel": "'/' + object.metadata.name"}}
    probe = read_probe(SettingsReader({"http": http, "cel": "body == want"}))
    assert probe is not None

    assert await process.call(probe.path_of, route("cart"), tenant="a") == "/cart"
    want, body = Split(Fraction(1, 4)), json.dumps(25.0).encode()
    found = await process.call(probe.judged, body, route("cart"), want, "cart", "canary", tenant="b")
    assert found.answer is Answer.YES


def test_a_provider_without_expressions_answers_at_once() -> None:
    """Nothing is started for it."""
    plain = declared(APISIX)

    assert off_loop(plain, WorkedOut(Here(), clock=SystemClock())) is plain


@pytest.mark.virtual_time
async def test_one_that_takes_too_long_is_told_and_tried_again_later() -> None:
    """The route cannot be used meanwhile, and nothing is promoted on it."""

    class Busy:
        """Ends calls as long as it is busy."""

        busy = True

        async def call(self, function: Callable[..., Any], *arguments: Any, tenant: str) -> Any:
            """See `BoundedCalls`."""
            assert tenant == NAMESPACE
            if self.busy:
                raise CallEnded("it took more than 100 ms")
            return function(*arguments)

    busy = Busy()
    worked_out = WorkedOut(cast(BoundedCalls, busy), clock=SimClock(asyncio.get_running_loop()))
    provider: Declared = off_loop(declared(IN_CEL), worked_out)
    (target,) = provider.targets({"name": "cart"}, namespace=NAMESPACE)
    objects = Objects(route("cart", "cart-canary"))
    told = "expressions of its TrafficProvider cannot be used for it: it took more than 100 ms"
    with pytest.raises(Unroutable, match=told):
        await answer_of(lambda: provider.read(objects, target, CONTEXT))
    accepted, _ = await answer_of(lambda: provider.accepted(objects, target))
    assert accepted.answer is Answer.UNKNOWN
    busy.busy = False
    with pytest.raises(Unroutable):
        await answer_of(lambda: provider.read(objects, target, CONTEXT))
    await asyncio.sleep(ENDED_AGAIN_S + 1)
    assert await answer_of(lambda: provider.read(objects, target, CONTEXT)) == (Split(Fraction(0)), 1)
