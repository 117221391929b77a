"""How the containers of a pod template end, and the preStop sleep that the controller adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Struct

from rollouts.core.model.declared import Json
from rollouts.objects import mapping

DEFAULT_GRACE_S = 30  # Kubernetes' default


class ContainerExit(Struct, frozen=True):
    """How one container ends.

    Args:
        has_pre_stop: the user gave it a preStop, which stays as it is.
        sleep_s: the length of that preStop if it is a native sleep; None when the length is unknown.
    """

    name: str
    has_pre_stop: bool = False
    sleep_s: int | None = None


class PodExit(Struct, frozen=True):
    """How the pods of a template end, as the user wrote it.

    Args:
        grace_s: `terminationGracePeriodSeconds`, 30 by default.
        containers: the ordinary containers, in order.
    """

    grace_s: int = DEFAULT_GRACE_S
    containers: tuple[ContainerExit, ...] = ()


class Injection(Struct, frozen=True, kw_only=True):
    """What the controller adds to the template of a new ReplicaSet.

    Args:
        grace_s: never less than the user's.
        native: otherwise the image must have `sleep`.
    """

    containers: Annotated[tuple[str, ...], "Containers that have got a preStop sleep."]
    pre_stop_s: Annotated[int, "How many seconds they sleep.", Json("seconds")]
    grace_s: Annotated[int, "The terminationGracePeriodSeconds of the pods.", Json("graceSeconds")]
    native: Annotated[bool, "true: the sleep is a preStop.sleep; otherwise an exec of `sleep`."]

    def __str__(self) -> str:
        how = "" if self.native else " by exec, because the API server does not support preStop.sleep"
        names = ", ".join(self.containers)
        return f"preStop sleep of {self.pre_stop_s} s in {names}{how}, terminationGracePeriodSeconds {self.grace_s}"


def injection_fields(injection: Injection) -> dict[str, Any]:
    """An injection as JSON, keys sorted: for `.status.drain.preStop`, and as text on the ReplicaSet."""
    return {
        "containers": list(injection.containers),
        "graceSeconds": injection.grace_s,
        "native": injection.native,
        "seconds": injection.pre_stop_s,
    }


def read_injection(fields: object) -> Injection | None:
    """The injection in the JSON of `injection_fields`; None for anything else. Raises: nothing."""
    noted = mapping(fields)
    seconds, grace_s, names = noted.get("seconds"), noted.get("graceSeconds"), noted.get("containers")
    if type(seconds) is not int or type(grace_s) is not int or not isinstance(names, list):
        return None
    if seconds < 0 or grace_s < 0 or not all(type(name) is str for name in names):
        return None
    return Injection(containers=tuple(names), pre_stop_s=seconds, grace_s=grace_s, native=noted.get("native") is True)


def read_pod_exit(template: Mapping[str, Any]) -> PodExit:
    """How the pods of a template end. The API server refuses what Kubernetes does not accept. Raises: nothing."""
    spec = mapping(template.get("spec"))
    grace_s, listed = spec.get("terminationGracePeriodSeconds"), spec.get("containers")
    containers = []
    for container in listed if isinstance(listed, list) else ():
        fields = mapping(container)
        lifecycle = fields.get("lifecycle")
        pre_stop = mapping(lifecycle).get("preStop")
        seconds = mapping(mapping(pre_stop).get("sleep")).get("seconds")
        containers.append(
            ContainerExit(
                name=str(fields.get("name", "")),
                # Nothing is added to what is no object.
                has_pre_stop=bool(pre_stop) or not isinstance(lifecycle, Mapping | None),
                sleep_s=seconds if type(seconds) is int else None,
            )
        )
    return PodExit(
        grace_s=grace_s if type(grace_s) is int and grace_s >= 0 else DEFAULT_GRACE_S, containers=tuple(containers)
    )
