"""Pod templates that name ConfigMaps and Secrets in every place, and random ones."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Template = dict[str, Any]


def _container(number: int) -> Template:
    return {
        "name": f"c{number}",
        "image": "cart:1.4",
        "env": [
            {"name": "PLAIN", "value": "x"},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": f"env-{number}", "key": "level"}}},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": f"token-{number}", "key": "t", "optional": True}}},
        ],
        "envFrom": [
            {"prefix": "A_", "configMapRef": {"name": f"from-{number}", "optional": True}},
            {"secretRef": {"name": f"from-{number}"}},
        ],
        "volumeMounts": [{"name": "files", "mountPath": "/etc/cart/x.conf", "subPath": "x.conf"}],
    }


EVERYWHERE: Template = {
    "metadata": {"labels": {"app": "cart"}},
    "spec": {
        "containers": [_container(1)],
        "initContainers": [_container(2)],
        "ephemeralContainers": [_container(3)],
        "imagePullSecrets": [{"name": "registry"}],
        "volumes": [
            {
                "name": "files",
                "configMap": {
                    "name": "files",
                    "items": [{"key": "x", "path": "x.conf", "mode": 256}],
                    "defaultMode": 420,
                },
            },
            {"name": "tls", "secret": {"secretName": "tls", "optional": True}},
            {
                "name": "both",
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
                        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                        {"downwardAPI": {"items": [{"path": "ns", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
                        {"configMap": {"name": "flags", "optional": True}},
                        {"secret": {"name": "keys"}},
                    ]
                },
            },
            {"name": "share", "azureFile": {"secretName": "driver", "shareName": "s"}},
            {"name": "scratch", "emptyDir": {}},
        ],
    },
}
"""Names in every place; what else looks like a name is none."""

_NAMES = st.sampled_from(["a", "b", "a.b", "a-1", "kube-root-ca.crt", "A/b", "", "x" * 254, 3, None])
_OPTIONAL = st.sampled_from([True, False, None, "true"])
_JUNK: st.SearchStrategy[Any] = st.sampled_from([None, 0, "x", [], {}, [None], [[]], [{}], {"name": "a"}]).map(
    copy.deepcopy  # as from JSON: no object stands in two places
)


def random_templates() -> st.SearchStrategy[Template]:
    """Templates with names in any of the places, and with values of any wrong type between them."""
    config_map = st.fixed_dictionaries({"name": _NAMES}, optional={"optional": _OPTIONAL, "key": st.just("k")}) | _JUNK
    secret = st.fixed_dictionaries({"secretName": _NAMES}, optional={"optional": _OPTIONAL}) | _JUNK
    of_key = st.fixed_dictionaries({}, optional={"configMapKeyRef": config_map, "secretKeyRef": config_map})
    env = st.lists(
        st.fixed_dictionaries({"name": st.just("X")}, optional={"valueFrom": of_key | _JUNK}) | _JUNK, max_size=2
    )
    env_from = st.lists(
        st.fixed_dictionaries({}, optional={"configMapRef": config_map, "secretRef": config_map}) | _JUNK, max_size=2
    )
    container = st.fixed_dictionaries(
        {"name": st.just("c")}, optional={"env": env | _JUNK, "envFrom": env_from | _JUNK}
    )
    containers = st.lists(container | _JUNK, max_size=2) | _JUNK
    source = st.fixed_dictionaries({}, optional={"configMap": config_map, "secret": config_map}) | _JUNK
    projected = st.fixed_dictionaries({"sources": st.lists(source, max_size=2) | _JUNK}) | _JUNK
    volume = st.fixed_dictionaries(
        {"name": st.just("v")}, optional={"configMap": config_map, "secret": secret, "projected": projected}
    )
    spec = st.fixed_dictionaries(
        {"containers": containers},
        optional={
            "initContainers": containers,
            "ephemeralContainers": containers,
            "volumes": st.lists(volume | _JUNK, max_size=3) | _JUNK,
            "imagePullSecrets": st.just([{"name": "a"}]),
        },
    )
    return st.fixed_dictionaries({"spec": spec | _JUNK})


def everywhere_but(change: Callable[[Any], object]) -> Template:
    """A copy of `EVERYWHERE`, after `change` was made to its spec."""
    template = copy.deepcopy(EVERYWHERE)
    change(template["spec"])
    return template
