"""Who somebody is by the headers of a proxy that has authenticated them, and which of it counts. Pure.

Only headers that could not have been added to those of the proxy are taken: each comes once and under its very name, its text is
printable ASCII, and nobody is of the API server's own (`system:`). What else arrives is refused, so that it is seen.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import TypeAlias

from msgspec import Struct

from rollouts.cli.dashboard.guard import RefusedRequest

USER_HEADER = "X-Forwarded-User"
GROUPS_HEADER = "X-Forwarded-Groups"
SECRET_HEADER = "X-Rollouts-Proxy-Secret"  # noqa: S105 - the name of one
GROUPS_MAX = 1_000
_OWN = "system:"
_NAME = re.compile(
    r"[!-+\--~](?:[ -+\--~]{0,254}[!-+\--~])?"
)  # printable ASCII without a comma, which joins two headers
_HEADER = re.compile(r"[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*")

RawHeaders: TypeAlias = Sequence[tuple[bytes, bytes]]


class PersonIdentity(Struct, frozen=True):
    """As whom the API server is asked, beside `system:authenticated`, which it adds."""

    user: str
    groups: tuple[str, ...] = ()


class IdentityRules(Struct, frozen=True, kw_only=True):
    """Which headers say who somebody is, and who may come in.

    Args:
        users: who may come in; empty for everybody whom the proxy names.
        groups: those that count; all others are left out.
    """

    user_header: str = USER_HEADER
    groups_header: str = GROUPS_HEADER
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def problem(self) -> str | None:
        """Why they cannot be used, in a line; None when they can."""
        names = (self.user_header, self.groups_header, SECRET_HEADER)
        for header in names[:2]:
            if not _HEADER.fullmatch(header):
                return (
                    f"{header!r} is no name of a header: write letters, digits and single dashes, such as {USER_HEADER}"
                )
        if len({header.lower() for header in names}) < len(names):
            return "user, groups and secret need a header each"
        for name in sorted(self.users | self.groups):
            why = problem_of(name)
            if why is not None:
                return f"{name!r} {why}"
        return None


def problem_of(name: str) -> str | None:
    """Why nobody is taken for this user or group; None for one that may come."""
    if not _NAME.fullmatch(name):
        return "is no name of one user or group: 1 to 256 printable ASCII characters without a comma"
    if name.lower().startswith(_OWN):
        return f"is the API server's own ({_OWN}…): nobody acts as that through the dashboard"
    return None


def identity_in(headers: RawHeaders, rules: IdentityRules) -> PersonIdentity | RefusedRequest:
    """Who has sent the request, or why nobody is taken for its sender.

    Args:
        headers: of a request that has come from the proxy.
    """
    user, groups = single(headers, rules.user_header), single(headers, rules.groups_header)
    if isinstance(user, RefusedRequest):
        return user
    if isinstance(groups, RefusedRequest):
        return groups
    if not user:
        why = f"the proxy does not say who you are: it has to send {rules.user_header}"
        return RefusedRequest(HTTPStatus.UNAUTHORIZED, why)
    named = [each for each in (part.strip() for part in groups.split(",")) if each]
    if len(named) > GROUPS_MAX:
        return RefusedRequest(HTTPStatus.BAD_REQUEST, f"{rules.groups_header} names more than {GROUPS_MAX} groups")
    for name in (user, *(each for each in named if each.lower().startswith(_OWN))):
        problem = problem_of(name)
        if problem is not None:
            return RefusedRequest(HTTPStatus.FORBIDDEN, f"{name!a} {problem}")
    if rules.users and user not in rules.users:
        return RefusedRequest(HTTPStatus.FORBIDDEN, f"{user} is not among those who may use this dashboard")
    return PersonIdentity(user, tuple(sorted(rules.groups.intersection(named))))


def single(headers: RawHeaders, name: str) -> str | RefusedRequest:
    """The text of a header that comes once and under its very name, or why it does not count; "" for one that is not there.

    A `_` is a `-` for some servers: what removes `X-Forwarded-User` of others may let `X_Forwarded_User` pass.
    """
    wanted = name.lower()
    found = [
        (sent, text)
        for sent, text in ((each.decode("latin-1").lower(), text) for each, text in headers)
        if sent.replace("_", "-") == wanted
    ]
    if len(found) > 1 or any(sent != wanted for sent, _ in found):
        why = f"{name} has to come once and under this very name: the proxy has to replace what a browser sends"
        return RefusedRequest(HTTPStatus.BAD_REQUEST, why)
    return found[0][1].decode("latin-1").strip() if found else ""
