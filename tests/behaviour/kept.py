"""What a controller keeps: the objects that can be reached from it and from the modules of the program, by type and in bytes."""

from __future__ import annotations

import functools
import gc
import inspect
import sys
from collections import Counter
from collections.abc import Iterator
from types import FrameType, ModuleType
from typing import Any

import msgspec

from rollouts.controller.wiring import Controller

CACHED_MAX = 1_024
LARGE = 10**9
_CACHE: Any = type(functools.cache(lambda: None))

_NOT_OURS = ("rollouts.sim", "rollouts.cli", "tests", "asyncio", "hypothesis", "_pytest", "pluggy")


def kept() -> Counter[str]:
    """How many objects of each type the controller in this process keeps; there is one, and it stands still."""
    return Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in _objects())


def kept_bytes() -> int:
    """How much memory these objects take. What the C library and the interpreter need for them in addition is not known here."""
    # `sys.getsizeof` does not know what a Raw refers to.
    return sum(len(bytes(one)) if isinstance(one, msgspec.Raw) else sys.getsizeof(one) for one in _objects())


def _objects() -> Iterator[Any]:
    """Each object that the controller keeps, once.

    The simulated cluster is in the process too, and keeps a history: nothing beyond it counts. What msgspec does not show to the
    garbage collector counts where it is referred to.
    """
    for cache in _caches():
        cache.cache_clear()
    gc.collect()
    (controller,) = (each for each in gc.get_objects() if type(each) is Controller)
    waiting: list[Any] = [controller, *map(vars, _modules())]
    seen: dict[int, Any] = {}
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, ModuleType | FrameType | type) or _is_foreign(one):
            continue
        seen[id(one)] = one
        yield one
        waiting += gc.get_referents(one)
        fields = getattr(type(one), "__struct_fields__", ())
        waiting += [getattr(one, name) for name in fields]


def _modules() -> list[ModuleType]:
    return [
        each for name, each in sys.modules.items() if name.startswith("rollouts.") and not name.startswith(_NOT_OURS)
    ]


def _caches() -> list[Any]:
    """Caches by arguments, each with a limit; what they hold is not counted."""
    found = [each for module in _modules() for each in vars(module).values() if type(each) is _CACHE]
    by_arguments = [each for each in found if inspect.signature(each).parameters]
    assert all((each.cache_parameters()["maxsize"] or LARGE) <= CACHED_MAX for each in by_arguments)
    return found


def _is_foreign(one: Any) -> bool:
    """Whether it belongs to the test or to the simulation; functions of theirs too."""
    module = getattr(one, "__module__", None) if callable(one) else None
    return (module or type(one).__module__ or "").startswith(_NOT_OURS)
