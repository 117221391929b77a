"""`rollouts plan`: what the next update of the Rollouts in a file would do in this cluster. Reads only: GET and LIST."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import yaml
from rich.console import Console

from rollouts.api.spec.parse import parse_spec
from rollouts.cli.commands.lint import lint_text, manifests_of, providers
from rollouts.cli.exits import Exit
from rollouts.cli.plan.draw import draw_plan
from rollouts.cli.plan.live import read_facts, read_live, snapshot_of, with_file
from rollouts.cli.plan.report import PlanReport, as_json, report_of
from rollouts.cli.plan.routes import read_declared, read_routes
from rollouts.cli.plan.templates import read_templates
from rollouts.cli.terminal.options import fail
from rollouts.cli.view.session import Options, Session, open_session
from rollouts.controller.facts.proxies import ClusterFacts
from rollouts.core.model.drain import ProxyMode
from rollouts.objects import ROLLOUT, SERVICE, Key, Kind, Manifest
from rollouts.traffic.codec import Provider

PIPED_WIDTH = 200  # columns, where the output is not a terminal


async def plan(
    options: Options,
    text: str,
    *,
    source: str,
    proxy_mode: ProxyMode | None,
    output: str | None,
    console: Console,
) -> Exit:
    """Prints the plan of every Rollout in a file.

    Args:
        source: name of the file, for problems.
        proxy_mode: the controller's `--proxy-mode`; None to detect it as the controller does.
        output: `json`, `yaml`, `wide`, or None.

    Raises: what `Client` raises.
    """
    known = providers(text)
    if (problems := lint_text(text, known).problems) and "plugins" in text:  # the cluster may declare them
        async with open_session(options) as session:
            known = providers(text, declared=await read_declared(session))
        problems = lint_text(text, known).problems
    if problems:
        for problem in problems:
            fail(problem.text(source))
        return Exit.BAD
    manifests = manifests_of(text)
    rollouts = [each for each in manifests if _is(each, ROLLOUT)]
    if not rollouts:
        fail(f"{source}: the file contains no {ROLLOUT.api_version} Rollout")
        return Exit.USAGE
    services = tuple(each for each in manifests if _is(each, SERVICE) and (each.get("metadata") or {}).get("name"))
    named = {namespace for each in rollouts if (namespace := each["metadata"].get("namespace"))}
    if options.namespace and named - {options.namespace}:
        fail(f"{source}: a Rollout is in namespace {min(named - {options.namespace})}, but -n says {options.namespace}")
        return Exit.USAGE
    async with open_session(options) as session:
        facts = await read_facts(session, proxy_mode=proxy_mode)
        reports = [await _one(session, each, services, manifests, facts, known) for each in rollouts]
    _print(reports, output=output, console=console)
    return Exit.UNSAFE if any(report.unsafe for report in reports) else Exit.OK


def _is(manifest: Manifest, kind: Kind) -> bool:
    return (manifest.get("kind"), manifest.get("apiVersion")) == (kind.kind, kind.api_version)


async def _one(
    session: Session,
    rollout: Manifest,
    services: tuple[Manifest, ...],
    manifests: tuple[Manifest, ...],
    facts: ClusterFacts,
    known: Mapping[str, Provider],
) -> PlanReport:
    namespace = rollout["metadata"].get("namespace") or session.namespace
    key = Key(namespace, rollout["metadata"].get("name") or "")
    spec = parse_spec(rollout["spec"])
    routes = await read_routes(session, spec, namespace=namespace, manifests=manifests, known=known)
    live = replace(await read_live(session, key), routes=routes)
    applied = with_file(rollout, live.rollout, namespace=namespace)
    seen = snapshot_of(applied, live, clock=session.clock, facts=facts)
    beside = tuple(each for each in services if each["metadata"].get("namespace", namespace) == namespace)
    templates = await read_templates(session, spec, manifests, namespace=namespace)
    return report_of(applied, seen, live, from_file=beside, templates=templates)


def _print(reports: list[PlanReport], *, output: str | None, console: Console) -> None:
    if output in ("json", "yaml"):
        document = {"plans": [as_json(report) for report in reports]}
        if output == "json":
            text = json.dumps(document, indent=2)
        else:
            text = yaml.safe_dump(document, sort_keys=False, allow_unicode=False, width=PIPED_WIDTH)
        console.out(text.rstrip("\n"), highlight=False)
        return
    wide = output == "wide"
    if console.is_terminal:
        for report in reports:
            console.print(draw_plan(report, wide=wide, lines=True))
        return
    console.width = PIPED_WIDTH
    with console.capture() as captured:
        for report in reports:
            console.print(draw_plan(report, wide=wide, lines=False))
    # rich fills each line of a table up to the width; no pipe wants that.
    console.out("\n".join(line.rstrip() for line in captured.get().splitlines()), highlight=False)
