"""Watches TrafficProviders and judges each generation of them: first by its own tests, then by a dry run on the API server.

Every controller watches and reads them; only the leader tries them and writes their status. A generation whose status says Ready
is believed, so that a restart interrupts no rollout and costs no request.

Without the CRD, or without the right to watch cluster-scoped objects, there are none: the controller logs that once, and looks
again only while a Rollout names an unknown provider.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from rollouts.cluster.decoding import json_object
from rollouts.cluster.structs import ProviderObject
from rollouts.controller.facts.live_providers import LiveProviders
from rollouts.controller.facts.off_loop import WorkedOut, off_loop
from rollouts.controller.providers.declarations import provider_of, tried
from rollouts.controller.providers.declared_kind import Declaration, DeclaredKind
from rollouts.controller.providers.verdicts import Judged, invalid, judged_before
from rollouts.core.model.reasons import Reason
from rollouts.errors import SpecInvalid
from rollouts.objects import TRAFFIC_PROVIDER
from rollouts.traffic.declared.codec import Declared

log = structlog.get_logger()


@dataclass(slots=True)
class _Declared(Declaration):
    """The current state of one TrafficProvider.

    Args:
        provider: None when the declaration is wrong in itself.
    """

    provider: Declared | None = None


@dataclass(kw_only=True, eq=False)
class TrafficProviders(DeclaredKind[_Declared]):
    """Keeps `providers` up to date with the cluster.

    Args:
        answers: those of providers with expressions.
        namespace: where objects are tried; the controller's own.
        named: whether some Rollout names the provider; called rarely.
        on_change: called with a provider's name after `providers` has changed for it.
        on_ready: called with each provider that Rollouts may use from now on.
    """

    kind = TRAFFIC_PROVIDER
    providers: LiveProviders
    answers: WorkedOut
    namespace: str
    named: Callable[[str], bool]
    on_change: Callable[[str], None]
    on_ready: Callable[[Declared], None]
    known: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    """Set when all TrafficProviders are known, even if there are none."""

    async def judge(self) -> None:
        """Tries TrafficProviders and writes their status while this controller leads. Cancellation: safe."""
        for known in self._declarations.values():
            if known.provider is not None and _verdict_in_status(known.seen) is None:
                known.judge_at_s = 0.0  # the former leader has reached another verdict since
        await super().judge()

    def _read(self, name: str, seen: ProviderObject, before: _Declared | None) -> None:  # noqa: ARG002 - of the base
        try:
            provider = provider_of(name, json_object(bytes(seen.spec)), self.providers.fixed)
        except SpecInvalid as exc:
            known = self._declarations[name] = _Declared(seen, judge_at_s=None)
            self._conclude(name, known, invalid(exc))
            return
        known = self._declarations[name] = _Declared(seen, provider=provider)
        if (verdict := _verdict_in_status(seen)) is not None:
            self._conclude(name, known, verdict, said=True)
            if verdict.reason != Reason.NOT_TRIED:
                known.judge_at_s = None
            return
        self.providers.lacks(name, None)
        self.on_change(name)

    def _seen_again(self, name: str, declaration: _Declared) -> None:
        if declaration.judged is None and (verdict := _verdict_in_status(declaration.seen)) is not None:
            declaration.judge_at_s = None
            self._conclude(name, declaration, verdict, said=True)  # another controller leads, and has judged it

    async def _judge(self, name: str, declaration: _Declared) -> None:
        """Tries the provider."""
        if declaration.provider is None:
            return
        judged = await tried(
            declaration.provider,
            json_object(bytes(declaration.seen.spec)),
            api=self.api,
            client=self.client,
            namespace=self.namespace,
        )
        if self._declarations.get(name) is declaration:
            again_in_s = judged.again_in_s
            declaration.judge_at_s = None if again_in_s is None else self.clock.monotonic_s() + again_in_s
            self._conclude(name, declaration, judged)

    def _withdraw(self, name: str, why: str) -> None:
        if why:
            self.providers.lacks(name, f"the controller cannot read it: {why}; make it smaller")
        else:
            self.providers.gone(name)
        self.on_change(name)

    def _listed(self, *, served: bool) -> None:
        """Wakes the Rollouts that wait for the first list."""
        if not self.known.is_set():
            self.known.set()
            self.providers.listed()
            for name in tuple(self.providers.missed):
                self.on_change(name)
        if served:
            self.providers.missed.clear()

    def _is_missed(self) -> bool:
        missed = self.providers.missed
        for name in tuple(missed):
            if not self.named(name):
                del missed[name]
        return bool(missed)

    def _conclude(self, name: str, declaration: _Declared, judged: Judged, *, said: bool = False) -> None:
        """Records a verdict, and offers or withdraws the provider; `said` when the verdict is from its status."""
        before, declaration.judged = declaration.judged, judged
        declaration.unsaid = not said and (declaration.unsaid or judged != before)
        if before is not None and before.ready == judged.ready and (judged.ready or before.message == judged.message):
            return
        if judged.ready and declaration.provider is not None:
            self.providers.has(off_loop(declaration.provider, self.answers))
            self.on_ready(declaration.provider)
        else:
            self.providers.lacks(name, judged.message)
        log.info("traffic_provider_judged", name=name, ready=judged.ready, reason=judged.reason)
        self.on_change(name)


def _verdict_in_status(seen: ProviderObject) -> Judged | None:
    return judged_before(json_object(bytes(seen.status)), generation=seen.metadata.generation)
