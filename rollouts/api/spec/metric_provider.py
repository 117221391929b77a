"""A MetricProvider → core, with every problem and its path. Rules of URLs and headers are the room `metrics`'s."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollouts.api.problems import Problems
from rollouts.api.spec.reading import read_model
from rollouts.api.v1alpha1.metric_provider import (
    MetricProviderSpec,
    ProviderCredential,
    ProviderRequestHeader,
)
from rollouts.core.analysis.metric_server import (
    READS_ONLY,
    BasicPlace,
    BearerPlace,
    CredentialPlace,
    Identity,
    InFile,
    InSecret,
    MetricServer,
    OAuth2Place,
)

_NOWHERE = InFile("")
_IDENTITIES = ("basic", "bearer", "oauth2")


def read_metric_provider(spec: Mapping[str, Any], problems: Problems) -> MetricServer:
    """The server that the spec of a MetricProvider declares; it means something only when no problem was added.

    Args:
        problems: gets everything that is wrong, but for URLs and headers that are no good in themselves.
    """
    wire = read_model(MetricProviderSpec, spec, problems, root="spec")
    if not wire.url:
        problems.add_missing("spec.url", "is required, such as https://prometheus.monitoring:9090")
    given = [name for name in _IDENTITIES if getattr(wire, name) is not None]
    if len(given) > 1:
        problems.add("spec", f"at most one of basic, bearer and oauth2; it has {' and '.join(given)}")
    tls = wire.tls
    if tls is not None and tls.insecure_skip_verify and (tls.ca_file or tls.server_name):
        problems.add(
            "spec.tls.insecureSkipVerify", "checks nothing, so caFile and serverName mean nothing: leave one out"
        )
    urls = [url for url in (wire.url, wire.oauth2.token_url if wire.oauth2 is not None else None) if url]
    if tls is not None and urls and all(url.startswith("http://") for url in urls):
        problems.add("spec.tls", "means nothing where the URL begins with http://: leave it out, or write https://")
    return MetricServer(
        url=wire.url or "",
        identity=_identity(wire, problems),
        headers=tuple(
            _header(header, f"spec.headers[{index}]", problems) for index, header in enumerate(wire.headers or ())
        ),
        ca_file=InFile(tls.ca_file) if tls is not None and tls.ca_file else None,
        server_name=(tls.server_name or "") if tls is not None else "",
        insecure=bool(tls is not None and tls.insecure_skip_verify),
        methods=tuple(wire.methods or READS_ONLY),
    )


def _identity(wire: MetricProviderSpec, problems: Problems) -> Identity | None:
    if (basic := wire.basic) is not None:
        if not basic.username:
            problems.add_missing("spec.basic.username", "is required")
        elif ":" in basic.username or not basic.username.isprintable():
            problems.add("spec.basic.username", "must have no ':' and no control characters (RFC 7617)")
        return BasicPlace(basic.username or "", _place(basic.password, "spec.basic.password", problems))
    if wire.bearer is not None:
        return BearerPlace(_place(wire.bearer, "spec.bearer", problems))
    if (oauth2 := wire.oauth2) is not None:
        for name, value in (("tokenUrl", oauth2.token_url), ("clientId", oauth2.client_id)):
            if not value:
                problems.add_missing(f"spec.oauth2.{name}", "is required")
        return OAuth2Place(
            token_url=oauth2.token_url or "",
            client_id=oauth2.client_id or "",
            client_secret=_place(oauth2.client_secret, "spec.oauth2.clientSecret", problems),
            scopes=tuple(oauth2.scopes or ()),
        )
    return None


def _header(wire: ProviderRequestHeader, path: str, problems: Problems) -> tuple[str, str | CredentialPlace]:
    if not wire.name:
        problems.add_missing(f"{path}.name", "is required")
    if (wire.value is None) == (wire.value_from is None):
        problems.add_missing(path, "needs exactly one of value and valueFrom")
    if wire.value_from is None:
        return wire.name or "", wire.value or ""
    return wire.name or "", _place(wire.value_from, f"{path}.valueFrom", problems)


def _place(wire: ProviderCredential | None, path: str, problems: Problems) -> CredentialPlace:
    if wire is None:
        problems.add_missing(path, "is required: a file or a secretKeyRef")
        return _NOWHERE
    if (wire.file is None) == (wire.secret_key_ref is None):
        problems.add_missing(path, "needs exactly one of file and secretKeyRef")
        return _NOWHERE
    if wire.secret_key_ref is None:
        return InFile(wire.file or "")
    for name, value in (("name", wire.secret_key_ref.name), ("key", wire.secret_key_ref.key)):
        if not value:
            problems.add_missing(f"{path}.secretKeyRef.{name}", "is required")
    return InSecret(wire.secret_key_ref.name or "", wire.secret_key_ref.key or "")
