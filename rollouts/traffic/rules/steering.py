"""Manages objects that hold rules, each with a list of weighted backends, as the objects of most routers do.

Everything rests on two functions: `without_us` gives the object without our changes, and `with_us` gives it with a wanted split.
A plan writes the difference, a release writes the first result, and a split that was read counts as whole when both functions
together give the current object. A router's module only says how its rules are written (`Dialect`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar

from rollouts.core.model.frozen import replace
from rollouts.core.model.revision import canonical_json, short_hash
from rollouts.core.model.traffic import ExperimentShare, MirrorRoute, RequestMatch, RuleSaid, Split
from rollouts.core.routing.stickiness import as_said
from rollouts.errors import Unroutable
from rollouts.objects import Manifest
from rollouts.traffic.codec import Context, Destination, Op, Target
from rollouts.traffic.rules.difference import patch_of
from rollouts.traffic.rules.ledger import NOTHING, Ledger, Noted, ledger_of, with_ledger
from rollouts.traffic.rules.rule_paths import RulePath, RulePlace, put_rules, rules_at
from rollouts.traffic.rules.weights import Weights, weights_for

RULES_MAX = 512
"""In all lists of an object. Each takes a tenth of a millisecond in each pass; an object of 1 MiB has room for 10,000."""


class Side(Enum):
    """Whether a backend is the stable or the canary one."""

    STABLE = "stable"
    CANARY = "canary"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one router writes rules. A rule is a JSON object with a list of backends; a backend is one that may have a weight.

    A dialect serves one call of its provider. So what it has worked out about a rule holds as long as the dialect.
    """

    target: Target
    context: Context
    _known_looks: dict[tuple[int, bool], tuple[Manifest, str]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    """Looks by the identity of their rule, which no call changes; with the rule, so that no other rule gets its identity."""

    backends: ClassVar[str]
    weight: ClassVar[str] = "weight"
    weight_absent: ClassVar[int] = 1
    weight_alone: ClassVar[int] = 1
    """The weight of a backend that is alone in its rule."""
    weight_most: ClassVar[int] = 2**31 - 1
    service_name: ClassVar[str] = "name"
    """The field of a backend that names its Service."""
    below: ClassVar[bool] = False
    """Whether the paths of rules continue those of objects that include this one."""

    path: ClassVar[RulePath]
    """The path of the list of rules, for a router that has one list."""

    def lists(self, user: Manifest) -> tuple[RulePath, ...]:
        """The paths of lists of rules; a path to a single object counts as a list of one, to which nothing is added."""
        return (self.path,)

    def side(self, backend: Manifest) -> Side | None:
        """Whether this is the stable or the canary backend; None for any other. Without a namespace it is in the object's."""
        here = backend.get("namespace") or self.target.namespace
        return self.side_of(backend.get(self.service_name)) if here == self.context.namespace else None

    def side_of(self, service: Any) -> Side | None:
        """Which of the two Services has that name; None for any other."""
        return {self.context.stable_service: Side.STABLE, self.context.canary_service: Side.CANARY}.get(service)

    def beside(self, stable: Manifest, to: Destination) -> Manifest:
        """A backend for the canary or an Experiment, without a weight, for a rule that has only the stable one."""
        return {**self._weighted(stable, None), self.service_name: to.service}

    def named(self) -> tuple[Any, ...]:
        """The rules that the spec names, each by a text or a value; () for all rules that can be managed."""
        return tuple(self.target.options.get("rules") or ())

    def is_named(self, rule: Manifest, path: RulePath, name: Any) -> bool:
        """Whether `name` names the rule."""
        return bool(rule.get("name") == name)

    def names_for(self, path: RulePath) -> tuple[Any, ...]:
        """The names that the spec has for rules of this list; () for all of them that can be managed."""
        return self.named()

    def no_rule_named(self, name: Any, user: Manifest) -> str:
        """What is wrong when no rule has that name, and what to do."""
        return f"it has no rule named {name}; give a rule that name, or remove the name from the spec"

    def has_others(self, rule: Manifest) -> bool:
        """Whether the rule has backends with a weight besides those in its list."""
        return False

    def takes_requests(self, path: RulePath) -> bool:
        """Whether the rules of this list are for requests, so that managed routes can be copied from them."""
        return True

    def weight_of(self, backend: Manifest, rule: Manifest) -> int:
        """The weight that the router assumes for this backend."""
        found = backend.get(self.weight)
        return self.weight_absent if found is None else int(found)

    def identity(self, rule: Manifest) -> Any:
        """What distinguishes a rule from others, besides its backends."""
        return rule.get("name")

    def narrowed(self, rule: Manifest, matches: Sequence[RequestMatch], name: str) -> Manifest | None:
        """A copy of the rule for those of its requests that match one of `matches`; for all of them when `matches` is empty.

        None when no request can match both. Raises: Unroutable when that cannot be known, or cannot be expressed.
        """
        raise Unroutable(
            f"{self.target.kinds[0].kind} {self.target.name} cannot route by headers; remove {name} from the steps"
        )

    def stands_anywhere(self, copy: Manifest, rule: Manifest) -> bool:
        """Whether a narrowed copy gets its requests at any place of the list; then it goes to the end, and no rule moves."""
        return False

    def before_mirrors(self, copy: Manifest, mirrors: Sequence[MirrorRoute]) -> Manifest:
        """A header route's copy of a rule, changed so that it gets its requests though the copy of a mirror matches them too."""
        return copy

    def mirrored(self, rule: Manifest, mirror: MirrorRoute, canary: Manifest) -> Manifest:
        """The rule, with copies of its requests sent to the canary's backend. Raises: Unroutable."""
        raise Unroutable(
            f"{self.target.kinds[0].kind} {self.target.name} cannot mirror; remove {mirror.name} from the steps"
        )

    def mirrored_in_place(self, rule: Manifest, mirror: MirrorRoute, canary: Manifest) -> Manifest | None:
        """The user's own rule, with copies of its requests sent to the canary's backend, for routers that allow no second rule.

        None to copy the rule instead. Raises: Unroutable.
        """
        return None

    def unmirrored(self, rule: Manifest) -> Manifest:
        """The rule without the changes of `mirrored_in_place`."""
        return rule

    def requests_of(self, rule: Manifest) -> tuple[RequestMatch, ...]:
        """The matches of a rule, any of which is enough; () where no data plane is compared with the object."""
        return ()

    def copied_percents(self, rule: Manifest) -> tuple[Fraction, ...]:
        """For each mirror of a rule to the canary Service, the percentage of requests that it copies."""
        return ()

    def check(self, user: Manifest) -> None:
        """Raises: Unroutable when the API server would refuse the object for its size."""

    def _rules(self, user: Manifest) -> list[tuple[RulePath, int, Manifest]]:
        """Every rule with its place."""
        return [(path, at, rule) for path in self.lists(user) for at, rule in enumerate(rules_at(user, path))]

    def _within_bounds(self, user: Manifest) -> Manifest:
        """The object. Raises: Unroutable, for so many rules that each pass would delay everybody's."""
        rules = len(self._rules(user))
        if rules > RULES_MAX:
            what = f"{self.target.kinds[0].kind} {self.target.name} has {rules:,} rules"
            raise Unroutable(f"{what}, and at most {RULES_MAX} are followed; give these Services a route of their own")
        return user

    def read(self, user: Manifest) -> Split:
        """The split that the object describes. Raises: Unroutable."""
        ledger = ledger_of(self._within_bounds(user))
        stripped, ours = self._stripped(user, ledger)
        pristine = self.without_us(user, ledger)
        managed = [rules_at(stripped, path)[at] for path, at in self._managed_rules(pristine)]
        services = [each for each in ledger.experiments if any(self._at(rule, each) is not None for rule in managed)]
        shares = [self._weights(rule, services).shares for rule in managed]
        share, *others = [max(each) for each in zip(*shares, strict=True)]
        found = Split(share, experiments=tuple(map(ExperimentShare, services, others)))
        if ours:
            found = replace(found, matches=ledger.matches, mirrors=ledger.mirrors, sticky=ledger.sticky)
        if found.sticky is not None:
            found = replace(found, share=max(share, ledger.share))
        try:
            whole = self.with_us(pristine, found) == user
        except Unroutable:
            whole = False
        return found if whole else replace(found, whole=False)

    def said(self, user: Manifest) -> tuple[RuleSaid, ...]:
        """The object's rules, and which of them are left as their user wrote them. Raises: Unroutable."""
        pristine = self.without_us(user, ledger_of(user))
        managed = set(self._managed_rules(pristine))
        users = [rule for path, at, rule in self._rules(pristine) if (path, at) not in managed]
        said = []
        for _, _, rule in self._rules(user):
            stable, canary = self._find(rule)
            rule_said = RuleSaid(
                users=rule in users,
                requests=self.requests_of(rule),
                stable=Fraction(self._weight_at(rule, stable)),
                canary=Fraction(self._weight_at(rule, canary)),
                copied_percents=self.copied_percents(rule),
                below=self.below,
            )
            said.append(rule_said)
        return tuple(said)

    def plan(self, user: Manifest, want: Split) -> tuple[Op, ...]:
        """The writes that bring the object to `want`, or the next of them. Raises: Unroutable."""
        ledger = ledger_of(user)
        pristine = self.without_us(self._within_bounds(user), ledger)
        final = self.with_us(pristine, want)
        if want.experiments or ledger.experiments:
            final = self.with_us(pristine, replace(want, experiments=self._next_shares(user, want)))
        return patch_of(user, self.on_the_way(user, final))

    def _next_shares(self, user: Manifest, want: Split) -> tuple[ExperimentShare, ...]:
        """The shares of Experiments in the next write: one that is new is 0 first, and one that goes is 0 at last.

        Proxies that make a cluster for each Service may have a route before its cluster, and lose a cluster before its route.
        """
        now, none = {each.service: each.share for each in self.read(user).experiments}, Fraction(0)
        known = [service for service, share in now.items() if share or self.context.settled]
        coming = [each if each.service in known else replace(each, share=none) for each in want.experiments]
        going = [each for each in now if each not in {wanted.service for wanted in coming}]
        return (*coming, *[ExperimentShare(each, none) for each in going if now[each] or each not in known])

    def on_the_way(self, user: Manifest, final: Manifest) -> Manifest:
        """The next object on the way to `final`; `final` itself for a router that takes all changes at once."""
        return final

    def release(self, user: Manifest) -> tuple[Op, ...]:
        """The writes that release the object."""
        return patch_of(user, self.without_us(user, ledger_of(user)))

    def _stripped(self, user: Manifest, ledger: Ledger) -> tuple[Manifest, int]:
        """The object without the rules and the mirrors that we added, and their number."""
        ours = 0
        left = Counter(ledger.made)
        for path in self.lists(user) if left or ledger.mirrors else ():
            kept: list[Manifest] = []
            for rule in rules_at(user, path):
                look = self.look(rule)
                if left[look]:
                    left[look] -= 1
                    ours += 1
                    continue
                bare = self.unmirrored(rule) if ledger.mirrors else rule
                ours += bare is not rule
                kept.append(bare)
            user = put_rules(user, path, kept)
        return user, ours

    def without_us(self, user: Manifest, ledger: Ledger) -> Manifest:
        """The object as its user wrote it, with their later edits: a weight that differs from ours is theirs."""
        if ledger.between is not None and ledger.between != (self.context.stable, self.context.canary):
            stable, canary = ledger.between
            there = replace(self.context, stable=stable, canary=canary)
            return replace(self, context=there).without_us(user, ledger)
        user, _ = self._stripped(user, ledger)
        for path in self.lists(user) if ledger.experiments else ():
            user = put_rules(user, path, [self._without(rule, ledger.experiments) for rule in rules_at(user, path)])
        paths = self.lists(user) if ledger.pairs else ()
        looks = self._looks(user) if ledger.pairs else {}
        notes = {each.rule: each for each in ledger.pairs}
        there_are = set(looks.values())
        strays = [each for each in ledger.pairs if each.rule not in there_are]
        for path in paths:
            restored = [
                self._restored(rule, notes.get(looks[path, at]), strays) for at, rule in enumerate(rules_at(user, path))
            ]
            user = put_rules(user, path, restored)
        return with_ledger(user, NOTHING)

    def _restored(self, rule: Manifest, note: Noted | None, strays: list[Noted]) -> Manifest:
        """The rule with its user's weights, by the note about it.

        Without one, by a note about a rule that does not exist any more: then the user changed the rule itself.
        """
        stable, canary = self._find(rule)
        if stable is None or canary is None:
            return rule
        now = (self._weight_at(rule, stable), self._weight_at(rule, canary))
        if note is None and (note := next((each for each in strays if each.wrote == now), None)) is not None:
            strays.remove(note)
        if note is None or note.wrote != now:
            return rule
        backends = list(rule[self.backends])
        backends[stable] = self._weighted(backends[stable], note.stable)
        backends[canary] = self._weighted(backends[canary], note.canary)
        if note.added:
            del backends[canary]
        return {**rule, self.backends: backends}

    def with_us(self, pristine: Manifest, want: Split) -> Manifest:
        """The object with the wanted split. Raises: Unroutable."""
        by_clients, asked, want = want.sticky, want, as_said(want)
        if want.mirrors and any(self.unmirrored(rule) is not rule for _, _, rule in self._rules(pristine)):
            raise Unroutable("a rule mirrors to the canary Service already; remove that mirror while a step mirrors")
        services = tuple([each.service for each in want.experiments])
        for _, _, rule in self._rules(pristine) if services else ():
            if taken := [each for each in services if self._at(rule, each) is not None]:
                raise Unroutable(f"a rule has Service {taken[0]} of an Experiment as a backend already; remove it")
        managed = set(self._managed_rules(pristine))
        names = self._looks(pristine)
        notes: list[Noted] = []
        looks: list[str] = []
        made: set[str] = set()
        user = pristine
        for path in self.lists(pristine):
            rules: list[Manifest] = []
            last: list[Manifest] = []
            for at, rule in enumerate(rules_at(pristine, path)):
                if (path, at) not in managed:
                    rules.append(rule)
                    continue
                weighted, note = self._split(rule, want, names[path, at])
                notes += [note] if note else []
                if self.takes_requests(path) and (want.matches or want.mirrors):
                    copies, whole = self._managed(rule, weighted, want, made)
                    looks += map(self.look, copies)
                    for copy in copies:
                        (last if self.stands_anywhere(copy, rule) else rules).append(copy)
                    rules.append(whole)
                else:
                    rules.append(weighted)
            user = put_rules(user, path, [*rules, *last])
        for name in [*(each.name for each in want.matches), *(each.name for each in want.mirrors)]:
            if name not in made:
                raise Unroutable(
                    f"none of its rules is for requests that {name} matches; change the match, or add a rule"
                )
        self.check(user)
        if not notes and not made:
            return pristine
        ledger = Ledger(
            between=(self.context.stable, self.context.canary),
            pairs=tuple(notes),
            matches=asked.matches,
            mirrors=asked.mirrors,
            made=tuple(looks),
            sticky=by_clients,
            share=asked.share if by_clients else Fraction(0),
            experiments=services,
        )
        return with_ledger(user, ledger)

    def _split(self, rule: Manifest, want: Split, look: str) -> tuple[Manifest, Noted | None]:
        """The rule with the wanted weights, and a note when they differ from the user's."""
        backends: list[Manifest] = list(rule[self.backends])
        stable, canary = self._find(rule)
        assert stable is not None  # noqa: S101 - only rules with a stable backend are managed
        users = self._weights(rule)
        others = [self.weight_of(each, rule) for at, each in enumerate(backends) if at not in (stable, canary)]
        fixed = any(others) or self.has_others(rule)
        shares = [each.share for each in want.experiments]
        weights = weights_for(want.share, shares, users=users, most=self.weight_most, fixed_total=fixed)
        if weights == users:
            return rule, None
        for each, weight in zip(want.experiments, weights.experiments, strict=True):  # last, so that no backend moves
            backends.append(self._weighted(self.beside(rule[self.backends][stable], Destination(each.service)), weight))
        note = Noted(
            rule=look,
            stable=backends[stable].get(self.weight),
            canary=None if canary is None else backends[canary].get(self.weight),
            added=canary is None,
            wrote=(weights.stable, weights.canary),
        )
        if canary is None:
            canary = stable + 1
            backends.insert(canary, self.beside(backends[stable], self.context.canary))
        backends[stable] = self._weighted(backends[stable], weights.stable)
        backends[canary] = self._weighted(backends[canary], weights.canary)
        return {**rule, self.backends: backends}, note

    def _managed(
        self, rule: Manifest, weighted: Manifest, want: Split, made: set[str]
    ) -> tuple[list[Manifest], Manifest]:
        """The copies of the rule, and the rule with mirrors in place. Adds the names of the managed routes to `made`."""
        backends = rule[self.backends]
        stable, at = self._find(rule)
        assert stable is not None  # noqa: S101 - only rules with a stable backend are managed
        canary = self.beside(backends[stable], self.context.canary) if at is None else backends[at]
        alone = [self._weighted(canary, self.weight_alone)]
        copies: list[Manifest] = []
        for route in want.matches:
            if (copy := self.narrowed(rule, (route.match,), route.name)) is not None:
                made.add(route.name)
                copies.append({**self.before_mirrors(copy, want.mirrors), self.backends: alone})
        whole = weighted
        for mirror in want.mirrors:
            if (in_place := self.mirrored_in_place(whole, mirror, canary)) is not None:
                made.add(mirror.name)
                whole = in_place
            elif (copy := self.narrowed(weighted, mirror.matches, mirror.name)) is not None:
                made.add(mirror.name)
                copies.append(self.mirrored(copy, mirror, canary))
        return copies, whole

    def _managed_rules(self, user: Manifest) -> list[RulePlace]:
        """The rules with both Services as backends, and of a list with names the named ones with the stable one.

        If the spec names none and no rule has both, those with the stable one.
        """
        rules = self._rules(user)
        named = self.named()
        for name in named:
            if not any(self.is_named(rule, path, name) for path, _, rule in rules):
                raise Unroutable(self.no_rule_named(name, user))
        names = {path: self.names_for(path) for path in self.lists(user)}
        places = [
            (path, at, self._find(rule))
            for path, at, rule in rules
            if not names[path] or any(self.is_named(rule, path, name) for name in names[path])
        ]
        if self.context.ping_pong:
            self._check_pairs(pair for _, _, pair in places)
        with_stable = [(path, at, canary) for path, at, (stable, canary) in places if stable is not None]
        managed = [(path, at) for path, at, canary in with_stable if canary is not None or names[path]]
        if not with_stable or (named and not managed):
            raise Unroutable(
                f"none of its {'named ' if named else ''}rules has Service {self.context.stable} as a backend; "
                f"add it, and {self.context.canary} beside it with weight 0"
            )
        return managed or [(path, at) for path, at, _ in with_stable]

    def _check_pairs(self, pairs: Iterable[tuple[int | None, int | None]]) -> None:
        """Raises: Unroutable when the Services change roles and a rule has only one: it would lead to the canary alone."""
        for stable, canary in pairs:
            if (stable is None) != (canary is None):
                there, missing = self.context.stable, self.context.canary
                if stable is None:
                    there, missing = missing, there
                raise Unroutable(
                    f"a rule has only Service {there} as a backend; with pingPong, add Service {missing} beside it with weight 0"
                )

    def _find(self, rule: Manifest) -> tuple[int | None, int | None]:
        """Indices of the pair's backends. Raises: Unroutable when a Service is a backend twice, because either may be meant."""
        found: dict[Side, int] = {}
        for at, backend in enumerate(rule.get(self.backends) or ()):
            side = self.side(backend)
            if side is not None and found.setdefault(side, at) != at:
                raise Unroutable(f"a rule has the {side.value} Service as a backend twice; keep one of them")
        return found.get(Side.STABLE), found.get(Side.CANARY)

    def _at(self, rule: Manifest, service: str) -> int | None:
        """Index of the backend with the Service of an Experiment; never one of the pair's."""
        there = replace(self, context=replace(self.context, canary=Destination(service)))
        backends = enumerate(rule.get(self.backends) or ())
        return next((at for at, each in backends if there.side(each) is Side.CANARY and self.side(each) is None), None)

    def _without(self, rule: Manifest, services: Iterable[str]) -> Manifest:
        """The rule without the backends with those Services of Experiments."""
        for service in services:
            while (at := self._at(rule, service)) is not None:
                rule = {**rule, self.backends: [*rule[self.backends][:at], *rule[self.backends][at + 1 :]]}
        return rule

    def _weights(self, rule: Manifest, services: Iterable[str] = ()) -> Weights:
        stable, canary = self._find(rule)
        others = tuple([self._weight_at(rule, self._at(rule, each)) for each in services])
        return Weights(self._weight_at(rule, stable), self._weight_at(rule, canary), others)

    def _weight_at(self, rule: Manifest, at: int | None) -> int:
        return 0 if at is None else self.weight_of(rule[self.backends][at], rule)

    def _weighted(self, backend: Manifest, weight: int | None) -> Manifest:
        if weight is None:
            return {name: value for name, value in backend.items() if name != self.weight}
        return {**backend, self.weight: weight}

    def _looks(self, user: Manifest) -> dict[RulePlace, str]:
        """How each rule of the user looks without our changes; rules that look the same get a number."""
        found: dict[RulePlace, str] = {}
        seen: Counter[str] = Counter()
        for path, at, rule in self._rules(user):
            look = self.look(rule, without_canary=True)
            found[path, at] = f"{look}.{seen[look]}" if seen[look] else look
            seen[look] += 1
        return found

    def look(self, rule: Manifest, *, without_canary: bool = False) -> str:
        """A hash of the rule's requests and destinations, without weights."""
        if (known := self._known_looks.get((id(rule), without_canary))) is not None:
            return known[1]
        backends = [
            self._weighted(backend, None)
            for backend in rule.get(self.backends) or ()
            if not (without_canary and self.side(backend) is Side.CANARY)
        ]
        look = short_hash(canonical_json([self.identity(rule), backends]))
        self._known_looks[id(rule), without_canary] = (rule, look)
        return look
