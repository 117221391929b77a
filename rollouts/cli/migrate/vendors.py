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

FLAGGER: Mapping[str, tuple[str, VendorSecret]] = {
    "datadog": (
        "datadog",
        VendorSecret(
            url="https://api.datadoghq.com",
            headers={"DD-API-KEY": "datadog_api_key", "DD-APPLICATION-KEY": "datadog_application_key"},
        ),
    ),
    "dynatrace": ("dynatrace", VendorSecret(bearer="dynatrace_token")),
    "splunk": ("splunk", VendorSecret(headers={"X-SF-TOKEN": "sf_token_key"})),
    "graphite": ("graphite", VendorSecret()),
    "influxdb": ("influxdb", VendorSecret(bearer="token", settings=("org",))),
}
"""Kind and Secret by the type of a MetricTemplate. Source: https://docs.flagger.app/usage/metrics"""


def declare_vendor(
    migration: Migration,
    source: Manifest,
    path: str,
    kind: str,
    name: str,
    secret_name: str,
    secret: VendorSecret,
    url: str,
) -> None:
    """Adds the MetricProvider of a service, once, with notes on what an administrator has to do.

    Args:
        name: of the MetricProvider.
        secret_name: of the Secret with its credentials; "" for none.
        url: "" where the input does not say it.
    """
    others = [made.manifest for made in migration.made if made.manifest.get("kind") == METRIC_PROVIDER.kind]
    if any(mapping(other.get("metadata")).get("name") == name for other in others):
        return
    spec = _provider_spec(kind, secret, secret_name, url)
    migration.add({**METRIC_PROVIDER.head, "metadata": {"name": name}, "spec": spec}, source)
    title = RECIPES[kind].title
    what = f"MetricProvider {name} lets metrics ask {title}; an administrator has to apply it"
    if secret.headers or secret.bearer:
        where = "in the controller's namespace and in analysis.secrets of the chart's values"
        what += f", with Secret {secret_name} {where}"
    migration.note(Told.CHANGED, source, path, what)
    left = [f"{setting} into spec.settings.{setting}" for setting in secret.settings]
    if spec["url"] == TO_BE_SET:
        left.insert(0, f"the URL of {title} into spec.url")
    if "sigv4" in spec:
        left.append("the region into spec.sigv4.region")
    for each in left:
        migration.note(Told.TO_DO, source, path, f"MetricProvider {name}: write {each}")


def _provider_spec(kind: str, secret: VendorSecret, secret_name: str, url: str) -> Manifest:
    spec: Manifest = {"type": kind, "url": url or secret.url}
    if secret.headers:
        keys = secret.headers.items()
        spec["headers"] = [{"name": header, "valueFrom": _key(secret_name, key)} for header, key in keys]
    if secret.bearer:
        spec["bearer"] = _key(secret_name, secret.bearer)
    if secret.settings:
        numbers = {setting.name for setting in RECIPES[kind].settings if setting.number}
        spec["settings"] = {name: "0" if name in numbers else UNKNOWN for name in secret.settings}
    if RECIPES[kind].service:
        spec["sigv4"] = {"region": UNKNOWN}
    return spec


def _key(name: str, key: str) -> dict[str, Any]:
    return {"secretKeyRef": {"name": name, "key": key}}
