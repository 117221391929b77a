"""What somebody may do in a cluster, as its API server says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from rollouts.cli.view.session import Session
from rollouts.cluster.decoding import manifest_from
from rollouts.objects import Kind

REVIEW = Kind("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False)
OWN_REVIEW = Kind("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False)
"""Everybody may ask about themselves."""

OWN_IDENTITY = Kind("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False)
"""And as whom the API server knows them."""

REVIEWS_AT_ONCE = 16


class Right(Struct, frozen=True):
    """One verb on one resource type, in one namespace or ("") in all, and on one object or ("") on any."""

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        what = f"{self.resource}{f'.{self.group}' if self.group else ''}{f'/{self.name}' if self.name else ''}"
        return f"{self.verb} {what}{where}"


async def denied(
    session: Session, rights: Sequence[Right], kind: Kind, subject: Mapping[str, Any]
) -> tuple[Right, ...]:
    """Those of the rights that the API server's authorizers deny.

    Args:
        kind: OWN_REVIEW, or REVIEW of somebody else.
        subject: `user` and `groups` of a REVIEW; {} for oneself.

    Raises: what `Client` raises.
    """
    turn = asyncio.Semaphore(REVIEWS_AT_ONCE)

    async def allowed(right: Right) -> bool:
        resource, _, subresource = right.resource.partition("/")
        asked = {"group": right.group, "resource": resource, "subresource": subresource, "verb": right.verb}
        asked |= {"name": right.name} if right.name else {}
        spec = {**subject, "resourceAttributes": {**asked, "namespace": right.namespace}}
        manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec}
        async with turn:
            answer = manifest_from(await session.client.create(kind, None, manifest))
        return bool(answer.get("status", {}).get("allowed"))

    answers = await asyncio.gather(*map(allowed, rights))
    return tuple(right for right, granted in zip(rights, answers, strict=True) if not granted)
