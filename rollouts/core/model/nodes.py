"""A DaemonSet that is updated in place, as it was seen: its nodes, and how its controller replaces their pods."""

from __future__ import annotations

from msgspec import Struct

from rollouts.core.model.rollout import IntOrPercent, Percent


class NodeUpdate(Struct, frozen=True, kw_only=True):
    """`updateStrategy` of a DaemonSet.

    Args:
        on_delete: its type is OnDelete: its controller replaces no pod that nobody deletes.
        max_unavailable, max_surge: of its `rollingUpdate`; None without one.
    """

    on_delete: bool
    max_unavailable: IntOrPercent | None = None
    max_surge: IntOrPercent | None = None

    @property
    def surges(self) -> bool:
        """Whether a new pod starts beside the old one of its node."""
        return self.max_surge not in (None, 0, Percent(0))

    @property
    def is_stopped(self) -> bool:
        """Whether a hold has turned RollingUpdate to OnDelete.

        The API server fills in `rollingUpdate` only beside its own type, so both together are a hold.
        """
        return self.on_delete and (self.max_unavailable is not None or self.max_surge is not None)


class OwnType(Struct, frozen=True):
    """The only field of a DaemonSet that an update changes, as its user wrote it: the type of its `updateStrategy`."""

    on_delete: bool


class HeldNodes(Struct, frozen=True, kw_only=True):
    """The note of an update of a DaemonSet under way (annotation `rollouts.dev/held`); `number` is that of our last write."""

    number: int
    own: OwnType


class NodeRevision(Struct, frozen=True, kw_only=True):
    """A ControllerRevision of a DaemonSet, one of the templates that it had.

    Args:
        revision: the hash in the label of its pods.
        number: the largest is that of the template of now; one that comes back gets the next.
    """

    name: str
    revision: str
    number: int
    created_at_s: float


class ChosenNodes(Struct, frozen=True, kw_only=True):
    """The answer to `AskChosenNodes`: the nodes that `canaryNodes` selects.

    Args:
        refused: why they were not listed, and what helps; "" when they were.
    """

    at_s: float
    names: frozenset[str] = frozenset()
    refused: str = ""


class DaemonSetSeen(Struct, frozen=True, kw_only=True):
    """What an update in place reads of a DaemonSet, besides what every workload has. Its `replicas` are the nodes that it wants.

    Args:
        current, updated, ready, available: nodes that have a pod, and whose pod is of the template of now, ready, or available,
            as its controller says.
        min_ready_s: its `minReadySeconds`.
        holds: it carries the label `rollouts.dev/hold`, by which the policy knows it.
        held: None while no update is under way.
        revisions: its ControllerRevisions, as they were listed for its present template.
        chosen: the nodes whose pods are replaced first, if the spec chooses some; None while they are not listed.
    """

    update: NodeUpdate
    current: int = 0
    updated: int = 0
    ready: int = 0
    available: int = 0
    min_ready_s: int = 0
    holds: bool = False
    held: HeldNodes | None = None
    revisions: tuple[NodeRevision, ...] = ()
    chosen: ChosenNodes | None = None

    @property
    def own_on_delete(self) -> bool:
        """Whether its user's own type is OnDelete."""
        return (
            self.held.own.on_delete if self.held is not None else self.update.on_delete and not self.update.is_stopped
        )

    @property
    def in_update(self) -> bool:
        """Whether an update is under way."""
        return self.held is not None

    @property
    def needs_pods(self) -> bool:
        """Whether an update runs, or nodes have different revisions: only its pods say which."""
        return self.held is not None or self.updated < self.current
