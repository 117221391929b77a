"""`python -m benchmarks`: the figures of docs/benchmarks.md, measured anew on this machine.

Starts its own etcd, kube-apiserver (audit log on), kube-controller-manager and kwok in a temporary folder and ends them.
Exit code: 0 when every limit was kept, 1 when one was missed, 2 when it could not be measured.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import configs, dashboards, level, phases
from benchmarks.figures import Results
from benchmarks.report import draw, show, table
from tests.lab import argo_rollouts, launch
from tests.lab.binaries import LabUnavailable
from tests.lab.processes import ProcessEnded

ROOT = Path(__file__).parent.parent
REPORTS = ROOT / "build" / "reports"
PICTURE_OF_THE_DOCS = ROOT / "docs" / "images" / "bench.svg"
QUICK = {"rollouts": 100, "samples": 20}


def main() -> int:
    """Measures what the arguments ask for, prints it and writes build/reports/."""
    options = _options()
    console = Console()
    if not console.is_terminal:
        console.width = 120  # else the table is folded to 80 columns
    folder = Path(tempfile.mkdtemp(prefix="rollouts-bench-"))
    console.print(f"logs of this run: {folder / 'logs'}", soft_wrap=True)
    if options.analyses:
        title = f"{options.analyses:,} background analyses, a measurement each 30 s"
        results = Results(title=title, settings={"analyses": options.analyses, "samples": options.samples})
    elif options.configs:
        title = f"{options.configs:,} idle Rollouts, without and with {configs.EACH} ConfigMaps of 4 KiB each"
        results = Results(title=title, settings={"configs": options.configs})
    elif options.dashboard:
        title = f"{options.dashboard:,} Rollouts in the dashboard, with 1 and {dashboards.VIEWERS} viewers"
        results = Results(title=title, settings={"dashboard": options.dashboard})
    elif options.held:
        title = f"{options.held:,} idle Rollouts, with pods of their own and of Deployments in place"
        results = Results(title=title, settings={"held": options.held})
    elif options.updates:
        results = Results(
            title=f"{options.updates:,} updates of {level.COUNT} Rollouts", settings={"updates": options.updates}
        )
    elif options.idle:
        results = Results(title=f"{options.idle:,} idle Rollouts of 2 pods", settings={"idle": options.idle})
    else:
        results = Results(
            title=f"{options.rollouts:,} Rollouts of 2 pods, setWeight 50, beside as many Deployments",
            settings={"rollouts": options.rollouts, "samples": options.samples, "quick": options.quick},
        )
    measured = True
    try:
        _measure(results, options, console, folder)
    except* (LabUnavailable, ProcessEnded, TimeoutError) as group:
        for exc in _leaves(group):
            console.print(f"[bold red]not measured:[/] {exc}")
        measured = False
    if not measured:
        return 2
    show(results, console)
    name = next(
        (each for each in ("analyses", "configs", "dashboard", "held", "idle", "updates") if getattr(options, each)), ""
    )
    report = REPORTS / f"bench{f'-{name}' if name else ''}.json"
    results.save(report)
    report.with_suffix(".md").write_text("\n".join([*table(results), ""]))
    console.print(f"written: {report.relative_to(ROOT)} and .md")
    if not name:
        # The docs show the whole benchmark only.
        pictures = [report.with_suffix(".png"), *([] if options.quick else [PICTURE_OF_THE_DOCS])]
        draw(results, *pictures)
        console.print("drawn: " + ", ".join(str(path.relative_to(ROOT)) for path in pictures))
    if not options.keep:
        shutil.rmtree(folder)
    return 0 if results.kept else 1


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for exc in group.exceptions:
        if isinstance(exc, BaseExceptionGroup):
            yield from _leaves(exc)
        else:
            yield exc


def _measure(results: Results, options: argparse.Namespace, console: Console, folder: Path) -> None:
    columns = (TextColumn("{task.description:<26}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    if options.argo:
        argo_rollouts.prepare()
    # Two redraws a second: the benchmark shares the machine's cores with what it measures.
    with (
        Progress(*columns, console=console, refresh_per_second=2, disable=not console.is_terminal) as progress,
        launch.started(folder) as plane,
    ):
        if options.analyses:
            asyncio.run(phases.analyse(plane, results, progress, count=options.analyses, samples=options.samples))
        elif options.configs:
            asyncio.run(phases.configure(plane, results, progress, count=options.configs))
        elif options.dashboard:
            asyncio.run(phases.look(plane, results, progress, count=options.dashboard))
        elif options.held:
            asyncio.run(phases.hold(plane, results, progress, count=options.held))
        elif options.updates:
            asyncio.run(phases.stay_level(plane, results, progress, updates=options.updates))
        elif options.idle:
            asyncio.run(phases.idle(plane, results, progress, count=options.idle))
        else:
            sizes = {"count": options.rollouts, "samples": options.samples}
            asyncio.run(phases.compare(plane, results, progress, **sizes, argo=options.argo))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rollouts", type=int, metavar="N", help="Rollouts, and as many Deployments; default 1000")
    parser.add_argument("--samples", type=int, metavar="N", help="rounds of the reaction times; default 100")
    parser.add_argument("--quick", action="store_true", help="100 Rollouts and 20 samples, unless said otherwise")
    parser.add_argument("--idle", type=int, metavar="N", help="instead: the memory and the start with N idle Rollouts")
    parser.add_argument(
        "--analyses",
        type=int,
        metavar="N",
        help="instead: N Rollouts with a background analysis each, and queries that hang",
    )
    parser.add_argument(
        "--configs",
        type=int,
        metavar="N",
        help="instead: the memory and the start with N idle Rollouts, without and with ConfigMaps, and an edit of one",
    )
    parser.add_argument(
        "--dashboard",
        type=int,
        metavar="N",
        help="instead: the dashboard with N Rollouts, with one viewer and with 200",
    )
    parser.add_argument(
        "--held",
        type=int,
        metavar="N",
        help="instead: the memory and the start with N idle Rollouts, with pods of their own and of Deployments in place",
    )
    parser.add_argument(
        "--updates", type=int, metavar="N", help="instead: the memory while 50 Rollouts are updated N times"
    )
    parser.add_argument(
        "--argo",
        action="store_true",
        help="besides, the same of Argo Rollouts' controller on the same control plane, right after; built where it is missing",
    )
    parser.add_argument("--keep", action="store_true", help="leave the folder with the logs")
    options = parser.parse_args()
    options.rollouts = options.rollouts or (QUICK["rollouts"] if options.quick else 1000)
    options.samples = options.samples or (QUICK["samples"] if options.quick else 100)
    return options


if __name__ == "__main__":
    sys.exit(main())
