"""Whether a declared router follows its object: a URL of the router, and an expression over its answer.

The administrator writes the host, and an object gives only the path below it, so the author of an object cannot choose who is
asked. Pure: `probes/declared_probes.py` asks.

    "live": {"http": {"url": "http://router-admin.edge:9000", "path": {"cel": "'/routes/' + object.metadata.name"}},
             "cel": "body.weight == want"}
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from rollouts.core.model.traffic import Acceptance, Answer, Split
from rollouts.errors import ExpressionFailed
from rollouts.expressions import Expression, Result
from rollouts.objects import Manifest
from rollouts.traffic.settings import SettingsReader

PATH_VARIABLES = ("object",)
ANSWER_VARIABLES = ("body", "want", "object", "stable", "canary")

_PATH = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*")
_PATH_MOST = 2_048


class DeclaredProbe(Struct, frozen=True, kw_only=True):
    """Whom to ask, and what the answer means.

    Args:
        url: `http://` or `https://`, host, port and perhaps a path, without a trailing slash.
        path: an expression over `object` for the rest of the URL; None for nothing.
        says: an expression over ANSWER_VARIABLES that is true when the router follows the object.
    """

    url: str
    path: Expression | None
    says: Expression

    def path_of(self, user: Manifest) -> str:
        """The path with its query, below the URL. Raises: ExpressionFailed."""
        if self.path is None:
            return ""
        found = self.path.text({"object": user})
        if len(found) > _PATH_MOST or not _PATH.fullmatch(found) or "/.." in found:
            raise ExpressionFailed(
                f"{self.path.source}: its result is not a path of a URL that begins with /: {found[:200]!r}"
            )
        return found

    def judged(self, answer: bytes, user: Manifest, want: Split, stable: str, canary: str) -> Acceptance:
        """What the answer means: YES when the router follows the object, NO when not, UNKNOWN when the answer is unclear."""
        try:
            body = json.loads(answer)
        except (ValueError, RecursionError) as error:
            return Acceptance(Answer.UNKNOWN, f"its answer is not valid JSON: {str(error)[:200]}")
        data: Mapping[str, Any] = {
            "body": body,
            # Always the same type, so that the tests find calculations that fail with it.
            "want": float(want.share * 100),
            "object": user,
            "stable": stable,
            "canary": canary,
        }
        try:
            if self.says.truth(data):
                return Acceptance(Answer.YES)
        except ExpressionFailed as error:
            return Acceptance(Answer.UNKNOWN, str(error))
        return Acceptance(Answer.NO, f"not true yet: {self.says.source}")


def read_probe(part: SettingsReader | None) -> DeclaredProbe | None:
    """The probe in a declaration, None when it has none; problems are noted in `part`."""
    if part is None:
        return None
    http = part.part("http")
    source = part.text("cel", needed=True)
    part.done()
    if http is None:
        part.refuse("http", "is required: {url, path}")
        return None
    url, path = http.text("url", needed=True), http.part("path")
    http.done()
    if url and not _is_base(url):
        http.refuse("url", "must be http://HOST:PORT or https://HOST:PORT, with or without a path")
    below = None
    if path is not None:
        path_source = path.text("cel", needed=True)
        path.done()
        below = path.compiled("cel", path_source, variables=PATH_VARIABLES, result=Result.TEXT) if path_source else None
    says = part.compiled("cel", source, variables=ANSWER_VARIABLES, result=Result.TRUTH) if source else None
    return DeclaredProbe(url=url.rstrip("/"), path=below, says=says) if says is not None else None


def run_answers(probe: DeclaredProbe | None, test: SettingsReader, user: Manifest, percent: int) -> frozenset[bool]:
    """Checks the answers in one test against their expected meaning; returns the meanings that occurred."""
    found = set[bool]()
    managed = {**user, "metadata": {"name": "test", "namespace": "test", **(user.get("metadata") or {})}}
    answers = test.parts("answers")
    if answers and probe is None:
        test.refuse("answers", "are for live, which is not declared")
    if probe is None:
        return frozenset()
    try:
        probe.path_of(managed)
    except ExpressionFailed as error:
        test.refuse("object", f"gives no path to ask: {error}")
    for each in answers:
        body, live = each.anything("body"), each.flag("live")
        each.done()
        verdict = probe.judged(json.dumps(body).encode(), managed, Split(Fraction(percent, 100)), "stable", "canary")
        found.add(live)
        if (verdict.answer is Answer.YES) is not live:
            said = "is live" if verdict.answer is Answer.YES else f"is not live: {verdict.message}"
            each.refuse("live", f"differs from the result: the answer {said}")
    return frozenset(found)


def _is_base(url: str) -> bool:
    try:
        parts = urlsplit(url)
        named = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # a port that is not a number, an address with half a bracket
        return False
    plain = parts.username is None and not parts.query and not parts.fragment
    return named and plain and not re.search(r"\s", url)
