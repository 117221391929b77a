"""Promise: with `--data-plane alb=aws:REGION` an Ingress is live when AWS's API says so; AWS is asked seldom, and may refuse."""

from __future__ import annotations

import asyncio
import importlib.abc
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable, Iterator
from urllib.parse import parse_qs

import pytest

from rollouts.clock import SystemClock
from rollouts.core.model.traffic import LiveSeen, RouteName, VerifiedBy
from rollouts.errors import SettingsInvalid
from rollouts.ports import LiveQuestion
from rollouts.probes import alb_asker
from rollouts.probes.alb_asker import EACH_CALL_S
from rollouts.probes.named_planes import AwsPlane, parse_data_planes
from rollouts.probes.planes import NamedDataPlanes
from rollouts.sim.apiserver.server import SimServer
from tests.probes.amazon import REGION, Balancer, bind, serve, shop
from tests.probes.dumps import question, share
from tests.probes.servers import Server, raw, serving

DEADLINE_S = 60.0  # of a machine that does much besides
THROTTLED = """<ErrorResponse xmlns="http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/">
  <Error><Type>Sender</Type><Code>Throttling</Code><Message>Rate exceeded</Message></Error><RequestId>1</RequestId>
</ErrorResponse>"""
NOT_ALLOWED = "may not elasticloadbalancing:DescribeTags"
DENIED = THROTTLED.replace("Throttling", "AccessDenied").replace("Rate exceeded", NOT_ALLOWED)
THROTTLES = {"/": raw(THROTTLED.encode(), status="400 Bad Request")}
DENIES = {"/": raw(DENIED.encode(), status="403 Forbidden")}


def actions(amazon: Server) -> list[str]:
    return [parse_qs(each.body.decode())["Action"][0] for each in amazon.sent]


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    """Where an AWS of our own answers."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 - half a second of each worker that collects the tests

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(autouse=True)
def _somebody(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Credentials that are nobody's, and no way to find others."""
    nowhere = str(tmp_path_factory.getbasetemp() / "nowhere")
    for name, value in {
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": nowhere,
        "AWS_SHARED_CREDENTIALS_FILE": nowhere,
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
async def server() -> SimServer:
    """An API server that knows TargetGroupBindings, with the namespace `shop`."""
    return await shop()


@pytest.fixture
async def bound(server: SimServer) -> None:
    """A target group of the stable Service, so that AWS is asked about it."""
    await bind(server, "cart", "arn:aws:elasticloadbalancing:eu-west-1:1:targetgroup/a/b")


DataPlanes = Callable[[str], NamedDataPlanes]


@pytest.fixture
async def planes(server: SimServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DataPlanes]:
    """Data planes that ask the AWS at that address, and wait for nothing between two questions."""
    opened: list[NamedDataPlanes] = []
    monkeypatch.setattr(alb_asker, "BETWEEN_ROUNDS_S", 0.0)
    monkeypatch.setattr(alb_asker, "EACH_CALL_S", 0.0)

    def made(endpoint: str) -> NamedDataPlanes:
        monkeypatch.setenv("AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2", endpoint)
        opened.append(NamedDataPlanes(parse_data_planes([f"alb=aws:{REGION}"]), clock=SystemClock(), api=server))
        return opened[-1]

    yield made
    for each in (*opened, *opened):
        await each.aclose()


def asked(percent: int, name: str = "cart") -> LiveQuestion:
    route = RouteName("alb", "Ingress", "shop", name)
    return question(share(percent), route=route, gateways=(), namespace="shop", objects=())


async def told(planes: NamedDataPlanes, percent: int) -> LiveSeen:
    return await planes.live(asked(percent), deadline_s=DEADLINE_S)


async def test_weights_and_targets_are_followed_through_a_canary(
    server: SimServer, planes: DataPlanes, aws: str
) -> None:
    """From no canary to the new revision alone: nothing is live before AWS has it, and everything is once it has."""
    balancer = Balancer(aws)
    stable, canary = balancer.group("cart"), balancer.group("cart-canary")
    made = planes(aws)
    assert "no target group for Service cart yet" in (await told(made, 0)).message

    await bind(server, "cart", stable)
    assert "no load balancer has the target groups" in (await told(made, 0)).message
    balancer.forwards({stable: 1})
    await serve(server, "cart", ["10.0.0.1"])
    assert "10.0.0.1 is not registered" in (await told(made, 0)).message
    balancer.registers(stable, "10.0.0.1")
    assert (await told(made, 0)).live
    assert "no target group for Service cart-canary yet" in (await told(made, 20)).message

    await bind(server, "cart-canary", canary)
    assert "no rule gives the canary 20 %" in (await told(made, 20)).message
    balancer.forwards({stable: 80, canary: 20})
    await serve(server, "cart-canary", ["10.0.0.2"])
    assert "10.0.0.2 is not registered" in (await told(made, 20)).message
    balancer.registers(canary, "10.0.0.2", "10.0.0.9")
    assert "10.0.0.9 is not an endpoint and is still registered" in (await told(made, 20)).message
    balancer.deregisters(canary, "10.0.0.9")
    seen = await told(made, 20)

    assert (seen.live, seen.by, seen.message, seen.resource_version) == (True, VerifiedBy.CONFIG, "", "7")
    late = await told(made, 100)
    assert (late.live, late.evidence) == (False, True)
    assert f"aws {REGION}: rule 1 of port 80 gives the canary 20 %, not 100 %" in late.message


async def test_a_rule_of_another_ingress_is_not_taken_for_ours(server: SimServer, planes: DataPlanes, aws: str) -> None:
    """An Ingress within the network may lead to the same Services; its load balancer is managed by nobody here."""
    ours, theirs = Balancer(aws), Balancer(aws)
    stable, canary = ours.group("cart"), ours.group("cart-canary")
    internal = theirs.group("cart", ingress="shop/internal")
    for balancer, service, group in ((ours, "cart", stable), (ours, "cart-canary", canary), (theirs, "cart", internal)):
        balancer.registers(group, f"10.0.0.{len(service)}")
        await bind(server, service, group)
    for service in ("cart", "cart-canary"):
        await serve(server, service, [f"10.0.0.{len(service)}"])
    ours.forwards({stable: 1, canary: 1})
    theirs.forwards({internal: 1})

    assert (await told(planes(aws), 50)).live


async def test_another_listener_that_has_not_followed_is_seen(server: SimServer, planes: DataPlanes, aws: str) -> None:
    """Its rules are pages long, so that the one that is late is on the second page of the second listener."""
    balancer = Balancer(aws)
    stable, canary = balancer.group("cart"), balancer.group("cart-canary")
    for service, group in (("cart", stable), ("cart-canary", canary)):
        balancer.registers(group, "10.0.0.1")
        await bind(server, service, group)
        await serve(server, service, ["10.0.0.1"])
    balancer.forwards({stable: 1, canary: 1})
    made = planes(aws)
    assert (await told(made, 50)).live
    balancer.adds_rules(balancer.listens(8080), others=60, last=stable)

    assert "port 8080: no rule gives the canary 50 %" in (await told(made, 50)).message


async def test_ingresses_of_one_load_balancer_share_what_was_read(
    server: SimServer, planes: DataPlanes, aws: str
) -> None:
    """Fifty of them may wait at the same time; the rules of their load balancer are the same for all."""
    balancer = Balancer(aws)
    groups = {name: balancer.group("cart", ingress=f"shop/{name}") for name in ("cart", "cart-internal", "cart-of-old")}
    for group in groups.values():
        balancer.registers(group, "10.0.0.1")
        await bind(server, "cart", group)
    await serve(server, "cart", ["10.0.0.1"])
    balancer.forwards(dict.fromkeys(groups.values(), 1))
    made = planes(aws)
    await told(made, 0)
    reads: list[str] = []
    events = made._aws[AwsPlane(REGION)]._client.meta.events
    events.register("before-call", lambda model, **_: reads.append(model.name))

    seen = await asyncio.gather(*(made.live(asked(0, name), deadline_s=DEADLINE_S) for name in groups))
    later = await told(made, 0)

    assert [each.live for each in (*seen, later)] == [True] * 4
    assert (reads.count("DescribeTargetHealth"), reads.count("DescribeRules"), reads.count("DescribeTags")) == (4, 2, 0)


async def test_an_aws_that_throttles_is_left_alone(bound: None, planes: DataPlanes) -> None:
    """What we ask beyond the account's rate is taken from the AWS Load Balancer Controller, which has the work to do."""
    async with serving(THROTTLES) as amazon:
        made = planes(amazon.url())
        seen = [await told(made, 0) for _ in range(3)]

        assert actions(amazon) == ["DescribeTags"]
    assert [(each.live, each.evidence) for each in seen] == [(False, False)] * 3
    assert all("AWS throttles the requests; the controller asks again in 4 s" in each.message for each in seen)


async def test_what_aws_refuses_is_told(bound: None, planes: DataPlanes) -> None:
    """The message names what the role lacks; it is no evidence."""
    async with serving(DENIES) as amazon:
        seen = await told(planes(amazon.url()), 0)

    assert not (seen.live or seen.evidence)
    assert f"describe_tags: AccessDenied {NOT_ALLOWED}" in seen.message


NO_KEY: dict[str, str | None] = {"AWS_ACCESS_KEY_ID": None}
ROLE = {"AWS_ROLE_ARN": "arn:aws:iam::1:role/rollouts", "AWS_WEB_IDENTITY_TOKEN_FILE": "/nowhere/token"}


@pytest.mark.parametrize(
    ("endpoint", "environment", "words"),
    [
        ("http://127.0.0.1:1", {}, "Could not connect"),
        ("http://127.0.0.1:1", {**NO_KEY, "AWS_SECRET_ACCESS_KEY": None}, "Unable to locate credentials"),
        ("http://127.0.0.1:1", {**NO_KEY, **ROLE}, "/nowhere/token"),
        ("nowhere", {}, "Invalid endpoint: nowhere"),
    ],
)
@pytest.mark.usefixtures("bound")
async def test_an_aws_that_cannot_be_asked_is_told(
    planes: DataPlanes, monkeypatch: pytest.MonkeyPatch, endpoint: str, environment: dict[str, str | None], words: str
) -> None:
    """A mistake of the administrator's shows in every Rollout that waits, within the deadline, and ends nothing."""
    for name, value in environment.items():
        monkeypatch.delenv(name) if value is None else monkeypatch.setenv(name, value)

    seen = await told(planes(endpoint), 0)

    assert words in seen.message
    assert not (seen.live or seen.evidence)


async def test_a_cluster_without_bindings_is_told(planes: DataPlanes, aws: str) -> None:
    """The AWS Load Balancer Controller is another one than we know, or none."""
    made = planes(aws)
    made._aws[AwsPlane(REGION)]._api = await shop(crds=())

    seen = await told(made, 0)

    assert not (seen.live or seen.evidence)
    assert "404 for targetgroupbindings in shop; check that the AWS Load Balancer Controller is" in seen.message


async def test_questions_come_one_after_another(
    bound: None, planes: DataPlanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three Rollouts that wait at the same time: one call each, never two at once, and time between them."""
    monkeypatch.setattr(alb_asker, "EACH_CALL_S", EACH_CALL_S)
    async with serving(DENIES) as amazon:
        made = planes(amazon.url())
        began_s = time.monotonic()
        await asyncio.gather(*(made.live(asked(0, name), deadline_s=DEADLINE_S) for name in ("a", "b", "c")))
        took_s = time.monotonic() - began_s

    assert actions(amazon) == ["DescribeTags"] * 3
    assert took_s >= 2 * EACH_CALL_S


async def test_the_same_ingress_is_not_asked_about_again_at_once(
    bound: None, planes: DataPlanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked about takes seconds to minutes; a question that comes too early waits, and its deadline holds."""
    async with serving(DENIES) as amazon:
        made = planes(amazon.url())
        await told(made, 0)
        monkeypatch.setattr(alb_asker, "BETWEEN_ROUNDS_S", 60.0)
        early = await made.live(asked(0), deadline_s=0.1)

        assert actions(amazon) == ["DescribeTags"]
    assert "no answer within 0.1 s" in early.message


def test_aws_tells_of_ingresses_of_its_own_router_alone(server: SimServer) -> None:
    """An Ingress of nginx is another matter, and `*` does not reach AWS."""
    made = NamedDataPlanes(parse_data_planes([f"alb=aws:{REGION}"]), clock=SystemClock(), api=server)

    assert made.asked_by(asked(0).route, ()) is VerifiedBy.CONFIG
    assert made.asked_by(RouteName("nginx", "Ingress", "shop", "cart"), ()) is None


@pytest.mark.parametrize(
    "text", ["*=aws:eu-west-1", "shop/web=aws:eu-west-1", "alb=aws:", "alb=aws:https://aws", "alb=aws:eu"]
)
def test_a_flag_that_aws_cannot_be_asked_by_names_the_remedy(text: str) -> None:
    """At the start of the process, not in the middle of a rollout."""
    with pytest.raises(SettingsInvalid, match="for example alb=aws:eu-west-1"):
        parse_data_planes([text])


def test_without_the_library_the_remedy_is_told_at_the_start(
    server: SimServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an extra: most clusters are not AWS's."""

    class Missing(importlib.abc.MetaPathFinder):
        def find_spec(self, name: str, *_: object) -> None:
            if name.partition(".")[0] == "botocore":
                raise ImportError(name)

    for name in [each for each in sys.modules if each.partition(".")[0] == "botocore"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])

    with pytest.raises(SettingsInvalid, match=r"requirements-aws\.lock, or pip install '\.\[aws\]'"):
        NamedDataPlanes(parse_data_planes(["alb=aws:eu-west-1"]), clock=SystemClock(), api=server)


def test_nobody_pays_for_aws_without_it() -> None:
    """The library has 20 MiB; it is loaded where an ALB is named, and nowhere else."""
    code = """
        import sys
        from rollouts.clock import SystemClock
        from rollouts.probes.named_planes import parse_data_planes
        from rollouts.probes.planes import NamedDataPlanes
        import rollouts.controller.wiring
        NamedDataPlanes(parse_data_planes(["*=envoy:http://a"]), clock=SystemClock())
        assert "botocore" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=60)
