"""Templates of analyses that an installation brings along.

Helm cannot create objects of a kind that the same install brings: it asks once what the API server serves. So the first install
gives them to the controller as files; an upgrade creates what is missing itself, and takes the files away.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import structlog

from rollouts.cluster.client import Client
from rollouts.errors import ApiExists, ApiNotFound, RolloutsError, TransientError
from rollouts.objects import CLUSTER_ANALYSIS_TEMPLATE, Manifest

TRY_AGAIN_FIRST_S, TRY_AGAIN_MAX_S = 2.0, 60.0

log = structlog.get_logger()


def templates_in(folder: Path) -> list[Manifest]:
    """The objects of its files, by their names. Raises: OSError, ValueError."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]


async def create_templates(folder: Path, client: Client) -> None:
    """Creates the ClusterAnalysisTemplates that are in the folder as JSON and not in the cluster, and changes none.

    Waits until their kind is served. What is refused is logged and left out. Raises: nothing on purpose. Cancellation: safe.
    """
    try:
        waiting = templates_in(folder)
    except (OSError, ValueError) as error:
        log.error("templates_unreadable", folder=str(folder), why=str(error), remedy="upgrade the chart's release")
        return
    delay_s = TRY_AGAIN_FIRST_S
    while waiting:
        name = waiting[-1]["metadata"]["name"]
        try:
            await client.create(CLUSTER_ANALYSIS_TEMPLATE, None, waiting[-1])
            log.info("template_created", template=name)
        except ApiExists:
            pass
        except (ApiNotFound, TransientError):
            await asyncio.sleep(delay_s)
            delay_s = min(TRY_AGAIN_MAX_S, delay_s * 2)
            continue
        except RolloutsError as error:
            log.error("template_refused", template=name, why=str(error), remedy="upgrade the chart's release")
        waiting.pop()
