"""A server with metrics that an administrator declares, and where its credentials are. They themselves are not here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

from rollouts.core.analysis.recipe import Recipe


class InFile(Struct, frozen=True):
    """A file that is mounted into the controller's pod.

    Args:
        path: below the folder of credentials.
    """

    path: str

    def __str__(self) -> str:
        return f"file {self.path}"


class InSecret(Struct, frozen=True):
    """One key of a Secret in the controller's own namespace."""

    name: str
    key: str

    def __str__(self) -> str:
        return f"key {self.key} of Secret {self.name}"


READS_ONLY = ("GET",)
"""What metrics may do where nobody has said that they may do more."""

CredentialPlace: TypeAlias = InFile | InSecret


class BasicPlace(Struct, frozen=True):
    """User and password (RFC 7617)."""

    username: str
    password: CredentialPlace


class BearerPlace(Struct, frozen=True):
    """A token (RFC 6750)."""

    token: CredentialPlace


class OAuth2Place(Struct, frozen=True, kw_only=True):
    """Client credentials (RFC 6749, section 4.4)."""

    token_url: str
    client_id: str
    client_secret: CredentialPlace
    scopes: tuple[str, ...] = ()


class ServiceAccountPlace(Struct, frozen=True, kw_only=True):
    """A key of a service account of Google (RFC 7523).

    Args:
        key: where the key file is, as a whole.
        scopes: () for that which reads metrics.
    """

    key: CredentialPlace
    scopes: tuple[str, ...] = ()


class SignaturePlace(Struct, frozen=True, kw_only=True):
    """AWS's signatures (Signature Version 4).

    Args:
        service: "" for that of the server's kind.
        secret_key: of `access_key`; None where AWS's own library finds credentials.
    """

    region: str
    service: str = ""
    access_key: str = ""
    secret_key: CredentialPlace | None = None


Identity: TypeAlias = BasicPlace | BearerPlace | OAuth2Place | ServiceAccountPlace | SignaturePlace


class MetricServer(Struct, frozen=True, kw_only=True):
    """What a MetricProvider declares.

    Args:
        identity: how the controller says who it is.
        headers: of every request: (name, value or where it is).
        ca_file: certificates of authorities that are trusted besides the public ones.
        server_name: the name that the certificate must have; "" for the URL's.
        insecure: its certificate is not checked.
        methods: that metrics of the source web may use.
        kind: name of its recipe; "" for none.
        settings: what the recipe needs, by name.
        recipe: its own; None for that of its kind, or for none.
    """

    url: str
    identity: Identity | None = None
    headers: tuple[tuple[str, str | CredentialPlace], ...] = ()
    ca_file: InFile | None = None
    server_name: str = ""
    insecure: bool = False
    methods: tuple[str, ...] = READS_ONLY
    kind: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    recipe: Recipe | None = None

    @property
    def credentials(self) -> Iterator[CredentialPlace]:
        """Where its credentials are."""
        match self.identity:
            case BasicPlace(password=place) | BearerPlace(token=place) | OAuth2Place(client_secret=place):
                yield place
            case ServiceAccountPlace(key=place):
                yield place
            case SignaturePlace(secret_key=secret_key) if secret_key is not None:
                yield secret_key
        for _, value in self.headers:
            if not isinstance(value, str):
                yield value

    @property
    def places(self) -> tuple[CredentialPlace, ...]:
        """All that is read before it can be asked: credentials, and the certificates of authorities."""
        found = [*self.credentials, *([self.ca_file] if self.ca_file is not None else ())]
        return tuple(dict.fromkeys(found))
