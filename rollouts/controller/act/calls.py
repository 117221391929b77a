"""What `render` produces and `act` performs: a closed union of calls to the API server, and one of questions to it and others.

All objects are in the Rollout's namespace, except routes, which name theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from msgspec import Struct

from rollouts.core.model.config import ConfigUse
from rollouts.core.model.in_place_intents import RevertTemplate
from rollouts.core.model.intents import (
    AskAutoscaling,
    AskChosenNodes,
    AskConfig,
    AskHold,
    AskPods,
    AskPodTemplate,
    AskReplicaSets,
    AskRevisions,
    AskSecretCopy,
    AskService,
    AskWorkload,
    CopyOwner,
    EvictPod,
)
from rollouts.core.model.rollout import Rollout
from rollouts.core.model.traffic import Pace, RouteName
from rollouts.objects import Kind, Manifest
from rollouts.ports import DrainQuestion, LiveQuestion


class Create(Struct, frozen=True, kw_only=True):
    """POSTs a ReplicaSet or what judges a revision. One of the same `revision` that `owner_uid` controls is as good."""

    kind: Kind
    name: str
    manifest: Manifest
    owner_uid: str
    revision: str


class CreateRoute(Struct, frozen=True, kw_only=True):
    """POSTs a route of `trafficRouting.own`; the server refuses unknown fields. An existing route is a conflict."""

    kind: Kind
    name: str
    manifest: Manifest
    route: RouteName


class Patch(Struct, frozen=True, kw_only=True):
    """Patches an object other than the Rollout.

    Args:
        body: a merge patch, or the operations of a JSON Patch, as `content_type` says; preconditions are in it.
        leaves_watch: after the patch, our label-filtered watch no longer shows the object.
        namespace: "" for the Rollout's.
        route: the route that is patched; None for other objects.
        strict: the server refuses unknown fields instead of dropping them.
        disowns: it gives fields back: then our field manager owns none of the spec.
    """

    kind: Kind
    name: str
    uid: str
    body: Mapping[str, Any] | Sequence[Any]
    content_type: str
    leaves_watch: bool = False
    namespace: str = ""
    route: RouteName | None = None
    strict: bool = False
    disowns: bool = False


class Adopt(Struct, frozen=True):
    """Patches an object that has no controller, after a live read has shown that the Rollout exists and is not being deleted."""

    patch: Patch


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateCopy:
    """GETs a source of configuration, and POSTs its copy if the source still has the content of `use`.

    An existing copy of this Rollout with that content is as good; one without a controller is adopted. A copy of a Secret is not
    looked at: nothing else can have its name.
    """

    rollout: Rollout = field(repr=False)
    use: ConfigUse
    owner: CopyOwner | None = None


class Apply(Struct, frozen=True, kw_only=True):
    """Server-side applies an object that we own beside a route."""

    kind: Kind
    name: str
    namespace: str
    manifest: Manifest
    route: RouteName


class Delete(Struct, frozen=True, kw_only=True):
    """Deletes an object exactly as it was seen; in the Rollout's namespace unless another one is named.

    Args:
        route: the route beside which the object is; None for other objects.
    """

    kind: Kind
    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    route: RouteName | None = None


class RemoveRolloutAnnotation(Struct, frozen=True, kw_only=True):
    """Removes an annotation of the Rollout, if it has this value and the Rollout has not changed since the decision.

    With it goes the annotation `note` that says who gave the command; "" for none.
    """

    annotation: str
    value: str
    note: str = ""


class WriteStatus(Struct, frozen=True, kw_only=True):
    """Merge-patches the Rollout's `.status`, if the Rollout has not changed since the decision."""

    patch: Manifest


ObjectWrite: TypeAlias = Create | CreateRoute | CreateCopy | Patch | Adopt | Apply | Delete | EvictPod | RevertTemplate
Write: TypeAlias = ObjectWrite | RemoveRolloutAnnotation | WriteStatus


class ReadRoute(Struct, frozen=True, kw_only=True):
    """Finds out which version of the kind the server has, and GETs one route and the object that we own beside it, if any."""

    route: RouteName
    kinds: tuple[Kind, ...]
    owned_name: str = ""
    owned_kinds: tuple[Kind, ...] = ()


class ReadClasses(Struct, frozen=True):
    """GETs a route's Gateways, as `namespace/name`, and their classes."""

    gateways: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AskDataPlanes:
    """Asks the data planes of a route whether they follow that version of it; only one such question is under way at a time."""

    route: RouteName
    resource_version: str
    pace: Pace = field(compare=False)
    question: LiveQuestion = field(compare=False)


OwnQuestion: TypeAlias = (
    AskService
    | AskWorkload
    | AskHold
    | AskReplicaSets
    | AskPodTemplate
    | AskRevisions
    | AskChosenNodes
    | AskPods
    | AskAutoscaling
    | AskSecretCopy
    | ReadRoute
    | ReadClasses
    | AskDataPlanes
    | DrainQuestion
)
"""What one Rollout asks for itself: questions of the decision as they are, or with what `render` knows about their subject."""

RolloutCall: TypeAlias = Write | OwnQuestion | AskConfig
"""All Rollouts of the namespace that name a source share one `AskConfig`."""
