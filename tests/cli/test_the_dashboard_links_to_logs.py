"""Promise: links of the operator's lead from a Rollout or an Experiment, its revisions and its pods to the right place."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path

import pytest

from rollouts.cli.dashboard.app import serving
from rollouts.cli.dashboard.links import PLACEHOLDERS, link_template, links_about
from rollouts.objects import POD, REPLICA_SET, ROLLOUT
from tests.cli.command_line import CommandLine
from tests.cli.dashboards import Visitor, session_of, until_page
from tests.cli.runs import Served, install, replica_set
from tests.cli.test_the_dashboard_shows_and_acts import PAUSED
from tests.cli.test_the_dashboard_shows_experiments import RUNNING, add, surround

LOGS = "Logs=https://logs.example/?ns={namespace}&pod={pod}"
GRAPHS = "Graphs=https://grafana.example:3000/d/a?var-hash={revision}&var-app={rollout}#top"
ALL = "Overview=http://board.example/{namespace}/{rollout}"
BOTH = "Both=https://board.example/{rollout}/{experiment}"
TRY = "Try=https://board.example/{namespace}/x/{experiment}"
GROUP = "Group=https://board.example/g/{experiment}?hash={revision}"


def test_a_link_is_where_its_last_name_is() -> None:
    """At the object where it names neither a revision nor a pod, also where it names nothing."""
    links = [link_template(text) for text in (LOGS, GRAPHS, ALL, "Runbook=https://wiki.example/a=b")]

    rollout = {"namespace": "shop", "rollout": "web"}

    assert links_about(links, rollout) == [
        ("Overview", "http://board.example/shop/web"),
        ("Runbook", "https://wiki.example/a=b"),
    ]
    of_revision = "https://grafana.example:3000/d/a?var-hash=abc&var-app=web#top"
    assert links_about(links, {**rollout, "revision": "abc"}) == [("Graphs", of_revision)]
    of_pod = "https://logs.example/?ns=shop&pod=web-abc-1"
    assert links_about(links, {**rollout, "revision": "abc", "pod": "web-abc-1"}) == [("Logs", of_pod)]


def test_a_link_that_names_what_is_not_known_is_left_out() -> None:
    """An Experiment by itself has no Rollout, and a Rollout is no Experiment: nothing is filled in that is not so."""
    links = [link_template(text) for text in (GRAPHS, ALL, BOTH)]
    alone = {"namespace": "shop", "experiment": "try"}
    of_a_step = {**alone, "rollout": "web"}

    assert links_about(links, alone) == []
    assert links_about(links, {**alone, "revision": "abc"}) == []
    assert [label for label, _ in links_about(links, of_a_step)] == ["Overview", "Both"]
    assert [label for label, _ in links_about(links, {**of_a_step, "revision": "abc"})] == ["Graphs"]
    assert [label for label, _ in links_about(links, {"namespace": "shop", "rollout": "web"})] == ["Overview"]


@pytest.mark.parametrize(
    "name", ["a/../b", "a&pod=x", "a?b#c", "a b", "ü", "%2e", '"><script>', "{pod}", "@evil.example", "javascript:"]
)
def test_no_name_chooses_more_than_its_own_place(name: str) -> None:
    """Names are encoded: neither another field nor another path, and nothing is filled in twice."""
    for text in (LOGS, GRAPHS, ALL, BOTH, GROUP):
        template = link_template(text)
        address = template.filled({**dict.fromkeys(PLACEHOLDERS, name), "namespace": "n"})
        frame = re.escape(template.url)
        for placeholder in PLACEHOLDERS:
            frame = frame.replace(re.escape(f"{{{placeholder}}}"), "[A-Za-z0-9._~%-]+")
        assert re.fullmatch(frame, address), address


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("https://logs.example/", "is no link: write LABEL=URL"),
        ("=https://logs.example/", "is no link: write LABEL=URL"),
        ("Logs=javascript:alert(1)", "with http or https"),
        ("Logs=//logs.example/", "with http or https"),
        ("Logs=data:text/html,x", "with http or https"),
        ("Logs=HTTPS://logs.example/", "with http or https"),
        ("Logs=https://logs.example/a b", "without spaces"),
        ("Logs=https://lögs.example/", "is no link"),
        ("L\x1bogs=https://logs.example/", "is no link"),
        (
            "Logs=https://logs.example/{container}",
            "{container} is not known; known are {namespace}, {rollout}, {experiment}, {revision}, {pod}",
        ),
        ("Logs=https://logs.example/{}", "{} is not known; known are {namespace}"),
        ("Logs=https://logs.example/{pod.name}", "{pod.name} is not known"),
        ("Logs=https://logs.example/{pod", "is written %7B or %7D"),
        ("Logs=https://logs.example/{{pod}}", "is written %7B or %7D"),
        ("Logs=https://{namespace}.logs.example/", "placeholders belong behind it"),
        ("Logs=https://logs.example{rollout}/", "placeholders belong behind it"),
        ("Logs=https://{pod}", "placeholders belong behind it"),
        ("Logs=https:///a", "its host has to be written out"),
        ("Logs=https://user@logs.example/", "without a user"),
        ("Logs=https://evil.example\\logs.example/", "its host has to be written out"),
        ("Logs=https://[::1/", "its host has to be written out"),
    ],
)
def test_what_is_no_such_link_is_refused_with_what_is(typed: CommandLine, tmp_path: Path, text: str, said: str) -> None:
    """Before anything is served."""
    error = typed("dashboard", "--link", text, code=2).error

    assert re.sub(r"\s+", " ", said) in re.sub(r"[\s│]+", " ", error)


@contextlib.asynccontextmanager
async def linked(there: Served, *texts: str) -> AsyncIterator[Visitor]:
    """Somebody who has signed in to a dashboard with these links."""
    links = tuple(map(link_template, texts))
    async with serving(session_of(there), namespace=None, address="127.0.0.1", port=0, links=links) as url:
        visitor = Visitor(url)
        await visitor.log_in()
        yield visitor


def links_of(body: str) -> set[str]:
    """The addresses of links that lead to other servers."""
    return {unescape(each) for each in re.findall(r'<a href="(https?://[^"]*)" target="_blank" rel="noopener"', body)}


async def test_links_are_on_the_page_and_in_its_live_updates(there: Served) -> None:
    """At the Rollout, at each revision and at each pod; they open beside the dashboard, which tells no address of its own."""
    await install(there)
    await there.put_status(ROLLOUT, "cart", PAUSED)
    revision = replica_set(await there.object(ROLLOUT, "cart"))
    await there.create(REPLICA_SET, revision)
    made = await there.object(REPLICA_SET, "cart-newrev")
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "cart-newrev",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    labels = revision["metadata"]["labels"]
    metadata = {"name": "cart-newrev-x", "labels": labels, "ownerReferences": [owner]}
    spec = revision["spec"]["template"]["spec"]
    await there.create(POD, {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})
    async with linked(there, LOGS, GRAPHS, ALL) as visitor:
        page = await visitor.get("/r/default/cart")
        async with visitor.stream("/r/default/cart/events") as stream:
            live = await until_page(stream, "board.example")

    for body in (page.body, live.replace('\\"', '"')):
        assert links_of(body) == {
            "http://board.example/default/cart",
            "https://grafana.example:3000/d/a?var-hash=newrev&var-app=cart#top",
            "https://logs.example/?ns=default&pod=cart-newrev-x",
        }
    assert 'aria-label="Overview of cart"' in page.body
    assert 'aria-label="Logs of cart-newrev-x"' in page.body
    assert page.headers["referrer-policy"] == "same-origin"


async def test_links_of_an_experiment_are_at_itself_its_templates_and_their_pods(there: Served) -> None:
    """Those that name a Rollout are left out of the page of one that belongs to none."""
    await surround(there, await add(there, RUNNING))
    async with linked(there, LOGS, GRAPHS, ALL, TRY, GROUP) as visitor:
        page = (await visitor.get("/experiments/default/exp")).body
        async with visitor.stream("/experiments/default/exp/events") as stream:
            live = await until_page(stream, "board.example")

    for body in (page, live.replace('\\"', '"')):
        assert links_of(body) == {
            "https://board.example/default/x/exp",
            "https://board.example/g/exp?hash=h4sh",
            "https://logs.example/?ns=default&pod=exp-blue-1",
        }
    for label in ("Try of exp", "Group of template blue", "Logs of exp-blue-1"):
        assert f'aria-label="{label}"' in page
