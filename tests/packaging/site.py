"""The pages as a site: `make site` writes build/site, which any web server or `file://` shows.

The project's files are laid out as in the checkout, so that every link of a page leads to the same file as there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from tests.architecture.tracked import ROOT, tracked

BUILD = ROOT / "build"
SHOWN = {".md", ".svg", ".py", ".yaml", ".toml", ".tpl", ".json", ".lock"}  # what pages link to

NAVIGATION: dict[str, dict[str, str]] = {
    "Rollouts": {"What it is": "index.md"},
    "Start": {
        "Ten minutes on your cluster": "docs/getting-started.md",
        "Coming from elsewhere": "docs/migrating.md",
        "Beside the others": "docs/comparison.md",
        "The chart": "helm/rollouts/README.md",
    },
    "Use": {
        "How a rollout moves": "docs/concepts.md",
        "The command line": "docs/cli.md",
        "Every field": "docs/api.md",
        "Argo CD, Flux, Kustomize, Helm": "docs/gitops.md",
        "Configuration": "docs/config.md",
        "Troubleshooting": "docs/troubleshooting.md",
        "Reasons": "docs/reasons.md",
        "The words": "docs/glossary.md",
        "Differences from Argo Rollouts": "docs/argo-compatibility.md",
        "Planned fields": "docs/planned.md",
    },
    "Traffic": {
        "Routers and weights": "docs/traffic.md",
        "What each router can": "docs/traffic-routers.md",
        "Chosen requests": "docs/traffic-chosen-requests.md",
        "Verification": "docs/traffic-verification.md",
        "Whose a route is": "docs/traffic-ownership.md",
        "Services": "docs/traffic-services.md",
        "Declared routers": "docs/traffic-declared-routers.md",
        "Graceful exit": "docs/graceful.md",
        "Draining": "docs/drain.md",
    },
    "Evidence": {
        "Analyses": "docs/analysis.md",
        "Servers": "docs/analysis-servers.md",
        "Templates": "docs/analysis-templates.md",
        "The cluster's own numbers": "docs/analysis-cluster.md",
        "Canary against stable": "docs/compare.md",
        "Autoscalers": "docs/autoscaling.md",
    },
    "Run": {
        "Operations": "docs/operations.md",
        "Alerts": "docs/alerts.md",
        "Security": "SECURITY.md",
        "Changes": "CHANGELOG.md",
        "Lost requests, measured": "docs/cutover.md",
        "Gateways, measured": "docs/gateways.md",
        "Benchmarks": "docs/benchmarks.md",
    },
    "Develop": {
        "Architecture": "ARCHITECTURE.md",
        "Contributing": "CONTRIBUTING.md",
        "Where a change goes": "docs/changes.md",
        "Rooms inside the rooms": "docs/rooms.md",
        "How it is tested": "docs/testing.md",
        "Decisions": "docs/decisions/README.md",
    },
}
"""Every page but the decisions, which have a list of their own."""


def stage(folder: Path) -> Path:
    """Lays out the files and the settings of the site in a folder, which is emptied first. Returns the path of the settings."""
    shutil.rmtree(folder, ignore_errors=True)
    source = folder / "source"
    for path in tracked():
        if path.suffix in SHOWN or path.name in {"LICENSE", "Makefile", "Dockerfile"}:
            target = source / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    (source / "README.md").rename(source / "index.md")
    for page in source.rglob("*.md"):  # the one page that has another name there
        page.write_text(page.read_text().replace("../README.md", "../index.md"))
    settings = folder / "mkdocs.yml"
    settings.write_text(yaml.safe_dump(_settings(), sort_keys=False))
    return settings


def _settings() -> dict[str, object]:
    toggles = [
        {"media": f"(prefers-color-scheme: {scheme})", "scheme": name, "primary": "indigo"}
        for scheme, name in (("light", "default"), ("dark", "slate"))
    ]
    return {
        "site_name": "Rollouts",
        "site_description": "Progressive delivery for Kubernetes",
        "docs_dir": "source",
        "site_dir": "site",
        "use_directory_urls": False,
        "theme": {
            "font": False,  # a page asks no other server for anything
            "palette": toggles,
            "features": ["navigation.tabs", "navigation.top", "content.code.copy", "toc.follow"],
        },
        "plugins": ["search"],
        "markdown_extensions": [
            "tables",
            "fenced_code",
            {"toc": {"permalink": True}},
            {"pymdownx.highlight": {"anchor_linenums": False}},
            "pymdownx.superfences",
        ],
        "validation": {"links": {"anchors": "warn", "unrecognized_links": "warn"}, "nav": {"omitted_files": "ignore"}},
        "nav": [{part: [{title: page} for title, page in pages.items()]} for part, pages in NAVIGATION.items()],
    }


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Builds the site below a folder; a link that leads nowhere ends it with an error."""
    program = Path(sys.executable).with_name("zensical")
    command = [str(program), "build", "--strict", "--config-file", str(stage(folder))]
    environment = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


if __name__ == "__main__":
    done = build(BUILD / "pages")
    print(done.stdout + done.stderr, end="", file=sys.stderr)
    if done.returncode == 0:
        print(BUILD / "pages" / "site" / "index.html")
    sys.exit(done.returncode)
