"""The API server's writes: create, update, patch, apply and delete, with the rules that they check.

It works on manifests and knows no HTTP. The actors of the simulated cluster call it directly, `server.py` calls it for clients.
Everything here is synchronous, so that a write is atomic.
"""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from msgspec import Struct

from rollouts import ports
from rollouts.objects import (
    AUTOSCALER,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    POD,
    REPLICA_SET,
    SERVICE,
    STATEFUL_SET,
    Kind,
    Manifest,
)
from rollouts.sim.storage import apply as server_side
from rollouts.sim.storage import autoscaler_rules, claim_rules, daemonset_rules, statefulset_rules
from rollouts.sim.storage.builtin_rules import metadata_problems
from rollouts.sim.storage.fields import SERVERS_METADATA
from rollouts.sim.storage.history import ADDED, DELETED, MODIFIED, ObjectHistory, Stored
from rollouts.sim.storage.hold_policies import WrittenWorkload, admitted
from rollouts.sim.storage.job_rules import with_selector
from rollouts.sim.storage.patches import json_patch, merge_patch, strategic_merge_patch
from rollouts.sim.storage.refusals import (
    already_exists,
    bad_request,
    conflict,
    invalid,
    namespace_terminates,
    not_found,
    options_invalid,
    precondition_failed,
    unsupported_media_type,
    value_invalid,
    value_required,
)
from rollouts.sim.storage.registry import CLAIM, CRD, NAMESPACE, NODE, Registry, Resource, custom_resources
from rollouts.sim.storage.validation import unknown_fields

NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # k8s.io/apimachinery pkg/util/rand: no vowels, no bad words

_FIRST_STATUS: dict[Kind, Manifest] = {
    AUTOSCALER: autoscaler_rules.FIRST_STATUS,
    CLAIM: claim_rules.FIRST_STATUS,
    DAEMON_SET: daemonset_rules.FIRST_STATUS,
    DEPLOYMENT: {},
    JOB: {},
    NAMESPACE: {"phase": "Active"},
    REPLICA_SET: {"replicas": 0},
    SERVICE: {"loadBalancer": {}},
    STATEFUL_SET: statefulset_rules.FIRST_STATUS,
}
_BODY_FREE = frozenset(("apiVersion", "kind", "metadata"))


class WriteOptions(Struct, frozen=True):
    """Parameters of a write.

    Args:
        manager: name of the writing program, for field ownership.
        force: a server-side apply takes fields from other owners.
        strict: refuses unknown fields of custom resources.
    """

    manager: str = "unknown"
    dry_run: bool = False
    force: bool = False
    strict: bool = False


class DeleteOptions(Struct, frozen=True):
    """Parameters of a deletion, as `meta/v1 DeleteOptions`.

    Args:
        uid, resource_version: that the object must have.
        propagation: Background, Orphan or Foreground; None for the default, Background, of Jobs Orphan.
        grace_s: grace period of a Pod; None for the Pod's own.
    """

    uid: str | None = None
    resource_version: str | None = None
    propagation: str | None = None
    grace_s: int | None = None
    dry_run: bool = False


@lru_cache(maxsize=64)  # thousands of writes share a second
def rfc3339(second: int) -> str:
    """A time as the API writes it."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Verbs:
    """The write verbs; `rng` is for uids and generated names. With `hold_policies` updates of workloads are held."""

    registry: Registry
    history: ObjectHistory
    clock: ports.Clock
    rng: random.Random
    hold_policies: bool = False

    def now(self) -> str:
        """The current time as the API writes it."""
        return rfc3339(int(self.clock.now_s()))

    def get(self, resource: Resource, namespace: str, name: str) -> Stored:
        """The last version of an object. Raises: Refused (404)."""
        stored = self.history.get(resource.kind, namespace, name)
        if stored is None:
            raise not_found(resource.kind, name)
        return stored

    def create(self, resource: Resource, namespace: str, manifest: Manifest, options: WriteOptions) -> Stored:
        """Raises: Refused: 400, 404 (no such namespace), 403 (the namespace is being deleted), 409 AlreadyExists, 422."""
        manifest = self._new_object(resource, namespace, manifest)
        writer = self._writer(resource, options, server_side.UPDATE)
        if resource.has_status and resource.kind not in (POD, NAMESPACE, NODE):
            manifest = {name: part for name, part in manifest.items() if name != "status"}
        manifest = self._checked(resource, manifest, None, options)
        empty: Manifest = {"metadata": {}}
        owners = server_side.owners_after_update((), writer, empty, manifest, resource.shape)
        return self._insert(resource, manifest, owners, options)

    def replace(
        self, resource: Resource, namespace: str, name: str, manifest: Manifest, options: WriteOptions, part: str = ""
    ) -> Stored:
        """Replaces an object or its `status` (PUT). Raises: Refused: 400, 404, 409, 422."""
        old = self.get(resource, namespace, name)
        self._same_type(resource, manifest)
        metadata = manifest.get("metadata") or {}
        if metadata.get("name", name) != name:
            wrong = metadata["name"]
            raise bad_request(f"the name of the object ({wrong}) does not match the name on the URL ({name})")
        if not metadata.get("resourceVersion") and resource.needs_version_to_update:
            cause = value_invalid("metadata.resourceVersion", "0", "must be specified for an update")
            raise invalid(resource.kind, name, [cause])
        return self.update(resource, old, {**manifest, "metadata": metadata}, options, part)

    def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        content_type: str,
        options: WriteOptions,
        part: str = "",
    ) -> tuple[Stored, bool]:
        """Patches an object or its `status`, by any of the four patch types; whether it was created comes second.

        Raises: Refused: 400, 404, 409, 415, 422.
        """
        old = self.history.get(resource.kind, namespace, name)
        if content_type == ports.APPLY_PATCH:
            return self._apply(resource, namespace, name, patch, old, options, part)
        if old is None:
            raise not_found(resource.kind, name)
        match content_type:
            case ports.MERGE_PATCH:
                if not isinstance(patch, dict):
                    raise bad_request("error decoding patch: json: cannot unmarshal into an object")
                new = merge_patch(old.manifest, patch)
            case ports.JSON_PATCH if server_side.names_owners(patch):
                return self._patch_owners(resource, old, patch, options), False
            case ports.JSON_PATCH:
                new = json_patch(old.manifest, patch)
            case "application/strategic-merge-patch+json" if not resource.is_custom:
                new = strategic_merge_patch(old.manifest, patch, resource.shape)
            case _:
                raise unsupported_media_type()
        uid = (new.get("metadata") or {}).get("uid")
        if uid and uid != old.metadata["uid"]:
            raise invalid(resource.kind, name, [value_invalid("metadata.uid", f'"{uid}"', "field is immutable")])
        return self.update(resource, old, new, options, part), False

    def _patch_owners(self, resource: Resource, old: Stored, patch: Any, options: WriteOptions) -> Stored:
        """A JSON Patch of the field owners, too: what it leaves of them stands, and the writer owns what it changes beside."""
        new, owners = server_side.with_owners(old.manifest, old.owners, patch)
        writer = self._writer(resource, options, server_side.UPDATE)
        owners = server_side.owners_after_update(owners, writer, old.manifest, new, resource.shape)
        return self.update(resource, old, new, options, owners=owners)

    def update(
        self,
        resource: Resource,
        old: Stored,
        new: Manifest,
        options: WriteOptions,
        part: str = "",
        owners: tuple[server_side.Owner, ...] | None = None,
    ) -> Stored:
        """Writes a new version of `old`; when nothing differs, it writes nothing and returns `old`.

        Args:
            part: the part of `new` that is written: `status`, `scale`, or empty for the object itself.
            owners: field owners after an apply; None for any other write.

        Raises: Refused: 403 (a policy), 409, 422.
        """
        given = new.get("metadata") or {}
        self._guard_versions(resource, old, given)
        new = self._only_part(resource, old, new, part)
        if self.hold_policies and not part:
            new = resource.defaults(new)
            owners = self._owners(resource, old, new, options, part, owners)  # what a policy sets has no owner
            new = admitted(resource.kind, WrittenWorkload(old.manifest, new, whole="uid" not in given))
        if part != "status" or resource.is_custom:
            new = self._checked(resource, new, old.manifest, options)
        owners = self._owners(resource, old, new, options, part, owners)
        apart = _BODY_FREE | ({"status"} if resource.has_status else set())
        names = (old.manifest.keys() | new.keys()) - apart
        differs = resource.has_generation and any(old.manifest.get(name) != new.get(name) for name in names)
        if resource.annotations_count and part != "status":
            differs = differs or old.metadata.get("annotations") != new["metadata"].get("annotations")
        if differs:
            generation = old.metadata.get("generation", 0) + 1
            new = {**new, "metadata": {**new["metadata"], "generation": generation}}
        if new == old.manifest and owners == old.owners:
            return old
        if options.dry_run:
            return Stored(new, owners, old.version)
        if self._deletion_is_due(new["metadata"]):
            return self.history.commit(resource.kind, DELETED, new, owners, old)
        stored = self.history.commit(resource.kind, MODIFIED, new, owners, old)
        self._serve_if_crd(resource, stored)
        return stored

    def delete(self, resource: Resource, namespace: str, name: str, options: DeleteOptions) -> tuple[Stored, bool]:
        """Deletes an object; with finalizers, or for a Pod with a grace period, only sets its deletionTimestamp.

        Returns: the object, and whether it is gone. Raises: Refused: 404, 409 (a precondition does not hold).
        """
        old = self.get(resource, namespace, name)
        if options.uid is not None and options.uid != old.metadata["uid"]:
            raise precondition_failed(resource.kind, name, what="UID", wanted=options.uid, found=old.metadata["uid"])
        if options.resource_version is not None and options.resource_version != str(old.version):
            wanted, found = options.resource_version, str(old.version)
            raise precondition_failed(resource.kind, name, what="ResourceVersion", wanted=wanted, found=found)
        grace_s = self._grace_s(resource, old, options)
        marked = self._marked_for_deletion(resource, old, grace_s, options)
        if options.dry_run:
            return old, self._deletion_is_due(marked["metadata"])
        if self._deletion_is_due(marked["metadata"]):
            return self.history.commit(resource.kind, DELETED, old.manifest, old.owners, old), True
        if marked == old.manifest:
            return old, False
        return self.history.commit(resource.kind, MODIFIED, marked, old.owners, old), False

    def _apply(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        config: Any,
        old: Stored | None,
        options: WriteOptions,
        part: str,
    ) -> tuple[Stored, bool]:
        if not isinstance(config, dict):
            raise bad_request("error decoding YAML: not an object")
        if not options.manager:
            message = "Required value: is required for apply patch"
            raise options_invalid("PatchOptions", "fieldManager", "FieldValueRequired", message)
        self._same_type(resource, config)
        metadata = config.get("metadata") or {}
        if metadata.get("name", name) != name:
            raise bad_request("the name of the object does not match the name on the URL")
        if metadata.get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        if options.strict:
            self._refuse_unknown(resource, config)
        applied = self._config_part(resource, config, part)
        writer = self._writer(resource, options, server_side.APPLY, part)
        if old is None:
            if part:
                raise not_found(resource.kind, name)
            if metadata.get("uid"):
                raise conflict(resource.kind, name)
            manifest = self._new_object(resource, namespace, {**applied, "metadata": {**metadata, "name": name}})
            _, owners = server_side.apply({"metadata": {}}, (), applied, writer, resource.shape, force=False)
            return self._insert(resource, self._checked(resource, manifest, None, options), owners, options), True
        self._guard_versions(resource, old, metadata)
        live = old.manifest
        merged, owners = server_side.apply(live, old.owners, applied, writer, resource.shape, force=options.force)
        return self.update(resource, old, merged, options, part, owners), False

    def _config_part(self, resource: Resource, config: Manifest, part: str) -> Manifest:
        """The part of an applied configuration that this path may write; the real server calls the others reset fields."""
        if part == "status":
            return {name: value for name, value in config.items() if name in ("apiVersion", "kind", "status")}
        metadata = {k: v for k, v in (config.get("metadata") or {}).items() if k not in SERVERS_METADATA}
        body = {name: value for name, value in config.items() if name != "status" or not resource.has_status}
        return {**body, "metadata": metadata} if metadata else {k: v for k, v in body.items() if k != "metadata"}

    def _new_object(self, resource: Resource, namespace: str, manifest: Manifest) -> Manifest:
        self._same_type(resource, manifest)
        given = manifest.get("metadata") or {}
        if given.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        if resource.kind.namespaced and given.get("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        name = given.get("name") or self._drawn_name(resource, given)
        home = self.get(self.registry.of(NAMESPACE), "", namespace) if resource.kind.namespaced else None
        if home is not None and "deletionTimestamp" in home.metadata:
            raise namespace_terminates(resource.kind, name, namespace)
        if self.history.get(resource.kind, namespace, name) is not None:
            raise already_exists(resource.kind, name)
        metadata: Manifest = {"name": name, "namespace": namespace} if resource.kind.namespaced else {"name": name}
        metadata["uid"] = str(uuid.UUID(int=self.rng.getrandbits(128), version=4))
        if resource.has_generation:
            metadata["generation"] = 1
        metadata["creationTimestamp"] = self.now()
        metadata |= {k: v for k, v in given.items() if k not in SERVERS_METADATA and v}
        if given.get("generateName"):
            metadata["generateName"] = given["generateName"]
        head = {"kind": resource.kind.kind, "apiVersion": resource.kind.api_version, "metadata": metadata}
        made = head | {k: v for k, v in manifest.items() if k not in head}
        if resource.kind == JOB:
            return with_selector(made)
        return claim_rules.protected(made) if resource.kind == CLAIM else made

    def _drawn_name(self, resource: Resource, given: Manifest) -> str:
        if not given.get("generateName"):
            cause = value_required("metadata.name", "name or generateName is required")
            raise invalid(resource.kind, "", [cause])
        return str(given["generateName"]) + "".join(self.rng.choices(NAME_LETTERS, k=5))

    def _insert(
        self, resource: Resource, manifest: Manifest, owners: tuple[server_side.Owner, ...], options: WriteOptions
    ) -> Stored:
        if resource.kind == SERVICE:
            spec = manifest.get("spec") or {}
            if not spec.get("clusterIP") and spec.get("type") != "ExternalName":
                address = f"10.96.{self.rng.randrange(256)}.{self.rng.randrange(1, 255)}"
                manifest = {**manifest, "spec": {**spec, "clusterIP": address, "clusterIPs": [address]}}
        if resource.kind == POD and "status" not in manifest:
            manifest = {**manifest, "status": {"phase": "Pending", "qosClass": "BestEffort"}}
        if resource.kind in _FIRST_STATUS:
            manifest = {**manifest, "status": _FIRST_STATUS[resource.kind]}
        if options.dry_run:
            return Stored(manifest, owners, 0)
        stored = self.history.commit(resource.kind, ADDED, manifest, owners, None)
        self._serve_if_crd(resource, stored)
        return stored

    def _serve_if_crd(self, resource: Resource, stored: Stored) -> None:
        if resource.kind != CRD:
            return
        resources = custom_resources(stored.manifest)
        for served in resources:
            if self.registry.find(served.kind.group, served.kind.version, served.kind.plural) is None:
                self.history.start_keeping(served.kind)
        self.registry.add(resources)

    def _same_type(self, resource: Resource, manifest: Manifest) -> None:
        kind = resource.kind
        given = manifest.get("kind", kind.kind), manifest.get("apiVersion", kind.api_version)
        if given != (kind.kind, kind.api_version):
            message = f"the object provided is unrecognized (must be of type {kind.kind}): {given[1]}, Kind={given[0]}"
            raise bad_request(message)

    def _writer(self, resource: Resource, options: WriteOptions, operation: str, part: str = "") -> server_side.Owner:
        return server_side.Owner(options.manager, operation, part, resource.kind.api_version, frozenset(), self.now())

    def _owners(
        self,
        resource: Resource,
        old: Stored,
        new: Manifest,
        options: WriteOptions,
        part: str,
        known: tuple[server_side.Owner, ...] | None,
    ) -> tuple[server_side.Owner, ...]:
        if known is not None:
            return known
        writer = self._writer(resource, options, server_side.UPDATE, part)
        return server_side.owners_after_update(old.owners, writer, old.manifest, new, resource.shape)

    def _guard_versions(self, resource: Resource, old: Stored, metadata: Manifest) -> None:
        version, uid = metadata.get("resourceVersion"), metadata.get("uid")
        if (version and version != str(old.version)) or (uid and uid != old.metadata["uid"]):
            raise conflict(resource.kind, old.metadata["name"])

    def _only_part(self, resource: Resource, old: Stored, new: Manifest, part: str) -> Manifest:
        """`new` with the old value of everything that this path may not write."""
        live = old.manifest
        if part == "status":
            return self._with_status(resource, live, new)
        given = new.get("metadata") or {}
        if given is live["metadata"]:
            metadata = given
        else:
            metadata = {name: live["metadata"][name] for name in SERVERS_METADATA if name in live["metadata"]}
            metadata |= {k: v for k, v in given.items() if k not in SERVERS_METADATA and v not in (None, {}, [])}
        head = {"kind": live["kind"], "apiVersion": live["apiVersion"], "metadata": metadata}
        body = {name: value for name, value in new.items() if name not in head}
        if resource.has_status:
            body.pop("status", None)
            if "status" in live:
                body["status"] = live["status"]
        return head | body

    def _with_status(self, resource: Resource, live: Manifest, new: Manifest) -> Manifest:
        kept = {name: value for name, value in live.items() if name != "status"}
        annotations = (new.get("metadata") or {}).get("annotations")
        if resource.annotations_count and annotations != live["metadata"].get("annotations"):
            others = {name: value for name, value in live["metadata"].items() if name != "annotations"}
            kept["metadata"] = others | ({"annotations": annotations} if annotations else {})
        return kept | {"status": new["status"]} if "status" in new else kept

    def _checked(self, resource: Resource, manifest: Manifest, old: Manifest | None, options: WriteOptions) -> Manifest:
        name = manifest["metadata"]["name"]
        if options.strict:
            self._refuse_unknown(resource, manifest)
        if old is not None and all(manifest.get(k) is v for k, v in old.items()) and len(old) == len(manifest):
            return manifest
        manifest = resource.defaults(manifest)
        causes = [*metadata_problems(manifest["metadata"]), *resource.check(manifest, old)]
        if causes:
            raise invalid(resource.kind, name, causes)
        return manifest

    def _refuse_unknown(self, resource: Resource, manifest: Manifest) -> None:
        unknown = [f'unknown field "{path}"' for path in unknown_fields(manifest, resource.schema or {})]
        if unknown:
            kind, version = resource.kind.kind, resource.kind.version
            what = f'{kind} in version "{version}" cannot be handled as a {kind}'
            raise bad_request(f"{what}: strict decoding error: {', '.join(unknown)}")

    def _grace_s(self, resource: Resource, old: Stored, options: DeleteOptions) -> int:
        if resource.kind != POD:
            return 0
        spec, phase = old.manifest.get("spec") or {}, (old.manifest.get("status") or {}).get("phase")
        if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
            return 0
        own = int(spec.get("terminationGracePeriodSeconds", 30))
        wanted = own if options.grace_s is None else options.grace_s
        already = old.metadata.get("deletionGracePeriodSeconds")
        return wanted if already is None else min(wanted, int(already))  # it can only be shortened

    def _marked_for_deletion(self, resource: Resource, old: Stored, grace_s: int, options: DeleteOptions) -> Manifest:
        metadata = dict(old.metadata)
        finalizers = [name for name in metadata.get("finalizers") or () if name not in ("orphan", "foregroundDeletion")]
        # Source: k8s.io/kubernetes pkg/registry/batch/job, DefaultGarbageCollectionPolicy.
        match options.propagation or ("Orphan" if resource.kind == JOB else None):
            case "Orphan":
                finalizers.append("orphan")
            case "Foreground":
                finalizers.append("foregroundDeletion")
            case "Background":
                pass
            case _:
                finalizers = list(metadata.get("finalizers") or ())
        if resource.kind == NAMESPACE:
            finalizers.append("kubernetes")  # the namespace controller empties it first
        if "deletionTimestamp" not in metadata or metadata.get("deletionGracePeriodSeconds") != grace_s:
            metadata["deletionTimestamp"] = rfc3339(int(self.clock.now_s() + grace_s))
            metadata["deletionGracePeriodSeconds"] = grace_s
            if resource.has_generation and "deletionTimestamp" not in old.metadata:
                metadata["generation"] = metadata.get("generation", 0) + 1
        metadata.pop("finalizers", None)
        if finalizers:
            metadata["finalizers"] = finalizers
        marked = {**old.manifest, "metadata": metadata}
        if resource.kind == NAMESPACE:
            marked["status"] = {"phase": "Terminating"}
        return marked

    def _deletion_is_due(self, metadata: Manifest) -> bool:
        return (
            "deletionTimestamp" in metadata
            and not metadata.get("finalizers")
            and not metadata.get("deletionGracePeriodSeconds")
        )
