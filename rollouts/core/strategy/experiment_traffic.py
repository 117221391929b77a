"""Requests for the pods of a step's Experiment: which shares they get now, and when the pods that had some may go.

No request may be lost at either end. The shares come once all pods of the Experiment are ready behind their Services, and once
status says so (`routes.py`): a controller that starts again knows of them whatever was written. They go as soon as the Experiment
is over or nobody waits for it, or a Service of it shows no ready pod.

The pods are another matter. An Experiment with shares is made so that it keeps its pods after its end (`LetPodsGo`). They are let
go when no route can send them anything: it is over for good, no route says a share, status has none, and the data plane was found
to do what status says. From then on they stay for the drain, as pods do that lose their traffic
(`core/context/drain_numbers.py`), and one that is let go never gets a share again.
"""

from __future__ import annotations

import math
from fractions import Fraction

from rollouts.core.context.pass_context import PassContext
from rollouts.core.lifecycle.analyses import believed_run
from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, AnalysisPhase, RunSeen
from rollouts.core.model.intents import LetPodsGo
from rollouts.core.model.status import analysis_of
from rollouts.core.model.steps import RunExperiment
from rollouts.core.model.traffic import ExperimentShare, RouteSeen, RouteUnasked
from rollouts.core.strategy.guards import guarding
from rollouts.core.strategy.route_release import LATEST_S


def experiment_shares(ctx: PassContext, step: RunExperiment) -> tuple[ExperimentShare, ...]:
    """The shares of the current step's Experiment, of each template whose Service has ready pods.

    While a person pauses the Rollout, none comes that the routes do not have.
    """
    gate = AnalysisGate(AnalysisKind.EXPERIMENT, ctx.status.step_index)
    record = analysis_of(ctx.recorded, gate)
    run = believed_run(ctx, record)
    if record is None or record.settled or run is None or not ctx.durable or gate not in guarding(ctx):
        return ()
    if run.phase is not AnalysisPhase.RUNNING or run.terminate or not _keeps_pods(run):
        return ()
    services = {each.template: each.service for each in run.services if each.ready > 0}
    known = [each.service for each in ctx.recorded.experiments_on_record]
    return tuple(
        [
            ExperimentShare(service, Fraction(each.weight_percent) / 100)
            for each in step.weights
            if (service := services.get(each.template)) is not None and (service in known or not ctx.paused)
        ]
    )


def let_go(ctx: PassContext) -> tuple[LetPodsGo, ...]:
    """Tells the Experiments that get no requests any more, and will get none, how long their pods still have to stay."""
    kept = [run for run in ctx.seen.runs if _keeps_pods(run) and (run.phase.over or run.terminate) and not run.deleting]
    if not kept or _may_get_requests(ctx):
        return ()
    # Without a router nobody can say when the proxies of a route that was given back have followed.
    until_s = ctx.now_s + ctx.drain_numbers.drain_s + (0.0 if ctx.routed else LATEST_S)
    return tuple([LetPodsGo(name=run.name, uid=run.uid, until_s=until_s) for run in kept])


def _keeps_pods(run: RunSeen) -> bool:
    return math.isinf(run.kept_until_s)


def _may_get_requests(ctx: PassContext) -> bool:
    """Whether some request may still go to the Service of an Experiment."""
    if ctx.status.given_back or ctx.recorded.given_back:
        return True
    traffics = (ctx.recorded.traffic, ctx.status.traffic)
    if any(traffic is not None and traffic.reaches_experiment for traffic in traffics):
        return True
    if ctx.routed and any(traffic is None or traffic.verified_by is None for traffic in traffics):
        return True
    routes, ours = ctx.seen.routes.values(), ("", ctx.seen.rollout.name)
    said = [route.split for route in routes if isinstance(route, RouteSeen) and route.managed_by in ours]
    unread = [route for route in routes if isinstance(route, RouteUnasked)]
    return bool(unread) or any(split is None or split.experiments for split in said)
