"""Promise: routes of the Gateway API are managed as their precedence, their limits and their status ask for."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import (
    Acceptance,
    Answer,
    Feature,
    MatchKind,
    MatchRoute,
    MirrorRoute,
    RequestMatch,
    Split,
    TextMatch,
)
from rollouts.errors import Unroutable
from rollouts.objects import Manifest
from rollouts.traffic.codec import LEDGER, Destination, Objects
from rollouts.traffic.gateway_api.codec import PROVIDER
from rollouts.traffic.gateway_api.features import features_of_class
from tests.traffic.cases.gateway_api import backend
from tests.traffic.situation import A_TENTH, TESTERS, Situation, by_path

HEADER, HEADERS = TESTERS.match, {"headers": [{"type": "Exact", "name": "x-canary", "value": "1"}]}
TO_CANARY = {"group": "", "kind": "Service", "name": "cart-canary", "port": 80}


PAIR = [backend("cart", 100), backend("cart-canary", 0)]


def rule(path: str = "/", backends: Sequence[Manifest] = PAIR, **more: Any) -> Manifest:
    return {"matches": [{"path": {"type": "PathPrefix", "value": path}}], "backendRefs": list(backends), **more}


def route(*rules: Manifest, named: Sequence[str] = (), status: Manifest | None = None) -> Situation:
    user: Manifest = {
        "metadata": {"name": "cart", "namespace": "shop", "generation": 4},
        "spec": {
            "parentRefs": [{"name": "web"}, {"name": "mesh", "kind": "Service", "group": ""}],
            "rules": list(rules),
        },
        "status": status or {},
    }
    return Situation.of(PROVIDER, {"httpRoutes": [{"name": "cart", "rules": list(named)}]}, user)


def rules_of(situation: Situation) -> list[Manifest]:
    found: list[Manifest] = situation.objects.user["spec"]["rules"]
    return found


def weights(one: Manifest) -> list[tuple[str, int]]:
    return [(each["name"], each["weight"]) for each in one["backendRefs"]]


def test_a_share_is_a_small_patch() -> None:
    """Two numbers and the ledger, nothing that another writer could stumble over."""
    (op,) = route(rule()).plan(A_TENTH)

    changed = [each["path"] for each in op.operations if each["op"] != "test"]  # type: ignore[union-attr]
    weight = "/spec/rules/0/backendRefs/{}/weight"
    assert changed == ["/metadata/annotations", weight.format(0), weight.format(1)]


def test_every_rule_with_both_services_is_managed_and_no_other() -> None:
    """A rule with the stable Service alone, beside others with both, is somebody's decision."""
    done = route(rule(), rule("/a"), rule("/admin", [backend("cart", 5)])).managed(A_TENTH)

    assert [weights(each) for each in rules_of(done)] == [
        [("cart", 90), ("cart-canary", 10)],
        [("cart", 90), ("cart-canary", 10)],
        [("cart", 5)],
    ]


def test_a_route_of_the_stable_service_alone_gets_the_canary_beside_it() -> None:
    """So a route that knows nothing of canaries can be managed as it is, and loses the backend again."""
    start = route(rule(backends=[backend("cart", 1)]))

    assert weights(rules_of(start.managed(A_TENTH))[0]) == [("cart", 9), ("cart-canary", 1)]
    assert start.managed(A_TENTH).managed(Split(Fraction(0))).objects == start.objects


def test_named_rules_alone_are_managed() -> None:
    """`rules` in the spec, by the names of the rules in the route."""
    start = route(rule(name="one"), rule("/a", [backend("cart")], name="two"), named=["two"])

    assert [weights(each) for each in rules_of(start.managed(A_TENTH))] == [
        [("cart", 100), ("cart-canary", 0)],
        [("cart", 9), ("cart-canary", 1)],
    ]


def test_rules_that_disagree_are_read_as_not_whole() -> None:
    """A rule that a GitOps tool adds in the middle would otherwise stay at 0 for ever: the largest share counts for safety."""
    managed = route(rule()).managed(A_TENTH)
    user = managed.objects.user
    edited = managed.edited({**user, "spec": {**user["spec"], "rules": [*user["spec"]["rules"], rule("/new")]}})

    assert edited.read() == Split(Fraction(1, 10), whole=False)
    assert edited.managed(A_TENTH).read() == A_TENTH


def test_a_managed_route_moves_no_rule_of_the_users() -> None:
    """Envoy Gateway names a cluster by its rule's index: a rule put before others answered 503 while theirs were made anew."""
    filters = [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "a", "value": "b"}]}}]
    start = route(rule("/a", filters=filters, timeouts={"request": "5s"}, name="a"), rule("/b"))

    a, b, one, two = rules_of(start.managed(Split(Fraction(1, 10), (TESTERS,))))

    assert one == {
        "matches": [{"path": {"type": "PathPrefix", "value": "/a"}, **HEADERS}],
        "filters": filters,
        "timeouts": {"request": "5s"},
        "backendRefs": [backend("cart-canary")],
    }
    assert (a["name"], weights(two), b["matches"][0]["path"]["value"]) == ("a", [("cart-canary", 1)], "/b")


@pytest.mark.parametrize("path", [None, TextMatch(MatchKind.PREFIX, "/a/b"), TextMatch(MatchKind.EXACT, "/a/b")])
def test_a_copy_that_is_more_precise_stands_last(path: TextMatch | None) -> None:
    """A longer path, an exact one and more headers win wherever they stand."""
    testers = MatchRoute("testers", RequestMatch(headers=HEADER.headers, path=path))

    found = rules_of(route(rule("/a"), rule("/b")).managed(Split(Fraction(1, 10), (testers,))))

    assert [weights(each)[-1] for each in found] == [("cart-canary", 10)] * 2 + [("cart-canary", 1)] * (len(found) - 2)
    assert len(found) > 2


@pytest.mark.parametrize(
    ("own", "match"),
    [
        (HEADERS, HEADER),
        ({"path": {"type": "PathPrefix", "value": "/"}}, by_path("/a.*", MatchKind.REGEX)),
    ],
    ids=["the rule's own header", "a regular expression"],
)
def test_a_copy_stands_before_its_rule_where_only_the_order_decides(own: Manifest, match: RequestMatch) -> None:
    """Of rules that are as precise as each other the first one wins; how regular expressions rank, products see differently."""
    start = route({"matches": [own], "backendRefs": PAIR})

    copy, there = rules_of(start.managed(Split(Fraction(1, 10), (MatchRoute("testers", match),))))

    assert (weights(copy), weights(there)) == ([("cart-canary", 1)], [("cart", 90), ("cart-canary", 10)])


def test_a_header_route_keeps_its_requests_while_some_of_them_are_mirrored() -> None:
    """A path or a method ranks above any number of headers: the mirror's copy would take them, and share them by weights."""
    some = by_path("/api", method=TextMatch(MatchKind.EXACT, "GET"))

    split = Split(Fraction(1, 10), (TESTERS,), (MirrorRoute("copies", (some,), 100),))

    own, testers, copies = rules_of(route(rule()).managed(split))

    api = {"path": {"type": "PathPrefix", "value": "/api"}, "method": "GET"}
    assert copies["matches"] == [api]
    assert testers["matches"] == [{"path": {"type": "PathPrefix", "value": "/"}, **HEADERS}, {**api, **HEADERS}]
    assert weights(testers) == [("cart-canary", 1)]
    assert weights(own) == weights(copies)


def test_a_copy_of_a_rule_that_has_changed_is_made_again() -> None:
    """Else the header route would go on with the old timeout."""
    split = Split(Fraction(1, 10), (TESTERS,))
    managed = route(rule(timeouts={"request": "5s"})).managed(split)
    own, copy = rules_of(managed)
    user = {**managed.objects.user, "spec": {**managed.objects.user["spec"], "rules": [{**own, "timeouts": {}}, copy]}}
    edited = managed.edited(user)

    assert not edited.read().whole
    assert [each["timeouts"] for each in rules_of(edited.managed(split))] == [{}, {}]


def test_a_mirror_of_some_requests_is_a_copy_with_a_filter_and_the_same_weights() -> None:
    """The user's own rule gets no filter, so nothing of it is ours but two numbers."""
    mirror = MirrorRoute("copies", (HEADER,), 25)

    own, copy = rules_of(route(rule()).managed(Split(Fraction(1, 10), (), (mirror,))))

    assert copy["filters"] == [{"type": "RequestMirror", "requestMirror": {"backendRef": TO_CANARY, "percent": 25}}]
    assert weights(copy) == weights(own) == [("cart", 90), ("cart-canary", 10)]
    assert "filters" not in own


def test_a_mirror_of_all_requests_is_a_filter_of_the_users_rule() -> None:
    """A copy would have to stand before it, and the rule would move; the filters of the user's stay as they are.

    GitOps tools compare: an empty list of filters is given back as one.
    """
    modifies = {"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["a"]}}
    start = route(rule("/a", filters=[modifies]), rule("/b"), rule("/c", filters=[]))

    managed = start.managed(Split(Fraction(1, 10), (), (MirrorRoute("copies", (), 100),)))

    mirrors = {"type": "RequestMirror", "requestMirror": {"backendRef": TO_CANARY}}
    assert [each["filters"] for each in rules_of(managed)[:2]] == [[modifies, mirrors], [mirrors]]
    assert managed.given_back().objects == start.objects


@pytest.mark.parametrize(
    ("part", "percent"),
    [
        ({}, 100),
        ({"percent": 25}, 25),
        ({"percent": 0}, 0),
        ({"fraction": {"numerator": 5}}, 5),
        ({"fraction": {"numerator": 1, "denominator": 3}}, Fraction(100, 3)),
    ],
)
def test_a_mirror_of_the_users_copies_the_part_that_it_names(part: Manifest, percent: Fraction) -> None:
    """A data plane is compared with it; one to another Service is nobody's business."""
    others = {"requestMirror": {"backendRef": {**TO_CANARY, "name": "audit"}}}
    there = route(rule(filters=[{"requestMirror": {"backendRef": TO_CANARY, **part}}, others]))

    (said,) = PROVIDER.rules(there.objects, there.target, there.context)

    assert said.copied_percents == (percent,)


@pytest.mark.parametrize("own", ["/", "/api"])
def test_a_mirror_of_all_that_a_rule_takes_is_one_too(own: str) -> None:
    """`path: {prefix: /}` says all requests in other words. A copy before the rule moved the others by one place, and Envoy
    Gateway, which names clusters by place, answered some requests of the header route with 503 (15 of 26,966)."""
    start = route(rule(own))
    mirror = MirrorRoute("copies", (by_path(own),), 100)

    there, testers = rules_of(start.managed(Split(Fraction(1, 10), (TESTERS,), (mirror,))))

    assert there["filters"] == [{"type": "RequestMirror", "requestMirror": {"backendRef": TO_CANARY}}]
    assert weights(testers) == [("cart-canary", 1)]


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (route(rule(backends=[{**backend("cart"), "namespace": "old"}])), "none of its rules has Service cart"),
        (route(rule(backends=[*PAIR, backend("cart", 3)])), "twice"),
        (route(rule(name="one"), named=["three"]), "no rule named three"),
    ],
    ids=["a Service of that name in another namespace", "two of it: which is meant?", "a name that no rule has"],
)
def test_a_route_that_cannot_be_told_is_refused(start: Situation, words: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(Unroutable, match=words):
        start.read()


def test_a_route_of_another_pair_of_services_is_given_back_first() -> None:
    """The canary Service is renamed in the spec in the middle of a rollout: the old one's backend must not stay."""
    before = route(rule(backends=[backend("cart", 1)]))
    managed = before.managed(A_TENTH)
    renamed = replace(managed, context=replace(managed.context, canary=Destination("v2")))

    assert weights(rules_of(renamed.managed(A_TENTH))[0]) == [("cart", 9), ("v2", 1)]
    assert renamed.given_back().objects == before.objects


def test_a_ledger_that_was_spoilt_by_hand_is_none() -> None:
    """The object is then taken as its user's, and managed all the same."""
    managed = route(rule()).managed(A_TENTH)
    metadata = {**managed.objects.user["metadata"], "annotations": {LEDGER: "{nonsense"}}
    spoilt = managed.edited({**managed.objects.user, "metadata": metadata})

    assert spoilt.read().share == Fraction(1, 10)
    assert spoilt.managed(Split(Fraction(1, 2))).read() == Split(Fraction(1, 2))


def test_a_managed_route_that_is_for_nobody_is_refused() -> None:
    """One of two that has no rule would be believed live, and no request would ever take it."""
    nowhere = MatchRoute("nowhere", by_path("/b"))

    with pytest.raises(Unroutable, match="requests that nowhere matches"):
        route(rule("/a")).plan(Split(Fraction(0), (TESTERS, nowhere)))


def test_a_copy_of_each_rule_must_find_its_place() -> None:
    """What counts is the route as it would be written."""
    nine = [rule(f"/{at}") for at in range(9)]

    assert route(*nine[:8]).managed(Split(Fraction(0), (TESTERS,))).read().whole
    with pytest.raises(Unroutable, match="18 rules"):
        route(*nine).plan(Split(Fraction(0), (TESTERS,)))


def test_a_rewritten_prefix_allows_one_match() -> None:
    """A rule of the CRD: the copy for two mirrored paths would be refused with 422."""
    rewrite = {"type": "URLRewrite", "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}}
    start = route(rule("/a", filters=[rewrite]))
    two = MirrorRoute("copies", (HEADER, by_path("/a/b")))

    assert start.managed(Split(Fraction(1, 2), (TESTERS,))).read().whole
    with pytest.raises(Unroutable, match="exactly one match"):
        start.plan(Split(Fraction(0), (), (two,)))


def condition(kind: str, status: str, generation: int = 4, reason: str = "") -> Manifest:
    return {"type": kind, "status": status, "observedGeneration": generation, "reason": reason}


GOOD = [condition("Accepted", "True"), condition("ResolvedRefs", "True")]


def parent(*conditions: Manifest, name: str = "web", **more: str) -> Manifest:
    """What one controller says of one parent."""
    return {"parentRef": {"name": name, **more}, "conditions": list(conditions)}


def test_a_gateway_that_breaks_on_a_mirror_gets_none() -> None:
    """Its status would still say Accepted, while every client gets an error."""
    everything = Split(Fraction(1, 10), (), (MirrorRoute("copies"),))
    half = Split(Fraction(1, 10), (), (MirrorRoute("copies", (), 50),))
    by_traefik, by_contour = (
        route(rule(), status={"parents": [{**parent(*GOOD), "controllerName": f"{product}/gateway-controller"}]})
        for product in ("traefik.io", "projectcontour.io")
    )

    with pytest.raises(Unroutable, match="500"):
        by_traefik.plan(everything)
    with pytest.raises(Unroutable, match="whatever the percentage"):
        by_contour.plan(half)
    assert by_contour.managed(everything).read() == everything
    assert Feature.MIRROR not in PROVIDER.features(by_traefik.objects, by_traefik.target)
    assert by_traefik.managed(A_TENTH).read() == A_TENTH


def test_gateways_are_the_parents_that_are_gateways() -> None:
    """A Service as a parent is a mesh: it has no proxies of its own to ask."""
    situation = route(rule())

    assert PROVIDER.gateways(situation.objects, situation.target) == ("shop/web",)


def test_a_class_allows_what_it_says_and_what_is_core() -> None:
    """Traefik answers 500 to all requests of a route with a mirror that it does not know; a class without a list has none."""
    assert Feature.MIRROR not in features_of_class(None)
    assert Feature.HEADER in features_of_class(None)
    assert Feature.MIRROR in features_of_class(["HTTPRouteRequestMirror"])
    assert Feature.MIRROR_PERCENT not in features_of_class(["HTTPRouteRequestMirror"])


MESH = parent(*GOOD, name="mesh", kind="Service", group="")


ENTRIES = {
    "all": ([parent(*GOOD), MESH], Answer.YES),
    "one missing": ([parent(*GOOD)], Answer.UNKNOWN),
    "none": ([], Answer.UNKNOWN),
    "old generation": ([parent(condition("Accepted", "True", 3), condition("ResolvedRefs", "True", 3)), MESH], Answer.UNKNOWN),
    "refused": ([parent(condition("Accepted", "False", reason="NoMatchingParent")), MESH], Answer.NO),
    "unresolved": ([parent(GOOD[0], condition("ResolvedRefs", "False")), MESH], Answer.NO),
    "in part": ([parent(*GOOD, condition("PartiallyInvalid", "True")), MESH], Answer.NO),
    "whole": ([parent(*GOOD, condition("PartiallyInvalid", "False")), MESH], Answer.YES),
    "dead one": ([parent(condition("Accepted", "True", 1)), parent(*GOOD), MESH], Answer.YES),
    "namesake": ([parent(*GOOD, namespace="elsewhere"), MESH], Answer.UNKNOWN),
}  # fmt: skip


@pytest.mark.parametrize(("entries", "answer"), ENTRIES.values(), ids=ENTRIES)
def test_accepted_is_what_every_parent_says_of_this_generation(entries: list[Manifest], answer: Answer) -> None:
    """A controller that is gone leaves its entry for ever, and a parent of the same name elsewhere is another one."""
    situation = route(rule(), status={"parents": entries})

    assert PROVIDER.accepted(situation.objects, situation.target).answer is answer


def attached(*parents: Manifest, entries: Sequence[Manifest]) -> Acceptance:
    """What the status of a route with these parents is taken for."""
    one = route(rule(), status={"parents": list(entries)})
    user = {**one.objects.user, "spec": {**one.objects.user["spec"], "parentRefs": list(parents)}}
    return PROVIDER.accepted(Objects(user), one.target)


MESHES: Sequence[Manifest] = [
    {"group": group, "kind": "Service", "name": "cart", **more}
    for group in ("", "core")
    for more in ({}, {"namespace": "shop"}, {"port": 80}, {"sectionName": ""})
]


@pytest.mark.parametrize("reported", MESHES, ids=str)
@pytest.mark.parametrize("parent_ref", MESHES, ids=str)
def test_a_service_as_a_parent_is_the_same_with_every_way_to_write_it(parent_ref: Manifest, reported: Manifest) -> None:
    """Linkerd reports `group: core` for the group that people write as "", and controllers differ in which defaults they repeat.

    An entry that names a port says nothing about the whole Service; one without speaks for all of its ports.
    """
    found = attached(parent_ref, entries=[{"parentRef": reported, "conditions": GOOD}])

    part_of_it = "port" in reported and "port" not in parent_ref
    assert found.answer is (Answer.UNKNOWN if part_of_it else Answer.YES)


@pytest.mark.parametrize(
    ("parent_ref", "reported"),
    [
        (
            {"name": "web"},
            {"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "shop", "name": "web"},
        ),
        ({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "web"}, {"name": "web"}),
        ({"name": "web", "sectionName": "https"}, {"name": "web", "sectionName": "https", "namespace": "shop"}),
        ({"name": "web", "sectionName": "https"}, {"name": "web"}),
        ({"name": "web", "port": 443}, {"name": "web"}),
        ({"name": "web", "namespace": None, "sectionName": None, "port": None}, {"name": "web", "namespace": ""}),
    ],
    ids=str,
)
def test_defaults_of_a_parent_may_be_written_out_or_not(parent_ref: Manifest, reported: Manifest) -> None:
    """A controller may report what the API server would have filled in, or leave out what is the default."""
    assert attached(parent_ref, entries=[{"parentRef": reported, "conditions": GOOD}]).answer is Answer.YES


@pytest.mark.parametrize(
    "reported",
    [
        {"name": "other"},
        {"name": "web", "namespace": "elsewhere"},
        {"name": "web", "kind": "Service", "group": ""},
        {"name": "web", "group": ""},
        {"name": "web", "sectionName": "http"},
        {"name": "web", "sectionName": "https", "port": 80},
    ],
    ids=str,
)
def test_another_parent_is_not_taken_for_it(reported: Manifest) -> None:
    """What one listener took says nothing about another one."""
    wanted = {"name": "web", "sectionName": "https", "port": 443}

    assert attached(wanted, entries=[{"parentRef": reported, "conditions": GOOD}]).answer is Answer.UNKNOWN


def test_the_parent_that_has_not_reported_is_named() -> None:
    """One of two has taken the route: who looks for the other must not look at the one that works."""
    two = [{"name": "inside"}, {"name": "web", "namespace": "edge", "sectionName": "https"}]

    found = attached(*two, entries=[{"parentRef": two[0], "conditions": GOOD}])

    assert found.answer is Answer.UNKNOWN
    assert found.message.startswith("Gateway edge/web (https) has not reported anything yet")
