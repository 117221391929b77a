"""A provider that is declared, not written: where the backends are, which field names their Service, and which is the weight.

For routers whose objects hold lists of weighted backends and that need nothing but weights. The declaration brings its own tests,
and `declared` runs them: one that fails is no provider.

    PROVIDER = declared(
        {
            "name": "apisix",
            "match": {"group": "apisix.apache.org", "kind": "ApisixRoute", "plural": "apisixroutes", "versions": ["v2"]},
            "backends": "spec.http[].backends[]",
            "service": "serviceName",
            "weight": {"path": "weight", "absent": 100},
            "accepted": {"conditions": "status.conditions", "type": "ResourcesAvailable"},
            "tests": [{"object": {...}, "canaryPercent": 10, "result": {...}}],
        }
    )
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from rollouts.core.traffic import Answer, Feature, Split, Verdict
from rollouts.errors import Unroutable
from rollouts.objects import Kind, Manifest
from rollouts.traffic.codec import Context, Objects, Target
from rollouts.traffic.ledger import NOTHING, with_ledger
from rollouts.traffic.settings import Settings
from rollouts.traffic.steering import Dialect, Path, Rules, Side

_TESTED = Context(rollout="test", namespace="test", stable_service="stable", canary_service="canary")
_WEIGHT_MOST = 2**31 - 1


def declared(declaration: Mapping[str, Any]) -> Declared:
    """The provider of a declaration. In its tests the Services are `stable` and `canary`, in the namespace `test`.

    Raises: SpecInvalid, with every problem at once, failed tests among them.
    """
    read = Settings(declaration)
    match, weight, accepted = (read.part(field) for field in ("match", "weight", "accepted"))
    found = Declared(
        name=read.text("name", needed=True),
        kinds=_kinds(match) if match is not None else (),
        dialect_of=_dialect(read, weight),
        conditions="" if accepted is None else accepted.text("conditions", needed=True),
        condition="" if accepted is None else accepted.text("type", needed=True),
    )
    if match is None:
        read.refuse("match", "is required: {group, kind, plural, versions}")
    for part in (match, weight, accepted):
        if part is not None:
            part.done()
    tests = read.parts("tests")
    if not tests:
        read.refuse("tests", "is required: [{object, canaryPercent, result}]")
    for test in tests:
        _run(found, test, usable=not read.problems)
    read.done()
    return found


@dataclass(frozen=True, slots=True)
class Declared(Rules):
    """What `declared` makes. Settings: `name` and maybe `namespace` of the object."""

    name: str
    kinds: tuple[Kind, ...]
    dialect_of: type[Dialect]
    conditions: str
    condition: str

    def targets(self, settings: Mapping[str, Any], *, namespace: str) -> tuple[Target, ...]:
        """One object."""
        read = Settings(settings)
        where = read.text("namespace", default=namespace)
        target = Target(kinds=self.kinds, namespace=where, name=read.text("name", needed=True))
        read.done()
        return (target,)

    def dialect(self, target: Target, context: Context) -> Dialect:
        """As declared."""
        return self.dialect_of(target, context)

    def features(self, objects: Objects, target: Target) -> frozenset[Feature]:
        """Weights and nothing else."""
        return frozenset()

    def accepted(self, objects: Objects, target: Target) -> Verdict:
        """What the declared condition says of this generation; yes when none is declared, which proves nothing."""
        if not self.condition:
            return Verdict(Answer.YES)
        generation = objects.user.get("metadata", {}).get("generation", 0)
        conditions: list[Manifest] = _at(objects.user, self.conditions) or []
        found = next((each for each in conditions if each.get("type") == self.condition), None)
        if found is None or found.get("observedGeneration", generation) < generation:
            return Verdict(Answer.UNKNOWN, f"{self.condition} is not told of generation {generation} yet")
        if found.get("status") == "True":
            return Verdict(Answer.YES)
        return Verdict(Answer.NO, f"{self.condition} is {found.get('status')}: {found.get('message', '')}")

    def gateways(self, objects: Objects, target: Target) -> tuple[str, ...]:
        """Not known."""
        return ()


def _kinds(match: Settings) -> tuple[Kind, ...]:
    group, kind, plural = (match.text(field, needed=True) for field in ("group", "kind", "plural"))
    versions = match.texts("versions")
    if not versions:
        match.refuse("versions", "is required, the best one first")
    return tuple(Kind(group, version, kind, plural) for version in versions)


def _dialect(read: Settings, weight: Settings | None) -> type[Dialect]:
    *rules, key = read.text("backends", needed=True).split(".")
    service = read.text("service", needed=True).split(".")
    name = "weight" if weight is None else weight.text("path", default="weight")
    absent = 1 if weight is None else weight.number("absent", default=1)
    most = _WEIGHT_MOST if weight is None else weight.number("most", default=_WEIGHT_MOST)
    if not key.endswith("[]"):
        read.refuse("backends", "must be a path to a list, such as spec.rules[].backends[]")

    @dataclass(frozen=True, slots=True)
    class Backends(Dialect):
        backends: ClassVar[str] = key.removesuffix("[]")
        weight: ClassVar[str] = name
        weight_absent: ClassVar[int] = absent
        weight_most: ClassVar[int] = most

        def lists(self, user: Manifest) -> tuple[Path, ...]:
            return tuple(place for place in _places(user, rules) if isinstance(_get(user, place), dict))

        def takes_requests(self, path: Path) -> bool:
            return False

        def side(self, backend: Manifest) -> Side | None:
            sides = {self.context.stable_service: Side.STABLE, self.context.canary_service: Side.CANARY}
            return sides.get(str(_get(backend, service)))

        def beside(self, stable: Manifest) -> Manifest:
            changed: Manifest = _with(self._weighted(stable, None), service, self.context.canary_service)
            return changed

    return Backends


def _run(provider: Declared, test: Settings, *, usable: bool) -> None:
    """One of the declaration's tests: the object steered to the percentage must be the result, and be read as that."""
    start, result = dict(test.value("object")), test.value("result")
    want = Split(Fraction(test.number("canaryPercent", needed=True), 100))
    test.done()
    if not usable:
        return
    target = Target(kinds=provider.kinds, namespace="test", name="test")
    dialect = provider.dialect(target, _TESTED)
    try:
        steered = dialect.with_us(start, want)
        if dialect.read(steered) != want:
            test.refuse("canaryPercent", "is not what is read back")
        if with_ledger(steered, NOTHING) != result:
            test.refuse("result", f"is not what becomes of the object: {with_ledger(steered, NOTHING)}")
    except (Unroutable, AttributeError, KeyError, TypeError, ValueError) as error:
        test.refuse("object", f"cannot be steered: {error}")


def _places(user: Manifest, steps: list[str]) -> list[Path]:
    """Where the path leads: `[]` is every item of a list."""
    places: list[Path] = [()]
    for step in steps:
        places = [(*place, step.removesuffix("[]")) for place in places]
        if step.endswith("[]"):
            places = [(*place, at) for place in places for at in range(len(_get(user, place) or ()))]
    return places


def _at(value: Any, path: str) -> Any:
    return _get(value, path.split("."))


def _get(value: Any, steps: Path | list[str]) -> Any:
    for step in steps:
        named = value.get(step) if isinstance(value, dict) else None
        value = value[step] if isinstance(step, int) else named
    return value


def _with(value: Manifest, steps: list[str], new: str) -> Manifest:
    return {**value, steps[0]: _with(value[steps[0]], steps[1:], new) if steps[1:] else new}
