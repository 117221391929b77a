"""A real Prometheus measures, and the verdict decides: good goes on, bad goes back, no evidence waits for a person."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests import build
from tests.e2e.controllers import confined_controller
from tests.e2e.manifests import Manifest, blue_green, canary, service
from tests.e2e.measured import Measured, Requests, measured
from tests.e2e.stage import Stage, current
from tests.lab.control_plane import ControlPlane

pytestmark = pytest.mark.controlplane

ABORTED_WITHIN_S = 2.0

Under = Callable[..., AbstractContextManager[Stage]]


def _template(service: str, **metric: object) -> Manifest:
    """At least 99 % of the service's requests succeed, three times in a row, a second apart."""
    all_of_it = f'http_requests_total{{service="{service}"}}[5s]'
    good = f'http_requests_total{{service="{service}",code!~"5.."}}[5s]'
    query = f"sum(rate({good})) / sum(rate({all_of_it}))"
    fields: Manifest = {
        "interval": "1s",
        "count": 3,
        "provider": {"prometheus": {"query": query, "timeout": 2}},
        **metric,
    }
    return build.analysis_template(
        build.metric("success-rate", condition="result[0] >= 0.99", **fields), name="success-rate"
    )


def _checked(**fields: object) -> Manifest:
    analysis = {"templates": [{"templateName": "success-rate"}], **fields}
    return canary("web", replicas=2, steps=[{"setWeight": 50}, {"analysis": analysis}])


def _runs(stage: Stage) -> list[tuple[str, str]]:
    runs = stage.all("analysisruns")
    runs.sort(key=lambda one: str(one["metadata"]["creationTimestamp"]))
    return [(one["metadata"]["labels"]["rollouts.dev/revision"], one.get("status", {}).get("phase")) for one in runs]


@pytest.fixture(scope="module")
def scraping(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    """A real Prometheus for the tests of this file."""
    home = tmp_path_factory.mktemp("prometheus")
    with measured(program=Path(control_plane.programs, "prometheus"), home=home) as found:
        yield found


@pytest.fixture(scope="module")
def controller_flags(scraping: Measured) -> tuple[str, ...]:
    """The controller of `stage` asks it."""
    return (f"--prometheus-url={scraping.url}",)


@pytest.fixture
def requests(scraping: Measured) -> Requests:
    """The counters of a service, which Prometheus scrapes."""
    return scraping.service()


@pytest.fixture
def under(control_plane: ControlPlane, namespace: str, controller_kubeconfig: Path) -> Under:
    """A namespace with a controller of its own, that asks a server of the loopback which answers nothing."""

    @contextmanager
    def started(*, listens: bool) -> Iterator[Stage]:
        # A port that refuses connections: it is taken, and nobody listens there. Or the kernel takes them.
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            if listens:
                taken.listen(64)
            flags = (f"--prometheus-url=http://127.0.0.1:{taken.getsockname()[1]}",)
            with confined_controller(control_plane, controller_kubeconfig, namespace, flags=flags):
                yield Stage(control_plane, namespace)

    return started


def test_a_good_version_is_promoted(requests: Requests, stage: Stage) -> None:
    """The run is about the new revision, and its success is what the step waited for."""
    stage.rolled_out(_template(requests.service), _checked())
    assert _runs(stage) == []  # nothing serves yet that an analysis could protect

    stage.set_image("web", "web:2")
    done = stage.wait_ready("web")

    assert _runs(stage) == [(current(done), "Successful")]
    assert [one["phase"] for one in done["status"]["analyses"]] == ["Successful"]


def test_five_percent_of_errors_abort_and_the_message_says_the_number(requests: Requests, stage: Stage) -> None:
    """And a retry, once the errors are gone, needs a run of its own."""
    stage.rolled_out(_template(requests.service), _checked())
    requests.fail(5)
    stage.set_image("web", "web:2")

    aborted = stage.until_phase("web", "Aborted")
    run = stage.all("analysisruns")[0]

    assert run["metadata"]["name"] in aborted["status"]["message"]
    assert 0.9 < float(run["status"]["metricResults"][0]["measurements"][-1]["value"].strip("[]")) < 0.99
    requests.fail(0)
    stage.kubectl("wait", "rollout/web", "--for=condition=Available", "--timeout=55s")


def test_without_prometheus_the_update_waits_for_a_person(under: Under) -> None:
    """A refused connection is no evidence: neither a success nor a reason to go back."""
    with under(listens=False) as stage:
        stage.rolled_out(_template("web", consecutiveErrorLimit=1), _checked())
        stage.set_image("web", "web:2")

        held = stage.until_at("web", "AnalysisInconclusive", step=1)
        assert held["status"]["phase"] == "Paused"

        stage.annotate("web", "promote", "true")
        done = stage.wait_ready("web")

    assert _runs(stage) == [(current(done), "Error")]


def test_a_prometheus_that_hangs_does_not_delay_an_abort(under: Under) -> None:
    """It takes the connection and never answers; a person aborts meanwhile."""
    with under(listens=True) as stage:
        stage.rolled_out(_template("web"), _checked())
        stage.set_image("web", "web:2")
        stage.until_at("web", "AnalysisRunning", step=1)

        before_s = time.monotonic()
        stage.annotate("web", "abort", "true")
        stage.until_phase("web", "Aborted")
        took_s = time.monotonic() - before_s

    assert took_s <= ABORTED_WITHIN_S


def test_a_preview_gets_the_traffic_after_its_analysis(requests: Requests, stage: Stage) -> None:
    """And after the switch the old pods stay until the second one has succeeded too."""
    analysis = {"templates": [{"templateName": "success-rate"}]}
    rollout = blue_green("web", replicas=1, prePromotionAnalysis=analysis, postPromotionAnalysis=analysis)
    first = stage.rolled_out(
        _template(requests.service), service("web-active", app="web"), service("web-preview", app="web"), rollout
    )
    stage.set_image("web", "web:2")

    stage.until_at("web", "AnalysisRunning")
    assert stage.selected("web-active") == first
    done = stage.wait_ready("web")

    assert stage.selected("web-active") == current(done)
    kinds = {one["metadata"]["labels"]["rollouts.dev/analysis"] for one in stage.all("analysisruns")}
    assert kinds == {"pre-promotion", "post-promotion"}


def test_a_background_analysis_ends_with_the_update(requests: Requests, stage: Stage) -> None:
    """It has no count: it measures until the last step is done."""
    endless = _template(requests.service)
    del endless["spec"]["metrics"][0]["count"]
    analysis = {"templates": [{"templateName": "success-rate"}]}
    steps: list[Manifest] = [{"setWeight": 50}, {"pause": {"duration": "2s"}}]
    stage.rolled_out(endless, canary("web", replicas=2, steps=steps, analysis=analysis))
    stage.set_image("web", "web:2")

    done = stage.wait_ready("web")

    assert _runs(stage) == [(current(done), "Successful")]


def test_an_update_has_no_pod_until_the_template_of_a_later_step_comes(requests: Requests, stage: Stage) -> None:
    """`kubectl apply` of a folder may bring it later; what is still missing after 10 s needs a person."""
    first = stage.rolled_out(_checked())
    stage.set_image("web", "web:2")

    stalled = stage.until_at("web", "AnalysisInvalid", step=0)
    assert "success-rate" in stalled["status"]["waitingFor"]["message"]
    assert [each["metadata"]["labels"]["rollouts.dev/revision"] for each in stage.all("replicasets")] == [first]
    stage.apply(_template(requests.service))

    stage.wait_ready("web")
    assert [phase for _, phase in _runs(stage)] == ["Successful"]
