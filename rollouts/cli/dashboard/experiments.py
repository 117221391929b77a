"""The Experiments of one person: what they see is read, and what they end is written, with their own rights."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from rollouts.cli.dashboard.answers import foreign_form, page_answer
from rollouts.cli.dashboard.ask_page import termination_page
from rollouts.cli.dashboard.drawing import (
    CommandOutcome,
    ExperimentDrawing,
    ExperimentListDrawing,
    ListDrawing,
)
from rollouts.cli.dashboard.experiment_list import EXPERIMENTS_LOOK
from rollouts.cli.dashboard.guard import same
from rollouts.cli.dashboard.hub import Hub
from rollouts.cli.dashboard.list_page import refused_list_page
from rollouts.cli.dashboard.live import ObjectPages, key_in, live_pages
from rollouts.cli.dashboard.pages import EXPERIMENTS, experiment_address
from rollouts.cli.dashboard.rights import ON_LOAD_S, KnownRights
from rollouts.cli.terminal.errors import error_text
from rollouts.cli.view.experiments import Termination, plan_termination
from rollouts.cli.view.giving import end_experiment
from rollouts.cluster.decoding import manifest_from
from rollouts.errors import ApiForbidden, ApiNotFound
from rollouts.objects import EXPERIMENT, Key, Manifest

ListAsked = Callable[[web.Request, str], ListDrawing]


class ExperimentPages(ObjectPages):
    """Answers the requests of one person about Experiments."""

    def __init__(self, hub: Hub, rights: KnownRights, form_field: str, asked: ListAsked) -> None:
        """Pages of the hub's session.

        Args:
            form_field: the secret that shows that a form is ours.
            asked: what the address of a list at a path asks for.
        """
        super().__init__(hub, rights, EXPERIMENT)
        self._form_field = form_field
        self._asked = asked

    async def list(self, request: web.Request) -> web.StreamResponse:
        """The list; for whoever may not see it, and where there is no such kind, a line that says so."""
        asked = self._asked(request, EXPERIMENTS)
        async with self._hub.looking_at_experiments(asked.scope) as feed:
            try:
                return page_answer(ExperimentListDrawing(asked).page(await feed.objects(), self._now_s()))
            except (ApiForbidden, ApiNotFound) as error:
                return page_answer(
                    refused_list_page(
                        asked.query,
                        error_text(error),
                        scope=asked.scope,
                        chooses_namespace=asked.chooses_namespace,
                        look=EXPERIMENTS_LOOK,
                    )
                )

    async def list_stream(self, request: web.Request) -> web.StreamResponse:
        """Its live updates."""

        async def what() -> ExperimentListDrawing:
            return ExperimentListDrawing(self._asked(request, EXPERIMENTS))

        looking = self._hub.looking_at_experiments(self._asked(request, EXPERIMENTS).scope)
        return await live_pages(request, self._hub, looking, what)

    async def ask(self, request: web.Request) -> web.StreamResponse:
        """What ending it would do."""
        key = key_in(request)
        planned = plan_termination(await self._read(key))
        missing = (await self._rights.locks(key.namespace, newer_than_s=ON_LOAD_S, kind=EXPERIMENT)).why()
        page = termination_page(planned, key, form_field=self._form_field, changed=False, missing=missing)
        return page_answer(page)

    async def end(self, request: web.Request) -> web.StreamResponse:
        """Ends it as it was confirmed, or asks again."""
        key, form = key_in(request), await request.post()
        if not same(str(form.get("form", "")), self._form_field):
            return foreign_form()
        planned = plan_termination(await self._read(key))
        if not isinstance(planned, Termination) or not same(str(form.get("mark", "")), planned.mark):
            return page_answer(termination_page(planned, key, form_field=self._form_field, changed=True))
        await end_experiment(self._hub.session_in(key.namespace), key.name, planned)
        mark = self._told.keep(key, CommandOutcome("good", f"Terminate: it was told to end; {planned.meaning}"))
        raise web.HTTPSeeOther(f"{experiment_address(key)}?told={mark}")

    async def _read(self, key: Key) -> Manifest:
        return manifest_from(await self._hub.session.client.get(EXPERIMENT, key.namespace, key.name))

    async def _one_of(self, key: Key, told: CommandOutcome | None, *, newer_than_s: float) -> ExperimentDrawing:
        return ExperimentDrawing(
            key=key,
            locks=await self._rights.locks(key.namespace, newer_than_s=newer_than_s, kind=EXPERIMENT),
            told=told,
            lost_since_s=self._hub.reached.lost_since_s,
            links=self._hub.shared.links,
        )
