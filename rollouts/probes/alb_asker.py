"""Asks AWS what the load balancers of Ingresses do: rarely, one question at a time, and only while a pass waits for the answer.

It uses botocore, AWS's own library, which finds credentials where AWS's tools do (web identity of a service account, pod
identity, environment, the node's role), renews them, signs requests, and knows the endpoints. It blocks, so it runs in a thread.

AWS allows an account 40 Describe calls in a region and 10 more each second, including those of the AWS Load Balancer Controller,
and refuses more (Elastic Load Balancing user guide, "Request throttling"). This module makes at most 4 a second, those of one
question in a row, and none for a while after a refusal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from rollouts.core.model.traffic import RouteName
from rollouts.errors import ApiUnavailable, SettingsInvalid, Unanswered
from rollouts.objects import ENDPOINT_SLICE, Kind
from rollouts.ports import ApiServer, Clock, LiveQuestion, Request
from rollouts.probes.alb import (
    RESOURCE_TAG,
    SERVICE_LABEL,
    Listener,
    TargetGroup,
    bound_groups,
    endpoints_of,
    is_of,
    judged_rules,
    judged_targets,
)
from rollouts.probes.verdict import Judgement
from rollouts.recent import Recent

EACH_CALL_S = 0.25
"""How long each call delays the next question."""

BETWEEN_ROUNDS_S = 2.0
"""Pause between two questions about the same Ingress. Its controller takes seconds to minutes for a change."""

QUIET_FIRST_S, QUIET_MOST_S = 4.0, 64.0

BINDING = Kind("elbv2.k8s.aws", "v1beta1", "TargetGroupBinding", "targetgroupbindings")

_KEPT = 1_000  # target groups and Ingresses that are kept
_RULES_KEPT = 16  # load balancers, with up to some hundred rules each
_ARNS_AT_ONCE = 20  # limit of DescribeTags
_OK, _FORBIDDEN, _NOT_FOUND = 200, 403, 404
_THROTTLED = frozenset({"Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException"})
_CONNECT_S, _READ_S = 2.0, 4.0  # a thread cannot be cancelled


class LoadBalancers:
    """The load balancers of one region and account. Raises: SettingsInvalid, when botocore is not installed."""

    def __init__(self, region: str, *, api: ApiServer, clock: Clock) -> None:
        try:
            import botocore.session  # noqa: F401, PLC0415 - 20 MiB that only those with an ALB pay
        except ImportError as exc:
            raise SettingsInvalid(
                "--data-plane: alb=aws:… needs botocore, and it is not installed: make image REQUIREMENTS=requirements-aws.lock,"
                " or pip install '.[aws]' in the source tree"
            ) from exc
        self._region = region
        self._api = api
        self._clock = clock
        self._client: Any = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="aws")
        self._turn = asyncio.Lock()
        self._free_at_s = 0.0
        self._quiet_s = 0.0
        self._quiet_until_s = 0.0
        self._asked: Recent[RouteName, float] = Recent(_KEPT)
        self._tags: Recent[str, str] = Recent(_KEPT)
        self._rules: Recent[str, tuple[float, tuple[Listener, ...]]] = Recent(_RULES_KEPT)

    async def live(self, question: LiveQuestion, *, deadline_s: float) -> Judgement:
        """Whether the load balancer of the route, an Ingress, follows it.

        Cancellation: safe. Raises: nothing that AWS could cause.
        """
        asked_s = self._clock.monotonic_s()
        try:
            async with asyncio.timeout(deadline_s):
                await asyncio.sleep(max(0.0, self._asked.get(question.route, 0.0) + BETWEEN_ROUNDS_S - asked_s))
                async with self._turn:
                    await asyncio.sleep(max(0.0, self._free_at_s - self._clock.monotonic_s()))
                    self._asked[question.route] = self._clock.monotonic_s()
                    found = await self._judged(question, asked_s)
        except TimeoutError:
            return Judgement(False, f"aws {self._region}: no answer within {deadline_s:g} s", evidence=False)
        except (Unanswered, ApiUnavailable) as exc:
            return Judgement(False, f"aws {self._region}: {exc}", evidence=False)
        return Judgement(found.live, f"aws {self._region}: {found.message}" if found.message else "")

    async def aclose(self) -> None:
        """Closes connections; safe to call twice. A call that is under way ends by itself within seconds."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._client is not None:
            self._client.close()

    async def _judged(self, question: LiveQuestion, asked_s: float) -> Judgement:
        split = question.split
        groups = await self._groups(question)
        needed = [question.stable_service] + ([question.canary_service] if split.share else [])
        for service in needed:
            if not any(group.service == service for group in groups):
                return Judgement(False, f"{question.route} has no target group for Service {service} yet")
        listeners = await self._listeners(groups, asked_s)
        if not listeners:
            return Judgement(False, f"no load balancer has the target groups of {question.route} yet")
        found = judged_rules(listeners, groups, question)
        if not found.live:
            return found
        serving = {question.stable_service} if split.share != 1 else set[str]()
        serving |= {question.canary_service} if split.share != 0 else set[str]()
        targets = [await self._targets(group, question) for group in groups if group.service in serving]
        return next((target for target in targets if not target.live), found)

    async def _groups(self, question: LiveQuestion) -> tuple[TargetGroup, ...]:
        """The target groups of this Ingress for the two Services."""
        namespace = question.namespace or question.route.namespace
        listing = await self._list(BINDING, namespace, {})
        try:
            groups = bound_groups(listing, question)
        except msgspec.DecodeError as exc:
            raise Unanswered(f"the controller cannot read TargetGroupBindings: {exc}") from exc
        unknown = [group.arn for group in groups if group.arn not in self._tags]
        for start in range(0, len(unknown), _ARNS_AT_ONCE):
            arns = unknown[start : start + _ARNS_AT_ONCE]
            for told in (await self._call("describe_tags", ResourceArns=arns)).get("TagDescriptions", ()):
                tags = {tag["Key"]: tag.get("Value", "") for tag in told.get("Tags", ())}
                if RESOURCE_TAG in tags:
                    self._tags[told["ResourceArn"]] = tags[RESOURCE_TAG]
        return tuple(group for group in groups if is_of(group, self._tags.get(group.arn, ""), question))

    async def _listeners(self, groups: Sequence[TargetGroup], asked_s: float) -> tuple[Listener, ...]:
        """The listeners of all load balancers that have these groups, read after the question was asked."""
        arns = [group.arn for group in groups]
        told = await self._all("describe_target_groups", "TargetGroups", TargetGroupArns=arns)
        found: list[Listener] = []
        for balancer in dict.fromkeys(arn for one in told for arn in one.get("LoadBalancerArns", ())):
            began_s, listeners = self._rules.get(balancer, (0.0, ()))
            if began_s < asked_s:  # otherwise another Ingress of the same group has read it meanwhile
                began_s = self._clock.monotonic_s()
                described = await self._all("describe_listeners", "Listeners", LoadBalancerArn=balancer)
                listeners = tuple(
                    [
                        Listener(
                            port=listener.get("Port", 0),
                            rules=await self._all("describe_rules", "Rules", ListenerArn=listener["ListenerArn"]),
                        )
                        for listener in described
                    ]
                )
                self._rules[balancer] = began_s, listeners
            found += listeners
        return tuple(found)

    async def _targets(self, group: TargetGroup, question: LiveQuestion) -> Judgement:
        namespace = question.namespace or question.route.namespace
        health = await self._call("describe_target_health", TargetGroupArn=group.arn)
        # Read after the health: an endpoint that is new since then causes another question; one that is gone would count.
        listing = await self._list(ENDPOINT_SLICE, namespace, {"labelSelector": f"{SERVICE_LABEL}={group.service}"})
        try:
            endpoints = endpoints_of(listing, group)
        except msgspec.DecodeError as exc:
            raise Unanswered(f"the controller cannot read the EndpointSlices of {group.service}: {exc}") from exc
        return judged_targets(group, health.get("TargetHealthDescriptions", ()), endpoints)

    async def _list(self, kind: Kind, namespace: str, query: Mapping[str, str]) -> bytes:
        """Lists objects of a kind. Raises: Unanswered; ApiUnavailable."""
        response = await self._api.request(Request("GET", kind.path(namespace), query), deadline_s=_READ_S)
        if response.status == _OK:
            return response.body
        remedy = {
            _FORBIDDEN: f"the controller needs get and list of {kind.plural}.{kind.group}",
            _NOT_FOUND: "check that the AWS Load Balancer Controller is installed",
        }.get(response.status, "")
        raise Unanswered(f"the API server answers {response.status} for {kind.plural} in {namespace}; {remedy}")

    async def _all(self, operation: str, items: str, **parameters: Any) -> list[dict[str, Any]]:
        """The items of all pages. Raises: Unanswered."""
        found: list[dict[str, Any]] = []
        while True:
            page = await self._call(operation, **parameters)
            found += page.get(items, ())
            if not (marker := page.get("NextMarker")):
                return found
            parameters["Marker"] = marker

    async def _call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """Makes one call to AWS. Raises: Unanswered."""
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - loaded when there is an ALB

        now_s = self._clock.monotonic_s()
        if now_s < self._quiet_until_s:
            raise Unanswered(
                f"AWS throttles the requests; the controller asks again in {self._quiet_until_s - now_s:.0f} s"
            )
        self._free_at_s = max(now_s, self._free_at_s) + EACH_CALL_S
        try:
            found: dict[str, Any] = await asyncio.get_running_loop().run_in_executor(
                self._thread, self._blocking, operation, parameters
            )
        except ClientError as exc:
            error = exc.response.get("Error", {})
            if error.get("Code") in _THROTTLED:
                self._quiet_s = min(QUIET_MOST_S, max(QUIET_FIRST_S, 2 * self._quiet_s))
                self._quiet_until_s = self._clock.monotonic_s() + self._quiet_s
                raise Unanswered(
                    f"AWS throttles the requests; the controller asks again in {self._quiet_s:.0f} s"
                ) from exc
            raise Unanswered(f"{operation}: {error.get('Code', '')} {str(error.get('Message', ''))[:300]}") from exc
        except (BotoCoreError, OSError, ValueError) as exc:  # a missing token file, an invalid endpoint
            raise Unanswered(f"{operation}: {str(exc)[:300]}") from exc
        self._quiet_s = 0.0
        return found

    def _blocking(self, operation: str, parameters: Mapping[str, Any]) -> Any:
        if self._client is None:
            import botocore.session  # noqa: PLC0415 - loaded when there is an ALB
            from botocore.config import Config  # noqa: PLC0415

            config = Config(connect_timeout=_CONNECT_S, read_timeout=_READ_S, retries={"total_max_attempts": 1})
            session = botocore.session.get_session()
            session.set_default_client_config(config)  # also for the calls that fetch credentials
            self._client = session.create_client("elbv2", region_name=self._region)
        return getattr(self._client, operation)(**parameters)
