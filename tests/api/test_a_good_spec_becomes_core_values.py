"""Promise: a spec means what Argo Rollouts' documentation says it means, and its revision never changes by our doing."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from rollouts.api.spec.analysis.in_rollouts import use_in
from rollouts.api.spec.parse import own_annotations, parse_rollout, parse_spec
from rollouts.core.model.analysis import Analysis, OnDeadline, OnFailure
from rollouts.core.model.autoscaling import AutoscalingGate, ContainerLimit, ContainerMetric
from rollouts.core.model.drain import DrainMode, DrainSpec, EnvoyProbe, OnTimeout, PreStop, PrometheusProbe
from rollouts.core.model.pod_exit import ContainerExit, PodExit, read_pod_exit
from rollouts.core.model.rollout import (
    AntiAffinity,
    BlueGreen,
    Canary,
    IntOrPercent,
    Percent,
    PodMetadata,
    ProgressThreshold,
    TrafficRouting,
    written_analyses,
)
from rollouts.core.model.steps import (
    Analyze,
    MatchTrafficWeight,
    Pause,
    PauseUntilPromoted,
    RunExperiment,
    SetCanaryReplicas,
    SetCanaryScalePercent,
    SetWeight,
    TemplateWeight,
)
from tests.api.specs import ANALYSIS, BLUE_GREEN, CANARY, GONE, Spec, blue_green, canary, changed, step
from tests.hostile.work import lines_of


def parsed_canary(spec: Spec) -> Canary:
    strategy = parse_spec(spec).strategy
    assert isinstance(strategy, Canary)
    return strategy


def _blue_green(spec: Spec) -> BlueGreen:
    strategy = parse_spec(spec).strategy
    assert isinstance(strategy, BlueGreen)
    return strategy


def test_what_is_left_out_has_argos_defaults() -> None:
    """A manifest from Argo Rollouts must do the same here."""
    spec = parse_spec(changed(CANARY, replicas=GONE, strategy={"canary": {}}))

    assert (spec.replicas, spec.min_ready_s, spec.revision_history_limit) == (1, 0, 10)
    assert (spec.progress_deadline_s, spec.progress_deadline_abort, spec.paused) == (600.0, False, False)
    assert (spec.restart_at_s, spec.rollback_window_revisions) == (None, None)
    assert (spec.successful_runs_kept, spec.unsuccessful_runs_kept, spec.history_limit) == (5, 5, 10)
    assert spec.strategy == Canary()
    assert Canary().max_surge == Canary().max_unavailable == Percent(25)


def test_a_rollout_without_drain_is_drained() -> None:
    """No request is to be lost by who has read no page about draining."""
    spec = parse_spec(CANARY)

    assert spec.drain == DrainSpec(mode=DrainMode.AUTO, pre_stop=PreStop.INJECT, max_request_s=30.0, timeout_s=300.0)
    assert spec.drain.on_timeout is OnTimeout.CONTINUE
    assert parse_spec(changed(CANARY, drain={})).drain == spec.drain


def test_probes_of_a_drain_arrive() -> None:
    """Samples are as old as a scrape interval may make them, unless somebody says that they are younger."""
    query = 'sum(in_flight{pod=~"{{rollout}}-{{revision}}-.*"})'
    probes = [
        {"name": "gateway", "envoy": {}},
        {"name": "app", "prometheus": {"query": query}},
        {"name": "sockets", "prometheus": {"query": query, "scrapeIntervalSeconds": 5}, "maxSeconds": 900},
    ]

    assert parse_spec(changed(CANARY, drain={"probes": probes})).drain.probes == (
        EnvoyProbe(name="gateway"),
        PrometheusProbe(name="app", query=query, age_s=30.0),
        PrometheusProbe(name="sockets", query=query, max_s=900.0, age_s=5.0),
    )


def test_every_field_of_drain_arrives() -> None:
    """A field that is dropped between the wire and the core is a field that does nothing."""
    drain = {"mode": "Off", "preStop": "Validate", "maxRequestSeconds": 3, "timeoutSeconds": 9, "onTimeout": "Pause"}

    assert parse_spec(changed(CANARY, drain=drain)).drain == DrainSpec(
        mode=DrainMode.OFF, pre_stop=PreStop.VALIDATE, max_request_s=3.0, timeout_s=9.0, on_timeout=OnTimeout.PAUSE
    )


def test_every_field_of_autoscaling_arrives() -> None:
    """As above; a spec that asks for nothing has no gate."""
    limit = {"container": "app", "resource": "cpu", "maxUtilizationPercent": 90}
    wire = {"settled": True, "minHeadroomPercent": 20, "containerResource": limit}

    assert parse_spec(changed(CANARY, autoscaling=wire)).autoscaling == AutoscalingGate(
        settled=True,
        min_headroom_percent=20,
        container=ContainerLimit(container="app", resource=ContainerMetric.CPU, max_utilization_percent=90),
    )
    assert parse_spec(CANARY).autoscaling is None
    assert parse_spec(changed(CANARY, autoscaling={"settled": False})).autoscaling is None


@pytest.mark.parametrize(("grace_s", "longest_s"), [(5, 5.0), (30, 30.0), (3600, 30.0)])
def test_no_request_outlives_the_grace_period_unless_somebody_says_so(grace_s: int, longest_s: float) -> None:
    """A pod that is killed after 5 s serves no longer request today, so nobody need wait for one; an hour is no request."""
    spec = changed(CANARY, template__spec__terminationGracePeriodSeconds=grace_s)

    assert parse_spec(spec).drain.max_request_s == longest_s
    assert parse_spec(changed(spec, drain={"maxRequestSeconds": 60})).drain.max_request_s == 60.0


def test_how_the_pods_end_is_read_from_the_template() -> None:
    """What is injected and what is called unsafe follows from it; a container that is nonsense is the API server's to refuse."""
    containers = [
        {"name": "app"},
        {"name": "proxy", "lifecycle": {"preStop": {"sleep": {"seconds": 7}}}},
        {"name": "old", "lifecycle": {"preStop": {"exec": {"command": ["sleep", "9"]}}, "postStart": {}}},
        {"name": "none", "lifecycle": {"preStop": None}},
        {"name": "odd", "lifecycle": "nonsense"},
        "nonsense",
    ]

    assert read_pod_exit({"spec": {"containers": containers, "terminationGracePeriodSeconds": 45}}) == PodExit(
        grace_s=45,
        containers=(
            ContainerExit("app"),
            ContainerExit("proxy", has_pre_stop=True, sleep_s=7),
            ContainerExit("old", has_pre_stop=True),
            ContainerExit("none"),
            ContainerExit("odd", has_pre_stop=True),
            ContainerExit(""),
        ),
    )
    assert parse_spec(CANARY).ends == PodExit(grace_s=30, containers=(ContainerExit("app"),))


def test_blue_green_has_argos_defaults() -> None:
    """As above."""
    assert _blue_green(BLUE_GREEN) == BlueGreen(active_service="cart", preview_service="cart-preview")
    assert BlueGreen(active_service="a").auto_promotion_enabled
    assert BlueGreen(active_service="a").scale_down_delay_s == 30.0


def test_every_field_of_a_canary_arrives() -> None:
    """A field that is dropped between the wire and the core is a field that does nothing."""
    strategy = parsed_canary(
        canary(
            stableService="cart", canaryService="cart-canary", trafficRouting={}, maxSurge=2, maxUnavailable="10%",
            minPodsPerReplicaSet=2, canaryMetadata={"labels": {"role": "canary"}, "annotations": {"note": "x"}},
            stableMetadata={"labels": {"role": "stable"}},
            antiAffinity={"preferredDuringSchedulingIgnoredDuringExecution": {"weight": 7}},
            replicaProgressThreshold={"type": "Percent", "value": 90}, scaleDownDelaySeconds=5,
            scaleDownDelayRevisionLimit=2, abortScaleDownDelaySeconds=0,
            steps=[
                {"setWeight": 0}, {"setCanaryScale": {"replicas": 0}},
                {"setCanaryScale": {"weight": 30, "matchTrafficWeight": False}},
                {"setCanaryScale": {"matchTrafficWeight": True}}, {"pause": {"duration": 10}}, {"pause": {}},
                {"setWeight": 100},
            ],
        ),
    )  # fmt: skip

    assert strategy == Canary(
        stable_service="cart",
        canary_service="cart-canary",
        traffic_routing=TrafficRouting(min_pods_per_replica_set=2),
        max_surge=2,
        max_unavailable=Percent(10),
        canary_metadata=PodMetadata(labels={"role": "canary"}, annotations={"note": "x"}),
        stable_metadata=PodMetadata(labels={"role": "stable"}),
        anti_affinity=AntiAffinity(required=False, weight=7),
        replica_progress_threshold=ProgressThreshold(Percent(90)),
        scale_down_delay_s=5.0,
        scale_down_delay_revision_limit=2,
        abort_scale_down_delay_s=0.0,
        steps=(
            SetWeight(0),
            SetCanaryReplicas(0),
            SetCanaryScalePercent(30),
            MatchTrafficWeight(),
            Pause(10.0),
            PauseUntilPromoted(),
            SetWeight(100),
        ),
    )


def test_every_field_of_a_blue_green_arrives() -> None:
    """As above."""
    strategy = _blue_green(
        blue_green(
            previewReplicaCount=0, autoPromotionEnabled=False, autoPromotionSeconds=9, maxUnavailable=1,
            scaleDownDelaySeconds=0, scaleDownDelayRevisionLimit=10, abortScaleDownDelaySeconds=3,
            activeMetadata={"labels": {"role": "active"}}, previewMetadata={"labels": {"role": "preview"}},
            antiAffinity={"requiredDuringSchedulingIgnoredDuringExecution": {}},
        ),
    )  # fmt: skip

    assert strategy == BlueGreen(
        active_service="cart", preview_service="cart-preview", preview_replica_count=0, auto_promotion_enabled=False,
        auto_promotion_s=9.0, max_unavailable=1, scale_down_delay_s=0.0, scale_down_delay_revision_limit=10,
        abort_scale_down_delay_s=3.0, active_metadata=PodMetadata(labels={"role": "active"}),
        preview_metadata=PodMetadata(labels={"role": "preview"}), anti_affinity=AntiAffinity(required=True),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (0, 0.0), (30, 30.0), ("30", 30.0), ("10s", 10.0), ("5m", 300.0), ("1h", 3600.0), ("1h30m", 5400.0),
        ("1.5h", 5400.0), ("1m500ms", 60.5),
    ],
)  # fmt: skip
def test_a_duration_is_read_as_argo_reads_it(written: Any, seconds: float) -> None:
    """Seconds or Go's durations; a pause of 0 is accepted and over at once."""
    assert parsed_canary(step(pause={"duration": written})).steps == (Pause(seconds),)


@pytest.mark.parametrize(
    ("written", "amount"), [(3, 3), ("25%", Percent(25)), ("25", Percent(25)), ("150%", Percent(150))]
)
def test_a_limit_is_pods_or_percent(written: Any, amount: IntOrPercent) -> None:
    """A bare text such as "25" is a percentage to Argo, and a surge may be more than all pods."""
    assert parsed_canary(canary(maxSurge=written)).max_surge == amount


def test_a_threshold_below_0_is_none() -> None:
    """So Argo Rollouts means it."""
    assert (
        parsed_canary(canary(replicaProgressThreshold={"type": "Pods", "value": -1})).replica_progress_threshold is None
    )


def test_an_explicit_null_is_an_absent_field() -> None:
    """Templating tools write nulls; to Kubernetes they are absent."""
    spec = changed(canary(analysis=None, trafficRouting=None, maxSurge=None), drain=None, replicas=None)

    assert parse_spec(spec) == parse_spec(changed(CANARY, replicas=GONE))


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        ({"matchExpressions": [{"key": "x", "operator": "In", "values": ["b", "a"]}]}, "x in (a,b)"),
        ({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["c"]}]}, "x notin (c)"),
        ({"matchLabels": {"z": "1"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]}, "x,z=1"),
        ({"matchExpressions": [{"key": "old", "operator": "DoesNotExist"}], "matchLabels": {"a": ""}}, "a=,!old"),
    ],
)
def test_a_selector_is_written_as_kubectl_takes_it(selector: Any, text: str) -> None:
    """The scale subresource gives this text to the HorizontalPodAutoscaler, which parses it."""
    labels = {"a": "1", "b": "2", "x": "a", "z": "1"} if "a=," not in text else {"a": ""}
    spec = changed(CANARY, selector=selector, template__metadata__labels=labels)

    assert parse_spec(spec).selector_text == text


def test_the_template_is_kept_as_it_was_given() -> None:
    """Fields that this version has never heard of belong to the user; they go to the pods untouched."""
    container = {"name": "app", "image": "a", "resources": {"limits": {"cpu": 0.5}}, "future": {"x": [1, {}]}}
    template = {
        "metadata": {"labels": {"app": "cart"}, "annotations": {"note": "ünïcode ✓", "number": "1"}},
        "spec": {"containers": [container], "newInKubernetes2": True, "big": 9007199254740993},
    }

    assert json.loads(parse_spec(changed(CANARY, template=template)).template_json) == template


def test_a_revision_is_the_same_for_ever() -> None:
    """Scheme v1, pinned: another value here would roll every workload on an upgrade (argo-rollouts issue 4696)."""
    assert parse_spec(CANARY).revision == "9n826m4j8g"
    assert parse_spec(changed(CANARY, template__spec__hostNetwork=True)).revision == "ntmlqrpf59"
    assert parse_spec(CANARY).strategy_hash == "lf4qnrfkqg"
    assert parse_spec(BLUE_GREEN).strategy_hash == "m959xvzv7g"


def test_only_the_template_makes_a_revision() -> None:
    """Everything else in the spec may change without a new revision; order and nulls in the template do not matter."""
    template = json.loads(json.dumps(CANARY["template"]))
    spec, metadata = {**template["spec"], "nodeName": None}, dict(reversed(template["metadata"].items()))
    reordered = {"spec": spec, "metadata": metadata}
    others: tuple[Spec, ...] = (
        {"replicas": 9, "paused": True},
        {"template": reordered},
        {"drain": {}},
        {"drain": {"mode": "Off"}},
    )
    specs = (CANARY, BLUE_GREEN, *(changed(CANARY, **each) for each in others))

    assert len({parse_spec(each).revision for each in specs}) == 1


AGAIN = {
    "a minute written in other ways": [step(pause={"duration": written}) for written in (60, "60", "1m", "60s")],
    "arguments, and what follows from a failure": [
        step(analysis=ANALYSIS),
        step(analysis={**ANALYSIS, "args": [{"name": "a", "value": "b"}], "onFailure": "hold"}),
    ],
    "an analysis in the background": [CANARY, canary(analysis=ANALYSIS)],
    "an analysis before the promotion": [BLUE_GREEN, blue_green(prePromotionAnalysis=ANALYSIS)],
}


@pytest.mark.parametrize("specs", AGAIN.values(), ids=AGAIN)
def test_what_changes_no_step_restarts_no_update(specs: list[Spec]) -> None:
    """A changed strategy hash restarts the steps; a threshold that is mended during an update must not."""
    assert len({parse_spec(each).strategy_hash for each in specs}) == 1


def test_other_steps_restart_the_update() -> None:
    """A gate is no pause, and another template is another step."""
    cluster = {"templates": [{"templateName": "success-rate", "clusterScope": True}]}
    steps: tuple[Spec, ...] = (
        {"pause": {}},
        {"pause": {"duration": 60}},
        {"analysis": ANALYSIS},
        {"analysis": cluster},
    )

    assert len({parse_spec(step(**each)).strategy_hash for each in steps}) == len(steps)


def test_bytes_and_objects_are_read_alike() -> None:
    """The controller holds bytes, the CLI holds objects."""
    assert parse_spec(json.dumps(CANARY).encode()) == parse_spec(CANARY)


def test_a_rollout_carries_only_our_annotations() -> None:
    """Core sees the commands without their prefix, and nothing of other tools."""
    annotations = {"rollouts.dev/promote": "true", "kubectl.kubernetes.io/x": "y"}
    rollout = parse_rollout(
        namespace="shop",
        name="cart",
        uid="u",
        resource_version="7",
        generation=3,
        created_at_s=1767225600.0,
        annotations=annotations,
        spec=CANARY,
        deleting=True,
    )

    assert rollout.annotations == own_annotations(annotations) == {"promote": "true"}
    assert (rollout.namespace, rollout.generation, rollout.created_at_s) == ("shop", 3, 1767225600.0)
    assert rollout.deleting


def test_parsing_is_cheap() -> None:
    """8 KB of variables, which no rule reads: some thirty lines of Python for each, as they are looked at once."""
    variables = 110
    environment = [{"name": f"VARIABLE_{index}", "value": "x" * 40} for index in range(variables)]
    container = {"name": "a", "image": "b"}
    small, raw = (
        json.dumps(changed(CANARY, template__spec__containers=[each])).encode()
        for each in (container, {**container, "env": environment})
    )
    assert 7_500 < len(raw) < 9_000
    parse_spec(small)  # what is worked out once

    assert lines_of(lambda: parse_spec(raw)) - lines_of(lambda: parse_spec(small)) < 40 * variables


def test_ping_pong_names_the_two_services() -> None:
    """`pingService` begins as the stable one; who is stable later is in status (core/routing/ping_pong.py)."""
    pair = {"pingService": "ping", "pongService": "pong"}
    strategy = parsed_canary(canary(pingPong=pair, trafficRouting={"gatewayAPI": {"httpRoutes": [{"name": "cart"}]}}))

    assert (strategy.ping_pong, strategy.stable_service, strategy.canary_service) == (True, "ping", "pong")


def test_an_analysis_keeps_what_its_user_wrote() -> None:
    """The core does not understand the settings: what is dropped on the way to the builder of runs is never measured."""
    settings = {
        "templates": [{"templateName": "success-rate"}, {"templateName": "latency", "clusterScope": True}],
        "args": [
            {"name": "service", "value": "cart"},
            {"name": "revision", "valueFrom": {"podTemplateHashValue": "Latest"}},
            {"name": "region", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['region']"}}},
        ],
        "dryRun": [{"metricName": "cpu"}],
        "measurementRetention": [{"metricName": "cpu", "limit": 20}],
        "analysisRunMetadata": {"labels": {"team": "shop"}, "annotations": {"note": "x"}},
    }
    wanted = Analysis(
        path="spec.strategy.canary.steps[1].analysis",
        settings=settings,
        templates=("success-rate", "ClusterAnalysisTemplate/latency"),
        on_failure=OnFailure.HOLD,
    )

    steps = parsed_canary(canary(steps=[{"setWeight": 5}, {"analysis": {**settings, "onFailure": "hold"}}])).steps

    assert steps == (SetWeight(5), Analyze(wanted))
    use = use_in(wanted)
    assert (use.path, len(use.templates), len(use.args)) == (wanted.path, 2, 3)
    assert (len(use.dry_run), len(use.measurement_retention)) == (1, 1)


def test_an_experiment_is_a_step_by_the_templates_of_its_analyses() -> None:
    """What is made of it is known when the step begins; what decides its identity is what judges it, as of an analysis."""
    uses = [{"name": "a", "templateName": "rate"}, {"name": "b", "templateName": "all", "clusterScope": True}]
    written = {"templates": [{"name": "new", "specRef": "canary"}], "duration": "1h30m", "analyses": uses}

    (step,) = parsed_canary(
        canary(steps=[{"experiment": {**written, "onFailure": "hold", "deadlineSeconds": 600}}])
    ).steps

    assert isinstance(step, RunExperiment)
    analysis = step.analysis
    assert (analysis.on_failure, analysis.deadline_s) == (OnFailure.HOLD, 600.0)
    assert analysis.templates == ("ClusterAnalysisTemplate/all", "rate")
    assert analysis.settings == {**written, "duration": "5400s"}


def test_templates_of_an_experiment_have_exact_weights() -> None:
    """One of 0 gets no requests. Without weights the identity of the step is that of before, so no update begins again."""
    groups = [{"name": name, "specRef": "canary", "weight": weight} for name, weight in (("a", 0), ("b", 25), ("c", 5))]
    routing = {"gatewayAPI": {"httpRoutes": [{"name": "cart"}]}, "maxTrafficWeight": 1000}
    spec = canary(
        steps=[{"setWeight": 970}, {"experiment": {"templates": groups, "duration": "1h"}}],
        trafficRouting=routing,
        stableService="cart",
        canaryService="cart-canary",
    )
    bare = [{"name": "a", "specRef": "canary"}]
    without = parse_spec(canary(steps=[{"experiment": {"templates": bare, "duration": "1h"}}]))

    step = parsed_canary(spec).steps[1]

    assert isinstance(step, RunExperiment)
    assert step.weights == (TemplateWeight("b", Fraction(5, 2)), TemplateWeight("c", Fraction(1, 2)))
    assert without.strategy_hash == "c2xfjmtl9r"


def test_each_weight_that_rises_has_the_analysis_before_it() -> None:
    """Not one that falls or stays. The steps are the same with and without it, so no update is restarted."""
    steps = [{"setWeight": 20}, {"pause": {}}, {"setWeight": 10}, {"setWeight": 10}, {"setWeight": 60}]
    asked = parse_spec(canary(steps=steps, beforeSetWeight=ANALYSIS))
    assert isinstance(asked.strategy, Canary)

    before = [each.before and each.before.path for each in asked.strategy.steps if isinstance(each, SetWeight)]
    path = "spec.strategy.canary.beforeSetWeight"
    assert before == [path, None, None, path]
    assert asked.strategy_hash == parse_spec(canary(steps=steps)).strategy_hash
    assert [each.path for each in written_analyses(asked.strategy).values()] == [path]


def test_an_analysis_has_its_place_in_the_strategy() -> None:
    """Beside the steps, before the promotion of a preview and after it; how many runs are kept is a field of the spec."""
    background = parsed_canary(canary(analysis={**ANALYSIS, "startingStep": 1})).analysis
    strategy = _blue_green(blue_green(prePromotionAnalysis=ANALYSIS, postPromotionAnalysis={**ANALYSIS, "args": []}))
    limited = {**ANALYSIS, "deadlineSeconds": 3600, "onDeadline": "abort"}
    before = parsed_canary(canary(beforeUpdate=limited)).before_update
    limits = {"successfulRunHistoryLimit": 0, "unsuccessfulRunHistoryLimit": 7}
    spec = parse_spec(changed(CANARY, analysis=limits))

    assert background is not None
    assert (background.path, background.starting_step) == ("spec.strategy.canary.analysis", 1)
    assert background.on_failure is OnFailure.ABORT
    assert before is not None
    assert (before.path, before.deadline_s, before.on_deadline) == (
        *("spec.strategy.canary.beforeUpdate", 3600.0, OnDeadline.ABORT),
    )
    assert before.settings == ANALYSIS, "what is no matter of the run is not in its draft"
    assert (background.deadline_s, background.on_deadline) == (None, OnDeadline.HOLD)
    paths = [each and each.path for each in (strategy.pre_promotion, strategy.post_promotion)]
    assert paths == [f"spec.strategy.blueGreen.{each}PromotionAnalysis" for each in ("pre", "post")]
    assert (spec.successful_runs_kept, spec.unsuccessful_runs_kept) == (0, 7)


@pytest.mark.parametrize(("wire", "limit"), [({"limit": 3}, 3), ({"limit": 100}, 100), ({}, 10), (None, 10)])
def test_the_history_is_as_long_as_asked(wire: object, limit: int) -> None:
    """`spec.history` limits what status tells of finished updates; `revisionHistoryLimit` limits ReplicaSets."""
    assert parse_spec(changed(CANARY, history=wire)).history_limit == limit
