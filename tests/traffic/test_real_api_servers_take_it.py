"""Promise: what a provider writes, a real API server with the router's real CRD takes; and a stale write is a conflict.

All of it is written as the chart's account, with its rights and behind its fences: these refuse nothing that a codec writes.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import ExperimentShare, Feature, MatchKind, MatchRoute, MirrorRoute, Split
from rollouts.errors import Unroutable
from rollouts.manifests.route import Marks, marked
from rollouts.objects import Kind, Manifest
from rollouts.traffic.codec import Context, DeleteOwned, Objects, Op, PatchUser, Target
from rollouts.traffic.istio.subsets import RULE_KINDS, pointed, released, subset_of
from rollouts.traffic.registry import registry
from rollouts.traffic.rules.ledger import NOTHING, ledger_of
from tests.build import manifest
from tests.lab.chart import RELEASE_NAMESPACE, another_account, as_user, install_crds, wait_until_fenced
from tests.traffic.cases.all_cases import CASES
from tests.traffic.cases.case import Case, Crd
from tests.traffic.crds import AS_US, created, manifests, patched
from tests.traffic.situation import WRITES_MOST, by_header

pytestmark = pytest.mark.controlplane
REAL = [case for case in CASES if case.crds or case.example["kind"] == "Ingress"]
HEADER = MatchRoute("by-header", by_header())
MIRROR = MirrorRoute("copies", (by_header("x-copy", "a.*", MatchKind.REGEX),), 50)


class Place:
    """One object of a case on the real API server, read and written as the driver does it."""

    def __init__(self, plane: Any, case: Case, namespace: str, account: httpx.Client) -> None:
        self.api: httpx.Client = plane.api
        self.account = account
        self.case = case
        self.name = f"cart-{secrets.token_hex(3)}"
        self.context: Context = replace(case.context, namespace=namespace)
        settings = json.loads(json.dumps(case.settings).replace('"cart"', f'"{self.name}"'))
        self.target: Target = case.provider.targets(settings, namespace=namespace)[0]
        kind = self.target.kinds[0]
        self.manifest: Manifest = {
            **json.loads(json.dumps(case.example).replace('"shop"', json.dumps(namespace))),
            "apiVersion": kind.api_version,
            "metadata": {**case.example["metadata"], "name": self.name, "namespace": namespace},
        }

    def create(self) -> None:
        """As a user does, as soon as the kind is served."""
        created(self.api, self.target.kinds[0].path(self.target.namespace), self.manifest)

    def objects(self) -> Objects:
        owned_kinds = self.target.owned_kinds or self.target.kinds
        owned = self._get(owned_kinds[0], self.target.owned_name) if self.target.owned_name else None
        user = self._get(self.target.kinds[0], self.name)
        assert user is not None
        return Objects(user, owned)

    def _get(self, kind: Kind, name: str) -> Manifest | None:
        answer = self.api.get(kind.path(self.target.namespace, name))
        return None if answer.status_code == 404 else answer.raise_for_status().json()

    def plan(self, want: Split, objects: Objects) -> tuple[Op, ...]:
        return self.case.provider.plan(objects, self.target, self.context, want)

    def write(self, ops: tuple[Op, ...], read: Objects) -> list[httpx.Response]:
        """With the guard of the version that was read."""
        return [self._write(op, read) for op in ops]

    def _write(self, op: Op, read: Objects) -> httpx.Response:
        if isinstance(op, PatchUser):
            path = self.target.kinds[0].path(self.target.namespace, self.name)
            return patched(self.account, path, op, read.user)
        owned = self.target.kinds[0].path(self.target.namespace, self.target.owned_name)
        if isinstance(op, DeleteOwned):
            return self.account.delete(owned)
        content = json.dumps(marked(op.manifest, Marks("cart", self.case.provider.name)))
        kind = {"Content-Type": "application/apply-patch+yaml"}
        return self.account.patch(owned, params={**AS_US, "force": "true"}, content=content, headers=kind)

    def steer(self, want: Split) -> Objects:
        """Brings it there, in as many writes as it takes, and reads it again."""
        done = self.objects()
        for _ in range(WRITES_MOST):
            for answer in self.write(self.plan(want, done), done):
                assert answer.status_code in (200, 201), answer.text
            done = self.objects()
        assert self.case.provider.read(done, self.target, self.context) == want
        assert self.plan(want, done) == ()
        return done

    def wants(self) -> list[Split]:
        """A small rollout, with what the router can do besides."""
        header = (HEADER,) if Feature.HEADER in self.case.features else ()
        mirror = (MIRROR,) if Feature.MIRROR in self.case.features else ()
        shares = (Fraction(5, 100), Fraction(1, 2), Fraction(1))
        experiments = (
            (ExperimentShare("cart-try", Fraction(1, 10)),) if Feature.EXPERIMENT in self.case.features else ()
        )
        return [
            Split(shares[0]),
            Split(shares[0], header),
            Split(shares[0], header, experiments=experiments),
            Split(shares[1], header, mirror),
            Split(Fraction(0), header),
            Split(shares[2]),
        ]


@pytest.fixture(scope="module")
def account(control_plane: Any, controller_kubeconfig: Path) -> Iterator[httpx.Client]:
    """An account as the chart makes it for the controller with every router, with its rights and its fences."""
    another_account(control_plane, "steers", "--set", f"routers={{{','.join(sorted(registry()))}}}")
    with as_user(control_plane, f"system:serviceaccount:{RELEASE_NAMESPACE}:steers") as client:
        wait_until_fenced(client)
        yield client


@pytest.fixture(params=REAL, ids=lambda case: case.name)
def place(request: pytest.FixtureRequest, control_plane: Any, namespace: str, account: httpx.Client) -> Iterator[Place]:
    """A user's object of each kind, in a namespace of its own."""
    case: Case = request.param
    for crd in case.crds:
        install_crds(control_plane, *manifests(crd, case.example["kind"]))
    found = Place(control_plane, case, namespace, account)
    found.create()
    yield found


def test_a_whole_rollout_is_taken_and_given_back(place: Place) -> None:
    """Every write passes the CRD's schema and rules with strict validation, and the user's spec is as it was in the end."""
    before = place.objects().user["spec"]
    for want in place.wants():
        place.steer(want)

    read = place.objects()
    for answer in place.write(place.case.provider.release(read, place.target, place.context), read):
        assert answer.status_code == 200, answer.text

    after = place.objects()
    assert after.user["spec"] == before
    assert ledger_of(after.user) == NOTHING
    assert after.owned is None
    assert "annotations" not in after.user["metadata"]


def test_a_write_on_an_old_view_is_a_conflict(place: Place) -> None:
    """The user edits between our read and our write: nothing of theirs is overwritten, and the next pass keeps it."""
    read = place.objects()
    ops = place.plan(Split(Fraction(1, 4)), read)
    edit = {"metadata": {"labels": {"team": "checkout"}}}
    path = place.target.kinds[0].path(place.target.namespace, place.name)
    merge = {"Content-Type": "application/merge-patch+json"}
    assert place.api.patch(path, content=json.dumps(edit), headers=merge).status_code == 200

    answers = place.write(ops, read)

    if any(isinstance(op, PatchUser) for op in ops):
        assert [answer.status_code for answer in answers] == [409]
    done = place.steer(Split(Fraction(1, 4)))
    assert done.user["metadata"]["labels"] == {"team": "checkout"}


def test_a_gitops_tool_that_applies_again_is_seen_and_answered(place: Place) -> None:
    """`kubectl apply` of the same file in the middle of a rollout sets the weights back; the next pass asserts ours."""
    want = Split(Fraction(1, 4))
    place.steer(want)
    path = place.target.kinds[0].path(place.target.namespace, place.name)
    params = {"fieldManager": "gitops", "force": "true"}
    content, kind = json.dumps(place.manifest), {"Content-Type": "application/apply-patch+yaml"}
    assert place.api.patch(path, params=params, content=content, headers=kind).status_code == 200

    done = place.steer(want)

    for answer in place.write(place.case.provider.release(done, place.target, place.context), done):
        assert answer.status_code == 200, answer.text
    assert place.case.provider.read(place.objects(), place.target, place.context).share == 0


def test_an_object_made_anew_is_another_one(place: Place) -> None:
    """Deleted and made again in the middle: what was planned for the old one is refused, and the new one is managed.

    422 when a test of the patch finds something else, 409 when only the version is another: both are conflicts to the controller.
    """
    read = place.steer(Split(Fraction(1, 4)))
    ops = place.plan(Split(Fraction(1, 2)), read)
    path = place.target.kinds[0].path(place.target.namespace, place.name)
    assert place.api.delete(path).status_code == 200
    place.create()

    fresh = place.objects().user

    answers = place.write(ops, read)

    if any(isinstance(op, PatchUser) for op in ops):
        assert {answer.status_code for answer in answers} <= {409, 422}
        assert place.objects().user == fresh
    place.steer(Split(Fraction(1, 2)))


def test_a_route_that_is_full_is_refused_in_words(control_plane: Any, namespace: str, account: httpx.Client) -> None:
    """16 rules are the most that the CRD takes: the user is told before the API server says 422, and 15 go through."""
    case = next(case for case in CASES if case.name == "HTTPRoute")
    for crd in case.crds:
        install_crds(control_plane, *manifests(crd, "HTTPRoute"))
    place = Place(control_plane, case, namespace, account)
    pair = place.manifest["spec"]["rules"][0]["backendRefs"]
    rules = [
        {"matches": [{"path": {"type": "Exact", "value": f"/{at}"}}], "backendRefs": pair if at == 0 else pair[2:]}
        for at in range(16)
    ]
    place.manifest["spec"]["rules"] = rules
    place.create()

    with pytest.raises(Unroutable, match="17 rules, and at most 16 are allowed"):
        place.plan(Split(Fraction(1, 4), (HEADER,)), place.objects())

    place.steer(Split(Fraction(1, 4)))


CRD = Crd("istio.io/api@v1.28.0", "kubernetes/customresourcedefinitions.gen.yaml")


class Rule:
    """A user's DestinationRule, whose canary subset has no labels."""

    def __init__(self, plane: Any, namespace: str) -> None:
        self.api: httpx.Client = plane.api
        name = f"cart-{secrets.token_hex(3)}"
        self.path = RULE_KINDS[0].path(namespace, name)
        subsets = [{"name": "stable", "labels": {"app": "cart"}}, {"name": "canary"}]
        policy = {"connectionPool": {"tcp": {"maxConnections": 100}}}
        spec = {"host": "cart", "trafficPolicy": policy, "subsets": subsets}
        created(self.api, RULE_KINDS[0].path(namespace), manifest(RULE_KINDS[0], name, namespace, spec=spec))

    def read(self) -> Manifest:
        found: Manifest = self.api.get(self.path).raise_for_status().json()
        return found

    def write(self, read: Manifest, ops: tuple[Op, ...]) -> httpx.Response:
        (op,) = ops
        assert isinstance(op, PatchUser)
        return patched(self.api, self.path, op, read)


@pytest.fixture
def rule(control_plane: Any, namespace: str) -> Rule:
    """One, in a namespace of its own."""
    install_crds(control_plane, *manifests(CRD, RULE_KINDS[0].kind))
    return Rule(control_plane, namespace)


def test_subsets_are_pointed_and_given_back(rule: Rule) -> None:
    """Each change passes the CRD's schema with strict validation, and the user's spec is as it was in the end."""
    before = rule.read()["spec"]
    for name, revision in (("stable", "r1"), ("canary", "r1"), ("canary", "r2"), ("stable", "r2")):
        read = rule.read()
        answer = rule.write(read, pointed(read, name, revision))
        assert answer.status_code == 200, answer.text
        assert subset_of(rule.read(), name).revision == revision

    read = rule.read()
    assert rule.write(read, released(read)).status_code == 200

    after = rule.read()
    assert after["spec"] == before
    assert "annotations" not in after["metadata"]


def test_a_change_on_an_old_view_is_a_conflict(rule: Rule) -> None:
    """Two changes planned on one view: the second is refused, so each pass makes one."""
    read = rule.read()
    assert rule.write(read, pointed(read, "stable", "r1")).status_code == 200

    assert rule.write(read, pointed(read, "canary", "r1")).status_code == 409
