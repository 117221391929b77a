"""Promise: a declaration may say whom to ask whether a router does it; what answers mean is tried before anybody relies on it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from rollouts.controller.providers.declarations import provider_of
from rollouts.core.model.traffic import Answer, Split
from rollouts.errors import ExpressionFailed, SpecInvalid
from rollouts.traffic.declared.codec import declared
from rollouts.traffic.declared.probe import DeclaredProbe
from tests.traffic.cases.declared import APISIX, assert_refused

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


BAD: list[tuple[Mapping[str, Any], str]] = [
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


@pytest.mark.parametrize(("declaration", "told"), BAD, ids=[str(at) for at in range(len(BAD))])
def test_a_way_to_ask_that_is_wrong_is_refused(declaration: Mapping[str, Any], told: str) -> None:
    """One that says yes to everything would end every wait at once; it is found out by an answer that it must refuse."""
    assert_refused(declaration, told)


def test_the_object_of_the_cluster_says_the_same() -> None:
    """The types of the API take what the declaration takes, and its problems have the object's paths."""
    spec = asking(YES, NOT_YET, UNREADABLE)
    del spec["name"]
    spec["service"] = {"path": spec["service"]}
    wrong = {**spec, "live": {**LIVE, "http": {"url": "", "path": {"text": "/"}}}}

    assert provider_of("my-router", spec, {}).live is not None
    with pytest.raises(SpecInvalid) as error:
        provider_of("my-router", wrong, {})
    assert {each.path for each in error.value.problems} >= {"spec.live.http.url", "spec.live.http.path.cel"}
