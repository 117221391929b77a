"""What a traffic provider is: a pure codec between a split of requests and the objects of one router. No I/O, no clock.

One driver reads, writes and waits for all providers (`core/routing/routes.py` decides, `controller/` acts); one conformance suite
tests each of them (`tests/traffic`). A provider is a module with a `PROVIDER`, registered in `registry.py`, or an entry point of
another package in the group `rollouts.traffic`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, TypeAlias

from msgspec import Struct, field

from rollouts.core.model.traffic import Acceptance, Answer, Feature, RuleSaid, Split
from rollouts.errors import Unroutable
from rollouts.objects import Kind, Manifest

LEDGER = "rollouts.dev/route"
"""Annotation on a managed object, in JSON: what the user had written, and which parts are ours now. It is the codec's only
memory, and a release removes it."""


class Target(Struct, frozen=True, kw_only=True):
    """One place where traffic is split: an object of the user, and perhaps one that we own beside it.

    Args:
        kinds: the kind in each version that the codec can read, the preferred one first; the server decides which one is used.
        owned_name: name of the object that we own beside it; "" for none.
        owned_kinds: the kind of that object; the same as `kinds` when left out.
        options: further settings for the codec, such as names of rules and ports.
        subsets: names of the stable and the canary subset in it, for an object that splits nothing and says which revision each
            of them selects (`istio/subsets.py`). To core they are Services; the object is never read or planned as a route.
        settle_s: seconds within which the router follows the object, for when no data plane can be asked; None for the general
            figure (`core.traffic.SETTLE_S`). The codec's file names the source of the figure.
        service_port: port of both Services, if the spec names it; None if the object does.
        weight_total: the sum of all weights, for a router with a fixed one; None for any.
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


class Destination(Struct, frozen=True):
    """A destination of requests: a Service, or one subset of the pods of a Service (`istio/subsets.py`).

    Its text is `service` or `service/subset`; no name has a slash.
    """

    service: str
    subset: str = ""

    def __str__(self) -> str:
        return f"{self.service}/{self.subset}" if self.subset else self.service


def destination_of(text: str) -> Destination:
    """The destination with that text."""
    service, _, subset = text.partition("/")
    return Destination(service, subset)


class Context(Struct, frozen=True, kw_only=True):
    """The two destinations of a split, and what else a codec needs to know about the Rollout.

    Args:
        stable, canary: Services in `namespace`, the Rollout's, or two subsets of one of them.
        settled: whether every proxy is known to follow the current objects (`warming.py`).
        ping_pong: whether the two change roles with every update, so that the user's object must have both.
    """

    rollout: str
    namespace: str
    stable: Destination
    canary: Destination
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


class Objects(Struct, frozen=True):
    """The objects that were read for one target. `owned` is None while it does not exist."""

    user: Manifest
    owned: Manifest | None = None


class PatchUser(Struct, frozen=True):
    """JSON Patch (RFC 6902) of the user's object. The driver adds a precondition: the resourceVersion that was read."""

    operations: tuple[Mapping[str, Any], ...]


class ApplyOwned(Struct, frozen=True):
    """Server-side apply of the object that we own; the driver adds the owner reference and the label of our watch."""

    manifest: Manifest


class DeleteOwned(Struct, frozen=True):
    """Deletion of the object that we own, in the version that was read."""


Op: TypeAlias = PatchUser | ApplyOwned | DeleteOwned


class Provider(Protocol):
    """What every provider promises, for any object that the API server accepts and any split within `features` (tests/traffic):

    * `read(apply(plan(want))) == want`, in one write or in several, and `plan` is empty when `want` is read already;
    * nothing but the pair's weights, the managed routes, the backends of Experiments and the ledger changes, byte for byte;
    * `apply(release)` gives the object as the user wrote it, whatever was planned before, unless the user has changed it since;
    * a change of the share changes no managed route, and the other way round;
    * a share of clients (`Split.sticky`) is written as `core.stickiness.as_said` says, and read back as it was wanted;
    * a write of somebody else between read and plan is never lost (the driver's precondition makes it a conflict).
    """

    @property
    def name(self) -> str:
        """The provider's name in the spec, such as `gatewayAPI` or `istio`."""
        ...

    def targets(self, settings: Mapping[str, Any], *, namespace: str) -> tuple[Target, ...]:
        """The places that the provider's part of the spec names, at least one.

        Raises: SpecInvalid, with every problem at once; paths begin below the provider's name (`httpRoutes[0].name`).
        """
        ...

    def supported(self, target: Target) -> frozenset[Feature]:
        """The most that `features` returns for any object there: a spec that needs more is refused before an object is read."""
        ...

    def features(self, objects: Objects, target: Target) -> frozenset[Feature]:
        """The features that the objects allow besides a share, as far as the objects themselves show it."""
        ...

    def read(self, objects: Objects, target: Target, context: Context) -> Split:
        """The split that the objects describe. Raises: Unroutable (rollouts.errors)."""
        ...

    def plan(self, objects: Objects, target: Target, context: Context, want: Split) -> tuple[Op, ...]:
        """The writes that bring the objects to `want`, in a safe order; () when nothing differs. Raises: Unroutable."""
        ...

    def release(self, objects: Objects, target: Target, context: Context) -> tuple[Op, ...]:
        """The writes that restore the user's object and remove the ledger; () when nothing of ours is in it."""
        ...

    def rules(self, objects: Objects, target: Target, context: Context) -> tuple[RuleSaid, ...]:
        """The rules of the object, for whoever compares a data plane with it; () when nobody does so for this router.

        Raises: Unroutable.
        """
        ...

    def accepted(self, objects: Objects, target: Target) -> Acceptance:
        """Whether the status accepts the latest generation: necessary, never sufficient (docs/traffic-verification.md)."""
        ...

    def gateways(self, objects: Objects, target: Target) -> tuple[str, ...]:
        """The gateways whose data planes follow the route, as `namespace/name` or any name for an operator; () for unknown."""
        ...


class SharesAlone:
    """The answers of a `Provider` whose router splits by shares alone, and shows nothing of it. Others override them."""

    supported_features: ClassVar[frozenset[Feature]] = frozenset()

    def supported(self, target: Target) -> frozenset[Feature]:
        """The same for all targets."""
        return self.supported_features

    def features(self, objects: Objects, target: Target) -> frozenset[Feature]:
        """Those that any object has."""
        return self.supported(target)

    def check_experiments(self, want: Split, target: Target) -> None:
        """Raises: Unroutable for shares of Experiments, where the router's rules cannot have them."""
        if want.experiments and Feature.EXPERIMENT not in self.supported(target):
            raise Unroutable(
                f"{target.kinds[0].kind} {target.name} splits requests between two Services, and cannot send a share to an "
                "Experiment; remove weight from the templates of the step"
            )

    def rules(self, objects: Objects, target: Target, context: Context) -> tuple[RuleSaid, ...]:
        """None: no data plane is compared with the object."""
        return ()

    def accepted(self, objects: Objects, target: Target) -> Acceptance:
        """Yes, as the router writes nothing about the object that could say otherwise."""
        return Acceptance(Answer.YES)

    def gateways(self, objects: Objects, target: Target) -> tuple[str, ...]:
        """Unknown."""
        return ()


def accepted_by_conditions(user: Manifest, *types: str, router: str) -> Acceptance:
    """What the conditions of these types in the status say of the latest generation, with the errors that they list."""
    generation = user.get("metadata", {}).get("generation", 0)
    conditions = (user.get("status") or {}).get("conditions") or ()
    found = [condition for condition in conditions if condition.get("type") in types]
    if not found or any(condition.get("observedGeneration", -1) < generation for condition in found):
        return Acceptance(Answer.UNKNOWN, f"{router} has not processed generation {generation} yet")
    bad = next((condition for condition in found if condition.get("status") != "True"), None)
    if bad is None:
        return Acceptance(Answer.YES)
    told = [bad.get("message"), *(error.get("message") for error in bad.get("errors") or ())]
    return Acceptance(Answer.NO, f"{router} says: {'; '.join(filter(None, told))}")
