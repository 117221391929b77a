"""Promise: a router that shares by weights in lists needs no code; a wrong declaration says so before it manages anything.

It may say how a rule is copied for requests with a header, so that `setHeaderRoute` works as elsewhere, and whom to ask whether
the router does it. What answers mean is tried before anybody relies on it. A router that needs code may come in a package.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from rollouts.controller.providers.declarations import provider_of
from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import Answer, Feature, MatchKind, MatchRoute, Split, TextMatch
from rollouts.errors import ExpressionFailed, SpecInvalid, Unroutable
from rollouts.objects import Manifest
from rollouts.traffic.codec import Destination
from rollouts.traffic.contour import codec as contour
from rollouts.traffic.declared.codec import declared
from rollouts.traffic.declared.probe import DeclaredProbe
from rollouts.traffic.registry import installed, registry
from tests.traffic.cases.declared import APISIX, GLOO, IN_CEL, assert_refused, with_headers
from tests.traffic.situation import CONTEXT, Situation, by_header

PAGE = (Path(__file__).parents[3] / "docs" / "traffic-declared-routers.md").read_text()
COSTLY = "[1, 2, 3, 4, 5].all(a, [1, 2, 3, 4, 5].all(b, a > b || true)) ? string(item.serviceName) : ''"
BAD: list[tuple[Mapping[str, Any], str]] = [
    ({**APISIX, "backends": "spec.http"}, "backends: must be a path to a list"),
    ({**APISIX, "match": {"group": "g", "kind": "K", "plural": "ks"}}, "match.versions: is required"),
    ({**APISIX, "match": None}, "match: is required"),
    ({**APISIX, "tests": []}, "tests: is required"),
    ({**APISIX, "lua": "x"}, "lua: unknown field"),
    ({**APISIX, "service": "name"}, "tests[0].object: cannot be managed"),
    ({**APISIX, "weight": {"path": "share"}}, "tests[0].result: differs from the object"),
    ({**APISIX, "tests": [{**APISIX["tests"][0], "canaryPercent": 20}]}, "tests[0].result: differs from the object"),
    ({**APISIX, "tests": [{"object": {}, "canaryPercent": 1}]}, "tests[0].result: must be an object"),
    ({**APISIX, "tests": [{**APISIX["tests"][0], "canaryPercent": 101}]}, "tests[0].canaryPercent: must be 0 to 100"),
    ({**APISIX, "tests": [{**APISIX["tests"][0], "canaryPercent": None}]}, "tests[0].canaryPercent: is required"),
    ({**APISIX, "service": {}}, "service: exactly one of path and cel is required"),
    ({**APISIX, "service": {"path": "serviceName", "cel": "item.a"}}, "service: exactly one of path and cel"),
    ({**APISIX, "service": {"cel": "item.serviceName +"}}, "service.cel: Syntax error"),
    ({**APISIX, "service": {"cel": "size(item)"}}, "service.cel: must give a string, not INT"),
    ({**APISIX, "service": {"cel": "item.name"}}, "tests[0].object: cannot be managed"),
    ({**APISIX, "accepted": {"cel": "object.ok", "type": "Ready"}}, "accepted: cel excludes conditions and type"),
    ({**APISIX, "accepted": {"cel": "'yes'"}}, "accepted.cel: must give a bool, not STRING"),
    ({**APISIX, "accepted": {"type": "Ready"}}, "accepted.conditions: is required"),
    ({**APISIX, "tests": [{**APISIX["tests"][0], "note": "x" * 13_000}]}, "tests: has 13"),
    ({**APISIX, "accepted": {"cel": "[object.a]" + ".map(x, x + x + x)" * 4 + "[0] == 1"}},
        "accepted.cel: may cost too much for any input"),
    ({**APISIX, "service": {"cel": COSTLY}}, "tests: cost too much together"),
    ({**APISIX, "settleSeconds": 301}, "settleSeconds: must be 1 to 300"),
    ({**APISIX, "tests": [{"object": [], "canaryPercent": 1, "result": {}}]}, "tests[0].object: must be an object"),
    ({**APISIX, "tests": [{"object": {"spec": {"http": [7]}}, "canaryPercent": 1, "result": {}}]},
        "tests[0].object: cann"),
    ({**APISIX, "tests": [{"object": {"spec": {"http": {"a": 1}}}, "canaryPercent": 1, "result": {}}]},
        "tests[0].object"),
]  # fmt: skip
BETWEEN = replace(CONTEXT, stable=Destination("stable"), canary=Destination("canary"))


def test_the_objects_of_the_documentation_are_good() -> None:
    """They are copied too; what they test of themselves holds."""
    blocks = [block.partition("```")[0] for block in PAGE.split("```yaml\n")[1:]]
    found = [
        one for one in map(yaml.safe_load, blocks) if isinstance(one, dict) and one.get("kind") == "TrafficProvider"
    ]

    split, apisix = [provider_of(one["metadata"]["name"], one["spec"], registry()) for one in found]

    assert (split.name, split.settle_s, apisix.name) == ("traffic-split", 10.0, "my-apisix")
    assert (split.live is not None, apisix.header is not None) == (True, True)


def test_the_example_of_the_documentation_is_one() -> None:
    """People start from it."""
    names: dict[str, Any] = {}

    exec(PAGE.partition("```python\n")[2].partition("```")[0], names)  # noqa: S102 - our own text

    assert names["PROVIDER"].name == "myrouter"


def test_a_router_of_an_installed_package_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing that the package offers to other programs is loaded."""
    metadata = tmp_path / "mypackage-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mypackage\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[rollouts.traffic]\nmyrouter = myrouter:ROUTER\n[console_scripts]\nother = no_such_module:main\n"
    )
    (tmp_path / "myrouter.py").write_text("from rollouts.traffic.contour.codec import PROVIDER as ROUTER\n")
    monkeypatch.syspath_prepend(tmp_path)

    assert installed.__wrapped__() == (contour.PROVIDER,)


def hosts(stable: int, canary: int, *more: Any) -> dict[str, Any]:
    """An object whose backends tell a Service by the first part of a host."""
    backends = [{"host": "stable.test.svc", "weight": stable}, {"host": "canary.test.svc", "weight": canary}, *more]
    return {"metadata": {"name": "test"}, "spec": {"http": [{"backends": backends}]}}


TEST = {"object": hosts(100, 0), "canaryPercent": 10, "result": hosts(90, 10)}
HOSTS = {**APISIX, "service": {"cel": "item.host.split('.')[0]"}, "tests": [TEST]}


def test_what_names_a_service_may_be_computed() -> None:
    """Some routers know hosts and no Services. Backends that have none are somebody else's."""
    provider = declared(HOSTS)
    situation = Situation.of(provider, {"name": "test"}, hosts(100, 0, {"url": "https://a.io", "weight": 7}), BETWEEN)

    situation = situation.managed(Split(Fraction(1, 4)))

    assert situation.read() == Split(Fraction(1, 4))
    assert [each["weight"] for each in situation.objects.user["spec"]["http"][0]["backends"]] == [75, 25, 7]


def test_a_computed_name_cannot_be_written_so_both_services_must_be_there() -> None:
    """Told when the route is first read, and not when the first step is to send requests to nobody."""
    user = hosts(100, 0)
    del user["spec"]["http"][0]["backends"][1]
    situation = Situation.of(declared(HOSTS), {"name": "test"}, user, BETWEEN)

    with pytest.raises(Unroutable, match="add canary beside stable with weight 0"):
        situation.read()


@pytest.mark.parametrize("spec", [{"http": [3]}, {"http": [{"backends": [3]}]}, {"http": {"backends": 1}}, []])
def test_an_object_of_another_form_is_unroutable_and_no_crash(spec: Any) -> None:
    """Whoever declared the provider knew some objects of the kind, not all."""
    situation = Situation.of(declared(APISIX), {"name": "test"}, {"metadata": {"name": "test"}, "spec": spec}, BETWEEN)

    with pytest.raises(Unroutable):
        situation.read()


def test_how_long_a_write_is_given_can_be_declared() -> None:
    """Where nobody can be asked, time is all there is."""
    (target,) = declared({**APISIX, "settleSeconds": 20}).targets({"name": "cart"}, namespace="shop")
    (undeclared,) = declared(APISIX).targets({"name": "cart"}, namespace="shop")

    assert (target.settle_s, undeclared.settle_s) == (20.0, None)


IS_TRUE = {"type": "ResourcesAvailable", "status": "True"}
IS_FALSE = {"type": "ResourcesAvailable", "status": "False"}


@pytest.mark.parametrize(
    ("declaration", "status", "answer"),
    [
        (IN_CEL, None, Answer.UNKNOWN),
        (IN_CEL, {"conditions": []}, Answer.UNKNOWN),
        (IN_CEL, {"conditions": [IS_FALSE]}, Answer.UNKNOWN),
        (IN_CEL, {"conditions": [IS_TRUE]}, Answer.YES),
        (IN_CEL, {"observedGeneration": 3, "conditions": [IS_TRUE]}, Answer.UNKNOWN),
        (IN_CEL, {"observedGeneration": 4, "conditions": [IS_TRUE]}, Answer.YES),
        (IN_CEL, {"conditions": [{"status": "True"}]}, Answer.UNKNOWN),
        (APISIX, {}, Answer.UNKNOWN),
        (APISIX, {"conditions": [{**IS_TRUE, "observedGeneration": 3}]}, Answer.UNKNOWN),
        (APISIX, {"conditions": [IS_TRUE]}, Answer.YES),
        (APISIX, {"conditions": [{**IS_FALSE, "observedGeneration": 4}]}, Answer.NO),
    ],
)
def test_it_says_how_its_object_tells_that_it_was_taken(
    declaration: Mapping[str, Any], status: Mapping[str, Any] | None, answer: Answer
) -> None:
    """By an expression, which says nothing where it has no value, or by a condition; of an old generation both say nothing."""
    user = {"metadata": {"name": "cart", "generation": 4}, "spec": {}, **({} if status is None else {"status": status})}
    situation = Situation.of(declared(declaration), {"name": "cart"}, user)

    assert situation.provider.accepted(situation.objects, situation.target).answer is answer


HEADED = with_headers()


def beta(kind: MatchKind = MatchKind.EXACT, **other: Any) -> Split:
    """Requests with the header go to the canary, and nobody else."""
    return Split(Fraction(0), (MatchRoute("beta", by_header("x-beta", kind=kind, **other)),))


def header(**changes: Any) -> dict[str, Any]:
    return {**HEADED, "header": {**HEADED["header"], **changes}}


def route(*rules: Manifest) -> Manifest:
    return {"metadata": {"name": "web", "namespace": CONTEXT.namespace}, "spec": {"http": list(rules)}}


def rule(name: str, **more: Any) -> Manifest:
    backends = [{"serviceName": "stable", "weight": 3}, {"serviceName": "canary", "weight": 0}]
    return {"name": name, "backends": backends, **more}


def names(situation: Situation) -> list[str]:
    return [each["name"] for each in situation.objects.user["spec"]["http"]]


def test_a_copy_stands_before_its_rule_and_goes_without_a_trace() -> None:
    """What the rule asks for the copy asks for too, and the fields that nobody named are the rule's."""
    own = {"subject": {"scope": "Query", "name": "v"}, "op": "Equal", "value": "2"}
    written = route(rule("a", timeout="5s", match={"paths": ["/*"], "exprs": [own]}), rule("b"))
    start = Situation.of(declared(HEADED), {"name": "web"}, written, BETWEEN)
    anywhere = replace(start, provider=declared(with_headers(first=False)))

    managed = start.managed(beta())
    copy = managed.objects.user["spec"]["http"][0]

    assert names(managed) == ["a-beta", "a", "b-beta", "b"]
    assert names(anywhere.managed(beta())) == ["a", "b", "a-beta", "b-beta"]  # no rule of the user's changes its place
    assert copy == {
        "name": "a-beta",
        "priority": 1,
        "timeout": "5s",
        "match": {
            "paths": ["/*"],
            "exprs": [own, {"subject": {"scope": "Header", "name": "x-beta"}, "op": "Equal", "value": "1"}],
        },
        "backends": [{"serviceName": "canary", "weight": 1}],
    }
    assert managed.read() == beta()
    assert managed.given_back().objects.user == written


def test_what_is_not_declared_is_refused_in_words() -> None:
    """Cookies, queries, methods, mirrors; and patterns, where the router is not said to know them."""
    exact = declared({**header(regex=False), "tests": HEADED["tests"][:1]})
    start = Situation.of(exact, {"name": "web"}, route(rule("a")), BETWEEN)

    offered = exact.features(start.objects, start.target)
    assert offered == {Feature.HEADER, Feature.SEVERAL_CONDITIONS, Feature.SEVERAL_ROUTES}
    for want in (beta(MatchKind.PREFIX), beta(MatchKind.REGEX)):
        with pytest.raises(Unroutable, match="how to match a header exactly"):
            start.plan(want)
    with pytest.raises(Unroutable, match="by headers, and by nothing else"):
        start.plan(beta(method=TextMatch(MatchKind.EXACT, "GET")))


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ([rule("a", priority="high")], "cannot make a rule for beta"),
        ([rule("a", priority=2**70)], "beta"),
        ([{"backends": rule("a")["backends"]}], "cannot make a rule for beta: rule.name"),
        ([rule("a", match={"exprs": [{"value": "x" * 70_000}]})], "70151 bytes, and at most 65536 are allowed"),
    ],
)
def test_a_rule_that_the_template_does_not_fit_is_told(rules: list[Manifest], told: str) -> None:
    """Somebody else's objects look otherwise than those of the tests; nothing is written then."""
    start = Situation.of(declared(HEADED), {"name": "web"}, route(*rules), BETWEEN)

    with pytest.raises(Unroutable, match=re.escape(told)):
        start.plan(beta())


BAD_HEADERS: list[tuple[Mapping[str, Any], str]] = [
    (header(insert="middle"), "header.insert: must be first or last"),
    (header(insert=None), "header.insert: is required"),
    (header(template=None), "header.template: must be an object"),
    (header(template={}), "header.template: must have fields of a rule"),
    (header(template={"backends": []}), "header.template: must have fields of a rule, without its backends"),
    (header(template={"name": {"cel": "rule.name +"}}), "header.template.name.cel: Syntax error"),
    (header(template={"a": [{"cel": "nobody"}]}), "header.template.a[0].cel: undeclared reference"),
    (header(template={str(at): {"cel": "name"} for at in range(17)}),
        "header.template: may have at most 16 expressions"),
    (header(template={"name": "same"}), "tests[0].result: differs from the object"),
    (header(template={"name": {"cel": "b'x'"}}), "tests[0].object: cannot be managed: cannot make a rule for test"),
    (header(template={"name": {"cel": "0.0 / 0.0"}}),
        "tests[0].object: cannot be managed: cannot make a rule for test"),
    (header(template={"name": {"cel": "rule.title"}}),
        "tests[0].object: cannot be managed: cannot make a rule for test"),
    (header(more=1), "header.more: unknown field"),
    ({**HEADED, "tests": HEADED["tests"][:1]}, "tests: need one test with headers for header, with a match of kind regex"),
    ({**HEADED, "tests": HEADED["tests"][1:2]}, "tests: need one test with headers for header, with a match of kind exact"),
    ({**HEADED, "header": None}, "tests[0].object: cannot be managed"),
    ({**HEADED, "tests": [{**HEADED["tests"][0], "headers": [{"name": "x"}]}]},
        "tests[0].headers[0]: exactly one of exact, prefix and regex is required"),
    ({**GLOO, "header": HEADED["header"]}, "header: needs backends inside the items of a list"),
]  # fmt: skip


LIVE: dict[str, Any] = {
    "http": {"url": "http://admin.edge:9000/api", "path": {"cel": "'/routes/' + object.metadata.name"}},
    "cel": "body.weights[canary] == want && body.weights[stable] == 100.0 - want",
}
YES = {"body": {"weights": {"stable": 90, "canary": 10}}, "live": True}
NOT_YET = {"body": {"weights": {"stable": 100, "canary": 0}}, "live": False}
UNREADABLE = {"body": [1, 2], "live": False}
USER: dict[str, Any] = {"metadata": {"name": "cart", "namespace": "shop"}, "spec": {}}


def asking(*answers: Mapping[str, Any], live: Any = None, **changes: Any) -> dict[str, Any]:
    """A declaration with a way to ask, and the answers that its test tries."""
    test = {**APISIX["tests"][0], "answers": list(answers)}
    return {**APISIX, "live": {**LIVE, **(live or {})}, "tests": [test], **changes}


def probe(**changes: Any) -> DeclaredProbe:
    found = declared(asking(YES, NOT_YET, live=changes)).live
    assert found is not None
    return found


def said(of: DeclaredProbe, body: Any, percent: int | str = 10) -> tuple[Answer, str]:
    split = Split(Fraction(percent) / 100)
    found = of.judged(json.dumps(body).encode(), USER, split, stable="cart", canary="cart-canary")
    return found.answer, found.message


def test_an_answer_means_what_the_expression_says() -> None:
    """By the names of the Services, the percentage, whatever number type the router writes, and parts of a percent."""
    of = probe()

    assert said(of, {"weights": {"cart": 90, "cart-canary": 10}})[0] is Answer.YES
    assert said(of, {"weights": {"cart": 90.0, "cart-canary": 10.0}})[0] is Answer.YES
    assert said(of, {"weights": {"cart": 99.5, "cart-canary": 0.5}}, "0.5")[0] is Answer.YES
    assert said(of, {"weights": {"cart": 90, "cart-canary": 2**80}})[0] is not Answer.YES  # CEL has a limit, JSON none
    assert said(of, {"weights": {"cart": 100, "cart-canary": 0}}) == (Answer.NO, f"not true yet: {LIVE['cel']}")


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"<html>", b"[" * 100_000, b'{"weights": {}}', b"[]", b"null", b'{"weights": 1' + b"0" * 5_000 + b"}",
        b'"\\ud800"',
    ],
)  # fmt: skip
def test_what_cannot_be_judged_is_not_known(answer: bytes) -> None:
    """An answer of another form is no reason to go on, nor one to believe that the router does otherwise."""
    found = probe().judged(answer, USER, Split(Fraction(1, 10)), stable="cart", canary="cart-canary")

    assert found.answer is Answer.UNKNOWN
    assert found.message


def test_the_path_is_made_of_the_object() -> None:
    """Its name and namespace are what routers' interfaces go by."""
    with_query = probe(http={"url": "http://a/", "path": {"cel": "'/r?ns=' + object.metadata.namespace"}})
    alone = probe(http={"url": "https://a"})

    assert (probe().url, probe().path_of(USER)) == ("http://admin.edge:9000/api", "/routes/cart")
    assert (with_query.url, with_query.path_of(USER)) == ("http://a", "/r?ns=shop")
    assert (alone.url, alone.path_of(USER)) == ("https://a", "")


@pytest.mark.parametrize("label", ["@evil/", "/../secrets", "/a b", "/a\r\nX: y", "//\\", "/#x", "/" + "a" * 3_000])
def test_an_object_cannot_choose_who_is_asked(label: str) -> None:
    """Tenants write objects; the host and the port are the administrator's, and so is where the path begins."""
    path = "has(object.metadata.labels) ? object.metadata.labels.path : '/'"
    of = probe(http={"url": "http://admin.edge:9000", "path": {"cel": path}})
    user = {**USER, "metadata": {**USER["metadata"], "labels": {"path": label}}}

    with pytest.raises(ExpressionFailed, match="is not a path of a URL"):
        of.path_of(user)


BAD_PROBES: list[tuple[Mapping[str, Any], str]] = [
    (asking(YES), "tests: need answers of the router for live: at least one that is live, and one that is not"),
    (asking(NOT_YET), "tests: need answers"),
    (asking(), "tests: need answers"),
    (asking({**YES, "live": False}, NOT_YET), "tests[0].answers[0].live: differs from the result: the answer is live"),
    (asking(YES, {**NOT_YET, "live": True}),
        "tests[0].answers[1].live: differs from the result: the answer is not live: not true"),
    (asking(YES, {**UNREADABLE, "live": True}),
        "tests[0].answers[1].live: differs from the result: the answer is not live: body"),
    (asking(YES, {"live": True}), "tests[0].answers[1].body: is required"),
    (asking(YES, NOT_YET, live={"cel": "true"}),
        "tests[0].answers[1].live: differs from the result: the answer is live"),
    (asking(YES, NOT_YET, live={"cel": "body.weights.stable == 100 - want"}), "tests[0].answers[0].live: differs from"),
    (asking(YES, NOT_YET, live={"cel": "body.weight"}), "tests[0].answers[0].live: differs from the result"),
    (asking(YES, NOT_YET, live={"cel": "'yes'"}), "live.cel: must give a bool, not STRING"),
    (asking(YES, NOT_YET, live={"cel": "item == want"}), "live.cel: undeclared reference to 'item'"),
    (asking(YES, NOT_YET, live={"cel": None}), "live.cel: is required"),
    (asking(YES, NOT_YET, live={"http": None}), "live.http: is required"),
    (asking(YES, NOT_YET, live={"http": {}}), "live.http.url: is required"),
    (asking(YES, NOT_YET, live={"http": {"url": "admin:9000"}}), "live.http.url: must be http://HOST:PORT"),
    (asking(YES, NOT_YET, live={"http": {"url": "http://u:p@a"}}), "live.http.url: must be http://HOST:PORT"),
    (asking(YES, NOT_YET, live={"http": {"url": "http://a?x=1"}}), "live.http.url: must be http://HOST:PORT"),
    (asking(YES, NOT_YET, live={"http": {"url": "http://a:port"}}), "live.http.url: must be http://HOST:PORT"),
    (asking(YES, NOT_YET, live={"http": {"url": "http://a", "path": {}}}), "live.http.path.cel: is required"),
    (asking(YES, NOT_YET, live={"http": {"url": "http://a", "path": {"cel": "1"}}}), "live.http.path.cel: must give a"),
    (asking(YES, NOT_YET, live={"http": {"url": "http://a", "path": {"cel": "object.metadata.name"}}}),
        "tests[0].object: gives no path to ask: object.metadata.name: its result is not a path of a URL that begins with /"),
    (asking(YES, NOT_YET, live={"lua": "x"}), "live.lua: unknown field"),
    ({**asking(YES, NOT_YET), "live": None}, "tests[0].answers: are for live, which is not declared"),
]  # fmt: skip


@pytest.mark.parametrize(("declaration", "told"), (*BAD, *BAD_HEADERS, *BAD_PROBES))
def test_a_wrong_declaration_is_refused(declaration: Mapping[str, Any], told: str) -> None:
    """By its own tests too: a path that leads nowhere, or a way to ask that says yes to everything, would show in production."""
    assert_refused(declaration, told)


def test_the_object_of_the_cluster_says_the_same() -> None:
    """The types of the API take what the declaration takes, and its problems have the object's paths."""
    spec, headed = (
        asking(YES, NOT_YET, UNREADABLE, service={"path": "serviceName"}),
        {**HEADED, "service": {"path": "serviceName"}},
    )
    for each in (spec, headed):
        del each["name"]
    wrong = {**spec, "live": {**LIVE, "http": {"url": "", "path": {"text": "/"}}}}

    found = provider_of("my-router", headed, {})
    assert found.header is not None
    assert found.header.features >= {Feature.HEADER, Feature.HEADER_REGEX}
    assert provider_of("my-router", spec, {}).live is not None
    with pytest.raises(SpecInvalid) as error:
        provider_of("my-router", wrong, {})
    assert {each.path for each in error.value.problems} >= {"spec.live.http.url", "spec.live.http.path.cel"}
