"""Promise: what templates may ask is what the flags say, and without one of them nothing that nobody declared."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.clock import SystemClock
from rollouts.controller.adapters import metric_asker
from rollouts.metrics.requests import HttpRequest, MetricEndpoint, NoAnswer
from rollouts.settings import Settings, parse_metric_settings
from tests.probes.servers import ok, serving


@pytest.mark.parametrize(
    ("flags", "url", "words"),
    [
        ({}, "https://metrics.example", "only endpoints that an administrator declared"),
        ({}, "https://93.184.216.34", "only endpoints that an administrator declared"),
        ({"tenant_hosts": ["*.example"]}, "https://metrics.other", "not one that the administrator allows"),
        ({"tenant_hosts": ["*"]}, "http://metrics.example", "must begin with https://"),
        ({"tenant_hosts": ["*"]}, "https://metrics.example:6443", "port 6443 may not be asked"),
        ({"tenant_hosts": ["*"], "tenant_ports": [9090]}, "https://metrics.example", "port 443 may not be asked"),
        ({"tenant_hosts": ["*"]}, "https://127.0.0.1", "may not be asked"),
        ({"tenant_hosts": ["localhost"]}, "https://localhost", "may not be asked"),
        ({"tenant_hosts": ["*"]}, "https://169.254.169.254", "may not be asked"),
        ({"tenant_hosts": ["*"], "refused_networks": ["93.184.216.0/24"]}, "https://93.184.216.34", "may not be asked"),
        ({"tenant_hosts": ["*"], "tenant_http": True, "tenant_ports": [80]}, "http://10.0.0.1", "may not be asked"),
    ],
)
async def test_a_url_of_a_template_needs_a_flag_for_each_part(flags: dict[str, Any], url: str, words: str) -> None:
    """Host, port, TLS, and at last the address, which no flag makes a private one."""
    asker = metric_asker(Settings(metrics=parse_metric_settings(**flags)), clock=SystemClock())
    answer = await asker.ask(HttpRequest(url=url, timeout_s=5), MetricEndpoint(url=url), deadline_s=5)
    await asker.aclose()

    assert isinstance(answer, NoAnswer)
    assert words in answer.why


async def test_a_declared_server_needs_none() -> None:
    """It is an administrator who named it, at a private address too."""
    asker = metric_asker(Settings(), clock=SystemClock())
    async with serving({"/": ok([])}) as server:
        endpoint = MetricEndpoint(url=server.url(), declared=True)
        answer = await asker.ask(HttpRequest(url=server.url(), timeout_s=5), endpoint, deadline_s=5)
    await asker.aclose()

    assert not isinstance(answer, NoAnswer)
