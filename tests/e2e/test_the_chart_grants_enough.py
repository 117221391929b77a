"""The chart's RBAC is what the controller needs: nothing is refused, and what it grants is used.

The whole test run is watched besides: `tests/lab/pytest_plugin.py` fails it for any request of the controller that was refused.
"""

from __future__ import annotations

import pytest

from rollouts.sim.network.gateway_types import HTTP_ROUTE, gateway_crds
from tests import build
from tests.e2e.manifests import GATE, Manifest, canary, config_map, experiment, services
from tests.e2e.stage import Stage, current
from tests.lab.chart import CONTROLLER_USER, install_crds

pytestmark = pytest.mark.controlplane

USED = {
    "rollouts": {"get", "watch", "patch"},
    "rollouts/status": {"patch"},
    "replicasets": {"get", "watch", "create", "patch", "delete"},
    "experiments": {"watch", "create", "delete"},
    "experiments/status": {"patch"},
    "services": {"get", "watch", "create", "patch", "delete"},
    "configmaps": {"get", "watch", "create"},
    "endpointslices": {"watch"},
    "pods": {"list", "patch"},
    "pods/eviction": {"create"},
    "events": {"create"},
    "analysistemplates": {"watch"},
    "analysisruns": {"watch", "create", "patch", "delete"},
    "analysisruns/status": {"patch"},
}
"""The table of the chart's `_rules.tpl` without what only other clusters or worse days need: `list` of what is watched (servers
that do not stream the first list), `patch` of a copy (somebody took its owner away), `delete` of one (a minute after the last
revision that names it), `patch` of an Experiment (somebody passes the step that waits for it), and finalizers."""


TEMPLATE = build.analysis_template(
    {"name": "pods", "interval": "1s", "provider": {"kubernetes": {}}}, name="pods-are-well"
)
"""It needs no server, and measures until it is ended."""
TRIED = {"experiment": {"duration": "1s", "templates": [{"name": "new", "specRef": "canary"}]}}


def test_a_life_with_everything_in_it_is_refused_nothing(stage: Stage) -> None:
    """Steps, Services, role metadata, analyses, a verb, a restart, what is old goes, a deletion: every right is used once."""
    first = stage.rolled_out(
        TEMPLATE,
        config_map("web-config"),
        canary(
            "web",
            replicas=2,
            stableService="web-stable",
            canaryService="web-canary",
            canaryMetadata={"labels": {"role": "canary"}},
            stableMetadata={"labels": {"role": "stable"}},
            steps=[TRIED, {"setWeight": 50}, {"pause": {}}],
            analysis={"templates": [{"templateName": "pods-are-well"}]},
            spec={"revisionHistoryLimit": 0, "minReadySeconds": 1, "analysis": {"successfulRunHistoryLimit": 0}},
            configured_by=["web-config"],
        ),
        *services("web", "stable", "canary"),
    )
    for image in ("web:2", "web:3"):
        stage.gated("web", image, step=GATE + 1)
        stage.annotate("web", "promote", "true")
        last = current(stage.wait_ready("web"))
    stage.kubectl("wait", f"replicaset/web-{first}", "--for=delete", "--timeout=55s")
    assert [run["metadata"]["labels"]["rollouts.dev/revision"] for run in stage.all("analysisruns")] == [last]
    stage.apply(experiment("exp", duration="1s"))
    stage.until("experiments", "exp", lambda one: "completedAt" in one.get("status", {}))
    stage.kubectl("wait", "service/exp-blue", "--for=delete", "--timeout=55s")
    stage.annotate("web", "restart", "true")
    stage.until("rollouts", "web", lambda one: "restartedAt" in one["status"])
    stage.until_pods("web", {last: 2})
    stage.kubectl("delete", "rollout", "web", "--timeout=55s")
    for name in ("web-stable", "web-canary"):
        stage.until("services", name, lambda one: "rollouts.dev/revision" not in one["spec"]["selector"])

    controllers = [
        event
        for event in stage.plane.audit_events(user=CONTROLLER_USER)
        if "objectRef" in event and not event["userAgent"].startswith("kubectl/")  # /version is no object
    ]
    mine = [event for event in controllers if event["objectRef"].get("namespace") == stage.namespace]
    about_proxies = {
        (event["objectRef"]["resource"], event["objectRef"]["name"], event["responseStatus"]["code"])
        for event in controllers
        if event["objectRef"].get("namespace") == "kube-system"
    }
    used: dict[str, set[str]] = {}
    for event in mine:
        parts = (event["objectRef"]["resource"], event["objectRef"].get("subresource"))
        used.setdefault("/".join(part for part in parts if part), set()).add(event["verb"])
    assert [event["requestURI"] for event in mine if event.get("responseStatus", {}).get("code") == 403] == []
    assert used == USED
    assert about_proxies == {("configmaps", "kube-proxy", 200)}


def test_a_route_is_read_watched_and_changed(stage: Stage) -> None:
    """From the first question about it to the day it is given back, and with nothing but those rights."""
    install_crds(stage.plane, *gateway_crds())
    stage.apply(http_route("web"))
    stage.apply(*services("web", "stable", "canary"))
    accepted(stage, "web")
    stage.rolled_out(
        canary(
            "web",
            replicas=1,
            stableService="web-stable",
            canaryService="web-canary",
            trafficRouting={"gatewayAPI": {"httpRoutes": [{"name": "web"}]}},
        )
    )
    managed = stage.get("httproutes", "web")
    stage.kubectl("delete", "rollout", "web", "--timeout=55s")
    left = stage.until("httproutes", "web", lambda one: "annotations" not in one["metadata"])

    used = {
        event["verb"]
        for event in stage.plane.audit_events(user=CONTROLLER_USER)
        if event.get("objectRef", {}).get("namespace") == stage.namespace
        and event["objectRef"]["resource"] == "httproutes"
        and event["responseStatus"]["code"] < 300
    }
    assert managed["metadata"]["annotations"]["rollouts.dev/managed-by"] == "web"
    assert "rollouts.dev/managed" not in left["metadata"].get("labels", {})
    assert left["spec"] == managed["spec"]
    assert used == {"get", "watch", "patch"}


def http_route(name: str) -> Manifest:
    """Between NAME-stable and NAME-canary; without kubectl's annotation, so that it has none of its own."""
    backends = [build.backend(f"{name}-stable", 1), build.backend(f"{name}-canary", 0)]
    spec = {"parentRefs": [{"name": "public"}], "rules": [build.http_rule(*backends)]}
    return build.manifest(HTTP_ROUTE, name, spec=spec)


def accepted(stage: Stage, name: str, *, parent: str = "public") -> None:
    """A gateway takes the route, in whatever generation it will ever have."""
    known = {"status": "True", "message": "", "observedGeneration": 1_000, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    conditions = [{"type": kind, "reason": kind, **known} for kind in ("Accepted", "ResolvedRefs")]
    status = {"parentRef": {"name": parent}, "controllerName": "example.com/gateway", "conditions": conditions}
    stage.plane.patch(f"{HTTP_ROUTE.path(stage.namespace, name)}/status", {"status": {"parents": [status]}})
