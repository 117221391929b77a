"""Promise: `rollouts lint` refuses what the controller cannot carry out, in a spec and in the Services and routes of its files.

And it says which workloads of the files find each other's pods, and before an autoscaler and a file take turns in setting their
number.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from rollouts.cli.commands.lint import lint_files
from rollouts.cli.commands.lint_output import LintReport
from rollouts.core.advice.findings import Rule, Severity
from rollouts.objects import SERVICE, Kind, Manifest
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from tests import build
from tests.cli.command_line import CommandLine
from tests.linted import lint_text


def rollout(*steps: Any, namespace: str = "shop", **routing: Any) -> Manifest:
    """A canary between the Services cart and cart-canary."""
    strategy = build.canary(*steps, stableService="cart", canaryService="cart-canary")
    strategy["canary"] |= {"trafficRouting": routing} if routing else {}
    template = build.pod_template(
        "cart",
        image="cart:1",
        container={"ports": [{"name": "http", "containerPort": 8080}]},
        metadata={"labels": {"app": "cart", "tier": "web"}},
        initContainers=[{"name": "proxy", "image": "p", "ports": [{"name": "mesh", "containerPort": 1}]}],
    )
    return build.rollout(strategy, "cart", namespace, template=template)


def service(name: str = "cart", *, namespace: str = "shop", **spec: Any) -> Manifest:
    """A Service of the pods above."""
    whole = {"selector": {"app": "cart"}, "ports": [{"port": 80, "targetPort": "http"}], **spec}
    return build.manifest(SERVICE, name, namespace, spec={key: each for key, each in whole.items() if each is not None})


def lint(*documents: Manifest) -> LintReport:
    """What is said of one file with these."""
    return lint_text(yaml.safe_dump_all(documents, sort_keys=False))


def told(*documents: Manifest) -> list[tuple[str, str]]:
    """The problems: of what, and which."""
    return [(each.subject, each.message) for each in lint(*documents).problems]


UDP = [{"port": 80, "targetPort": "http", "protocol": "UDP"}]
THREE_PORTS = [
    {"name": "a", "port": 80, "targetPort": 8080},
    {"name": "b", "port": 81},
    {"name": "c", "port": 82, "targetPort": "mesh"},
]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"selector": {"app": "cart", "track": "stable"}}, "spec.selector: track=stable is no label"),
        ({"selector": None}, "spec.selector: is missing"),
        ({"selector": {}}, "spec.selector: is missing"),
        ({"type": "ExternalName", "externalName": "a.example"}, "spec.type: ExternalName"),
        ({"ports": [{"port": 80, "targetPort": "web"}]}, "spec.ports[0].targetPort: no container of Rollout cart"),
        ({"ports": UDP}, "spec.ports[0].targetPort: no container of Rollout cart has a UDP port named http"),
    ],
)
@pytest.mark.parametrize("name", ["cart", "cart-canary"])
def test_a_service_that_finds_none_of_the_pods_is_a_problem(name: str, spec: Manifest, words: str) -> None:
    """The update would wait for its EndpointSlices for ever; both documents are at hand, so nobody has to find out there."""
    ((subject, message),) = told(rollout({"setWeight": 5}), service(name, **spec))

    assert subject == f"Service {name}"
    assert message.startswith(words)


def test_a_port_that_the_router_names_and_the_service_lacks_is_a_problem() -> None:
    """AWS's controller takes no action with such a target group, and keeps the rules that it had."""
    routed = rollout({"setWeight": 5}, alb={"ingress": "cart", "servicePort": 80})

    words = "spec.ports: has no port 80, which Rollout cart names as trafficRouting.alb.servicePort"
    other = service("cart-canary", ports=[{"port": 8080, "targetPort": "http"}])
    assert told(routed, service(), other) == [("Service cart-canary", words)]


@pytest.mark.parametrize(
    "other",
    [
        service(),
        service(selector={"app": "cart", "tier": "web"}),
        service(selector={"app": "cart", "rollouts.dev/revision": "abc"}),
        service(ports=THREE_PORTS),
        service("basket", selector={"app": "basket"}, ports=[{"port": 80, "targetPort": "web"}]),
        service(namespace="other", selector={"app": "basket"}),
    ],
    ids=["plain", "two labels", "as the controller left it", "numbers and sidecars", "not named", "another namespace"],
)
def test_a_service_that_is_right_or_none_of_ours_is_no_problem(other: Manifest) -> None:
    """Nor that the canary's Service is in another file."""
    assert told(rollout({"setWeight": 5}), other) == []


def test_the_line_is_that_of_the_service() -> None:
    """Editors jump to it."""
    text = yaml.safe_dump(rollout(), sort_keys=False) + "---\n" + "apiVersion: v1\nkind: Service\n"
    text += "metadata: {name: cart, namespace: shop}\nspec:\n  selector: {app: basket}\n  ports: [{port: 80}]\n"

    (problem,) = lint_text(text).problems

    assert text.splitlines()[problem.line - 1] == "  selector: {app: basket}"


def test_a_service_without_a_selector_is_told_once() -> None:
    """As a problem, and not as advice too."""
    report = lint(rollout(), service(selector=None))

    assert len(report.problems) == 1
    assert [each for each in report.advice if each.subject == "Service cart"] == []


def test_a_broken_service_is_no_traceback() -> None:
    """What can be read is held against the Rollout, and what the API server would refuse is named."""
    found = told(rollout(), {**service(), "spec": {"selector": {"app": "cart"}, "ports": [7, {"targetPort": []}]}})
    paths = [message.partition(": ")[0] for _, message in found]

    assert paths == ["spec.ports[0]", "spec.ports[1].targetPort", "spec.ports[1].port"]
    ((_, message),) = told(rollout(), {**service(), "metadata": []})
    assert message == "metadata: must be an object, not a list"


def test_a_step_that_the_router_cannot_do_is_a_problem_with_its_line(typed: CommandLine) -> None:
    """The controller says the same (`InvalidSpec`), by the same table."""
    step = {"setHeaderRoute": {"name": "beta", "match": [{"headerName": "x-beta", "headerValue": {"exact": "1"}}]}}
    alb = {"ingress": "cart", "servicePort": 80}
    text = yaml.safe_dump(rollout({"setWeight": 5}, step, alb=alb, managedRoutes=[{"name": "beta"}]), sort_keys=False)
    file = typed.file(text)

    said = typed("lint", "-f", file, code=1).out
    line = next(at for at, text in enumerate(text.splitlines(), 1) if "setHeaderRoute" in text)
    assert f"{file}:{line}: Rollout cart: spec.strategy.canary.steps[1].setHeaderRoute: alb cannot" in said


@pytest.mark.parametrize(
    ("services", "severity"),
    [
        (("cart", "cart-canary"), Severity.WARNING),
        ((), Severity.WARNING),
        (("cart", "cart-canary", "cart-all"), Severity.NOTE),
    ],
)
def test_a_weight_that_no_client_of_the_service_gets_is_told(services: tuple[str, ...], severity: Severity) -> None:
    """A note where the files have a Service that selects the pods of both revisions: clients may use that one."""
    found = lint(rollout({"setWeight": 90}, {"pause": {}}), *map(service, services)).advice

    assert [each.severity for each in found if each.rule is Rule.WEIGHT_WITHOUT_EFFECT] == [severity]
    assert not [each for each in lint(rollout({"pause": {}})).advice if each.rule is Rule.WEIGHT_WITHOUT_EFFECT]


def _workload(kind: str, namespace: str = "shop", **labels: str) -> Manifest:
    spec = {
        "selector": {"matchLabels": labels},
        "template": build.pod_template("", image="cart:1", metadata={"labels": labels}),
    }
    return build.manifest(Kind("apps", "v1", kind, ""), "old-cart", namespace, spec=spec)


def _shared(*documents: Manifest) -> list[str]:
    return [each.message for each in lint(*documents).advice if each.rule == "SelectorShared"]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Rollout"])
@pytest.mark.parametrize("labels", [{"app": "cart"}, {"app": "cart", "tier": "web"}, {"app": "cart", "tier": "other"}])
def test_a_workload_with_the_same_pods_is_named(kind: str, labels: dict[str, str]) -> None:
    """The usual way to get there is a Deployment that was not taken away after a migration."""
    (message,) = _shared(rollout({"setWeight": 50}), _workload(kind, **labels))

    assert f"{kind} old-cart and this Rollout find each other's pods" in message
    assert "spec.selector" in message


@pytest.mark.parametrize(
    "other",
    [_workload("Deployment", app="other"), _workload("Deployment", "elsewhere", app="cart"), _workload("Deployment")],
    ids=["other labels", "another namespace", "no selector"],
)
def test_other_workloads_are_none_of_it(other: Manifest) -> None:
    """Nor is the Rollout itself."""
    assert _shared(rollout({"setWeight": 50}), other) == []


def _said(steps: list[Manifest], *weights: tuple[str, int], **rule: Any) -> list[str]:
    routing = {"gatewayAPI": {"httpRoutes": [{"name": "cart"}]}, "managedRoutes": [{"name": "beta"}]}
    strategy = build.canary(*steps, stableService="cart", canaryService="cart-canary", trafficRouting=routing)
    rules = [build.http_rule(*(build.backend(*each) for each in weights), **rule)]
    route = build.manifest(HTTP_ROUTE, "cart", "shop", spec={"parentRefs": [{"name": "web"}], "rules": rules})
    report = lint_text(yaml.safe_dump_all([build.rollout(strategy, "cart", "shop", replicas=4), route]))
    return [each.message for each in report.problems if "with it" in each.message]


@pytest.mark.parametrize(
    ("other", "percents", "steps"),
    [(45, [20, 50], [1]), (45, [20, 40], []), (0, [25, 33], []), (45, [50, 20, 50], [0])],
)
def test_a_weight_for_which_a_fixed_total_has_no_numbers(other: int, percents: list[int], steps: list[int]) -> None:
    """A third backend with a weight keeps its part, so the total of the pair is fixed: 5 cannot be halved."""
    found = _said([{"setWeight": each} for each in percents], ("cart", 5), ("cart-canary", 0), ("other", other))

    assert [f"its step {each + 1} " in message for each, message in zip(steps, found, strict=True)] == [True] * len(
        steps
    )


def test_a_header_route_that_none_of_its_rules_can_hold() -> None:
    """A rule for POST alone has no requests that a step for GET could choose."""
    header = {"setHeaderRoute": {"name": "beta", "match": [{"method": {"exact": "GET"}}]}}

    (found,) = _said([header], ("cart", 1), ("cart-canary", 0), matches=[{"method": "POST"}])

    words = "spec: Rollout cart cannot take its step 1 with it: none of its rules is for requests that beta"
    assert found.startswith(words)


HPA, KEDA = build.HPA, Kind("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects")


def web(strategy: Manifest | None = None, **spec: Any) -> Manifest:
    """A Rollout `web` that lint has no problem with."""
    probe = {"readinessProbe": {"httpGet": {"path": "/", "port": 80}}}
    template = build.pod_template("web", image="web:1", container=probe)
    made = build.rollout(strategy or {"canary": {}}, namespace="shop", template=template, **spec)
    if "replicas" not in spec:
        del made["spec"]["replicas"]
    return made


def autoscaler(kind: Kind = HPA, *, namespace: str = "shop", **target: str) -> Manifest:
    """An autoscaler of the Rollout `web`."""
    of = {"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "name": "web", **target}
    return build.manifest(kind, "load", namespace, spec={"maxReplicas": 9, "scaleTargetRef": of})


def remarks(*files: Manifest, rule: str = "ReplicasOfAutoscaler") -> list[str]:
    """What lint says by one rule of these files."""
    texts = [(f"{index}.yaml", yaml.safe_dump(each)) for index, each in enumerate(files)]
    reports = lint_files(texts, metrics=None, silenced=())
    assert [each for report in reports for each in report.problems] == []
    advice = [each for report in reports for each in report.advice]
    return [each.message for each in advice if each.rule == rule]


@pytest.mark.parametrize("kind", [HPA, KEDA], ids=["HPA", "KEDA"])
def test_a_number_that_an_autoscaler_sets_is_warned_of(kind: Kind) -> None:
    """Each commit would put the pods back to the file's number, at the hour with the most load. Often it is in another file."""
    (said,) = remarks(web(replicas=3), autoscaler(kind))

    assert said.startswith(
        f"warning: spec.replicas: {kind.kind} load sets it too, so each apply of this file takes back"
    )
    assert "leave it out of the file" in said


def metric(kind: str, target: str) -> Manifest:
    """An item of `spec.metrics` of an HPA."""
    source = {"metric": {"name": "waiting"}, "target": {"type": target, target[0].lower() + target[1:]: "10"}}
    if kind == "Object":
        source["describedObject"] = {"kind": "Service", "name": "queue"}
    return {"type": kind, kind.lower(): source}


def by(*items: Manifest, kind: Kind = HPA, field: str = "metrics") -> Manifest:
    """An autoscaler of the Rollout `web` by these metrics."""
    made = autoscaler(kind)
    return {**made, "spec": {**made["spec"], field: list(items)}}


ROUTED = {"canary": {"trafficRouting": {}, "stableService": "web", "canaryService": "web-canary"}}
TRIGGER = {"type": "prometheus", "name": "waiting", "metricType": "Value"}


@pytest.mark.parametrize(
    "scaled",
    [by(metric("Object", "Value")), by(metric("External", "Value")), by(TRIGGER, kind=KEDA, field="triggers")],
    ids=["Object", "External", "KEDA"],
)
def test_a_value_that_is_multiplied_by_the_pods_of_a_canary_is_warned_of(scaled: Manifest) -> None:
    """A real autoscaler made 18 pods of 10 at a canary of a half, where the load needed 12."""
    (said,) = remarks(web(strategy=ROUTED), scaled, rule="ValueOfAutoscaler")

    assert f"{scaled['kind']} load scales by the Value of waiting, which it multiplies by all ready pods" in said
    assert "write AverageValue there, or dynamicStableScale: true" in said


OF_WEB = by(metric("External", "Value"))


@pytest.mark.parametrize(
    "files",
    [
        (web(), autoscaler()),
        (web(replicas=3),),
        (web(replicas=3), autoscaler(name="other")),
        (web(replicas=3), autoscaler(namespace="other")),
        # there the pods that an HPA multiplies by are those of `replicas`
        (web(ROUTED), by(metric("External", "AverageValue"))),
        (web(ROUTED), by(metric("Pods", "AverageValue"))),
        (web(ROUTED), by({**TRIGGER, "metricType": "AverageValue"}, kind=KEDA, field="triggers")),
        (web(ROUTED), by({"type": "External"}, {"type": "External", "external": None})),
        (web(ROUTED), by("no metric")),  # type: ignore[arg-type]
        (web({"canary": {**ROUTED["canary"], "dynamicStableScale": True}}), OF_WEB),
        (web(), OF_WEB),
        (web({"blueGreen": {"activeService": "web"}}), OF_WEB),
    ],
    ids=["no number", "no autoscaler", "another target", "another namespace", "average", "average of pods", "average of KEDA",
         "no external metric", "no metric", "a stable that goes down", "no routes", "blue-green"],
)  # fmt: skip
def test_an_autoscaler_that_sets_its_number_alone_and_by_the_load_is_fine(files: tuple[Manifest, ...]) -> None:
    """A warning about nothing teaches people to read none."""
    rules = {each.rule for each in lint(*files).advice}

    assert not {"ReplicasOfAutoscaler", "ValueOfAutoscaler"} & rules


def test_a_rule_reads_as_its_name() -> None:
    """Whoever filters lines of `lint -o json` compares with it."""
    assert [str(rule) for rule in Rule] == [rule.value for rule in Rule]
