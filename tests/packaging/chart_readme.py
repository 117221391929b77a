"""The chart's README and values.schema.json: `python -m tests.packaging.chart_readme` writes both, `--check` compares.

values.yaml is the source: a comment above a key, or behind its value, is what the table says of it. The schema's types are
those of the defaults; lines `# @schema` above a key have, as YAML, what the default does not say, and win.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "helm" / "rollouts"
PAGE = CHART / "README.md"
SCHEMA = CHART / "values.schema.json"
VALUES = CHART / "values.yaml"

_TYPES = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}
_SCHEMA = "@schema"
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
    """One value: where it is, what it is when nobody sets it (None for a group of values), what it means, and its schema."""

    path: tuple[str, ...]
    default: Any
    meaning: str
    schema: Mapping[str, Any]

    def line(self) -> str:
        default = "" if self.default is None else f"`{_cell(json.dumps(self.default, ensure_ascii=False))}`"
        return f"| `{'.'.join(self.path)}` | {default} | {_cell(self.meaning)} |"


def rows(text: str) -> Iterator[Row]:
    """Every key of values.yaml, in its order."""
    values = yaml.safe_load(text)
    path: list[str] = []
    said: list[str] = []
    declared: list[str] = []
    inside: int | None = None  # the indent of a value that goes over lines: its keys are no values of the chart
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith(f"# {_SCHEMA}"):
            declared.append(stripped.removeprefix(f"# {_SCHEMA}"))
            continue
        if stripped.startswith("#"):
            said.append(stripped.removeprefix("#").strip())
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            said, declared = [], []
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
        kind: dict[str, Any] = {"type": _TYPES[type(value)]} | ({"additionalProperties": False} if group else {})
        more = yaml.safe_load("".join(declared)) or {}
        schema = more if "enum" in more else kind | more
        said, declared = [], []
        yield Row(tuple(path), None if group else value, meaning, schema)


def page() -> str:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    head = _HEAD.format(
        description=chart["description"],
        kubernetes=chart["kubeVersion"].removeprefix(">=").removesuffix(".0-0") + " or newer",
    )
    told = [row for row in rows(VALUES.read_text(encoding="utf-8")) if row.meaning or row.default is not None]
    return head + "\n".join(row.line() for row in told) + "\n"


def schema() -> str:
    """The text of values.schema.json. `global` is what a parent chart shares with all of its parts."""
    root: dict[str, Any] = {"$schema": "https://json-schema.org/draft-07/schema#", "type": "object"}
    root |= {"additionalProperties": False, "properties": {"global": {"type": "object"}}}
    for row in rows(VALUES.read_text(encoding="utf-8")):
        place = root
        for name in row.path[:-1]:
            place = place["properties"][name]
        described = {"description": row.meaning} if row.meaning else {}
        place.setdefault("properties", {})[row.path[-1]] = {**described, **row.schema}
    return json.dumps(root, indent=2, ensure_ascii=False) + "\n"


def _at(values: Any, path: list[str]) -> Any:
    for key in path:
        values = values[key]
    return values


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    for path, text in ((PAGE, page()), (SCHEMA, schema())):
        if "--check" not in sys.argv[1:]:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path.relative_to(CHART.parents[1])} is out of date; run `make docs`")
