"""All kinds of metric servers that come with the controller: the modules of `servers`, by the name of each."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType

from rollouts.core.analysis import servers
from rollouts.core.analysis.recipe import Recipe


def _found() -> Mapping[str, Recipe]:
    modules = (import_module(f"{servers.__name__}.{module.name}") for module in iter_modules(servers.__path__))
    recipes: list[Recipe] = [module.RECIPE for module in modules]
    return MappingProxyType({recipe.name: recipe for recipe in recipes})


RECIPES = _found()
"""By name."""
