"""Pages, refusals and errors as answers of the server."""

from __future__ import annotations

from contextvars import ContextVar
from http import HTTPStatus

import htpy as h
from aiohttp import web

from rollouts.cli.dashboard.guard import RefusedRequest
from rollouts.cli.dashboard.pages import DashboardPage, document, message, sentence
from rollouts.cli.dashboard.sites import Site
from rollouts.cli.terminal.errors import error_text
from rollouts.errors import RolloutsError

SIGNED_IN: ContextVar[h.Node] = ContextVar("SIGNED_IN", default=None)
"""Who is signed in, for the head of the pages that answer the present request; None where there is nothing to say."""

NEW_COOKIE = web.RequestKey("new_cookie", tuple[Site, str])
"""The cookie of a session that began with this request, for the answer to it, whichever it is."""


def page_answer(page: DashboardPage, status: int = HTTPStatus.OK) -> web.Response:
    """The whole page."""
    return web.Response(body=document(page, SIGNED_IN.get()), status=status, content_type="text/html", charset="utf-8")


def refusal_answer(refusal: RefusedRequest) -> web.Response:
    """One line for whoever sent it."""
    return web.Response(text=f"{refusal.why}\n", status=refusal.status)


def foreign_form() -> web.Response:
    """The answer to a form that is not from one of our pages."""
    why = "this form is not from this run of `rollouts dashboard`"
    return refusal_answer(RefusedRequest(HTTPStatus.FORBIDDEN, why))


def error_page(error: RolloutsError) -> DashboardPage:
    """What went wrong, in the words of the command line."""
    return message("That did not work", sentence(error_text(error)))
