"""Asks the data planes that the operator named two questions: is this split live, is this revision drained?

A data plane is the proxies of one Gateway. If its URL's host name has several addresses, each of them is a replica, and all are
asked at once: the slowest one counts. An error of a replica becomes an answer ("not live", "unknown") with its reason; it is
never an exception, and never evidence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar, assert_never
from urllib.parse import urlencode

import msgspec
import structlog

from rollouts.core.drain.query import PLACES, beyond_namespace, filled_query
from rollouts.core.model.drain import DrainProbe, EnvoyProbe, PrometheusProbe
from rollouts.core.model.snapshot import DrainSeen
from rollouts.core.model.traffic import LiveSeen, RouteName, VerifiedBy
from rollouts.errors import SettingsInvalid, Unanswered
from rollouts.metrics import prometheus
from rollouts.ports import ApiServer, Clock, DrainQuestion, LiveQuestion
from rollouts.probes import envoy, envoy_drain, traefik
from rollouts.probes.counter_series import Counters, selectors
from rollouts.probes.counters import judged_by_requests, window_s
from rollouts.probes.named_planes import (
    EVERY_GATEWAY,
    AwsPlane,
    CountedPlane,
    DataPlane,
    Plane,
    PlaneKind,
    kinds_told,
    parse_url,
)
from rollouts.probes.verdict import Judgement

if TYPE_CHECKING:
    from rollouts.probes.alb_asker import LoadBalancers
    from rollouts.probes.exchange import Asker, Replica

_T = TypeVar("_T")
_Get: TypeAlias = Callable[[str], Awaitable[bytes]]
"""The body of a replica's answer to a GET of that path."""
_SHOWN = 3  # replicas in a message
_SHORT_BYTES = 64 * 1024  # read in 5 ms; a gateway with 10,000 routes answers 4 MB, which take 0.3 s
_LOGGED = 500  # characters of a server's answer in a log; a status repeats none of it

log = structlog.get_logger()


class NamedDataPlanes:
    """Asks data planes. Each question is a few GETs with a deadline; nothing is kept between two questions.

    Args:
        prometheus_url: the operator's base URL of Prometheus' HTTP API (above `/api/v1/query`); "" for none.
        any_query: whether a drain probe's query may read all series; otherwise only those of its Rollout's namespace.
        ca_file: PEM file of certificate authorities to trust besides the public ones; None for none.
        api: the API server, to find the target groups of AWS's load balancers; needed only for these.

    Raises: SettingsInvalid for a `prometheus_url` that is invalid or missing, for a `ca_file` that cannot be used, and for a data
        plane of AWS without the library for it.
    """

    def __init__(
        self,
        planes: Mapping[str, Plane],
        *,
        prometheus_url: str = "",
        any_query: bool = False,
        ca_file: Path | None = None,
        clock: Clock,
        api: ApiServer | None = None,
    ) -> None:
        self._planes = dict(planes)
        counted = [name for name, plane in planes.items() if isinstance(plane, CountedPlane)]
        if counted and not prometheus_url:
            raise SettingsInvalid(f"--data-plane: {counted[0]} needs Prometheus; set --prometheus-url too")
        self._prometheus_url = parse_url("--prometheus-url", prometheus_url) if prometheus_url else ""
        self._any_query = any_query
        self._clock = clock
        self._asker: Asker | None = None
        self._aws: dict[AwsPlane, LoadBalancers] = {}
        for plane in planes.values():
            if isinstance(plane, AwsPlane):
                from rollouts.probes.alb_asker import LoadBalancers  # noqa: PLC0415 - only when it is needed

                if api is None:
                    raise ValueError("AWS is asked with the help of the API server")
                self._aws[plane] = LoadBalancers(plane.region, api=api, clock=clock)
        named = [plane for plane in planes.values() if isinstance(plane, DataPlane)]
        if named or prometheus_url:
            from rollouts.probes.exchange import Asker  # noqa: PLC0415 - httpx costs 5 MiB, so only when it is needed

            urls = (prometheus_url, *(url for plane in named for url in plane.urls))
            self._asker = Asker(tls=any(url.startswith("https:") for url in urls), ca_file=ca_file)

    def asked_by(self, route: RouteName, gateways: tuple[str, ...]) -> VerifiedBy | None:
        """How the route's data planes can be asked whether they follow it: the weakest way of several; None if one cannot be."""
        planes = self._of(gateways, router=route.router)
        if not planes or any(route.kind not in kinds_told(plane) for plane in planes):
            return None
        return _verified_by(planes)

    async def live(self, question: LiveQuestion, *, deadline_s: float) -> LiveSeen:
        """Whether every replica follows the route. Cancellation: safe. Raises: nothing that a proxy could cause."""
        at_s = self._clock.now_s()
        planes = self._of(question.gateways, router=question.route.router)
        judgements: list[Judgement] = []
        if not planes:
            judgements = [Judgement(False, f"no --data-plane names {' or '.join(question.gateways) or 'a gateway'}")]
        for answers in await asyncio.gather(*(self._live(plane, question, deadline_s) for plane in planes)):
            judgements += answers
        bad = [judgement.message for judgement in judgements if not judgement.live]
        return LiveSeen(
            at_s=at_s,
            resource_version=question.resource_version,
            live=not bad,
            by=_verified_by(planes),
            message="; ".join(_few(bad or [judgement.message for judgement in judgements if judgement.message])),
            evidence=not bad or any(judgement.evidence for judgement in judgements if not judgement.live),
        )

    async def drained(self, question: DrainQuestion, *, deadline_s: float) -> DrainSeen:
        """The requests in flight by the probes of the question; None when one of them has no answer.

        Several probes of the same kind may count the same requests, so the highest count is returned.

        Cancellation: safe. Raises: nothing that a proxy or Prometheus could cause.
        """
        at_s = self._clock.now_s()
        counts = await asyncio.gather(*(self._count(probe, question, deadline_s) for probe in question.probes))
        requests = [count for probe, (count, _) in zip(question.probes, counts, strict=True) if probe.max_s is None]
        streams = [count for probe, (count, _) in zip(question.probes, counts, strict=True) if probe.max_s is not None]
        ages_s = (probe.age_s for probe in question.probes if isinstance(probe, PrometheusProbe))
        return DrainSeen(
            at_s=at_s,
            in_flight=_most(requests, default=None),
            message="; ".join(_few([why for _, why in counts if why])),
            streams=_most(streams, default=0),
            age_s=max(ages_s, default=0.0),
        )

    async def aclose(self) -> None:
        """Closes connections; safe to call twice."""
        if self._asker is not None:
            await self._asker.aclose()
        for balancers in self._aws.values():
            await balancers.aclose()

    def _of(self, gateways: tuple[str, ...], *, router: str = "") -> tuple[Plane, ...]:
        """The data planes of these gateways; () when one of them has none."""
        every = self._planes.get(router, self._planes.get(EVERY_GATEWAY))
        found = [self._planes.get(gateway, every) for gateway in gateways] if gateways else [every]
        planes = tuple(dict.fromkeys(plane for plane in found if plane is not None))
        return () if None in found else planes

    async def _live(self, plane: Plane, question: LiveQuestion, deadline_s: float) -> list[Judgement]:
        match plane:
            case DataPlane():
                return await self._live_by_configuration(plane, question, deadline_s)
            case CountedPlane(counters):
                return [await self._live_by_requests(counters, question, deadline_s)]
            case AwsPlane():
                return [await self._aws[plane].live(question, deadline_s=deadline_s)]
            case never:
                assert_never(never)

    async def _live_by_requests(self, counters: Counters, question: LiveQuestion, deadline_s: float) -> Judgement:
        window = f"[{window_s(question, now_s=self._clock.now_s())}s]"
        queries = [f"{selector}{window}" for selector in selectors(counters, question)]
        if not queries:
            return Judgement(False, "the counters do not distinguish requests to its two Services", evidence=False)
        answers = await asyncio.gather(
            *(self._query(query, prometheus.series_of, deadline_s=deadline_s) for query in queries)
        )
        for found, why in answers:
            if found is None:
                return Judgement(False, why, evidence=False)
        series = [counter for found, _ in answers for counter in found or ()]
        return judged_by_requests(series, question, counters, now_s=self._clock.now_s())

    async def _live_by_configuration(
        self, plane: DataPlane, question: LiveQuestion, deadline_s: float
    ) -> list[Judgement]:
        async def judge(get: _Get) -> Judgement:
            match plane.kind:
                case PlaneKind.ENVOY:
                    routes, endpoints = await get(envoy.ROUTES), await get(envoy.endpoints_path(question))
                    return await _read(lambda: envoy.live_share(routes, endpoints, question), routes, endpoints)
                case PlaneKind.TRAEFIK:
                    raw = await get(traefik.RAW_DATA)
                    return await _read(lambda: traefik.live_share(raw, question), raw)
                case never:
                    assert_never(never)

        found = await self._each_replica(plane, judge, deadline_s=deadline_s)
        return [
            Judgement(False, f"{plane.kind} {answer}")
            if isinstance(answer, str)
            else Judgement(answer.live, f"{plane.kind} {replica}: {answer.message}" if answer.message else "")
            for replica, answer in found
        ]

    async def _count(self, probe: DrainProbe, question: DrainQuestion, deadline_s: float) -> tuple[int | None, str]:
        match probe:
            case PrometheusProbe():
                count, why = await self._count_by_query(probe, question, deadline_s)
            case EnvoyProbe():
                count, why = await self._count_by_envoys(question, deadline_s)
            case _:
                assert_never(probe)
        return count, f"probe {probe.name}: {why}" if why else ""

    async def _count_by_query(
        self, probe: PrometheusProbe, question: DrainQuestion, deadline_s: float
    ) -> tuple[int | None, str]:
        query = filled_query(probe.query, {name: getattr(question, name) for name in PLACES})
        if query is None:
            return None, "the query would contain something that is not a Kubernetes name"
        if not self._any_query and (beyond := beyond_namespace(query, question.namespace)):
            return None, (
                f"{beyond} may read beyond namespace {question.namespace}, so the controller does not send the query; write "
                'namespace="{{namespace}}" into each selector, or ask an administrator to set --drain-queries any'
            )
        return await self._query(
            query, prometheus.in_flight, deadline_s=deadline_s, most_bytes=prometheus.NUMBER_MAX_BYTES
        )

    async def _query(
        self,
        query: str,
        read: Callable[[bytes], tuple[_T | None, str]],
        *,
        deadline_s: float,
        most_bytes: int = prometheus.ANSWER_MAX_BYTES,
    ) -> tuple[_T | None, str]:
        """The result of `read` for the first Prometheus that answers; None and the reason when none does."""
        if self._asker is None or not self._prometheus_url:
            return None, "the controller has no --prometheus-url"
        path = f"{prometheus.QUERY_PATH}?{urlencode({'query': query, 'timeout': f'{deadline_s:g}'})}"
        why = ""
        try:
            for replica in await self._asker.replicas(self._prometheus_url, deadline_s=deadline_s):
                try:
                    body = await self._asker.get(replica, path, deadline_s=deadline_s, most_bytes=most_bytes)
                    return await _read(partial(read, body), body)
                except Unanswered as exc:  # another replica may answer
                    why = str(exc)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
                    why = f"{replica.display_name}: its answer cannot be read"
                    log.info("prometheus_answer_unreadable", address=replica.display_name, error=str(exc)[:_LOGGED])
        except Unanswered as exc:
            why = str(exc)
        return None, f"prometheus {why}"

    async def _count_by_envoys(self, question: DrainQuestion, deadline_s: float) -> tuple[int | None, str]:
        async def count(get: _Get) -> int | None:
            before = await get(envoy_drain.HOSTS)
            clusters = await _read(lambda: envoy_drain.clusters_of(before, question), before)
            if not clusters:
                return None
            active, after = await get(envoy_drain.ACTIVE), await get(envoy_drain.hosts_path(clusters))
            bodies = {"before": before, "active": active, "after": after}
            return await _read(partial(envoy_drain.requests_in_flight, **bodies, question=question), *bodies.values())

        if not question.addresses:
            return None, "the addresses of the revision's pods are unknown"
        planes = self._of(question.gateways) if question.gateways else tuple(dict.fromkeys(self._planes.values()))
        envoys = [plane for plane in planes if isinstance(plane, DataPlane) and plane.kind is PlaneKind.ENVOY]
        if not envoys:
            return None, "no --data-plane of kind envoy is set for it"
        found = await asyncio.gather(*(self._each_replica(plane, count, deadline_s=deadline_s) for plane in envoys))
        counts = [count for each in found for _, count in each]
        problems = [count for count in counts if isinstance(count, str)]
        if problems:
            return None, "; ".join(_few([f"envoy {problem}" for problem in problems]))
        known = [count for count in counts if isinstance(count, int)]
        return (sum(known), "") if known else (None, f"no Envoy has a cluster of Service {question.service}")

    async def _each_replica(
        self, plane: DataPlane, ask: Callable[[_Get], Awaitable[_T]], *, deadline_s: float
    ) -> list[tuple[str, _T | str]]:
        """The answer of each replica of a data plane, or why it has none, with the replica's address."""
        asker = self._asker
        if asker is None:
            return []

        async def answer_of(replica: Replica) -> tuple[str, _T | str]:
            try:
                async with asyncio.timeout(deadline_s):
                    return replica.display_name, await ask(partial(asker.get, replica, deadline_s=deadline_s))
            except Unanswered as exc:
                return replica.display_name, str(exc)
            except TimeoutError:
                return replica.display_name, f"{replica.display_name}: no answer within {deadline_s:g} s"
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
                log.info("data_plane_answer_unreadable", address=replica.display_name, error=str(exc)[:_LOGGED])
                return replica.display_name, f"{replica.display_name}: its answer cannot be read"

        async def all_of(url: str) -> list[tuple[str, _T | str]]:
            try:
                replicas = await asker.replicas(url, deadline_s=deadline_s)
            except Unanswered as exc:
                return [(url, str(exc))]
            return list(await asyncio.gather(*map(answer_of, replicas)))

        return [answer for answers in await asyncio.gather(*map(all_of, plane.urls)) for answer in answers]


async def _read(read: Callable[[], _T], *answers: bytes) -> _T:
    """What `read` makes of answers: in a thread when they are long, so that the loop goes on meanwhile."""
    if sum(map(len, answers)) <= _SHORT_BYTES:
        return read()
    return await asyncio.to_thread(read)


def _verified_by(planes: Sequence[Plane]) -> VerifiedBy:
    """The weakest way of those in which the planes tell it."""
    return VerifiedBy.COUNTERS if any(isinstance(plane, CountedPlane) for plane in planes) else VerifiedBy.CONFIG


def _most(counts: list[int | None], *, default: int | None) -> int | None:
    """The highest count; None when one is not known."""
    known = [count for count in counts if count is not None]
    return max(known, default=default) if len(known) == len(counts) else None


def _few(messages: list[str]) -> list[str]:
    rest = len(messages) - _SHOWN
    return [*messages[:_SHOWN], f"and {rest} more"] if rest > 0 else messages
