"""`rollouts create`: creates the objects of files, after `lint` has found no problem in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console

from rollouts.cli.commands.get import watch_one
from rollouts.cli.exits import Exit
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import CommandRun, FilesOption, fail, on_cluster, read_file
from rollouts.cli.view.session import Options, Session, open_session
from rollouts.cli.view.verb_plans import FIELD_MANAGER
from rollouts.cluster.discovery import kind_named
from rollouts.objects import ROLLOUT, Key, Kind, Manifest


@on_cluster
def create(
    options: Options,
    files: FilesOption,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Then follow the Rollout, as `get -w`.")] = False,
) -> CommandRun:
    """Create the objects of files, after `lint` has found no problem in them. Nothing is created when one cannot be."""
    return _create(options, [read_file(file) for file in files], watch=watch)  # before the event loop takes Ctrl-C


async def _create(options: Options, files: Sequence[tuple[str, str]], *, watch: bool) -> Exit:
    from rollouts.cli.commands.lint import lint_files  # noqa: PLC0415 - main.py says why
    from rollouts.cli.kubernetes.parts import is_a  # noqa: PLC0415
    from rollouts.cli.kubernetes.yaml_text import read_text  # noqa: PLC0415

    if problems := [problem.text(report.source) for report in lint_files(files) for problem in report.problems]:
        for problem in problems:
            fail(problem)
        return Exit.BAD
    manifests = [manifest for _, text in files for manifest in read_text(text).manifests]
    rollouts = [manifest["metadata"]["name"] for manifest in manifests if is_a(manifest, ROLLOUT)]
    if watch and len(rollouts) != 1:
        raise typer.BadParameter(f"-w follows one Rollout, and the files have {len(rollouts)}")
    console = Console()
    async with open_session(options) as session:
        planned = [await _planned(session, options, manifest) for manifest in manifests]
        for kind, namespace, manifest in planned:
            await session.client.create(kind, namespace, manifest, FIELD_MANAGER, strict=True)
            print_line(console, f"{_title(manifest)} created")
        if watch:
            where = next(namespace for kind, namespace, _ in planned if kind == ROLLOUT) or session.namespace
            return await watch_one(session, Key(where, rollouts[0]), console=console)
    return Exit.OK


async def _planned(session: Session, options: Options, manifest: Manifest) -> tuple[Kind, str | None, Manifest]:
    """The kind and the namespace of an object to create. Raises: typer.Exit, when it cannot be created; what `Client` raises."""
    api_version, name = str(manifest.get("apiVersion")), str(manifest.get("kind"))
    kind = await kind_named(session.api, api_version, name, deadline_s=session.request_timeout_s)
    if kind is None:
        fail(f"{_title(manifest)}: the cluster has no {api_version} {name}; nothing was created")
        raise typer.Exit(Exit.FAILED)
    metadata = manifest.get("metadata") or {}
    namespace = (metadata.get("namespace") or session.namespace) if kind.namespaced else None
    if options.namespace and namespace not in (None, options.namespace):
        fail(f"{_title(manifest)} is in namespace {namespace}, but -n says {options.namespace}")
        raise typer.Exit(Exit.USAGE)
    return kind, namespace, manifest


def _title(manifest: Manifest) -> str:
    metadata = manifest.get("metadata") or {}
    return f"{manifest.get('kind')} {metadata.get('name') or metadata.get('generateName') or '(no name)'}"
