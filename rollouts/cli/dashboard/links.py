"""Links to logs and monitoring, by templates that the operator gives. Pure.

Names of objects are filled in behind the host and encoded, so that whoever names an object chooses neither the server nor
another field of its address.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from urllib.parse import quote, urlsplit

from msgspec import Struct

_PARTS = ("revision", "pod")
"""Of a Rollout or an Experiment, each within the one before; a link is where the last of them that it names is."""

PLACEHOLDERS = ("namespace", "rollout", "experiment", *_PARTS)

_LABEL_MAX = 60
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_URL = re.compile(r"https?://[!-~]+")


class LinkTemplate(Struct, frozen=True):
    """A link with `{placeholders}`."""

    label: str
    url: str

    def belongs_to(self, about: Mapping[str, str]) -> bool:
        """Whether it is about the most particular thing that these values of placeholders name, and needs no other values."""
        named = {*_PLACEHOLDER.findall(self.url)}
        return named <= about.keys() and _depth(named) == _depth(about)

    def filled(self, about: Mapping[str, str]) -> str:
        """The address about these values of its placeholders."""
        return _PLACEHOLDER.sub(lambda found: quote(about[found[1]], safe=""), self.url)


def link_template(text: str) -> LinkTemplate:
    """The template that is written as LABEL=URL. Raises: ValueError, with what to write instead."""
    label, _, url = (part.strip() for part in text.partition("="))
    known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
    if not label or len(label) > _LABEL_MAX or not label.isprintable() or not _URL.fullmatch(url):
        like = "Logs=https://logs.example.com/?ns={namespace}&pod={pod}"
        raise ValueError(f"{text!r} is no link: write LABEL=URL, with http or https and without spaces, such as {like}")
    unknown = [name for name in _PLACEHOLDER.findall(url) if name not in PLACEHOLDERS]
    if unknown:
        raise ValueError(f"{label}: {{{unknown[0]}}} is not known; known are {known}")
    if re.search(r"[{}]", _PLACEHOLDER.sub("", url)):
        raise ValueError(f"{label}: a brace that belongs to no placeholder is written %7B or %7D; known are {known}")
    try:
        host = urlsplit(_PLACEHOLDER.sub(" ", url)).netloc
    except ValueError:
        host = ""
    if not host or set(host) & {" ", "@", "\\"}:
        raise ValueError(f"{label}: its host has to be written out, without a user; placeholders belong behind it")
    return LinkTemplate(label, url)


def links_about(templates: Iterable[LinkTemplate], about: Mapping[str, str]) -> list[tuple[str, str]]:
    """Label and address of the links that belong to the most particular thing that these values of placeholders name."""
    return [(each.label, each.filled(about)) for each in templates if each.belongs_to(about)]


def _depth(names: Collection[str]) -> int:
    return max((depth for depth, part in enumerate(_PARTS, start=1) if part in names), default=0)
