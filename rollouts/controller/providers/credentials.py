"""Reads what a MetricProvider names: keys of Secrets in the controller's own namespace, and files that are mounted for it.

A Secret is read by name, with one GET: to watch Secrets, the controller would need the right to read all of them.
"""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct

from rollouts.cluster.client import Client
from rollouts.cluster.secret_data import secret_data
from rollouts.core.analysis.metric_server import CredentialPlace, InFile, InSecret, MetricServer
from rollouts.errors import ApiForbidden, ApiNotFound, RolloutsError
from rollouts.metrics.declared import credential_problem, endpoint_of_server
from rollouts.metrics.requests import MetricEndpoint
from rollouts.secret import Secret

FILE_MAX_BYTES = 1 << 20


class NotRead(Struct, frozen=True):
    """Why credentials could not be read, in words without a part of them.

    Args:
        lasting: somebody has to change something; otherwise the API server gave no answer.
    """

    why: str
    lasting: bool = True


@dataclass(slots=True, kw_only=True, eq=False)
class ProviderCredentials:
    """Where credentials are read.

    Args:
        namespace: of the Secrets; the controller's own.
        folder: no file outside of it is read.
    """

    client: Client
    namespace: str
    folder: Path

    async def endpoint_of(self, server: MetricServer) -> MetricEndpoint | NotRead:
        """The endpoint with its credentials as they are now: one request for each Secret. Raises: nothing on purpose."""
        try:
            names = dict.fromkeys(place.name for place in server.places if isinstance(place, InSecret))
            secrets = {name: await self._secret(name) for name in names}
            values = {place: self._value(place, server, secrets) for place in server.credentials}
            authorities = "" if server.ca_file is None else self._text_of(server.ca_file)
        except _Missing as exc:
            return NotRead(str(exc))
        except RolloutsError as exc:
            return NotRead(f"the API server could not be asked for a Secret: {exc}", lasting=False)
        if authorities:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=authorities)
            except (ssl.SSLError, ValueError):
                return NotRead(f"{server.ca_file}: has no usable PEM certificates")
        return endpoint_of_server(server, values, authorities=authorities)

    async def _secret(self, name: str) -> Mapping[str, Secret | None]:
        try:
            return await secret_data(self.client, self.namespace, name)
        except ApiNotFound as exc:
            raise _Missing(f"there is no Secret {name} in namespace {self.namespace}") from exc
        except ApiForbidden as exc:
            raise _Missing(
                f"the controller may not read Secret {name}: add it to analysis.secrets of the chart's values, or a Role in "
                f"namespace {self.namespace} with resources: [secrets], resourceNames: [{name}], verbs: [get]"
            ) from exc

    def _value(
        self, place: CredentialPlace, server: MetricServer, secrets: Mapping[str, Mapping[str, Secret | None]]
    ) -> Secret:
        match place:
            case InSecret(name, key):
                if key not in secrets[name]:
                    raise _Missing(f"Secret {name} in namespace {self.namespace} has no key {key}")
                found = secrets[name][key]
            case InFile():
                found = Secret(self._text_of(place).rstrip("\r\n"))
        problem = "is no text" if found is None else credential_problem(found.reveal(), place, server)
        if problem or found is None:
            raise _Missing(f"{place} {problem}")
        return found

    def _text_of(self, place: InFile) -> str:
        # Without a thread: kubelet mounts Secrets and ConfigMaps in memory.
        path = Path(place.path)
        try:
            # A mounted Secret consists of links, all of them within its folder.
            real = path.resolve(strict=True)
            if not real.is_relative_to(self.folder.resolve()):
                raise _Missing(f"file {path} leads out of {self.folder}")
            opened = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                if not stat.S_ISREG(os.fstat(opened).st_mode):
                    raise _Missing(f"{path} is no file")
                with os.fdopen(opened, "rb", closefd=False) as file:
                    found = file.read(FILE_MAX_BYTES + 1)
            finally:
                os.close(opened)
        except FileNotFoundError as exc:
            raise _Missing(f"there is no file {path}; mount it with analysis.mounts of the chart's values") from exc
        except (OSError, RuntimeError) as exc:  # RuntimeError: links in a circle
            raise _Missing(f"file {path} cannot be read: {type(exc).__name__}") from exc
        if len(found) > FILE_MAX_BYTES:
            raise _Missing(f"file {path} has more than {FILE_MAX_BYTES >> 20} MiB")
        try:
            return found.decode()
        except UnicodeDecodeError:
            raise _Missing(f"file {path} is no text") from None


class _Missing(Exception):
    """Somebody has to give what is missing; the text says what."""
