"""Promise: a tenant's query is asked only when each selector in it names the tenant's namespace, in whatever form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.core.drain.query import beyond_namespace

OWN = [
    'sum(in_flight{namespace="shop"})',
    "sum(in_flight{pod=~'cart-.*', namespace='shop'})",
    "sum(in_flight{namespace=`shop`,})",
    '{namespace="shop", __name__="in_flight"}',
    '{"in.flight", namespace="shop"}',
    '{"namespace"="shop"}',
    'sum by (pod) (in_flight{namespace="shop"})',
    'SUM(in_flight{namespace="shop"}) BY (pod)',
    'sum without(pod, job) (rate(in_flight{exported_namespace="shop"}[5m:1m] offset -5m))',
    'a{namespace="shop"} / on(pod) group_left(job) b{destination_service_namespace="shop"} or vector(0)',
    'sum(a{namespace="shop"} @ end()) # other{namespace="till"}',
    'max_over_time(a{namespace="shop"}[1h30m]) > bool 0.5e-3',
    'label_replace(a{namespace="shop"}, "x", "$1", "y", "{b}")',
    "vector(0)",
    "time() - 1",
    "",
]
BEYOND = [
    "in_flight",
    "sum(in_flight)",
    "sum(in_flight{})",
    "in_flight[5m]",
    '{__name__=~".+"}',
    'in_flight{namespace="till"}',
    'in_flight{namespace=~"shop"}',
    'in_flight{namespace!="shop"}',
    'in_flight{namespace=~"shop|till"}',
    'in_flight{pod="namespace=shop"}',
    "in_flight{pod='{namespace=\"shop\"}'}",
    'in_flight{notnamespace="shop"}',
    'in_flight{namespaces="shop"}',
    'in_flight{namespace="shop" or namespace="till"}',
    'in_flight{namespace="shop" or pod="x"}',
    'a{namespace="shop"} + b',
    'a{namespace="shop"} + b{pod="x"}',
    'a{namespace="shop"} or b offset 5m',
    "sum(a) by (namespace)",
    "count by (pod) (secret)",
    'in_flight # {namespace="shop"}',
    'in_flight {pod="x"} # {namespace="shop"}',
    'in_flight{namespace="shop"',
    'in_flight{namespace="sh\\x6fp"}',
    'WITH (ns = {namespace=~".*"}) in_flight{ns}',
    'in_flight{namespace="shop"} + in\\-flight',
    'a{namespace="shop"}; b',
    '"unclosed',
    "in_flight keep_metric_names",
]


@pytest.mark.parametrize(("query", "own"), [*((each, True) for each in OWN), *((each, False) for each in BEYOND)])
def test_only_a_query_of_ones_own_is_asked(query: str, own: bool) -> None:
    """All forms that PromQL's documentation has for it. What cannot be told looks beyond, with the words of the query."""
    assert (beyond_namespace(query, "shop") == "") is own


NAMES = st.sampled_from(["up", "http_requests", "a:b:c", "sum_total", "by_pod", "namespace"])
OTHERS = st.sampled_from(['pod="x"', "job=~'a|b'", 'x!="{"', "y!~`}`", 'z="namespace"', 'n="\\"}"'])
MATCHER = st.sampled_from(['namespace="shop"', "namespace = 'shop'", "exported_namespace=`shop`"])


@st.composite
def selectors(draw: st.DrawFn) -> tuple[str, bool]:
    """One selector, and whether it names the namespace."""
    others = draw(st.lists(OTHERS, max_size=3))
    own = draw(st.booleans())
    matchers = draw(st.permutations([*others, draw(MATCHER)])) if own else others
    name = draw(NAMES)
    braces = bool(matchers) or draw(st.booleans())
    text = f"{name}{{{', '.join(matchers)}}}" if braces else name
    window = draw(st.sampled_from(["", "[5m]", "[5m:1m]", " offset 1h", " @ 1609746000.5"]))
    return text + window, own


@st.composite
def queries(draw: st.DrawFn) -> tuple[str, bool]:
    """A query of several selectors, and whether all of them name the namespace."""
    parts = draw(st.lists(selectors(), min_size=1, max_size=4))
    wrap = st.sampled_from(["{}", "sum({})", "sum by (pod) ({})", "rate ( {} )", "-{}", "topk(3, {}) without (job)"])
    joined = [draw(wrap).replace("{}", text) for text, _ in parts]
    between = st.sampled_from(
        [" + ", " / ignoring(pod) group_left ", " or ", " unless on (pod) ", " > bool ", "\n# {}\n* "]
    )
    query = joined[0]
    for each in joined[1:]:
        query += draw(between) + each
    return query, all(own for _, own in parts)


@given(queries())
def test_each_selector_is_looked_at(case: tuple[str, bool]) -> None:
    """One without the namespace among any number with it is found, and nothing else is taken for one."""
    query, own = case

    assert (beyond_namespace(query, "shop") == "") is own, query
