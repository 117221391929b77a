"""Calls functions at once, without limits: for the simulation, whose time is its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple, Unpack

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")


class Here:
    """Implements `ports.BoundedCalls` in this process."""

    async def call(
        self,
        function: Callable[[Unpack[_Arguments]], _Result],
        *arguments: *_Arguments,
        tenant: str,  # noqa: ARG002 - the port's
    ) -> _Result:
        """Calls the function."""
        return function(*arguments)
