"""Promise: whoever has a Deployment gets from `rollouts dashboard` to a promoted canary by what the screen says alone.

Each command is typed as a page shows it, with its capitals filled in; docs/dashboard.md has the pictures that are taken here.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from rollouts.objects import Manifest
from tests.build import deployment, granted
from tests.cli.test_the_dashboard_in_a_browser import CHROMIUM, PATIENCE_MS, chromium, opened
from tests.e2e.controllers import ROOT
from tests.e2e.pictures import pictured
from tests.e2e.stage import Stage

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
]
WITHIN_S = 180.0
HAS: Manifest = {"apiGroups": ["", "apps", "rollouts.dev"], "resources": ["*"], "verbs": ["*"]}


def kubeconfig_of_newcomer(stage: Stage) -> Path:
    """Of somebody who may do everything in one namespace."""
    below = f"/api/v1/namespaces/{stage.namespace}/serviceaccounts"
    stage.plane.api.post(below, json={"metadata": {"name": "newcomer"}}).raise_for_status()
    subject = {"kind": "ServiceAccount", "name": "newcomer", "namespace": stage.namespace}
    stage.plane.apply(*granted("newcomer", stage.namespace, [HAS], to=subject))
    return stage.plane.service_account_kubeconfig(stage.namespace, "newcomer")


async def shown_commands(page: Page, **filled_in: str) -> str:
    """The commands that the page shows, with its words in capitals filled in."""
    text = "\n".join(await page.locator("code.line:visible").all_inner_texts())
    for word, value in filled_in.items():
        assert word in text
        text = text.replace(word, value)
    return text


async def promote(page: Page) -> None:
    """By the button, and by the one that it leads to."""
    await page.get_by_role("link", name="Promote", exact=True).click()
    await pictured(page, "promote")
    await page.get_by_role("button", name="Promote", exact=True).click()
    await expect(page.get_by_text("the controller has recorded the command")).to_be_visible()


async def test_from_one_command_to_a_promoted_canary(stage: Stage, tmp_path: Path) -> None:
    """The empty list says how a first Rollout is made, its page how an update begins, and the waiting canary what to press."""
    kubeconfig = kubeconfig_of_newcomer(stage)
    stage.apply(deployment("web", replicas=4, image="web:1"))
    has: Mapping[str, str] = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
        "KUBECONFIG": str(kubeconfig),
    }

    async def typed(text: str) -> str:
        return await asyncio.to_thread(
            stage.plane.typed, text, home=tmp_path, cwd=tmp_path, within_s=WITHIN_S, env=has, kubeconfig=kubeconfig
        )

    wrong: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-m", "rollouts", "dashboard", "-p", "0"], env=has, stdout=subprocess.PIPE, text=True
    ) as program:
        try:
            assert program.stdout is not None
            said, address = program.stdout.readline().split()
            assert said == "open"
            async with chromium() as browser:
                page = await opened(await browser.new_context(), address, wrong)
                await expect(page.get_by_role("heading", name="There are no Rollouts here yet")).to_be_visible()
                await pictured(page, "empty")
                await typed(await shown_commands(page, NAME="web"))

                await page.get_by_role("link", name="web", exact=True).click()
                await expect(page).to_have_title("Healthy: web", timeout=PATIENCE_MS)
                await pictured(page, "healthy")
                await typed(await shown_commands(page, IMAGE="web:2"))

                await expect(page.get_by_role("heading", name="Step 2: waiting for promotion")).to_be_visible()
                await pictured(page, "step")
                await page.get_by_role("link", name="Rollouts", exact=True).click()
                await expect(page.get_by_role("heading", level=1)).to_have_text("1 Rollout, 1 waits for a person")
                await pictured(page, "list")
                await page.get_by_role("link", name="web", exact=True).click()
                await promote(page)
                await expect(page.get_by_role("heading", name="Step 4: pause of 60 s")).to_be_visible()
                await promote(page)
                await expect(page).to_have_title("Healthy: web", timeout=PATIENCE_MS)
                await pictured(page, "promoted")
        finally:
            program.terminate()

    assert wrong == []
    rollout = stage.wait_ready("web")
    assert rollout["status"]["currentRevision"] == rollout["status"]["stableRevision"]
    assert rollout["spec"]["template"]["spec"]["containers"][0]["image"] == "web:2"
