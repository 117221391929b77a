"""The page on which people sign in, and what the head of all others says of them. Pure."""

from __future__ import annotations

import htpy as h

from rollouts.cli.dashboard.pages import DashboardPage, notice

LOGOUT = "/logout"
_COMMAND = "kubectl create token ACCOUNT --namespace NAMESPACE --duration 8h"


def sign_in_page(*, action: str, back: str, said: str, colour: str, in_clear: bool) -> DashboardPage:
    """The page.

    Args:
        action: the address that takes the token.
        back: the address to go to afterwards, on this site.
        said: what is to be said first, such as why a session is over; "" for nothing.
        in_clear: the address has no TLS.
    """
    open_way = "This address has no TLS: everybody on the way can read the token, and act with it."
    main = h.div(".ask")[
        notice(colour, said) if said else None,
        notice("bad", "Do not sign in here over a network", h.p[open_way]) if in_clear else None,
        h.section(".card")[
            h.h1["Sign in"],
            h.form(".sign-in", method="post", action=action)[
                h.label(for_="token")["Bearer token of the cluster"],
                h.input("#token", type="password", name="token", required=True, autocomplete="off", spellcheck="false"),
                h.input(type="hidden", name="next", value=back),
                h.div(".acts")[h.button(".main")["Sign in"]],
            ],
            h.p(".soft")[
                "What you see and do is what this token may. The dashboard keeps it in its memory until you sign out, "
                "for eight hours at most, and has no rights of its own. One of a service account is printed by:"
            ],
            h.code(".line")[_COMMAND],
        ],
    ]
    return DashboardPage("Sign in", main)


def signed_in_part(name: str, form_field: str) -> h.Element:
    """Who is signed in, and the way out."""
    return h.form(".who", method="post", action=LOGOUT)[
        h.span(".user")[name], h.input(type="hidden", name="form", value=form_field), h.button["Sign out"]
    ]


def known_part(name: str) -> h.Element:
    """Who is known by a proxy, which has the way out."""
    return h.div(".who")[h.span(".user")[name]]


def again_page() -> bytes:
    """A page that opens its own address again, now from this site: a link on another site brings no cookie."""
    frame = h.html(lang="en")[h.head[h.meta(charset="utf-8"), h.meta(http_equiv="refresh", content="0"), h.title["…"]]]
    return str(frame).encode()
