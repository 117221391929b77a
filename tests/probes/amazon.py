"""A load balancer in an AWS on loopback (moto), and what the AWS Load Balancer Controller leaves in the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import botocore.session
import msgspec

from rollouts.clock import SystemClock
from rollouts.objects import ENDPOINT_SLICE, Kind, Manifest
from rollouts.ports import Request
from rollouts.probes.alb import RESOURCE_TAG, SERVICE_LABEL
from rollouts.probes.alb_asker import BINDING
from rollouts.sim.apiserver.server import SimServer

REGION = "eu-west-1"
_NAMES = {"kind": BINDING.kind, "plural": BINDING.plural, "singular": BINDING.kind.lower(), "listKind": "x"}
_SCHEMA = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
_VERSION = {"name": BINDING.version, "served": True, "storage": True, "schema": _SCHEMA}
BINDING_CRD: Manifest = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{BINDING.plural}.{BINDING.group}"},
    "spec": {"group": BINDING.group, "scope": "Namespaced", "names": _NAMES, "versions": [_VERSION]},
}
_NETWORKS = count()


class Balancer:
    """A load balancer with a listener on port 80 and target groups of type ip.

    Args:
        endpoint: where this AWS answers.
    """

    def __init__(self, endpoint: str) -> None:
        session = botocore.session.get_session()
        self.elb: Any = session.create_client("elbv2", region_name=REGION, endpoint_url=endpoint)
        ec2: Any = session.create_client("ec2", region_name=REGION, endpoint_url=endpoint)
        network = next(_NETWORKS)
        self._vpc = ec2.create_vpc(CidrBlock=f"10.{network}.0.0/16")["Vpc"]["VpcId"]
        subnets = [
            ec2.create_subnet(VpcId=self._vpc, CidrBlock=f"10.{network}.{at}.0/24", AvailabilityZone=f"{REGION}{zone}")
            for at, zone in enumerate("ab")
        ]
        made = self.elb.create_load_balancer(
            Name=f"web-{network}", Subnets=[each["Subnet"]["SubnetId"] for each in subnets], Scheme="internal"
        )
        self.arn: str = made["LoadBalancers"][0]["LoadBalancerArn"]
        self._network = network
        self._rule = ""
        self.listener = self.listens(80)

    def listens(self, port: int) -> str:
        """A listener that answers 404 by itself."""
        refused = {"Type": "fixed-response", "FixedResponseConfig": {"StatusCode": "404", "ContentType": "text/plain"}}
        made = self.elb.create_listener(LoadBalancerArn=self.arn, Protocol="HTTP", Port=port, DefaultActions=[refused])
        arn: str = made["Listeners"][0]["ListenerArn"]
        return arn

    def group(self, service: str, *, ingress: str = "shop/cart") -> str:
        """A target group as the AWS Load Balancer Controller makes one for a Service of an Ingress."""
        made = self.elb.create_target_group(
            Name=f"k8s-{self._network}-{service}-{len(ingress)}",
            Protocol="HTTP",
            Port=8080,
            VpcId=self._vpc,
            TargetType="ip",
            Tags=[{"Key": RESOURCE_TAG, "Value": f"{ingress}-{service}:80"}],
        )
        arn: str = made["TargetGroups"][0]["TargetGroupArn"]
        return arn

    def forwards(self, weights: Mapping[str, int]) -> None:
        """The rule of all paths on port 80 shares so between target groups."""
        groups = [{"TargetGroupArn": arn, "Weight": weight} for arn, weight in weights.items()]
        actions = [{"Type": "forward", "ForwardConfig": {"TargetGroups": groups}}]
        if self._rule:
            self.elb.modify_rule(RuleArn=self._rule, Actions=actions)
            return
        paths = [{"Field": "path-pattern", "Values": ["/*"]}]
        made = self.elb.create_rule(ListenerArn=self.listener, Priority=1, Conditions=paths, Actions=actions)
        self._rule = made["Rules"][0]["RuleArn"]

    def adds_rules(self, listener: str, *, others: int, last: str) -> None:
        """So many rules that answer by themselves, and one that forwards to that target group alone."""
        refused = {"Type": "fixed-response", "FixedResponseConfig": {"StatusCode": "403", "ContentType": "text/plain"}}
        forward = {"Type": "forward", "TargetGroupArn": last}
        for at, action in enumerate([refused] * others + [forward], start=1):
            path = [{"Field": "path-pattern", "Values": [f"/{at}"]}]
            self.elb.create_rule(ListenerArn=listener, Priority=at, Conditions=path, Actions=[action])

    def registers(self, group: str, *addresses: str) -> None:
        self.elb.register_targets(TargetGroupArn=group, Targets=[{"Id": each, "Port": 8080} for each in addresses])

    def deregisters(self, group: str, *addresses: str) -> None:
        self.elb.deregister_targets(TargetGroupArn=group, Targets=[{"Id": each, "Port": 8080} for each in addresses])


async def shop(crds: Sequence[Manifest] = (BINDING_CRD,)) -> SimServer:
    server = SimServer(clock=SystemClock(), crds=list(crds))
    await _create(server, None, Kind("", "v1", "Namespace", "namespaces"), {"metadata": {"name": "shop"}})
    return server


async def bind(server: SimServer, service: str, group: str) -> None:
    spec = {"serviceRef": {"name": service, "port": 80}, "targetGroupARN": group, "targetType": "ip"}
    await _create(server, "shop", BINDING, {"metadata": {"generateName": f"{service}-"}, "spec": spec})


async def serve(server: SimServer, service: str, ready: Sequence[str]) -> None:
    endpoints = [{"addresses": [each], "conditions": {"ready": True}} for each in ready]
    metadata = {"generateName": f"{service}-", "labels": {SERVICE_LABEL: service}}
    body = {"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints}
    await _create(server, "shop", ENDPOINT_SLICE, body)


async def _create(server: SimServer, namespace: str | None, kind: Kind, body: Manifest) -> None:
    manifest = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
    request = Request("POST", kind.path(namespace), body=msgspec.json.encode(manifest))
    answer = await server.request(request, deadline_s=5.0)
    assert answer.status == 201, answer.body
