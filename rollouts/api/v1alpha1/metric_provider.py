"""A MetricProvider as the wire has it: a server with metrics that an administrator declares for the whole cluster."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from rollouts.api.v1alpha1.analysis import SecretKeyRef
from rollouts.api.v1alpha1.traffic_provider import ProviderCondition
from rollouts.api.v1alpha1.wire import (
    AnyJson,
    Bool,
    CelRule,
    Name,
    StringMap,
    Text,
    Wire,
    exactly_one,
    needed,
    optional,
)
from rollouts.core.analysis.recipes import RECIPES

KINDS = tuple(name for name, recipe in RECIPES.items() if recipe.exchanges)
"""Types of MetricProviders: kinds of servers whose recipes come with the controller."""

Line: TypeAlias = Annotated[str, Field(min_length=1, max_length=2048)]


class ProviderCredential(Wire):
    """Where a secret is. A Secret is one in the namespace of the controller."""

    RULES = (exactly_one(text="exactly one of file and secretKeyRef is required"),)

    file: Line | None = optional(
        "Path of a file that is mounted into the controller's pod, below the folder of credentials."
    )
    secret_key_ref: SecretKeyRef | None = optional("A key of a Secret.")


class ProviderTLS(Wire):
    """How the server's certificate is checked."""

    ca_file: Line | None = optional(
        "Path of certificates of authorities that are trusted besides the public ones, PEM."
    )
    server_name: Name | None = optional("The name that the certificate must have; the URL's without it.")
    insecure_skip_verify: Bool | None = optional("Do not check it.")


class ProviderBasic(Wire):
    """User and password (RFC 7617)."""

    username: Line | None = needed("The user.")
    password: ProviderCredential | None = needed("Where the password is.")


class ProviderOAuth2(Wire):
    """OAuth 2.0 client credentials (RFC 6749, section 4.4)."""

    token_url: Line | None = needed("Where the token is asked for.")
    client_id: Line | None = needed("Who asks.")
    client_secret: ProviderCredential | None = needed("Where the client's secret is.")
    scopes: list[Line] | None = optional("Scopes of the token.", max_length=32)


class ProviderServiceAccount(Wire):
    """A key of a service account of Google (RFC 7523)."""

    key: ProviderCredential | None = needed("Where the key file is, the JSON as Google gives it.")
    scopes: list[Line] | None = optional("Scopes of the token; default the one that reads metrics.", max_length=32)


class ProviderSignature(Wire):
    """AWS's signatures (Signature Version 4)."""

    region: Name | None = needed("Region of AWS.")
    service: Name | None = optional("Service that is signed for; default that of the type, otherwise aps.")
    access_key_id: Line | None = optional("Key; without it AWS's own library finds credentials, such as a role.")
    secret_access_key: ProviderCredential | None = optional("Where the key's secret is.")


class ProviderRequestHeader(Wire):
    """A header of every request."""

    RULES = (exactly_one("value", "valueFrom", text="exactly one of value and valueFrom is required"),)

    name: Name | None = needed("Its name.")
    value: Line | None = optional("Its value.")
    value_from: ProviderCredential | None = optional("Where its value is.")


class RecipeParameterWire(Wire):
    """A parameter, or a header, of the request."""

    name: Name | None = needed("Its name.")
    value: Text | None = needed("Its value, with places.")


class RecipeRequestWire(Wire):
    """What is sent; {{query}}, {{start}}, {{end}}, {{window}} and the names of a metric's fields stand for their values."""

    method: Literal["GET", "POST"] | None = optional("Default GET.")
    path: Line | None = needed("Path below the URL.")
    query: list[RecipeParameterWire] | None = optional("Parameters.", max_length=32)
    headers: list[RecipeParameterWire] | None = optional("Headers, besides the credentials.", max_length=32)
    body: AnyJson = optional("What is sent with POST: JSON, or a text.")
    times: Literal["seconds", "milliseconds", "rfc3339", "minute"] | None = optional(
        "How start and end are written; default seconds."
    )


class RecipeWholeWire(Wire):
    """Says that an answer is whole."""

    path: Text | None = needed("Where it stands.")
    values: list[AnyJson] | None = needed("What stands there when it is whole.", max_length=16)


class RecipeAnswerWire(Wire):
    """How an answer is read: paths such as series[*].points[*][1]."""

    kind: Literal["newest", "all", "rows", "document"] | None = needed(
        "newest number of each series, all numbers, rows, or a JSON document."
    )
    result: Text | None = optional("Where the series, the rows or the document are; default the answer itself.")
    values: Text | None = optional("Where the numbers of a series are; without it the series is a number.")
    times: Text | None = optional("Where their times are.")
    unit: Literal["seconds", "milliseconds", "rfc3339"] | None = optional("How times are written; default seconds.")
    listed: Text | None = optional("What stands there makes a list of a single series.")
    refused: list[Text] | None = optional("What stands there says that the server refused.", max_length=16)
    whole: list[RecipeWholeWire] | None = optional("What an answer must have to be whole.", max_length=16)
    more: list[Text] | None = optional("What stands there says that there are further pages.", max_length=16)
    counts: list[Text] | None = optional("Counts of what was measured, of which none may be 0.", max_length=16)


class RecipeWire(Wire):
    """How the server is asked and how its answer is read; metrics of the source declared use it."""

    request: RecipeRequestWire | None = needed("What is sent.")
    answer: RecipeAnswerWire | None = needed("How the answer is read.")


IDENTITIES = ("basic", "bearer", "google", "oauth2", "sigv4")
"""Fields of a MetricProvider by which the controller says who it is."""
ONE_IDENTITY = f"at most one of {', '.join(IDENTITIES[:-1])} and {IDENTITIES[-1]}"


class MetricProviderSpec(Wire):
    """A server with metrics, and how the controller says who it is."""

    RULES = (
        CelRule(
            " + ".join(f"(has(self.{name}) ? 1 : 0)" for name in IDENTITIES) + " <= 1",
            ONE_IDENTITY,
        ),
        CelRule("!has(self.type) || !has(self.recipe)", "type or recipe, not both"),
    )

    type: Literal[*KINDS] | None = optional(  # type: ignore[valid-type]
        "What kind of server it is; without it one that speaks Prometheus' language, or that metrics of the source web ask."
    )
    recipe: RecipeWire | None = optional("Of a server that is none of these types.")
    settings: StringMap | None = optional("What its type needs besides, such as an account.")
    url: Line | None = needed(
        "http:// or https://, host, port, and maybe a path.",
        missing="is required, such as https://prometheus.monitoring:9090",
    )
    tls: ProviderTLS | None = optional("How its certificate is checked.")
    basic: ProviderBasic | None = optional("User and password.")
    bearer: ProviderCredential | None = optional("Where the token is.")
    google: ProviderServiceAccount | None = optional(
        "A key of a service account of Google; the image must have cryptography."
    )
    oauth2: ProviderOAuth2 | None = optional("Client credentials.")
    sigv4: ProviderSignature | None = optional("AWS's signatures; the image must have botocore.")
    headers: list[ProviderRequestHeader] | None = optional("Headers of every request.", max_length=32)
    methods: list[Literal["GET", "POST", "PUT"]] | None = optional(
        "HTTP methods that metrics of the source web may use, default GET: whoever writes templates sends them"
        " with these credentials. Queries of the source prometheus need none.",
        min_length=1,
        max_length=3,
    )


class MetricProviderStatus(Wire):
    """How the declaration was judged."""

    observed_generation: int | None = optional("Generation of the spec that was judged.")
    conditions: list[ProviderCondition] | None = optional("Ready: runs may use it.")
