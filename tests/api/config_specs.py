"""One bad spec for every rule about `spec.configVersioning`."""

from __future__ import annotations

from tests.api.specs import CANARY, Bad, changed, late

_PATH = "spec.configVersioning"

CONFIG_BAD: tuple[Bad, ...] = (
    Bad("config mode unknown", changed(CANARY, configVersioning={"mode": "Copy"}), f"{_PATH}.mode", "'On' or 'Off'"),
    Bad("config mode as YAML reads Off without quotes", changed(CANARY, configVersioning={"mode": False}),
        f"{_PATH}.mode", "'On' or 'Off'"),
    Bad("secrets as a word", changed(CANARY, configVersioning={"secrets": "On"}), f"{_PATH}.secrets", "true or false"),
    Bad("retain as text", changed(CANARY, configVersioning={"retain": "yes"}), f"{_PATH}.retain", "true or false"),
    Bad("config that settles for less than nothing", changed(CANARY, configVersioning={"settleSeconds": -1}),
        f"{_PATH}.settleSeconds", "0 or more"),
    Bad("config that settles for more than five minutes", changed(CANARY, configVersioning={"settleSeconds": 301}),
        f"{_PATH}.settleSeconds", "300 or less"),
    Bad("config that settles for a duration", changed(CANARY, configVersioning={"settleSeconds": "3s"}),
        f"{_PATH}.settleSeconds", "an integer"),
    late("unknown field of configVersioning", changed(CANARY, configVersioning={"settle": 3}), f"{_PATH}.settle",
        "unknown field"),
    Bad("configVersioning as a word", changed(CANARY, configVersioning="Off"), _PATH, "must be an object"),
)  # fmt: skip
