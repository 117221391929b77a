"""Makes a provider from a declaration: where the backends are, what names their Service, and which field is the weight.

It is for routers whose objects hold lists of weighted backends; `header` says how a rule is copied for requests with a header.
The declaration has its own tests, and `declared` runs them: without success there is no provider. Another package declares a
provider in Python, an administrator in the cluster: the spec of a TrafficProvider is the same declaration, without the name.

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

A backend's Service is in the object's own namespace, unless `serviceNamespace` says where the backend names another one. Without
it no object outside the Rollout's namespace can be managed, because it cannot lead to the Rollout's Services.
`live` says whom to ask whether the router follows the object (`probe.py`); without it the controller waits for the settle time.

`service`, `serviceNamespace` and `accepted` may be CEL instead: `{"cel": "item.host.split('.')[0]"}`, where `item` is a backend,
and `{"cel": "object.status.ready"}`, where `object` is the whole object. Fields that are written are always given as paths.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from msgspec import Struct

from rollouts.core.model.traffic import Acceptance, Answer, Feature, MatchKind, RequestMatch, RuleSaid, Split
from rollouts.errors import ExpressionFailed, ExpressionsTooCostly, SpecInvalid, SpecProblem, Unroutable
from rollouts.expressions import Expression, Result, metered
from rollouts.objects import Kind, Manifest
from rollouts.traffic.codec import Context, Destination, Objects, Op, Target
from rollouts.traffic.declared.header_template import HeaderTemplate, read_header, read_headers
from rollouts.traffic.declared.probe import DeclaredProbe, read_probe, run_answers
from rollouts.traffic.rules.ledger import NOTHING, with_ledger
from rollouts.traffic.rules.provider import Rules
from rollouts.traffic.rules.rule_paths import RulePath, rules_at
from rollouts.traffic.rules.steering import Dialect, Side
from rollouts.traffic.settings import SettingsReader

SETTLE_MAX_S = 300
SPEC_BYTES_MAX = 12 * 1024
TESTS_UNITS_MAX = 100_000
"""Most cost of all expressions in the tests together: 10 ms. Each controller runs them at its start and at each change."""

_TESTED = Context(rollout="test", namespace="test", stable=Destination("stable"), canary=Destination("canary"))


def declared(declaration: Mapping[str, Any]) -> Declared:
    """The provider of a declaration. In its tests the Services are `stable` and `canary`, in the namespace `test`.

    Raises: SpecInvalid, with every problem at once, including failed tests.
    """
    text = json.dumps(declaration, ensure_ascii=False).encode(errors="replace")
    if len(text) > SPEC_BYTES_MAX:
        why = f"has {len(text)} bytes, and at most {SPEC_BYTES_MAX} are allowed; remove tests, or make their objects smaller"
        raise SpecInvalid((SpecProblem("tests", why),))
    read = SettingsReader(declaration)
    match, weight, places = read.part("match"), read.part("weight"), read.text("backends", needed=True)
    if isinstance(declaration.get("service"), Mapping):
        service = _named(read.part("service")) or Named()
    else:
        service = Named(tuple(read.text("service", needed=True).split(".")))
    space = _named(read.part("serviceNamespace"))
    header = read_header(read.part("header"), places=places)
    name, kinds = read.text("name", needed=True), _kinds(match) if match is not None else ()
    dialect = _dialect(read, places, (service, space), weight, header)
    accepts, seconds = _acceptance(read.part("accepted")), read.number("settleSeconds", default=-1)
    if seconds == 0 or seconds > SETTLE_MAX_S:
        read.refuse("settleSeconds", f"must be 1 to {SETTLE_MAX_S}")
    found = Declared(
        declaration=text,
        name=name,
        kinds=kinds,
        backends=places,
        weight=dialect.weight,
        dialect_of=dialect,
        header=header,
        accepts=accepts,
        settle_s=float(seconds) if seconds > 0 else None,
        live=read_probe(read.part("live")),
    )
    if match is None:
        read.refuse("match", "is required: {group, kind, plural, versions}")
    for part in (match, weight):
        if part is not None:
            part.done()
    tests = read.parts("tests")
    if not tests:
        read.refuse("tests", "is required: [{object, canaryPercent, result}]")
    tried: list[frozenset[object]] = []
    try:
        with metered(TESTS_UNITS_MAX):
            tried += [_run(found, test, usable=not read.problems) for test in tests]
    except ExpressionsTooCostly:
        read.refuse("tests", "cost too much together; remove some, or make their objects and answers smaller")
    if not read.problems:
        _check_tried(read, found, frozenset[object]().union(*tried))
    read.done()
    return found


def managed_in_test(provider: Declared, test: Mapping[str, Any], user: Manifest) -> tuple[Manifest, Split]:
    """The object as it is written for one of the declaration's tests, with our annotation, and the split that it then describes.

    Raises: Unroutable.
    """
    want = Split(Fraction(test["canaryPercent"], 100), read_headers(SettingsReader({"headers": test.get("headers")})))
    with _as_declared(provider):
        return _tested(provider).with_us(user, want), want


def says_in_test(provider: Declared, user: Manifest) -> Split:
    """The split that an object of the declaration's tests describes. Raises: Unroutable."""
    with _as_declared(provider):
        return _tested(provider).read(user)


class Named(Struct, frozen=True):
    """What names a backend's Service, or its namespace: a path to a field, or an expression over the backend."""

    path: tuple[str, ...] = ()
    expression: Expression | None = None

    def of(self, backend: Manifest) -> str:
        """The name; "" when the backend has none."""
        if self.expression is None:
            found = _get(backend, self.path) if self.path else ""
            return found if isinstance(found, str) else ""
        try:
            return self.expression.text({"item": backend})
        except ExpressionFailed:  # a backend of somebody else, which may have another form
            return ""


class AcceptedWhen(Struct, frozen=True):
    """How to know that the router has accepted an object: by a condition in a list, or by an expression over the object."""

    conditions: str = ""
    type: str = ""
    expression: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared(Rules):
    """A provider that `declared` made. A Rollout's settings for it: `name`, and optionally `namespace`, of the object.

    Args:
        declaration: what `declared` makes it from, as JSON.
        backends, weight: path to the lists of backends, and the field of a backend that is its weight.
        accepts: how to know that an object is accepted; None when nothing shows it.
        settle_s: how long after an accepted write it counts as live; None for the general number.
        live: whom to ask instead whether it is live; None for nobody.
        header: how requests are routed by headers; None when they cannot be.
    """

    declaration: bytes = field(repr=False)
    name: str
    kinds: tuple[Kind, ...]
    backends: str
    weight: str
    dialect_of: type[_Backends]
    accepts: AcceptedWhen | None = None
    settle_s: float | None = None
    live: DeclaredProbe | None = None
    header: HeaderTemplate | None = None

    def targets(self, settings: Mapping[str, Any], *, namespace: str) -> tuple[Target, ...]:
        """The one object that the settings name."""
        read = SettingsReader(settings)
        where = read.object_name("namespace", default=namespace)
        name = read.object_name("name", needed=True)
        if where != namespace and self.dialect_of.space is None:
            read.refuse(
                "namespace",
                f"must be the Rollout's namespace, {namespace}: TrafficProvider {self.name} does not say where a backend names "
                "the namespace of its Service (serviceNamespace), so an object elsewhere cannot lead here",
            )
        read.done()
        return (Target(kinds=self.kinds, namespace=where, name=name, settle_s=self.settle_s),)

    def dialect(self, target: Target, context: Context) -> Dialect:
        """The dialect that the declaration describes."""
        return self.dialect_of(target, context)

    def read(self, objects: Objects, target: Target, context: Context) -> Split:
        """See `codec.Provider`."""
        with _as_declared(self):
            return Rules.read(self, objects, target, context)

    def plan(self, objects: Objects, target: Target, context: Context, want: Split) -> tuple[Op, ...]:
        """See `codec.Provider`."""
        with _as_declared(self):
            return Rules.plan(self, objects, target, context, want)

    def release(self, objects: Objects, target: Target, context: Context) -> tuple[Op, ...]:
        """See `codec.Provider`. Raises: Unroutable, when the object no longer has the form that was declared."""
        with _as_declared(self):
            return Rules.release(self, objects, target, context)

    def rules(self, objects: Objects, target: Target, context: Context) -> tuple[RuleSaid, ...]:
        """None: its router is asked by the declaration's own expression."""
        return ()

    def supported(self, target: Target) -> frozenset[Feature]:
        """Weights, and headers if the declaration says how."""
        return frozenset() if self.header is None else self.header.features

    def accepted(self, objects: Objects, target: Target) -> Acceptance:
        """The declared condition or expression, for this generation; yes when none is declared, which proves nothing."""
        if self.accepts is None:
            return Acceptance(Answer.YES)
        user = objects.user
        generation = user.get("metadata", {}).get("generation", 0)
        status = user.get("status")
        if isinstance(status, dict) and _older(status.get("observedGeneration"), generation):
            return Acceptance(Answer.UNKNOWN, f"its status is not about generation {generation} yet")
        if (expression := self.accepts.expression) is None:
            return _by_condition(self.accepts, user, generation)
        try:
            if expression.truth({"object": user}):
                return Acceptance(Answer.YES)
        except ExpressionFailed as error:  # an object has no status before its router has processed it
            return Acceptance(Answer.UNKNOWN, str(error))
        return Acceptance(Answer.UNKNOWN, f"not true yet: {expression.source}")


def _by_condition(accepts: AcceptedWhen, user: Manifest, generation: int) -> Acceptance:
    conditions = _get(user, accepts.conditions.split("."))
    told = [each for each in conditions if isinstance(each, dict)] if isinstance(conditions, list) else []
    found = next((each for each in told if each.get("type") == accepts.type), None)
    if found is None or _older(found.get("observedGeneration"), generation):
        return Acceptance(Answer.UNKNOWN, f"condition {accepts.type} is not about generation {generation} yet")
    if found.get("status") == "True":
        return Acceptance(Answer.YES)
    return Acceptance(Answer.NO, f"condition {accepts.type} is {found.get('status')}: {found.get('message', '')}")


def _older(observed: Any, generation: int) -> bool:
    return isinstance(observed, int) and observed < generation


@contextmanager
def _as_declared(provider: Declared) -> Iterator[None]:
    """Turns errors about an object's form into Unroutable, because only the declaration's author knows the form of the kind."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise Unroutable(
            f"it does not have the form that provider {provider.name} declares ({provider.backends}): "
            f"{type(error).__name__} {error}; change the object, or the provider"
        ) from error


def _kinds(match: SettingsReader) -> tuple[Kind, ...]:
    group, kind, plural = (match.text(field, needed=True) for field in ("group", "kind", "plural"))
    versions = match.texts("versions")
    if not versions:
        match.refuse("versions", "is required: list the preferred version first")
    return tuple(Kind(group, version, kind, plural) for version in versions)


def _named(part: SettingsReader | None) -> Named | None:
    if part is None:
        return None
    path, source = part.text("path"), part.text("cel")
    part.done()
    if bool(path) == bool(source):
        part.refuse("", "exactly one of path and cel is required")
    if not source:
        return Named(tuple(path.split(".")))
    return Named(expression=part.compiled("cel", source, variables=("item",), result=Result.TEXT))


def _acceptance(part: SettingsReader | None) -> AcceptedWhen | None:
    if part is None:
        return None
    source = part.text("cel")
    found = AcceptedWhen(
        conditions=part.text("conditions", needed=not source),
        type=part.text("type", needed=not source),
        expression=part.compiled("cel", source, variables=("object",), result=Result.TRUTH) if source else None,
    )
    part.done()
    if source and (found.conditions or found.type):
        part.refuse("", "cel excludes conditions and type; write cel alone, or the other two")
    return found


def _dialect(
    read: SettingsReader,
    places: str,
    named_by: tuple[Named, Named | None],
    weight: SettingsReader | None,
    template: HeaderTemplate | None,
) -> type[_Backends]:
    *holders, key = places.split(".")
    name = "weight" if weight is None else weight.text("path", default="weight")
    absent = 1 if weight is None else weight.number("absent", default=1)
    most = Dialect.weight_most if weight is None else weight.number("most", default=Dialect.weight_most)
    if not key.endswith("[]"):
        read.refuse("backends", "must be a path to a list, such as spec.rules[].backends[]")

    @dataclass(frozen=True, slots=True)
    class Backends(_Backends):
        backends: ClassVar[str] = key.removesuffix("[]")
        weight: ClassVar[str] = name
        weight_absent: ClassVar[int] = absent
        weight_most: ClassVar[int] = most
        steps: ClassVar[tuple[str, ...]] = tuple(holders)
        service: ClassVar[Named] = named_by[0]
        space: ClassVar[Named | None] = named_by[1]
        header: ClassVar[HeaderTemplate | None] = template

    return Backends


@dataclass(frozen=True, slots=True)
class _Backends(Dialect):
    """The declared form of rules. It cannot use super(): a dataclass with slots is another class than the one in the source.

    `steps` lead to the rule that holds a list of backends, `service` names a backend's Service, and `space` its namespace.
    """

    steps: ClassVar[tuple[str, ...]]
    service: ClassVar[Named]
    space: ClassVar[Named | None]
    header: ClassVar[HeaderTemplate | None]

    def lists(self, user: Manifest) -> tuple[RulePath, ...]:
        if self.header is None:
            return tuple(place for place in _places(user, self.steps) if isinstance(_get(user, place), dict))
        heads = (*self.steps[:-1], self.steps[-1].removesuffix("[]"))  # the lists of rules, where copies are put
        return tuple(place for place in _places(user, heads) if isinstance(_get(user, place), list))

    def takes_requests(self, path: RulePath) -> bool:
        return self.header is not None

    def side(self, backend: Manifest) -> Side | None:
        named = self.space.of(backend) if self.space is not None else ""
        if (named or self.target.namespace) != self.context.namespace:
            return None
        return self.side_of(self.service.of(backend))

    def read(self, user: Manifest) -> Split:
        found = Dialect.read(self, user)
        if self.service.expression is not None and not self._holds_both(user):
            raise Unroutable(_one_alone(self.context))
        return found

    def beside(self, stable: Manifest, to: Destination) -> Manifest:
        if self.service.expression is not None:
            raise Unroutable(_one_alone(self.context))
        changed: Manifest = _with(self._weighted(stable, None), self.service.path, to.service)
        return changed

    def identity(self, rule: Manifest) -> Any:
        return rule.get("name") if self.header is None else self.header.of(rule)

    def narrowed(self, rule: Manifest, matches: Sequence[RequestMatch], name: str) -> Manifest | None:
        if self.header is None or len(matches) != 1:
            return Dialect.narrowed(self, rule, matches, name)
        return self.header.narrowed(rule, matches[0], name)

    def stands_anywhere(self, copy: Manifest, rule: Manifest) -> bool:
        return self.header is not None and self.header.last

    def _holds_both(self, user: Manifest) -> bool:
        found = [self._find(rule) for place in self.lists(user) for rule in rules_at(user, place)]
        return any(stable is not None and canary is not None for stable, canary in found)


def _one_alone(context: Context) -> str:
    return (
        f"none of its lists has both {context.stable_service} and {context.canary_service} as backends, and an expression "
        f"names them, so no backend can be added: add {context.canary_service} beside {context.stable_service} with weight 0"
    )


def _tested(provider: Declared) -> Dialect:
    return provider.dialect(Target(kinds=provider.kinds, namespace="test", name="test"), _TESTED)


def _check_tried(read: SettingsReader, provider: Declared, tried: frozenset[object]) -> None:
    """Notes what is declared and not tested."""
    if provider.live is not None and not {True, False} <= tried:
        read.refuse("tests", "need answers of the router for live: at least one that is live, and one that is not")
    if provider.header is None:
        return
    for kind in (MatchKind.EXACT, MatchKind.REGEX) if provider.header.regex else (MatchKind.EXACT,):
        if kind not in tried:
            read.refuse("tests", f"need one test with headers for header, with a match of kind {kind}")


def _run(provider: Declared, test: SettingsReader, *, usable: bool) -> frozenset[object]:
    """Runs one of the declaration's tests: the object, managed to the percentage, must be the result, and be read as such.

    Returns what it tried: kinds of header matches, and whether its answers mean live, true or false.
    """
    start, result = dict(test.value("object")), dict(test.value("result"))
    percent, matches = test.number("canaryPercent", needed=True), read_headers(test)
    if percent > 100:
        test.refuse("canaryPercent", "must be 0 to 100")
        usable = False
    if not usable:
        test.parts("answers")
        test.done()
        return frozenset()
    meant = run_answers(provider.live, test, result, percent)
    test.done()
    want = Split(Fraction(percent, 100), matches)
    dialect = _tested(provider)
    try:
        with _as_declared(provider):
            dialect.read(start)
            managed = dialect.with_us(start, want)
            if dialect.read(managed) != want:
                test.refuse("canaryPercent", "differs from what is read back")
            if with_ledger(managed, NOTHING) != result:
                test.refuse(
                    "result", f"differs from the object that the provider writes: {with_ledger(managed, NOTHING)}"
                )
    except Unroutable as error:
        test.refuse("object", f"cannot be managed: {error}")
    return meant | {each.value.kind for route in matches for each in route.match.headers}


def _places(user: Manifest, steps: Sequence[str]) -> list[RulePath]:
    """The places that the path leads to; `[]` is every item of a list."""
    places: list[RulePath] = [()]
    for step in steps:
        places = [(*place, step.removesuffix("[]")) for place in places]
        if step.endswith("[]"):
            places = [(*place, at) for place in places for at in range(len(_get(user, place) or ()))]
    return places


def _get(value: Any, steps: RulePath | list[str]) -> Any:
    for step in steps:
        named = value.get(step) if isinstance(value, dict) else None
        value = value[step] if isinstance(step, int) else named
    return value


def _with(value: Manifest, steps: tuple[str, ...], new: str) -> Manifest:
    return {**value, steps[0]: _with(value[steps[0]], steps[1:], new) if steps[1:] else new}
