"""The plays whose transcripts are on record: an update by each strategy, and what people and the cluster do meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

from rollouts.core.model.analysis import Analysis, AnalysisPhase, OnFailure
from rollouts.core.model.author import Author, AuthorKind
from rollouts.core.model.autoscaling import AutoscalingGate, ContainerLimit, ContainerMetric
from rollouts.core.model.config import ConfigVersioning
from rollouts.core.model.drain import DrainSpec
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import BlueGreen, Canary, Percent, PodMetadata, Strategy
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.steps import (
    Analyze,
    Pause,
    PauseUntilPromoted,
    SetCanaryReplicas,
    SetCanaryScalePercent,
    SetHeaderRoute,
    SetMirrorRoute,
    SetWeight,
)
from rollouts.core.model.traffic import ALL_TO_STABLE, MatchKind, MirrorRoute, NamedMatch, RequestMatch, TextMatch
from rollouts.core.model.workload import PartitionFields
from rollouts.core.model.workload_ref import OnAbort, ScaleDownWorkload
from tests.core import daemonsets
from tests.core.autoscalers import Load
from tests.core.config_worlds import CRED, REFS, WITH_SECRET, copy_deleted, copy_forged, source_removed, source_written
from tests.core.daemonsets import Nodes, daemons
from tests.core.deployments import deployed, fields_applied, scaled, template_changed
from tests.core.measured_runs import runs_measured, template_gone_or_back
from tests.core.model import World, annotated, deleted, orphaned, snapshot, world
from tests.core.named_workloads import REF, deployment
from tests.core.stateful_sets import new_template, rescaled, stateful
from tests.core.updates import ASKED, COUNTED, TIMED, routed, with_services
from tests.core.worlds import (
    applied_again,
    deleting,
    edited,
    pods_unready,
    running,
    status_wiped,
    steps_of,
    with_route,
    without_route,
)

Act: TypeAlias = Callable[[World], World]
Play: TypeAlias = Callable[[], Iterator[Snapshot]]
"""Gives what each pass sees."""

GATE = PauseUntilPromoted()
BETA = RequestMatch(headers=(NamedMatch("x-beta", TextMatch(MatchKind.EXACT, "yes")),))
CHECKED = Analysis(path="the spec", settings={}, templates=("good",))
HELD, BACK = (replace(CHECKED, on_failure=each) for each in (OnFailure.HOLD, OnFailure.STEP_BACK))
ROLES = {
    "canary_metadata": PodMetadata({"role": "canary"}),
    "stable_metadata": PodMetadata({"role": "stable"}, {"a": "b"}),
}
DRAIN = DrainSpec(max_request_s=10.0)

RATIO = with_services(SetWeight(25), GATE, SetWeight(50), Pause(60), max_surge=Percent(25), **ROLES)
ROUTED = routed(SetWeight(20), GATE, SetWeight(60), Pause(30), by=(ASKED, TIMED), scale_down_delay_s=20.0)
WITH_ROUTES = routed(
    SetCanaryReplicas(2), SetHeaderRoute("beta", BETA), SetMirrorRoute("copies", MirrorRoute("copies", (BETA,), 30)),
    SetWeight(10), GATE, SetHeaderRoute("beta", None), SetMirrorRoute("copies", None), SetCanaryScalePercent(75), SetWeight(50),
    by=(COUNTED,), dynamic=True,
)  # fmt: skip
GREEN = BlueGreen(active_service="cart", preview_service="cart-preview", auto_promotion_enabled=False)
BY_TIME = replace(
    GREEN, auto_promotion_enabled=True, auto_promotion_s=10.0, scale_down_delay_s=5.0, preview_replica_count=1,
    preview_metadata=PodMetadata({"role": "preview"}), active_metadata=PodMetadata({"role": "active"}),
)  # fmt: skip
STEPS = Canary(steps=(SetWeight(25), GATE, SetWeight(50), GATE))
GATED = AutoscalingGate(
    settled=True,
    min_headroom_percent=20,
    container=ContainerLimit(container="app", resource=ContainerMetric.CPU, max_utilization_percent=90),
)


def _played(start: Callable[[], World], *acts: Act | float) -> Iterator[Snapshot]:
    """Each act is done once the world has settled, or so many seconds after the one before."""
    there, wait_s = start(), None
    for act in (*acts, lambda there: there):
        if isinstance(act, float):
            wait_s = act
            continue
        yield snapshot(there)
        for each in steps_of(there, until_s=None if wait_s is None else there.now_s + wait_s):
            there = each
            yield snapshot(there)
        there, wait_s = act(there), None


def _played_on_nodes(start: Callable[[], Nodes], *acts: Callable[[Nodes], Nodes]) -> Iterator[Snapshot]:
    """The same of a DaemonSet, whose worlds are their own."""
    there = start()
    until_the_end: tuple[Callable[[Nodes], Nodes], ...] = (*acts, lambda there: there)
    for act in until_the_end:
        yield daemonsets.snapshot(there)
        for each in daemonsets.steps_of(there):
            there = each
            yield daemonsets.snapshot(there)
        there = act(there)


def _update(strategy: Strategy, *acts: Act | float, **spec: Any) -> Play:
    """Revision `b` after `a`."""
    start = partial(_begun, strategy, spec)
    return partial(_played, start, *acts)


def _begun(strategy: Strategy, spec: Mapping[str, Any]) -> World:
    return edited(running(strategy, **spec), revision="b")


def _says(verb: str, value: str | None, *, by: str = "") -> Act:
    """Somebody sets an annotation, or with None takes it off."""
    author = Author(by, AuthorKind.NOTE) if by else None
    return lambda there: annotated(there, verb, value, by=author)


def _edits(**changes: Any) -> Act:
    return lambda there: edited(there, **changes)


def _fails(revision: str, limit: int = 1000) -> Act:
    return lambda there: replace(pods_unready(there, revision, limit=limit), bad=frozenset(revision))


def _ends(phase: AnalysisPhase) -> Act:
    return lambda there: runs_measured(there, phase)


PROMOTED, FULL, ABORTED = (
    _says("promote", "true", by="ann"),
    _says("promote", "b@full"),
    _says("abort", "true", by="bob"),
)
RETRIED, BACK_TO, PAUSED, GOES_ON = (
    _says("retry", "true"), _says("rollback", "true"), _says("pause", "true"), _says("pause", None),
)  # fmt: skip
RESTARTED = _says("restart", "true")
MENDED: Act = lambda there: replace(there, bad=frozenset())  # noqa: E731


def _unmeasured(strategy: Strategy, *acts: Act | float, **spec: Any) -> Play:
    """The same, and runs end as the acts say."""
    return partial(_played, lambda: replace(_begun(strategy, spec), unmeasured=True), *acts)


def _configured(*acts: Act | float, secret: bool = False) -> Play:
    """The first revision with the first content of its ConfigMap."""
    refs = WITH_SECRET if secret else REFS
    there = source_written(world(STEPS, config_refs=refs, config_versioning=ConfigVersioning(secrets=secret)), "v1")
    return partial(_played, lambda: source_written(there, "s1", CRED.name), *acts)


def _templated(scale_down: ScaleDownWorkload, *acts: Act | float) -> Play:
    """A Rollout whose template is a Deployment's, which has pods of its own."""
    ref = replace(REF, scale_down=scale_down)
    start = lambda: replace(world(STEPS, workload_ref=ref), workload=deployment(1))  # noqa: E731
    return partial(_played, start, *acts)


def _in_place(strategy: Strategy, *acts: Act | float, **given: Any) -> Play:
    return partial(_played, lambda: deployed(strategy, **given), lambda there: template_changed(there, "b"), *acts)


def _ordinals(*acts: Act | float, **given: Any) -> Play:
    return partial(_played, lambda: stateful(STEPS, **given), lambda there: new_template(there, "b"), *acts)


def _nodes(*acts: Callable[[Nodes], Nodes], **given: Any) -> Play:
    begins = partial(daemonsets.template_changed, revision="b")
    return partial(_played_on_nodes, lambda: daemons(STEPS, **given), begins, *acts)


def _told_nodes(verb: str, value: str | None) -> Callable[[Nodes], Nodes]:
    return lambda there: daemonsets.annotated(there, verb, value)


PLAYS: Mapping[str, Mapping[str, Play]] = {
    "ratio": {
        "a first revision": partial(_played, lambda: world(RATIO)),
        "promoted, and promoted by time": _update(RATIO, PROMOTED, replicas=8),
        "aborted, tried again, and promoted in full": _update(RATIO, ABORTED, RETRIED, FULL, drain=DRAIN),
        "paused by a person in the middle": _update(RATIO, 0.0, PAUSED, PROMOTED, GOES_ON),
        "rolled back after its end, and forward": _update(RATIO, FULL, BACK_TO, _says("rollback", "b")),
        "pods that never become ready, and a deadline that aborts": _update(
            RATIO, 0.0, _fails("b"), progress_deadline_s=60.0, progress_deadline_abort=True
        ),
        "a newer template, then the old one again": _update(RATIO, _edits(revision="c"), _edits(revision="a")),
        "scaled up, down and to 0": _update(RATIO, _edits(replicas=9), _edits(replicas=3), _edits(replicas=0), FULL),
        "restarted without a surge": _update(
            replace(RATIO, max_surge=0, max_unavailable=1), FULL, _says("promote", None), RESTARTED
        ),
        "its status is lost, and its ReplicaSets are orphans": _update(RATIO, status_wiped, applied_again, FULL),
        "a ReplicaSet that somebody deletes": _update(
            RATIO,
            lambda there: deleting(there, "a"),
            lambda there: deleted(there, "b"),
            lambda there: orphaned(there, "cart-b"),
        ),
        "commands that make no sense": _update(
            RATIO,
            _says("promote", "x@full"),
            _says("promote", "b@7"),
            _says("retry", "b@2"),
            _says("rollback", "nothing"),
            _says("abort", "c"),
            _says("promote", "b@1"),
            _says("restart", "soon"),
            _says("pause", "maybe"),
        ),
    },
    "routed": {
        "promoted, and promoted by time": _update(ROUTED, PROMOTED, drain=DRAIN),
        "aborted, and tried again": _update(ROUTED, ABORTED, RETRIED, FULL, replicas=5),
        "ways in by header, copies, and a stable revision that shrinks": _update(WITH_ROUTES, PROMOTED, drain=DRAIN),
        "requests too few to be counted": _update(
            WITH_ROUTES, 1.0, lambda there: replace(there, unheard=True), PROMOTED, ABORTED
        ),
        "somebody writes into its route, breaks it, and deletes it": _update(
            ROUTED,
            lambda there: with_route(there, TIMED, split=ALL_TO_STABLE),
            lambda there: with_route(there, TIMED, split=None),
            lambda there: without_route(there, TIMED),
        ),
        "Services that take turns": _update(
            replace(ROUTED, ping_pong=True), PROMOTED, _edits(revision="c"), _says("promote", "c@full")
        ),
        "a failure that steps back": _unmeasured(
            replace(ROUTED, steps=(SetWeight(20), SetWeight(60), Analyze(BACK), SetWeight(80)), analysis=BACK),
            _ends(AnalysisPhase.FAILED),
            PROMOTED,
            ABORTED,
        ),
        "increases that are asked for": _unmeasured(
            replace(ROUTED, steps=(SetWeight(20, HELD), SetWeight(60, HELD), PauseUntilPromoted(), SetWeight(40))),
            _ends(AnalysisPhase.SUCCESSFUL),
            _ends(AnalysisPhase.FAILED),
            PROMOTED,
            PROMOTED,
        ),
        "routes that the spec no longer names": _update(ROUTED, _edits(strategy=RATIO), FULL),
    },
    "blue-green": {
        "promoted by a person": _update(GREEN, PROMOTED, drain=DRAIN),
        "promoted by time, with a smaller preview": _update(BY_TIME, replicas=3),
        "aborted, tried again and rolled back": _update(
            GREEN, ABORTED, RETRIED, FULL, BACK_TO, _says("promote", "true")
        ),
        "analyses before and after the switch": _unmeasured(
            replace(BY_TIME, before_update=CHECKED, pre_promotion=CHECKED, post_promotion=HELD),
            _ends(AnalysisPhase.SUCCESSFUL),
            _ends(AnalysisPhase.SUCCESSFUL),
            _ends(AnalysisPhase.FAILED),
            FULL,
        ),
        "a preview that fails": _update(GREEN, 0.0, _fails("b"), MENDED, FULL),
        "restarted while its preview waits": _update(GREEN, RESTARTED, FULL),
    },
    "gates": {
        "an analysis that fails": _unmeasured(
            replace(RATIO, steps=(SetWeight(25), Analyze(CHECKED)), analysis=HELD),
            _ends(AnalysisPhase.SUCCESSFUL),
            _ends(AnalysisPhase.FAILED),
            RETRIED,
        ),
        "an inconclusive analysis that a person passes": _unmeasured(
            replace(RATIO, steps=(SetWeight(25), Analyze(HELD))),
            _ends(AnalysisPhase.INCONCLUSIVE),
            PROMOTED,
        ),
        "a template of an analysis that is missing": _unmeasured(
            replace(RATIO, steps=(SetWeight(25), Analyze(CHECKED))),
            0.0,
            lambda there: template_gone_or_back(there, 0),
            ABORTED,
            lambda there: template_gone_or_back(there, 0),
            RETRIED,
            _says("promote", "b@skip-step-1"),
        ),
        "an autoscaler that settles late": _update(
            replace(RATIO, steps=(SetWeight(25), SetWeight(50))),
            0.0,
            lambda there: replace(there, load=Load(changes={"desired": 6})),
            600.0,
            lambda there: replace(there, load=Load(percent={"b": 130.0})),
            600.0,
            lambda there: replace(there, load=Load()),
            autoscaling=GATED,
        ),
        "an autoscaler that does not exist": _update(
            replace(GREEN, auto_promotion_enabled=True),
            0.0,
            lambda there: replace(there, load=Load(none=True)),
            60.0,
            lambda there: replace(there, load=Load(unread=True)),
            60.0,
            FULL,
            autoscaling=GATED,
        ),
    },
    "configuration": {
        "a new content, and the old one again": _configured(
            lambda there: source_written(there, "v2"), FULL, lambda there: source_written(there, "v1"), FULL
        ),
        "a copy that is lost, and one that is forged": _configured(
            lambda there: source_written(there, "v2"),
            lambda there: copy_deleted(there, 0),
            lambda there: copy_forged(there, 0),
            ABORTED,
        ),
        "a source that somebody removes": _configured(source_removed, _edits(revision="b"), PROMOTED),
        "with a Secret": _configured(lambda there: source_written(there, "s2", CRED.name), PROMOTED, secret=True),
    },
    "templates": {
        "of a Deployment that is scaled down progressively": _templated(
            ScaleDownWorkload.PROGRESSIVELY, lambda there: edited(there, replicas=6)
        ),
        "of a Deployment that is scaled down on success": _templated(ScaleDownWorkload.ON_SUCCESS),
    },
    "in-place": {
        "a Deployment by the ratio of its pods": _in_place(STEPS, PROMOTED, FULL),
        "a Deployment, aborted, tried again, and another template": _in_place(
            STEPS, ABORTED, RETRIED, lambda there: template_changed(there, "c"), _says("promote", "c@full")
        ),
        "a Deployment that is scaled, and whose fields somebody writes": _in_place(
            STEPS, lambda there: scaled(there, 8), fields_applied, FULL, min_ready_s=10
        ),
        "beside a Deployment": _in_place(GREEN, PROMOTED),
        "beside a Deployment, with routes, and an undo": _in_place(
            ROUTED, FULL, lambda there: template_changed(there, "a"), _says("promote", "a@full")
        ),
        "a StatefulSet": _ordinals(PROMOTED, FULL),
        "a StatefulSet, aborted, tried again, and undone": _ordinals(
            PROMOTED, ABORTED, RETRIED, PROMOTED, lambda there: new_template(there, "a")
        ),
        "a StatefulSet that is scaled, with OnDelete": _ordinals(
            lambda there: rescaled(there, 8),
            lambda there: rescaled(there, 3),
            FULL,
            fields=PartitionFields(on_delete=True),
        ),
        "a StatefulSet whose new pods fail": _ordinals(_fails("b"), ABORTED, ordered=False, max_unavailable=2),
        "a DaemonSet": _nodes(_told_nodes("promote", "true"), _told_nodes("promote", "b@full")),
        "a DaemonSet, aborted, with chosen nodes": _nodes(
            _told_nodes("abort", "true"), _told_nodes("retry", "true"), chosen=("n4", "n2")
        ),
        "a DaemonSet whose template goes back with an abort": _nodes(
            _told_nodes("abort", "true"), max_unavailable=2, on_abort=OnAbort.REVERT_TEMPLATE, min_ready_s=5
        ),
        "a DaemonSet with nodes that come and fail": _nodes(
            lambda there: daemonsets.joined(there, 2),
            lambda there: daemonsets.failing(there, 1),
            _told_nodes("promote", "b@full"),
        ),
    },
}

REHEARSED: Mapping[str, Callable[[], World]] = {
    "by the ratio of pods": lambda: _begun(RATIO, {"replicas": 8, "drain": DRAIN}),
    "by routes": lambda: _begun(ROUTED, {"drain": DRAIN}),
    "with routes by header": lambda: _begun(WITH_ROUTES, {}),
    "blue-green": lambda: _begun(GREEN, {"min_ready_s": 5}),
    "blue-green by time": lambda: _begun(BY_TIME, {"autoscaling": GATED}),
    "a Deployment in place": lambda: template_changed(deployed(STEPS), "b"),
    "nothing to do": lambda: running(RATIO),
}
"""Worlds whose update is told before it begins."""
