"""A MetricProvider → core, with every problem and its path. Rules of URLs and headers are the room `metrics`'s."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollouts.api.problems import Problems
from rollouts.api.spec.reading import check_exactly_one, check_needed, core_value, read_model
from rollouts.api.v1alpha1.metric_provider import (
    IDENTITIES,
    ONE_IDENTITY,
    MetricProviderSpec,
    ProviderCredential,
    ProviderRequestHeader,
    RecipeWire,
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
    ServiceAccountPlace,
    SignaturePlace,
)
from rollouts.core.analysis.recipe import AnswerPlan, AskTemplate, Exchange, Recipe
from rollouts.core.analysis.servers.declared import RECIPE as DECLARED
from rollouts.core.model.frozen import replace


def read_metric_provider(spec: Mapping[str, Any], problems: Problems) -> MetricServer:
    """The server that the spec of a MetricProvider declares; it means something only when no problem was added.

    Args:
        problems: gets everything that is wrong, but for URLs and headers that are no good in themselves.
    """
    wire = read_model(MetricProviderSpec, spec, problems, root="spec")
    check_needed(wire, "spec", problems)
    given = [name for name in IDENTITIES if getattr(wire, name) is not None]
    if len(given) > 1:
        problems.add("spec", f"{ONE_IDENTITY}; it has {' and '.join(given)}")
    if wire.type is not None and wire.recipe is not None:
        problems.add("spec.recipe", "and type are both given; give one of them")
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
        kind=DECLARED.name if wire.recipe is not None else wire.type or "",
        recipe=_recipe(wire.recipe, problems) if wire.recipe is not None else None,
        settings=tuple((wire.settings or {}).items()),
    )


def _recipe(wire: RecipeWire, problems: Problems) -> Recipe:
    root = "spec.recipe"
    check_needed(wire, root, problems)
    request, answer = wire.request, wire.answer
    if request is not None:
        check_needed(request, f"{root}.request", problems)
        if request.body is not None and request.method != "POST":
            problems.add(f"{root}.request.body", "needs method POST")
    if answer is not None:
        check_needed(answer, f"{root}.answer", problems)
        for index, each in enumerate(answer.whole or ()):
            check_needed(each, f"{root}.answer.whole[{index}]", problems)
    if problems.found() or request is None or answer is None:
        return DECLARED
    ask = core_value(
        AskTemplate,
        request,
        query=tuple((each.name, each.value) for each in request.query or ()),
        headers=tuple((each.name, each.value) for each in request.headers or ()),
    )
    whole = tuple((each.path, tuple(map(_double, each.values or ()))) for each in answer.whole or ())
    exchange = Exchange(ask=ask, read=core_value(AnswerPlan, answer, whole=whole))
    return replace(DECLARED, title="the server", exchanges=(exchange,))


def _double(value: Any) -> Any:
    """Numbers of an answer are doubles."""
    return float(value) if type(value) is int else value


def _identity(wire: MetricProviderSpec, problems: Problems) -> Identity | None:
    if (basic := wire.basic) is not None:
        check_needed(basic, "spec.basic", problems, "username")
        if basic.username is not None and (":" in basic.username or not basic.username.isprintable()):
            problems.add("spec.basic.username", "must have no ':' and no control characters (RFC 7617)")
        return BasicPlace(basic.username or "", _place(basic.password, "spec.basic.password", problems))
    if wire.bearer is not None:
        return BearerPlace(_place(wire.bearer, "spec.bearer", problems))
    if (google := wire.google) is not None:
        key = _place(google.key, "spec.google.key", problems)
        return ServiceAccountPlace(key=key, scopes=tuple(google.scopes or ()))
    if (oauth2 := wire.oauth2) is not None:
        check_needed(oauth2, "spec.oauth2", problems, "tokenUrl", "clientId")
        return OAuth2Place(
            token_url=oauth2.token_url or "",
            client_id=oauth2.client_id or "",
            client_secret=_place(oauth2.client_secret, "spec.oauth2.clientSecret", problems),
            scopes=tuple(oauth2.scopes or ()),
        )
    if (sigv4 := wire.sigv4) is not None:
        check_needed(sigv4, "spec.sigv4", problems)
        if (sigv4.access_key_id is None) != (sigv4.secret_access_key is None):
            problems.add("spec.sigv4", "needs accessKeyId and secretAccessKey together, or neither")
        place = sigv4.secret_access_key
        return SignaturePlace(
            region=sigv4.region or "",
            service=sigv4.service or "",
            access_key=sigv4.access_key_id or "",
            secret_key=None if place is None else _place(place, "spec.sigv4.secretAccessKey", problems),
        )
    return None


def _header(wire: ProviderRequestHeader, path: str, problems: Problems) -> tuple[str, str | CredentialPlace]:
    check_needed(wire, path, problems)
    check_exactly_one(wire, path, problems)
    if wire.value_from is None:
        return wire.name or "", wire.value or ""
    return wire.name or "", _place(wire.value_from, f"{path}.valueFrom", problems)


def _place(wire: ProviderCredential | None, path: str, problems: Problems) -> CredentialPlace:
    if wire is None:
        problems.add_missing(path, "is required: a file or a secretKeyRef")
        return InFile("")
    check_exactly_one(wire, path, problems)
    if wire.secret_key_ref is None or wire.file is not None:
        return InFile(wire.file or "")
    check_needed(wire.secret_key_ref, f"{path}.secretKeyRef", problems)
    return InSecret(wire.secret_key_ref.name or "", wire.secret_key_ref.key or "")
