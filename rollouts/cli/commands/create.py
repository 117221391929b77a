"""`rollouts create`: creates the objects of files, after `lint` has found no problem in them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from rollouts.cli.commands.lint import known_in, lint
from rollouts.cli.commands.verbs import FIELD_MANAGER
from rollouts.cli.exits import Exit
from rollouts.cli.kubernetes.yaml_text import TextRead, read_text
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import fail
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

_CREATED = {
    (kind.api_version, kind.kind): kind
    for kind in (
        ROLLOUT,
        ANALYSIS_TEMPLATE,
        CLUSTER_ANALYSIS_TEMPLATE,
        ANALYSIS_RUN,
        TRAFFIC_PROVIDER,
        METRIC_PROVIDER,
        SERVICE,
        CONFIG_MAP,
        SECRET,
    )
}


async def create(options: Options, texts: Sequence[tuple[str, str]], *, console: Console) -> Exit:
    """Creates every object, in the order of the files; nothing when one of them has a problem.

    Args:
        texts: names of files, and what is in them.

    Raises: ApiExists, for the first object that is there already; what `Client` raises.
    """
    files = [(source, read_text(text)) for source, text in texts]
    if not _is_right(files):
        return Exit.BAD
    manifests = [manifest for _, file in files for manifest in file.manifests]
    if others := [_title(manifest) for manifest in manifests if _kind_key(manifest) not in _CREATED]:
        fail(f"{others[0]} is not created here, nor is anything else: use `kubectl create -f`")
        return Exit.USAGE
    async with open_session(options) as session:
        for each in manifests:
            kind, metadata = _CREATED[_kind_key(each)], each.get("metadata") or {}
            namespace = (metadata.get("namespace") or session.namespace) if kind.namespaced else None
            if options.namespace and namespace not in (None, options.namespace):
                fail(f"{_title(each)} is in namespace {namespace}, but -n says {options.namespace}")
                return Exit.USAGE
            await session.client.create(kind, namespace, each, FIELD_MANAGER, strict=True)
            print_line(console, f"{_title(each)} created")
    return Exit.OK


def _is_right(files: Sequence[tuple[str, TextRead]]) -> bool:
    """Whether `lint` finds no problem; prints those that it finds."""
    known = known_in(*(file for _, file in files))
    problems = [problem.text(source) for source, file in files for problem in lint(file, known).problems]
    for problem in problems:
        fail(problem)
    return not problems


def _kind_key(manifest: Manifest) -> tuple[str, str]:
    return str(manifest.get("apiVersion")), str(manifest.get("kind"))


def _title(manifest: Manifest) -> str:
    metadata = manifest.get("metadata") or {}
    return f"{manifest.get('kind')} {metadata.get('name') or metadata.get('generateName') or '(no name)'}"
