"""Lists and their parameters: selectors, pages, resourceVersion.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping

import msgspec

from rollouts.objects import Manifest
from rollouts.sim.apiserver.watches import WatchFilter
from rollouts.sim.storage.history import ObjectHistory, Stored
from rollouts.sim.storage.refusals import bad_request, expired, options_invalid, too_large_resource_version
from rollouts.sim.storage.registry import Resource
from rollouts.sim.storage.selectors import field_test, label_test

PAGES_KEPT = 1_000


class Listings:
    """Answers lists, and remembers the remaining pages."""

    def __init__(self, history: ObjectHistory) -> None:
        self._history = history
        self._pages: dict[str, tuple[int, list[Stored]]] = {}
        self._next_page = 0

    def answer(
        self, resource: Resource, namespace: str | None, query: Mapping[str, str], *, metadata_only: bool = False
    ) -> bytes:
        """The JSON of a list, or of a PartialObjectMetadataList.

        Raises: Refused: 400, 410 (the continue token has expired), 422, 504 (a resourceVersion from the future).
        """
        if query.get("sendInitialEvents"):
            message = "Forbidden: sendInitialEvents is forbidden for list"
            raise options_invalid("ListOptions", "sendInitialEvents", "FieldValueForbidden", message)
        limit = _number(query, "limit")
        token = query.get("continue", "")
        if token:
            version, items = self._continued(token)
        else:
            self._guard_version(query)
            shown = watch_filter(resource, namespace, query)
            version = self._history.version
            items = list(filter(shown.selects, self._history.select(resource.kind, namespace)))
        metadata: Manifest = {"resourceVersion": str(version)}
        if limit and len(items) > limit:
            items, rest = items[:limit], items[limit:]
            self._next_page += 1
            token = base64.urlsafe_b64encode(msgspec.json.encode({"v": version, "page": self._next_page})).decode()
            metadata["continue"], self._pages[token] = token, (version, rest)
            while len(self._pages) > PAGES_KEPT:
                del self._pages[next(iter(self._pages))]
            if not query.get("labelSelector") and not query.get("fieldSelector"):
                metadata["remainingItemCount"] = len(rest)
        return _list_bytes(resource, metadata, items, metadata_only=metadata_only)

    def forget(self) -> None:
        """Compacts: all continue tokens so far expire."""
        self._pages.clear()

    def _continued(self, token: str) -> tuple[int, list[Stored]]:
        try:
            msgspec.json.decode(base64.urlsafe_b64decode(token))
        except (binascii.Error, ValueError) as exc:
            raise bad_request(f"invalid continue token: continue key is not valid: {exc}") from exc
        page = self._pages.get(token)
        if page is None:
            why = "The provided continue parameter is too old to display a consistent list result. "
            raise expired(f"{why}You must start a new list without the continue parameter.")
        return page

    def _guard_version(self, query: Mapping[str, str]) -> None:
        wanted = _number(query, "resourceVersion")
        if wanted > self._history.version:
            raise too_large_resource_version(wanted, self._history.version)
        if query.get("resourceVersionMatch") == "Exact" and wanted != self._history.version:
            raise expired("The resourceVersion for the provided list is too old.")  # this server keeps no old states


def watch_filter(
    resource: Resource, namespace: str | None, query: Mapping[str, str], *, metadata_only: bool = False
) -> WatchFilter:
    """The filter for `labelSelector` and `fieldSelector`. Raises: Refused (400)."""
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    tests: list[Callable[[Stored], bool]] = []
    if labels:
        label = label_test(labels)
        tests.append(lambda stored: label(stored.labels))
    if fields:
        field = field_test(fields, resource.selectable)
        tests.append(lambda stored: field(stored.manifest))
    selects = tests[0] if len(tests) == 1 else lambda stored: all(test(stored) for test in tests)
    return WatchFilter(resource, namespace, selects, metadata_only=metadata_only)


def _list_bytes(resource: Resource, metadata: Manifest, items: list[Stored], *, metadata_only: bool) -> bytes:
    if metadata_only:
        head = msgspec.json.encode(
            {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
        )
        # The real server writes null where there are none.
        listed = b"[%b]" % b",".join(item.metadata_only().raw() for item in items) if items else b"null"
        return b'%b,"items":%b}' % (head[:-1], listed)
    kind = resource.kind
    head = msgspec.json.encode({"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata})
    if resource.is_custom:
        return b'%b,"items":[%b]}' % (head[:-1], b",".join(item.raw() for item in items))
    # Items of built-in lists carry neither kind nor apiVersion on the real server either.
    start = len(msgspec.json.encode({"kind": kind.kind, "apiVersion": kind.api_version}))
    return b'%b,"items":[%b]}' % (head[:-1], b",".join(b"{" + item.raw()[start:] for item in items))


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "") or "0"
    if not text.isdigit():
        raise bad_request(f'{name}: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text)
