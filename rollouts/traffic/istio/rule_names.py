"""How a spec names rules of a VirtualService, as Argo Rollouts does: http routes by name, tls and tcp routes by their matches."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from rollouts.objects import Manifest


class HttpRule(Struct, frozen=True):
    """Names the rule of that name in the list `http`."""

    name: str

    @property
    def of(self) -> str:
        """The list of the rule."""
        return "http"

    @property
    def field(self) -> str:
        """The field of the spec that names it."""
        return "routes"

    def __str__(self) -> str:
        return f"http {self.name}"

    def means(self, rule: Manifest, *, of: str) -> bool:
        """Whether this names a rule of the list `of`."""
        return of == "http" and bool(rule.get("name") == self.name)


class StreamRule(Struct, frozen=True):
    """Names each rule of the list `tls` or `tcp` whose matches for that port have all these hosts.

    Args:
        port: 0 for any.
    """

    of: str
    port: int
    sni_hosts: tuple[str, ...]

    @property
    def field(self) -> str:
        """The field of the spec that names it."""
        return f"{self.of}Routes"

    def __str__(self) -> str:
        return " ".join(filter(None, (self.of, str(self.port or ""), ",".join(self.sni_hosts))))

    def means(self, rule: Manifest, *, of: str) -> bool:
        """Whether this names a rule of the list `of`. Matches are alternatives, and an empty list matches everything."""
        if of != self.of:
            return False
        there = [each for each in rule.get("match") or [{}] if self.port in (0, each.get("port", 0))]
        return bool(there) and set(self.sni_hosts) <= {name for each in there for name in each.get("sniHosts") or ()}


RuleName: TypeAlias = HttpRule | StreamRule
