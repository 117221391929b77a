"""The acts of `rollouts demo`, and what each of them promises. An act ends with a row of the table, or raises `NotAsPromised`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator

from msgspec import Struct
from rich.console import Console

from rollouts.cli.commands import verbs
from rollouts.cli.demo.manifests import (
    BAD,
    BLUE_GREEN_APP,
    CANARY_APP,
    CANARY_STEPS,
    ERROR_PERCENT,
    FAULTY,
    FIRST,
    GOOD_SHARE,
    IMAGE,
    REPLICAS,
    SECOND,
    blue_green_app,
    canary_app,
    with_image,
)
from rollouts.cli.demo.stage import GATEWAY, DemoStage, NotAsPromised, selector_of
from rollouts.cli.exits import Exit
from rollouts.cli.view import verb_plans
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.objects import RolloutObjects, images_of, pod_line, revision_of, status_of, view_of
from rollouts.cli.view.runs import MeasurementLine, MetricLine
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import Phase
from rollouts.manifests.ownership import REVISION
from rollouts.objects import Manifest
from rollouts.sim.network.applications import Behaviour

Say = Callable[[str], None]
LAST_REQUESTS_S = 0.6  # a proxy may be half a second late, and a lost request must show in the row of its act
_STEADY_S = 1.0  # requests on a cluster at rest, to compare with
_READ_S = 3.0
_MEASURED_S = 3.1  # two whole seconds, wherever in a second the first one begins
ABORTED_WITHIN_S = 40.0  # its analysis measures every second and fails at the third bad one
_SHARE_OFF_BY = 4.0  # percent: of 100 requests, three proxies that each begin anew with the stable revision


class Act(Struct, frozen=True):
    """One act. Playing it gives the number of steps that were carried out, and the outcome in words.

    One that `needs_clients` is played only where this process sends requests and measures them.
    """

    title: str
    play: Callable[[DemoStage, Say], Awaitable[tuple[int, str]]]
    needs_clients: bool = False


async def install(stage: DemoStage, say: Say) -> tuple[int, str]:
    """Promises that the first revision of both apps becomes Healthy at once, without steps."""
    by = "a canary with a route's weights" if stage.gateway is not None else "a canary"
    say(f"install two apps at {FIRST}: {CANARY_APP} is updated by {by}, {BLUE_GREEN_APP} by blue-green")
    await stage.install(canary_app(stage.namespace, gateway=GATEWAY if stage.gateway is not None else ""))
    await stage.install(blue_green_app(stage.namespace))
    for app in (BLUE_GREEN_APP, CANARY_APP):
        seen = await stage.until(app, _is_healthy, deadline_s=20, what=f"{app} is Healthy")
        await stage.until(
            app, lambda seen: _ready_pods(seen.replica_sets) == REPLICAS, deadline_s=10, what=f"{app} has its pods"
        )
        _promise(_serving_images(seen) == {FIRST}, f"{app} runs {_serving_images(seen)} instead of {FIRST}")
    await asyncio.sleep(_STEADY_S / 2)  # the slices show the last pods, then the clients come
    for app in (CANARY_APP, BLUE_GREEN_APP):
        stage.send_requests(app)
    await asyncio.sleep(_STEADY_S)
    return 0, f"{CANARY_APP}, {BLUE_GREEN_APP} Healthy at {FIRST}"


async def canary(stage: DemoStage, say: Say) -> tuple[int, str]:
    """Promises that the canary waits for a person at 25 %, goes on when promoted, and ends Healthy on the new image.

    Where a gateway splits the requests, it also promises that 25 % of them reach the canary, as the clients count.
    """
    say(f"new image {SECOND} for {CANARY_APP}: 25 %, then it waits for promotion")
    told = _Measurements(say)
    await stage.change(CANARY_APP, with_image(SECOND))
    seen = await stage.until(CANARY_APP, _waits_for_promotion, deadline_s=20, what="the canary waits to be promoted")
    status = status_of(seen.rollout)
    _promise(status.weight_percent == 25, f"the canary's weight is {status.weight_percent} % instead of 25 %")
    own = [replica_set for replica_set in seen.replica_sets if revision_of(replica_set) == status.current_revision]
    pods = _ready_pods(own)
    _promise(pods == 1, f"the canary has {pods} pods instead of 1")
    await asyncio.sleep(_MEASURED_S)  # requests on 25 %
    promise_share(stage, status.current_revision, 25)
    say(f"promote: rollouts.dev/promote={status.current_revision}@{status.step_index}")
    await _verb(stage, CANARY_APP, lambda now: verb_plans.plan_promote(now, full=False, step=None))
    done = told.then(_is_healthy)
    await stage.until(CANARY_APP, done, deadline_s=40, what="the canary is Healthy at the end of its steps")
    seen = await stage.until(CANARY_APP, _has_only_current, deadline_s=10, what="only the new pods are left")
    _promise(_serving_images(seen) == {SECOND}, f"{_serving_images(seen)} serve instead of {SECOND}")
    if stage.gateway is not None:
        _promise(told.phases == {AnalysisPhase.SUCCESSFUL}, f"the good version was measured {sorted(told.phases)}")
    return len(CANARY_STEPS), f"promoted, {CANARY_APP} at {SECOND}"


async def abort(stage: DemoStage, say: Say) -> tuple[int, str]:
    """Promises that a bad image never gets requests, and that after the abort the stable revision has all its pods."""
    say(f"a bad image for {CANARY_APP}: its pods never become ready")
    await stage.change(CANARY_APP, with_image(BAD))

    def crashes(seen: RolloutObjects) -> bool:
        status = status_of(seen.rollout)
        waits = status.waiting_for is not None and status.waiting_for.reason == Reason.PODS_NOT_AVAILABLE
        return waits and any(pod_line(pod).problem for pod in _pods_of(seen, status.current_revision))

    seen = await stage.until(CANARY_APP, crashes, deadline_s=20, what="the bad pod is seen to fail")
    bad = status_of(seen.rollout).current_revision
    await asyncio.sleep(_READ_S)  # requests while it crashes, and time to read why
    say(f"abort: rollouts.dev/abort={bad}")
    await _verb(stage, CANARY_APP, verb_plans.plan_abort)

    def is_back(seen: RolloutObjects) -> bool:
        status = status_of(seen.rollout)
        return status.phase == Phase.ABORTED and _ready_pods(seen.replica_sets) == REPLICAS and not _pods_of(seen, bad)

    seen = await stage.until(
        CANARY_APP, is_back, deadline_s=20, what="the stable revision has all its pods and the bad one none"
    )
    _promise(_serving_images(seen) == {SECOND}, f"{_serving_images(seen)} serve instead of {SECOND}")
    if traffic := stage.clients.get(CANARY_APP):
        _promise(not traffic.tally.sent[bad], f"the bad image got {count_of(traffic.tally.sent[bad], 'request')}")
    say(f"the author sets the image back to {SECOND}")
    await stage.change(CANARY_APP, with_image(SECOND))
    await stage.until(CANARY_APP, _is_healthy, deadline_s=20, what="the Rollout is Healthy again")
    return 0, f"aborted, {CANARY_APP} at {SECOND}"


async def measured(stage: DemoStage, say: Say) -> tuple[int, str]:
    """Promises that a version which fails a part of its requests is aborted by its analysis, and nobody needs to do anything.

    The aborted pods drain while the next act is played.
    """
    if stage.sim is None:
        raise ValueError("a real cluster has no clients of ours")
    say(f"new image {FAULTY} for {CANARY_APP}: its pods are ready, and {ERROR_PERCENT} % of its requests fail")
    stage.sim.applications.behave(Behaviour(error_ratio=ERROR_PERCENT / 100), image=f"{IMAGE}:{FAULTY}")
    told = _Measurements(say, but=stage.seen(CANARY_APP))
    await stage.change(CANARY_APP, with_image(FAULTY))

    def is_aborted(seen: RolloutObjects) -> bool:
        return status_of(seen.rollout).phase == Phase.ABORTED and AnalysisPhase.FAILED in told.phases

    seen = await stage.until(
        CANARY_APP, told.then(is_aborted), deadline_s=ABORTED_WITHIN_S, what="the analysis has aborted the update"
    )
    bad = status_of(seen.rollout).current_revision
    tally = stage.clients[CANARY_APP].tally
    say(
        f"its analysis has aborted it: {tally.failed[bad]} of {count_of(tally.sent[bad], 'request')} to {FAULTY} failed"
    )
    _promise(tally.failed[bad] > 0, f"no request to {FAULTY} failed")

    def stable_serves(seen: RolloutObjects) -> bool:
        """Whether every proxy sends all requests to the stable revision, which has all its pods."""
        status = status_of(seen.rollout)
        back = status.traffic is not None and status.traffic.desired_percent == status.traffic.observed_percent == 0
        return back and len(_pods_of(seen, status.stable_revision)) == REPLICAS

    await stage.until(CANARY_APP, stable_serves, deadline_s=20, what="all requests go to the stable revision")
    before = tally.sent[bad]
    await asyncio.sleep(_STEADY_S)
    more = tally.sent[bad] - before
    _promise(not more, f"{FAULTY} got {count_of(more, 'request')} after its traffic was taken away")
    say(f"the author sets the image back to {SECOND}")
    await stage.change(CANARY_APP, with_image(SECOND))
    await stage.until(CANARY_APP, _is_healthy, deadline_s=20, what="the Rollout is Healthy again")
    return 0, f"aborted at {told.last_number:.3f} of {GOOD_SHARE}"


async def blue_green(stage: DemoStage, say: Say) -> tuple[int, str]:
    """Promises that the active Service stays on the old revision until the preview is promoted, and then switches at once."""
    say(f"new image {SECOND} for {BLUE_GREEN_APP}: a preview beside the active revision, which waits for promotion")
    before = selector_of(stage, BLUE_GREEN_APP).get(REVISION)
    await stage.change(BLUE_GREEN_APP, with_image(SECOND))
    seen = await stage.until(
        BLUE_GREEN_APP, _waits_for_promotion, deadline_s=20, what="the preview waits to be promoted"
    )
    new = status_of(seen.rollout).current_revision
    unmoved = selector_of(stage, BLUE_GREEN_APP).get(REVISION) == before
    _promise(unmoved, "the active Service moved before the promotion")
    preview = selector_of(stage, f"{BLUE_GREEN_APP}-preview").get(REVISION)
    _promise(preview == new, f"the preview Service selects {preview} instead of {new}")
    await asyncio.sleep(_STEADY_S)
    say(f"promote: rollouts.dev/promote={new}@0")
    await _verb(stage, BLUE_GREEN_APP, lambda now: verb_plans.plan_promote(now, full=False, step=None))
    await stage.until(BLUE_GREEN_APP, _is_healthy, deadline_s=30, what="the blue-green update is Healthy")
    active = selector_of(stage, BLUE_GREEN_APP).get(REVISION)
    _promise(active == new, f"the active Service selects {active} instead of {new}")
    seen = await stage.until(BLUE_GREEN_APP, _has_only_current, deadline_s=20, what="the old revision is scaled down")
    _promise(_serving_images(seen) == {SECOND}, f"{_serving_images(seen)} serve instead of {SECOND}")
    return 1, f"promoted, {BLUE_GREEN_APP} at {SECOND}"


ACTS = (
    Act("install", install),
    Act("canary", canary),
    Act("bad image", abort),
    Act(f"{ERROR_PERCENT} % errors", measured, needs_clients=True),
    Act("blue-green", blue_green),
)


def promise_share(stage: DemoStage, revision: str, percent: int) -> None:
    """With a gateway, promises that the clients counted the step's share of requests in the last two seconds.

    Raises: NotAsPromised.
    """
    if stage.gateway is None:
        return
    share = 100 * stage.shares(CANARY_APP).get(revision, 0.0)
    _promise(
        abs(share - percent) <= _SHARE_OFF_BY, f"the canary got {share:.0f} % of the requests instead of {percent} %"
    )


async def _verb(stage: DemoStage, name: str, plan: verb_plans.PlannedWrite) -> None:
    """Gives a command by annotation, as `rollouts promote` does, and waits for the controller's record."""
    quiet = Console(quiet=True)
    code = await verbs.carry_out(stage.session, name, plan, wait=True, console=quiet)
    if code is not Exit.OK:
        raise NotAsPromised(f"the command for {name} was not recorded (exit code {int(code)})")


def _promise(kept: bool, broken: str) -> None:
    if not kept:
        raise NotAsPromised(broken)


class _Measurements:
    """Announces new measurements of a Rollout's current revision, with value and condition; a success not again and again."""

    def __init__(self, say: Say, *, but: RolloutObjects | None = None) -> None:
        self.phases: set[AnalysisPhase] = set()
        self.last_number = math.nan
        self._say = say
        self._last_said = ""
        self._known = {key for key, _, _ in _measurements(but)} if but is not None else set()

    def then(self, holds: Callable[[RolloutObjects], bool]) -> Callable[[RolloutObjects], bool]:
        """A check that announces what is new before it asks another one."""

        def told(seen: RolloutObjects) -> bool:
            for key, metric, measurement in _measurements(seen):
                if key in self._known:
                    continue
                self._known.add(key)
                self.phases.add(measurement.phase)
                if measurement.number is not None:
                    self.last_number = measurement.number
                value = measurement.rounded or "nothing"
                text = f"measured: {metric.name} {value}, condition {metric.condition}: {measurement.phase}"
                if text != self._last_said or measurement.phase.bad:
                    self._last_said = text
                    self._say(text)
            return holds(seen)

        return told


def _measurements(seen: RolloutObjects) -> Iterator[tuple[tuple[str, str, float], MetricLine, MeasurementLine]]:
    """Those of the current revision that are over, each with what tells it from all others."""
    current = status_of(seen.rollout).current_revision
    for run in (run for revision in view_of(seen).revisions if revision.revision == current for run in revision.runs):
        for metric in run.metrics:
            for measurement in metric.measurements:
                if measurement.phase.over:
                    yield (run.name, metric.name, measurement.at_s), metric, measurement


def _is_healthy(seen: RolloutObjects) -> bool:
    status = status_of(seen.rollout)
    return status.phase == Phase.HEALTHY and status.observed_generation == seen.rollout["metadata"]["generation"]


def _waits_for_promotion(seen: RolloutObjects) -> bool:
    wait = status_of(seen.rollout).waiting_for
    return wait is not None and wait.reason == Reason.PROMOTION_NEEDED


def _ready_pods(replica_sets: Iterable[Manifest]) -> int:
    return sum((replica_set.get("status") or {}).get("readyReplicas", 0) for replica_set in replica_sets)


def _has_only_current(seen: RolloutObjects) -> bool:
    current = status_of(seen.rollout).current_revision
    return len(seen.pods) == len(_pods_of(seen, current)) == REPLICAS == _ready_pods(seen.replica_sets)


def _pods_of(seen: RolloutObjects, revision: str) -> list[Manifest]:
    return [pod for pod in seen.pods if revision_of(pod) == revision]


def _serving_images(seen: RolloutObjects) -> set[str]:
    return {
        image.removeprefix(f"{IMAGE}:")
        for replica_set in seen.replica_sets
        if _ready_pods([replica_set])
        for image in images_of(replica_set)
    }
