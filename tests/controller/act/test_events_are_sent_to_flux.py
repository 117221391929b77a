"""Promise: with `--flux-events` each Event is also POSTed to Flux, which can neither delay nor fail a pass."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from rollouts.controller.act.events import EventSender
from rollouts.controller.act.flux_events import WAITING_MAX
from rollouts.controller.adapters import event_sender_of
from rollouts.core.model.intents import Notice
from rollouts.core.model.reasons import Reason
from rollouts.errors import SettingsInvalid
from rollouts.objects import ANALYSIS_RUN, ROLLOUT, Kind
from rollouts.settings import Settings
from rollouts.telemetry import Telemetry
from tests.controller.world import World, rollout
from tests.probes.servers import Sent, Server, needs_openssl, raw, redirect, refused_port, served_as, serving

AT_S = 1_767_225_600.25
STANDS = {"rollouts.dev/revision": "6d4f9c7b5", "rollouts.dev/weight": "25"}
ACCEPTED = raw(b"", status="202 Accepted")


class NotificationController:
    """Flux's: the fields that its API requires, and one notification of the same within five minutes."""

    def __init__(self) -> None:
        self._told: set[tuple[str, ...]] = set()

    def __call__(self, sent: Sent) -> bytes:
        if sent.line != "POST / HTTP/1.1" or sent.headers["content-type"] != "application/json":
            return raw(b"", status="405 Method Not Allowed")
        try:
            event = json.loads(sent.body)
            about, metadata = event["involvedObject"], event["metadata"]
            revision = metadata.get(about["apiVersion"].partition("/")[0] + "/revision", "")
            key = (about["kind"], about["namespace"], about["name"], event["message"], revision)
            texts = [*key, *metadata.values(), about["uid"], event["reason"], event["reportingController"]]
            assert all(isinstance(each, str) for each in texts) and 0 < len(event["message"]) <= 39_000
            assert about["uid"] and event["reason"] and event["reportingController"]
            assert event["severity"] in {"info", "error"} and datetime.fromisoformat(event["timestamp"]).tzinfo
        except (AssertionError, KeyError, TypeError, ValueError):
            return raw(b"", status="400 Bad Request")
        if key in self._told:
            return raw(b"", status="429 Too Many Requests")
        self._told.add(key)
        return ACCEPTED


class Telling:
    """A sender of Events over a scripted API server."""

    def __init__(self, world: World, url: str, may_write: Callable[[], bool], ca_file: Path | None = None) -> None:
        self.world = world
        self.telemetry = Telemetry()
        settings = Settings(flux_events=url, data_plane_ca=ca_file)
        self.events: EventSender = event_sender_of(settings, world.client, self.telemetry, may_write)
        assert self.events._flux is not None
        self.flux = self.events._flux

    def report(
        self, message: str = "promoted", *, warning: bool = False, kind: Kind = ROLLOUT, revision: str = "6d4f9c7b5"
    ) -> None:
        notice = Notice(Reason.ROUTE_DRIFTED, message, warning=warning)
        stands = {**STANDS, "rollouts.dev/revision": revision}
        about = rollout().metadata
        self.events.report(about, (notice,), at_s=AT_S, instance="rollouts-0", kind=kind, annotations=stands)

    def dropped(self) -> dict[str, float]:
        """By reason."""
        (family,) = self.telemetry.flux_events_dropped.collect()
        return {sample.labels["why"]: sample.value for sample in family.samples if sample.value}

    def created(self) -> int:
        """Events that the API server got."""
        return sum(request.path.endswith("/events") for request in self.world.api.requests)


@asynccontextmanager
async def telling(
    world: World, url: str, may_write: Callable[[], bool] = lambda: True, ca_file: Path | None = None
) -> AsyncIterator[Telling]:
    """Sends while the block runs, and what waits is sent before it ends."""
    made = Telling(world, url, may_write, ca_file)
    sending: list[asyncio.Task[None]] = []
    try:
        yield made
        sending.append(asyncio.create_task(made.events.run()))
        await made.events.drained(deadline_s=20.0)
    finally:
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)


def bodies(server: Server) -> list[dict[str, Any]]:
    return [json.loads(sent.body) for sent in server.sent]


async def test_an_event_comes_to_flux_in_its_format(world: World) -> None:
    """Who, what, why, when and how bad; metadata below the object's API group, which is all that Flux keeps of it."""
    async with serving({"/": NotificationController()}) as flux:
        async with telling(world, f"{flux.url()}/") as sender:
            sender.report("step 2 of 4: 25 %")

        assert (sender.dropped(), sender.created()) == ({}, 1)
        assert bodies(flux) == [
            {
                "involvedObject": {
                    "apiVersion": "rollouts.dev/v1alpha1",
                    "kind": "Rollout",
                    "namespace": "shop",
                    "name": "cart",
                    "uid": "cart-uid",
                    "resourceVersion": "1",
                },
                "severity": "info",
                "timestamp": "2026-01-01T00:00:00.250000Z",
                "message": "step 2 of 4: 25 %",
                "reason": "RouteDrifted",
                "metadata": STANDS,
                "reportingController": "rollouts.dev/controller",
                "reportingInstance": "rollouts-0",
            }
        ]


async def test_a_warning_is_an_error_for_flux(world: World) -> None:
    """Alerts have `eventSeverity: error` for what somebody has to look at. Runs and Experiments are reported, too."""
    async with serving({"/": NotificationController()}) as flux:
        async with telling(world, flux.url()) as sender:
            sender.report("aborted", warning=True)
            sender.report("Failed", warning=True, kind=ANALYSIS_RUN)
            sender.report("promoted")

        found = [(each["involvedObject"]["kind"], each["severity"], each["message"]) for each in bodies(flux)]
        assert found == [
            ("Rollout", "error", "aborted"),
            ("AnalysisRun", "error", "Failed"),
            ("Rollout", "info", "promoted"),
        ]


async def test_what_flux_has_just_reported_is_no_fault(world: World) -> None:
    """It answers 429 to the same message about the same revision of an object. Another revision's is reported."""
    async with serving({"/": NotificationController()}) as flux:
        with capture_logs() as lines:
            async with telling(world, flux.url()) as sender:
                sender.report()
                sender.report()
                sender.report(revision="5c8d7b9f4")

        assert len(flux.sent) == 3
        assert (sender.dropped(), sender.created()) == ({"duplicate": 1.0}, 3)
        assert [line for line in lines if line["log_level"] == "warning"] == []


@pytest.mark.parametrize(
    ("answer", "why", "told"),
    [
        (raw(b"", status="400 Bad Request"), "400", "it answers 400"),
        (raw(b"no", status="503 Service Unavailable"), "503", "it answers 503"),
        (redirect("http://127.0.0.1:1/"), "Unanswered", "answers with a redirect (302), which is not followed"),
        (b"", "Unanswered", "Server disconnected without sending a response"),
        (None, "Unanswered", "no answer within 0.05 s"),
    ],
    ids=["refuses", "overloaded", "redirects", "hangs up", "slow"],
)
async def test_an_event_that_flux_does_not_take_is_dropped(
    answer: bytes | None, why: str, told: str, world: World
) -> None:
    """Once, without a second try, and Kubernetes has it all the same. One line of the log tells of many."""
    async with serving({"/": answer}) as flux:
        with capture_logs() as lines:
            async with telling(world, flux.url()) as sender:
                sender.flux.deadline_s = 0.05
                for number in range(3):
                    sender.report(f"step {number}")

        assert len(flux.sent) == 3
    assert (sender.dropped(), sender.created()) == ({why: 3.0}, 3)
    (line,) = [line for line in lines if line["event"] == "flux_events_dropped"]
    assert (line["dropped"], line["log_level"]) == (1, "warning")
    assert told in line["why"] and "--flux-events" in line["fix"]


async def test_the_log_says_how_many_were_dropped_since_its_last_line(world: World) -> None:
    """After the quiet time."""
    with capture_logs() as lines:
        async with telling(world, f"http://127.0.0.1:{await refused_port()}") as sender:
            sender.flux.quiet_s = 0.0
            sender.report("one")
            sender.report("two")

    assert sender.dropped() == {"NotConnected": 2.0}
    assert [line["dropped"] for line in lines if line["event"] == "flux_events_dropped"] == [1, 1]


async def test_a_report_returns_at_once_whatever_flux_does(world: World) -> None:
    """The queue has a bound; what exceeds it is dropped, and counted."""
    sender = Telling(world, f"http://127.0.0.1:{await refused_port()}", lambda: True)
    with capture_logs() as lines:
        for number in range(WAITING_MAX + 5):
            sender.report(f"step {number}")

    assert sender.dropped() == {"too many waiting": 5.0}
    assert [line["event"] for line in lines] == ["flux_events_dropped"]
    await sender.events.drained(deadline_s=0.0)

    assert sender.dropped() == {"too many waiting": 5.0, "shutdown": float(WAITING_MAX)}


async def test_old_news_is_not_sent(world: World) -> None:
    """Flux was away: nobody is told an hour later, in the present tense."""
    async with serving({"/": NotificationController()}) as flux:
        async with telling(world, flux.url()) as sender:
            sender.flux.late_s = 0.0
            sender.report()

        assert flux.sent == []
    assert (sender.dropped(), sender.created()) == ({"too late": 1.0}, 1)


async def test_a_process_that_does_not_lead_sends_nothing(world: World) -> None:
    """What waited when the lease was lost stays unsent, as its writes do."""
    async with serving({"/": NotificationController()}) as flux:
        async with telling(world, flux.url(), lambda: False) as sender:
            sender.report()

        assert flux.sent == []
    assert sender.dropped() == {"not leading": 1.0}


@pytest.mark.parametrize("addresses", [("127.0.0.1", "127.0.0.3"), ("127.0.0.3", "127.0.0.1")], ids=", ".join)
async def test_an_address_without_a_listener_is_passed_over(addresses: tuple[str, str], world: World) -> None:
    """A name with addresses of both families, of which Flux listens on one. Only one of them gets the Event."""

    async def resolve(_host: str, _port: int) -> tuple[str, str]:
        return addresses

    async with serving({"/": NotificationController()}) as flux:
        async with telling(world, flux.url("notification-controller.flux-system.svc")) as sender:
            sender.flux.asker._resolve = resolve
            sender.report()

        assert (len(flux.sent), sender.dropped()) == (1, {})
        assert flux.hosts == [f"notification-controller.flux-system.svc:{flux.port}"]


async def test_a_service_of_the_metadata_of_a_cloud_is_not_asked(world: World) -> None:
    """The rules of administrators' URLs hold for this one."""
    async with telling(world, "http://169.254.169.254/") as sender:
        sender.report()

    assert sender.dropped() == {"NotPermitted": 1.0}


@needs_openssl
async def test_an_authority_of_the_administrator_is_believed(tmp_path: Path, world: World) -> None:
    """For a proxy with TLS before Flux, signed by the authority of `--data-plane-ca`; nobody else's."""
    served, found = served_as("flux.infra", tmp_path), []
    async with serving({"/": NotificationController()}, tls=served) as flux:
        for ca_file in (None, tmp_path / "cert.pem"):
            url = f"https://flux.infra:{flux.port}"
            async with telling(world, url, ca_file=ca_file) as sender:
                sender.flux.asker._resolve = _here
                sender.report()
            found.append(sender.dropped())

        assert len(flux.sent) == 1
    assert found == [{"NotConnected": 1.0}, {}]


async def _here(_host: str, _port: int) -> list[str]:
    return ["127.0.0.1"]


async def test_without_the_flag_nothing_is_sent(world: World) -> None:
    """Nor is httpx loaded for it."""
    assert event_sender_of(Settings(), world.client, Telemetry(), lambda: True)._flux is None


@pytest.mark.parametrize(
    "url",
    ["notification-controller", "ftp://flux/", "http://user:secret@flux/", "http://flux/?token=1", "http://flux:port/"],
)
def test_a_url_that_is_none_is_refused_at_the_start(url: str, world: World) -> None:
    """Not when the first Event is lost."""
    with pytest.raises(SettingsInvalid, match=r"^--flux-events: ") as refused:
        event_sender_of(Settings(flux_events=url), world.client, Telemetry(), lambda: True)

    assert "secret" not in str(refused.value)
