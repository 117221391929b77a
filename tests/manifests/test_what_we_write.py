"""Promise: every object that we write carries exactly what was decided, and can only land on the object that was looked at."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, RunDraft
from rollouts.core.model.config import ConfigKind, ConfigUse
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    CreateAnalysisRun,
    CreateReplicaSet,
    LetPodsGo,
    Notice,
    PatchPod,
    PatchReplicaSet,
    ReleaseService,
    SwitchService,
    TerminateAnalysisRun,
)
from rollouts.core.model.pod_exit import Injection
from rollouts.core.model.reasons import Reason
from rollouts.core.model.revision import canonical_json
from rollouts.core.model.rollout import AntiAffinity, BlueGreen, Canary, PodMetadata, Rollout
from rollouts.core.model.status import AbortNote, RolloutStatus
from rollouts.manifests.adoption import adoption_patch, not_ours
from rollouts.manifests.analysis_run import analysis_run, gate_labels, gate_of, let_go_patch, termination_patch
from rollouts.manifests.event import event, event_annotations, event_name
from rollouts.manifests.ownership import (
    KEEP_PODS,
    abort_note_of,
    injection_of,
    kept_until_s,
    name_label,
    owner_reference,
    pod_metadata_of,
    pod_metadata_text,
    pods_carry_metadata,
    revision_number_of,
)
from rollouts.manifests.service import release_service, switch_service
from rollouts.manifests.workload import pod_patch, replica_set, replica_set_patch
from rollouts.objects import ANALYSIS_RUN
from tests.build import manifest
from tests.core.model import world

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "cart"}, "annotations": {"note": "mine"}},
    "spec": {"containers": [{"name": "app", "image": "a", "future": [{"x": 1}]}], "priority": 5},
}
SELECTOR = {"matchLabels": {"app": "cart"}, "matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]}
CREATE = CreateReplicaSet(revision="abc", number=3, replicas=2, pod_metadata=PodMetadata())
FLAGS = ConfigUse(kind=ConfigKind.CONFIG_MAP, source="flags", content="h", copy="flags-h")
ROLE, STABLE = (
    PodMetadata(labels={"role": "canary"}, annotations={"why": "new"}),
    PodMetadata(labels={"role": "stable"}),
)


SLEEP = Injection(containers=("app",), pre_stop_s=6, grace_s=41, native=True)


def _rollout(
    *, strategy: Canary | BlueGreen | None = None, template: dict[str, Any] = TEMPLATE, name: str = "cart"
) -> Rollout:
    there = world(strategy or Canary(), revision="abc", min_ready_s=7).rollout
    spec = replace(there.spec, selector_json=canonical_json(SELECTOR), template_json=canonical_json(template))
    return replace(there, name=name, uid="u-1", resource_version="42", spec=spec)


def _pod_of(**changes: Any) -> dict[str, Any]:
    """The spec of the pods of a ReplicaSet of the Rollout."""
    pod: dict[str, Any] = replica_set(_rollout(), replace(CREATE, **changes))["spec"]["template"]["spec"]
    return pod


def test_containers_without_a_pre_stop_sleep_before_they_end() -> None:
    """Nothing orders a pod's SIGTERM and its removal from the proxies, so it must serve on for a while; also in a node drain."""
    own = {"name": "proxy", "image": "p", "lifecycle": {"preStop": {"httpGet": {"port": 1}}}}
    starts: dict[str, Any] = {"name": "start", "image": "s", "lifecycle": {"postStart": {"exec": {"command": ["x"]}}}}
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "containers": [*TEMPLATE["spec"]["containers"], own, starts]}}

    made = replica_set(
        _rollout(template=template), replace(CREATE, injection=replace(SLEEP, containers=("app", "start")))
    )

    pod = made["spec"]["template"]["spec"]
    sleep = {"preStop": {"sleep": {"seconds": 6}}}
    assert pod["containers"][0] == {**TEMPLATE["spec"]["containers"][0], "lifecycle": sleep}
    assert pod["containers"][1] == own
    assert pod["containers"][2] == {**starts, "lifecycle": {**starts["lifecycle"], **sleep}}
    assert (pod["terminationGracePeriodSeconds"], pod["priority"]) == (41, 5)


SLEEPS = ('{"containers":1,"seconds":1,"graceSeconds":1}', '{"containers":["a"],"seconds":"1"}')
ABORTS = tuple(
    f'{{"revision":{revision},"attempt":0,"started_at_s":1.5,"at_s":{at_s},"by":""}}'
    for revision, at_s in (('"b"', '"now"'), ('"b"', "NaN"), ('"b"', "1" + "0" * 400), ('["b"]', "1"))
)
SPOILT = ("", "}", "{", "[]", "{}", '"x"', "[" * 100_000)
NOTES: list[tuple[Callable[[dict[str, str]], Any], str, Any, tuple[str, ...]]] = [
    (injection_of, "pre-stop", None, SLEEPS),
    (abort_note_of, "abort-accepted", None, ABORTS),
    (pod_metadata_of, "ephemeral-metadata", PodMetadata(), ('{"labels": 5}', '{"labels": {"a": 1}}')),
    (revision_number_of, "revision-number", 0, ("-1", "x", "9" * 40, "²")),
]


@pytest.mark.parametrize(
    ("read", "note", "nothing", "text"),
    [(read, note, nothing, text) for read, note, nothing, texts in NOTES for text in (*SPOILT, *texts)],
    ids=lambda part: getattr(part, "__name__", str(part)[-30:]),
)
def test_a_note_that_somebody_spoilt_says_nothing(
    read: Callable[[dict[str, str]], Any], note: str, nothing: object, text: str
) -> None:
    """Annotations are anybody's to edit: what nobody can read asks for nothing, and the template is what counts."""
    assert read({f"rollouts.dev/{note}": text}) == nothing


@pytest.mark.parametrize(
    "role", [PodMetadata(labels={"role": "canary"}), PodMetadata(annotations={"why": "new"}), PodMetadata()]
)
def test_the_note_of_a_role_is_read_as_it_was_written(role: PodMetadata) -> None:
    """Labels or annotations alone, too: what is not noted is not taken off the pods when the role ends."""
    annotations = {"rollouts.dev/ephemeral-metadata": pod_metadata_text(role) or ""}

    assert pod_metadata_of(annotations) == role
    assert (pod_metadata_text(role) is None) is (role == PodMetadata())


def test_the_note_of_an_abort_is_read_as_it_was_written() -> None:
    """A controller that starts between the note and the status goes on with it."""
    note = AbortNote("b", attempt=1, started_at_s=1790000000.125, at_s=1790000000.25, by="kubectl-annotate")

    patch = replica_set_patch(PatchReplicaSet(name="cart-a", uid="1", revision="a", replicas=3, abort_note=note))

    assert patch["spec"] == {"replicas": 3}
    assert abort_note_of(patch["metadata"]["annotations"]) == note


def test_a_server_that_knows_no_sleep_is_given_the_command() -> None:
    """`preStop.sleep` is on everywhere from Kubernetes 1.34; a server that does not know the field drops it in silence."""
    (container,) = _pod_of(injection=replace(SLEEP, native=False))["containers"]

    assert container["lifecycle"] == {"preStop": {"exec": {"command": ["sleep", "6"]}}}


def test_a_sleep_changes_neither_the_name_nor_the_labels_of_a_revision() -> None:
    """A controller upgrade, another proxy mode or a drain setting must not roll anybody's workload."""
    plain, sleepy = replica_set(_rollout(), CREATE), replica_set(_rollout(), replace(CREATE, injection=SLEEP))

    noted = sleepy["metadata"]["annotations"].pop("rollouts.dev/pre-stop")
    assert injection_of({"rollouts.dev/pre-stop": noted}) == SLEEP
    assert plain["metadata"] == sleepy["metadata"]
    assert plain["spec"]["selector"] == sleepy["spec"]["selector"]
    assert plain["spec"]["template"]["metadata"] == sleepy["spec"]["template"]["metadata"]


def test_a_replica_set_is_whole() -> None:
    """Its pods are the user's, with our two labels; nothing of it depends on defaults of the API server."""
    labels = {"app": "cart", "rollouts.dev/name": "cart", "rollouts.dev/revision": "abc"}
    owner = {"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "name": "cart", "uid": "u-1"}
    assert replica_set(_rollout(), CREATE) == {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": "cart-abc",
            "namespace": "shop",
            "labels": {**labels, "rollouts.dev/hash-scheme": "v1"},
            "annotations": {"rollouts.dev/revision-number": "3"},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {
            "replicas": 2,
            "minReadySeconds": 7,
            "selector": {**SELECTOR, "matchLabels": {"app": "cart", "rollouts.dev/revision": "abc"}},
            "template": {
                "metadata": {"labels": labels, "annotations": {"note": "mine"}},
                "spec": TEMPLATE["spec"],
            },
        },
    }


def _not_ours(
    made: dict[str, Any], *, rollout: Rollout, name: str | None = None, selector: bytes | None = None, **labels: str
) -> str:
    metadata = made["metadata"]
    return not_ours(
        name or metadata["name"],
        metadata["labels"] | {f"rollouts.dev/{key}": value for key, value in labels.items()},
        json.dumps(made["spec"]["selector"]).encode() if selector is None else selector,
        rollout=rollout.name,
        users_selector=rollout.spec.selector_json,
    )


@pytest.mark.parametrize("config", [(), (FLAGS,)], ids=["v1", "v2"])
@pytest.mark.parametrize("name", ["cart", "cart" * 40])
def test_a_replica_set_that_we_made_is_known_as_ours(name: str, config: tuple[ConfigUse, ...]) -> None:
    """By what is on it, since nobody controls it any more; also with a long name, and as another server writes its selector."""
    rollout = _rollout(name=name)
    made = replica_set(rollout, replace(CREATE, config=config))
    turned = json.dumps(dict(reversed(made["spec"]["selector"].items())), indent=1).encode()

    assert _not_ours(made, rollout=rollout) == ""
    assert _not_ours(made, rollout=rollout, selector=turned) == ""


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": "cart-other"}, "its name does not follow"),
        ({"revision": ""}, "its name does not follow"),
        ({"hash-scheme": "v0"}, "'v0', not 'v1' or 'v2'"),
        ({"selector": b'{"matchLabels": {"app": "cart"}}'}, "its selector is not spec.selector"),
        ({"selector": b"{"}, "its selector is not spec.selector"),
        ({"selector": b""}, "its selector is not spec.selector"),
    ],
)
def test_what_differs_from_what_we_make_is_not_ours(changes: dict[str, Any], told: str) -> None:
    """A label can be put on anything; its pods would be scaled and deleted."""
    rollout = _rollout()

    assert told in _not_ours(replica_set(rollout, CREATE), rollout=rollout, **changes)


@pytest.mark.parametrize("has_owners", [False, True])
def test_an_adoption_lands_on_the_version_that_was_seen_and_keeps_other_owners(has_owners: bool) -> None:
    """Two Rollouts of one name may follow each other within a second."""
    *guards, added = adoption_patch(_rollout(), uid="u-2", resource_version="8", has_owners=has_owners)

    seen = {"/metadata/uid": "u-2", "/metadata/resourceVersion": "8"}
    assert guards == [{"op": "replace", "path": path, "value": value} for path, value in seen.items()]
    owner = owner_reference(_rollout())
    where = ("/metadata/ownerReferences/-", owner) if has_owners else ("/metadata/ownerReferences", [owner])
    assert (added["path"], added["value"]) == where


def test_a_role_is_on_the_pods_and_noted_on_the_replica_set() -> None:
    """The note is how the controller knows later what to take off again."""
    made = replica_set(_rollout(), replace(CREATE, pod_metadata=ROLE))

    metadata = made["spec"]["template"]["metadata"]
    assert metadata["labels"]["role"] == "canary"
    assert metadata["annotations"] == {"note": "mine", "why": "new"}
    assert "role" not in made["metadata"]["labels"]
    assert pod_metadata_of(made["metadata"]["annotations"]) == ROLE
    assert pods_carry_metadata(made["metadata"]["annotations"])


@pytest.mark.parametrize("strategy", [Canary, lambda **more: BlueGreen(active_service="a", **more)])
def test_anti_affinity_joins_the_users_own(strategy: Any) -> None:
    """The user's affinity stays; ours keeps new pods off the nodes of the revision before."""
    own = {"labelSelector": {}, "topologyKey": "zone"}
    form = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = {"nodeAffinity": {"x": 1}, "podAntiAffinity": {form: [own]}}
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "affinity": affinity}}
    rollout = _rollout(strategy=strategy(anti_affinity=AntiAffinity(required=True)), template=template)

    made = replica_set(rollout, replace(CREATE, anti_affinity_revision="old"))["spec"]["template"]["spec"]["affinity"]

    assert made["nodeAffinity"] == {"x": 1}
    expressions = [{"key": "rollouts.dev/revision", "operator": "In", "values": ["old"]}]
    ours = {"labelSelector": {"matchExpressions": expressions}, "topologyKey": "kubernetes.io/hostname"}
    assert made["podAntiAffinity"][form] == [own, ours]


def test_a_preferred_anti_affinity_has_its_weight() -> None:
    """And nothing is added where there is no revision to keep away from."""
    rollout = _rollout(strategy=Canary(anti_affinity=AntiAffinity(required=False, weight=9)))
    form = "preferredDuringSchedulingIgnoredDuringExecution"

    first = replica_set(rollout, CREATE)["spec"]["template"]["spec"]
    later = replica_set(rollout, replace(CREATE, anti_affinity_revision="old"))["spec"]["template"]["spec"]

    assert "affinity" not in first
    assert later["affinity"]["podAntiAffinity"][form][0]["weight"] == 9


def test_a_template_without_metadata_gets_ours() -> None:
    """The labels alone are set; no empty annotations are made up."""
    made = replica_set(_rollout(template={"spec": {"containers": []}}), CREATE)

    labels = {"rollouts.dev/name": "cart", "rollouts.dev/revision": "abc"}
    assert made["spec"]["template"]["metadata"] == {"labels": labels}


def test_a_long_name_fits_its_label() -> None:
    """A Rollout's name may have 253 characters, a label's value 63; two long names must not share a value."""
    first, second = name_label("a" * 250 + "b"), name_label("a" * 250 + "c")

    assert len(first) <= 63
    assert first != second
    assert name_label("a" * 63) == "a" * 63


def _patch(**changes: Any) -> dict[str, Any]:
    return replica_set_patch(PatchReplicaSet(name="a", uid="u", revision="r", **changes))


def test_a_patch_changes_what_is_given_and_nothing_else() -> None:
    """Scaling is the most frequent write: it is small, and growing needs no version."""
    assert _patch(replicas=0) == {"metadata": {"uid": "u"}, "spec": {"replicas": 0}}


def test_a_patch_can_be_bound_to_a_version_and_changes_a_role() -> None:
    """Keys of the role before are taken off, keys of the new one are set, and the note follows."""
    roles = {"pod_metadata": STABLE, "replaced_metadata": ROLE, "pods_carry_metadata": False}
    patch = _patch(resource_version="7", min_ready_s=3, number=5, **roles)

    annotations = patch["metadata"].pop("annotations")
    template = {"metadata": {"labels": {"role": "stable"}, "annotations": {"why": None}}}
    assert patch["metadata"] == {"uid": "u", "resourceVersion": "7"}
    assert patch["spec"] == {"minReadySeconds": 3, "template": template}
    assert (revision_number_of(annotations), pod_metadata_of(annotations)) == (5, STABLE)
    assert not pods_carry_metadata(annotations)


def test_a_role_without_metadata_leaves_no_note() -> None:
    """Null removes the annotation; then the pods carry what the template has."""
    patch = _patch(pod_metadata=PodMetadata(), replaced_metadata=ROLE, pods_carry_metadata=True)

    notes = ("rollouts.dev/ephemeral-metadata", "rollouts.dev/pods-metadata")
    assert patch["metadata"]["annotations"] == dict.fromkeys(notes)


@pytest.mark.parametrize(
    ("label", "other"), [("rollouts.dev/revision", "pod-template-hash"), ("pod-template-hash", "rollouts.dev/revision")]
)
def test_a_service_is_managed_and_released_by_three_entries_under_a_guard(label: str, other: str) -> None:
    """A plan made from an older view must get a 409; nothing else of the user's Service is touched.

    A Rollout may change between pods of its own and those of a Deployment: the key of the other way goes.
    """
    switch = SwitchService(name="s", uid="u", resource_version="9", revision="abc")
    managed = switch_service(switch, rollout="cart", label=label)
    released = release_service(ReleaseService(name="s", uid="u", resource_version="9"))

    guard = {"uid": "u", "resourceVersion": "9"}
    ours = {"labels": {"rollouts.dev/managed": "true"}, "annotations": {"rollouts.dev/managed-by": "cart"}}
    assert managed == {"metadata": {**guard, **ours}, "spec": {"selector": {label: "abc", other: None}}}
    assert released == {
        "metadata": {**guard, **{part: dict.fromkeys(entries) for part, entries in ours.items()}},
        "spec": {"selector": {label: None, other: None}},
    }


def test_a_pod_gets_its_role_only_if_it_is_the_pod_that_was_seen() -> None:
    """Names of pods are used again by nobody, but uids cost nothing and are certain."""
    patch = pod_patch(PatchPod(name="p", uid="u", metadata=STABLE, removed=ROLE))

    assert patch == {"metadata": {"uid": "u", "labels": {"role": "stable"}, "annotations": {"why": None}}}


def test_an_event_is_about_the_rollout_as_it_was_seen() -> None:
    """`kubectl describe` finds Events by uid; the API server wants eventTime, action and both reporters."""
    notice = Notice(Reason.ROLLOUT_ABORTED, "held", warning=True)

    made = event(_rollout(), notice, at_s=1767225600.5, name="cart.1", instance="pod-0")

    assert (made["regarding"]["uid"], made["regarding"]["resourceVersion"]) == ("u-1", "42")
    assert made["eventTime"] == "2026-01-01T00:00:00.500000Z"
    assert (made["type"], made["reason"], made["note"]) == ("Warning", "RolloutAborted", "held")
    assert (made["reportingController"], made["reportingInstance"]) == ("rollouts.dev/controller", "pod-0")
    assert made["action"]


def test_an_event_says_where_the_update_stood_for_programs() -> None:
    """A chart of the weight over time is drawn from it; without weights (blue-green) there is nothing to say."""
    notice = Notice(Reason.STEP_COMPLETED, "step 1 is done")
    stands = event_annotations(RolloutStatus(current_revision="abc", weight_percent=Fraction(25, 2)))
    made = event(_rollout(), notice, at_s=0.0, name="n", instance="i", annotations=stands)
    other = event(_rollout(), notice, at_s=0.0, name="n", instance="i")

    assert made["metadata"]["annotations"] == {"rollouts.dev/revision": "abc", "rollouts.dev/weight": "12.5"}
    assert "annotations" not in other["metadata"]
    assert event_annotations(RolloutStatus(current_revision="abc", weight_percent=None)) == {}
    assert event_annotations(RolloutStatus(current_revision="", weight_percent=100)) == {}


@pytest.mark.parametrize("character", ["x", "ü", "🙂"])
def test_a_note_fits_into_1024_bytes(character: str) -> None:
    """The API server counts bytes, and refuses the whole Event."""
    made = event(_rollout(), Notice(Reason.HEALTHY, character * 2000), at_s=0.0, name="n", instance="i")

    assert 1000 < len(made["note"].encode()) <= 1024
    assert made["note"].endswith("…")


def test_names_of_events_differ_and_fit() -> None:
    """Two Events of one pass have the same time; a Rollout's name may be as long as a name can be."""
    names = {event_name("cart", at_s=1.5, index=index) for index in range(20)} | {event_name("cart", at_s=1.500001)}

    assert len(names) == 21
    assert len(event_name("a" * 253, at_s=1767225600.0)) <= 253


def test_what_is_written_is_json() -> None:
    """Mappings of the core must have become plain objects."""
    made = replica_set(_rollout(), replace(CREATE, pod_metadata=ROLE))

    assert json.loads(json.dumps(made)) == made


def test_a_run_says_what_it_is_about() -> None:
    """By its labels the controller finds its place again after a restart; by its owner it goes with the Rollout."""
    draft = RunDraft(spec_json=b'{"metrics":[{"name":"a"}]}', latest="abc", stable="old")
    gate = AnalysisGate(AnalysisKind.STEP, 2)
    intent = CreateAnalysisRun(name="cart-abc-step-2-x", gate=gate, revision="abc", attempt=1, draft=draft)

    labels = {"name": "cart", "revision": "abc", "analysis": "step", "step": "2"}
    metadata = {
        "labels": {f"rollouts.dev/{name}": value for name, value in labels.items()},
        "annotations": {"rollouts.dev/attempt": "1"},
        "ownerReferences": [owner_reference(_rollout())],
    }
    spec = {"metrics": [{"name": "a"}]}
    assert analysis_run(_rollout(), intent) == manifest(
        ANALYSIS_RUN, "cart-abc-step-2-x", "shop", metadata=metadata, spec=spec
    )


def test_the_users_metadata_of_a_run_takes_none_of_ours_away() -> None:
    """A label of the user's that said another revision would bind the verdict to that one."""
    theirs = {"team": "shop", "rollouts.dev/revision": "old", "rollouts.dev/name": "other"}
    notes = {"note": "x", "rollouts.dev/attempt": "9"}
    draft = RunDraft(spec_json=b"{}", latest="abc", stable="old", labels=theirs, annotations=notes)
    gate = AnalysisGate(AnalysisKind.BACKGROUND)
    intent = CreateAnalysisRun(name="r", gate=gate, revision="abc", attempt=0, draft=draft)

    made = analysis_run(_rollout(name="n" * 80), intent)["metadata"]

    assert made["labels"] == {
        "team": "shop",
        "rollouts.dev/name": name_label("n" * 80),
        "rollouts.dev/revision": "abc",
        "rollouts.dev/analysis": "background",
    }
    assert made["annotations"] == {"note": "x", "rollouts.dev/attempt": "0"}


@pytest.mark.parametrize("kind", list(AnalysisKind))
def test_the_place_of_a_run_comes_back_from_its_labels(kind: AnalysisKind) -> None:
    """It is kept nowhere else on the run."""
    gate = AnalysisGate(kind, 7 if kind.is_step else None)

    assert gate_of(gate_labels(gate)) == gate


def test_a_run_is_told_to_end_by_its_uid() -> None:
    """Another run of that name goes on."""
    patch = termination_patch(TerminateAnalysisRun(name="r", uid="u"))

    assert patch == {"metadata": {"uid": "u"}, "spec": {"terminate": True}}


def test_an_experiment_keeps_its_pods_until_it_is_told_a_time() -> None:
    """A part of a second more is safe. What nobody can read is no time."""
    draft = RunDraft(b"{}", "b", "a", keeps_pods=True)
    gate = AnalysisGate(AnalysisKind.EXPERIMENT, 0)
    made = analysis_run(_rollout(), CreateAnalysisRun(name="r", gate=gate, revision="b", attempt=0, draft=draft))
    patch = let_go_patch(LetPodsGo(name="r", uid="u", until_s=1_000.2))

    assert math.isinf(kept_until_s(made["metadata"]["annotations"]))
    assert patch["metadata"]["uid"] == "u"
    assert kept_until_s(patch["metadata"]["annotations"]) == 1_001.0
    assert math.isinf(kept_until_s({KEEP_PODS: "tomorrow"}))
    assert kept_until_s({}) == 0.0
