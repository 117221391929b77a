"""`rollouts analyze TEMPLATE --rollout NAME`: makes an AnalysisRun by hand, about a Rollout and its revisions.

Nobody owns the run, and no label calls it an analysis of an update: no Rollout waits for it or acts on it. It carries a copy of
the templates, as every run does.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from rich.console import Console

from rollouts.api.spec.analysis.templates import TemplateName, run_of
from rollouts.cli.commands.analysis import follow_run
from rollouts.cli.commands.analyze import updated
from rollouts.cli.commands.templates import TemplatesByName, gathered, use_of
from rollouts.cli.exits import Exit
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import fail
from rollouts.cli.view.session import Options, open_session
from rollouts.cli.view.verb_plans import FIELD_MANAGER
from rollouts.errors import SpecInvalid
from rollouts.manifests.ownership import NAME, REVISION, name_label
from rollouts.objects import ANALYSIS_RUN, Manifest

NAME_LENGTH_MAX = 63  # a Job that measures for the run has the run's name as a label
_ENDING_LENGTH = 5  # as of names that Kubernetes generates
_ENDINGS = "bcdfghjklmnpqrstvwxz2456789"
"""Of generated names: no vowels, so that they spell nothing. Source: apimachinery, util/rand."""


async def make_run(
    options: Options,
    rollout: str,
    names: Sequence[TemplateName],
    *,
    files: TemplatesByName,
    arguments: Mapping[str, str],
    kept_s: int | None,
    watch: bool,
) -> Exit:
    """Creates one run of these templates, which stays for `kept_s` seconds after its end (None: for ever).

    Returns: OK; with `watch`, what `follow_run` returns. BAD when no run can be made of these templates and arguments.

    Raises: ApiNotFound when there is no such Rollout; what `Client` raises.
    """
    console = Console()
    async with open_session(options) as session:
        of = await updated(session, rollout)
        if not of.latest:
            fail(f"{rollout}: the controller has not seen this Rollout yet")
            return Exit.UNFINISHED
        templates = await gathered(session, names, files)
        try:
            use = use_of("analyze", names, arguments)
            spec = run_of(use, lambda name: templates[name].get("spec") if name in templates else None, of)
        except SpecInvalid as invalid:
            for problem in invalid.problems:
                fail(str(problem))
            return Exit.BAD
        if unknown := sorted(arguments.keys() - {argument["name"] for argument in spec.get("args") or ()}):
            fail(f"no template asks for the argument {', '.join(unknown)}")
            return Exit.USAGE
        ending = "".join(secrets.choice(_ENDINGS) for _ in range(_ENDING_LENGTH))
        head = f"{rollout}-{names[0].name}"[: NAME_LENGTH_MAX - _ENDING_LENGTH - 1].rstrip("-.")
        name, labels = f"{head}-{ending}", {NAME: name_label(rollout), REVISION: of.latest}
        run: Manifest = {
            "apiVersion": ANALYSIS_RUN.api_version,
            "kind": ANALYSIS_RUN.kind,
            "metadata": {"name": name, "labels": labels},
            "spec": spec if kept_s is None else {**spec, "ttlStrategy": {"secondsAfterCompletion": kept_s}},
        }
        await session.client.create(ANALYSIS_RUN, session.namespace, run, FIELD_MANAGER, strict=True)
        print_line(console, f"AnalysisRun {name} measures revision {of.latest} of {rollout}")
        if watch:
            return await follow_run(session, name, console=console)
        print_line(console, f"see it with `rollouts analysis get {name} -n {session.namespace}`")
    return Exit.OK
