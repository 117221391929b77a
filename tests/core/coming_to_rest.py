"""How a world of the random worlds comes to rest once its environment is well again, and what must be true then."""

from __future__ import annotations

from fractions import Fraction

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary, named_services
from rollouts.core.model.status import Phase
from rollouts.core.model.traffic import Split
from tests.core.autoscalers import Load
from tests.core.config_worlds import config_healed, copies_restored
from tests.core.measured_runs import templates_there
from tests.core.model import World, annotated, made_by_users, route, service, snapshot
from tests.core.named_workloads import workload_healed
from tests.core.sources import meaning
from tests.core.worlds import edited, one, settled, sizes
from tests.invariants.analyses import is_forged
from tests.invariants.every import nothing_more_to_do


def healed(there: World) -> World:
    """The environment well again and nobody holding anything; the spec and an abort stay as they are."""
    strategy = there.rollout.spec.strategy
    honest = tuple(
        each for each in there.runs if not is_forged(each)
    )  # a person has deleted the others, as the wait says
    there = edited(
        replace(templates_there(there), runs=honest, bad=frozenset(), patient=False, refused=None, load=Load()),
        paused=False,
        strategy=strategy,
        progress_deadline_abort=False,
    )
    there = config_healed(there)
    if there.rollout.spec.workload_ref is not None:
        sight = replace(there.sight, forbidden=False)
        there = replace(there, workload=workload_healed(there.workload, there.version), sight=sight)
    services = {name: service(name, uid=f"healed-{name}") for name in named_services(strategy)}
    readable = {name: each for name, each in there.routes.items() if each.split is not None}
    routes = {name: route(name, uid=f"healed-{name.name}") for name in made_by_users(strategy)}
    there = replace(there, services={**services, **there.services}, routes={**routes, **readable})
    for verb in ("pause", "promote", "restart"):
        there = annotated(there, verb, None)
    return there


def at_rest(there: World) -> World:
    """The world once nothing moves any more, and each manual gate has been passed."""
    there = settled(there)
    waiting = there.status.waiting_for
    if waiting is not None and waiting.reason is Reason.CONFIG_COPY_MISSING:
        there = settled(copies_restored(there))
    assert_no_pods_at_0(there)
    if there.status.phase is Phase.PAUSED:
        there = settled(annotated(there, "promote", f"{there.status.current_revision}@full"))
    return there


def assert_healthy(there: World) -> None:
    """Every pod is the stable revision's, as many as asked for, and every Service shows them alone."""
    status, replicas, strategy = there.status, there.rollout.spec.replicas, there.rollout.spec.strategy
    assert status.stable_revision == status.current_revision
    assert sizes(there) == ({status.stable_revision: replicas} if replicas else {})
    assert one(there, status.stable_revision).available == replicas
    for each in there.services.values():
        if each.managed_by and replicas:
            assert (each.revision, set(each.ready_by_revision)) == (status.stable_revision, {status.stable_revision})
    share = Fraction(1 if isinstance(strategy, Canary) and strategy.ping_pong and status.pong_is_stable else 0)
    managed = [name for name, each in there.routes.items() if each.managed_by == there.rollout.name]
    assert [there.planes[name] for name in managed] == [Split(share)] * len(managed)


def assert_no_pods_at_0(there: World) -> None:
    """S29: 0 replicas are 0 pods of every revision, also at a gate and after an abort."""
    if there.rollout.spec.replicas == 0:
        assert (sizes(there), there.pods) == ({}, ())


def assert_configured(there: World) -> None:
    """Pods have what the sources contain, and no copy is left that nothing names."""
    spec, status = there.rollout.spec, there.status
    named = {use.copy for each in there.replica_sets for use in each.config or ()}
    if status.phase is not Phase.HEALTHY:  # the template names them, for when it is rolled out
        now = {name: each.content for (_, name), each in there.configs.objects.items()}
        named |= {each.name for each in there.configs.copies if each.content == now.get(each.source)}
    assert {each.name for each in there.configs.copies} <= named
    if not spec.config_refs or status.phase is not Phase.HEALTHY:
        return
    means = meaning(spec.template_hash, snapshot(there).sources)
    assert there.configs.meant.get(status.current_revision) == means
    current = one(there, status.current_revision)
    of_secrets = {name for uid, name in there.configs.secret_copies if uid == current.uid}
    unseen = there.configs.secret_copies_taken if current.ready == current.spec_replicas else frozenset()
    there_now = of_secrets | unseen | {each.name for each in there.configs.copies}
    assert {use.copy for use in current.config or () if use.has_copy} <= there_now


def assert_comes_to_rest(there: World) -> None:
    """L1 and S11: Healthy at the revision that is asked for, or aborted and saying why; and then left alone."""
    there = at_rest(healed(there))

    view = snapshot(there)
    assert nothing_more_to_do(view, decide(view)) == []
    assert_no_pods_at_0(there)
    assert_configured(there)
    match there.status.phase:
        case Phase.HEALTHY | Phase.ROLLED_BACK:
            assert_healthy(there)
        case Phase.ABORTED:
            assert there.status.abort is not None
            assert there.status.message
        case phase:
            pytest.fail(f"{phase}: {there.status.message}")
