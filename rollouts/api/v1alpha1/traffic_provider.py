"""The wire types of a TrafficProvider: a router that is declared in the cluster, and whether its declaration is usable.

They say what each field may hold; `traffic/declared/codec.py` checks what the fields mean together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import pydantic
from pydantic import Field

from rollouts.api.problems import Problems
from rollouts.api.v1alpha1.wire import AnyJson, Count, DateTime, FreeObject, Number, Wire, exactly_one, needs
from rollouts.errors import SpecProblem

PathText: TypeAlias = Annotated[str, Field(min_length=1, max_length=253)]
CelSource: TypeAlias = Annotated[str, Field(min_length=1, max_length=1024)]
Part: TypeAlias = Annotated[str, Field(min_length=1, max_length=63)]
Settle: TypeAlias = Annotated[int, Field(ge=1, le=300, strict=True, json_schema_extra={"format": "int32"})]
Share: TypeAlias = Annotated[int, Field(ge=0, le=100, strict=True, json_schema_extra={"format": "int32"})]


class ProviderMatch(Wire):
    """The kind of the router's objects."""

    model_config = needs("group", "kind", "plural", "versions")

    group: PathText | None = Field(None, description="API group.")
    kind: Part | None = Field(None, description="Kind, such as ApisixRoute.")
    plural: Part | None = Field(None, description="Name of the kind in paths and in RBAC, such as apisixroutes.")
    versions: Annotated[list[Part], Field(min_length=1, max_length=8)] | None = Field(
        None,
        description="Versions that have these fields, the preferred one first. The first that the server has is used.",
    )


class ProviderService(Wire):
    """Where the name of a backend's Service is."""

    model_config = needs(rules=((exactly_one("path", "cel"), "exactly one of path and cel is required"),))

    path: PathText | None = Field(None, description="Path to a field of the backend, such as destination.name.")
    cel: CelSource | None = Field(
        None,
        description="CEL over `item`, the backend, that gives the name. Both Services must then be among the backends already.",
    )


class ProviderServiceNamespace(Wire):
    """Where the namespace of a backend's Service is."""

    model_config = needs(rules=((exactly_one("path", "cel"), "exactly one of path and cel is required"),))

    path: PathText | None = Field(None, description="Path to a field of the backend, such as destination.namespace.")
    cel: CelSource | None = Field(None, description="CEL over `item`, the backend, that gives the namespace.")


class ProviderWeight(Wire):
    """The weight of a backend: a whole number."""

    path: Part | None = Field(None, description="Name of the backend's field with the weight; default `weight`.")
    absent: Count | None = Field(
        None, description="The weight that the router assumes for a backend without one; default 1."
    )
    most: Annotated[Number, Field(ge=1)] | None = Field(None, description="The largest weight that the router accepts.")


class ProviderAcceptance(Wire):
    """How an object shows that the router has accepted its latest generation."""

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
    cel: CelSource | None = Field(
        None, description="CEL over `object`, the whole object, that is true when the router has accepted it."
    )


class ProviderPath(Wire):
    """A path that is made for each object."""

    model_config = needs("cel")

    cel: CelSource | None = Field(
        None,
        description="CEL over `object` that gives the path to append to the URL: '/routes/' + object.metadata.name.",
    )


class ProviderHttp(Wire):
    """An HTTP GET request."""

    model_config = needs("url")

    url: PathText | None = Field(
        None,
        description="http:// or https://, host, port, and optionally a path. Every address of the host gets the request.",
    )
    path: ProviderPath | None = Field(None, description="What to append to the URL; default: nothing.")


class ProviderLive(Wire):
    """How to ask the router whether it does what an object says."""

    model_config = needs("http", "cel")

    http: ProviderHttp | None = Field(None, description="The request. The answer must be JSON of 256 KiB at most.")
    cel: CelSource | None = Field(
        None,
        description="CEL that is true when the router does what is wanted. Its variables: `body` is the answer, `want` the "
        "canary's share in percent (a double), `object` the object, `stable` and `canary` the names of the Services.",
    )


class ProviderHeader(Wire):
    """How requests with a header are sent to the canary: by a copy of the rule."""

    model_config = needs("insert", "template")

    insert: Literal["first", "last"] | None = Field(
        None,
        description="Where the copy is inserted. first: right before its rule. last: at the end of the list, for routers where "
        "the order does not matter.",
    )
    regex: bool | None = Field(
        None, description="Whether the router can match regular expressions. A prefix is then written as one."
    )
    template: FreeObject | None = Field(
        None,
        description="Fields of the copy. An object is merged into the rule's own. {cel: …} is replaced by the result of the "
        "expression; its variables: `rule`, `name` of the route, `headers`, a list of {name, kind, value}, kind: exact or regex.",
    )


class ProviderTestHeader(Wire):
    """A header condition of a test."""

    model_config = needs(
        "name",
        rules=((exactly_one("exact", "prefix", "regex"), "exactly one of exact, prefix and regex is required"),),
    )

    name: Part | None = Field(None, description="Name of the header.")
    exact: PathText | None = Field(None, description="Value of the header.")
    prefix: PathText | None = Field(None, description="Beginning of the header's value.")
    regex: PathText | None = Field(None, description="Regular expression for the header's value.")


class ProviderAnswer(Wire):
    """An answer of the router, and what it means."""

    model_config = needs("body", "live")

    body: AnyJson = Field(None, description="The answer as JSON.")
    live: bool | None = Field(None, description="Whether this answer says that the router does what is wanted.")


class ProviderTest(Wire):
    """An object before and after a change of the share. The Services are named stable and canary."""

    model_config = needs("object", "canaryPercent", "result")

    object: FreeObject | None = Field(
        None, description="The object as a user writes it. The API server must accept it."
    )
    canary_percent: Share | None = Field(None, description="The canary's share in percent.")
    result: FreeObject | None = Field(None, description="The object as it must be with that share, field by field.")
    headers: Annotated[list[ProviderTestHeader], Field(max_length=8)] | None = Field(
        None, description="The conditions of a header route named `test` that exists as well."
    )
    answers: Annotated[list[ProviderAnswer], Field(max_length=16)] | None = Field(
        None, description="Answers with which `live` is tested for that share."
    )


class TrafficProviderSpec(Wire):
    """A router whose objects hold lists of backends with weights."""

    model_config = needs("match", "backends", "service", "tests")

    match: ProviderMatch | None = Field(None, description="The kind of the router's objects.")
    backends: PathText | None = Field(
        None, description="Path to the lists of backends; [] means every item of a list: spec.http[].backends[]."
    )
    service: ProviderService | None = Field(None, description="Where the name of a backend's Service is.")
    service_namespace: ProviderServiceNamespace | None = Field(
        None,
        description="Where the namespace of a backend's Service is. Default, also for an empty value: the object's namespace.",
    )
    weight: ProviderWeight | None = Field(None, description="The weight of a backend.")
    accepted: ProviderAcceptance | None = Field(
        None,
        description="How an object shows that the router has accepted it. Without it every write counts as accepted.",
    )
    settle_seconds: Settle | None = Field(
        None,
        description="Seconds from a write's acceptance until it counts as live; default: the controller's general settle time.",
    )
    header: ProviderHeader | None = Field(
        None, description="How requests with a header are sent to the canary. Without it setHeaderRoute is refused."
    )
    live: ProviderLive | None = Field(
        None,
        description="How to ask the router whether it does what an object says. Without it the controller waits settleSeconds.",
    )
    tests: Annotated[list[ProviderTest], Field(min_length=1, max_length=16)] | None = Field(
        None,
        description="Tests of the declaration: the controller runs them, then tries them as a dry run on the API server.",
    )


class ProviderCondition(Wire):
    """A condition of the declaration, as in Kubernetes' own objects."""

    model_config = needs("type", "status")

    type: str | None = Field(None, description="Ready or Stalled.")
    status: str | None = Field(None, description="True or False.")
    reason: str | None = Field(None, description="Why, in one word.")
    message: str | None = Field(None, description="Why, in sentences: every problem, with its path.")
    last_transition_time: DateTime | None = Field(None, description="When its status last changed.")
    observed_generation: int | None = Field(None, description="The metadata.generation that the condition describes.")


class TrafficProviderStatus(Wire):
    """Whether the declaration is usable."""

    observed_generation: int | None = Field(None, description="The metadata.generation that was checked.")
    conditions: list[ProviderCondition] | None = Field(
        None, description="Ready: Rollouts may use it. Stalled: somebody must change the declaration or the cluster."
    )


def provider_problems(spec: Mapping[str, Any]) -> tuple[SpecProblem, ...]:
    """What the types do not allow, each with its path. The API server refuses the same when it gets the object."""
    problems = Problems()
    try:
        TrafficProviderSpec.model_validate(spec)
    except pydantic.ValidationError as error:
        for one in error.errors(include_url=False):
            location = [part for part in one["loc"] if part != "[key]"]
            problems.add_unreadable(location, one["type"], one["input"], one.get("ctx") or {})
    return problems.found()
