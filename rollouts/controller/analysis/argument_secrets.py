"""Reads the values of arguments that come from Secrets, right before a request is sent.

A Secret is read by its name: the controller has no right to list or watch Secrets, and a Role of its namespace names those that
it may read. Values are kept for seconds only, so that metrics that are measured together make one request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from rollouts.cluster.client import Client
from rollouts.cluster.secret_data import secret_data
from rollouts.controller.analysis.http_measurements import SecretProblem
from rollouts.core.analysis.metric import SecretReference
from rollouts.errors import ApiForbidden, ApiNotFound
from rollouts.secret import Secret

KEPT_S = 3.0


@dataclass(slots=True)
class _Kept:
    """One Secret.

    Args:
        reading: held while it is read: others wait for that answer.
        found: None before it is read.
    """

    reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    found: Mapping[str, Secret | None] | SecretProblem | None = None


class ArgumentSecrets:
    """`SecretValues` of runs."""

    def __init__(self, *, client: Client) -> None:
        self._client = client
        self._kept: dict[tuple[str, str], _Kept] = {}

    async def __call__(self, namespace: str, secrets: tuple[SecretReference, ...]) -> Mapping[str, str] | SecretProblem:
        """The values by the names of their arguments, or why one of them is not known.

        Raises: what `Client.get` raises, but for a Secret that is missing or may not be read. Cancellation: safe.
        """
        values: dict[str, str] = {}
        for each in secrets:
            data = await self._data(namespace, each.name)
            if isinstance(data, SecretProblem):
                return data
            value = data.get(each.key)
            if value is None:
                why = "no text in its key" if each.key in data else "no key"
                return SecretProblem(f"Secret {each.name} in namespace {namespace} has {why} {each.key}")
            values[each.argument] = value.reveal()
        return values

    async def _data(self, namespace: str, name: str) -> Mapping[str, Secret | None] | SecretProblem:
        key = namespace, name
        kept = self._kept.setdefault(key, _Kept())
        async with kept.reading:
            if kept.found is None:
                try:
                    kept.found = await self._read(namespace, name)
                finally:
                    asyncio.get_running_loop().call_later(KEPT_S, self._kept.pop, key, None)
            return kept.found

    async def _read(self, namespace: str, name: str) -> Mapping[str, Secret | None] | SecretProblem:
        try:
            return await secret_data(self._client, namespace, name)
        except ApiNotFound:
            return SecretProblem(f"there is no Secret {name} in namespace {namespace}")
        except ApiForbidden:
            return SecretProblem(
                f"the controller may not read Secret {name} in namespace {namespace}: apply what "
                f"`rollouts rbac -f FILE` prints for the template"
            )
