"""`rollouts create`: creates the objects of files, after `lint` has found no problem in them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from rollouts.cli.commands.verbs import FIELD_MANAGER
from rollouts.cli.exits import Exit
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import CommandRun, FilesOption, fail, on_cluster, read_file
from rollouts.cli.view.session import Options, open_session
from rollouts.objects import (
    ANALYSIS_RUN,
    ANALYSIS_TEMPLATE,
    CLUSTER_ANALYSIS_TEMPLATE,
    CONFIG_MAP,
    METRIC_PROVIDER,
    ROLLOUT,
    SECRET,
    SERVICE,
    TRAFFIC_PROVIDER,
    Manifest,
)

_OURS = (ROLLOUT, ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE, ANALYSIS_RUN, TRAFFIC_PROVIDER, METRIC_PROVIDER)
_CREATED = {(kind.api_version, kind.kind): kind for kind in (*_OURS, SERVICE, CONFIG_MAP, SECRET)}


@on_cluster
def create(options: Options, files: FilesOption) -> CommandRun:
    """Create the Rollouts, templates, providers, Services and ConfigMaps of files, after `lint` has found no problem in them."""
    return _create(options, [read_file(file) for file in files])  # before the event loop takes Ctrl-C


async def _create(options: Options, files: Sequence[tuple[str, str]]) -> Exit:
    from rollouts.cli.commands.lint import known_in, lint  # noqa: PLC0415 - main.py says why
    from rollouts.cli.kubernetes.yaml_text import read_text  # noqa: PLC0415

    texts = [(source, read_text(text)) for source, text in files]
    known = known_in(*(text for _, text in texts))
    if problems := [problem.text(source) for source, text in texts for problem in lint(text, known).problems]:
        for problem in problems:
            fail(problem)
        return Exit.BAD
    manifests = [manifest for _, text in texts for manifest in text.manifests]
    if others := [_title(manifest) for manifest in manifests if _kind_key(manifest) not in _CREATED]:
        fail(f"{others[0]} is not created here, nor is anything else: use `kubectl create -f`")
        return Exit.USAGE
    console = Console()
    async with open_session(options) as session:
        for manifest in manifests:
            kind, metadata = _CREATED[_kind_key(manifest)], manifest.get("metadata") or {}
            namespace = (metadata.get("namespace") or session.namespace) if kind.namespaced else None
            if options.namespace and namespace not in (None, options.namespace):
                fail(f"{_title(manifest)} is in namespace {namespace}, but -n says {options.namespace}")
                return Exit.USAGE
            await session.client.create(kind, namespace, manifest, FIELD_MANAGER, strict=True)
            print_line(console, f"{_title(manifest)} created")
    return Exit.OK


def _kind_key(manifest: Manifest) -> tuple[str, str]:
    return str(manifest.get("apiVersion")), str(manifest.get("kind"))


def _title(manifest: Manifest) -> str:
    metadata = manifest.get("metadata") or {}
    return f"{manifest.get('kind')} {metadata.get('name') or metadata.get('generateName') or '(no name)'}"
