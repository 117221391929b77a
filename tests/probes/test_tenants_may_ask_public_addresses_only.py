"""Promise: a URL that a tenant names is asked at a public address that was judged, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from ipaddress import ip_network

import pytest

from rollouts.core.model.frozen import replace
from rollouts.metrics.addresses import (
    ADMINISTRATORS,
    AddressKind,
    TenantUrls,
    UrlRules,
    address_kind,
    may_be_asked,
    url_problem,
)
from rollouts.metrics.requests import HttpAnswer, MetricEndpoint
from tests.probes.metric_questions import GOOD, OPEN, Make, ask, endpoint_of, oauth, resolver_of, why_not
from tests.probes.servers import refused_port, serving

PUBLIC = ["93.184.216.34", "2606:2800:220:1::1", "8.8.8.8", "1.1.1.1", "2a00:1450:4001::5"]
PRIVATE = [
    *("127.0.0.1", "127.8.9.10", "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
    *("100.64.0.1", "100.127.255.254", "::1", "fc00::1", "fdff::1"),
    *("192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1", "192.88.99.1", "240.0.0.1"),
]
REFUSED = [
    *("169.254.169.254", "169.254.0.1", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
    *("fd00:ec2::254", "fd20:ce::254", "fe80::1", "fe80::1%eth0", "fe80::a9fe:a9fe", "fec0::1"),
    *("0.0.0.0", "0.1.2.3", "::", "255.255.255.255", "224.0.0.1", "239.1.1.1", "ff02::1"),  # noqa: S104
    *("192.0.0.192", "2001:db8::1", "3fff::1"),
    *("::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:a9fe:a9fe", "::127.0.0.1", "::8.8.8.8", "64:ff9b::7f00:1"),
    *("64:ff9b:1::1", "2002:7f00:1::", "2001:0:7f00:1::", "2001::1", "100::1", "5f00::1"),
    *("", "localhost", "127.1", "0x7f.1", "2130706433", "8.8.8.8.8", "8.8.8.8 ", "[::1]"),
]


@pytest.mark.parametrize(
    ("addresses", "kind"),
    [(PUBLIC, AddressKind.PUBLIC), (PRIVATE, AddressKind.PRIVATE), (REFUSED, AddressKind.REFUSED)],
)
def test_addresses_are_judged(addresses: list[str], kind: AddressKind) -> None:
    """A tenant may have public ones alone, an administrator all but those of metadata services and of nobody."""
    for each in addresses:
        assert address_kind(each) is kind, each
        assert may_be_asked(each, OPEN) is (kind is AddressKind.PUBLIC), each
        assert may_be_asked(each, ADMINISTRATORS) is (kind is not AddressKind.REFUSED), each


def test_the_clusters_own_public_networks_may_be_refused() -> None:
    """An API server with a public address is still the cluster's own."""
    tenants = replace(OPEN, refused=(ip_network("93.184.216.0/24"), ip_network("2606:2800::/32")))

    assert [may_be_asked(each, tenants) for each in PUBLIC] == [False, False, True, True, True]


BAD_URLS = [
    # Not a URL of a server, or with parts that readers understand differently.
    "", "http", "https://", "https:///x", "//a.example/", "a.example", "ftp://a.example", "file:///etc/passwd",
    "gopher://a/x", "data:,x", "javascript:1", "unix:/run/x.sock", "https:a.example", "https:/a.example",
    "https:\\\\a.example", " https://a.example", "https://a.example ", "https://a.example/a b", "https://a.exa\nmple/",
    "https://a.example/\r\nX: 1", "https://a.example/\t", "https://a.example\\@b.example/",
    "https://a.example#@b.example/", "https://a.example/#x", "https://user@a.example", "https://user:word@a.example",
    "https://@a.example", "https://a.example@127.0.0.1/", "https://127.0.0.1:443@a.example", "https://a.example:",
    "https://a.example:0/", "https://a.example:99999/", "https://a.example:-1/", "https://a.example:44a/",
    "https://ⓐ.example/", "https://ⅼocalhost/", "https://①②⑦.0.0.1/", "https://127。0。0。1/", "https://a%2eexample/",
    "https://[::1", "https://::1/", "https://[::1]]/", "https://[fe80::1%25eth0]/", "https://[::1%lo]/", "https://[a]/",
    "https://a.example/" + "a" * 5_000, "https://" + "a" * 300 + "/", "https://a.example/\x00", "https://a.example/é",
    # Not for tenants.
    "http://a.example", "https://a.example:8443", "https://a.example:6443/", "https://a.example:22",
    "https://a.example:9090/", "https://2130706433/", "https://0x7f000001/", "https://017700000001/", "https://127.1/",
    "https://0177.0.0.1/", "https://0x7f.0.0.1/", "https://127.0.0.1.2/", "https://1/", "https://0/",
    "https://127.0.0.0x1/", "https://a.0x1/",
]  # fmt: skip
BAD_HOSTS = [
    "https://127.0.0.1/", "https://10.0.0.1/", "https://169.254.169.254/latest/meta-data/", "https://[::1]/",
    "https://[::]/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/", "https://[64:ff9b::7f00:1]/",
    "https://[fd00:ec2::254]/", "https://0.0.0.0/", "https://100.100.100.200/", "https://168.63.129.16/",
    "https://192.168.0.1/", "https://localhost/", "https://LOCALHOST/", "https://100.64.0.1/", "https://172.20.0.1/",
    "https://[fe80::1]/",
]  # fmt: skip


@pytest.mark.parametrize("url", BAD_URLS)
async def test_a_url_that_a_tenant_may_not_name_is_not_asked(asker: Make, url: str) -> None:
    """Not even its name is looked up."""

    async def seen(host: str, port: int) -> Sequence[str]:
        raise AssertionError(host)

    assert url_problem(url, OPEN)
    assert "word" not in why_not(await ask(asker(resolve=seen), MetricEndpoint(url=url), ""))


@pytest.mark.parametrize("url", BAD_HOSTS)
async def test_an_address_that_a_tenant_may_not_ask_is_not_asked(asker: Make, url: str) -> None:
    """By the system's own resolver, which knows each way to write an address."""
    assert "may not be asked" in why_not(await ask(asker(), MetricEndpoint(url=url), ""))


@pytest.mark.parametrize(
    ("url", "rules", "words"),
    [
        ("https://a.example/x?y=1", OPEN, ""),
        ("https://A.Example.:443", OPEN, ""),
        ("https://8.8.8.8/", OPEN, ""),
        ("https://[2606:2800::1]/", OPEN, ""),
        ("https://a.example/x@b", OPEN, ""),
        ("https://a.example", TenantUrls(), "an administrator declared"),
        ("http://a.example", replace(OPEN, plain_http=True, ports=frozenset({80})), ""),
        ("https://a.example:9090", replace(OPEN, ports=frozenset({9090})), ""),
        ("https://m.a.example", replace(OPEN, hosts=("*.a.example",)), ""),
        ("https://a.example", replace(OPEN, hosts=("*.a.example",)), "not one that"),
        ("https://ba.example", replace(OPEN, hosts=("*.a.example", "a.example")), "not one that"),
        ("https://a.example.evil", replace(OPEN, hosts=("a.example",)), "not one that"),
        ("http://prometheus.monitoring:9090", ADMINISTRATORS, ""),
        ("http://127.0.0.1:9090", ADMINISTRATORS, ""),
    ],
)
def test_the_administrator_says_which_urls_tenants_may_name(url: str, rules: UrlRules, words: str) -> None:
    """None at first; then https on 443 alone."""
    problem = url_problem(url, rules)

    assert (words in problem) if words else problem == ""


@pytest.mark.parametrize(
    ("found", "declared"),
    [
        (["127.0.0.1"], False), (["93.184.216.34", "127.0.0.1"], False), (["93.184.216.34", "::ffff:7f00:1"], False),
        (["fe80::1%lo"], False), (["not an address"], False), (["169.254.169.254"], True),
        (["127.0.0.1", "169.254.169.254"], True),
    ],
)  # fmt: skip
async def test_all_addresses_of_a_name_must_be_good(asker: Make, found: list[str], declared: bool) -> None:
    """A name with a good and a bad address gets the bad one asked sooner or later; the answer does not tell which it has."""
    async with serving(GOOD) as server:
        tenants = replace(OPEN, plain_http=True, ports=frozenset({server.port}))
        endpoint = MetricEndpoint(url=server.url("a.example"), declared=declared)
        why = why_not(await ask(asker(tenants=tenants, resolve=resolver_of(a=found)), endpoint))

    assert "address" in why
    assert not any(each in why for each in found)
    assert server.sent == []


async def test_a_name_that_changes_its_address_is_asked_where_it_was_judged(asker: Make) -> None:
    """To a good address first, to the metadata service then: one look a request, and the connection goes to what was seen."""
    looks: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        looks.append(host)
        return ["127.0.0.2"] if len(looks) == 1 else ["169.254.169.254"]

    async with serving(GOOD, host="127.0.0.2") as server:
        by, endpoint = asker(resolve=rebinding), MetricEndpoint(url=server.url("a.example"), declared=True)
        assert isinstance(await ask(by, endpoint), HttpAnswer)
        assert looks == ["a.example"]
        assert "may not be asked" in why_not(await ask(by, endpoint))

    assert server.hosts == [f"a.example:{server.port}"]


async def test_a_tenants_token_server_is_judged_too(asker: Make) -> None:
    """The secret of a tenant's client does not make the controller ask within the cluster."""
    async with serving(GOOD) as tokens:
        credentials = oauth(tokens, token_url=f"http://internal.example:{tokens.port}/token", declared=False)
        endpoint = MetricEndpoint(url="http://a.example:80", credentials=credentials)
        tenants = replace(OPEN, plain_http=True, ports=frozenset({80, tokens.port}))
        by = asker(tenants=tenants, resolve=resolver_of(a=["93.184.216.34"], internal=["127.0.0.1"]))
        assert "may not be asked" in why_not(await ask(by, endpoint))

    assert tokens.sent == []


@pytest.mark.parametrize("tenants", [TenantUrls(), replace(OPEN, plain_http=True, ports=frozenset(range(1, 65_536)))])
async def test_a_templates_token_for_a_declared_server_is_a_tenants_too(asker: Make, tenants: TenantUrls) -> None:
    """Who named a URL counts, not what it belongs to: the declared server gives its token's URL none of its rights."""
    async with serving(GOOD) as tokens, serving(GOOD) as server:
        endpoint = endpoint_of(server, credentials=oauth(tokens, declared=False))
        why = why_not(await ask(asker(tenants=tenants), endpoint))

    assert "the URL of its token: " in why
    assert "may be asked" in why or "may not be asked" in why
    assert tokens.sent == server.sent == []


async def test_what_is_said_of_an_address_that_may_not_be_asked_tells_nothing_about_it(asker: Make) -> None:
    """Somebody who listens, nobody who does, no such name, and a name server that is silent: all in the same words."""

    async def no_answer(host: str, port: int) -> Sequence[str]:
        if host == "hangs.example":
            await asyncio.Event().wait()
        if host == "missing.example":
            raise OSError("no such name")
        return ["127.0.0.1"]

    async with serving(GOOD) as server:
        ports = [server.port, await refused_port()]
        urls = [f"http://{host}.example:{port}" for host in ("there", "missing", "hangs") for port in ports]
        by = asker(tenants=replace(OPEN, plain_http=True, ports=frozenset(ports)), resolve=no_answer)
        found = [why_not(await ask(by, MetricEndpoint(url=url), timeout_s=0.2)).replace(f"{url}: ", "") for url in urls]

    assert len(set(found)) == 1, found
    assert server.sent == []


def test_a_tenant_may_ask_nothing_until_an_administrator_says_so() -> None:
    """What a flag that is absent means; and a tenant that may ask, asks HTTPS on its own port alone."""
    assert TenantUrls() == TenantUrls(allowed=False, hosts=(), ports=frozenset({443}), plain_http=False, refused=())
