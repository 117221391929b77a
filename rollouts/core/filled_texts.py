"""Values put into conditions, URLs, JSON, paths of JSON and scripts so that they stay values: `promql` does it for queries. Pure.

A value is one text where it stands inside quotes, and what the grammar of its place can bear as one value elsewhere. A text that
is a place from its beginning to its end is all argument, and only what reads it afterwards judges it; a condition is never that.
"""

from __future__ import annotations

import json
import re
import shlex
from urllib.parse import quote

from rollouts.core.placeholders import (
    PLACE,
    STRING,
    UNCLOSED_STRING,
    Refuse,
    ValueOf,
    checked,
    filled,
    filled_parts,
    filled_string,
)
from rollouts.core.promql import NUMBER

_PART = re.compile(
    rf"{STRING} | {UNCLOSED_STRING} | (?P<member> (?<=\.) {PLACE.pattern} ) | {PLACE.pattern}", re.VERBOSE
)
_CONSTANT = re.compile(rf"{NUMBER} | true | false | nil | null | {STRING}", re.VERBOSE)
_MEMBER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IN_CONDITION = (
    "stands outside of quotes, where only a number, true, false, nil or a text in quotes may stand, and behind a dot the name of"
    " a field; put the place in quotes if it is a text"
)

_JSON_PART = re.compile(  # a string that does not end is looked through once, too
    rf"""(?P<text> "(?:\\.|[^"\\])*+" ) | "(?:\\.|[^"\\])*+\\? | {PLACE.pattern}""", re.VERBOSE
)

_BARE_WORDS = re.compile(r"\w+(?:[.:/@-]\w+)*", re.ASCII)
_QUOTED_WORDS = re.compile(r"[\w .:/@=,-]*")

_PATH_PART = re.compile(rf"{STRING} | {UNCLOSED_STRING} | {PLACE.pattern}", re.VERBOSE)
_PATH_NAME = re.compile(r"[\w-]+")

_NAME_OF_HOST = r"[A-Za-z0-9_.-]+"
_PORT = r"[0-9]{1,5}"
_HOST = re.compile(rf"{_NAME_OF_HOST}|{_NAME_OF_HOST}:{_PORT}|\[[0-9A-Fa-f:.]+\](?::{_PORT})?")
_BEGINNING = re.compile(rf"https?://(?:{_HOST.pattern})(?:/[^?#\s\\]*)?")
_BEGINNING_OF_HOST = re.compile(rf"https?://{_NAME_OF_HOST}")
_SCHEME = re.compile(r"https?")
_IN_PATH = "/!$'()*,:@=&+"
_IN_QUERY = "/?!$'()*,:@"


def filled_condition(text: str, value_of: ValueOf, refuse: Refuse) -> str:
    """An expression with values put in: escaped inside strings; elsewhere constants, and names of fields behind a dot."""

    def unless(allowed: re.Pattern[str]) -> ValueOf:
        return lambda value: None if allowed.fullmatch(value) else f"is {value[:40]!r} and {_IN_CONDITION}"

    # Names of fields first: nothing that is put in has a place in it.
    member = checked(value_of, refuse, unless(_MEMBER))
    named = _PART.sub(lambda found: filled(found[0], member) if found["member"] else found[0], text)
    return filled_parts(named, _PART, value_of, refuse, bare=checked(value_of, refuse, unless(_CONSTANT)))


def filled_url(text: str, value_of: ValueOf, refuse: Refuse) -> str:
    """A URL with values put in: percent-encoded in path and query; a host or a port where these stand, a URL where it begins.

    So a value changes no part of the URL but the one that it stands in.
    """

    def value(found: re.Match[str]) -> str:
        name = found[1].strip()
        given = value_of(name)
        if given is None or found[0] == text.strip():
            return found[0] if given is None else given
        before, after = PLACE.sub("x", text[: found.start()]), text[found.end() :]
        path = before.split("://", 1)[-1]
        if "/" in path or "?" in path:  # the host has ended
            return quote(given, safe=_IN_QUERY if "?" in before else _IN_PATH, errors="replace")
        if problem := _problem_of_host(given, before, after):
            refuse(name, f"is {given[:40]!r}, and {problem}")
        return given

    return PLACE.sub(value, text)


def _problem_of_host(value: str, before: str, after: str) -> str:
    """Why the value may not stand before the path; "" when it may."""
    ends = not after or after[0] in "/?"
    if not before and after.startswith("://"):
        allowed, problem = _SCHEME, "stands in place of http or https"
    elif not before:
        kind = "with or without a path" if ends else "without port and path, as more of the host follows"
        allowed = _BEGINNING if ends else _BEGINNING_OF_HOST
        problem = f"the URL begins with it: it must be like https://HOST, {kind}"
    elif before.endswith(":"):
        allowed, problem = re.compile(_PORT), "stands in place of a port, which is a number"
    else:  # a port may end the host where nothing stands around it, and nothing else may
        allowed = _HOST if ends and before.endswith("//") else re.compile(_NAME_OF_HOST)
        problem = "stands in the host of a URL, where only letters, digits, dots and dashes may stand"
    return "" if allowed.fullmatch(value) else problem


def filled_body(text: str, value_of: ValueOf, refuse: Refuse) -> str:
    """A body with values put in: one that begins as JSON stays the same JSON; in any other a value stands as it is."""
    begins = text.lstrip()
    if begins.startswith(("{", "[")) and not begins.startswith("{{"):
        return filled_json(text, value_of, refuse)
    return filled(text, value_of)


def filled_json(text: str, value_of: ValueOf, refuse: Refuse) -> str:
    """JSON with values put in: escaped inside strings; elsewhere a value must be JSON itself."""

    def refused(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON")

    def problem(value: str) -> str:
        try:
            json.loads(value, parse_constant=refused)
        except (ValueError, RecursionError):
            return f"is {value[:40]!r} and stands outside of quotes in JSON, where only JSON may stand; put the place in quotes"
        return ""

    bare = checked(value_of, refuse, problem)

    def part(found: re.Match[str]) -> str:
        if found["text"] is None:
            return filled(found[0], bare)
        return filled_string(
            found[0], value_of, refuse, lambda given: json.dumps(given, ensure_ascii=False)[1:-1], where=" in JSON"
        )

    return _JSON_PART.sub(part, text)


def filled_json_path(text: str, value_of: ValueOf, refuse: Refuse) -> str:
    """A path of JSON with values put in: escaped inside quotes; elsewhere a value is one name or one number."""
    whole = PLACE.fullmatch(text.strip()) is not None

    def problem(value: str) -> str:
        if whole or _PATH_NAME.fullmatch(value):
            return ""
        return f"is {value[:40]!r}, and outside of quotes of a JSON path only one name or number may stand"

    return filled_parts(text, _PATH_PART, value_of, refuse, bare=checked(value_of, refuse, problem))


def filled_words(text: str, value_of: ValueOf, refuse: Refuse) -> str:
    """A query in a language that is not parsed here, with values put in: names, numbers and paths; in quotes with spaces.

    What ends a string, begins a comment or separates parameters is refused in any language's way.
    """
    if PLACE.fullmatch(text.strip()):
        return filled(text, value_of)

    def bare(value: str) -> str:
        if _BARE_WORDS.fullmatch(value):
            return ""
        return f"is {value[:40]!r} and stands in a query outside of quotes, where only a name, a path or a number may stand"

    def quoted(value: str) -> str:
        if _QUOTED_WORDS.fullmatch(value) and "--" not in value and "//" not in value:
            return ""
        return f"is {value[:40]!r} and stands in quotes in a query, where only letters, digits, spaces and .:/@=,-_ may stand"

    in_quotes, outside = checked(value_of, refuse, quoted), checked(value_of, refuse, bare)
    return _PATH_PART.sub(lambda found: filled(found[0], in_quotes if found["text"] else outside), text)


def filled_script(text: str, value_of: ValueOf, refuse: Refuse) -> str:
    """A command of a shell with values put in, each a part of one word: without characters that mean anything to a shell."""
    if PLACE.fullmatch(text.strip()):
        return filled(text, value_of)

    def problem(value: str) -> str:
        if shlex.quote(value) == value:
            return ""
        return f'is {value[:40]!r} and stands in a command, where it could be another one: put it into env, and use "$NAME" here'

    return filled(text, checked(value_of, refuse, problem))
