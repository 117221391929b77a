"""A TrafficProvider as the wire has it: a router that is declared in the cluster, and how its declaration was judged.

What the fields mean together is for `traffic/declared/codec.py` to judge; here is what each of them may hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import pydantic
from pydantic import Field

from rollouts.api.problems import Problems
from rollouts.api.v1alpha1.status import Time
from rollouts.api.v1alpha1.wire import AnyJson, Count, FreeObject, Number, Wire, exactly_one, needs
from rollouts.errors import SpecProblem

PathText: TypeAlias = Annotated[str, Field(min_length=1, max_length=253)]
Source: TypeAlias = Annotated[str, Field(min_length=1, max_length=1024)]
Part: TypeAlias = Annotated[str, Field(min_length=1, max_length=63)]
Settle: TypeAlias = Annotated[int, Field(ge=1, le=300, strict=True, json_schema_extra={"format": "int32"})]
Share: TypeAlias = Annotated[int, Field(ge=0, le=100, strict=True, json_schema_extra={"format": "int32"})]


class ProviderMatch(Wire):
    """The kind of the router's objects."""

    model_config = needs("group", "kind", "plural", "versions")

    group: PathText | None = Field(None, description="API group.")
    kind: Part | None = Field(None, description="Kind, such as ApisixRoute.")
    plural: Part | None = Field(None, description="Its name in paths and in RBAC, such as apisixroutes.")
    versions: Annotated[list[Part], Field(min_length=1, max_length=8)] | None = Field(
        None, description="Versions that have this form, the best first; the server decides which one is used."
    )


class ProviderService(Wire):
    """What names a backend's Service."""

    model_config = needs(rules=((exactly_one("path", "cel"), "exactly one of path and cel is required"),))

    path: PathText | None = Field(None, description="Path to a field of the backend, such as destination.name.")
    cel: Source | None = Field(
        None,
        description="CEL over `item`, the backend, that gives the name. Both Services must then be among the backends already.",
    )


class ProviderServiceNamespace(Wire):
    """What names the namespace of a backend's Service."""

    model_config = needs(rules=((exactly_one("path", "cel"), "exactly one of path and cel is required"),))

    path: PathText | None = Field(None, description="Path to a field of the backend, such as destination.namespace.")
    cel: Source | None = Field(None, description="CEL over `item`, the backend, that gives the namespace.")


class ProviderWeight(Wire):
    """The weight of a backend: a whole number."""

    path: Part | None = Field(None, description="Its field; `weight` when left out.")
    absent: Count | None = Field(
        None, description="What the router takes a backend without one to have; 1 when left out."
    )
    most: Annotated[Number, Field(ge=1)] | None = Field(None, description="The largest that the router takes.")


class ProviderAcceptance(Wire):
    """What tells that the router has taken an object in its latest generation."""

    model_config = needs(
        rules=(
            (
                "has(self.cel) ? !has(self.conditions) && !has(self.type) : has(self.conditions) && has(self.type)",
                "either cel, or both conditions and type",
            ),
        )
    )

    conditions: PathText | None = Field(None, description="Path to a list of conditions, such as status.conditions.")
    type: PathText | None = Field(None, description="The condition that must be True.")
    cel: Source | None = Field(None, description="CEL over `object`, the whole, that is true once it is taken.")


class ProviderPath(Wire):
    """A path that is made for each object."""

    model_config = needs("cel")

    cel: Source | None = Field(
        None, description="CEL over `object` that gives what comes after the URL: '/routes/' + object.metadata.name."
    )


class ProviderHttp(Wire):
    """A GET."""

    model_config = needs("url")

    url: PathText | None = Field(
        None, description="http:// or https://, host, port, and maybe a path. Each address of the host is asked."
    )
    path: ProviderPath | None = Field(None, description="What comes after it; nothing when left out.")


class ProviderLive(Wire):
    """Whom to ask whether the router does what an object says."""

    model_config = needs("http", "cel")

    http: ProviderHttp | None = Field(None, description="What is asked; the answer is JSON, of 256 KiB at most.")
    cel: Source | None = Field(
        None,
        description="CEL over `body`, the answer, `want`, the canary's share in percent (a double), `object`, and `stable` and "
        "`canary`, the names of the Services; true when the router does what is wanted.",
    )


class ProviderHeader(Wire):
    """How requests with a header are sent to the canary: by a copy of the rule."""

    model_config = needs("insert", "template")

    insert: Literal["first", "last"] | None = Field(
        None,
        description="Where the copy stands: right before its rule, or at the end of the list, for routers that find it anywhere.",
    )
    regex: bool | None = Field(
        None, description="Whether values may be regular expressions; prefixes are given as such."
    )
    template: FreeObject | None = Field(
        None,
        description="Fields of the copy. An object is put into the rule's own, and {cel: …} is what the expression gives over "
        "`rule`, `name`, the route's, and `headers`, a list of {name, kind, value}, kind being exact or regex.",
    )


class ProviderTestHeader(Wire):
    """A header that a test routes by."""

    model_config = needs(
        "name",
        rules=((exactly_one("exact", "prefix", "regex"), "exactly one of exact, prefix and regex is required"),),
    )

    name: Part | None = Field(None, description="Its name.")
    exact: PathText | None = Field(None, description="Its value.")
    prefix: PathText | None = Field(None, description="What its value begins with.")
    regex: PathText | None = Field(None, description="What its value matches.")


class ProviderAnswer(Wire):
    """An answer of the router's, and what it means."""

    model_config = needs("body", "live")

    body: AnyJson = Field(None, description="JSON, as the router gives it.")
    live: bool | None = Field(None, description="Whether the router does then what is wanted.")


class ProviderTest(Wire):
    """An object before and after; the Services are named stable and canary."""

    model_config = needs("object", "canaryPercent", "result")

    object: FreeObject | None = Field(
        None, description="As a user writes it. It must be one that the API server takes."
    )
    canary_percent: Share | None = Field(None, description="The share that the canary is to have.")
    result: FreeObject | None = Field(None, description="What is to become of it, field by field.")
    headers: Annotated[list[ProviderTestHeader], Field(max_length=8)] | None = Field(
        None, description="What a header route named `test` asks for besides."
    )
    answers: Annotated[list[ProviderAnswer], Field(max_length=16)] | None = Field(
        None, description="Answers that `live` is tried with, when the canary is to have that share."
    )


class TrafficProviderSpec(Wire):
    """A router whose objects hold lists of backends with weights."""

    model_config = needs("match", "backends", "service", "tests")

    match: ProviderMatch | None = Field(None, description="The kind of the router's objects.")
    backends: PathText | None = Field(
        None, description="Path to the lists of backends; [] is every item of a list: spec.http[].backends[]."
    )
    service: ProviderService | None = Field(None, description="What names a backend's Service.")
    service_namespace: ProviderServiceNamespace | None = Field(
        None,
        description="What names that Service's namespace; without it, or without a value in it, it is the object's.",
    )
    weight: ProviderWeight | None = Field(None, description="The weight of a backend.")
    accepted: ProviderAcceptance | None = Field(
        None, description="What tells that the router has taken an object; without it every write counts as taken."
    )
    settle_seconds: Settle | None = Field(
        None, description="How long after it was taken a write counts as live; the general number when left out."
    )
    header: ProviderHeader | None = Field(
        None, description="How requests with a header are sent to the canary; without it setHeaderRoute is refused."
    )
    live: ProviderLive | None = Field(
        None, description="Whom to ask whether the router does what an object says; else settleSeconds are waited."
    )
    tests: Annotated[list[ProviderTest], Field(min_length=1, max_length=16)] | None = Field(
        None, description="What is tried, first by the controller alone, then as a dry run on the API server."
    )


class ProviderCondition(Wire):
    """One fact about the declaration."""

    model_config = needs("type", "status")

    type: str | None = Field(None, description="Ready or Stalled.")
    status: str | None = Field(None, description="True or False.")
    reason: str | None = Field(None, description="Why, in one word.")
    message: str | None = Field(None, description="Why, in sentences: every problem, with its path.")
    last_transition_time: Time | None = Field(None, description="When status last changed.")
    observed_generation: int | None = Field(None, description="Generation of the spec that it is about.")


class TrafficProviderStatus(Wire):
    """How the declaration was judged."""

    observed_generation: int | None = Field(None, description="Generation of the spec that was judged.")
    conditions: list[ProviderCondition] | None = Field(
        None, description="Ready: Rollouts may use it. Stalled: somebody must change it, or the cluster."
    )


def provider_problems(spec: Mapping[str, Any]) -> tuple[SpecProblem, ...]:
    """What the types do not allow, each with its path; the API server says the same when it is asked to take the object."""
    problems = Problems()
    try:
        TrafficProviderSpec.model_validate(spec)
    except pydantic.ValidationError as error:
        for one in error.errors(include_url=False):
            location = [part for part in one["loc"] if part != "[key]"]
            problems.add_unreadable(location, one["type"], one["input"], one.get("ctx") or {})
    return problems.found()
