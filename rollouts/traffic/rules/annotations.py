"""Manages an object through one of its annotations, whose text says how requests are split: AWS's ALB, Skipper.

The ledger holds the user's text, to the letter, and the text that we wrote. Any other text is a later edit of the user.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from fractions import Fraction

from rollouts.core.model.traffic import Split
from rollouts.errors import Unroutable
from rollouts.objects import Manifest
from rollouts.traffic.codec import Context, Objects, Op, SharesAlone, Target
from rollouts.traffic.rules.difference import patch_of
from rollouts.traffic.rules.ledger import NOTHING, Ledger, NotedAnnotation, ledger_of, with_annotation, with_ledger


class OneAnnotation(SharesAlone, ABC):
    """A provider (`codec.Provider`), as far as it follows from the meaning of the annotation's text."""

    @abstractmethod
    def annotation(self, target: Target, context: Context) -> str:
        """The annotation's name."""

    @abstractmethod
    def share(self, text: str | None, user: Manifest, target: Target, context: Context) -> Fraction | None:
        """The share in the text; None when there is no text that takes effect. Raises: Unroutable."""

    @abstractmethod
    def text(self, before: str | None, share: Fraction, user: Manifest, target: Target, context: Context) -> str:
        """The text for `share`, with everything else as in `before`. Raises: Unroutable."""

    def read(self, objects: Objects, target: Target, context: Context) -> Split:
        """See `codec.Provider`."""
        user = objects.user
        share = self.share(_told(user, self.annotation(target, context)), user, target, context)
        found = Split(share or Fraction(0))
        whole = share is not None and self._with_us(_without_us(user), target, context, found) == user
        return found if whole else Split(found.share, whole=False)

    def plan(self, objects: Objects, target: Target, context: Context, want: Split) -> tuple[Op, ...]:
        """See `codec.Provider`."""
        self.check_experiments(want, target)
        if want.sticky:
            raise Unroutable("its annotation splits requests, and cannot tell clients apart; remove stickiness")
        if want.matches or want.mirrors:
            names = ", ".join([*(each.name for each in want.matches), *(each.name for each in want.mirrors)])
            raise Unroutable(f"its annotation splits requests, and can do nothing else; remove {names} from the steps")
        return patch_of(objects.user, self._with_us(_without_us(objects.user), target, context, want))

    def release(self, objects: Objects, target: Target, context: Context) -> tuple[Op, ...]:
        """See `codec.Provider`."""
        return patch_of(objects.user, _without_us(objects.user))

    def _with_us(self, pristine: Manifest, target: Target, context: Context, want: Split) -> Manifest:
        name = self.annotation(target, context)
        before = _told(pristine, name)
        if self.share(before, pristine, target, context) == want.share:
            return pristine
        text = self.text(before, want.share, pristine, target, context)
        return with_ledger(with_annotation(pristine, name, text), Ledger(texts=(NotedAnnotation(name, before, text),)))


def ingress_paths(user: Manifest) -> Iterator[tuple[Manifest, Manifest, Manifest]]:
    """Each path of an Ingress, after its rule and before the Service that it leads to."""
    for rule in (user.get("spec") or {}).get("rules") or ():
        for path in (rule.get("http") or {}).get("paths") or ():
            yield rule, path, (path.get("backend") or {}).get("service") or {}


def default_service(user: Manifest) -> Manifest:
    """The Service of an Ingress for requests that no path takes; {} for none."""
    service: Manifest = ((user.get("spec") or {}).get("defaultBackend") or {}).get("service") or {}
    return service


def _without_us(user: Manifest) -> Manifest:
    ledger = ledger_of(user)
    for each in ledger.texts:
        if _told(user, each.annotation) == each.wrote:
            user = with_annotation(user, each.annotation, each.before)
    return with_ledger(user, NOTHING)


def _told(user: Manifest, name: str) -> str | None:
    annotations = user.get("metadata", {}).get("annotations") or {}
    found = annotations.get(name)
    return None if found is None else str(found)
