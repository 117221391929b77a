"""Situations that are drawn: pods in all states, metrics with gaps, any behavior. One seed, so that a failure comes again."""

from __future__ import annotations

import random
from typing import Any

from rollouts.objects import Manifest
from tests.contract.autoscaling.named import AT_ONCE, LONG_S, READY, by_average, by_container, by_cpu
from tests.contract.autoscaling.situations import JUST_NOW_S, LONG_AGO_S, Pod, Situation, Stage, Usage

_NAMES = ("app", "proxy")


def drawn(count: int, *, seed: int = 15) -> tuple[Situation, ...]:
    rng = random.Random(seed)  # noqa: S311  # it draws situations
    return tuple(_situation(rng, f"drawn-{number}") for number in range(count))


def _situation(rng: random.Random, name: str) -> Situation:
    containers = _NAMES[: rng.choice((1, 1, 2))]
    pods = tuple(_pod(rng, containers) for _ in range(rng.randint(1, 6)))
    stages = tuple(
        Stage(usage=tuple(_usage(rng, containers, rng.choice((5, 40, 60, 100, 300))) for _ in pods))
        for _ in range(rng.choice((1, 1, 2)))
    )
    replicas = max(0, len(pods) + rng.choice((0, 0, 0, 0, -1, 1, 3)))
    return Situation(name=name, spec=_spec(rng, containers), replicas=replicas, pods=pods, stages=stages)


def _pod(rng: random.Random, containers: tuple[str, ...]) -> Pod:
    requests = {
        each: {"cpu": rng.choice(("50m", "100m", "0.25", "1")), "memory": rng.choice(("64Mi", "100M"))}
        for each in containers
    }
    kind = rng.choice(("ready",) * 7 + ("pending", "starting", "unready", "young", "failed", "deleted"))
    match kind:
        case "pending":
            return Pod(requests=requests, phase="Pending", ready="False", age_s=None)
        case "starting":
            return Pod(requests=requests, age_s=JUST_NOW_S, ready="False", ready_age_s=JUST_NOW_S)
        case "unready":
            since_s = rng.choice((LONG_AGO_S - 10, 100))
            return Pod(requests=requests, ready="False", ready_age_s=since_s)
        case "young":
            return Pod(requests=requests, age_s=JUST_NOW_S, ready_age_s=5)
        case "failed":
            return Pod(requests=requests, phase="Failed", ready="False")
        case "deleted":
            return Pod(requests=requests, deleted=True)
        case _:
            return Pod(requests=requests, age_s=READY.age_s)


def _usage(rng: random.Random, containers: tuple[str, ...], about_percent: int) -> Usage | None:
    if rng.random() < 0.15:
        return None
    found: dict[str, dict[str, str]] = {}
    for each in containers:
        millicores = max(0, round(about_percent * rng.uniform(0.5, 1.5)))
        figures = {"cpu": rng.choice((f"{millicores}m", f"{millicores * 1000 + 7}u", f"{millicores}123456n"))}
        figures["memory"] = rng.choice((f"{rng.randint(1, 200)}Mi", f"{rng.randint(1, 10**8)}", "12345Ki"))
        if rng.random() < 0.05:
            del figures["cpu"]
        found[each] = figures
    return Usage(containers=found, age_s=rng.choice((0, 0, 60)), window=rng.choice(("15s", "14.9s", "1m0.5s")))


def _spec(rng: random.Random, containers: tuple[str, ...]) -> Manifest:
    percent = rng.choice((10, 30, 50, 80, 100, 120))
    match rng.choice(("cpu", "cpu", "container", "memory", "average", "both")):
        case "container":
            spec = by_container(rng.choice(containers), percent, resource=rng.choice(("cpu", "memory")))
        case "memory":
            spec = by_average("memory", rng.choice(("10Mi", "50Mi", "1Gi")))
        case "average":
            spec = by_average("cpu", rng.choice(("20m", "100m", "1")))
        case "both":
            more = [*by_average("memory", "30Mi")["metrics"], *by_container(containers[-1], percent)["metrics"]]
            spec = {**by_cpu(percent), "metrics": [*by_cpu(percent)["metrics"], *more]}
        case _:
            spec = by_cpu(percent)
    least = rng.choice((1, 1, 2, 4))
    spec |= {"minReplicas": least, "maxReplicas": least + rng.choice((0, 2, 8, 40))}
    behavior = rng.choice((None, AT_ONCE, "policies"))
    if behavior is not None:
        spec["behavior"] = (
            {"scaleUp": _rules(rng), "scaleDown": _rules(rng)} if behavior == "policies" else _fixed_up(rng)
        )
    return spec


def _fixed_up(rng: random.Random) -> Manifest:
    """It may grow at once: the default policy of 15 s would be seen in a part of the plays only."""
    return {
        **AT_ONCE,
        "scaleUp": {"policies": [{"type": "Percent", "value": rng.choice((900, 5000)), "periodSeconds": LONG_S}]},
    }


def _rules(rng: random.Random) -> dict[str, Any]:
    policies = [
        {"type": rng.choice(("Pods", "Percent")), "value": rng.choice((1, 2, 5, 20, 100)), "periodSeconds": LONG_S}
        for _ in range(rng.choice((1, 2)))
    ]
    return {
        "stabilizationWindowSeconds": rng.choice((0, 0, 0, 3600)),
        "selectPolicy": rng.choice(("Max", "Max", "Min", "Disabled")),
        "policies": policies,
        **({"tolerance": rng.choice(("0", "0.05", "0.3"))} if rng.random() < 0.2 else {}),
    }
