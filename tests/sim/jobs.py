"""Jobs that the tests of the simulated cluster begin with."""

from __future__ import annotations

from typing import Any

from rollouts.objects import Manifest
from rollouts.sim.actors.processes import EXIT_CODES, RUN_SECONDS


def job(
    name: str = "smoke", *, run_s: float | str = 5.0, codes: str = "0", policy: str = "Never", **spec: Any
) -> Manifest:
    """A Job whose pods run for so long and end with these exit codes, by index or by attempt."""
    annotations = {RUN_SECONDS: str(run_s), EXIT_CODES: codes}
    pod = {"restartPolicy": policy, "containers": [{"name": "main", "image": "test:1"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"metadata": {"annotations": annotations}, "spec": pod}, **spec},
    }


def indexed(*rules: Manifest, completions: int = 3, **options: Any) -> Manifest:
    """An Indexed Job, all of whose pods may run at once, with rules of a successPolicy."""
    policy: Manifest = {"successPolicy": {"rules": list(rules)}} if rules else {}
    return job(completionMode="Indexed", completions=completions, parallelism=completions, **policy, **options)
