"""Reads one Rollout with what belongs to it, once or for as long as it changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from rollouts.cli.view.experiments import ExperimentObjects
from rollouts.cli.view.follow import Collection, Followed, Kept, KeptObjects, following, list_all, named
from rollouts.cli.view.in_place import as_replica_sets, revisions_kind
from rollouts.cli.view.missing import no_rollout, the_rollout
from rollouts.cli.view.objects import RolloutObjects, belongs_to, controlled_by, is_run_about, query_of_its_pods
from rollouts.cli.view.session import Session
from rollouts.manifests.ownership import EXPERIMENT as EXPERIMENT_LABEL
from rollouts.manifests.ownership import NAME, name_label
from rollouts.objects import ANALYSIS_RUN, EVENT, EXPERIMENT, POD, REPLICA_SET, ROLLOUT, Key

_JUDGES = (ANALYSIS_RUN, EXPERIMENT)


async def collections_of(session: Session, key: Key) -> tuple[Collection, ...]:
    """The collections that the tree of one Rollout needs. Raises: ApiNotFound; what `Client` raises."""
    mine = {"labelSelector": f"{NAME}={name_label(key.name)}"}
    rollout = await the_rollout(session, key.name, namespace=key.namespace)
    pods = query_of_its_pods(rollout)
    about = {"fieldSelector": f"regarding.kind={ROLLOUT.kind},regarding.name={key.name}"}
    return (
        named(ROLLOUT, key.namespace, key.name),
        Collection(kind=revisions_kind(rollout), namespace=key.namespace, query=pods),
        Collection(kind=POD, namespace=key.namespace, query=pods, optional=True),
        Collection(kind=EVENT, namespace=key.namespace, query=about, optional=True),
        *(Collection(kind=kind, namespace=key.namespace, query=mine, optional=True) for kind in _JUDGES),
    )


def seen_in(followed: Followed, key: Key) -> RolloutObjects | None:
    """The Rollout with its ReplicaSets, pods, Events, AnalysisRuns and Experiments; None when it does not exist."""
    rollout = next((thing for thing in followed.all(ROLLOUT) if thing["metadata"]["name"] == key.name), None)
    if rollout is None:
        return None
    kept = tuple(thing for thing in followed.all(revisions_kind(rollout)) if controlled_by(thing, rollout))
    owned = {thing["metadata"]["uid"] for thing in kept}
    pods = tuple(
        pod
        for pod in followed.all(POD)
        if controlled_by(pod, rollout)
        or any(owner.get("uid") in owned for owner in pod["metadata"].get("ownerReferences") or ())
    )
    replica_sets = as_replica_sets(kept, pods)
    events = tuple(event for event in followed.all(EVENT) if belongs_to(event, rollout))
    runs = tuple(run for kind in _JUDGES for run in followed.all(kind) if is_run_about(run, rollout))
    return RolloutObjects(rollout=rollout, replica_sets=replica_sets, pods=pods, events=events, runs=runs)


async def collections_of_experiment(session: Session, key: Key) -> tuple[Collection, ...]:
    """The collections that the page of one Experiment needs. Raises: ApiNotFound; what `Client` raises."""
    await session.client.get(EXPERIMENT, key.namespace, key.name)  # where there is none, nothing is watched
    mine = {"labelSelector": f"{EXPERIMENT_LABEL}={name_label(key.name)}"}
    about = {"fieldSelector": f"regarding.kind={EXPERIMENT.kind},regarding.name={key.name}"}
    made = [
        Collection(kind=kind, namespace=key.namespace, query=mine, optional=True)
        for kind in (REPLICA_SET, POD, ANALYSIS_RUN)
    ]
    events = Collection(kind=EVENT, namespace=key.namespace, query=about, optional=True)
    return (named(EXPERIMENT, key.namespace, key.name), *made, events)


def experiment_in(followed: Followed, key: Key) -> ExperimentObjects | None:
    """The Experiment with its ReplicaSets, pods, Events and AnalysisRuns; None when it does not exist."""
    experiment = next((thing for thing in followed.all(EXPERIMENT) if thing["metadata"]["name"] == key.name), None)
    if experiment is None:
        return None
    sets, runs = (
        tuple(thing for thing in followed.all(kind) if controlled_by(thing, experiment))
        for kind in (REPLICA_SET, ANALYSIS_RUN)
    )
    return ExperimentObjects(
        experiment=experiment,
        replica_sets=sets,
        pods=tuple(pod for pod in followed.all(POD) if any(controlled_by(pod, each) for each in sets)),
        events=tuple(event for event in followed.all(EVENT) if belongs_to(event, experiment, EXPERIMENT)),
        runs=runs,
    )


async def read(session: Session, key: Key) -> RolloutObjects:
    """Reads a Rollout with its ReplicaSets, pods, Events and AnalysisRuns once.

    Raises: ApiNotFound; what `Client` raises.
    """
    async with following(session, *await collections_of(session, key)) as followed:
        seen = seen_in(followed, key)
    if seen is None:
        raise await no_rollout(session, key.name)
    return seen


async def changes(followed: KeptObjects[Kept], *, at_least_every_s: float) -> AsyncIterator[None]:
    """Yields at once, then on every change, and when `at_least_every_s` have passed without one."""
    while True:
        followed.changed.clear()
        yield
        try:
            async with asyncio.timeout(at_least_every_s):
                await followed.changed.wait()
        except TimeoutError:
            continue


async def look(session: Session, name: str) -> RolloutObjects:
    """The Rollout and its revisions.

    Raises: ApiNotFound; what `Client` raises.
    """
    rollout = await the_rollout(session, name)
    kept = Collection(kind=revisions_kind(rollout), namespace=session.namespace, query=query_of_its_pods(rollout))
    found, _ = await list_all(session, kept)
    own = tuple(thing for thing in found if controlled_by(thing, rollout))
    return RolloutObjects(rollout=rollout, replica_sets=as_replica_sets(own, ()))
