"""Which metrics a Prometheus has, for those who write queries: which of a query's are not there, and what was meant perhaps.

The only module that imports prometheus_api_client (the extra `metrics`). It is blocking, so it has a thread, which nobody waits
for at the end: a server that sends a byte a minute must not keep the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import math
import threading
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from rollouts.core.promql import metrics_named_in
from rollouts.errors import RolloutsError, SettingsInvalid, Unanswered
from rollouts.metrics.requests import origin_of

NEAREST_SHOWN = 3


async def metric_names(url: str, *, deadline_s: float, ca_file: Path | None = None) -> frozenset[str]:
    """The names of all metrics that the Prometheus at `url` has now, in one answer within `deadline_s`.

    Raises: Unanswered; SettingsInvalid when the library is not installed.
    Cancellation: safe; the thread ends with its answer, or with the program.
    """
    if not origin_of(url):
        raise SettingsInvalid(f"{url!r} is not the URL of a Prometheus: write http://HOST:PORT")
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[frozenset[str]] = loop.create_future()

    def settle(set_answer: Callable[[], None]) -> None:
        if not answer.done():
            set_answer()

    def ask() -> None:
        try:
            set_answer = partial(answer.set_result, _read_names(url, deadline_s, ca_file))
        except RolloutsError as error:
            set_answer = partial(answer.set_exception, error)
        with contextlib.suppress(RuntimeError):  # nobody waits any more, and the loop is closed
            loop.call_soon_threadsafe(settle, set_answer)

    threading.Thread(target=ask, name="metric-names", daemon=True).start()
    try:
        async with asyncio.timeout(deadline_s):
            return await answer
    except TimeoutError:
        raise Unanswered(f"{origin_of(url)}: no answer within {deadline_s:g} s") from None


def missing_metrics(query: str, known: Collection[str]) -> Iterator[str]:
    """A sentence for each metric of the query that is not among the known ones, with the names next to it."""
    for name in metrics_named_in(query):
        if name not in known:
            near = difflib.get_close_matches(name, known, n=NEAREST_SHOWN)
            meant = f"; did you mean {' or '.join(near)}?" if near else ""
            yield f"Prometheus has no metric {name}{meant}"


def _read_names(url: str, timeout_s: float, ca_file: Path | None) -> frozenset[str]:
    """Raises: Unanswered, SettingsInvalid."""
    try:
        import requests  # noqa: PLC0415 - an extra, and only for this
        from prometheus_api_client.exceptions import PrometheusApiClientException  # noqa: PLC0415
        from prometheus_api_client.prometheus_connect import PrometheusConnect  # noqa: PLC0415
        from urllib3.util.retry import Retry  # noqa: PLC0415
    except ImportError as missing:
        raise SettingsInvalid(
            "this needs prometheus-api-client: in the source tree, pip install '.[metrics]'"
        ) from missing
    who = origin_of(url)
    with requests.Session() as session:
        session.trust_env = False
        session.verify = str(ca_file) if ca_file is not None else True
        asked = PrometheusConnect(url=url.rstrip("/"), retry=Retry(0), session=session, timeout=math.ceil(timeout_s))
        try:
            names: Any = asked.all_metrics()
        except PrometheusApiClientException:  # it contains the whole answer, which is nothing for a terminal
            raise Unanswered(f"{who}: does not answer as a Prometheus does") from None
        except (requests.RequestException, OSError, ValueError, KeyError, TypeError) as error:
            raise Unanswered(f"{who}: {type(error).__name__}") from error
    if not isinstance(names, list):
        raise Unanswered(f"{who}: does not answer as a Prometheus does")
    return frozenset(name for name in names if isinstance(name, str))
