"""The pages as a site: `make site` writes build/site, which any web server or `file://` shows.

The project's files are laid out as in the checkout, so that every link of a page leads to the same file as there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from tests.architecture.tracked import ROOT, tracked

BUILD = ROOT / "build"
SHOWN = {".md", ".svg", ".png", ".py", ".yaml", ".toml", ".tpl", ".json", ".lock"}  # what pages link to

NAVIGATION: dict[str, dict[str, str]] = {
    "Rollouts": {"Overview": "index.md"},
    "Get started": {
        "Getting started": "docs/getting-started.md",
        "Migrating to Rollouts": "docs/migrating.md",
        "Comparison with Argo Rollouts, Flagger, OpenKruise": "docs/comparison.md",
        "Helm chart": "helm/rollouts/README.md",
    },
    "Use": {
        "Concepts": "docs/concepts.md",
        "Command line": "docs/cli.md",
        "Dashboard": "docs/dashboard.md",
        "API reference": "docs/api.md",
        "ConfigMaps and Secrets": "docs/config.md",
        "Templates of Deployments (workloadRef)": "docs/workloads.md",
        "StatefulSets in place": "docs/workloads-statefulset.md",
        "DaemonSets in place": "docs/workloads-daemonset.md",
        "Holding a workload": "docs/holds.md",
        "Argo CD, Flux, Kustomize and Helm": "docs/gitops.md",
        "Troubleshooting": "docs/troubleshooting.md",
        "Reasons": "docs/reasons.md",
        "Rules of lint": "docs/lint-rules.md",
        "Glossary": "docs/glossary.md",
        "Differences from Argo Rollouts": "docs/argo-compatibility.md",
    },
    "Traffic": {
        "Traffic routing": "docs/traffic.md",
        "Router settings": "docs/traffic-routers.md",
        "Header routes, mirrors, stickiness": "docs/traffic-chosen-requests.md",
        "Verification of weights": "docs/traffic-verification.md",
        "Ownership of routes": "docs/traffic-ownership.md",
        "Istio subsets and ping-pong": "docs/traffic-services.md",
        "Adding a router": "docs/traffic-declared-routers.md",
        "Checking before an update": "docs/graceful.md",
        "Draining": "docs/drain.md",
    },
    "Analysis": {
        "Analysis": "docs/analysis.md",
        "Metric servers and Jobs": "docs/analysis-servers.md",
        "Gates": "docs/gates.md",
        "Experiments": "docs/experiments.md",
        "Monitoring services": "docs/analysis-vendors.md",
        "Built-in templates": "docs/analysis-templates.md",
        "Metrics of the cluster": "docs/analysis-cluster.md",
        "Comparing canary and stable": "docs/compare.md",
        "Autoscaling": "docs/autoscaling.md",
    },
    "Operate": {
        "Running the controller": "docs/operations.md",
        "Alerts": "docs/alerts.md",
        "Security": "SECURITY.md",
        "Changelog": "CHANGELOG.md",
        "Measured: lost requests": "docs/cutover.md",
        "Measured: gateways": "docs/gateways.md",
        "Benchmarks": "docs/benchmarks.md",
    },
    "Contribute": {
        "Contributing": "CONTRIBUTING.md",
        "Architecture": "ARCHITECTURE.md",
        "What a change touches": "docs/changes.md",
        "Packages": "docs/rooms.md",
        "Testing": "docs/testing.md",
        "Decisions": "docs/decisions/README.md",
    },
}
"""Every page but the decisions, which have a list of their own. Titles are words that people search for."""

STYLE = """
.md-typeset :not(pre) > code { word-break: normal; overflow-wrap: break-word }
.md-typeset code .word { display: inline-block; max-width: 100% }
.md-typeset td code .word { white-space: nowrap }
@media (max-width: 45em) { .md-typeset td:not([style]) { min-width: 8rem } }
"""
"""Code breaks between its words, and within one only where a line is too short for it; tables scroll instead, so that on a phone
a column of words (numbers have the style of their side) is as wide as some."""

_FILE_NAME = re.compile(r"\[`?[\w./-]+\.md`?\]\(([\w./-]+\.md)(#[^)\s]+)?\)")
_CODE = re.compile(r"<code>([^<]+)</code>")
_UNIT = re.compile(r"<(pre|code)\b.*?</\1>|(?<=\d) (?=%)", re.DOTALL)
_LONG = 30  # characters of a word of code that a line of a phone may be too short for


def stage(folder: Path, root: Path = ROOT) -> Path:
    """Lays out a checkout's files and the site's settings in a folder, which is emptied first. Returns the path of the settings.

    A file that is not in Git yet is left out: somebody's notes are no page.
    """
    shutil.rmtree(folder, ignore_errors=True)
    source = folder / "source"
    for path in tracked(root, new=False):
        if path.suffix in SHOWN or path.name in {"LICENSE", "Makefile", "Dockerfile"}:
            target = source / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    (source / "README.md").rename(source / "index.md")
    (source / "site.css").write_text(STYLE)
    for page in source.rglob("*.md"):
        page.write_text(_for_the_site(page))
    settings = folder / "mkdocs.yml"
    settings.write_text(yaml.safe_dump(_settings(), sort_keys=False))
    return settings


def _for_the_site(page: Path) -> str:
    """A page's text: links that show a file's name show its title, and code in a table has its bars as they are typed."""

    def titled(link: re.Match[str]) -> str:
        title = re.search(r"^# (.+)", (page.parent / link[1]).read_text(), re.MULTILINE)
        return f"[{title[1]}]({link[1]}{link[2] or ''})" if title else link[0]

    text = page.read_text().replace("../README.md", "../index.md")  # the one page that has another name there
    text = re.sub(
        r"^\|.*",
        lambda row: re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), row[0]),
        text,
        flags=re.MULTILINE,
    )
    return _FILE_NAME.sub(titled, text)


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
        "extra_css": ["site.css"],
        "use_directory_urls": False,
        "theme": {
            "logo": "docs/images/logo.svg",
            "favicon": "docs/images/logo.svg",
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
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    for page in (folder / "site").rglob("*.html"):
        text = _CODE.sub(_in_words, page.read_text(encoding="utf-8"))
        page.write_text(_UNIT.sub(lambda found: found[0] if found[1] else "&nbsp;", text), encoding="utf-8")
    return done


def _in_words(code: re.Match[str]) -> str:
    """Code whose words are kept together: browsers break a line after any hyphen. Long ones may break between their parts."""
    parts = (re.sub(r"(?<=[/_])", "<wbr>", word) if len(word) > _LONG else word for word in code[1].split(" "))
    words = (f'<span class="word">{word}</span>' if "-" in word else word for word in parts)
    return f"<code>{' '.join(words)}</code>"


if __name__ == "__main__":
    done = build(BUILD / "pages")
    print(done.stdout + done.stderr, end="", file=sys.stderr)
    if done.returncode == 0:
        print(BUILD / "pages" / "site" / "index.html")
    sys.exit(done.returncode)
