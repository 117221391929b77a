"""One test's talk with an API server, real or simulated, in the words that all contract tests use."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from rollouts.objects import Kind, Manifest
from rollouts.ports import APPLY_PATCH, JSON, ApiServer, Request, WatchStream
from tests import build
from tests.patience import PATIENCE_S

STRATEGIC = "application/strategic-merge-patch+json"

NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
CRD = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
WIDGET = Kind("contract.rollouts.dev", "v1", "Widget", "widgets")


@dataclass(frozen=True, slots=True)
class Answer:
    """Status code and decoded body."""

    status: int
    body: Any

    @property
    def reason(self) -> str:
        return str(self.body["reason"])

    @property
    def message(self) -> str:
        return str(self.body["message"])

    @property
    def metadata(self) -> Any:
        return self.body["metadata"]

    @property
    def version(self) -> int:
        """The object's or list's resourceVersion."""
        return int(self.body["metadata"]["resourceVersion"])

    @property
    def causes(self) -> list[tuple[str, str]]:
        """Reason and field of each cause."""
        return [(cause["reason"], cause["field"]) for cause in self.body["details"]["causes"]]


class Events:
    """An open watch, read as decoded events."""

    def __init__(self, stream: WatchStream) -> None:
        self.stream = stream

    async def next(self) -> tuple[str, Any]:
        """Type and object of the next event that is no periodic bookmark."""
        while True:
            async with asyncio.timeout(PATIENCE_S):
                line = await self.stream.readline()
            if not line:
                return "END", None
            event = json.loads(line)
            if event["type"] != "BOOKMARK" or event["object"]["metadata"].get("annotations"):
                return event["type"], event["object"]

    async def names(self, count: int) -> list[tuple[str, str]]:
        events = [await self.next() for _ in range(count)]
        return [(kind, body["metadata"].get("name", "")) for kind, body in events]


class Conversation:
    """Requests about the objects of one namespace."""

    def __init__(self, api: ApiServer, namespace: str, *, is_simulated: bool) -> None:
        self.api = api
        self.namespace = namespace  # fresh, this test's own
        self.is_simulated = is_simulated  # only for what the simulation says it leaves out

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Answer:
        data = b"" if body is None else json.dumps(body).encode()
        request = Request(method, path, {"fieldManager": "alice", **(query or {})} if method != "GET" else query or {},
                          data, content_type, accept)  # fmt: skip
        response = await self.api.request(request, deadline_s=PATIENCE_S)
        return Answer(response.status, json.loads(response.body))

    def path(self, kind: Kind, name: str | None = None, part: str | None = None) -> str:
        """A path in this test's namespace."""
        return kind.path(self.namespace if kind.namespaced else None, name, part)

    async def create(self, kind: Kind, manifest: Manifest, **query: str) -> Answer:
        """POST; kind and apiVersion are filled in."""
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **manifest}
        return await self.send("POST", self.path(kind), body, query=query)

    async def made(self, kind: Kind, manifest: Manifest) -> Any:
        """POST that must succeed; answers the object."""
        answer = await self.create(kind, manifest)
        assert answer.status == 201, answer.body
        return answer.body

    async def get(self, kind: Kind, name: str, part: str | None = None) -> Answer:
        return await self.send("GET", self.path(kind, name, part))

    async def list(self, kind: Kind, **query: str) -> Answer:
        return await self.send("GET", self.path(kind), query=query)

    async def names(self, kind: Kind, **query: str) -> Sequence[str]:
        answer = await self.list(kind, **query)
        assert answer.status == 200, answer.body
        return [item["metadata"]["name"] for item in answer.body["items"]]

    async def put(self, kind: Kind, name: str, body: Manifest, part: str | None = None, **query: str) -> Answer:
        return await self.send("PUT", self.path(kind, name, part), body, query=query)

    async def patch(
        self, kind: Kind, name: str, patch: Any, content_type: str, part: str | None = None, **query: str
    ) -> Answer:
        return await self.send("PATCH", self.path(kind, name, part), patch, query=query, content_type=content_type)

    async def apply(self, kind: Kind, name: str, manifest: Manifest, *, by: str, force: bool = False) -> Answer:
        metadata = {"name": name, **manifest.get("metadata", {})}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **manifest, "metadata": metadata}
        query = {"fieldManager": by, **({"force": "true"} if force else {})}
        return await self.patch(kind, name, body, APPLY_PATCH, **query)

    async def delete(self, kind: Kind, name: str, options: Manifest | None = None) -> Answer:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options} if options else None
        return await self.send("DELETE", self.path(kind, name), body)

    @asynccontextmanager
    async def watch(self, kind: Kind, *, accept: str = JSON, **query: str) -> AsyncIterator[Events]:
        request = Request("GET", self.path(kind), {"watch": "true", **query}, accept=accept)
        stream = await self.api.open_watch(request, deadline_s=PATIENCE_S, silence_s=PATIENCE_S)
        try:
            yield Events(stream)
        finally:
            await stream.aclose()

    async def until(self, holds: Callable[[Answer], bool], kind: Kind, name: str) -> Answer:
        """Follows one object through a watch until `holds` of a GET."""
        async with self.watch(kind, fieldSelector=f"metadata.name={name}") as events:
            while True:
                answer = await self.get(kind, name)
                if holds(answer):
                    return answer
                await events.next()


async def until_widgets_are_served(api: ApiServer) -> None:
    """Waits until the tests' CRD is served: a moment after it was made, which no event tells."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            listed = await api.request(Request("GET", f"/apis/{WIDGET.api_version}"), deadline_s=PATIENCE_S)
            found = await api.request(Request("GET", WIDGET.path()), deadline_s=PATIENCE_S)
            if found.status == listed.status == 200 and json.loads(listed.body)["resources"]:
                return
            await asyncio.sleep(0.05)


def config_map(name: str, *, labels: dict[str, str] | None = None, **data: str) -> Manifest:
    """The smallest object there is."""
    fields: dict[str, Any] = {"data": data} if data else {}
    return build.config_map(name, metadata={"labels": labels} if labels else {}, **fields)


def widget(name: str, **spec: Any) -> Manifest:
    return {"metadata": {"name": name}, "spec": {"replicas": 1, **spec}}


_TEXT, _INTEGER = {"type": "string"}, {"type": "integer"}
_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_ITEM = {"type": "object", "required": ["name"], "properties": {"name": _TEXT, "value": _TEXT}}
_IMMUTABLE = {"rule": "self == oldSelf", "message": "selector is immutable"}
_SPEC = {
    "type": "object",
    "required": ["replicas"],
    "x-kubernetes-validations": [
        {"rule": "!has(self.note) || self.note != 'forbidden'", "message": "note is forbidden"}
    ],
    "properties": {
        "replicas": {**_INTEGER, "format": "int32", "minimum": 0, "maximum": 100},
        "mode": {**_TEXT, "enum": ["Fast", "Slow"], "default": "Fast"},
        "note": {**_TEXT, "pattern": "^[a-z]*$", "maxLength": 20},
        "share": {"x-kubernetes-int-or-string": True},
        "selector": {**_ANY, "x-kubernetes-validations": [_IMMUTABLE]},
        "template": _ANY,
        "steps": {"type": "array", "maxItems": 3, "items": _ANY},
        "items": {
            "type": "array",
            "maxItems": 10,
            "items": _ITEM,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    },
}
_STATUS = {
    "type": "object",
    "properties": {"replicas": _INTEGER, "selector": _TEXT, "phase": _TEXT, "observedGeneration": _INTEGER},
}
WIDGET_CRD: Manifest = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.contract.rollouts.dev"},
    "spec": {
        "group": WIDGET.group,
        "scope": "Namespaced",
        "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector",
                    },
                },
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC, "status": _STATUS}}},
            }
        ],
    },
}
