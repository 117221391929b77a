"""The codec's memory: one annotation on the user's object, written and removed together with the changes that it describes.

It holds the weights that the user wrote, those that we wrote over them (so that a later edit of the user is recognized), the
managed routes that we added, and how the rules with them look.
"""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Struct

from rollouts.core.model.traffic import MatchKind, MatchRoute, MirrorRoute, NamedMatch, RequestMatch, Sticky, TextMatch
from rollouts.objects import Manifest
from rollouts.traffic.codec import LEDGER, Destination, destination_of

_Weight: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_ServiceName: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]


class Noted(Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """What we changed in one pair of backends.

    Args:
        rule: how its rule looks without our changes (`Dialect.look`).
        stable, canary: the weights that the user wrote; None for a backend without a weight.
        added: whether we added the canary's backend, because the user wrote none.
        wrote: the two weights that we wrote.
    """

    rule: str
    stable: _Weight | None
    canary: _Weight | None
    added: bool
    wrote: tuple[_Weight, _Weight]


class NotedAnnotation(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One annotation: the text that the user wrote, None for none, and the text that we wrote."""

    annotation: str
    before: str | None
    wrote: str


class Ledger(Struct, frozen=True, kw_only=True):
    """What we changed in one object.

    Args:
        between: the stable and the canary destination of the change; None for no change.
        made: how each rule that we added looks.
        sticky, share: the share of clients, and how they are told apart; None and 0 for a share of requests, which weights say.
        experiments: Services of Experiments whose backends we added; their weights are in the rules.
    """

    between: tuple[Destination, Destination] | None = None
    pairs: tuple[Noted, ...] = ()
    matches: tuple[MatchRoute, ...] = ()
    mirrors: tuple[MirrorRoute, ...] = ()
    made: tuple[str, ...] = ()
    texts: tuple[NotedAnnotation, ...] = ()
    sticky: Sticky | None = None
    share: Fraction = Fraction(0)
    experiments: tuple[str, ...] = ()


NOTHING = Ledger()


def ledger_of(user: Manifest) -> Ledger:
    """The ledger in the annotation; `NOTHING` when it cannot be read, because somebody changed it by hand."""
    text = (user.get("metadata", {}).get("annotations") or {}).get(LEDGER)
    if not text:
        return NOTHING
    try:
        noted = _WIRE.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return NOTHING
    mirrors = [MirrorRoute(name, tuple(map(_Match.read, matches)), percent) for name, matches, percent in noted.mirrors]
    return Ledger(
        between=(destination_of(noted.between[0]), destination_of(noted.between[1])) if noted.between else None,
        pairs=noted.pairs,
        matches=tuple([MatchRoute(name, match.read()) for name, match in noted.matches]),
        mirrors=tuple(mirrors),
        made=noted.made,
        texts=noted.texts,
        sticky=Sticky(*noted.sticky) if noted.sticky else None,
        share=Fraction(noted.share),
        experiments=noted.experiments,
    )


def with_ledger(user: Manifest, ledger: Ledger) -> Manifest:
    """A copy of the object with this ledger; without one for `NOTHING`."""
    if ledger == NOTHING and LEDGER not in (user.get("metadata", {}).get("annotations") or {}):
        return user
    if ledger == NOTHING:
        return with_annotation(user, LEDGER, None)
    said: dict[str, Any] = {
        "between": [str(each) for each in ledger.between or ()],
        "pairs": msgspec.to_builtins(ledger.pairs),
        "matches": [[each.name, _told(each.match)] for each in ledger.matches],
        "mirrors": [[each.name, list(map(_told, each.matches)), each.percent] for each in ledger.mirrors],
        "made": ledger.made,
        "texts": msgspec.to_builtins(ledger.texts),
        "sticky": [ledger.sticky.cookie, ledger.sticky.digits, ledger.sticky.seed] if ledger.sticky else (),
        "share": str(ledger.share) if ledger.sticky else "",
        "experiments": ledger.experiments,
    }
    text = json.dumps({name: value for name, value in said.items() if value}, separators=(",", ":"), ensure_ascii=False)
    return with_annotation(user, LEDGER, text)


def with_annotation(user: Manifest, annotation: str, text: str | None) -> Manifest:
    """A copy of the object with that annotation; None removes it, and also a map of annotations that is then empty."""
    metadata = user.get("metadata", {})
    annotations = {name: value for name, value in (metadata.get("annotations") or {}).items() if name != annotation}
    if text is not None:
        annotations[annotation] = text
    kept = {name: value for name, value in metadata.items() if name != "annotations"}
    if annotations:
        kept["annotations"] = annotations
    rest = {name: value for name, value in user.items() if name != "metadata"}
    return {**rest, "metadata": kept} if kept else rest


def _told(match: RequestMatch) -> dict[str, Any]:
    said = {
        "method": _text_json(match.method),
        "path": _text_json(match.path),
        "headers": [[each.name, *_text_json(each.value)] for each in match.headers],
        "cookies": [[each.name, *_text_json(each.value)] for each in match.cookies],
        "query": [[each.name, *_text_json(each.value)] for each in match.query],
    }
    return {name: value for name, value in said.items() if value}


def _text_json(text: TextMatch | None) -> list[str]:
    return [] if text is None else [text.kind.value, text.value]


_Text: TypeAlias = tuple[MatchKind, str]
_NamedText: TypeAlias = tuple[str, MatchKind, str]


class _Match(Struct, frozen=True):
    """A RequestMatch in the annotation."""

    method: _Text | None = None
    path: _Text | None = None
    headers: tuple[_NamedText, ...] = ()
    cookies: tuple[_NamedText, ...] = ()
    query: tuple[_NamedText, ...] = ()

    def read(self) -> RequestMatch:
        return RequestMatch(
            method=TextMatch(*self.method) if self.method else None,
            path=TextMatch(*self.path) if self.path else None,
            headers=_named(self.headers),
            cookies=_named(self.cookies),
            query=_named(self.query),
        )


def _named(said: tuple[_NamedText, ...]) -> tuple[NamedMatch, ...]:
    return tuple([NamedMatch(name, TextMatch(kind, value)) for name, kind, value in said])


class _Wire(Struct, frozen=True):
    """The annotation. Each field has its type and its bound, as anybody may have written it: to Python `1e999999999` is a
    fraction too, which takes hours."""

    between: tuple[str, str] | None = None
    pairs: Annotated[tuple[Noted, ...], msgspec.Meta(max_length=1_024)] = ()
    matches: tuple[tuple[str, _Match], ...] = ()
    mirrors: tuple[tuple[str, tuple[_Match, ...], Annotated[int, msgspec.Meta(ge=0, le=100)]], ...] = ()
    made: tuple[str, ...] = ()
    texts: tuple[NotedAnnotation, ...] = ()
    sticky: tuple[str, str, str] | None = None
    share: Annotated[str, msgspec.Meta(pattern="^(0|[0-9]{1,18}/[1-9][0-9]{0,17}|1)$")] = "0"
    experiments: Annotated[tuple[_ServiceName, ...], msgspec.Meta(max_length=64)] = ()


_WIRE = msgspec.json.Decoder(_Wire)
