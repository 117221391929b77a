"""Keeps answers to the questions of passes until the next pass reads them. In RAM only: a lost answer is asked for again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field

from msgspec import Struct

from rollouts.cluster.store import NamespacedName
from rollouts.cluster.structs import RouteObject, ServiceObject, WorkloadObject
from rollouts.controller.workqueue.askers import Askers
from rollouts.core.model.autoscaling import AutoscalingGate, AutoscalingSeen
from rollouts.core.model.config import CopyLook
from rollouts.core.model.frozen import replace
from rollouts.core.model.nodes import ChosenNodes, NodeRevision
from rollouts.core.model.snapshot import CreationRefused, DrainSeen, EvictionRefused, PodsSeen
from rollouts.core.model.traffic import LiveSeen, RouteName, RouteRefused
from rollouts.core.model.workload import HoldSeen, NamedReplicaSet
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.objects import Key, Kind
from rollouts.ports import Clock
from rollouts.recent import Recent

SERVICE_ANSWER_S = 10.0  # a Service that is not watched may change unseen
POLICY_ANSWER_S = 10.0  # a start asks about all workloads in place
POLICIES_MAX = 1_000  # namespaces, times kinds
POD_LISTS_MAX = 1_000  # Rollouts whose lists are kept; the least recently used one is dropped first
COPY_LOOKS_MAX = 100  # copies of Secrets of one Rollout; the oldest answer is dropped first, and asked for again


class ServiceAnswer(Struct, frozen=True):
    """The API server's answer about one Service.

    Args:
        service: None when it does not exist.
        asked_s: monotonic time of the question; the answer is at least as new.
    """

    service: ServiceObject | None
    asked_s: float


class WorkloadAnswer(Struct, frozen=True, kw_only=True):
    """The API server's answer about the workload that a Rollout names.

    Args:
        workload: None when it does not exist, or when the answer is a refusal.
        forbidden: why it may not be read or marked, and what helps; "" when it may.
        asked_s: monotonic time of the question; the answer is at least as new.
    """

    kind: WorkloadKind
    name: str
    asked_s: float
    workload: WorkloadObject | None = None
    forbidden: str = ""


class RouteAnswer(Struct, frozen=True, kw_only=True):
    """The API server's answer about one route.

    Args:
        kind, owned_kind: in the version that the server has; None when it has none.
        user, owned: the user's object and ours beside it; None when it does not exist.
        message: why there is no route; "" when simply no object has its name.
        asked_s: monotonic time of the question; the answer is at least as new.
    """

    asked_s: float
    kind: Kind | None = None
    user: RouteObject | None = None
    owned_kind: Kind | None = None
    owned: RouteObject | None = None
    message: str = ""


class SetsAnswer(Struct, frozen=True, kw_only=True):
    """The ReplicaSets of a Deployment that is updated in place, as they were listed.

    Args:
        template_hash: of the Deployment's template when they were listed.
        held: whether an update was under way then, so that the Deployment's own controller made none since.
        revision: name of the one with that template; "" when there is none.
        sets: those that must be watched: with pods, or with that template.
        asked_s: monotonic time of the question.
    """

    asked_s: float
    template_hash: str
    held: bool
    revision: str
    sets: tuple[NamedReplicaSet, ...]


class RevisionsAnswer(Struct, frozen=True, kw_only=True):
    """The ControllerRevisions of a DaemonSet, as they were listed.

    Args:
        uid: of the DaemonSet.
        template_hash: of its template when they were listed, which the newest of them has.
        revisions: the newest is last.
    """

    uid: str
    template_hash: str
    revisions: tuple[NodeRevision, ...]


@dataclass(slots=True, eq=False)
class KnownAnswers:
    """The last answers for one Rollout; `decide` judges how old they may be, and whether they are still about what it asks.

    Args:
        drained: of the drain probes, by revision.
        copies: of Secrets, by name.
        templates: pod templates of ReplicaSets, JSON, by their uid.
        revision: uid and template's hash of a StatefulSet, and the revision that its controller gave it.
    """

    services: dict[str, ServiceAnswer] = field(default_factory=dict)
    workload: WorkloadAnswer | None = None
    routes: dict[RouteName, RouteAnswer] = field(default_factory=dict)
    live: dict[RouteName, LiveSeen] = field(default_factory=dict)
    refused_routes: dict[RouteName, RouteRefused] = field(default_factory=dict)
    drained: dict[str, DrainSeen] = field(default_factory=dict)
    copies: dict[str, CopyLook] = field(default_factory=dict)
    templates: dict[str, bytes] = field(default_factory=dict)
    autoscaling: tuple[AutoscalingGate, AutoscalingSeen] | None = None
    revision: tuple[str, str, str] | None = None
    revisions: RevisionsAnswer | None = None
    nodes: tuple[str, ChosenNodes] | None = None
    eviction_refused: EvictionRefused | None = None
    creation_refused: CreationRefused | None = None


_NONE = KnownAnswers()


class Inbox:
    """The answers for every Rollout."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._answers: defaultdict[Key, KnownAnswers] = defaultdict(KnownAnswers)
        # Each Rollout of a Deployment in place has these two, also at rest, where it has no other answer.
        self._sets: dict[Key, SetsAnswer] = {}
        self._holds: dict[Key, tuple[str, HoldSeen]] = {}
        self._policies: Recent[tuple[str, WorkloadKind], HoldSeen] = Recent(POLICIES_MAX)
        self.pods: Recent[Key, PodsSeen] = Recent(POD_LISTS_MAX)
        """The last list of a Rollout's pods, until one of them is written; `decide` judges how old it may be."""
        self.service_askers: Askers[NamespacedName] = Askers()
        """Rollouts that asked about a Service: they get a pass when some Rollout begins to manage it."""
        self.workload_askers: Askers[NamespacedName] = Askers()
        """Rollouts that name a workload of that name, of whatever kind."""
        self.route_askers: Askers[NamespacedName] = Askers()
        """Rollouts that asked about a route of that name, of whatever kind."""

    def of(self, key: Key) -> KnownAnswers:
        """The last answers for a Rollout; to be read only."""
        return self._answers.get(key, _NONE)

    def put_service(self, key: Key, name: str, answer: ServiceAnswer) -> None:
        """Takes the answer to a question about Service `name`."""
        self._answers[key].services[name] = answer
        self.service_askers.asks_also(key, (key.namespace, name))

    def put_workload(self, key: Key, answer: WorkloadAnswer) -> None:
        """Takes the answer about the workload that the Rollout names."""
        self._answers[key].workload = answer

    def put_sets(self, key: Key, answer: SetsAnswer) -> None:
        """Takes the list of a Deployment's ReplicaSets."""
        self._sets[key] = answer

    def put_route(self, key: Key, route: RouteName, answer: RouteAnswer) -> None:
        """Takes the answer to a question about a route."""
        self._answers[key].routes[route] = answer
        self.route_askers.asks_also(key, (route.namespace, route.name))

    def put_live(self, key: Key, route: RouteName, answer: LiveSeen) -> bool:
        """Takes the answer of a route's data planes; whether it is news: they follow, or it says something else than before."""
        answers = self._answers[key].live
        before, answers[route] = answers.get(route), answer
        return answer.live or before is None or replace(before, at_s=answer.at_s) != answer

    def put_drained(self, key: Key, revision: str, answer: DrainSeen) -> None:
        """Takes the answer of the drain probes about a revision."""
        self._answers[key].drained[revision] = answer

    def put_autoscaling(self, key: Key, gate: AutoscalingGate, answer: AutoscalingSeen) -> bool:
        """Takes the answer to a gate's question; whether it is another than the last one. All of a namespace share its lists."""
        answers = self._answers[key]
        before, answers.autoscaling = answers.autoscaling, (gate, answer)
        return before != (gate, answer)

    def put_copy(self, key: Key, name: str, look: CopyLook) -> None:
        """Takes the answer whether a copy of a Secret is there, or that it was made."""
        answers = self._answers[key]
        others = [other for other in answers.copies.items() if other[0] != name]
        answers.copies = {**dict(others[1 - COPY_LOOKS_MAX :]), name: look}

    def put_template(self, key: Key, uid: str, template: bytes) -> None:
        """Takes the pod template of the ReplicaSet of that uid; two are kept, of the stable revision and of the new one."""
        answers = self._answers[key]
        others = [other for other in answers.templates.items() if other[0] != uid]
        answers.templates = {**dict(others[-1:]), uid: template}

    def put_hold(self, key: Key, uid: str, answer: HoldSeen) -> None:
        """Takes the answer about the policy that holds the Deployment of that uid."""
        before = self.hold(key, uid)
        if before is not None and before.works is answer.works:
            answer = replace(answer, since_s=before.since_s)
        self._holds[key] = uid, answer

    def put_policy(self, namespace: str, kind: WorkloadKind, answer: HoldSeen) -> None:
        """Takes the answer that a workload of that kind is held, by nothing but the policy of its kind."""
        self._policies[namespace, kind] = answer

    def put_revision(self, key: Key, uid: str, template_hash: str, revision: str) -> None:
        """Remembers the revision of a template, for the moments in which its controller has not seen another field."""
        if self.of(key).revision != (uid, template_hash, revision):
            self._answers[key].revision = uid, template_hash, revision

    def put_revisions(self, key: Key, answer: RevisionsAnswer) -> None:
        """Takes the list of a DaemonSet's ControllerRevisions."""
        self._answers[key].revisions = answer

    def put_nodes(self, key: Key, selector: str, answer: ChosenNodes) -> None:
        """Takes the list of the nodes that `canaryNodes` selects."""
        self._answers[key].nodes = selector, answer

    def put_refusal(self, key: Key, refusal: EvictionRefused) -> None:
        """Remembers that a PodDisruptionBudget refused an eviction."""
        self._answers[key].eviction_refused = refusal

    def put_route_refused(self, key: Key, route: RouteName, refused: RouteRefused) -> None:
        """Remembers that a write of a route was refused."""
        self._answers[key].refused_routes[route] = refused

    def put_creation_refused(self, key: Key, refused: CreationRefused) -> None:
        """Remembers that the ReplicaSet of a revision was refused."""
        self._answers[key].creation_refused = refused

    def service(self, key: Key, name: str) -> ServiceAnswer | None:
        """The answer about Service `name`; None when there is none, or when it says that the Service exists and is over 10 s old.

        How long "it does not exist" remains valid is for `decide` to judge.
        """
        answer = self.of(key).services.get(name)
        if answer is None or (answer.service is not None and self.age_s(answer) > SERVICE_ANSWER_S):
            return None
        return answer

    def workload(self, key: Key, kind: WorkloadKind, name: str) -> WorkloadAnswer | None:
        """The answer about that workload; None when there is none, or when it says that it exists and is over 10 s old."""
        answer = self.of(key).workload
        if answer is None or (answer.kind, answer.name) != (kind, name):
            return None
        return None if answer.workload is not None and self.age_s(answer) > SERVICE_ANSWER_S else answer

    def route(self, key: Key, route: RouteName) -> RouteAnswer | None:
        """The answer about a route; None when there is none, or when it says that the route exists and is over 10 s old."""
        answer = self.of(key).routes.get(route)
        if answer is None or (answer.user is not None and self.age_s(answer) > SERVICE_ANSWER_S):
            return None
        return answer

    def autoscaling(self, key: Key, gate: AutoscalingGate) -> AutoscalingSeen | None:
        """The last answer to this gate's question; `decide` judges how old it may be."""
        asked, answer = self.of(key).autoscaling or (None, None)
        return answer if asked == gate else None

    def hold(self, key: Key, uid: str) -> HoldSeen | None:
        """The last answer about the Deployment of that uid."""
        asked, answer = self._holds.get(key, ("", None))
        return answer if asked == uid else None

    def policy(self, namespace: str, kind: WorkloadKind) -> HoldSeen | None:
        """The answer that the policy of that kind works in that namespace; None when there is none of the last 10 s."""
        answer = self._policies.get((namespace, kind))
        return answer if answer is not None and self._clock.now_s() < answer.at_s + POLICY_ANSWER_S else None

    def revision(self, key: Key, uid: str, template_hash: str) -> str:
        """The revision of that template; "" while it is not known."""
        known = self.of(key).revision
        return known[2] if known is not None and known[:2] == (uid, template_hash) else ""

    def revisions(self, key: Key, uid: str, template_hash: str) -> tuple[NodeRevision, ...]:
        """The ControllerRevisions of the DaemonSet with that template, the newest last; () while they are not known."""
        known = self.of(key).revisions
        return known.revisions if known is not None and (known.uid, known.template_hash) == (uid, template_hash) else ()

    def nodes(self, key: Key, selector: str) -> ChosenNodes | None:
        """The last list of the nodes that this selector finds."""
        asked, answer = self.of(key).nodes or ("", None)
        return answer if asked == selector else None

    def sets(self, key: Key, *, watched: Collection[str]) -> SetsAnswer | None:
        """The list of a Deployment's ReplicaSets; None when one of them is not `watched` (by uid) after 10 s: it is gone."""
        answer = self._sets.get(key)
        if answer is None or all(stray.uid in watched for stray in answer.sets):
            return answer
        return answer if self.age_s(answer) <= SERVICE_ANSWER_S else None

    def age_s(self, answer: ServiceAnswer | WorkloadAnswer | RouteAnswer | SetsAnswer) -> float:
        """Seconds since the question was sent."""
        return self._clock.monotonic_s() - answer.asked_s

    def route_changed(self, key: Key, route: RouteName) -> None:
        """Drops the answer about a route after a write to it."""
        self.of(key).routes.pop(route, None)

    def service_changed(self, key: Key, name: str) -> None:
        """Drops the answer about a Service after a write to it, or when it is watched now."""
        self.of(key).services.pop(name, None)

    def workload_changed(self, key: Key) -> None:
        """Drops the answer about the Rollout's workload after a write to it."""
        if key in self._answers:
            self._answers[key].workload = None

    def forget(self, key: Key) -> None:
        """Forgets a Rollout that is gone."""
        self.service_askers.asks(key, ())
        self.workload_askers.asks(key, ())
        self.route_askers.asks(key, ())
        for answers in (self._answers, self._sets, self._holds, self.pods):
            answers.pop(key, None)
