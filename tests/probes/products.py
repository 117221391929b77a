"""What products make of an object with rules, in the shape in which their data planes tell it; written from their sources.

It shares nothing with the readers of `rollouts.probes`: it goes from the object to the dump, and they go back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rollouts.objects import Manifest
from rollouts.ports import LiveQuestion
from rollouts.probes import envoy, traefik
from rollouts.probes.alb import Listener, TargetGroup, judged_rules
from rollouts.probes.verdict import Judgement
from tests.probes.dumps import NOTHING, contour_route, endpoints, locality, routes

Answer = Callable[[Manifest, LiveQuestion], Judgement]
"""What a reader says of a data plane that follows this object."""

_ARN = "arn:aws:elasticloadbalancing:eu-west-1:123456789012:targetgroup"
_GROUPS = tuple(TargetGroup(arn=f"{_ARN}/k8s-shop-{name}/aa", service=name) for name in ("cart", "cart-canary"))


def contour_of_routes(user: Manifest, asked: LiveQuestion) -> Judgement:
    """Contour 1.33: one entry for each match, one cluster for each Service."""
    entries: list[Manifest] = []
    for rule in user["spec"]["rules"]:
        backends = [(each["name"], each.get("weight", 1)) for each in rule.get("backendRefs") or ()]
        mirrors = [each for _, each in _filters(rule)]
        entries += [
            _entry(backends, mirrors, path=_path_of(match), headers=match.get("headers") or ())
            for match in rule.get("matches") or [{}]
        ]
    return envoy.live_share(_json(routes(*entries)), _json(NOTHING), asked)


def contour_of_proxies(user: Manifest, asked: LiveQuestion) -> Judgement:
    """Contour 1.33: an HTTPProxy that is included below `/shop`, and a listener that only sends clients to HTTPS."""
    entries = []
    for rule in user["spec"]["routes"]:
        conditions, services = rule.get("conditions") or (), rule.get("services") or ()
        prefix = next((each["prefix"] for each in conditions if "prefix" in each), "")
        told = [each["header"] for each in conditions if "header" in each]
        headers = [{"name": each["name"], "value": each["exact"]} for each in told]
        shared = [each for each in services if not each.get("mirror")]
        backends = [(each["name"], each.get("weight", int(len(shared) == 1))) for each in shared]
        mirrors = [(each["name"], each.get("weight", 100)) for each in services if each.get("mirror")]
        entries.append(_entry(backends, mirrors, path={"prefix": f"/shop{prefix}"}, headers=headers))
    upgrades = [{**each, "route": None, "redirect": {"https_redirect": True}} for each in entries]
    http, https = routes(*upgrades, config="ingress_http"), routes(*entries, config="https/shop.example")
    return envoy.live_share(_json({"configs": [*http["configs"], *https["configs"]]}), _json(NOTHING), asked)


def envoy_gateway(user: Manifest, asked: LiveQuestion) -> Judgement:
    """Envoy Gateway 1.9: one cluster for each rule, whose localities are its backends; one of weight 0 is missing."""
    entries, clusters = [], {}
    for at, rule in enumerate(user["spec"]["rules"]):
        name = f"httproute/shop/cart/rule/{at}"
        clusters[name] = [
            locality(f"{name}/backend/{index}", backend.get("weight", 1), f"10.0.{at}.{index}")
            for index, backend in enumerate(rule.get("backendRefs") or ())
            if backend.get("weight", 1)
        ]
        policies = []
        for index, (_, percent) in _filters(rule):
            clusters[f"{name}-mirror-{index}"] = [locality(f"{name}-mirror-{index}/backend/-1", 1, "10.0.9.9")]
            policies.append(_policy(f"{name}-mirror-{index}", percent))
        for number, match in enumerate(rule.get("matches") or [{}]):
            action: Manifest = {"redirect": {"host_redirect": "x"}}
            if rule.get("backendRefs"):
                action = {"route": {"cluster": name, "request_mirror_policies": policies}}
            said = {**_path_of(match), "headers": [_header(each) for each in match.get("headers") or ()]}
            entries.append({"name": f"{name}/match/{number}/shop_example", "match": said, **action})
    return envoy.live_share(_json(routes(*entries)), _json(endpoints(**clusters)), asked)


def traefik_of_routes(user: Manifest, asked: LiveQuestion) -> Judgement:
    """Traefik 3.7: one router for each match, and one weighted service for each router."""
    found: dict[str, Any] = {"routers": {}, "services": {"noop@internal": {}}}
    for at, rule in enumerate(user["spec"]["rules"]):
        for number, match in enumerate(rule.get("matches") or [{}]):
            name = f"httproute-shop-cart-gw-infra-web-ep-web-{at}-{number}1c0cf64bde51d9d0df06"
            services = [
                {"name": f"{name}-svc-shop-{each['name']}-{index}", "weight": each.get("weight", 1)}
                for index, each in enumerate(rule.get("backendRefs") or ())
            ]
            for each in services:
                found["services"][f"{each['name']}@kubernetesgateway"] = {"loadBalancer": {"servers": []}}
            found["services"][f"{name}-wrr@kubernetesgateway"] = {"weighted": {"services": services}}
            to = f"{name}-wrr" if services else "noop@internal"
            found["routers"][f"{name}@kubernetesgateway"] = {"rule": _rule(match), "service": to, "status": "enabled"}
    return traefik.live_share(_json(found), asked)


def load_balancer(user: Manifest, asked: LiveQuestion) -> Judgement:
    """AWS Load Balancer Controller 2: one rule for each path, by its conditions; `use-annotation` names an action."""
    annotations = user["metadata"]["annotations"]
    arns = {each.service: each.arn for each in _GROUPS}
    rules = []
    for priority, path in enumerate(user["spec"]["rules"][0]["http"]["paths"], 1):
        service = path["backend"]["service"]
        groups = [{"serviceName": service["name"], "weight": 1}]
        if service["port"].get("name") == "use-annotation":
            action = json.loads(annotations[f"alb.ingress.kubernetes.io/actions.{service['name']}"])
            if action["type"] != "forward":
                rules.append({"Priority": str(priority), "Actions": [{"Type": action["type"]}], "Conditions": []})
                continue
            groups = action["forwardConfig"]["targetGroups"]
        targets = [
            {"TargetGroupArn": arns.get(name := each["serviceName"], f"{_ARN}/{name}/cc"), "Weight": each["weight"]}
            for each in groups
        ]
        values = ["/*"] if path["path"] == "/" else [path["path"], f"{path['path']}/*"]
        conditions: list[dict[str, Any]] = [{"Field": "path-pattern", "PathPatternConfig": {"Values": values}}]
        for each in json.loads(annotations.get(f"alb.ingress.kubernetes.io/conditions.{service['name']}", "[]")):
            config = each["httpHeaderConfig"]
            told = {"HttpHeaderName": config["httpHeaderName"], "Values": config["values"]}
            conditions.append({"Field": "http-header", "HttpHeaderConfig": told})
        forward = {"Type": "forward", "ForwardConfig": {"TargetGroups": targets}}
        rules.append({"Priority": str(priority), "Actions": [forward], "Conditions": conditions})
    return judged_rules([Listener(port=80, rules=rules)], _GROUPS, asked)


Weights = Sequence[tuple[str, int]]


def _entry(backends: Weights, mirrors: Weights, *, path: Manifest, headers: Sequence[Manifest]) -> Manifest:
    match = {**path, "headers": [_header(each) for each in headers]}
    if not backends:
        origin = contour_route(("nothing", 1))["metadata"]
        return {"match": match, "redirect": {"host_redirect": "x"}, "metadata": origin}
    policies = [_policy(f"shop/{name}/80/da39a3ee5e", percent) for name, percent in mirrors]
    more = {"request_mirror_policies": policies} if policies else {}
    return {**contour_route(*backends, **more), "match": match}


def _filters(rule: Manifest) -> Iterator[tuple[int, tuple[str, int]]]:
    for index, each in enumerate(rule.get("filters") or ()):
        if (mirror := each.get("requestMirror")) is not None:
            yield index, (mirror["backendRef"]["name"], mirror.get("percent", 100))


def _policy(cluster: str, percent: int) -> Manifest:
    fraction = {"default_value": {"numerator": percent * 10_000, "denominator": "MILLION"}}
    return {"cluster": cluster, "runtime_fraction": fraction}


def _path_of(match: Manifest) -> Manifest:
    path = match.get("path") or {"type": "PathPrefix", "value": "/"}
    if path["type"] == "Exact":
        return {"path": path["value"]}
    return {"prefix": "/"} if path["value"] == "/" else {"path_separated_prefix": path["value"]}


def _header(header: Manifest) -> Manifest:
    return {"name": header["name"], "string_match": {"exact": header["value"]}}


def _rule(match: Manifest) -> str:
    path = match.get("path") or {"type": "PathPrefix", "value": "/"}
    text = f'Path("{path["value"]}")'
    if path["type"] == "PathPrefix":
        text = 'PathPrefix("/")' if path["value"] == "/" else f'({text} || PathPrefix("{path["value"]}/"))'
    headers = [f' && Header("{each["name"]}","{each["value"]}")' for each in match.get("headers") or ()]
    return f'Host("shop.example") && {text}{"".join(headers)}'


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
