"""MetricProviders for monitoring services, from the Secrets that Argo Rollouts and Flagger read by their names and keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from rollouts.cli.migrate.outcome import Migration, Told
from rollouts.core.analysis.recipes import RECIPES
from rollouts.objects import METRIC_PROVIDER, Manifest, mapping

UNKNOWN = "to-be-set"
TO_BE_SET = f"https://{UNKNOWN}.invalid"
"""URL of a service whose address stands in a Secret, or nowhere."""


class VendorSecret(Struct, frozen=True, kw_only=True):
    """What a service's Secret has.

    Args:
        name: that is read where the metric names none.
        url: of the service where nothing else says it.
        headers: with the key of each.
        bearer: key of the token.
        settings: which the Secret has too; an administrator writes them into the MetricProvider.
    """

    name: str = ""
    url: str = TO_BE_SET
    headers: Mapping[str, str] = {}
    bearer: str = ""
    settings: tuple[str, ...] = ()


ARGO: Mapping[str, VendorSecret] = {
    "datadog": VendorSecret(
        name="datadog",
        url="https://api.datadoghq.com",
        headers={"DD-API-KEY": "api-key", "DD-APPLICATION-KEY": "app-key"},
    ),
    "newRelic": VendorSecret(
        name="newrelic",
        url="https://api.newrelic.com",
        headers={"API-Key": "personal-api-key"},
        settings=("accountId",),
    ),
    "influxdb": VendorSecret(name="influxdb", bearer="authToken", settings=("org",)),
    "wavefront": VendorSecret(name="wavefront-api-tokens"),
    "graphite": VendorSecret(),
    "skywalking": VendorSecret(),
    "cloudWatch": VendorSecret(),
}
"""By kind. Source: https://argo-rollouts.readthedocs.io/en/stable/features/analysis/, the page of each provider."""


class VendorAccount(Struct, frozen=True, kw_only=True):
    """What metrics of a service are asked with.

    Args:
        name: of the MetricProvider.
        secret_name: of the Secret with its credentials; "" for none.
        url: "" where the input does not say it.
        region: of AWS; "" where the input does not say it.
        to_do: what an administrator has to write besides what follows from the kind.
    """

    kind: str
    name: str
    secret: VendorSecret
    secret_name: str
    url: str = ""
    region: str = ""
    to_do: tuple[str, ...] = ()

    @property
    def provider_spec(self) -> Manifest:
        """The spec of its MetricProvider."""
        secret, recipe = self.secret, RECIPES[self.kind]
        numbers = {setting.name for setting in recipe.settings if setting.number}
        spec: Manifest = {
            "type": self.kind,
            "url": self.url or secret.url,
            "headers": [{"name": header, "valueFrom": self._key(key)} for header, key in secret.headers.items()],
            "bearer": self._key(secret.bearer) if secret.bearer else None,
            "settings": {name: "0" if name in numbers else UNKNOWN for name in secret.settings},
            "sigv4": {"region": self.region or UNKNOWN} if recipe.service else None,
        }
        return {name: value for name, value in spec.items() if value}

    def _key(self, key: str) -> dict[str, Any]:
        return {"secretKeyRef": {"name": self.secret_name, "key": key}}


def declare_vendor(migration: Migration, source: Manifest, path: str, account: VendorAccount) -> None:
    """Adds the MetricProvider of a service, once, with notes on what an administrator has to do."""
    others = [made.manifest for made in migration.made if made.manifest.get("kind") == METRIC_PROVIDER.kind]
    if any(mapping(other.get("metadata")).get("name") == account.name for other in others):
        return
    spec, secret, name = account.provider_spec, account.secret, account.name
    migration.add({**METRIC_PROVIDER.head, "metadata": {"name": name}, "spec": spec}, source)
    title = RECIPES[account.kind].title
    what = f"MetricProvider {name} lets metrics ask {title}; an administrator has to apply it"
    if secret.headers or secret.bearer:
        where = "in the controller's namespace and in analysis.secrets of the chart's values"
        what += f", with Secret {account.secret_name} {where}"
    migration.note(Told.CHANGED, source, path, what)
    left = [*(f"{setting} into spec.settings.{setting}" for setting in secret.settings), *account.to_do]
    if spec["url"] == TO_BE_SET:
        left.insert(0, f"the URL of {title} into spec.url")
    if "sigv4" in spec and not account.region:
        left.append("the region into spec.sigv4.region")
    for each in left:
        migration.note(Told.TO_DO, source, path, f"MetricProvider {name}: write {each}")
