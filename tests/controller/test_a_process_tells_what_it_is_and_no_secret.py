"""The controller as a process of its own: what its log and its metrics say, and what they never say."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web

from tests.cluster.test_connection import kubeconfig, serving
from tests.controller.health.test_probes_are_answered import free_address

PLANTED = "hunter2-planted"


async def ran(kubeconfig_path: Path, *, until: str, **environment: str) -> tuple[list[dict[str, str]], str]:
    """The log lines of a controller up to the event `until` and its orderly end, and its metrics."""
    port = free_address().port
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rollouts", "controller", "--kubeconfig", str(kubeconfig_path)),
        *("--metrics-address", f"127.0.0.1:{port}"),
        env={**os.environ, **environment},
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    lines: list[dict[str, Any]] = []
    try:
        async with asyncio.timeout(60):
            while not lines or lines[-1]["event"] != until:
                lines.append(json.loads(await process.stderr.readline()))
            async with ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
                metrics = await answer.text()
            process.terminate()
            rest, _ = await asyncio.gather(process.stderr.read(), process.wait())
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    return [*lines, *map(json.loads, rest.splitlines())], metrics


@pytest.mark.parametrize(("wanted", "loop"), [("1", "uvloop"), ("0", "asyncio")])
async def test_the_start_log_says_which_event_loop_runs(tmp_path: Path, wanted: str, loop: str) -> None:
    """An image without uvloop costs a tenth more CPU, and nobody saw it."""
    path = kubeconfig(tmp_path, "http://127.0.0.1:1", {})

    lines, _ = await ran(path, until="starting", ROLLOUTS_UVLOOP=wanted)

    assert lines[0]["event_loop"] == loop


@pytest.mark.parametrize("status", [401, *[pytest.param(each, marks=pytest.mark.long) for each in (200, 403, 500)]])
async def test_no_log_line_and_no_metric_has_the_token(tmp_path: Path, status: int) -> None:
    """Whatever the server answers; also when it does not speak as an API server does."""

    async def answers(_request: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "code": status, "message": "no"}, status=status)

    async with serving(answers) as url:
        lines, metrics = await ran(kubeconfig(tmp_path, url, {"token": PLANTED}), until="watch_trouble")

    assert PLANTED not in json.dumps(lines)
    assert PLANTED not in metrics
    assert re.search(r'rollouts_watch_age_seconds\{resource="rollouts"\} \+Inf', metrics)
