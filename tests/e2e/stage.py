"""A namespace with a controller at work, as a test uses it: through the API, as a start of kubectl takes ten times the CPU.

Tests of what people type act by kubectl (`KubectlStage`). Nothing sleeps.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rollouts.manifests.ownership import FIELD_MANAGER
from tests.e2e.manifests import Manifest
from tests.lab.control_plane import AT_WORK, ControlPlane, is_true
from tests.lab.loopback import meanwhile

WITHIN_S = 50  # how long a wait lasts at most: many times what it takes on two busy cores
REVISION = "rollouts.dev/revision"
_GROUPS = {
    **AT_WORK,
    "httproutes": "/apis/gateway.networking.k8s.io/v1",
    "trafficsplits": "/apis/split.smi-spec.io/v1alpha4",
    "endpointslices": "/apis/discovery.k8s.io/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
    "roles": "/apis/rbac.authorization.k8s.io/v1",
    "daemonsets": "/apis/apps/v1",
    "statefulsets": "/apis/apps/v1",
    "leases": "/apis/coordination.k8s.io/v1",
}
"""Of kinds with a namespace; those that are not here are in the core group."""


@dataclass(frozen=True)
class Stage:
    """One namespace of the control plane."""

    plane: ControlPlane
    namespace: str

    def kubectl(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002 - as in ControlPlane.kubectl
        """What kubectl prints, in this namespace, as an administrator. Raises: AssertionError with kubectl's words."""
        return self.plane.kubectl(*arguments, "-n", self.namespace, input=input).stdout

    def apply(self, *manifests: Manifest) -> None:
        """Applies objects, and takes what they do not say any more off them."""
        self.plane.apply(*manifests, namespace=self.namespace)

    def patch(self, rollout: str, spec: Manifest) -> None:
        """Merges `spec` into the Rollout's."""
        self._patch(rollout, "merge", {"spec": spec})

    def set_image(self, rollout: str, image: str) -> None:
        """A new revision: the first container's image."""
        path = "/spec/template/spec/containers/0/image"
        self._patch(rollout, "json", [{"op": "replace", "path": path, "value": image}])

    def annotate(self, rollout: str, verb: str, value: str) -> None:
        """Sets `rollouts.dev/VERB=VALUE`."""
        self._patch(rollout, "merge", {"metadata": {"annotations": {f"rollouts.dev/{verb}": value}}})

    def _patch(self, rollout: str, form: str, change: Manifest | list[Manifest]) -> None:
        self.plane.patch(f"{self._path('rollouts')}/{rollout}", change, form=form)

    def wait_ready(self, rollout: str) -> Manifest:
        """Watches a Rollout until its condition Ready holds for the spec as it is; the Rollout."""

        return self.until("rollouts", rollout, lambda one: is_current(one) and is_true(one, "Ready"))

    def get(self, what: str, name: str) -> Manifest:
        """One object. Raises: httpx.HTTPStatusError."""
        found: Manifest = self.plane.api.get(f"{self._path(what)}/{name}").raise_for_status().json()
        return found

    def all(self, what: str, selector: str = "") -> list[Manifest]:
        """The objects that a label selector finds, in the order of their names."""
        answer = self.plane.api.get(self._path(what), params={"labelSelector": selector}).raise_for_status()
        items: list[Manifest] = answer.json()["items"]
        return items

    def until(self, what: str, name: str, holds: Callable[[Manifest], bool], *, within_s: int = WITHIN_S) -> Manifest:
        """Watches one object until `holds`; that object."""
        return self.plane.until(self._path(what), name, holds, within_s=within_s)

    def until_at(
        self,
        rollout: str,
        reason: str,
        *,
        step: int | None = None,
        image: str | None = None,
        but: str = "",
        within_s: int = WITHIN_S,
    ) -> Manifest:
        """Watches a Rollout until its status, written for the spec as it is, says that it waits for `reason`.

        Args:
            step: currentStepIndex, 0-based.
            image: the spec's image, so that an older status is not taken for the answer to a change.
            but: a revision that it is not about.
        """

        def stands(one: Manifest) -> bool:
            status = one.get("status", {})
            return (
                is_current(one)
                and (status.get("waitingFor") or {}).get("reason") == reason
                and step in (None, status.get("currentStepIndex"))
                and (image is None or image == one["spec"]["template"]["spec"]["containers"][0]["image"])
                and status.get("currentRevision") != but
            )

        return self.until("rollouts", rollout, stands, within_s=within_s)

    def until_phase(self, rollout: str, phase: str, *, within_s: int = WITHIN_S) -> Manifest:
        """Watches a Rollout until its status, written for the spec as it is, has that phase."""
        return self.until(
            "rollouts", rollout, lambda one: is_current(one) and one["status"].get("phase") == phase, within_s=within_s
        )

    def until_stable(self, rollout: str, holds: Callable[[str], bool], *, within_s: int = WITHIN_S) -> Manifest:
        """Watches a Rollout until it `holds` of its stable revision, whichever spec the status is for."""
        return self.until(
            "rollouts", rollout, lambda one: holds(one.get("status", {}).get("stableRevision", "")), within_s=within_s
        )

    def rolled_out(self, *manifests: Manifest) -> str:
        """Applies objects, among them Rollouts, and waits until these are Ready; the revision of the last one."""
        self.apply(*manifests)
        names = [each["metadata"]["name"] for each in manifests if each["kind"] == "Rollout"]
        return [current(self.wait_ready(name)) for name in names][-1]

    def gated(self, rollout: str, image: str, *, step: int | None = None) -> str:
        """Gives it an image, and waits until a person has to promote that revision; the revision."""
        self.set_image(rollout, image)
        return current(self.until_at(rollout, "PromotionNeeded", step=step, image=image))

    def until_events(self, rollout: str, *wanted: str) -> list[Manifest]:
        """Watches the Events about a Rollout until each wanted reason was given (an Event follows what it tells); all of them.

        Args:
            wanted: reasons, `Warning/REASON` for a warning's, as often as they must have been given at least.
        """
        about = f"involvedObject.kind=Rollout,involvedObject.name={rollout}"
        given: Counter[str] = Counter()
        found: list[Manifest] = []
        with self.plane.watch(self._path("events"), timeout_s=WITHIN_S, fieldSelector=about) as events:
            for event in events:
                one = event["object"]
                found.append(one)
                given[one["reason"] if one["type"] == "Normal" else f"{one['type']}/{one['reason']}"] += 1
                if given >= Counter(wanted):
                    return found
        raise AssertionError(f"Events about {rollout}: {dict(given)}, which lacks {Counter(wanted) - given}")

    def our_fields(self, kind: str, name: str) -> set[str]:
        """The fields of an object's spec that are our field manager's."""
        found = json.loads(self.kubectl("get", kind, name, "-o", "json", "--show-managed-fields"))["metadata"]
        entries = [entry for entry in found["managedFields"] if entry["manager"] == FIELD_MANAGER]
        return {field for entry in entries for field in entry["fieldsV1"].get("f:spec", {})}

    def until_pods(
        self,
        app: str,
        wanted: Mapping[str, int],
        *,
        by: Callable[[Manifest], str] | None = None,
        within_s: int = WITHIN_S,
    ) -> None:
        """Watches the pods labelled `app` until as many of each revision are ready as wanted, and none else is there.

        Args:
            by: what a pod is counted as, if not as its revision.
        """
        pods = Pods(by=by or revision_of)
        if any(pods.settled == wanted for _ in self._followed("pods", f"app={app}", pods, within_s=within_s)):
            return
        raise AssertionError(
            f"pods of {app}: {dict(pods.ready)} ready of {dict(pods.all)}, not {dict(wanted)}; on their way out: {pods.leaving}"
        )

    def until_endpoints(self, service: str, wanted: Mapping[str, int]) -> None:
        """Watches a Service's slices until they hold as many ready pods of each revision as wanted, and no other."""
        slices = Slices()
        if any(slices.ready == wanted for _ in self._followed("endpointslices", slices_of(service), slices)):
            return
        raise AssertionError(f"Service {service} has ready pods {dict(slices.ready)}, not {dict(wanted)}")

    def selected(self, service: str) -> str:
        """The revision in a Service's selector, "" for none."""
        return str(self.get("services", service)["spec"]["selector"].get(REVISION, ""))

    @contextmanager
    def history(self, what: str, selector: str) -> Iterator[list[dict[str, Any]]]:
        """Every change of the selected objects while the block runs, in a list that is filled when it ends.

        The API server keeps the changes: they are read back in one watch from the version at the start, which misses none.
        """
        path, query = self._path(what), {"labelSelector": selector}
        start = self.plane.api.get(path, params=query).raise_for_status().json()
        changes = [{"type": "ADDED", "object": item} for item in start["items"]]
        yield changes
        version = start["metadata"]["resourceVersion"]
        with self.plane.watch(path, timeout_s=1, resourceVersion=version, **query) as events:
            changes += events
        assert all(change["type"] != "ERROR" for change in changes), changes[-1]
        seen = {change["object"]["metadata"]["resourceVersion"] for change in changes}
        now = self.plane.api.get(path, params=query).raise_for_status().json()["items"]
        assert {item["metadata"]["resourceVersion"] for item in now} <= seen

    @contextmanager
    def following(self, what: str, selector: str, take: Callable[[dict[str, Any]], None]) -> Iterator[None]:
        """Gives `take` every change of the selected objects while the block runs, in a thread; first those that are there.

        For blocks of minutes: so long the API server does not keep the changes for `history`. It forgets a version after 75 s,
        and sends the next one, without a change, 2 s before a watch ends: one that lasts no longer gets none.
        """
        path, query = self._path(what), {"labelSelector": selector}
        start = self.plane.api.get(path, params=query).raise_for_status().json()
        for item in start["items"]:
            take({"type": "ADDED", "object": item})

        def follow(over: threading.Event) -> None:
            version = start["metadata"]["resourceVersion"]
            while not over.is_set():
                with self.plane.watch(
                    path, timeout_s=4, resourceVersion=version, allowWatchBookmarks="true", **query
                ) as events:
                    for event in events:
                        assert event["type"] != "ERROR", event
                        version = event["object"]["metadata"]["resourceVersion"]
                        if event["type"] != "BOOKMARK":
                            take(event)

        with meanwhile(follow):
            yield

    def _followed(self, what: str, selector: str, tracker: Followed, *, within_s: int = WITHIN_S) -> Iterator[None]:
        """Yields when the tracker has everything that is there, and after every change, for `within_s` seconds."""
        path = self._path(what)
        start = self.plane.api.get(path, params={"labelSelector": selector}).raise_for_status().json()
        for item in start["items"]:
            tracker.follow({"type": "ADDED", "object": item})
        yield
        version = start["metadata"]["resourceVersion"]
        with self.plane.watch(path, timeout_s=within_s, labelSelector=selector, resourceVersion=version) as events:
            for event in events:
                tracker.follow(event)
                yield

    def _path(self, what: str) -> str:
        return f"{_GROUPS.get(what, '/api/v1')}/namespaces/{self.namespace}/{what}"


class KubectlStage(Stage):
    """The same namespace, in which people act: by kubectl."""

    def apply(self, *manifests: Manifest) -> None:
        """`kubectl apply -f -`."""
        self.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))

    def annotate(self, rollout: str, verb: str, value: str) -> None:
        """`kubectl annotate rollout NAME rollouts.dev/VERB=VALUE --overwrite`."""
        self.kubectl("annotate", "rollout", rollout, f"rollouts.dev/{verb}={value}", "--overwrite")

    def _patch(self, rollout: str, form: str, change: Manifest | list[Manifest]) -> None:
        self.kubectl("patch", "rollout", rollout, f"--type={form}", "-p", json.dumps(change))


def counted(changes: Iterable[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Of the changes of pods: after each, how many were ready, and how many there were, those being deleted left out."""
    pods, counts = Pods(), []
    for change in changes:
        pods.follow(change)
        counts.append((pods.ready.total(), pods.all.total()))
    return counts


def served(changes: Iterable[Mapping[str, Any]]) -> list[dict[str, int]]:
    """Of the changes of a Service's slices: after each, the ready pods by revision."""
    slices, states = Slices(), []
    for change in changes:
        slices.follow(change)
        states.append(dict(slices.ready))
    return states


@dataclass
class Followed:
    """The objects of a watch, by name."""

    objects: dict[str, Manifest] = field(default_factory=dict)

    def follow(self, event: Mapping[str, Any]) -> None:
        """Takes a watch event in."""
        name = event["object"]["metadata"]["name"]
        if event["type"] == "DELETED":
            self.objects.pop(name, None)
        else:
            self.objects[name] = event["object"]


def revision_of(pod: Manifest) -> str:
    """The revision of a pod of our own; "" for any other."""
    return str(pod["metadata"]["labels"].get(REVISION, ""))


@dataclass
class Pods(Followed):
    """The pods of a watch, counted by revision, or by what `by` says of them."""

    by: Callable[[Manifest], str] = revision_of

    @property
    def all(self) -> Counter[str]:
        """Those that are not being deleted."""
        return Counter(map(self.by, self._staying()))

    @property
    def ready(self) -> Counter[str]:
        """Those that are Ready and not being deleted."""
        return Counter(self.by(pod) for pod in self._staying() if is_true(pod, "Ready"))

    @property
    def leaving(self) -> dict[str, str]:
        """Those that are being deleted, by name, with the time by which they are to be gone."""
        marked = {name: pod["metadata"].get("deletionTimestamp") for name, pod in self.objects.items()}
        return {name: str(until) for name, until in marked.items() if until}

    def _staying(self) -> Iterator[Manifest]:
        return (pod for pod in self.objects.values() if not pod["metadata"].get("deletionTimestamp"))

    @property
    def settled(self) -> Counter[str] | None:
        """The ready ones, if all are ready and none is on its way out."""
        return self.ready if self.ready.total() == len(self.objects) else None


class Slices(Followed):
    """The EndpointSlices of one Service from a watch; pods' revisions are told by their names."""

    @property
    def ready(self) -> Counter[str]:
        """Ready pods by revision, those of Rollouts whose pods are named ROLLOUT-REVISION-SUFFIX."""
        endpoints = [endpoint for one in self.objects.values() for endpoint in one.get("endpoints") or []]
        return Counter(
            endpoint["targetRef"]["name"].rsplit("-", 2)[1] for endpoint in endpoints if endpoint["conditions"]["ready"]
        )


def slices_of(service: str) -> str:
    """The selector of a Service's EndpointSlices."""
    return f"kubernetes.io/service-name={service}"


def is_current(rollout: Manifest) -> bool:
    """Whether its status was written for the spec as it is."""
    return bool(rollout.get("status", {}).get("observedGeneration") == rollout["metadata"]["generation"])


def current(rollout: Manifest) -> str:
    """The revision that is rolled out."""
    return str(rollout["status"]["currentRevision"])


def seconds(text: str) -> float:
    """A time of a status or of managedFields."""
    return datetime.fromisoformat(text).timestamp()
