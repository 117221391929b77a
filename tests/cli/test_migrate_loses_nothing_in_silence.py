"""Promise: each value of what goes into `rollouts migrate` is in what comes out, or a line says what became of it.

What it ends with 0 for is whole: `lint` has nothing against it. Whether a cluster takes it, and what it does there, is told in
`test_what_migrates_is_taken_by_a_cluster.py` and in `tests/behaviour/test_what_migrates_plays_to_its_end.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from rollouts.api.spec.analysis.run import parse_template
from rollouts.cli.migrate.completeness import WITHOUT_MEANING, lost
from rollouts.cli.migrate.metadata import OF_TOOLS
from rollouts.cli.migrate.migrated import converted, migrated
from rollouts.cli.migrate.outcome import Migration, Move, Told, below, steps_in, value_at
from rollouts.controller.providers.declarations import server_of
from rollouts.objects import Kind, Manifest
from tests.api.argo_provider_examples import ALL
from tests.cli.command_line import CommandLine
from tests.cli.migration_inputs import (
    ALERT_PROVIDER,
    ANALYSES,
    ARGO,
    ARGO_TEMPLATE,
    CANARIES,
    DEPLOYMENTS,
    GATEWAY,
    INPUTS,
    TEMPLATE,
    Input,
    argo_canary,
    argo_rollout,
    canary,
    deployment,
    hpa,
    of,
    service,
)


def notes(outcome: Migration, *told: Told) -> list[str]:
    return [str(each) for each in outcome.notes if not told or each.told in told]


def left(outcome: Migration) -> list[str]:
    """What a person has to do, or to do without."""
    return notes(outcome, Told.TO_DO, Told.LEFT_OUT)


def of_kind(outcome: Migration, kind: str) -> list[Manifest]:
    return [each for each in outcome.objects if each["kind"] == kind]


def of_canary(name: str) -> Migration:
    return converted(CANARIES[name][0])


EXAMPLES = tuple(Input(f"Argo example {each.where}", (of(Kind(*ARGO, each.kind, ""), spec=each.spec),)) for each in ALL)
"""The manifests of Argo Rollouts' own pages."""


def test_there_are_as_many_inputs_as_promised() -> None:
    """Of each of the three many that leave nothing to do; all have names of their own."""
    assert len({each.name for each in INPUTS}) == len(INPUTS) >= 200
    for kind in ("Deployment", "Canary", "Argo Rollout"):
        assert sum(each.complete for each in INPUTS if each.name.startswith(kind)) >= 20


@pytest.mark.parametrize("given", INPUTS, ids=lambda each: each.name)
def test_what_is_not_whole_says_so(given: Input) -> None:
    """A line for each thing that is left, or none at all: what can be taken over is taken over, and what cannot is told."""
    outcome = converted(given.objects)
    assert list(lost(outcome)) == []
    if outcome.complete:
        outcome = migrated(given.objects)
    assert outcome.complete is given.complete, left(outcome)


def parts(value: Any, path: str = "") -> Iterator[str]:
    """The paths of all that is below a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in items:
        yield (at := below(path, step))
        yield from parts(item, at)


def leaves(manifest: Manifest) -> Iterator[str]:
    """The paths of what is no object and no list."""
    return (path for path in parts(manifest) if not isinstance(value_at(manifest, steps_in(path)), dict | list))


def with_at(manifest: Manifest, path: str, value: Any) -> Manifest:
    """The object with this value at a path."""
    changed = deepcopy(manifest)
    *parents, last = steps_in(path)
    holder: Any = value_at(changed, parents)
    holder[last] = value
    return changed


def changed_at(manifest: Manifest, path: str) -> Manifest:
    """The object with another value of the same type at a path."""
    match value_at(manifest, steps_in(path)):
        case bool() as value:
            return with_at(manifest, path, not value)
        case int() as value:
            return with_at(manifest, path, value + 1)
        case value:
            return with_at(manifest, path, f"{value}x")


def means_nothing(manifest: Manifest, path: str) -> bool:
    """Whether the value is declared to mean nothing here, or only to the tool before."""
    kind = str(manifest["kind"])
    of_tools = [f'metadata.annotations["{tool}' for tool in OF_TOOLS]
    return path.startswith((*of_tools, *WITHOUT_MEANING[""], *WITHOUT_MEANING.get(kind, ())))


def is_told(outcome: Migration, place: int, path: str) -> bool:
    """Whether a note is about this value: its own, or that of what it is a part of."""
    gone = not any(place in made.sources for made in outcome.made)
    own = [note for note in outcome.notes if note.source == place]
    paths = [note.path for note in own if note.path or gone or note.told is Told.LEFT_OUT]
    return any(not each or path == each or path.startswith((f"{each}.", f"{each}[")) for each in paths)


def test_every_value_that_no_line_is_about_decides_something() -> None:
    """Held to by changing each value once in each kind of surroundings: the outcome is another, or a note was about the value.

    The check in the product could be wrong: this one knows nothing of it but its notes and the list of what has no meaning.
    """
    tried: set[tuple[str, ...]] = set()
    silent: list[str] = []
    for given in (*INPUTS, *EXAMPLES):
        outcome = converted(given.objects)
        before = (outcome.objects, notes(outcome))
        for place, manifest in enumerate(given.objects):
            family = given.name.split(" by ")[0].split(" with ")[0]
            for path in leaves(manifest):
                if (
                    (family, manifest["kind"], path) in tried
                    or means_nothing(manifest, path)
                    or is_told(outcome, place, path)
                ):
                    continue
                tried.add((family, manifest["kind"], path))
                objects = [changed_at(each, path) if at == place else each for at, each in enumerate(given.objects)]
                after = converted(objects)
                if (after.objects, notes(after)) == before:
                    silent.append(f"{given.name}: {manifest['kind']} {path}")

    assert len(tried) > 1000
    assert silent == []


@pytest.mark.parametrize("strange", [7, [1, None], {"a": []}], ids=str)
def test_no_value_stops_it(strange: Any) -> None:
    """A file may hold anything anywhere: each part of each kind of object once."""
    tried: set[tuple[str, str]] = set()
    for given in INPUTS:
        for place, manifest in enumerate(given.objects):
            for path in parts(manifest):
                if (manifest["kind"], path) not in tried and path not in ("apiVersion", "kind"):
                    tried.add((manifest["kind"], path))
                    changed = with_at(manifest, path, strange)
                    converted(changed if at == place else each for at, each in enumerate(given.objects))

    assert len(tried) > 500


def test_the_check_sees_what_is_planted() -> None:
    """A value that is dropped, moved to a place where it is not, or only alike is lost, by its path or that of the whole."""
    source = of(ALERT_PROVIDER, spec={"a": 1, "b": {"c": "x", "d": True}, "e": [{"f": "10"}, {"f": "g"}]})
    kept = {**source, "spec": {"a": 1, "e": [{"f": "10"}]}}
    migration = Migration((source,))
    migration.add(kept, source)

    assert [path for _, path in lost(migration)] == ["spec.b", "spec.e[1]"]
    migration.moves.append(Move(0, "spec.b", {"to": {"here": "x", "count": 1}}, "to"))
    assert [path for _, path in lost(migration)] == ["spec.b.d", "spec.e[1]"]
    migration.note(Told.CHANGED, source, "spec.e[1]", "is elsewhere")
    migration.note(Told.CHANGED, source, "", "is one thing")
    assert [path for _, path in lost(migration)] == ["spec.b.d"]
    migration.note(Told.LEFT_OUT, source, "", "is gone")
    assert list(lost(migration)) == []
    assert [path for _, path in lost(Migration((source,)))] == [""]


def test_two_of_one_name_in_two_namespaces_are_two() -> None:
    """They were found by name alone: one came out twice, the other not at all."""
    outcome = converted(DEPLOYMENTS["in two namespaces"][0])

    assert [each["metadata"]["namespace"] for each in of_kind(outcome, "Rollout")] == ["default", "other"]


def test_two_canaries_share_a_template_and_are_judged_by_their_own_service() -> None:
    """Also from another namespace, as Flagger's users keep their MetricTemplates, with the values of each Canary."""
    first, second = of_kind(of_canary("that shares a template with another"), "AnalysisTemplate")

    queries = [each["spec"]["metrics"][0]["provider"]["prometheus"]["query"] for each in (first, second)]
    assert queries == [
        f'sum(rate(requests_total{{service="{name}-canary",code="500"}}[2m]))' for name in ("web", "blog")
    ]
    assert [each["metadata"] for each in (first, second)] == [
        {"name": name, "namespace": "default"} for name in ("web", "blog")
    ]


def test_a_service_that_exists_stays_as_it_is() -> None:
    """A load balancer on two ports was written over with an inner Service on one; the canary's has the same ports."""
    objects = CANARIES["beside a Service of its name"][0]

    own, beside = sorted(of_kind(converted(objects), "Service"), key=lambda each: str(each["metadata"]["name"]))

    assert own is objects[2]
    assert beside["metadata"]["name"] == "web-canary"
    assert beside["spec"]["ports"] == own["spec"]["ports"]
    assert "type" not in beside["spec"]


def analysis_of(*objects: Manifest) -> tuple[Manifest, list[Manifest]]:
    """The strategy, and the metrics of the template that came out."""
    outcome = converted(objects)
    (rollout,) = of_kind(outcome, "Rollout")
    templates = of_kind(outcome, "AnalysisTemplate")
    return rollout["spec"]["strategy"], [metric for each in templates for metric in each["spec"]["metrics"]]


@pytest.mark.parametrize(("threshold", "borne"), [(None, 0), (0, 0), (1, 0), (2, 1), (5, 4)])
def test_as_many_checks_fail_as_with_flagger(threshold: int | None, borne: int) -> None:
    """Flagger rolls back at the threshold, one at least; `failureLimit` is how many are borne."""
    analysis = {**CANARIES["that shares a template with another"][0][0]["spec"]["analysis"], "threshold": threshold}

    _, (metric,) = analysis_of(canary(analysis=analysis), deployment(), TEMPLATE)

    assert metric["failureLimit"] == borne


@pytest.mark.parametrize(
    ("given", "weights"),
    [
        ({"stepWeight": 20, "maxWeight": 60}, [20, 40, 60]),
        ({"stepWeight": 30, "maxWeight": 50}, [30, 60]),
        ({"stepWeight": 60}, [60, 100]),
        ({"stepWeights": [1, 10, 80], "maxWeight": 50}, [1, 10, 80]),
        ({"stepWeight": 40, "stepWeights": [10, 60]}, [40, 80]),
    ],
)
def test_weights_are_those_that_flagger_sets(given: Manifest, weights: list[int]) -> None:
    """It goes on while a weight is below the last one, which is that of a list if there is one."""
    strategy, _ = analysis_of(canary(analysis={"interval": "30s", **given}), deployment())

    steps = strategy["canary"]["steps"]
    assert [each["setWeight"] for each in steps[::2]] == weights
    assert steps[1::2] == [{"pause": {"duration": "30s"}}] * len(weights)


def test_a_blue_green_behind_a_router_ends_with_all_requests_on_the_new_revision_for_a_round() -> None:
    """After its rounds Flagger sends everything to the canary, and looks once more; with copies it ends them first."""
    for name, copies in (("with iterations and copies", True), ("by iterations", False)):
        analysis = {"interval": "30s", "iterations": 3, **({"mirror": True} if copies else {})}
        strategy, _ = analysis_of(canary(analysis=analysis), deployment())

        *before, shift, look = strategy["canary"]["steps"]
        assert (shift, look) == ({"setWeight": 100}, {"pause": {"duration": "30s"}}), name
        assert [each["setMirrorRoute"].get("percentage") for each in before if "setMirrorRoute" in each] == (
            [100, None] if copies else []
        )
        assert {"pause": {"duration": "90s"}} in before


def test_without_iterations_a_blue_green_has_ten_rounds() -> None:
    """Which is Flagger's default for the provider kubernetes."""
    strategy, _ = analysis_of(canary("kubernetes", {"interval": "30s"}), deployment())

    assert strategy["blueGreen"]["autoPromotionSeconds"] == 300


def test_a_blue_green_by_iterations_is_measured_that_often() -> None:
    """Without a count an analysis before the switch would never end."""
    strategy, (metric,) = analysis_of(canary("kubernetes", ANALYSES["by iterations"]), deployment(), TEMPLATE)

    assert strategy["blueGreen"]["prePromotionAnalysis"]["templates"] == [{"templateName": "web"}]
    assert (metric["count"], metric["interval"], metric["initialDelay"]) == (4, "30s", "30s")


@pytest.mark.parametrize(
    ("class_name", "product"), [("istio", "istio"), ("eg", "envoy-gateway"), ("my-contour", "contour")]
)
def test_a_gateways_class_decides_which_counters_are_read(class_name: str, product: str) -> None:
    """Envoy Gateway's need the name of the route, and a filter that sets the canary's backend apart."""
    gateway = of(GATEWAY, "public", spec={"gatewayClassName": class_name, "listeners": []})
    analysis = ANALYSES["by weights and its own metrics"]

    outcome = converted([canary("gatewayapi:v1", analysis), deployment(), gateway])

    strategy = of_kind(outcome, "Rollout")[0]["spec"]["strategy"]["canary"]
    args = {each["name"]: each["value"] for each in strategy["analysis"]["args"]}
    assert strategy["analysis"]["templates"][0]["templateName"] == f"rollouts-success-rate-{product}"
    assert (args["interval"], args["count"], args["window"], args["failure-limit"]) == ("30s", "0", "1m", "2")
    assert args.get("route") == ("web" if product == "envoy-gateway" else None)
    backend = of_kind(outcome, "HTTPRoute")[0]["spec"]["rules"][0]["backendRefs"][1]
    assert ("filters" in backend) is (product == "envoy-gateway")


def test_autoscalers_of_every_kind_follow_the_workload() -> None:
    """KEDA names no kind where it means a Deployment; Flagger's way to hold it goes."""
    (scaled,) = of_kind(of_canary("with KEDA"), "ScaledObject")

    assert scaled["spec"]["scaleTargetRef"] == {"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "name": "web"}
    assert "annotations" not in scaled["metadata"]


def test_two_matches_are_two_routes() -> None:
    """Any of them is enough for Flagger; the conditions of one route have to hold together."""
    (rollout,) = of_kind(of_canary("with two matches"), "Rollout")

    strategy = rollout["spec"]["strategy"]["canary"]
    routes = [each["setHeaderRoute"] for each in strategy["steps"] if "setHeaderRoute" in each]
    assert [each["name"] for each in strategy["trafficRouting"]["managedRoutes"]] == [each["name"] for each in routes]
    assert [[each["headerName"] for each in route["match"]] for route in routes] == [["x-beta"], ["cookie"]]


def test_pods_get_a_label_that_the_workload_before_has_not() -> None:
    """docs/migrating.md asks for it; a label of the users' keeps its value."""
    for objects, key in ((DEPLOYMENTS["that is paused"][0], "managed"),
                         (DEPLOYMENTS["with the label that tells pods apart"][0], "workload")):  # fmt: skip
        (rollout,) = of_kind(converted(objects), "Rollout")

        assert rollout["spec"]["selector"]["matchLabels"] == {"app": "web", key: "rollout"}
        assert rollout["spec"]["template"]["metadata"]["labels"][key] == "rollout"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("with events", "left out: Canary web spec.analysis.webhooks[0]: event: no Event is posted: let an exporter"),
        ("with a hook post-rollout", "left out: Canary web spec.analysis.webhooks[0]: post-rollout: nothing is asked after an"),
        ("with a hook confirm-rolout", "left out: Canary web spec.analysis.webhooks[0]: confirm-rolout: Flagger has no such"),
        ("with queries for the primary", "left out: Canary web spec.autoscalerRef.primaryScalerQueries: has no equal"),
        ("with an HPA that is elsewhere", "to do: Canary web spec.autoscalerRef.name: HorizontalPodAutoscaler web is not"),
        ("with retries that the Gateway API lacks", "left out: Canary web spec.service.retries: has no equal here"),
        ("with labels of the primary", "left out: Canary web spec.service.primary: has no equal here"),
        ("as Flagger left the Deployment", "to do: Deployment web spec.replicas: Flagger scales it to 0"),
        ("that asks about pods by name", "to do: MetricTemplate errors spec.query: it was about the canary's Deployment"),
        ("beside a budget of the primary", "to do: PodDisruptionBudget web spec.selector.matchLabels.app: web-primary goes"),
        ("with keptn", "left out: MetricTemplate errors spec.provider: keptn"),
        ("whose template is elsewhere", "left out: Canary web spec.analysis.metrics[0]: MetricTemplate errors of namespace"),
        ("of another namespace", "left out: Canary web: Deployment web: give its file too"),
    ],
)  # fmt: skip
def test_what_has_no_equal_is_a_line_with_its_path(name: str, line: str) -> None:
    """So it can be found, and decided."""
    assert any(each.startswith(line) for each in left(of_canary(name))), left(of_canary(name))


def test_what_a_controller_made_of_an_object_is_made_again() -> None:
    """A whole namespace as the server shows it: the primary is no workload of its own, and the Services come without an owner."""
    outcome = of_canary("with all that Flagger made of it")

    (rollout,) = of_kind(outcome, "Rollout")
    assert rollout["metadata"]["name"] == "web"
    assert [each["metadata"] for each in of_kind(outcome, "Service")] == [
        {"name": name, "namespace": "default"} for name in ("web", "web-canary")
    ]
    assert "changed: Deployment web-primary: Canary web made it" in " ".join(notes(outcome, Told.CHANGED))


def test_a_kind_that_nothing_uses_is_a_line() -> None:
    """A template that no Canary of the files names."""
    assert left(converted([TEMPLATE, deployment()])) == [
        "left out: MetricTemplate errors: nothing was made of it: no object in the files uses it"
    ]


def test_each_line_names_its_place_in_its_file(typed: CommandLine) -> None:
    """What `lint` finds in the outcome has the line there, and the exit code is 1 as for everything that is left."""
    steps = [{"experiment": {"duration": "1m", "templates": [{"name": "a", "specRef": "stable", "weight": 5}]}}]
    rollout = yaml.safe_dump(argo_rollout(argo_canary("no router", steps)), sort_keys=False)
    owned = yaml.safe_dump({**service(), "metadata": {"name": "x", "finalizers": ["a.b/c"]}}, sort_keys=False)
    scaler = yaml.safe_dump(hpa(), sort_keys=False)

    said = typed(
        "migrate", "-f", typed.file(rollout, name="a.yaml"), "-f", typed.file(owned, scaler, name="b.yaml"), code=1
    )

    lines = said.out.splitlines()
    at = next(number for number, text in enumerate(lines, 1) if "weight:" in text)
    assert f"stdout:{at}: to do: Rollout web: spec.strategy.canary.steps[0].experiment.templates[0].weight" in said.err
    assert said.err.endswith("1 thing to do or left out\n")
    assert list(yaml.safe_load_all(said.out))[1:] == [*yaml.safe_load_all(f"{owned}---\n{scaler}")]


@pytest.mark.parametrize(
    ("address", "default", "server"),
    [
        ("http://prometheus.example:9090/prefix", "", "http://prometheus.example:9090"),
        ("http://prometheus.example:{{args.port}}", "9090", "http://prometheus.example:9090"),
        ("http://prometheus.example/{{args.port}}/q", "", "http://prometheus.example"),
        ("http://prometheus.example:{{args.port}}", "", None),
        ("{{args.port}}", "", None),
        ("ftp://prometheus.example", "", None),
    ],
)
def test_a_server_that_a_metric_names_is_declared(address: str, default: str, server: str | None) -> None:
    """The controller asks no other; which one an argument without a default names is not known."""
    argument = {"name": "port", **({"value": default} if default else {})}
    metric = {"name": "m", "provider": {"prometheus": {"query": "up", "address": address}}}

    outcome = converted([of(ARGO_TEMPLATE, "m", spec={"args": [argument], "metrics": [metric]})])

    assert [each["spec"] for each in of_kind(outcome, "MetricProvider")] == ([{"url": server}] if server else [])
    assert outcome.complete is bool(server)


def test_a_document_that_is_no_object_is_a_line(typed: CommandLine) -> None:
    """It cannot come out."""
    said = typed("migrate", "-f", typed.file(deployment(), "- a\n"), code=1)

    assert "left out: a document that is no object" in said.err
    assert said.err.endswith("1 thing to do or left out\n")


def test_what_nothing_is_done_about_comes_out_as_it_is(typed: CommandLine) -> None:
    """So that the outcome stands in the place of the files."""
    objects = (*DEPLOYMENTS["beside a StatefulSet"][0], service())

    said = typed("migrate", "-f", typed.file(*objects))

    rollout, *rest = yaml.safe_load_all(said.out)
    assert rollout["kind"] == "Rollout"
    assert rest == list(objects[1:])


@pytest.mark.parametrize(
    ("name", "kind", "condition"),
    [("with datadog", "datadog", "result <= 5"), ("with graphite", "graphite", "all(result, # <= 5)")],
)
def test_a_template_that_asks_a_service_asks_it_here(name: str, kind: str, condition: str) -> None:
    """With a MetricProvider of its own, whose credentials are keys of the Secret that Flagger read."""
    outcome = of_canary(name)
    (template,) = (each for each in outcome.objects if each["kind"] == "AnalysisTemplate")
    (provider,) = (each for each in outcome.objects if each["kind"] == "MetricProvider")
    (metric,) = template["spec"]["metrics"]

    assert metric["successCondition"] == condition
    assert metric["provider"][kind]["metricProvider"] == provider["metadata"]["name"]
    assert provider["spec"]["type"] == kind
    assert parse_template(template["spec"])
    assert server_of("it", provider["spec"], folder=Path("/nowhere"), taken=False).kind == kind
