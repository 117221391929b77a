"""The chart's README, written from values.yaml: `python -m tests.packaging.chart_readme` writes it, `--check` compares.

values.yaml is the source: a comment above a key, or behind its value, is what the table says of it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "helm" / "rollouts"
PAGE = CHART / "README.md"
VALUES = CHART / "values.yaml"

_LINE = re.compile(r"(?P<indent> *)(?P<key>[A-Za-z]+):(?P<value>(?: [^#]*?)?)(?: +# (?P<told>.*))?")

_HEAD = """# Rollouts

<!-- Written by `python -m tests.packaging.chart_readme` from values.yaml. -->

{description}: the controller, its rights, its CRDs and templates of analyses. It needs Kubernetes {kubernetes} and Helm 3.

<!-- not run: needs a container engine; docs/getting-started.md has the same commands and is followed word for word -->
```sh
make image                                    # and `kind load docker-image`, or `docker push` with your registry's name
helm install rollouts ./helm/rollouts --namespace rollouts-system --create-namespace
kubectl rollouts doctor                       # looks whether everything is in place, and says what to do
```

## Upgrade

`helm upgrade rollouts ./helm/rollouts --namespace rollouts-system` upgrades the CRDs too (`crds.enabled`). Rollouts go
on where they are: the new controller takes over from what is in the cluster. CRDs that this release did not install (but `kubectl
apply`, or a chart that had them in `crds/`) are taken over once by `--take-ownership` (Helm 3.17).

## Uninstall

`helm uninstall rollouts --namespace rollouts-system` takes the controller away and keeps the CRDs (`crds.keep`),
and with them all Rollouts, their pods and their traffic. `kubectl delete crd -l app.kubernetes.io/name=rollouts` ends these too.

## Values

| value | default | meaning |
|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One value: where it is, what it is when nobody sets it (None for a group of values), and what it means."""

    path: tuple[str, ...]
    default: str | None
    meaning: str

    def line(self) -> str:
        default = "" if self.default is None else f"`{_cell(self.default)}`"
        return f"| `{'.'.join(self.path)}` | {default} | {_cell(self.meaning)} |"


def rows(text: str) -> Iterator[Row]:
    """Every key of values.yaml, in its order; groups that nothing is said about are left out."""
    values = yaml.safe_load(text)
    path: list[str] = []
    said: list[str] = []
    inside: int | None = None  # the indent of a value that goes over lines: its keys are no values of the chart
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            said.append(stripped.removeprefix("#").strip())
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            said = []
            continue
        depth = len(found["indent"]) // 2
        if inside is not None and depth > inside:
            continue
        inside = None
        path[depth:] = [found["key"]]
        value = _at(values, path)
        group = isinstance(value, dict) and not found["value"].strip()
        if found["key"] == "resources":
            group, inside = False, depth
        meaning = " ".join([*said, *([found["told"]] if found["told"] else [])])
        said = []
        if meaning or not group:
            yield Row(tuple(path), None if group else json.dumps(value, ensure_ascii=False), meaning)


def page() -> str:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    head = _HEAD.format(
        description=chart["description"],
        kubernetes=chart["kubeVersion"].removeprefix(">=").removesuffix(".0-0") + " or newer",
    )
    return head + "\n".join(row.line() for row in rows(VALUES.read_text(encoding="utf-8"))) + "\n"


def _at(values: Any, path: list[str]) -> Any:
    for key in path:
        values = values[key]
    return values


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
            sys.exit(f"{PAGE.relative_to(CHART.parents[1])} is out of date; run `make docs`")
    else:
        PAGE.write_text(page(), encoding="utf-8")
