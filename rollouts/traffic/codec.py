"""What a traffic provider is: a pure codec between a split of requests and the objects of one router. No I/O, no clock.

One driver reads, writes and waits for all of them (`core/routing/routes.py` decides, `controller/` acts); one conformance suite
runs for each (`tests/traffic`). A provider is a module with a `PROVIDER`, registered in `registry.py`, or an entry point of
another package in the group `rollouts.traffic`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from rollouts.core.model.traffic import Acceptance, Feature, Split
from rollouts.objects import Kind, Manifest

LEDGER = "rollouts.dev/route"
"""Annotation on a managed object: what was there before us and what of it is ours now, as JSON. It goes when the object is
given back. It is the codec's memory, so that no other is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One place where traffic is split: an object of the user's, and maybe one that we own beside it.

    Args:
        kinds: the same kind in each version that the codec can read, the best first; the server decides which is used.
        owned_name: name of the object that we own beside it; "" for none.
        owned_kinds: its kind; the same as `kinds` when left out.
        options: what the codec needs besides: names of rules, ports.
        subsets: names of the stable and the canary subset in it, for an object that splits nothing and says which revision each
            of them selects (`istio/subsets.py`). To core they are Services; it is never read, nor planned for, as a route.
        settle_s: within how many seconds the router does what the object says, where nobody can be asked; None for the general
            figure (`core.traffic.SETTLE_S`). Where the figure is from stands in the codec's file.
        service_port: of both Services, where the spec names it; None where the object does.
        weight_total: what weights are parts of, for a router that knows one total only; None for any.
        no_ping_pong: why the two Services cannot change roles here, and what to do; "" when they can.
    """

    kinds: tuple[Kind, ...]
    namespace: str
    name: str
    owned_name: str = ""
    owned_kinds: tuple[Kind, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    subsets: tuple[str, str] | None = None
    settle_s: float | None = None
    service_port: int | None = None
    weight_total: int | None = None
    no_ping_pong: str = ""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where requests go: a Service, or one subset of the pods of a Service (`istio/subsets.py`).

    Its text is `service` or `service/subset`; no name has a slash.
    """

    service: str
    subset: str = ""

    def __str__(self) -> str:
        return f"{self.service}/{self.subset}" if self.subset else self.service


def destination_of(text: str) -> Destination:
    """The destination whose text that is."""
    service, _, subset = text.partition("/")
    return Destination(service, subset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Whom the split is between.

    Args:
        stable, canary: Services in `namespace`, the Rollout's, or two subsets of one of them.
        stable_revision, canary_revision: for routers that tell revisions apart by label; "" when not known yet.
        settled: every proxy is known to do what the objects say now (`warming.py`).
        ping_pong: the two change roles with every update, so neither may be missing in what the user wrote.
    """

    rollout: str
    namespace: str
    stable: Destination
    canary: Destination
    stable_revision: str = ""
    canary_revision: str = ""
    settled: bool = True
    ping_pong: bool = False

    @property
    def stable_service(self) -> str:
        """Name of the stable Service."""
        return self.stable.service

    @property
    def canary_service(self) -> str:
        """Name of the canary Service."""
        return self.canary.service


@dataclass(frozen=True, slots=True)
class Objects:
    """What was read for one target. `owned` is None while it does not exist."""

    user: Manifest
    owned: Manifest | None = None


@dataclass(frozen=True, slots=True)
class PatchUser:
    """JSON Patch (RFC 6902) of the user's object. The driver puts a guard before it: the resourceVersion that was read."""

    operations: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class ApplyOwned:
    """Server-side apply of the object that we own; the driver adds the owner reference and the label that we watch by."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class DeleteOwned:
    """Deletes the object that we own, as it was read."""


Op: TypeAlias = PatchUser | ApplyOwned | DeleteOwned


class Provider(Protocol):
    """The laws, held by tests/traffic for any object that the API server would take and any split within `features`:

    * `read(apply(plan(want))) == want`, in one write or in several, and `plan` of what is read already is empty;
    * nothing but the pair's weights, the managed routes and the ledger differs afterwards, byte for byte;
    * `apply(release)` is the object as the user wrote it, whatever was planned before, where the user has not changed it since;
    * a change of the share changes no managed route, and the other way round;
    * a share of clients (`Split.sticky`) is said as `core.stickiness.as_said` has it, and read back as it was wanted;
    * what another wrote between read and plan is never lost (the driver's guard makes it a conflict).
    """

    @property
    def name(self) -> str:
        """As in the spec: `gatewayAPI`, `istio`."""
        ...

    def targets(self, settings: Mapping[str, Any], *, namespace: str) -> tuple[Target, ...]:
        """The places that the provider's part of the spec names, at least one.

        Raises: SpecInvalid, with every problem at once; paths begin below the provider's name (`httpRoutes[0].name`).
        """
        ...

    def supported(self, target: Target) -> frozenset[Feature]:
        """The most that `features` answers for any object there: a spec that asks for more is refused before one is read."""
        ...

    def features(self, objects: Objects, target: Target) -> frozenset[Feature]:
        """What may be asked for besides a share, as far as the objects themselves tell."""
        ...

    def read(self, objects: Objects, target: Target, context: Context) -> Split:
        """What the objects say. Raises: Unroutable (rollouts.errors)."""
        ...

    def plan(self, objects: Objects, target: Target, context: Context, want: Split) -> tuple[Op, ...]:
        """The writes that make it so, in a safe order: () when it is so already. Raises: Unroutable."""
        ...

    def release(self, objects: Objects, target: Target, context: Context) -> tuple[Op, ...]:
        """The writes that give the user's object back as it was, ledger included; () when nothing of ours is in it."""
        ...

    def accepted(self, objects: Objects, target: Target) -> Acceptance:
        """What the status says about the latest generation. Necessary and never sufficient (docs/traffic.md)."""
        ...

    def gateways(self, objects: Objects, target: Target) -> tuple[str, ...]:
        """Whose data plane does this, as `namespace/name` of a Gateway, or what else the operator may name; () for unknown."""
        ...
