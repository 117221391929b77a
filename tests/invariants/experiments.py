"""What no write of ours may break where an Experiment gets requests: S1, S5, S6, S9 and S24 of the project's invariants.

Its pods are no revision's: nothing but its own Service leads to them, and nothing but its own end takes them away.
"""

from __future__ import annotations

import math

from rollouts.core.model.analysis import AnalysisPhase, RunSeen
from rollouts.core.model.intents import DeleteExperiment, Intent, LetPodsGo, MakeRoute, SetTraffic
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.traffic import RouteAbsent, RouteSeen
from tests.invariants.drains import EARLY_S, wait_s
from tests.invariants.violation import Violation, abort_is_on_record, held


def experiments_get_requests_while_they_can(before: Snapshot, intent: Intent) -> list[Violation]:
    """S1, S5, S6, S9: a share goes to a Service of the running Experiment on record, which has ready pods that stay."""
    if not isinstance(intent, SetTraffic | MakeRoute) or not intent.split.experiments:
        return []
    found = []
    shares = [each.share for each in intent.split.experiments]
    named = {each.service for each in intent.split.experiments}
    if min(shares) < 0 or sum(shares) + intent.split.share > 1 or len(named) != len(shares):
        found.append(Violation("S6", f"{intent.split} is no split"))
    served = [each.service for each in intent.split.experiments if each.share]  # 0 comes before a share, and after it
    if served and abort_is_on_record(before):
        found.append(Violation("S5", f"{intent.route} sends requests to an Experiment of an aborted update"))
    traffic = before.status.traffic
    known = {each.service for each in traffic.desired_experiments} if traffic is not None else set()
    ready = {of.service for run in before.runs if _may_serve(before, run) for of in run.services if of.ready > 0}
    for service in served:
        if service not in ready:
            found.append(Violation("S1", f"{intent.route} sends requests to {service}, which has no pods that stay"))
        if service not in known:
            found.append(Violation("S24", f"{intent.route} sends requests to {service}, and status does not say so"))
    route = before.routes.get(intent.route)
    said = route.split.experiments if isinstance(route, RouteSeen) and route.split is not None else ()
    if held(before) and not set(served) <= {each.service for each in said} | known:
        found.append(Violation("S9", f"{intent.route} gets {intent.split} during a pause"))
    return found


def experiments_keep_pods_for_their_requests(before: Snapshot, intent: Intent) -> list[Violation]:
    """S24: pods that may have had requests stay until no route can send them more, and those in flight are over."""
    if not isinstance(intent, LetPodsGo | DeleteExperiment):
        return []
    run = next((each for each in before.runs if each.uid == intent.uid), None)
    if run is None:
        return []
    if isinstance(intent, DeleteExperiment):
        stays = run.kept_until_s > before.now_s
        return [Violation("S24", f"{run.name} is deleted, and its pods are to stay")] if stays else []
    found = []
    if not (run.phase.over or run.terminate):
        found.append(Violation("S24", f"the pods of {run.name} are let go while it runs"))
    if may := _may_send(before):
        found.append(Violation("S24", f"the pods of {run.name} are let go: {may}"))
    needed_s = wait_s(before.rollout.spec.drain, before.proxy)
    if intent.until_s < before.now_s + needed_s - EARLY_S:
        waits_s = intent.until_s - before.now_s
        found.append(Violation("S24", f"the pods of {run.name} stay for {waits_s:g} s, not {needed_s:g} s"))
    return found


def _may_serve(before: Snapshot, run: RunSeen) -> bool:
    """Whether it is the one on record, and runs, and nothing takes its pods away."""
    record = next((each for each in before.status.analyses if each.run == run.name), None)
    believed = record is not None and (record.uid, record.spec_hash) == (run.uid, run.spec_hash)
    open_still = record is not None and not record.phase.over and not record.passed
    runs = run.phase is AnalysisPhase.RUNNING and not (run.terminate or run.deleting)
    return believed and open_still and runs and math.isinf(run.kept_until_s)


def _may_send(before: Snapshot) -> str:
    """Why some request may still go to an Experiment; "" when none can."""
    if before.status.given_back:
        return "a route was given back"
    for route in before.routes.values():
        if isinstance(route, RouteAbsent) or (isinstance(route, RouteSeen) and _is_anothers(before, route)):
            continue
        if not isinstance(route, RouteSeen) or route.split is None:
            return f"{route.route} is not read"
        if route.split.experiments:
            return f"{route.route} says {route.split}"
    traffic = before.status.traffic
    if traffic is None:
        return "nothing is on record" if any(route.named for route in before.routes.values()) else ""
    if traffic.desired_experiments or traffic.observed_experiments:
        return f"{traffic} is on record"
    return "" if traffic.verified_by is not None else "nobody has looked at the data plane"


def _is_anothers(before: Snapshot, route: RouteSeen) -> bool:
    return route.managed_by not in ("", before.rollout.name)
