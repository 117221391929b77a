"""Pages, refusals and errors as answers of the server."""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import web

from rollouts.cli.dashboard.guard import RefusedRequest
from rollouts.cli.dashboard.pages import DashboardPage, document, message, sentence
from rollouts.cli.terminal.errors import error_text
from rollouts.errors import RolloutsError


def page_answer(page: DashboardPage, status: int = HTTPStatus.OK) -> web.Response:
    """The whole page."""
    return web.Response(body=document(page), status=status, content_type="text/html", charset="utf-8")


def refusal_answer(refusal: RefusedRequest) -> web.Response:
    """One line for whoever sent it."""
    return web.Response(text=f"{refusal.why}\n", status=refusal.status)


def error_page(error: RolloutsError) -> DashboardPage:
    """What went wrong, in the words of the command line."""
    return message("That did not work", sentence(error_text(error)))
