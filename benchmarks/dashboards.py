"""The dashboard for many people: its memory and requests with one viewer and with 200, and how soon a change is on their pages.

No controller runs: the statuses are written here, so that only what the dashboard does is measured.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from benchmarks.api import MERGE_PATCH, for_each
from benchmarks.audit import Audit
from benchmarks.figures import percentile
from benchmarks.process import running_dashboard
from benchmarks.scene import Scene
from benchmarks.workloads import ROLLOUTS, Object
from rollouts.cli.dashboard.sessions import SESSIONS_OF_ONE_MAX
from tests.build import ROLE
from tests.lab.control_plane import ControlPlane

VIEWERS = 200
CHANGES = 40
APART_S = 0.5
"""From the last page that shows a change to the next change: more than the time within which a page is sent once."""

NAMESPACE = "bench-dashboard"
PEOPLE = "bench-people"
READY_WITHIN_S = 60.0
SHOWN_WITHIN_S = 60.0
_SIGN_IN_AT_ONCE = 4  # the dashboard checks eight tokens at once
_CHANGED = "app-00000"


async def measure(scene: Scene, *, count: int) -> None:
    """N Rollouts that wait for a person; one of them changes, while one viewer looks at the list, then while 200 do."""
    accounts = VIEWERS // SESSIONS_OF_ONE_MAX
    await scene.add_namespace(NAMESPACE)
    await scene.add_namespace(PEOPLE)
    await _create(scene, count=count)
    tokens = await asyncio.to_thread(_tokens, scene.plane, accounts)
    one = await _watched(scene, tokens[:1], viewers=1, count=count)
    many = await _watched(scene, tokens, viewers=VIEWERS, count=count)
    scene.results.add("memory a viewer", (many - one) * 1024 / (VIEWERS - 1), "KiB")


@dataclass(slots=True)
class Viewer:
    """A page with the list, open in a session of its own."""

    wanted: bytes = b""
    seen: asyncio.Future[float] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def wait_for(self, text: str) -> asyncio.Future[float]:
        """When a page with this text has come."""
        self.wanted, self.seen = text.encode(), asyncio.get_running_loop().create_future()
        return self.seen

    async def read(self, answer: aiohttp.ClientResponse) -> None:
        """Reads until the page is closed."""
        tail = b""
        async for chunk in answer.content.iter_any():
            at_s = time.monotonic()
            text = tail + chunk
            if self.wanted and self.wanted in text and not self.seen.done():
                self.seen.set_result(at_s)
            tail = text[-100:]
        if not self.seen.done():
            self.seen.set_exception(RuntimeError("the dashboard has ended a live page"))


async def _watched(scene: Scene, tokens: list[str], *, viewers: int, count: int) -> float:
    """Its memory in MiB when so many look at the list, after all changes."""
    title = f"{viewers} viewers" if viewers > 1 else "1 viewer"
    audit = Audit(scene.plane, user=f"system:serviceaccount:{PEOPLE}:")
    add = scene.results.add
    with running_dashboard(scene.plane, log_folder=scene.logs) as dashboard:
        await dashboard.wait_until_ready(deadline_s=READY_WITHIN_S)
        mark = audit.mark()
        async with dashboard.staying_alive(), opened_pages(dashboard.health_url, tokens, viewers) as pages:
            await asyncio.sleep(APART_S)  # a page is there before its watch is
            opened = audit.load(since=mark)
            mark, own_s, began_s = audit.mark(), dashboard.cpu_s(), time.monotonic()
            shown_s: list[float] = []
            with scene.bar(f"changes, {title}", CHANGES) as done:
                for number in range(1, CHANGES + 1):
                    shown_s += await _change(scene, pages, number)
                    done(number)
                    await asyncio.sleep(APART_S)
            lasted_s, own_s = time.monotonic() - began_s, dashboard.cpu_s() - own_s
            load, rss_mib, peak_mib = audit.load(since=mark), dashboard.rss_mib(), dashboard.peak_rss_mib()
    reviews = load.kinds.get("create selfsubjectreviews", 0)
    add(f"{title}: RSS with {count:,} Rollouts", rss_mib, "MiB")
    add(f"{title}: peak RSS", peak_mib, "MiB")
    add(f"{title}: requests to open the pages", opened.requests, "")
    add(f"{title}: requests during {CHANGES} changes, reviews of tokens aside", load.requests - reviews, "", limit=0)
    add(f"{title}: reviews of tokens in those {lasted_s:.0f} s", reviews, "")
    add(f"{title}: dashboard's CPU a change", own_s / CHANGES * 1000, "ms")
    add(f"{title}: change to page, median", percentile(shown_s, 50) * 1000, "ms", limit=1000)
    add(f"{title}: change to page, p99", percentile(shown_s, 99) * 1000, "ms")
    scene.results.requests |= {f"{title}: opened": dict(opened.kinds), f"{title}: changes": dict(load.kinds)}
    scene.results.series[f"change to page, {title}"] = shown_s
    return rss_mib


async def _change(scene: Scene, pages: list[Viewer], number: int) -> list[float]:
    """The seconds from before the write until each page has shown it."""
    ready = 1_000 + number
    seen = [page.wait_for(f"{ready}, 2 wanted") for page in pages]
    began_s = time.monotonic()
    await _write_status(scene, _CHANGED, {"readyReplicas": ready})
    async with asyncio.timeout(SHOWN_WITHIN_S):
        return [at_s - began_s for at_s in await asyncio.gather(*seen)]


@asynccontextmanager
async def opened_pages(url: str, tokens: list[str], viewers: int) -> AsyncIterator[list[Viewer]]:
    """So many pages of the list, each in a session of its own, once all show it."""
    turns = asyncio.Semaphore(_SIGN_IN_AT_ONCE)
    pages = [Viewer() for _ in range(viewers)]

    async with AsyncExitStack() as kept, asyncio.TaskGroup() as reading:
        tasks: list[asyncio.Task[None]] = []

        async def open_one(page: Viewer, token: str) -> None:
            jar = aiohttp.CookieJar(unsafe=True)  # also of an IP address
            limits = aiohttp.ClientTimeout(total=None, sock_connect=SHOWN_WITHIN_S)
            browser = await kept.enter_async_context(aiohttp.ClientSession(url, cookie_jar=jar, timeout=limits))
            async with turns:
                form = {"token": token, "next": "/"}
                answer = await browser.post("/login", data=form, headers={"Origin": url}, allow_redirects=False)
                if answer.status != 303:
                    raise RuntimeError(f"sign-in: {answer.status} {await answer.text()}")
                stream = await kept.enter_async_context(browser.get("/events"))
                seen = page.wait_for("<table")
                tasks.append(reading.create_task(page.read(stream)))
                async with asyncio.timeout(SHOWN_WITHIN_S):
                    await seen

        async with asyncio.TaskGroup() as opening:
            for page, token in zip(pages, itertools.cycle(tokens)):
                opening.create_task(open_one(page, token))
        yield pages
        for task in tasks:
            task.cancel()


async def _create(scene: Scene, *, count: int) -> None:
    waits = {"reason": "PromotionNeeded", "message": "step 1: waiting for promotion", "since": "2026-11-21T10:00:00Z"}
    status = {"phase": "Paused", "currentStepIndex": 0, "replicas": 2, "readyReplicas": 2, "waitingFor": waits}

    async def create(number: int) -> None:
        name = f"app-{number:05}"
        await scene.api.request("POST", ROLLOUTS.collection(NAMESPACE), ROLLOUTS.manifest(name, image="app:1"))
        await _write_status(scene, name, status)

    with scene.bar("Rollouts", count):
        await for_each(range(count), create)


async def _write_status(scene: Scene, name: str, status: Object) -> None:
    path = f"{ROLLOUTS.collection(NAMESPACE)}/{name}/status"
    await scene.api.request("PATCH", path, {"status": status}, content_type=MERGE_PATCH)


def _tokens(plane: ControlPlane, count: int) -> list[str]:
    """Of accounts that may look at all Rollouts."""
    rules = [{"apiGroups": ["rollouts.dev"], "resources": ["rollouts"], "verbs": ["get", "list", "watch"]}]
    role = {"apiGroup": ROLE.group, "kind": "ClusterRole", "name": PEOPLE}
    group = {"apiGroup": ROLE.group, "kind": "Group", "name": f"system:serviceaccounts:{PEOPLE}"}
    plane.apply(
        {"apiVersion": ROLE.api_version, "kind": "ClusterRole", "metadata": {"name": PEOPLE}, "rules": rules},
        {
            "apiVersion": ROLE.api_version,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": PEOPLE},
            "roleRef": role,
            "subjects": [group],
        },
    )
    tokens, below = [], f"/api/v1/namespaces/{PEOPLE}/serviceaccounts"
    for number in range(count):
        name = f"viewer-{number:02}"
        plane.api.post(below, json={"metadata": {"name": name}}).raise_for_status()
        asked = plane.api.post(f"{below}/{name}/token", json={"spec": {"expirationSeconds": 7_200}})
        tokens.append(str(asked.raise_for_status().json()["status"]["token"]))
    return tokens
