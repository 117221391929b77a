"""Lints files and folders, and prints the findings: for people, and as JSON, GitHub's annotations and SARIF for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from rich.console import Console

from rollouts.cli.commands.lint import LintReport, Remark, known_in, lint, summary
from rollouts.cli.kubernetes.yaml_text import read_text
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import LintOutput
from rollouts.core.advice.findings import Severity

ERROR = "error"
_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml")
_PATCH_FIELDS = ("patches", "patchesStrategicMerge", "patchesJson6902")
"""Source: https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/."""


class FileReport(Struct, frozen=True):
    """The report of one file."""

    source: str
    report: LintReport


class FoundFiles(Struct, frozen=True):
    """The files to check, and those that Kustomize merges into others: a part of an object is not right or wrong by itself."""

    checked: tuple[str, ...]
    patches: tuple[str, ...] = ()


def files_in(paths: Iterable[str]) -> FoundFiles:
    """The files, and those of YAML and JSON in the folders and below, in the order of their names."""
    checked: list[str] = []
    patches: list[str] = []
    for path in paths:
        if path != "-" and Path(path).is_dir():
            found = sorted(each for each in Path(path).rglob("*") if each.suffix in _SUFFIXES and each.is_file())
            merged = {patch for each in found if each.name in _KUSTOMIZATIONS for patch in _patches_of(each)}
            patches += [str(each) for each in found if each.resolve() in merged]
            checked += [str(each) for each in found if each.resolve() not in merged]
        else:
            checked.append(path)
    return FoundFiles(tuple(checked), tuple(patches))


def _patches_of(kustomization: Path) -> Iterator[Path]:
    """The files that a kustomization merges into its objects. What cannot be read is told where the file is checked."""
    try:
        found = read_text(kustomization.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    settings = next(iter(found.manifests), {})
    for field in _PATCH_FIELDS:
        entries = settings.get(field)
        for entry in entries if isinstance(entries, list) else ():
            name = entry.get("path") if isinstance(entry, dict) else entry
            if isinstance(name, str) and "\n" not in name:
                yield (kustomization.parent / name).resolve()


def lint_files(
    texts: Sequence[tuple[str, str]], *, metrics: Collection[str] | None, silenced: Collection[str]
) -> list[FileReport]:
    """Checks files together: templates, providers, configuration and autoscalers of one are known in all of them.

    Args:
        texts: names of files, and what is in them.
        metrics: the names that a Prometheus has; None to leave queries alone.
        silenced: rules whose advice is left out.
    """
    files = [(source, read_text(text)) for source, text in texts]
    known = known_in(*(file for _, file in files))
    reports = []
    for source, file in files:
        report = lint(file, known, metrics=metrics)
        report.advice = [each for each in report.advice if each.rule not in silenced]
        reports.append(FileReport(source, report))
    return reports


def print_reports(reports: Sequence[FileReport], console: Console, errors: Console) -> None:
    """Prints them for people.

    Args:
        errors: where what was not checked is told; scripts read the rest.
    """
    for report in reports:
        for remark in (*report.report.problems, *report.report.advice):
            rule = f" [{remark.rule}]" if remark.rule else ""
            print_line(console, f"{remark.text(report.source)}{rule}")
    skipped = Counter(remark.subject.partition(" ")[0] for each in reports for remark in each.report.skipped)
    if skipped:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(skipped.items()))
        text = f"skipped, because they are no objects of ours (Services and autoscalers count with a Rollout): {kinds}"
        print_line(errors, text, style="dim")
    console.print(summary(each.report for each in reports), highlight=False, soft_wrap=True)


def as_text(output: LintOutput, reports: Iterable[FileReport], *, version: str) -> str:
    """All problems and all advice.

    Args:
        version: of this program, for SARIF.
    """
    found = [
        (report.source, remark) for report in reports for remark in (*report.report.problems, *report.report.advice)
    ]
    match output:
        case LintOutput.JSON:
            findings = [
                {
                    "file": source,
                    "line": remark.line,
                    "severity": remark.severity,
                    "rule": remark.rule,
                    "object": remark.subject,
                    "message": remark.message,
                }
                for source, remark in found
            ]
            return json.dumps(findings, indent=2)
        case LintOutput.GITHUB:
            # Source: https://docs.github.com/actions/reference/workflow-commands-for-github-actions, "Setting an error message".
            lines = []
            for source, remark in found:
                command = {ERROR: "error", Severity.NOTE: "notice"}.get(remark.severity, "warning")
                title = f"{remark.subject}: {remark.rule}" if remark.rule else remark.subject
                properties = f"file={_escaped(source)},line={remark.line},title={_escaped(title)}"
                message = remark.message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
                lines.append(f"::{command} {properties}::{message}")
            return "\n".join(lines)
        case LintOutput.SARIF:
            return json.dumps(_as_sarif(found, version), indent=2)


def _escaped(value: str) -> str:
    for character, code in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"), (":", "%3A"), (",", "%2C")):
        value = value.replace(character, code)
    return value


def _as_sarif(found: list[tuple[str, Remark]], version: str) -> dict[str, Any]:
    """Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html."""
    rules = sorted({remark.rule or ERROR for _, remark in found})
    levels = {ERROR: "error", Severity.UNSAFE: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
    results = []
    for source, remark in found:
        place = {"artifactLocation": {"uri": source}, "region": {"startLine": remark.line}}
        results.append(
            {
                "ruleId": remark.rule or ERROR,
                "level": levels.get(remark.severity, "warning"),
                "message": {"text": f"{remark.subject}: {remark.message}"},
                "locations": [{"physicalLocation": place}],
            }
        )
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {"name": "rollouts lint", "version": version, "rules": [{"id": rule} for rule in rules]}
                },
                "results": results,
            }
        ],
    }
