"""The simulated API server: `ports.ApiServer` in memory, request by request and watch by watch.

It turns a path into a type and a verb, a query into options, and an answer into bytes. `verbs.py` carries out the writes, and
`history.py` keeps the objects. It has no users, and of admission only what the chart's policies for workloads do: the rest is
tested on the real server.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Protocol
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from rollouts import ports
from rollouts.objects import POD, Manifest
from rollouts.sim.apiserver.listing import Listings, watch_filter
from rollouts.sim.apiserver.subresources import evict, patch_scale, put_scale, scale_of
from rollouts.sim.apiserver.verbs import DeleteOptions, Verbs, WriteOptions
from rollouts.sim.apiserver.watches import RefusedWatch, SimWatch
from rollouts.sim.storage.history import ObjectHistory, Stored
from rollouts.sim.storage.refusals import (
    NoSuchPath,
    Refused,
    bad_request,
    method_not_allowed,
    not_acceptable,
    options_invalid,
)
from rollouts.sim.storage.registry import BUILT_IN, CRD, NAMESPACE, Registry, Resource

BODY_MAX_BYTES = 3 * 1024 * 1024  # k8s.io/apiserver pkg/server, MaxRequestBodyBytes
DEFAULT_MANAGER = "rollouts"
"""The field manager of requests that name none; a real server takes the User-Agent."""
FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_MEDIA_TYPES = frozenset(("application/json", "application/*", "*/*", ""))
_SERVED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_SUCCESS: Manifest = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.1+simulated", "platform": "simulated"}
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


class Form(Enum):
    """The part of an object, or of the objects of a list, that a client accepts."""

    WHOLE = ""
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


class RequestTarget(Struct, frozen=True):
    """The resource that a path names.

    Args:
        namespace: None for all namespaces.
        name: None for the collection.
        part: `status`, `scale`, `eviction` or empty.
    """

    resource: Resource
    namespace: str | None
    name: str | None
    part: str

    @property
    def home(self) -> str:
        """The namespace of the object; "" for a cluster-scoped one."""
        return self.namespace or ""


class AggregatedApi(Protocol):
    """A server of one version of a group."""

    def answer(self, request: ports.Request, steps: tuple[str, ...]) -> ports.Response:
        """Answers a request; `steps` is its path below the version, () for the list of types."""


class Aggregation:
    """Groups of the API that another server answers, as an APIService registers them; others are not found (404).

    Source: https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/apiserver-aggregation/
    """

    def __init__(self) -> None:
        self._apis: dict[tuple[str, str], AggregatedApi] = {}

    def register(self, group: str, version: str, api: AggregatedApi) -> None:
        """Sends requests for a version of a group to a server, as a new APIService does."""
        self._apis[group, version] = api

    def remove(self, group: str, version: str) -> None:
        """Serves it no longer, as after the deletion of its APIService."""
        self._apis.pop((group, version), None)

    @property
    def versions(self) -> list[tuple[str, str]]:
        """What is registered: groups and versions. Discovery names a group whether its server answers or not."""
        return list(self._apis)

    def answer(self, request: ports.Request) -> ports.Response | None:
        """The answer of the server that the path leads to; None when it leads to none."""
        if not self._apis:
            return None
        match request.path.strip("/").split("/"):
            case ["apis", group, version, *steps] if (group, version) in self._apis:
                return self._apis[group, version].answer(request, tuple(steps))
            case _:
                return None


class SimServer:
    """An API server without a network; it serves the types of `crds` from the start. A seed decides uids and generated names.

    With `hold_policies` it has the chart's policies for workloads that a Rollout updates in place.
    """

    def __init__(
        self, *, clock: ports.Clock, seed: int = 0, crds: Iterable[Manifest] = (), hold_policies: bool = False
    ) -> None:
        self.history = ObjectHistory()
        self.registry = Registry()
        self.registry.add(BUILT_IN)
        self.aggregation = Aggregation()
        rng = random.Random(seed)  # noqa: S311  # a simulation's seed
        self.verbs = Verbs(self.registry, self.history, clock, rng, hold_policies)
        self.counts: Counter[tuple[str, str, str, int]] = Counter()
        """Counts of requests through the port, by verb, plural, subresource and status, without the actors' own writes.

        What another server answers has its group beside the plural: `pods.metrics.k8s.io`.
        """
        self._listings = Listings(self.history)
        self._watches: dict[SimWatch, None] = {}  # keeps the order of opening, which a set would not
        self._targets: dict[str, RequestTarget] = {}
        self._targets_as_of = 0
        for crd in crds:
            self.verbs.create(self.registry.of(CRD), "", crd, WriteOptions(manager="crds"))
        for name in FIRST_NAMESPACES:
            self.verbs.create(self.registry.of(NAMESPACE), "", {"metadata": {"name": name}}, WriteOptions())

    async def request(self, request: ports.Request, *, deadline_s: float) -> ports.Response:  # noqa: ARG002 - it answers at once
        """Carries out one request. It never raises ApiUnavailable: faults are in `sim/faults.py`. Cancellation: safe."""
        await asyncio.sleep(0)
        return self.answer(request)

    async def open_watch(
        self,
        request: ports.Request,
        *,
        deadline_s: float,  # noqa: ARG002 - it answers at once
        silence_s: float,
    ) -> ports.WatchStream:
        """Opens a watch."""
        await asyncio.sleep(0)
        try:
            return self._watch(request.path, request.query, _form_of(request.accept), silence_s)
        except Refused as refused:
            return RefusedWatch(refused, indented=request.accept != ports.JSON)

    async def aclose(self) -> None:
        """Ends every watch."""
        self.end_watches()

    def answer(self, request: ports.Request) -> ports.Response:
        """Carries out one request at once."""
        forwarded = self.aggregation.answer(request)
        if forwarded is not None:
            _, group, _, *steps = request.path.strip("/").split("/")
            plural = steps[2] if steps[:1] == ["namespaces"] and len(steps) > 2 else "".join(steps[:1])
            self.counts[request.method, f"{plural}.{group}", "", forwarded.status] += 1
            return forwarded
        target: RequestTarget | None = None
        try:
            target = self.target(request.path)
            form = _form_of(request.accept)
            if len(request.body) > BODY_MAX_BYTES:
                message = f"Request entity too large: limit is {BODY_MAX_BYTES}"
                raise Refused(413, "RequestEntityTooLarge", message)
            if target is None:
                document = _document(self.registry, request.path, self.aggregation.versions)
                response = ports.Response(200, msgspec.json.encode(document))
            else:
                response = self._dispatch(request, target, form)
        except Refused as refused:
            wait_s = (refused.details or {}).get("retryAfterSeconds")
            body = refused.TEXT if isinstance(refused, NoSuchPath) else msgspec.json.encode(refused.status())
            response = ports.Response(refused.code, body, wait_s)
        plural, part = (target.resource.kind.plural, target.part) if target else ("", "")
        self.counts[request.method, plural, part, response.status] += 1
        return response

    def end_watches(self) -> None:
        """Ends every open watch, as a restarting API server does."""
        for watch in tuple(self._watches):
            watch.end()
        self._watches.clear()

    def compact(self) -> None:
        """Forgets all changes so far: older watches and continue tokens get 410."""
        self.history.compact()
        self._listings.forget()

    def target(self, path: str) -> RequestTarget | None:
        """The resource that a path names; None when it names none. Raises: Refused (404) for a type that is not served."""
        if self._targets_as_of != self.registry.changes or len(self._targets) > 50_000:
            self._targets.clear()
            self._targets_as_of = self.registry.changes
        target = self._targets.get(path) or self._parse(path)
        if target is not None:
            self._targets[path] = target
        return target

    def _parse(self, path: str) -> RequestTarget | None:
        steps = [unquote(step) for step in path.strip("/").split("/")]
        if steps[0] == "api" and len(steps) >= 3:
            group, version, rest = "", steps[1], steps[2:]
        elif steps[0] == "apis" and len(steps) >= 4:
            group, version, rest = steps[1], steps[2], steps[3:]
        else:
            return None
        namespace: str | None = None
        if rest[0] == "namespaces" and len(rest) >= 3 and not (len(rest) == 3 and rest[2] in ("status", "finalize")):
            namespace, rest = rest[1], rest[2:]
        resource = self.registry.find(group, version, rest[0])
        if resource is None or len(rest) > 3:
            raise NoSuchPath
        name, part = (rest[1] if len(rest) > 1 else None), (rest[2] if len(rest) > 2 else "")
        served = {"": True, "status": resource.has_status, "scale": resource.scale is not None,
                  "eviction": resource.kind == POD}  # fmt: skip
        if not served.get(part, False) or (name and resource.kind.namespaced and namespace is None):
            raise NoSuchPath
        return RequestTarget(resource, namespace, name, part)

    def _dispatch(self, request: ports.Request, target: RequestTarget, form: Form) -> ports.Response:
        verbs, resource, query = self.verbs, target.resource, request.query
        if target.name is None:
            return self._dispatch_collection(request, target, form)
        match request.method, target.part:
            case "GET", "scale":
                return _ok(scale_of(resource, verbs.get(resource, target.home, target.name)))
            case "GET", "" | "status":
                return _object(resource, verbs.get(resource, target.home, target.name), form)
            case "PUT", "scale":
                stored = verbs.get(resource, target.home, target.name)
                stored = put_scale(verbs, resource, stored, _decode(request.body, "Scale"), self._options(query))
                return _ok(scale_of(resource, stored))
            case "PUT", "" | "status":
                body = _decode(request.body, resource.kind.kind)
                stored = verbs.replace(resource, target.home, target.name, body, self._options(query), target.part)
                return _object(resource, stored, form)
            case "PATCH", "" | "status" | "scale":
                return self._patch(request, target, target.name, form)
            case "DELETE", "":
                options = _delete_options(query, request.body)
                stored, gone = verbs.delete(resource, target.home, target.name, options)
                if not gone or resource.kind == POD:
                    return _object(resource, stored, form)
                details = {"name": target.name, "kind": resource.kind.plural, "uid": stored.metadata["uid"]}
                if resource.kind.group:
                    details["group"] = resource.kind.group
                return _ok({**_SUCCESS, "details": details})
            case "POST", "eviction":
                eviction = _decode(request.body, "Eviction")
                options = _delete_options(query, msgspec.json.encode(eviction.get("deleteOptions") or {}))
                evict(verbs, resource, target.home, target.name, options)
                return ports.Response(201, msgspec.json.encode({**_SUCCESS, "code": 201}))
            case _:
                raise method_not_allowed()

    def _dispatch_collection(self, request: ports.Request, target: RequestTarget, form: Form) -> ports.Response:
        resource, query = target.resource, request.query
        match request.method:
            case "GET":
                if form is Form.METADATA:
                    raise _not_acceptable(form, f"a list (*{_go_type(resource)}List)")
                metadata_only = form is Form.METADATA_LIST
                listed = self._listings.answer(resource, target.namespace, query, metadata_only=metadata_only)
                return ports.Response(200, listed)
            case "POST" if target.namespace is not None or not resource.kind.namespaced:
                body = _decode(request.body, resource.kind.kind)
                stored = self.verbs.create(resource, target.home, body, self._options(query))
                return _object(resource, stored, form, 201)
            case "DELETE":
                options = _delete_options(query, request.body)
                shown = watch_filter(resource, target.namespace, query)
                for stored in list(filter(shown.selects, self.history.select(resource.kind, target.namespace))):
                    self.verbs.delete(resource, *stored.key, options)
                return _ok(_SUCCESS)
            case _:
                raise method_not_allowed()

    def _patch(self, request: ports.Request, target: RequestTarget, name: str, form: Form) -> ports.Response:
        verbs, resource = self.verbs, target.resource
        content_type = request.content_type.partition(";")[0].strip()
        is_apply = content_type == ports.APPLY_PATCH
        options = self._options(request.query, is_apply=is_apply)
        patch = _decode(request.body, None)
        if target.part == "scale":
            stored = verbs.get(resource, target.home, name)
            return _ok(scale_of(resource, patch_scale(verbs, resource, stored, patch, content_type, options)))
        stored, created = verbs.patch(resource, target.home, name, patch, content_type, options, target.part)
        return _object(resource, stored, form, 201 if created else 200)

    def _options(self, query: Mapping[str, str], *, is_apply: bool = False) -> WriteOptions:
        if query.get("dryRun", "All") != "All":
            supported = f'Unsupported value: "{query["dryRun"]}": supported values: "All"'
            raise options_invalid("PatchOptions", "dryRun", "FieldValueNotSupported", supported)
        return WriteOptions(
            manager=query.get("fieldManager") or ("" if is_apply else DEFAULT_MANAGER),
            dry_run="dryRun" in query,
            force=query.get("force") == "true",
            strict=query.get("fieldValidation") == "Strict",
        )

    def _watch(self, path: str, query: Mapping[str, str], form: Form, silence_s: float) -> SimWatch:
        target = self.target(path)
        if target is None:
            raise NoSuchPath
        if target.name is not None:
            query = {**query, "fieldSelector": f"metadata.name={target.name}"}
        version = query.get("resourceVersion", "")
        if version and not version.isdigit():
            raise bad_request(f'Invalid value: "{version}": strconv.ParseUint: parsing "{version}": invalid syntax')
        initial = query.get("sendInitialEvents")
        if initial is not None and query.get("resourceVersionMatch") != "NotOlderThan":
            message = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            raise options_invalid("ListOptions", "resourceVersionMatch", "FieldValueForbidden", message)
        if initial is None and query.get("resourceVersionMatch"):
            message = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            raise options_invalid("ListOptions", "resourceVersionMatch", "FieldValueForbidden", message)
        bookmarks = query.get("allowWatchBookmarks") == "true"
        timeout_s = float(query["timeoutSeconds"]) if query.get("timeoutSeconds") else None
        watch = SimWatch(
            self.history,
            watch_filter(target.resource, target.namespace, query, metadata_only=form is Form.METADATA),
            silence_s=silence_s,
            bookmarks=bookmarks,
            timeout_s=timeout_s,
            on_end=lambda ended: self._watches.pop(ended, None),
        )
        self._watches[watch] = None
        if form is Form.METADATA_LIST:  # an event has no list in it: the real server ends the watch at the first one
            watch.end()
        elif initial == "true":
            watch.start_with_state(end_mark=bookmarks)
        elif initial is None and version in ("", "0"):
            watch.start_with_state(end_mark=False)
        elif version in ("", "0"):
            watch.start_from_now()
        else:
            watch.start_from(int(version))
        return watch


def _form_of(accept: str) -> Form:
    """The first form in the header `Accept` that this server has. Raises: Refused (406), when it has none of them.

    The real server also knows YAML, protobuf and tables, which nobody asks this one for without another choice.
    Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#metadata-only-fetches
    """
    for choice in accept.split(","):
        media_type, *parameters = (part.strip() for part in choice.split(";"))
        asked = dict(parameter.split("=", 1) for parameter in parameters if "=" in parameter)
        if media_type not in _MEDIA_TYPES:
            continue
        if "as" not in asked:
            return Form.WHOLE
        is_meta = (asked.get("g"), asked.get("v")) == ("meta.k8s.io", "v1")
        if is_meta and asked["as"] in (Form.METADATA.value, Form.METADATA_LIST.value):
            return Form(asked["as"])
    raise not_acceptable(f"only the following media types are accepted: {_SERVED}")


def _not_acceptable(form: Form, what: str) -> Refused:
    return not_acceptable(f"you requested {form.value}, but the requested object is {what}")


def _go_type(resource: Resource) -> str:
    built_in = f"{resource.kind.group.partition('.')[0] or 'core'}.{resource.kind.kind}"
    return "unstructured.Unstructured" if resource.is_custom else built_in


def _ok(document: Any) -> ports.Response:
    return ports.Response(200, msgspec.json.encode(document))


def _object(resource: Resource, stored: Stored, form: Form, status: int = 200) -> ports.Response:
    if form is Form.METADATA_LIST:
        raise _not_acceptable(form, f"not a list (*{_go_type(resource)})")
    return ports.Response(status, (stored.metadata_only() if form is Form.METADATA else stored).raw())


def _decode(body: bytes, kind: str | None) -> Any:
    try:
        decoded = msgspec.json.decode(body)
    except msgspec.DecodeError as exc:
        raise bad_request(f"the object provided is unrecognized (must be of type {kind}): {exc}") from exc
    if kind is not None and not isinstance(decoded, dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {kind})")
    return decoded


def _delete_options(query: Mapping[str, str], body: bytes) -> DeleteOptions:
    given = _decode(body, "DeleteOptions") if body else {}
    preconditions = given.get("preconditions") or {}
    grace = given.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    return DeleteOptions(
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        propagation=given.get("propagationPolicy", query.get("propagationPolicy")),
        grace_s=None if grace is None else int(grace),
        dry_run="dryRun" in query or bool(given.get("dryRun")),
    )


def _document(registry: Registry, path: str, aggregated: Iterable[tuple[str, str]] = ()) -> Manifest:
    """The discovery document at a path, with groups that other servers answer, which list their types themselves.

    Raises: Refused (404).
    """
    steps = path.strip("/").split("/")
    match steps:
        case ["version"]:
            return dict(VERSION)
        case ["healthz" | "livez" | "readyz"]:
            return {"status": "ok"}
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["api", "v1"]:
            return _resources(registry, "", "v1")
        case ["apis"]:
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": _groups(registry, aggregated)}
        case ["apis", group]:
            for listed in _groups(registry, aggregated):
                if listed["name"] == group:
                    return {"kind": "APIGroup", "apiVersion": "v1", **listed}
            raise NoSuchPath
        case ["apis", group, version]:
            return _resources(registry, group, version)
        case _:
            raise NoSuchPath


def _groups(registry: Registry, aggregated: Iterable[tuple[str, str]]) -> list[Manifest]:
    versions: dict[str, list[str]] = {}
    kinds = ((resource.kind.group, resource.kind.version) for resource in registry.all())
    for group, version in (*kinds, *aggregated):
        if group and version not in versions.setdefault(group, []):
            versions[group].append(version)
    groups = []
    for name, names in sorted(versions.items()):
        served = [{"groupVersion": f"{name}/{version}", "version": version} for version in names]
        groups.append({"name": name, "versions": served, "preferredVersion": served[0]})
    return groups


def _resources(registry: Registry, group: str, version: str) -> Manifest:
    served = [item for item in registry.all() if (item.kind.group, item.kind.version) == (group, version)]
    if not served:
        raise NoSuchPath
    group_version = f"{group}/{version}" if group else version
    types = [part for resource in served for part in _types(resource)]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": types}


def _types(resource: Resource) -> list[Manifest]:
    kind = resource.kind
    whole: Manifest = {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": _VERBS,
    }
    if resource.short_names:
        whole["shortNames"] = list(resource.short_names)
    if resource.categories:
        whole["categories"] = list(resource.categories)
    types = [whole]
    part = {"singularName": "", "namespaced": kind.namespaced, "kind": kind.kind, "verbs": ["get", "patch", "update"]}
    if resource.has_status:
        types.append({**part, "name": f"{kind.plural}/status"})
    if resource.scale:
        scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        types.append({**part, **scale, "name": f"{kind.plural}/scale"})
    if kind == POD:
        eviction = {"group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"]}
        types.append({**part, **eviction, "name": "pods/eviction"})
    return types
