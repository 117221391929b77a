"""All kinds of metric servers, by the name of each: the modules of `servers`, and those of packages that an image has besides.

A package adds one with an entry point in the group `rollouts.metrics`: `acme = "mypackage.acme:RECIPE"`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from types import MappingProxyType

from rollouts.core.analysis import servers
from rollouts.core.analysis.recipe import Recipe

GROUP = "rollouts.metrics"


def _found() -> Iterator[Recipe]:
    """A built-in one comes last and keeps its name, so that a manifest means the same everywhere."""
    for entry in entry_points(group=GROUP):
        if not isinstance(recipe := entry.load(), Recipe):
            raise TypeError(
                f"entry point {entry.name} of {GROUP} must lead to a Recipe, as in {servers.__name__}: {entry.value}"
            )
        yield recipe
    for module in iter_modules(servers.__path__):
        yield import_module(f"{servers.__name__}.{module.name}").RECIPE


RECIPES: Mapping[str, Recipe] = MappingProxyType({recipe.name: recipe for recipe in _found()})
"""By name."""
