"""Turns `spec.configVersioning` into the core's value."""

from __future__ import annotations

from rollouts.api.v1alpha1.rollout import ConfigVersioningWire
from rollouts.core.model.config import SETTLE_S, ConfigVersioning


def config_versioning(wire: ConfigVersioningWire) -> ConfigVersioning:
    """The core's value, with all defaults."""
    return ConfigVersioning(
        enabled=wire.mode != "Off",
        secrets=bool(wire.secrets),
        settle_s=SETTLE_S if wire.settle_seconds is None else float(wire.settle_seconds),
        retain=bool(wire.retain),
    )
