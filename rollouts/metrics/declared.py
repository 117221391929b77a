"""From what a MetricProvider declares, and the credentials that were read for it, to the endpoint that metrics ask. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from rollouts.core.analysis.metric_server import (
    BasicPlace,
    BearerPlace,
    CredentialPlace,
    InFile,
    MetricServer,
    OAuth2Place,
    ServiceAccountPlace,
    SignaturePlace,
)
from rollouts.core.analysis.recipe import AnswerPlan, ResultKind
from rollouts.core.analysis.recipes import RECIPES
from rollouts.core.analysis.source import DEFAULT_ENDPOINT
from rollouts.errors import ExpressionInvalid, SpecProblem
from rollouts.metrics.addresses import ADMINISTRATORS, url_problem
from rollouts.metrics.google_key import SCOPES, key_file
from rollouts.metrics.member_paths import member_path
from rollouts.metrics.requests import (
    Basic,
    Bearer,
    ClientCredentials,
    MetricCredentials,
    MetricEndpoint,
    ServiceAccount,
    Signature,
    header_problem,
    leads_up,
)
from rollouts.secret import Secret

PROMETHEUS_OF_AWS = "aps"
"""Service of AWS that a server without a type is: Amazon Managed Service for Prometheus."""

CREDENTIAL_MAX_CHARACTERS = 8_192


def declaration_problems(name: str, server: MetricServer, *, folder: str, taken: bool) -> Iterator[SpecProblem]:
    """What is wrong with URL, headers and files of a declaration, with paths as in the object.

    Args:
        folder: where files of credentials are mounted; others are not read, as whoever declares a server gets what is sent to it.
        taken: whether `--prometheus-url` is given, which is the endpoint `default`.
    """
    if taken and name == DEFAULT_ENDPOINT:
        why = "is the name of the endpoint that --prometheus-url gives; use another name, or leave out the flag"
        yield SpecProblem("metadata.name", f"{DEFAULT_ENDPOINT} {why}")
    urls = [("spec.url", server.url)]
    if isinstance(server.identity, OAuth2Place):
        urls.append(("spec.oauth2.tokenUrl", server.identity.token_url))
    for path, url in urls:
        if url and (problem := url_problem(url, ADMINISTRATORS)):
            yield SpecProblem(path, problem)
    if "?" in server.url:
        yield SpecProblem("spec.url", "must have no query: each request adds its own")
    yield from header_problems(server)
    yield from kind_problems(server)
    yield from recipe_problems(server)
    for place in server.places:
        if not isinstance(place, InFile) or not place.path:
            continue
        parts = PurePosixPath(place.path)
        if "\0" in place.path or ".." in parts.parts or PurePosixPath(folder) not in parts.parents:
            yield SpecProblem("spec", f"{place} must be below {folder}, the folder of credentials, without '..'")


def header_problems(server: MetricServer) -> Iterator[SpecProblem]:
    """What is wrong with the headers of a declaration."""
    for index, (header, value) in enumerate(server.headers):
        path = f"spec.headers[{index}]"
        known = value if isinstance(value, str) else ""
        if header and (problem := header_problem(((header, known),))):
            yield SpecProblem(path, problem.partition(": ")[2])
        if header.lower() == "authorization" and server.identity is not None:
            yield SpecProblem(path, "Authorization is what basic, bearer, google or oauth2 says; give one of them")


def recipe_problems(server: MetricServer) -> Iterator[SpecProblem]:
    """What is wrong with the paths of the server's own recipe."""
    for exchange in server.recipe.exchanges if server.recipe is not None else ():
        ask, read = exchange.ask, exchange.read
        if not ask.path.startswith("/") or "?" in ask.path or "#" in ask.path or leads_up(ask.path):
            yield SpecProblem("spec.recipe.request.path", "must begin with / and have no query, no # and no '..'")
        if problem := header_problem(ask.headers):
            yield SpecProblem("spec.recipe.request", problem)
        for name, path in paths_of(read):
            try:
                member_path(path)
            except ExpressionInvalid as error:
                yield SpecProblem(f"spec.recipe.answer.{name}", str(error))
        if read.kind in (ResultKind.NEWEST, ResultKind.ALL) and not read.times and read.values:
            yield SpecProblem("spec.recipe.answer.times", "is required with values: what is old must not be evidence")


def paths_of(read: AnswerPlan) -> Iterator[tuple[str, str]]:
    """All paths through an answer, each with the field that has it."""
    yield from (("result", read.result), ("values", read.values), ("times", read.times), ("listed", read.listed))
    for name, paths in (("refused", read.refused), ("more", read.more), ("counts", read.counts)):
        yield from ((f"{name}[{index}]", path) for index, path in enumerate(paths))
    yield from ((f"whole[{index}].path", path) for index, (path, _) in enumerate(read.whole))


def kind_problems(server: MetricServer) -> Iterator[SpecProblem]:
    """What is wrong with what the server's recipe needs."""
    recipe = server.recipe or RECIPES.get(server.kind)
    settings = dict(server.settings)
    known = {setting.name: setting for setting in recipe.settings} if recipe is not None else {}
    for name in sorted(settings.keys() - known.keys()):
        there = f"there is {', '.join(known)}" if known else "there are none for this type"
        yield SpecProblem(f"spec.settings.{name}", f"is not known; {there}")
    if recipe is None:
        return
    for name, setting in known.items():
        if problem := setting.problem(settings.get(name, "")):
            yield SpecProblem(f"spec.settings.{name}", problem)
    if recipe.service and not isinstance(server.identity, SignaturePlace):
        yield SpecProblem("spec.sigv4", f"is required: {recipe.title} takes signed requests alone")
    given = {name.lower() for name, _ in server.headers}
    if missing := [name for name in recipe.headers if name.lower() not in given]:
        yield SpecProblem(
            "spec.headers", f"must have {' and '.join(missing)}: {recipe.title} knows its clients by them"
        )


def credential_problem(text: str, place: CredentialPlace, server: MetricServer) -> str:
    """Why a text that was read there is no credential of the server, without a part of it; "" for nothing."""
    if not text:
        return "is empty"
    if isinstance(server.identity, ServiceAccountPlace) and place == server.identity.key:
        key = key_file(Secret(text))
        return key if isinstance(key, str) else ""
    if len(text) > CREDENTIAL_MAX_CHARACTERS:
        return f"has more than {CREDENTIAL_MAX_CHARACTERS} characters"
    if not text.isascii() or not text.isprintable():
        return "must be one line of printable ASCII characters"
    return ""


def endpoint_of_server(
    server: MetricServer, values: Mapping[CredentialPlace, Secret], *, authorities: str = ""
) -> MetricEndpoint:
    """The endpoint.

    Args:
        values: of all of `server.credentials`.
        authorities: the certificates of `server.ca_file`, PEM; "" where it has none.

    Raises: KeyError for a credential without a value.
    """
    credentials: MetricCredentials | None = None
    match server.identity:
        case BasicPlace(username, password):
            credentials = Basic(username, values[password])
        case BearerPlace(token):
            scheme = RECIPES[server.kind].scheme if server.kind else "Bearer"
            credentials = Bearer(values[token], scheme)
        case OAuth2Place(token_url=token_url, client_id=client_id, client_secret=secret, scopes=scopes):
            credentials = ClientCredentials(token_url, client_id, values[secret], scopes, declared=True)
        case ServiceAccountPlace(key=place, scopes=scopes):
            credentials = ServiceAccount(values[place], scopes or SCOPES)
        case SignaturePlace(region=region, service=service, access_key=access_key, secret_key=secret_key):
            service = service or (RECIPES[server.kind].service if server.kind else "") or PROMETHEUS_OF_AWS
            secret_of_key = None if secret_key is None else values[secret_key]
            credentials = Signature(region, service, access_key, secret_of_key)
        case None:
            pass
    headers = ((name, Secret(value) if isinstance(value, str) else values[value]) for name, value in server.headers)
    return MetricEndpoint(
        url=server.url,
        declared=True,
        credentials=credentials,
        headers=tuple(headers),
        insecure=server.insecure,
        authorities=authorities,
        server_name=server.server_name,
        methods=server.methods,
        kind=server.kind,
        settings=server.settings,
        recipe=server.recipe,
    )
