"""One metric: its rules, and core's words for it.

What still holds `{{args.name}}` is not judged: its argument has no value yet. Source of the rules: Argo Rollouts' validation.
"""

from __future__ import annotations

import json

from rollouts.api.problems import Problems
from rollouts.api.spec.analysis.cluster_metrics import check_cluster_source, cluster_source
from rollouts.api.spec.analysis.comparisons import check_comparison, core_comparison
from rollouts.api.spec.reading import check_needed, core_value, given_of
from rollouts.api.v1alpha1.analysis_template import (
    PLANNED,
    AuthenticationWire,
    CompareOfWire,
    KubernetesWire,
    MetricHeader,
    MetricSourceWire,
    MetricWire,
    PrometheusWire,
    WebWire,
)
from rollouts.api.v1alpha1.metric_servers import server_given
from rollouts.api.v1alpha1.template_scalars import OPEN
from rollouts.api.v1alpha1.wire import Wire, attributes_of, wire_name
from rollouts.core.analysis import metric as core
from rollouts.core.analysis import source
from rollouts.core.analysis.cluster_source import ClusterSource
from rollouts.core.analysis.recipe import ADDRESS, Recipe, fields_with
from rollouts.core.analysis.recipes import RECIPES

INTERVAL_MIN_S = 1.0
"""Between two measurements: what is asked more often loads a server and tells nothing new."""

TIMEOUT_MAX_S = 300
WINDOW_MAX_S = 604_800
"""A week. What is older says nothing about an update, and no server must work it out again with each measurement."""
_CARRIED_OUT = ", ".join(
    (*("prometheus", "web", "job", "kubernetes", "compare", "containerResource", "hpa", "customMetric"), *RECIPES)
)
_CARRIED_OUT += " and externalMetric"
_INSTEAD = {
    "kayenta": "compare canary and stable by a statistical test (compare), or ask its server for a verdict by job or web",
    "plugin": "declare the server as a MetricProvider with a recipe of its own (declared), or ask it by web or job",
}
"""Of Argo Rollouts' sources that are refused by name: what to write in their place."""
_LIMITS = (
    ("count", 0),
    ("failure_limit", -1),
    ("inconclusive_limit", 0),
    ("consecutive_error_limit", 0),
    ("consecutive_success_limit", 0),
    ("min_samples", 0),
)


def check_metric(wire: MetricWire, path: str, problems: Problems) -> None:
    """Adds every rule that the metric breaks."""
    check_needed(wire, path, problems, "name")
    for attribute, least in _LIMITS:
        value = getattr(wire, attribute)
        if isinstance(value, int) and value < least:
            off = ", or -1 for any number of failures" if least < 0 else ""
            message = f"must be {max(least, 0)} or more{off}, not {value}"
            problems.add(f"{path}.{wire_name(MetricWire, attribute)}", message)
    if _number(wire.failure_limit, 0) == -1 and _number(wire.consecutive_success_limit, 0) == 0:
        message = "is off, and so is consecutiveSuccessLimit: then nothing could decide the metric"
        problems.add(f"{path}.failureLimit", message)
    _check_count(wire, path, problems)
    if isinstance(wire.interval, float) and wire.interval < INTERVAL_MIN_S:
        problems.add(f"{path}.interval", f"must be {INTERVAL_MIN_S:g}s or more")
    if wire.provider is None:
        problems.add_missing(f"{path}.provider", f"is required: one of {_CARRIED_OUT}")
        return
    _check_source(wire.provider, f"{path}.provider", problems)
    if (web := wire.provider.web) is not None and web.result == "status" and not wire.success_condition:
        why = "is required with result: status, which any answer has: say which are good, such as result == 200"
        problems.add_missing(f"{path}.successCondition", why)
    if wire.provider.compare is not None:
        check_comparison(wire, wire.provider.compare, path, problems)


def _check_count(wire: MetricWire, path: str, problems: Problems) -> None:
    count = _number(wire.count, 0)
    if not count or count < 0:
        return
    failures = _number(wire.failure_limit, 0)
    successes = _number(wire.consecutive_success_limit, 0)
    inconclusive = _number(wire.inconclusive_limit, 0)
    if failures is not None and successes is not None and count < max(failures, 0) + successes:
        problems.add(
            f"{path}.count",
            f"is {count} and must be at least failureLimit + consecutiveSuccessLimit, which is {max(failures, 0) + successes}",
        )
    if inconclusive is not None and count < inconclusive:
        problems.add(f"{path}.count", f"is {count} and must be at least inconclusiveLimit, which is {inconclusive}")
    if count > 1 and wire.interval is None:
        problems.add_missing(f"{path}.interval", "is required when count is more than 1")


def _number(value: int | str | None, default: int) -> int | None:
    """None for what is not known yet."""
    if value is None:
        return default
    return value if isinstance(value, int) else None


def _check_source(wire: MetricSourceWire, path: str, problems: Problems) -> None:
    given = given_of(wire)
    for name in given:
        if name in PLANNED:
            problems.add(f"{path}.{name}", f"is not supported: {_INSTEAD[name]}")
    if len(given) != 1:
        problems.add_missing(path, f"needs exactly one of {_CARRIED_OUT}; it has {' and '.join(given) or 'none'}")
    _check_number_source(wire, path, problems)
    if wire.job is not None:
        _check_not_empty(wire.job, f"{path}.job", problems, "spec")
    if wire.compare is not None and wire.compare.of is not None:
        _check_number_source(wire.compare.of, f"{path}.compare.of", problems)
        of_each_arm = wire.compare.of.web or WebWire.empty()
        for name, is_given in (("result", of_each_arm.result == "status"), ("notYet", bool(of_each_arm.not_yet))):
            if is_given:
                why = "is for a metric of its own: a comparison needs the numbers of both arms"
                problems.add(f"{path}.compare.of.web.{name}", why)
    if wire.kubernetes is not None:
        _check_range(wire.kubernetes.max_restarts, f"{path}.kubernetes.maxRestarts", problems, least=0)
        ready = f"{path}.kubernetes.minReadyPercent"
        _check_range(wire.kubernetes.min_ready_percent, ready, problems, least=0, most=100)


def _check_number_source(wire: MetricSourceWire | CompareOfWire, path: str, problems: Problems) -> None:
    """Checks the sources that give a number: of a metric by itself, or of each arm of a comparison."""
    if wire.prometheus is not None:
        _check_prometheus(wire.prometheus, f"{path}.prometheus", problems)
    if wire.web is not None:
        _check_web(wire.web, f"{path}.web", problems)
    for recipe, server in server_given(wire):
        _check_server(recipe, server, f"{path}.{recipe.name}", problems)
    check_cluster_source(wire, path, problems)


def _check_server(recipe: Recipe, wire: Wire, path: str, problems: Problems) -> None:
    """Checks what the recipe of a server says of its metrics."""
    check_needed(wire, path, problems)
    for name, attribute in attributes_of(type(wire)).items():
        value = getattr(wire, attribute)
        if isinstance(value, str) and attribute in fields_with(ADDRESS, recipe.fields):
            _check_url(value, f"{path}.{name}", problems)
        if isinstance(value, int | float) and not 0 < value <= WINDOW_MAX_S:
            problems.add(f"{path}.{name}", f"must be more than 0 and at most {WINDOW_MAX_S}")
    for name, why in recipe.fields.problems(wire.model_dump(by_alias=True, exclude_none=True)):
        problems.add_missing(f"{path}.{name}", why) if "required" in why else problems.add(f"{path}.{name}", why)


def _check_prometheus(wire: PrometheusWire, path: str, problems: Problems) -> None:
    _check_not_empty(wire, path, problems, "query")
    if wire.address is not None:
        _check_url(wire.address, f"{path}.address", problems)
        if wire.metric_provider is not None:
            problems.add(f"{path}.address", "and metricProvider name a server both; give one of them")
    _check_range(wire.timeout, f"{path}.timeout", problems, least=1, most=TIMEOUT_MAX_S)
    _check_headers(wire.headers, path, problems)
    _check_authentication(wire.authentication, path, problems)
    if wire.range_query is not None:
        why = "is required, and must not be empty or 0"
        _check_not_empty(wire.range_query, f"{path}.rangeQuery", problems, "start", "end", "step", why=why)


def _check_web(wire: WebWire, path: str, problems: Problems) -> None:
    _check_not_empty(wire, path, problems, "url")
    if wire.url:
        _check_url(wire.url, f"{path}.url", problems)
    for name, body in (("body", wire.body), ("jsonBody", wire.json_body)):
        if body and wire.method in (None, "GET"):
            problems.add(f"{path}.{name}", "needs method POST or PUT")
    if wire.json_path and wire.result == "status":
        problems.add(f"{path}.jsonPath", "leads into the body, and result: status is not about the body; leave one out")
    if wire.body and wire.json_body is not None:
        problems.add(f"{path}.body", "and jsonBody are both given; give one of them")
    _check_range(wire.timeout_seconds, f"{path}.timeoutSeconds", problems, least=1, most=TIMEOUT_MAX_S)
    _check_headers(wire.headers, path, problems)
    _check_authentication(wire.authentication, path, problems)


def _check_url(url: str, path: str, problems: Problems) -> None:
    if not url.isprintable() or " " in url.partition(OPEN)[0]:
        problems.add(path, "must be one line without spaces")
    if not url.startswith(("http://", "https://", OPEN)):
        problems.add(path, f"must begin with http:// or https://, not {url[:40]!r}")


def _check_headers(headers: list[MetricHeader] | None, path: str, problems: Problems) -> None:
    for index, header in enumerate(headers or ()):
        at = f"{path}.headers[{index}]"
        check_needed(header, at, problems)
        for name, text in (("key", header.key), ("value", header.value)):
            if text is not None and not text.isprintable():
                problems.add(f"{at}.{name}", "must be one line without control characters")


def _check_authentication(wire: AuthenticationWire | None, path: str, problems: Problems) -> None:
    if wire is None:
        return
    if _given(wire.sigv4):
        problems.add(
            f"{path}.authentication.sigv4", "is not supported here: the sigv4 of a MetricProvider signs requests"
        )
    if _given(wire.oauth2) and _given(wire.basic_auth):
        problems.add(f"{path}.authentication", "has oauth2 and basicAuth; give one of them")
    if wire.oauth2 is not None and _given(wire.oauth2):
        _check_not_empty(wire.oauth2, f"{path}.authentication.oauth2", problems, "tokenUrl", "clientId", "clientSecret")
        if wire.oauth2.token_url:
            _check_url(wire.oauth2.token_url, f"{path}.authentication.oauth2.tokenUrl", problems)
    if wire.basic_auth is not None and _given(wire.basic_auth):
        _check_not_empty(wire.basic_auth, f"{path}.authentication.basicAuth", problems, "username", "password")
        if OPEN not in (name := wire.basic_auth.username or "") and (":" in name or not name.isprintable()):
            message = "must have no ':' and no control characters (RFC 7617)"
            problems.add(f"{path}.authentication.basicAuth.username", message)


def _check_not_empty(wire: Wire, path: str, problems: Problems, *names: str, why: str = "is required") -> None:
    attributes = attributes_of(type(wire))
    for name in names:
        if not getattr(wire, attributes[name]):
            problems.add_missing(f"{path}.{name}", why)


def _given(wire: Wire | None) -> bool:
    """Whether an identity says anything: Argo's clients write the others too, empty."""
    return wire is not None and any(getattr(wire, name) for name in type(wire).model_fields)


def _check_range(
    value: int | str | None, path: str, problems: Problems, *, least: int, most: int | None = None
) -> None:
    if isinstance(value, int) and (value < least or (most is not None and value > most)):
        limit = f"{least} or more" if most is None else f"from {least} to {most}"
        problems.add(path, f"must be {limit}, not {value}")


def core_metric(
    wire: MetricWire, *, dry_run: bool, kept: int, secrets: tuple[core.SecretReference, ...]
) -> core.Metric:
    """With all defaults; `check_metric` has found nothing wrong with it, and all arguments have been put in."""
    assert wire.provider is not None  # noqa: S101 - check_metric has seen it
    if (compare := wire.provider.compare) is not None:
        of = _number_source(compare.of) if compare.of is not None else None
        assert isinstance(of, source.ComparedSource)  # noqa: S101 - check_comparison has seen it, and refused others
        rules, comparison = core_comparison(wire, compare, of, dry_run=dry_run, kept=kept)
        return core.Metric(rules=rules, source=comparison, secrets=secrets)
    measured: source.MetricSource | None = _number_source(wire.provider)
    if measured is None and (job := wire.provider.job) is not None:
        metadata = {} if job.metadata is None else job.metadata.model_dump(exclude_none=True)
        measured = source.JobMetric(metadata=metadata, spec=dict(job.spec or {}))
    if measured is None:
        pods = wire.provider.kubernetes or KubernetesWire.empty()
        measured = core_value(source.PodEvidence, pods)
    return core.Metric(
        rules=core_value(core.MetricRules, wire, count=wire.count or None, dry_run=dry_run, kept=kept),
        condition=core_value(core.MetricCondition, wire),
        source=measured,
        secrets=secrets,
    )


def _number_source(
    wire: MetricSourceWire | CompareOfWire,
) -> source.HttpSource | ClusterSource | None:
    if (asked := wire.prometheus) is not None:
        return core_value(
            source.PrometheusQuery,
            asked,
            endpoint=asked.address or asked.metric_provider or source.DEFAULT_ENDPOINT,
            range=core_value(source.QueryRange, asked.range_query) if asked.range_query is not None else None,
            headers=_headers(asked.headers),
            authentication=_authentication(asked.authentication),
        )
    if (web := wire.web) is not None:
        as_json = web.json_body is not None
        return core_value(
            source.WebQuery,
            web,
            headers=_headers(web.headers),
            body=json.dumps(web.json_body) if as_json else web.body or "",
            body_is_json=as_json,
            authentication=_authentication(web.authentication),
        )
    for recipe, server in server_given(wire):
        fields = core_value(recipe.fields, server)
        timeout_s = fields.given(recipe.limits).timeout_s
        return source.ServerQuery(kind=recipe.name, fields=fields, endpoint=fields.server, timeout_s=timeout_s)
    return cluster_source(wire)


def _headers(wire: list[MetricHeader] | None) -> tuple[tuple[str, str], ...]:
    return tuple((header.key or "", header.value or "") for header in wire or ())


def _authentication(wire: AuthenticationWire | None) -> source.Authentication | None:
    if wire is None:
        return None
    if wire.basic_auth is not None and _given(wire.basic_auth):
        return core_value(source.BasicAuth, wire.basic_auth)
    return core_value(source.OAuth2, wire.oauth2) if wire.oauth2 is not None and _given(wire.oauth2) else None
