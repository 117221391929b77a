"""Promise: an action annotation means here what it means to the AWS Load Balancer Controller, and no other Ingress is touched.

The controller decodes the JSON with Go's encoding/json, which takes keys without regard to case; what Argo Rollouts leaves behind
has `Type` and `ForwardConfig`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import MatchKind, RequestMatch, Split, TextMatch
from rollouts.errors import SpecInvalid, Unroutable
from rollouts.objects import Manifest
from rollouts.traffic.alb import codec as alb
from rollouts.traffic.alb.rules import rules_of
from rollouts.traffic.codec import Destination
from tests.traffic.situation import A_TENTH, CONTEXT, Situation

ACTION = "alb.ingress.kubernetes.io/actions.cart"


def by_argo(canary: int, stable: int) -> Manifest:
    """As Argo Rollouts writes it."""
    groups = [
        {"ServiceName": "cart-canary", "ServicePort": "80", "Weight": canary},
        {"ServiceName": "cart", "ServicePort": "80", "Weight": stable},
    ]
    return {"Type": "forward", "ForwardConfig": {"TargetGroups": groups}}


BY_ARGO = by_argo(20, 80)


def ingress(
    action: Any = None, *, service: str = "cart", port: Any = None, spec: Manifest | None = None, **settings: Any
) -> Situation:
    """An Ingress named cart whose one path leads to a Service by its annotation."""
    backend = {"service": {"name": service, "port": port or {"name": "use-annotation"}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    text = action if isinstance(action, str) else json.dumps(action)
    user: Manifest = {
        "metadata": {"name": "cart", "namespace": "shop", **({"annotations": {ACTION: text}} if action else {})},
        "spec": spec or {"rules": [{"http": {"paths": paths}}]},
    }
    return Situation.of(alb.PROVIDER, {"ingress": "cart", "servicePort": 80, **settings}, user)


def action_of(situation: Situation) -> Any:
    return json.loads(situation.objects.user["metadata"]["annotations"][ACTION])


@pytest.mark.parametrize(
    ("path", "kind", "want"),
    [
        ("/a", "Exact", TextMatch(MatchKind.EXACT, "/a")),
        ("/a/", "Prefix", TextMatch(MatchKind.PREFIX, "/a")),
        ("/", "Prefix", None),
        ("/a", "ImplementationSpecific", TextMatch(MatchKind.EXACT, "/a")),
        ("/a/*", "ImplementationSpecific", TextMatch(MatchKind.PREFIX, "/a")),
        ("/*", "ImplementationSpecific", None),
        ("*", "ImplementationSpecific", None),
    ],
)
def test_a_path_takes_the_requests_that_its_type_says(path: str, kind: str, want: TextMatch | None) -> None:
    """`ImplementationSpecific` is AWS's own pattern, in which a star stands for the rest."""
    backend = {"service": {"name": "cart", "port": {"number": 80}}}
    rules = [{"http": {"paths": [{"path": path, "pathType": kind, "backend": backend}]}}]

    (rule,) = rules_of({"spec": {"rules": rules}}, CONTEXT, root="cart", prefix="alb.ingress.kubernetes.io")

    assert rule.requests == (RequestMatch(path=want),)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["a"], MatchKind.EXACT),
        (["a*"], MatchKind.REGEX),
        (["a?"], MatchKind.REGEX),
        (["a", "b"], MatchKind.REGEX),
        ([], MatchKind.REGEX),
    ],
)
def test_a_condition_with_a_pattern_is_no_literal_value(values: list[str], kind: MatchKind) -> None:
    """AWS takes a star for any characters, a question mark for one, and any of several values."""
    header = {"field": "http-header", "httpHeaderConfig": {"httpHeaderName": "X-Beta", "values": values}}
    parameter = {"field": "query-string", "queryStringConfig": {"values": [{"key": "beta", "value": "".join(values)}]}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "cart", "port": {"number": 80}}}}]
    prefix = "alb.ingress.kubernetes.io"
    user: Manifest = {
        "metadata": {"annotations": {f"{prefix}/conditions.cart": json.dumps([header, parameter])}},
        "spec": {"rules": [{"http": {"paths": paths}}]},
    }

    (rule,) = rules_of(user, CONTEXT, root="cart", prefix=prefix)

    ((of_header,), (of_query,)) = rule.requests[0].headers, rule.requests[0].query
    assert (of_header.name, of_header.value.kind) == ("x-beta", kind)
    assert of_query.name == "beta"
    assert (of_query.value.kind is MatchKind.EXACT) is ("".join(values) in ("a", "ab"))


def test_an_action_that_argo_rollouts_left_is_taken_over() -> None:
    """A team that moves over has it on the Ingress: no second key beside `Weight`, and the text comes back to the letter."""
    start = ingress(BY_ARGO)

    managed = start.managed(A_TENTH)

    assert start.read().share == Fraction(1, 5)
    assert action_of(managed) == by_argo(10, 90)
    assert managed.read() == A_TENTH
    assert managed.given_back().objects == start.objects


def test_alb_target_groups_of_others_stay() -> None:
    """Also in the text that comes back when all is given back: the user's own, to the letter."""
    groups = [{"serviceName": "cart", "servicePort": 80, "weight": 90}, {"targetGroupARN": "arn:other", "weight": 10}]
    start = ingress(json.dumps({"type": "forward", "forwardConfig": {"targetGroups": groups}}, indent=2))

    managed = start.managed(A_TENTH)

    found = action_of(managed)["forwardConfig"]["targetGroups"]
    assert [each["weight"] for each in found] == [81, 10, 9]
    assert found[1] == groups[1]
    assert managed.given_back().objects == start.objects


def test_an_action_is_needed_before_any_weight() -> None:
    """`use-annotation` without an annotation is an error page: so the action is written at weight 0 too."""
    assert not ingress().read().whole
    written = action_of(ingress().managed(Split(Fraction(0))))
    assert [each["weight"] for each in written["forwardConfig"]["targetGroups"]] == [100, 0]


def _recased(value: Any, draw: st.DrawFn) -> Any:
    match value:
        case dict():
            spelled: st.SearchStrategy[Callable[[str], str]] = st.sampled_from([str, str.lower, str.upper, str.title])
            return {draw(spelled)(name): _recased(part, draw) for name, part in value.items()}
        case list():
            return [_recased(item, draw) for item in value]
    return value


@given(data=st.data())
def test_the_case_of_a_key_means_nothing(data: st.DataObject) -> None:
    """However each key is spelled it reads the same, a write adds no second spelling, and giving back restores the first."""
    spelled = data.draw(st.composite(lambda draw: _recased(BY_ARGO, draw))())
    start = ingress(spelled)

    managed = start.managed(A_TENTH)

    assert start.read().share == ingress(BY_ARGO).read().share
    assert json.dumps(action_of(managed)).lower() == json.dumps(action_of(ingress(BY_ARGO).managed(A_TENTH))).lower()
    assert managed.given_back().objects == start.objects


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ({**BY_ARGO, "forwardConfig": {}}, "ForwardConfig and forwardConfig"),
        ({**BY_ARGO, "Type": "redirect"}, "redirect"),
        ({"forwardConfig": {"targetGroups": [{"serviceName": "cart", "weight": "many"}]}}, "weight"),
        ({"forwardConfig": {"targetGroups": [{"serviceName": "cart", "weight": -1}]}}, "weight"),
        ({"forwardConfig": {"targetGroups": ["cart"]}}, "targetGroups"),
        ({"forwardConfig": {"targetGroups": [{"serviceName": 1}]}}, "serviceName that is not a text"),
        ([1], "has type in something that is not an object"),
        ("no json", "action"),
        ("[]", "action"),
        ({"forwardConfig": {}}, "action"),
        ({"forwardConfig": {"targetGroups": []}}, "action"),
    ],
)
def test_an_action_that_cannot_be_told_is_refused_with_the_reason(action: Any, words: str) -> None:
    """The last of two spellings wins in Go, and a redirect shares no requests: writing over either would lose what was meant."""
    with pytest.raises(Unroutable, match=words):
        ingress(action).read()


@pytest.mark.parametrize(
    "situation",
    [
        ingress(service="basket"),
        ingress(port={"number": 80}),
        ingress(spec={"defaultBackend": {"service": {"name": "cart", "port": {"number": 80}}}}),
        ingress(rootService="shop"),
    ],
    ids=["another Service", "a port of the Service", "a default backend with a port", "another root Service"],
)
def test_an_ingress_that_does_not_lead_through_the_action_is_refused(situation: Situation) -> None:
    """The annotation would have no effect: requests would go on as before, and the weight be believed."""
    for act in (situation.read, lambda: situation.plan(A_TENTH)):
        with pytest.raises(Unroutable, match=r"none of its paths leads to Service \w+ with the port name use-annot"):
            act()


def test_a_default_backend_may_lead_through_the_action() -> None:
    """AWS's controller resolves it as it does a path's."""
    backend = {"service": {"name": "cart", "port": {"name": "use-annotation"}}}

    assert ingress(spec={"defaultBackend": backend}).managed(A_TENTH).read() == A_TENTH


@pytest.mark.parametrize(
    ("config", "written"),
    [
        ({"enabled": False}, {"enabled": False}),
        ({"enabled": False, "durationSeconds": 0}, {"enabled": False}),
        ({}, {"enabled": False}),
        ({"enabled": True, "durationSeconds": 60}, {"enabled": True, "durationSeconds": 60}),
        ({"enabled": True}, {"enabled": True, "durationSeconds": 3600}),
    ],
)
def test_a_duration_counts_only_with_stickiness(config: Mapping[str, Any], written: Mapping[str, Any]) -> None:
    """Argo Rollouts looks at it only then, so manifests have 0 there."""
    found = action_of(ingress(stickinessConfig=config).managed(A_TENTH))["forwardConfig"]

    assert found["targetGroupStickinessConfig"] == written


def test_stickiness_that_was_there_is_replaced_under_its_own_spelling() -> None:
    """Two spellings would leave it to Go's decoder which one holds."""
    there = {"TargetGroupStickinessConfig": {"Enabled": True, "DurationSeconds": 5}}
    action = {**BY_ARGO, "ForwardConfig": {**BY_ARGO["ForwardConfig"], **there}}

    config = action_of(ingress(action, stickinessConfig={"enabled": False}).managed(A_TENTH))["ForwardConfig"]

    assert config["TargetGroupStickinessConfig"] == {"enabled": False}
    assert "targetGroupStickinessConfig" not in config


@pytest.mark.parametrize(
    ("settings", "path", "words"),
    [
        ({"stickinessConfig": {"enabled": True, "durationSeconds": 0}}, "stickinessConfig.durationSeconds",
            "1 to 604800"),
        ({"stickinessConfig": {"enabled": True, "durationSeconds": 604801}}, "stickinessConfig.durationSeconds",
            "1 to"),
        ({"rootService": "r" * 56}, "rootService", "55"),
        ({"annotationPrefix": "a b"}, "annotationPrefix", "prefix"),
        ({"annotationPrefix": "alb.io/x"}, "annotationPrefix", "prefix"),
        ({"ingress": "../cart"}, "ingress", "not a valid object name"),
        ({"ingresses": ["Cart"]}, "ingresses", "not a valid object name"),
        ({"servicePort": 70000}, "servicePort", "65535"),
    ],
)  # fmt: skip
def test_settings_that_the_api_server_or_aws_would_refuse_are_refused_first(
    settings: Mapping[str, Any], path: str, words: str
) -> None:
    """The name of an annotation has at most 63 characters after the prefix (Kubernetes, annotations: syntax)."""
    with pytest.raises(SpecInvalid) as refused:
        alb.PROVIDER.targets({"ingress": "cart", "servicePort": 80, **settings}, namespace="shop")

    (problem,) = refused.value.problems
    assert problem.path == path
    assert words in problem.message


def test_a_stable_service_whose_annotation_would_be_too_long_is_refused_with_the_way_out() -> None:
    """`rootService` gives the annotation another name."""
    name = "c" * 56
    situation = replace(ingress(service=name), context=replace(CONTEXT, stable=Destination(name)))

    with pytest.raises(Unroutable, match="rootService"):
        situation.read()
