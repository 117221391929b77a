"""Clients that keep asking one URL and note for each request when it was sent and who answered it."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

CLIENTS = 4
PATIENCE_S = 5.0


class Answer(NamedTuple):
    """One answer; times are seconds since 1970."""

    sent_at: float
    answered_at: float
    status: int  # of HTTP; 0 for no answer
    version: str  # of the app that gave it; "" for an answer of the gateway's own


@dataclass
class Asking:
    """Clients at work."""

    _answers: list[Answer] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def answers(self) -> Sequence[Answer]:
        """All so far, in the order in which they came."""
        with self._changed:
            return tuple(self._answers)

    def since(self, when: float) -> list[Answer]:
        """Those to requests that were sent at `when` or later."""
        return [one for one in self.answers if one.sent_at >= when]

    def until(self, holds: Callable[[Sequence[Answer]], bool], *, within_s: float) -> None:
        """Waits until it holds for all answers so far. Raises: AssertionError with the last ones."""
        with self._changed:
            if not self._changed.wait_for(lambda: holds(self._answers), within_s):
                raise AssertionError(f"not within {within_s} s; the last answers: {self._answers[-5:]}")

    def until_only(self, version: str, *, in_a_row: int = 60, within_s: float = 30) -> None:
        """Waits until the last `in_a_row` answers are all of one version."""
        self.until(
            lambda all_: len(all_) >= in_a_row and {one.version for one in all_[-in_a_row:]} == {version},
            within_s=within_s,
        )

    def _add(self, answer: Answer) -> None:
        with self._changed:
            self._answers.append(answer)
            self._changed.notify_all()


@contextmanager
def asking(url: str, *, clients: int = CLIENTS, headers: Mapping[str, str] | None = None) -> Iterator[Asking]:
    """Each client sends its next request when its last one was answered, over one kept connection."""
    running, ended = Asking(), threading.Event()
    threads = [
        threading.Thread(target=_ask, args=(url, headers or {}, running, ended), daemon=True) for _ in range(clients)
    ]
    for each in threads:
        each.start()
    try:
        yield running
    finally:
        ended.set()
        for each in threads:
            each.join(PATIENCE_S + 1)


def _ask(url: str, headers: Mapping[str, str], running: Asking, ended: threading.Event) -> None:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=PATIENCE_S)
    while not ended.is_set():
        sent_at = time.time()
        try:
            connection.request("GET", parts.path, headers=dict(headers))
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            running._add(Answer(sent_at, time.time(), 0, ""))
            ended.wait(0.02)  # a proxy that is not there refuses faster than anybody needs to know
        else:
            running._add(Answer(sent_at, time.time(), answer.status, answer.getheader("X-Version", "")))
    connection.close()
