"""One bad spec for every rule about `spec.configVersioning`."""

from __future__ import annotations

from typing import Any

from tests.api.specs import Bad, Spec, late, spec

_PATH = "spec.configVersioning"


def _config(**fields: Any) -> Spec:
    return spec(configVersioning=fields)


CONFIG_BAD: tuple[Bad, ...] = (
    Bad("config mode unknown", _config(mode="Copy"), f"{_PATH}.mode", "'On' or 'Off'"),
    Bad("config mode as YAML reads Off without quotes", _config(mode=False), f"{_PATH}.mode", "'On' or 'Off'"),
    Bad("secrets as a word", _config(secrets="On"), f"{_PATH}.secrets", "true or false"),
    Bad("retain as text", _config(retain="yes"), f"{_PATH}.retain", "true or false"),
    Bad("config that settles for less than nothing", _config(settleSeconds=-1), f"{_PATH}.settleSeconds", "0 or more"),
    Bad("config that settles for more than five minutes", _config(settleSeconds=301), f"{_PATH}.settleSeconds", "300 or less"),
    Bad("config that settles for a duration", _config(settleSeconds="3s"), f"{_PATH}.settleSeconds", "an integer"),
    late("unknown field of configVersioning", _config(settle=3), f"{_PATH}.settle", "unknown field"),
    Bad("configVersioning as a word", spec(configVersioning="Off"), _PATH, "must be an object"),
)  # fmt: skip
