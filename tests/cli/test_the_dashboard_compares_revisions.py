"""Promise: what a revision changes is seen before it is promoted: its pod template, and what its pods read, without Secrets."""

from __future__ import annotations

import html
import re

from rollouts.cli.dashboard import diff_page
from rollouts.cli.view.difference import comparison_steps
from rollouts.objects import REPLICA_SET, ROLLOUT, SECRET
from tests.cli.configured import config_map, install, noted, secret
from tests.cli.dashboards import dashboard
from tests.cli.runs import Served, replica_set
from tests.cli.test_the_dashboard_is_for_one_person import HOSTILE

DIFF = "/r/default/cart/diff"
OLD = config_map("app", {"LEVEL": "info", "TEXT": "one\n<b>two</b>\n"})
NEW = config_map("app", {"LEVEL": "debug", "TEXT": "one\n<i>three</i>\n"})
REPEATED, MIXED = ([str(index * factor % 150) for index in range(15_000)] for factor in (1, 7))
SECRETS = secret("db", {"password": "hunter2"}), secret("db", {"password": "hunter3"})


async def another_revision(there: Served, revision: str, number: int, image: str) -> None:
    """A third revision of the Rollout, with another image."""
    made = noted(replica_set(await there.object(ROLLOUT, "cart")), revision, number)
    made["spec"]["template"]["spec"]["containers"][0]["image"] = image
    await there.create(REPLICA_SET, made)


def lines(page: str) -> list[str]:
    """The lines of the differences, without their marks for the style."""
    found = re.findall(r'<pre class="diff">(.*?)</pre>', page, re.DOTALL)
    return [html.unescape(re.sub(r"<[^>]*>", "", part)) for part in "".join(found).split("</span>")][:-1]


async def test_what_the_canary_changes_is_the_first_that_is_shown(there: Served) -> None:
    """Without words in the address the previous revision and the current one; of Secrets only which key is another."""
    await install(there, (OLD, SECRETS[0]), (NEW, SECRETS[1]))
    async with dashboard(there) as visitor:
        page = await visitor.get(DIFF)
        linked = (await visitor.get("/r/default/cart")).body

    shown = [line.rstrip("\n") for line in lines(page.body)]
    assert page.status == 200
    assert "Both have the same." in page.body
    assert {"-LEVEL: info", "+LEVEL: debug", "-<b>two</b>", "+<i>three</i>", "  password: changed"} <= {*shown}
    assert "hunter" not in page.body and "aHVudGVy" not in page.body
    assert "<b>two" not in page.body
    assert "kubectl rollouts config diff cart oldrev newrev --full -n default" in page.body
    assert f'href="{DIFF}"' in linked


async def test_any_two_kept_revisions_can_be_compared(there: Served) -> None:
    """By hash, number or role; the form has those that are kept, with what was chosen."""
    await install(there, (), ())
    await another_revision(there, "third", 3, "cart:9")
    async with dashboard(there) as visitor:
        for query in ("?from=oldrev&to=third", "?from=1&to=3", "?from=stable&to=%233"):
            page = (await visitor.get(DIFF + query)).body
            assert {"-  - image: cart:2\n", "+  - image: cart:9\n"} <= {*lines(page)}, query
            assert '<option value="oldrev" selected>#1 oldrev (stable)</option>' in page
            assert '<option value="third" selected>#3 third</option>' in page
        back = (await visitor.get(f"{DIFF}?from=third&to=third")).body
    assert lines(back) == []
    assert "Both have the same." in back


async def test_a_revision_that_is_not_kept_cannot_be_compared(there: Served) -> None:
    """The page says so, whatever stands in the address; no Rollout has none."""
    await install(there, (), ())
    async with dashboard(there) as visitor:
        for word in ("gone", "%3Cscript%3E", "9" * 5000):
            page = await visitor.get(f"{DIFF}?from={word}")
            assert (page.status, "There is nothing to compare" in page.body) == (200, True), word
            assert "<script>" not in page.body
        assert (await visitor.get("/r/default/none/diff")).status == 404


async def test_hostile_text_of_a_template_is_text(there: Served) -> None:
    """An image can be called anything."""
    await install(there, (), ())
    await another_revision(there, "third", 3, HOSTILE)
    async with dashboard(there) as visitor:
        page = (await visitor.get(f"{DIFF}?from=1&to=3")).body
    assert "<img" not in page
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in page


async def test_what_somebody_may_not_read_is_said(there: Served) -> None:
    """The rest is shown."""
    await install(there, (OLD, SECRETS[0]), (NEW, SECRETS[1]))
    there.door.refused = (f"/{SECRET.plural}/",)
    async with dashboard(there) as visitor:
        page = (await visitor.get(DIFF)).body
    assert "you may not read Secret" in page
    assert "+LEVEL: debug\n" in lines(page)


async def test_templates_of_any_length_do_not_stop_the_others(there: Served) -> None:
    """The time of a comparison grows with the square: above a bound the terminal does it."""
    await install(there, (), ())
    await another_revision(there, "third", 3, "x" * diff_page.TEMPLATE_MAX_BYTES)
    async with dashboard(there) as visitor:
        page = (await visitor.get(f"{DIFF}?from=1&to=3")).body
    assert "too long to be compared here" in page
    assert "kubectl rollouts diff cart oldrev third -n default" in page


def test_the_bound_of_a_comparison_is_one_of_its_time() -> None:
    """Many equal lines take difflib minutes; one change in a long text, and texts without a common line, take it little."""
    unique = [f"line {index}" for index in range(5_000)]
    changed = [*unique[:4_000], "another", *unique[4_001:]]

    assert comparison_steps(unique, unique) == 0
    assert comparison_steps(unique, changed) == 0
    assert comparison_steps(["a"] * 2_000, ["b"] * 2_000) <= diff_page.STEPS_MAX
    assert comparison_steps(REPEATED, MIXED) > 1_000 * diff_page.STEPS_MAX


async def test_texts_that_take_minutes_to_compare_are_told_by_their_first_difference(there: Served) -> None:
    """Whoever may write a ConfigMap could stop the dashboard for everybody by it; the page comes, with what is quick."""
    slow = [
        config_map("app", {"TEXT": "\n".join(each), "LEVEL": word})
        for each, word in ((REPEATED, "info"), (MIXED, "debug"))
    ]
    await install(there, (slow[0],), (slow[1],))
    async with dashboard(there) as visitor:
        page = lines((await visitor.get(DIFF)).body)

    assert "  15000 → 15000 lines; the first difference is in line 2\n" in page
    assert "+LEVEL: debug\n" in page
