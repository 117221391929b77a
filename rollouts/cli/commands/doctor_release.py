"""Faults that an upgrade of a Helm release repairs: all of one release become one command. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct

from rollouts.cli.commands.doctor_finding import Diagnosis
from rollouts.objects import Manifest

CHART = "./helm/rollouts"
Values: TypeAlias = Mapping[str, str | tuple[str, ...]]
"""Values of the chart by name. Lists of several findings are joined."""


class Release(Struct, frozen=True):
    """A Helm release."""

    name: str
    namespace: str


class Upgrade(Struct, frozen=True):
    """What has to change in a release.

    Args:
        is_installed: whether it has values to keep.
        takes_ownership: whether Helm has to take over objects that it did not create.
        first: commands that have to succeed before it.
    """

    release: Release
    values: Values = {}
    is_installed: bool = True
    takes_ownership: bool = False
    first: tuple[str, ...] = ()

    def and_then(self, other: Upgrade) -> Upgrade:
        """Both in one."""
        values = dict(self.values)
        for name, value in other.values.items():
            match values.get(name), value:
                case ((tuple() as had), (tuple() as more)):
                    values[name] = tuple(dict.fromkeys((*had, *more)))
                case _:
                    values[name] = value
        return Upgrade(
            self.release,
            values,
            self.is_installed,
            self.takes_ownership or other.takes_ownership,
            tuple(dict.fromkeys((*self.first, *other.first))),
        )

    def command(self) -> str:
        """The line for bash. Values that were set before stay, those of the chart are the new chart's."""
        words = ["helm", "upgrade", "--install", self.release.name, CHART, "--namespace", self.release.namespace]
        words.append("--reset-then-reuse-values" if self.is_installed else "--create-namespace")
        words += ["--take-ownership"] if self.takes_ownership else []
        for name, value in self.values.items():
            text = value if isinstance(value, str) else "{" + ",".join(value) + "}"
            words += ["--set", f"{name}={text}"]
        return " && ".join((*self.first, shlex.join(words)))


class Upgradable(Diagnosis, frozen=True, kw_only=True):
    """A finding that an upgrade repairs; `with_commands` writes its fix."""

    upgrade: Upgrade


def release_of(thing: Manifest) -> Release | None:
    """The release that an object belongs to, as Helm notes it there; None for an object that Helm did not create."""
    notes = thing["metadata"].get("annotations") or {}
    name, namespace = notes.get("meta.helm.sh/release-name"), notes.get("meta.helm.sh/release-namespace")
    return Release(name, namespace) if name and namespace else None


def with_commands(found: Iterable[Diagnosis], crds: Iterable[Manifest]) -> list[Diagnosis]:
    """The findings, each upgrade as the one command that makes all changes of its release.

    Of a release that has some of the CRDs, that command takes over the others: an upgrade would be refused because of them.
    """
    all_of_them = list(found)
    owners = [release_of(crd) for crd in crds]
    upgrades: dict[Release, Upgrade] = {}
    for one in all_of_them:
        if isinstance(one, Upgradable):
            release = one.upgrade.release
            lost = release in owners and None in owners
            known = upgrades.get(release, Upgrade(release, is_installed=one.upgrade.is_installed, takes_ownership=lost))
            upgrades[release] = known.and_then(one.upgrade)
    return [
        Diagnosis(one.check, one.level, one.says, upgrades[one.upgrade.release].command(), one.hint)
        if isinstance(one, Upgradable)
        else one
        for one in all_of_them
    ]
