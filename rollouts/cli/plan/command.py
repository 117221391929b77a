"""`rollouts plan`: what the next update of the Rollouts in a file would do in this cluster. Reads only: GET and LIST."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml
from msgspec import Struct
from rich.console import Console
from rich.text import Text

from rollouts.api.spec.parse import parse_spec
from rollouts.cli.commands.lint import known_in, lint
from rollouts.cli.commands.lint_routes import providers
from rollouts.cli.exits import Exit
from rollouts.cli.kubernetes.parts import is_a
from rollouts.cli.kubernetes.yaml_text import read_text
from rollouts.cli.plan.config import SourceReader, read_sources
from rollouts.cli.plan.draw import draw_impacts, draw_plan
from rollouts.cli.plan.impact import ConfigImpact, read_impacts, source_of
from rollouts.cli.plan.limit_reads import read_limits
from rollouts.cli.plan.limits import quantity_of
from rollouts.cli.plan.live import read_facts, read_live, snapshot_of, with_file
from rollouts.cli.plan.report import PlanReport, report_of
from rollouts.cli.plan.routes import read_declared, read_routes
from rollouts.cli.plan.templates import read_templates
from rollouts.cli.plan.workload import template_in, with_its_workload
from rollouts.cli.terminal.listing import print_drawn
from rollouts.cli.terminal.options import fail
from rollouts.cli.view.session import Options, Session, open_session
from rollouts.controller.facts.proxies import ClusterFacts
from rollouts.core.model.config import ConfigKind
from rollouts.core.model.drain import ProxyMode
from rollouts.core.model.frozen import replace
from rollouts.objects import ROLLOUT, SERVICE, Key, Manifest
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
    """Prints the plan of every Rollout in a file, and what the file's ConfigMaps and Secrets start.

    Args:
        source: name of the file, for problems.
        proxy_mode: the controller's `--proxy-mode`; None to detect it as the controller does.

    Raises: what `Client` raises.
    """
    file = read_text(text)
    known = known_in(file)
    if (problems := lint(file, known).problems) and "plugins" in text:  # the cluster may declare them
        async with open_session(options) as session:
            known = known_in(file, declared=await read_declared(session))
        problems = lint(file, known).problems
    if problems:
        for problem in problems:
            fail(problem.text(source))
        return Exit.BAD
    manifests = file.manifests
    rollouts = [manifest for manifest in manifests if is_a(manifest, ROLLOUT)]
    if not rollouts and not any(map(source_of, manifests)):
        fail(f"{source}: the file contains no {ROLLOUT.api_version} Rollout, no ConfigMap and no Secret")
        return Exit.USAGE
    services = tuple(
        manifest for manifest in manifests if is_a(manifest, SERVICE) and (manifest.get("metadata") or {}).get("name")
    )
    named = {namespace for rollout in rollouts if (namespace := rollout["metadata"].get("namespace"))}
    if options.namespace and named - {options.namespace}:
        fail(f"{source}: a Rollout is in namespace {min(named - {options.namespace})}, but -n says {options.namespace}")
        return Exit.USAGE
    async with open_session(options) as session:
        facts = await read_facts(session, proxy_mode=proxy_mode)
        reader = SourceReader(session, manifests)
        reports = [await plan_of(reader, rollout, services, facts, known.providers) for rollout in rollouts]
        impacts = await read_impacts(reader, rollouts, facts=facts)
    _print(reports, impacts, output=output, console=console)
    return Exit.UNSAFE if any(report.unsafe for report in reports) else Exit.OK


async def plan_of(
    reader: SourceReader,
    rollout: Manifest,
    services: tuple[Manifest, ...],
    facts: ClusterFacts,
    known: Mapping[str, Provider],
) -> PlanReport:
    """The plan of one Rollout, once it is as `rollout` says, with Services of files. Raises: as `Client` does; SpecInvalid."""
    session = reader.session
    namespace = rollout["metadata"].get("namespace") or session.namespace
    key = Key(namespace, rollout["metadata"].get("name") or "")
    rollout, workload = await with_its_workload(reader, rollout, namespace=namespace)
    spec = parse_spec(rollout["spec"], None if workload is None else template_in(workload))
    routes = await read_routes(session, spec, namespace=namespace, manifests=reader.manifests, known=known)
    live = replace(await read_live(session, key, workload=workload, selector=spec.selector_text), routes=routes)
    sources = await read_sources(reader, spec.config_refs, namespace=namespace, running=live.running_config())
    live = replace(live, sources=sources)
    applied = with_file(rollout, live.rollout, namespace=namespace)
    seen = snapshot_of(applied, live, clock=session.clock, facts=facts)
    beside = tuple(service for service in services if service["metadata"].get("namespace", namespace) == namespace)
    templates = await read_templates(session, spec, reader.manifests, namespace=namespace)
    limits = await read_limits(session, key, reader.manifests, in_place=workload)
    return report_of(applied, seen, live, from_file=beside, templates=templates, limits=limits)


async def plan_of_live(session: Session, rollout: Manifest) -> PlanReport:
    """The plan of a Rollout of the cluster, with no files: what is left of its update, or else its next one.

    Raises: what `Client` raises; SpecInvalid.
    """
    facts = await read_facts(session, proxy_mode=None)
    known = providers(await read_declared(session))
    return await plan_of(SourceReader(session, ()), rollout, (), facts, known)


def _print(
    reports: list[PlanReport], impacts: tuple[ConfigImpact, ...], *, output: str | None, console: Console
) -> None:
    if output in ("json", "yaml"):
        impacts_as_json: dict[ConfigKind, list[Any]] = {kind: [] for kind in ConfigKind}
        for impact in impacts:
            fields = msgspec.to_builtins(impact)
            del fields["kind"]
            impacts_as_json[impact.kind].append(fields)
        document = {
            "plans": [_report_as_json(report) for report in reports],
            "configMaps": impacts_as_json[ConfigKind.CONFIG_MAP],
            "secrets": impacts_as_json[ConfigKind.SECRET],
        }
        text = json.dumps(document, indent=2)
        if output == "yaml":
            text = yaml.safe_dump(document, sort_keys=False, allow_unicode=False, width=PIPED_WIDTH)
        console.out(text.rstrip("\n"), highlight=False)
        return
    drawn = [draw_plan(report, wide=output == "wide", lines=console.is_terminal) for report in reports]
    drawn += [Text("")] if reports and impacts else []
    drawn += [draw_impacts(impacts)] if impacts else []
    print_drawn(console, *drawn, piped_width=PIPED_WIDTH)


def _report_as_json(report: PlanReport) -> dict[str, Any]:
    steps = []
    for step in report.steps:
        outgrown = []
        for excess in step.outgrown:
            amounts = {name: getattr(excess, name) for name in ("needs", "allows", "hard", "others")}
            texts = {name: quantity_of(excess.resource, amount) for name, amount in amounts.items()}
            outgrown.append({**msgspec.to_builtins(excess, enc_hook=float), **texts})
        steps.append({**msgspec.to_builtins(step, enc_hook=float), "outgrown": outgrown})
    return {
        "namespace": report.namespace,
        "name": report.name,
        "strategy": report.strategy,
        "inPlace": report.in_place or None,
        "replicas": report.replicas,
        "exists": report.exists,
        "revision": {
            "template": report.revision,
            "current": report.current,
            "stable": report.stable,
            "target": report.target,
            "changes": report.target != report.current,
        },
        "proxy": {"mode": report.proxy.mode.value, "knownBy": report.proxy.known_by},
        "drain": {**_as_json(report.numbers), "injected": _as_json(report.injection) if report.injection else None},
        "startup": _as_json(report.startup) if report.startup else None,
        "supposed": report.supposed,
        "steps": steps,
        "waits": {
            "knownSeconds": report.known_s,
            "byPeople": report.by_people,
            "unmeasured": report.unmeasured,
            "analyses": report.analyses,
        },
        "stuck": report.stuck or None,
        "limits": {"refusals": list(report.limits.refusals), "notes": list(report.limits.notes)},
        "config": msgspec.to_builtins(report.config),
        "findings": [{"about": found.about, **msgspec.to_builtins(found.finding)} for found in report.findings],
        "unsafe": report.unsafe,
    }


def _as_json(value: Struct) -> dict[str, Any]:
    """The fields by their names in JSON: `pre_stop_s` is `preStopSeconds`."""
    fields = {re.sub("_s$", "_seconds", name): part for name, part in msgspec.to_builtins(value).items()}
    return {re.sub("_(.)", lambda letter: letter[1].upper(), name): part for name, part in fields.items()}
