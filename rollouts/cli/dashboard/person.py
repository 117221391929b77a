"""The pages of one person: what they see is read, and what they confirm is written, with their own rights."""

from __future__ import annotations

import asyncio
import secrets
from http import HTTPStatus

from aiohttp import web
from msgspec.structs import replace

from rollouts.cli.dashboard import acts
from rollouts.cli.dashboard.answers import foreign_form, page_answer
from rollouts.cli.dashboard.ask_page import ask_page
from rollouts.cli.dashboard.diff_page import diff_page
from rollouts.cli.dashboard.drawing import CommandOutcome, ListDrawing, RolloutDrawing
from rollouts.cli.dashboard.experiments import ExperimentPages
from rollouts.cli.dashboard.guard import same
from rollouts.cli.dashboard.hub import Hub
from rollouts.cli.dashboard.list_page import ROLLOUTS_LOOK, WORD_MAX, ListQuery, refused_list_page
from rollouts.cli.dashboard.live import NAME, ObjectPages, key_in, live_pages
from rollouts.cli.dashboard.pages import message, object_address, sentence
from rollouts.cli.dashboard.rights import ON_LOAD_S, KnownRights
from rollouts.cli.terminal.errors import error_text
from rollouts.cli.view.config import uses_of
from rollouts.cli.view.config_reading import source_changes
from rollouts.cli.view.difference import CURRENT, PREVIOUS, revision_named
from rollouts.cli.view.giving import unanswered
from rollouts.cli.view.objects import view_of
from rollouts.cli.view.reading import look
from rollouts.cli.view.verb_plans import CommandWrite
from rollouts.errors import ApiForbidden, SpecInvalid
from rollouts.objects import ROLLOUT, Key

_SECRET_BYTES = 32


class PersonPages(ObjectPages):
    """Answers the requests of one person."""

    def __init__(self, hub: Hub, *, chooses_namespace: bool = False, rights_of_commands: bool = False) -> None:
        """Pages of the hub's session.

        Args:
            chooses_namespace: the address of the list says which one is listed, as the person may not list all.
            rights_of_commands: each command needs a verb of its own.
        """
        super().__init__(hub, KnownRights(hub.session, of_commands=rights_of_commands), ROLLOUT)
        self._chooses_namespace = chooses_namespace
        self.form_field = secrets.token_urlsafe(_SECRET_BYTES)
        self.experiments = ExperimentPages(hub, self._rights, self.form_field, self._list_of)

    async def list(self, request: web.Request) -> web.StreamResponse:
        """The list, as its address filters it."""
        asked = self._list_of(request)
        async with self._hub.looking_at_list(asked.scope) as feed:
            try:
                return page_answer(asked.page(await feed.objects(), self._now_s()))
            except ApiForbidden as error:
                if not self._chooses_namespace:
                    raise
                said = refused_list_page(
                    asked.query, error_text(error), scope=asked.scope, chooses_namespace=True, look=ROLLOUTS_LOOK
                )
                return page_answer(said, HTTPStatus.FORBIDDEN)

    async def list_stream(self, request: web.Request) -> web.StreamResponse:
        """Its live updates."""
        looking = self._hub.looking_at_list(self._list_of(request).scope)

        async def what() -> ListDrawing:
            return self._list_of(request)

        return await live_pages(request, self._hub, looking, what)

    async def diff(self, request: web.Request) -> web.StreamResponse:
        """How two of its revisions differ."""
        key = key_in(request)
        session = self._hub.session_in(key.namespace)
        seen = await look(session, key.name)
        words = (request.query.get("from") or PREVIOUS, request.query.get("to") or CURRENT)
        before, after = (revision_named(seen, word[:WORD_MAX]) for word in words)
        changes = []
        if before is not None and after is not None:
            changes = [each async for each in source_changes(session, uses_of(before), uses_of(after))]
        # In a thread: a second of comparing is a second in which nobody else is answered.
        return page_answer(await asyncio.to_thread(diff_page, seen, before, after, changes))

    async def plan(self, request: web.Request) -> web.StreamResponse:
        """What comes next for it."""
        from rollouts.cli.dashboard.plan_page import plan_page  # noqa: PLC0415 - the controller's policy is for it only
        from rollouts.cli.plan.command import plan_of_live  # noqa: PLC0415

        key = key_in(request)
        session = self._hub.session_in(key.namespace)
        seen = await look(session, key.name)
        try:
            report = await plan_of_live(session, seen.rollout)
        except SpecInvalid as invalid:
            said = message("Its spec cannot be carried out", f"{invalid}.", back=object_address(ROLLOUT, key))
            return page_answer(said, HTTPStatus.CONFLICT)
        return page_answer(plan_page(view_of(seen), report))

    async def ask(self, request: web.Request) -> web.StreamResponse:
        """What a command would do."""
        key, word = key_in(request), _act_in(request)
        asked, seen = await acts.ask(
            self._hub.session_in(key.namespace), key.name, word, _to(request.query.get("to", ""))
        )
        locks = await self._rights.locks(key.namespace, newer_than_s=ON_LOAD_S)
        form_field, missing = self.form_field, locks.why(asked.act.verb)
        return page_answer(ask_page(asked, view_of(seen), form_field=form_field, changed=False, missing=missing))

    async def act(self, request: web.Request) -> web.StreamResponse:
        """Gives a command that was confirmed, or asks again."""
        key, word, form = key_in(request), _act_in(request), await request.post()
        fields = {name: str(form.get(name, "")) for name in ("form", "version", "mark", "to")}
        if not same(fields["form"], self.form_field):
            return foreign_form()
        session = self._hub.session_in(key.namespace)
        asked, seen = await acts.ask(session, key.name, word, _to(fields["to"]))
        if not isinstance(asked.planned, CommandWrite) or not same(fields["mark"], asked.mark):
            return page_answer(ask_page(asked, view_of(seen), form_field=self.form_field, changed=True))
        metadata = {**seen.rollout["metadata"], "resourceVersion": fields["version"]}
        shown = replace(seen, rollout={**seen.rollout, "metadata": metadata})
        try:
            answer = await acts.carry_out(session, key.name, asked.plan, asked.planned, shown)
        except ApiForbidden as error:
            title, back = f"{asked.act.label} was refused", object_address(ROLLOUT, key)
            refused = message(title, sentence(error_text(error)), back=back, back_text=f"Back to {key.name}")
            return page_answer(refused, HTTPStatus.FORBIDDEN)
        label = f"{asked.act.label}: "
        if answer is None:
            colour, said = "wait", unanswered(key.name)
        elif answer:
            colour, said = "bad", f"the controller refused the command: {answer}"
        else:
            colour, said = "good", f"the controller has recorded the command; it {asked.planned.words}"
        mark = self._told.keep(key, CommandOutcome(colour, label + said))
        raise web.HTTPSeeOther(f"{object_address(ROLLOUT, key)}?told={mark}")

    def _list_of(self, request: web.Request, path: str = "/") -> ListDrawing:
        named = request.query.get("ns", "") if self._chooses_namespace else ""
        return ListDrawing(
            query=ListQuery.read(request.query, path),
            scope=named if NAME.fullmatch(named) else self._hub.namespace or "",
            chooses_namespace=self._chooses_namespace,
            lost_since_s=self._hub.reached.lost_since_s,
        )

    async def _one_of(self, key: Key, told: CommandOutcome | None, *, newer_than_s: float) -> RolloutDrawing:
        return RolloutDrawing(
            key=key,
            locks=await self._rights.locks(key.namespace, newer_than_s=newer_than_s),
            told=told,
            lost_since_s=self._hub.reached.lost_since_s,
            links=self._hub.shared.links,
        )


def _act_in(request: web.Request) -> str:
    word = request.match_info["act"]
    if word not in acts.ACTS:
        raise web.HTTPNotFound
    return word


def _to(text: str) -> str:
    return text if NAME.fullmatch(text) else ""
