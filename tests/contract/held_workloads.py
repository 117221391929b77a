"""Workloads that a Rollout updates in place, and what may become of a write to one: for the tests of the hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rollouts.objects import DAEMON_SET, DEPLOYMENT, STATEFUL_SET, Kind, Manifest
from rollouts.ports import APPLY_PATCH, MERGE_PATCH
from tests import build
from tests.contract.conversation import Answer, Conversation

PREFIX = "rollouts.dev/"
MOST = 2147483647

MARKED: Manifest = {"labels": {"managed": "true", "hold": "true"}, "annotations": {"managed-by": "web"}}
FREE: Manifest = {"labels": {"managed": "true"}, "annotations": {"managed-by": "web"}}
HELD: Manifest = {"labels": MARKED["labels"], "annotations": {"managed-by": "web", "held": "1"}}


def named(marks: Manifest) -> Manifest:
    """Metadata with these labels and annotations below our prefix."""
    return {part: {f"{PREFIX}{name}": value for name, value in pairs.items()} for part, pairs in marks.items()}


def spec_of(kind: Kind, *, image: str = "app:1", **fields: Any) -> Manifest:
    """The spec of a manifest without pods, as its user writes it."""
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": build.pod_template("web", image=image), **fields}
    if kind == STATEFUL_SET:
        spec = {"serviceName": "web", **spec}
    return spec if kind == DAEMON_SET else {"replicas": 0, **spec}


def manifest(kind: Kind, name: str, *, marks: Manifest | None = None, image: str = "app:1", **fields: Any) -> Manifest:
    """A manifest, by default as its user writes it: without marks."""
    metadata = {"name": name, **named(marks or {})}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata,
            "spec": spec_of(kind, image=image, **fields)}  # fmt: skip


@dataclass(frozen=True)
class Patch:
    """A merge patch of the spec, and of labels and annotations below our prefix."""

    spec: Manifest = field(default_factory=dict)
    labels: Mapping[str, str | None] = field(default_factory=dict)
    annotations: Mapping[str, str | None] = field(default_factory=dict)

    async def sent(self, api: Conversation, kind: Kind, name: str) -> Answer:
        metadata = named({"labels": self.labels, "annotations": self.annotations})
        return await api.patch(kind, name, {"metadata": metadata, "spec": self.spec}, MERGE_PATCH, dryRun="All")


@dataclass(frozen=True)
class Template(Patch):
    """The same with another image."""

    async def sent(self, api: Conversation, kind: Kind, name: str) -> Answer:
        changed = {**self.spec, "template": build.pod_template("web", image="app:2")}
        return await Patch(changed, self.labels, self.annotations).sent(api, kind, name)


@dataclass(frozen=True)
class Applied:
    """Server-side apply of the user's manifest by force, as tools of GitOps do."""

    image: str = "app:1"
    spec: Manifest = field(default_factory=dict)
    marks: Manifest = field(default_factory=dict)

    async def sent(self, api: Conversation, kind: Kind, name: str) -> Answer:
        body = manifest(kind, name, marks=self.marks, image=self.image, **self.spec)
        query = {"fieldManager": "gitops", "force": "true", "dryRun": "All"}
        return await api.patch(kind, name, body, APPLY_PATCH, **query)


@dataclass(frozen=True)
class Replaced(Applied):
    """`kubectl replace` of the user's manifest."""

    async def sent(self, api: Conversation, kind: Kind, name: str) -> Answer:
        body = manifest(kind, name, marks=self.marks, image=self.image, **self.spec)
        return await api.put(kind, name, body, dryRun="All")


@dataclass(frozen=True)
class Case:
    """What a write must lead to.

    Args:
        there: spec of the workload before the write, besides the user's.
        leaves: fields of the spec after it; None for one that is absent or has its zero.
        keeps: names of the marks after it; None for all that were there.
        refused: a part of the answer, when the write is refused.
    """

    kind: Kind
    marks: Manifest
    write: Patch | Applied
    leaves: Manifest = field(default_factory=dict)
    there: Manifest = field(default_factory=dict)
    keeps: Manifest | None = None
    refused: str = ""


STRATEGY: Manifest = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
STEP: Manifest = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
INFLATED = {"minReadySeconds": MOST - 1, "progressDeadlineSeconds": MOST, "strategy": STEP}
USERS = {"minReadySeconds": 5, "progressDeadlineSeconds": 60, "strategy": STRATEGY}
PAUSED: Manifest = {"paused": True}
STEPPED_PAUSED = {**INFLATED, **PAUSED}
NEXT = {"held": "2"}
GONE: Mapping[str, str | None] = {"held": None}
RELEASED = Patch(labels={"hold": None, "managed": None}, annotations={"held": None, "managed-by": None})

DEPLOYMENTS = {
    # At rest.
    "a new template by patch": Case(DEPLOYMENT, MARKED, Template(), PAUSED),
    "a new template by apply": Case(DEPLOYMENT, MARKED, Applied("app:2"), PAUSED),
    "a new template by replace": Case(DEPLOYMENT, MARKED, Replaced("app:2"), PAUSED),
    "a new template that says it is not paused": Case(DEPLOYMENT, MARKED, Template({"paused": False}), PAUSED),
    "a new template without the label": Case(DEPLOYMENT, MARKED, Template(labels={"hold": None}), PAUSED, keeps=FREE),
    "a new size": Case(DEPLOYMENT, MARKED, Patch({"replicas": 3}), {"paused": None, "replicas": 3}),
    "the user's own strategy": Case(DEPLOYMENT, MARKED, Patch(USERS), {"paused": None, **USERS}),
    "nothing new by replace": Case(DEPLOYMENT, MARKED, Replaced(), {"paused": None}),
    "the label taken off": Case(DEPLOYMENT, MARKED, Patch(labels={"hold": None}), {"paused": None}, keeps=FREE),
    "a new template of one that nobody holds": Case(DEPLOYMENT, FREE, Template(), {"paused": None}),
    "a new template of one that no Rollout manages": Case(
        DEPLOYMENT, {"labels": {"hold": "true"}}, Template(), {"paused": None}
    ),
    "marks taken off one that nobody holds": Case(
        DEPLOYMENT, FREE, Patch(labels={"managed": None}, annotations={"managed-by": None}), keeps={}
    ),
    "all marks taken off by patch": Case(DEPLOYMENT, MARKED, RELEASED, keeps={}),
    "a manifest with marks of before by replace": Case(
        DEPLOYMENT, HELD, Replaced(spec=USERS, marks=MARKED), INFLATED, there=INFLATED
    ),
    # Held, and the controller has not begun yet.
    "the same again by replace": Case(DEPLOYMENT, MARKED, Replaced(), PAUSED, there=PAUSED),
    "the same again by apply": Case(DEPLOYMENT, MARKED, Applied(), PAUSED, there=PAUSED),
    "kubectl rollout resume": Case(DEPLOYMENT, MARKED, Patch({"paused": None}), {"paused": None}, there=PAUSED),
    # In an update.
    "the user's strategy by apply": Case(DEPLOYMENT, HELD, Applied(spec=USERS), INFLATED, there=INFLATED),
    "the user's strategy by replace": Case(DEPLOYMENT, HELD, Replaced(spec=USERS), INFLATED, there=INFLATED),
    "no strategy by replace": Case(DEPLOYMENT, HELD, Replaced(), {**INFLATED, "paused": None}, there=INFLATED),
    "the user's strategy by patch": Case(DEPLOYMENT, HELD, Patch(USERS), INFLATED, there=INFLATED),
    "another strategy without a label": Case(
        DEPLOYMENT, HELD, Patch(USERS, labels={"hold": None}), INFLATED, there=INFLATED,
        keeps={**FREE, "annotations": HELD["annotations"]},
    ),
    "one more template": Case(DEPLOYMENT, HELD, Template(), STEPPED_PAUSED, there=INFLATED),
    "one more template by replace": Case(DEPLOYMENT, HELD, Replaced("app:2", USERS), STEPPED_PAUSED, there=INFLATED),
    "another size": Case(DEPLOYMENT, HELD, Patch({"replicas": 3}), {**INFLATED, "replicas": 3}, there=INFLATED),
    "the next step": Case(
        DEPLOYMENT, HELD, Patch(USERS, annotations=NEXT), USERS, there=INFLATED,
        keeps={**MARKED, "annotations": {**MARKED["annotations"], **NEXT}},
    ),
    "the end of the update": Case(DEPLOYMENT, HELD, Patch(USERS, annotations=GONE), USERS, there=INFLATED, keeps=MARKED),
    "all marks and fields taken off by patch": Case(
        DEPLOYMENT, HELD, replace(RELEASED, spec=USERS), USERS, there=INFLATED, keeps={}
    ),
    "kubectl rollout pause": Case(DEPLOYMENT, HELD, Patch(PAUSED), STEPPED_PAUSED, there=INFLATED),
    # In an update that is paused.
    "kubectl rollout resume in an update": Case(
        DEPLOYMENT, HELD, Patch({"paused": None}), there=STEPPED_PAUSED, refused="Rollout web has paused this Deployment"
    ),
    "a manifest that says it is not paused": Case(
        DEPLOYMENT, HELD, Applied(spec={"paused": False}), there=STEPPED_PAUSED, refused="has paused this Deployment"
    ),
    "replace in a paused update": Case(DEPLOYMENT, HELD, Replaced(spec=USERS), STEPPED_PAUSED, there=STEPPED_PAUSED),
    "the next step from a pause": Case(
        DEPLOYMENT, HELD, Patch({"paused": None, "strategy": STRATEGY}, annotations=NEXT),
        {"paused": None, "strategy": STRATEGY}, there=STEPPED_PAUSED,
        keeps={**MARKED, "annotations": {**MARKED["annotations"], **NEXT}},
    ),
    "taken from the Rollout": Case(
        DEPLOYMENT, HELD,
        Patch({"paused": None, "minReadySeconds": None, "progressDeadlineSeconds": None, "strategy": None},
              labels={"hold": None}, annotations=GONE),
        {"paused": None, "minReadySeconds": None, "progressDeadlineSeconds": 600, "strategy": STRATEGY},
        there=STEPPED_PAUSED, keeps=FREE,
    ),
}  # fmt: skip


def rolling(partition: int, **more: Any) -> Manifest:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition, **more}}}


ON_DELETE: Manifest = {"updateStrategy": {"type": "OnDelete"}}


def _noted(partition: str) -> Manifest:
    """The marks with the user's partition, as the policy notes it."""
    return {**MARKED, "annotations": {**MARKED["annotations"], "partition": partition}}


PLAIN: Manifest = {"updateStrategy": {"type": "RollingUpdate"}}
STATEFUL_SETS = {
    "a new template by patch": Case(STATEFUL_SET, MARKED, Template(), rolling(MOST), keeps=_noted("0")),
    "a new template by apply": Case(STATEFUL_SET, MARKED, Applied("app:2"), rolling(MOST), keeps=_noted("0")),
    "a new template by replace": Case(STATEFUL_SET, MARKED, Replaced("app:2"), rolling(MOST), keeps=_noted("0")),
    "a new template with a partition": Case(
        STATEFUL_SET, MARKED, Template(rolling(2)), rolling(MOST), keeps=_noted("2")
    ),
    "a new template without a partition": Case(
        STATEFUL_SET, MARKED, Template(), rolling(MOST), there=PLAIN, keeps=_noted("")
    ),
    "one more template before the update begins": Case(
        STATEFUL_SET, _noted("3"), Template(), rolling(MOST), there=rolling(MOST)
    ),
    "one more template by replace before the update begins": Case(
        STATEFUL_SET, _noted("3"), Replaced("app:2", rolling(0)), rolling(MOST), there=rolling(MOST)
    ),
    "a new template under OnDelete": Case(STATEFUL_SET, MARKED, Template(), ON_DELETE, there=ON_DELETE),
    "a new size": Case(STATEFUL_SET, MARKED, Patch({"replicas": 3}), {"replicas": 3, **rolling(0)}),
    "the user's own partition": Case(STATEFUL_SET, MARKED, Patch(rolling(2)), rolling(2)),
    "nothing new by replace": Case(STATEFUL_SET, MARKED, Replaced(), rolling(0)),
    "a new template of one that nobody holds": Case(STATEFUL_SET, FREE, Template(), rolling(0)),
    # Held, and the controller has not begun yet.
    "the same again by replace": Case(STATEFUL_SET, MARKED, Replaced(), rolling(MOST), there=rolling(MOST)),
    "a partition by apply": Case(STATEFUL_SET, MARKED, Applied(spec=rolling(0)), rolling(MOST), there=rolling(MOST)),
    "the label and the partition taken off": Case(
        STATEFUL_SET, MARKED, Patch(rolling(0), labels={"hold": None}), rolling(0), there=rolling(MOST), keeps=FREE
    ),
    # In an update.
    "a partition by patch in an update": Case(STATEFUL_SET, HELD, Patch(rolling(0)), rolling(2), there=rolling(2)),
    "a partition by replace in an update": Case(STATEFUL_SET, HELD, Replaced(spec=rolling(0)), rolling(2), there=rolling(2)),
    "one more template": Case(STATEFUL_SET, HELD, Template(rolling(0)), rolling(MOST), there=rolling(2)),
    "the next step": Case(
        STATEFUL_SET, HELD, Patch(rolling(1), annotations=NEXT), rolling(1), there=rolling(2),
        keeps={**MARKED, "annotations": {**MARKED["annotations"], **NEXT}},
    ),
    "the end of the update": Case(
        STATEFUL_SET, HELD, Patch(rolling(0), annotations=GONE), rolling(0), there=rolling(2), keeps=MARKED
    ),
}  # fmt: skip


def nodes(kind: str = "RollingUpdate", unavailable: int = 2) -> Manifest:
    return {"updateStrategy": {"type": kind, "rollingUpdate": {"maxSurge": 0, "maxUnavailable": unavailable}}}


DAEMON_SETS = {
    "a new template by patch": Case(DAEMON_SET, MARKED, Template(), nodes("OnDelete"), there=nodes()),
    "a new template by apply": Case(DAEMON_SET, MARKED, Applied("app:2", nodes()), nodes("OnDelete"), there=nodes()),
    "a new template by replace": Case(DAEMON_SET, MARKED, Replaced("app:2", nodes()), nodes("OnDelete"), there=nodes()),
    "a new template under OnDelete": Case(DAEMON_SET, MARKED, Template(), ON_DELETE, there=ON_DELETE),
    "the user's own numbers": Case(DAEMON_SET, MARKED, Patch(nodes(unavailable=1)), nodes(unavailable=1), there=nodes()),
    "the user's own type": Case(DAEMON_SET, MARKED, Patch(nodes()), nodes(), there=ON_DELETE),
    "nothing new by replace": Case(DAEMON_SET, MARKED, Replaced(spec=nodes()), nodes(), there=nodes()),
    "a new template of one that nobody holds": Case(DAEMON_SET, FREE, Template(), nodes(), there=nodes()),
    # Held, and the controller has not begun yet.
    "the same again by replace": Case(
        DAEMON_SET, MARKED, Replaced(spec=nodes()), nodes("OnDelete"), there=nodes("OnDelete")
    ),
    "the type by apply": Case(DAEMON_SET, MARKED, Applied(spec=nodes()), nodes("OnDelete"), there=nodes("OnDelete")),
    "the label and the type taken off": Case(
        DAEMON_SET, MARKED, Patch(nodes(), labels={"hold": None}), nodes(), there=nodes("OnDelete"), keeps=FREE
    ),
    # In an update.
    "the type by patch in an update": Case(
        DAEMON_SET, HELD, Patch(nodes()), nodes("OnDelete"), there=nodes("OnDelete")
    ),
    "the type by replace in an update": Case(
        DAEMON_SET, HELD, Replaced(spec=nodes()), nodes("OnDelete"), there=nodes("OnDelete")
    ),
    "one more template": Case(DAEMON_SET, HELD, Template(nodes()), nodes("OnDelete"), there=nodes("OnDelete")),
    "the end of the update": Case(
        DAEMON_SET, HELD, Patch(nodes(), annotations=GONE), nodes(), there=nodes("OnDelete"), keeps=MARKED
    ),
}  # fmt: skip

CASES = {
    f"{kind}: {name}": case
    for kind, cases in (("Deployment", DEPLOYMENTS), ("StatefulSet", STATEFUL_SETS), ("DaemonSet", DAEMON_SETS))
    for name, case in cases.items()
}
