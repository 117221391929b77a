"""A MetricProvider as the wire has it: a server with metrics that an administrator declares for the whole cluster."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from rollouts.api.v1alpha1.traffic_provider import ProviderCondition
from rollouts.api.v1alpha1.wire import Bool, Name, ObjectName, Wire, exactly_one, needs

Line: TypeAlias = Annotated[str, Field(min_length=1, max_length=2048)]


class ProviderSecretRef(Wire):
    """One key of a Secret in the namespace of the controller."""

    model_config = needs("name", "key")

    name: ObjectName | None = Field(None, description="Name of the Secret.")
    key: Name | None = Field(None, description="Key in its data.")


class ProviderCredential(Wire):
    """Where a secret is."""

    model_config = needs(
        rules=((exactly_one("file", "secretKeyRef"), "exactly one of file and secretKeyRef is required"),)
    )

    file: Line | None = Field(
        None, description="Path of a file that is mounted into the controller's pod, below the folder of credentials."
    )
    secret_key_ref: ProviderSecretRef | None = Field(None, description="A key of a Secret.")


class ProviderTLS(Wire):
    """How the server's certificate is checked."""

    ca_file: Line | None = Field(
        None, description="Path of certificates of authorities that are trusted besides the public ones, PEM."
    )
    server_name: Name | None = Field(None, description="The name that the certificate must have; the URL's without it.")
    insecure_skip_verify: Bool | None = Field(None, description="Do not check it.")


class ProviderBasic(Wire):
    """User and password (RFC 7617)."""

    model_config = needs("username", "password")

    username: Line | None = Field(None, description="The user.")
    password: ProviderCredential | None = Field(None, description="Where the password is.")


class ProviderOAuth2(Wire):
    """OAuth 2.0 client credentials (RFC 6749, section 4.4)."""

    model_config = needs("tokenUrl", "clientId", "clientSecret")

    token_url: Line | None = Field(None, description="Where the token is asked for.")
    client_id: Line | None = Field(None, description="Who asks.")
    client_secret: ProviderCredential | None = Field(None, description="Where the client's secret is.")
    scopes: Annotated[list[Line], Field(max_length=32)] | None = Field(None, description="Scopes of the token.")


class ProviderRequestHeader(Wire):
    """A header of every request."""

    model_config = needs(
        "name", rules=((exactly_one("value", "valueFrom"), "exactly one of value and valueFrom is required"),)
    )

    name: Name | None = Field(None, description="Its name.")
    value: Line | None = Field(None, description="Its value.")
    value_from: ProviderCredential | None = Field(None, description="Where its value is.")


class MetricProviderSpec(Wire):
    """A server with metrics, and how the controller says who it is."""

    model_config = needs(
        "url",
        rules=(
            (
                "(has(self.basic) ? 1 : 0) + (has(self.bearer) ? 1 : 0) + (has(self.oauth2) ? 1 : 0) <= 1",
                "at most one of basic, bearer and oauth2",
            ),
        ),
    )

    url: Line | None = Field(None, description="http:// or https://, host, port, and maybe a path.")
    tls: ProviderTLS | None = Field(None, description="How its certificate is checked.")
    basic: ProviderBasic | None = Field(None, description="User and password.")
    bearer: ProviderCredential | None = Field(None, description="Where the token is.")
    oauth2: ProviderOAuth2 | None = Field(None, description="Client credentials.")
    headers: Annotated[list[ProviderRequestHeader], Field(max_length=32)] | None = Field(
        None, description="Headers of every request."
    )
    methods: Annotated[list[Literal["GET", "POST", "PUT"]], Field(min_length=1, max_length=3)] | None = Field(
        None,
        description="HTTP methods that metrics of the source web may use, default GET: whoever writes templates sends them"
        " with these credentials. Queries of the source prometheus need none.",
    )


class MetricProviderStatus(Wire):
    """How the declaration was judged."""

    observed_generation: int | None = Field(None, description="Generation of the spec that was judged.")
    conditions: list[ProviderCondition] | None = Field(None, description="Ready: runs may use it.")
