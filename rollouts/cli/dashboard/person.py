"""The pages of one person: what they see is read, and what they confirm is written, with their own rights."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus

from aiohttp import web
from msgspec.structs import replace

from rollouts.cli.dashboard import acts
from rollouts.cli.dashboard.answers import error_page, page_answer, refusal_answer
from rollouts.cli.dashboard.diff_page import diff_page
from rollouts.cli.dashboard.drawing import (
    CommandOutcome,
    Drawing,
    ListDrawing,
    RolloutDrawing,
    RunDrawing,
    next_turn_s,
    page_event,
    sent,
)
from rollouts.cli.dashboard.guard import RefusedRequest, same
from rollouts.cli.dashboard.hub import Feed, Hub, TooManyLook
from rollouts.cli.dashboard.list_page import WORD_MAX, ListQuery, refused_list_page
from rollouts.cli.dashboard.pages import message
from rollouts.cli.dashboard.rights import ON_LOAD_S, WHILE_OPEN_S, KnownRights
from rollouts.cli.dashboard.rollout_page import ask_page
from rollouts.cli.terminal.errors import error_text
from rollouts.cli.view.config import uses_of
from rollouts.cli.view.config_reading import source_changes
from rollouts.cli.view.difference import CURRENT, PREVIOUS, revision_named
from rollouts.cli.view.follow import Kept
from rollouts.cli.view.giving import unanswered
from rollouts.cli.view.objects import view_of
from rollouts.cli.view.reading import look
from rollouts.cli.view.verb_plans import CommandWrite
from rollouts.errors import ApiForbidden, RolloutsError, SpecInvalid
from rollouts.objects import Key

AT_MOST_EVERY_S = 0.2  # a page is sent so often, however often its objects change
_TOLD_KEPT = 32
_SECRET_BYTES = 32
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")


class PersonPages:
    """Answers the requests of one person."""

    def __init__(self, hub: Hub, *, chooses_namespace: bool = False, rights_of_commands: bool = False) -> None:
        """Pages of the hub's session.

        Args:
            chooses_namespace: the address of the list says which one is listed, as the person may not list all.
            rights_of_commands: each command needs a verb of its own.
        """
        self._chooses_namespace = chooses_namespace
        self.form_field = secrets.token_urlsafe(_SECRET_BYTES)
        self._hub = hub
        self._rights = KnownRights(hub.session, of_commands=rights_of_commands)
        self._told: deque[tuple[str, Key, str, str]] = deque(maxlen=_TOLD_KEPT)

    async def list(self, request: web.Request) -> web.StreamResponse:
        """The list, as its address filters it."""
        scope = self._scope(request)
        async with self._hub.looking_at_list(scope) as feed:
            try:
                followed = await feed.objects()
                return page_answer(self._list_of(request).page(followed, self._now_s()))
            except ApiForbidden as error:
                if not self._chooses_namespace:
                    raise
                return page_answer(refused_list_page(scope or "", error_text(error)), HTTPStatus.FORBIDDEN)

    async def list_stream(self, request: web.Request) -> web.StreamResponse:
        """Its live updates."""
        looking = self._hub.looking_at_list(self._scope(request))

        async def what() -> ListDrawing:
            return self._list_of(request)

        return await self._stream(request, looking, what)

    async def one(self, request: web.Request) -> web.StreamResponse:
        """One Rollout."""
        key = _key(request)
        async with self._hub.looking(key) as feed:
            followed = await feed.objects()
            told = self._told_about(key, request.query.get("told", ""))
            drawing = await self._one_of(key, told, newer_than_s=ON_LOAD_S)
            return page_answer(drawing.page(followed, self._now_s()))

    async def one_stream(self, request: web.Request) -> web.StreamResponse:
        """Its live updates."""
        key = _key(request)
        told = self._told_about(key, request.query.get("told", ""))

        async def what() -> RolloutDrawing:
            return await self._one_of(key, told, newer_than_s=WHILE_OPEN_S)

        return await self._stream(request, self._hub.looking(key), what)

    async def run(self, request: web.Request) -> web.StreamResponse:
        """One AnalysisRun about it."""
        key, run = _key(request), _name(request, "run")
        async with self._hub.looking(key) as feed:
            page = self._run_of(key, run).found(await feed.objects(), self._now_s())
            if page is None:
                raise web.HTTPNotFound
            return page_answer(page)

    async def run_stream(self, request: web.Request) -> web.StreamResponse:
        """Its live updates."""
        key, run = _key(request), _name(request, "run")

        async def what() -> RunDrawing:
            return self._run_of(key, run)

        return await self._stream(request, self._hub.looking(key), what)

    async def diff(self, request: web.Request) -> web.StreamResponse:
        """How two of its revisions differ."""
        key = _key(request)
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

        key = _key(request)
        session = self._hub.session_in(key.namespace)
        seen = await look(session, key.name)
        try:
            report = await plan_of_live(session, seen.rollout)
        except SpecInvalid as invalid:
            said = message("Its spec cannot be carried out", f"{invalid}.", back=f"/r/{key.namespace}/{key.name}")
            return page_answer(said, HTTPStatus.CONFLICT)
        return page_answer(plan_page(view_of(seen), report))

    async def ask(self, request: web.Request) -> web.StreamResponse:
        """What a command would do."""
        key, word = _key(request), _act_in(request)
        asked, seen = await acts.ask(
            self._hub.session_in(key.namespace), key.name, word, _to(request.query.get("to", ""))
        )
        locks = await self._rights.locks(key.namespace, newer_than_s=ON_LOAD_S)
        form_field, missing = self.form_field, locks.why(asked.act.verb)
        return page_answer(ask_page(asked, view_of(seen), form_field=form_field, changed=False, missing=missing))

    async def act(self, request: web.Request) -> web.StreamResponse:
        """Gives a command that was confirmed, or asks again."""
        key, word, form = _key(request), _act_in(request), await request.post()
        fields = {name: str(form.get(name, "")) for name in ("form", "version", "mark", "to")}
        if not same(fields["form"], self.form_field):
            return refusal_answer(
                RefusedRequest(HTTPStatus.FORBIDDEN, "this form is not from this run of `rollouts dashboard`")
            )
        session = self._hub.session_in(key.namespace)
        asked, seen = await acts.ask(session, key.name, word, _to(fields["to"]))
        if not isinstance(asked.planned, CommandWrite) or not same(fields["mark"], asked.mark):
            return page_answer(ask_page(asked, view_of(seen), form_field=self.form_field, changed=True))
        metadata = {**seen.rollout["metadata"], "resourceVersion": fields["version"]}
        shown = replace(seen, rollout={**seen.rollout, "metadata": metadata})
        answer = await acts.carry_out(session, key.name, asked.plan, asked.planned, shown)
        label = f"{asked.act.label}: "
        if answer is None:
            colour, said = "wait", unanswered(key.name)
        elif answer:
            colour, said = "bad", f"the controller refused the command: {answer}"
        else:
            colour, said = "good", f"the controller has recorded the command; it {asked.planned.words}"
        mark = secrets.token_urlsafe(8)
        self._told.append((mark, key, colour, label + said))
        raise web.HTTPSeeOther(f"/r/{key.namespace}/{key.name}?told={mark}")

    def _list_of(self, request: web.Request) -> ListDrawing:
        return ListDrawing(
            query=ListQuery.read(request.query),
            scope=self._scope(request) or "",
            chooses_namespace=self._chooses_namespace,
            lost_since_s=self._hub.reached.lost_since_s,
        )

    def _scope(self, request: web.Request) -> str | None:
        """The namespace that is listed; None for all."""
        named = request.query.get("ns", "") if self._chooses_namespace else ""
        return named if _NAME.fullmatch(named) else self._hub.namespace

    async def _one_of(self, key: Key, told: CommandOutcome | None, *, newer_than_s: float) -> RolloutDrawing:
        return RolloutDrawing(
            key=key,
            locks=await self._rights.locks(key.namespace, newer_than_s=newer_than_s),
            told=told,
            lost_since_s=self._hub.reached.lost_since_s,
        )

    def _run_of(self, key: Key, name: str) -> RunDrawing:
        return RunDrawing(key=key, name=name, lost_since_s=self._hub.reached.lost_since_s)

    def _now_s(self) -> float:
        return self._hub.session.clock.now_s()

    def _told_about(self, key: Key, mark: str) -> CommandOutcome | None:
        found = next((each for each in self._told if each[:2] == (mark, key)), None)
        return CommandOutcome(found[2], found[3]) if found is not None else None

    async def _stream(
        self,
        request: web.Request,
        looking: AbstractAsyncContextManager[Feed[Kept]],
        what: Callable[[], Awaitable[Drawing[Kept]]],
    ) -> web.StreamResponse:
        """Sends the page whenever it has changed, until the browser or the server goes."""
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        with contextlib.suppress(ConnectionError):  # the browser has gone
            try:
                with self._hub.streaming():
                    async with looking as feed:
                        await self._send_pages(request, answer, feed, what)
            except TooManyLook as full:
                await answer.write(sent("full", f"no live updates: {full}"))
        return answer

    async def _send_pages(
        self,
        request: web.Request,
        answer: web.StreamResponse,
        feed: Feed[Kept],
        what: Callable[[], Awaitable[Drawing[Kept]]],
    ) -> None:
        before = b""
        while not self._hub.closing and request.transport is not None and not request.transport.is_closing():
            changed = feed.changed
            try:
                followed, drawing = await feed.objects(), await what()
                event = self._hub.shared.drawn.event(drawing, followed, self._now_s())
            except RolloutsError as error:
                event = page_event(error_page(error))
            if event != before:
                before = event
                await answer.write(event)
            else:
                await answer.write(b": still here\n\n")  # finds out whether the browser has gone
            if feed.error is not None:
                return
            await asyncio.sleep(AT_MOST_EVERY_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(next_turn_s()):
                    await changed.wait()


def _key(request: web.Request) -> Key:
    """The Rollout that the address names. Raises: web.HTTPNotFound, for what no object can be called."""
    return Key(_name(request, "namespace"), _name(request, "name"))


def _name(request: web.Request, part: str) -> str:
    name = request.match_info[part]
    if not _NAME.fullmatch(name):
        raise web.HTTPNotFound
    return name


def _act_in(request: web.Request) -> str:
    word = request.match_info["act"]
    if word not in acts.ACTS:
        raise web.HTTPNotFound
    return word


def _to(text: str) -> str:
    return text if _NAME.fullmatch(text) else ""
