"""Promise: of a DestinationRule nothing is written but one label of two subsets, and it is given back byte for byte."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollouts.core.model.traffic import Split
from rollouts.errors import Unroutable
from rollouts.objects import Manifest
from rollouts.sim.storage.patches import json_patch
from rollouts.traffic.codec import LEDGER, Context, Destination, Objects, Op, PatchUser, Target
from rollouts.traffic.istio import codec as istio
from rollouts.traffic.istio.subsets import RULE_KINDS, host_of, pointed, released, service_of_host, subset_of

REVISION = "rollouts.dev/revision"
TARGET = Target(kinds=RULE_KINDS, namespace="shop", name="cart", subsets=("stable", "canary"))
CONTEXT = Context(
    rollout="cart", namespace="shop", stable=Destination("cart", "stable"), canary=Destination("cart", "canary")
)
TEXTS = st.sampled_from(["cart", "v1", "a~b/c"])
LABELS = st.none() | st.dictionaries(st.sampled_from(["app", "example.com/tier", REVISION]), TEXTS, max_size=2)


def rule(*subsets: Manifest, host: str = "cart", **metadata: Any) -> Manifest:
    spec = {"host": host, "trafficPolicy": {"tls": {"mode": "ISTIO_MUTUAL"}}, "subsets": list(subsets)}
    return {"kind": "DestinationRule", "metadata": {"name": "cart", **metadata}, "spec": spec}


def after(user: Manifest, ops: tuple[Op, ...]) -> Manifest:
    for op in ops:
        assert isinstance(op, PatchUser)
        user = json_patch(user, [dict(each) for each in op.operations])
    return user


@st.composite
def rules(draw: st.DrawFn) -> Manifest:
    """Both subsets in any order, with labels or without, maybe with others around them."""
    subsets: list[Manifest] = []
    for name in draw(st.permutations(["stable", "canary", "other"])):
        labels = draw(LABELS)
        subset: Manifest = {"name": name} if labels is None else {"name": name, "labels": labels}
        if draw(st.booleans()):
            subset["trafficPolicy"] = {"loadBalancer": {"simple": "LEAST_REQUEST"}}
        subsets.append(subset)
    return rule(*subsets, annotations={"example.com/note": "mine"}) if draw(st.booleans()) else rule(*subsets)


@settings(max_examples=60, deadline=None)
@given(
    user=rules(), turns=st.lists(st.tuples(st.sampled_from(["stable", "canary"]), st.sampled_from(["r1", "r2", "r3"])))
)
def test_whatever_was_pointed_is_given_back(user: Manifest, turns: list[tuple[str, str]]) -> None:
    """Any order of changes; each is read back, changes nothing else, and is not planned twice."""
    now = user
    for name, revision in turns:
        own = subset_of(user, name).labels
        now = after(now, pointed(now, name, revision))
        assert (subset_of(now, name).revision, subset_of(now, name).labels) == (revision, own)
        assert pointed(now, name, revision) == ()
        assert scrubbed(now) == scrubbed(user)
    assert after(now, released(now)) == user


def scrubbed(value: Any) -> Any:
    """Without our label, the annotation, and the maps that then have nothing in them."""
    match value:
        case dict():
            kept = {name: scrubbed(part) for name, part in value.items() if name not in (REVISION, LEDGER)}
            return {name: part for name, part in kept.items() if part or name not in ("labels", "annotations")}
        case list():
            return [scrubbed(item) for item in value]
        case _:
            return value


def test_a_revision_that_somebody_else_has_set_since_is_theirs() -> None:
    """We undo what we did, and no more."""
    now = rule({"name": "stable", "labels": {"app": "cart"}}, {"name": "canary"})
    now = after(now, pointed(now, "stable", "r1"))
    now["spec"]["subsets"][0]["labels"][REVISION] = "theirs"

    left = after(now, released(now))

    assert left["spec"]["subsets"][0]["labels"] == {"app": "cart", REVISION: "theirs"}
    assert "annotations" not in left["metadata"]


def test_a_label_that_a_gitops_tool_took_off_is_put_on_again_and_given_back() -> None:
    """The note of what was there before survives the tool, and is made anew from what it left."""
    user = rule({"name": "stable"}, {"name": "canary"})
    now = after(user, pointed(user, "stable", "r1"))
    again = {**now, "spec": user["spec"]}

    done = after(again, pointed(again, "stable", "r1"))

    assert subset_of(done, "stable").revision == "r1"
    assert after(done, released(done)) == user


@pytest.mark.parametrize("text", ["", "{", "[]", '{"subsets": 3}', '{"subsets": {"stable": [1]}}'])
def test_a_note_that_cannot_be_read_counts_as_none(text: str) -> None:
    """Somebody changed it by hand; the next change writes it again."""
    user = rule({"name": "stable", "labels": {"app": "cart"}}, annotations={LEDGER: text})

    assert after(user, released(user))["spec"] == user["spec"]
    assert subset_of(after(user, pointed(user, "stable", "r1")), "stable").revision == "r1"


@pytest.mark.parametrize(
    ("host", "service"),
    [
        ("cart", "cart"),
        ("cart.shop", "cart"),
        ("cart.shop.svc.cluster.local", "cart"),
        ("cart.edge", ""),
        ("cart.shop.example.com", ""),
    ],
)
def test_a_host_is_a_service_of_the_namespace_or_somebody_elses(host: str, service: str) -> None:
    """The pods are in the Rollout's namespace, so a host elsewhere has none of them."""
    assert service_of_host(host, namespace="shop") == service
    if not service:
        with pytest.raises(Unroutable, match="is not a Service in namespace shop"):
            host_of(rule(host=host), namespace="shop")


@pytest.mark.parametrize(
    ("subsets", "message"),
    [
        ([{"name": "stable"}], "it has no subset canary; add one"),
        ([{"name": "canary"}, {"name": "canary"}], "it has subset canary twice"),
    ],
)
def test_a_subset_must_be_there_once(subsets: list[Manifest], message: str) -> None:
    """Which one is meant is not guessed."""
    with pytest.raises(Unroutable, match=message):
        subset_of(rule(*subsets), "canary")


def test_a_rule_has_no_weights() -> None:
    """As a route it can only be given back: what it says of subsets is told apart from what a route says of requests."""
    user = rule({"name": "stable"}, {"name": "canary"})
    managed = after(user, pointed(user, "stable", "r1"))

    with pytest.raises(Unroutable, match="has no weights"):
        istio.PROVIDER.read(Objects(user), TARGET, CONTEXT)
    with pytest.raises(Unroutable, match="has no weights"):
        istio.PROVIDER.plan(Objects(user), TARGET, CONTEXT, Split(Fraction(1, 2)))
    assert after(managed, istio.PROVIDER.release(Objects(managed), TARGET, CONTEXT)) == user


def test_the_settings_name_the_rule_beside_the_routes() -> None:
    """One more target, that says which subset is which."""
    names = {"name": "rule", "stableSubsetName": "blue", "canarySubsetName": "green"}

    settings = {"virtualService": {"name": "cart"}, "destinationRule": names}
    route, subsets = istio.PROVIDER.targets(settings, namespace="shop")

    assert (route.kinds[0].kind, route.subsets) == ("VirtualService", None)
    assert (subsets.kinds, subsets.name, subsets.subsets) == (RULE_KINDS, "rule", ("blue", "green"))
