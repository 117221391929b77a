"""Lints files and folders, and prints the findings: for people, and as JSON, GitHub's annotations and SARIF for programs."""

from __future__ import annotations

import difflib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer
from msgspec import Struct
from rich.console import Console

from rollouts.cli.commands.lint_rules import RULES, LintProblem, LintRule
from rollouts.cli.commands.version import own_version
from rollouts.cli.exits import Exit
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import fail, note, read_file, result_of
from rollouts.cli.terminal.text import plain
from rollouts.cli.view.counts import count_of
from rollouts.core.advice.findings import Severity
from rollouts.objects import ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE

ERROR = "error"
_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml")
_TEMPLATES = (ANALYSIS_TEMPLATE.kind, CLUSTER_ANALYSIS_TEMPLATE.kind)
_PATCH_FIELDS = ("patches", "patchesStrategicMerge", "patchesJson6902")
"""Source: https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/."""


class LintOutput(StrEnum):
    """The values of `-o` of `lint`."""

    JSON = "json"
    GITHUB = "github"
    SARIF = "sarif"


class NoteElsewhere(Struct, frozen=True):
    """Another place with the same note."""

    source: str
    line: int
    subject: str


class Remark(Struct, frozen=True):
    """One thing to fix or to know.

    Args:
        path: in the object; "" for what is about the whole of it.
        severity: `error` for a problem; of advice as `core/advice/findings.py` says it.
        others: where the same note holds.
    """

    line: int
    subject: str
    what: str
    rule: LintRule
    path: str = ""
    severity: str = ERROR
    others: tuple[NoteElsewhere, ...] = ()

    @property
    def message(self) -> str:
        """With the severity of advice, and the path."""
        parts = ("" if self.severity == ERROR else self.severity, self.path, self.what)
        also = f" (and {count_of(len(self.others), 'other object')} of these files)" if self.others else ""
        return ": ".join(part for part in parts if part) + also

    def text(self, source: str) -> str:
        """In the form that editors jump to: `FILE:LINE: subject: message`."""
        return plain(f"{source}:{self.line}: {self.subject}: {self.message}")


@dataclass(slots=True)
class LintReport:
    """What was found in one file, how many objects were checked, by kind, and the kinds of those that were not."""

    source: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[Remark] = field(default_factory=list)
    advice: list[Remark] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    @property
    def remarks(self) -> list[Remark]:
        """All problems and all advice, in the order of their lines."""
        return sorted([*self.problems, *self.advice], key=lambda remark: remark.line)


def advice_rule(name: str) -> str:
    """`typer` parser of a rule that may be silenced. Raises: typer.BadParameter."""
    advice = [known for known, rule in RULES.items() if not isinstance(rule, LintProblem)]
    if name in advice:
        return name
    near = difflib.get_close_matches(name, advice, n=1)
    why = "is a problem, not advice" if name in RULES else f"is no rule{f'; did you mean {near[0]}?' if near else ''}"
    raise typer.BadParameter(f"{name} {why}")


def lint(
    files: Annotated[
        list[str],
        typer.Option(
            "-f", "--filename", metavar="FILE", help="A file of YAML or JSON, or a folder; repeatable; - for stdin."
        ),
    ],
    prometheus_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Warn of metrics in queries of templates that this Prometheus does not have."),
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option("--ca", help="Certificates of the authorities that Prometheus' is from, PEM.")
    ] = None,
    silenced: Annotated[
        list[str] | None,
        typer.Option(
            "--silence",
            metavar="RULE",
            parser=advice_rule,
            help="Leave out one piece of advice, by its rule's name; repeatable.",
        ),
    ] = None,
    output: Annotated[
        LintOutput | None, typer.Option("-o", "--output", help="For programs: all findings with their rules.")
    ] = None,
) -> None:
    """Report every problem of Rollouts, providers, analysis templates and runs, with line and path; exit code 1 for problems.

    Needs no cluster. Runs the tests that a TrafficProvider contains; Rollouts in the same files may use it.
    Analyses are checked with the templates in the files, and keys with the ConfigMaps and Secrets; what is not there
    may be in the cluster. A file without an object, and an object with a wrong apiVersion, are problems too.

    It also reports what loses requests although the controller can carry it out:
    findings of the graceful-exit checklist, and Services in the same file that do not fit a gradual update.
    Each of them is unsafe, a warning or a note, and does not change the exit code.
    With --prometheus-url it warns of metrics that are not there, with the names next to them; 4 when it does not answer.
    """
    from rollouts.cli.commands.lint import lint_files  # noqa: PLC0415 - main.py says why
    from rollouts.cli.commands.metric_names import metric_names  # noqa: PLC0415

    checked, patches = _files_in(files)
    if patches:
        merged = f"not checked, because Kustomize merges them into others: {', '.join(patches)}"
        note(f"{merged}; check what comes out: kubectl kustomize FOLDER | rollouts lint -f -")
    texts = [read_file(file) for file in checked]
    if not texts:
        fail(f"there is no .yaml, .yml or .json file in {', '.join(files)}")
        raise typer.Exit(Exit.USAGE)
    metrics = result_of(metric_names(prometheus_url, deadline_s=30.0, ca_file=ca_file)) if prometheus_url else None
    reports = lint_files(texts, metrics=metrics, silenced=silenced or ())
    if output is None:
        print_reports(reports, Console(), Console(stderr=True))
    else:
        sys.stdout.write(f"{as_text(output, reports, version=own_version())}\n")
    raise typer.Exit(Exit.BAD if any(report.problems for report in reports) else Exit.OK)


def summary(reports: Iterable[LintReport]) -> str:
    """One line about all files."""
    reports = tuple(reports)
    counts = sum((report.counts for report in reports), Counter[str]())
    nouns = {**{kind: kind for kind in counts}, **dict.fromkeys(_TEMPLATES, "analysis template")}
    named = Counter[str]({"Rollout": 0})
    for kind, count in counts.items():
        named[nouns[kind]] += count
    what = [count_of(count, noun) for noun, count in named.items()]
    problems, advice = sum(len(report.problems) for report in reports), sum(len(report.advice) for report in reports)
    advised = f", {advice} piece{'' if advice == 1 else 's'} of advice" if advice else ""
    return f"{' and '.join(what)} checked, {problems or 'no'} problem{'' if problems == 1 else 's'}{advised}"


def _files_in(paths: Iterable[str]) -> tuple[list[str], list[str]]:
    """The files to check, each once, those of folders in the order of their names, and those that Kustomize merges into others.

    A part of an object is not right or wrong by itself.
    """
    checked: list[str] = []
    patches: list[str] = []
    for path in paths:
        if path == "-" or not Path(path).is_dir():
            checked.append(path)
            continue
        files = sorted(file for file in Path(path).rglob("*") if file.suffix in _SUFFIXES and file.is_file())
        merged = {patch for file in files if file.name in _KUSTOMIZATIONS for patch in _patches_of(file)}
        for file in files:
            (patches if file.resolve() in merged else checked).append(str(file))
    once: dict[Path, str] = {}
    for name in checked:
        once.setdefault(Path(name).resolve(), name)
    return list(once.values()), patches


def _patches_of(kustomization: Path) -> Iterator[Path]:
    """The files that a kustomization merges into its objects. What cannot be read is told where the file is checked."""
    from rollouts.cli.kubernetes.yaml_text import read_text  # noqa: PLC0415 - most commands read no files

    try:
        found = read_text(kustomization.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    settings = next(iter(found.manifests), {})
    for name in _PATCH_FIELDS:
        entries = settings.get(name)
        for entry in entries if isinstance(entries, list) else ():
            patch = entry.get("path") if isinstance(entry, dict) else entry
            if isinstance(patch, str) and "\n" not in patch:
                yield (kustomization.parent / patch).resolve()


def print_reports(reports: Sequence[LintReport], console: Console, errors: Console) -> None:
    """Prints them for people; to `errors` what was not checked, as scripts read the rest."""
    for report in reports:
        for remark in report.remarks:
            print_line(console, f"{remark.text(report.source)} [{remark.rule}]")
    skipped = Counter(kind for report in reports for kind in report.skipped)
    if skipped:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(skipped.items()))
        text = f"skipped, because lint has no rules for them (Services and autoscalers count with a Rollout): {kinds}"
        print_line(errors, text, style="dim")
    console.print(summary(reports), highlight=False, soft_wrap=True)


def as_text(output: LintOutput, reports: Iterable[LintReport], *, version: str) -> str:
    """All problems and all advice, for programs."""
    found = [(report.source, remark) for report in reports for remark in report.remarks]
    match output:
        case LintOutput.JSON:
            findings = [
                {
                    "file": source,
                    "line": remark.line,
                    "severity": remark.severity,
                    "rule": remark.rule,
                    "object": remark.subject,
                    "path": remark.path,
                    "message": remark.message,
                    "others": [{"file": at.source, "line": at.line, "object": at.subject} for at in remark.others],
                }
                for source, remark in found
            ]
            return json.dumps(findings, indent=2)
        case LintOutput.GITHUB:
            return "\n".join(_github_command(source, remark) for source, remark in found)
        case LintOutput.SARIF:
            return json.dumps(_sarif(found, version=version), indent=2)


def _sarif(found: list[tuple[str, Remark]], *, version: str) -> dict[str, Any]:
    """Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html."""
    levels = {ERROR: "error", Severity.UNSAFE: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
    names = sorted({remark.rule.value for _, remark in found})
    results = [
        {
            "ruleId": remark.rule,
            "ruleIndex": names.index(remark.rule),
            "level": levels[remark.severity],
            "message": {"text": f"{remark.subject}: {remark.message}"},
            "locations": [_location(source, remark.line)],
            "relatedLocations": [_location(place.source, place.line) for place in remark.others],
        }
        for source, remark in found
    ]
    rules = [
        {
            "id": name,
            "shortDescription": {"text": RULES[name].meaning.replace("`", "")},
            "help": {"text": RULES[name].remedy.replace("`", ""), "markdown": RULES[name].remedy},
            "defaultConfiguration": {"level": "error" if isinstance(RULES[name], LintProblem) else "warning"},
        }
        for name in names
    ]
    driver = {"name": "rollouts lint", "version": version, "rules": rules}
    runs = [{"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}]
    return {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": runs}


def _location(source: str, line: int) -> dict[str, Any]:
    """A place whose file is a URI, as a name may have spaces, and an absolute path is none."""
    uri = Path(source).as_uri() if Path(source).is_absolute() else quote(Path(source).as_posix())
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": line}}}


def _github_command(source: str, remark: Remark) -> str:
    """Source: https://docs.github.com/actions/reference/workflow-commands-for-github-actions, "Setting an error message"."""
    command = {ERROR: "error", Severity.NOTE: "notice"}.get(remark.severity, "warning")
    title = f"{remark.subject}: {remark.rule}"
    properties = f"file={_escaped(source)},line={remark.line},title={_escaped(title)}"
    message = remark.message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return f"::{command} {properties}::{message}"


def _escaped(value: str) -> str:
    for character, code in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"), (":", "%3A"), (",", "%2C")):
        value = value.replace(character, code)
    return value
