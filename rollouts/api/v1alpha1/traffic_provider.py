"""The wire types of a TrafficProvider: a router that is declared in the cluster, and whether its declaration is usable.

They say what each field may hold; `traffic/declared/codec.py` checks what the fields mean together.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from rollouts.api.v1alpha1.wire import (
    AnyJson,
    CelRule,
    Count,
    DateTime,
    FreeObject,
    Number,
    PercentNumber,
    Wire,
    exactly_one,
    int32,
    needed,
    optional,
)

PathText: TypeAlias = Annotated[str, Field(min_length=1, max_length=253)]
CelSource: TypeAlias = Annotated[str, Field(min_length=1, max_length=1024)]
Part: TypeAlias = Annotated[str, Field(min_length=1, max_length=63)]
Settle: TypeAlias = Annotated[int, int32(1, 300)]


class ProviderMatch(Wire):
    """The kind of the router's objects."""

    group: PathText | None = needed("API group.")
    kind: Part | None = needed("Kind, such as ApisixRoute.")
    plural: Part | None = needed("Name of the kind in paths and in RBAC, such as apisixroutes.")
    versions: list[Part] | None = needed(
        "Versions that have these fields, the preferred one first. The first that the server has is used.",
        min_length=1,
        max_length=8,
    )


class ProviderService(Wire):
    """Where the name of a backend's Service is."""

    RULES = (exactly_one(text="exactly one of path and cel is required"),)

    path: PathText | None = optional("Path to a field of the backend, such as destination.name.")
    cel: CelSource | None = optional(
        "CEL over `item`, the backend, that gives the name. Both Services must then be among the backends already."
    )


class ProviderServiceNamespace(Wire):
    """Where the namespace of a backend's Service is."""

    RULES = (exactly_one(text="exactly one of path and cel is required"),)

    path: PathText | None = optional("Path to a field of the backend, such as destination.namespace.")
    cel: CelSource | None = optional("CEL over `item`, the backend, that gives the namespace.")


class ProviderWeight(Wire):
    """The weight of a backend: a whole number."""

    path: Part | None = optional("Name of the backend's field with the weight; default `weight`.")
    absent: Count | None = optional("The weight that the router assumes for a backend without one; default 1.")
    most: Number | None = optional("The largest weight that the router accepts.", ge=1)


class ProviderAcceptance(Wire):
    """How an object shows that the router has accepted its latest generation."""

    RULES = (
        CelRule(
            "has(self.cel) ? !has(self.conditions) && !has(self.type) : has(self.conditions) && has(self.type)",
            "either cel, or both conditions and type",
        ),
    )

    conditions: PathText | None = optional("Path to a list of conditions, such as status.conditions.")
    type: PathText | None = optional("The condition that must be True.")
    cel: CelSource | None = optional(
        "CEL over `object`, the whole object, that is true when the router has accepted it."
    )


class ProviderPath(Wire):
    """A path that is made for each object."""

    cel: CelSource | None = needed(
        "CEL over `object` that gives the path to append to the URL: '/routes/' + object.metadata.name."
    )


class ProviderHttp(Wire):
    """An HTTP GET request."""

    url: PathText | None = needed(
        "http:// or https://, host, port, and optionally a path. Every address of the host gets the request."
    )
    path: ProviderPath | None = optional("What to append to the URL; default: nothing.")


class ProviderLive(Wire):
    """How to ask the router whether it does what an object says."""

    http: ProviderHttp | None = needed("The request. The answer must be JSON of 256 KiB at most.")
    cel: CelSource | None = needed(
        "CEL that is true when the router does what is wanted. Its variables: `body` is the answer, `want` the "
        "canary's share in percent (a double), `object` the object, `stable` and `canary` the names of the Services."
    )


class ProviderHeader(Wire):
    """How requests with a header are sent to the canary: by a copy of the rule."""

    insert: Literal["first", "last"] | None = needed(
        "Where the copy is inserted. first: right before its rule. last: at the end of the list, for routers where "
        "the order does not matter."
    )
    regex: bool | None = optional("Whether the router can match regular expressions. A prefix is then written as one.")
    template: FreeObject | None = needed(
        "Fields of the copy. An object is merged into the rule's own. {cel: …} is replaced by the result of the "
        "expression; its variables: `rule`, `name` of the route, `headers`, a list of {name, kind, value}, kind: exact or regex."
    )


class ProviderTestHeader(Wire):
    """A header condition of a test."""

    RULES = (exactly_one("exact", "prefix", "regex", text="exactly one of exact, prefix and regex is required"),)

    name: Part | None = needed("Name of the header.")
    exact: PathText | None = optional("Value of the header.")
    prefix: PathText | None = optional("Beginning of the header's value.")
    regex: PathText | None = optional("Regular expression for the header's value.")


class ProviderAnswer(Wire):
    """An answer of the router, and what it means."""

    body: AnyJson = needed("The answer as JSON.")
    live: bool | None = needed("Whether this answer says that the router does what is wanted.")


class ProviderTest(Wire):
    """An object before and after a change of the share. The Services are named stable and canary."""

    object: FreeObject | None = needed("The object as a user writes it. The API server must accept it.")
    canary_percent: PercentNumber | None = needed("The canary's share in percent.")
    result: FreeObject | None = needed("The object as it must be with that share, field by field.")
    headers: list[ProviderTestHeader] | None = optional(
        "The conditions of a header route named `test` that exists as well.", max_length=8
    )
    answers: list[ProviderAnswer] | None = optional(
        "Answers with which `live` is tested for that share.", max_length=16
    )


class TrafficProviderSpec(Wire):
    """A router whose objects hold lists of backends with weights."""

    match: ProviderMatch | None = needed("The kind of the router's objects.")
    backends: PathText | None = needed(
        "Path to the lists of backends; [] means every item of a list: spec.http[].backends[]."
    )
    service: ProviderService | None = needed("Where the name of a backend's Service is.")
    service_namespace: ProviderServiceNamespace | None = optional(
        "Where the namespace of a backend's Service is. Default, also for an empty value: the object's namespace."
    )
    weight: ProviderWeight | None = optional("The weight of a backend.")
    accepted: ProviderAcceptance | None = optional(
        "How an object shows that the router has accepted it. Without it every write counts as accepted."
    )
    settle_seconds: Settle | None = optional(
        "Seconds from a write's acceptance until it counts as live; default: the controller's general settle time."
    )
    header: ProviderHeader | None = optional(
        "How requests with a header are sent to the canary. Without it setHeaderRoute is refused."
    )
    live: ProviderLive | None = optional(
        "How to ask the router whether it does what an object says. Without it the controller waits settleSeconds."
    )
    tests: list[ProviderTest] | None = needed(
        "Tests of the declaration: the controller runs them, then tries them as a dry run on the API server.",
        min_length=1,
        max_length=16,
    )


class ProviderCondition(Wire):
    """A condition of the declaration, as in Kubernetes' own objects."""

    type: str | None = needed("Ready or Stalled.")
    status: str | None = needed("True or False.")
    reason: str | None = optional("Why, in one word.")
    message: str | None = optional("Why, in sentences: every problem, with its path.")
    last_transition_time: DateTime | None = optional("When its status last changed.")
    observed_generation: int | None = optional("The metadata.generation that the condition describes.")


class TrafficProviderStatus(Wire):
    """Whether the declaration is usable."""

    observed_generation: int | None = optional("The metadata.generation that was checked.")
    conditions: list[ProviderCondition] | None = optional(
        "Ready: Rollouts may use it. Stalled: somebody must change the declaration or the cluster."
    )
