"""Promise: every ConfigMap and Secret that a pod's containers can read is found in the template, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollouts.core.config.references import references
from rollouts.core.model.config import ConfigKind, ConfigRef
from tests.core.config.templates import EVERYWHERE, Template, everywhere_but, random_templates

CONFIG_MAP, SECRET = ConfigKind.CONFIG_MAP, ConfigKind.SECRET
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["spec", "containers", "volumes", "env", "configMap", "name"]), inner, max_size=3
        )
    ),
    max_leaves=10,
)
RANDOM = random_templates()


def _pod(**fields: Any) -> Template:
    return {"spec": {"containers": [{"name": "app"}], **fields}}


def test_every_place_counts_and_each_source_is_named_once() -> None:
    """Environment and volumes, of init and ephemeral containers too: each of them would keep an old value or get a new one."""
    required, optional = ("env-1", "env-2", "env-3", "files"), ("flags", "from-1", "from-2", "from-3")

    assert references(EVERYWHERE, secrets=False) == (
        *(ConfigRef(CONFIG_MAP, name) for name in required),
        *(ConfigRef(CONFIG_MAP, name, optional=True) for name in optional),
    )


def test_secrets_are_named_only_when_asked_for() -> None:
    """They need rights of their own. Those for pulling images and of storage drivers are no configuration of the containers."""
    required, optional = ("from-1", "from-2", "from-3", "keys"), ("tls", "token-1", "token-2", "token-3")

    assert [ref for ref in references(EVERYWHERE, secrets=True) if ref.kind is SECRET] == [
        *(ConfigRef(SECRET, name) for name in required),
        *(ConfigRef(SECRET, name, optional=True) for name in optional),
    ]


def test_a_source_is_optional_only_when_every_reference_says_so() -> None:
    """One container that cannot start without it is enough to wait for it."""
    required = {"configMapRef": {"name": "flags", "optional": False}}
    template = everywhere_but(lambda spec: spec["containers"][0]["envFrom"].append(required))

    (flags,) = (ref for ref in references(template, secrets=False) if ref.name == "flags")

    assert not flags.optional


PUBLISHED = ("kube-root-ca.crt", "openshift-service-ca.crt", "istio-ca-root-cert", "istio-ca-crl")
NO_NAMES = ("", "A", "a/b", "..", "a_b", "x" * 254, "a\n", 3, None, ["a"])


@pytest.mark.parametrize(
    ("name", "kinds"),
    [("cart", (CONFIG_MAP, SECRET)), *((name, (SECRET,)) for name in PUBLISHED), *((name, ()) for name in NO_NAMES)],
)
def test_what_an_object_can_be_called_is_found_unless_the_cluster_publishes_it(
    name: Any, kinds: tuple[ConfigKind, ...]
) -> None:
    """A copy would not follow a rotation of the cluster's own certificates. Names are unique within a kind only.

    Nothing is asked of the API server for a name that no object can have; the pods say what is wrong with it.
    """
    template = _pod(volumes=[{"configMap": {"name": name}}, {"secret": {"secretName": name}}])

    assert references(template, secrets=True) == tuple(ConfigRef(kind, name) for kind in kinds)


@settings(max_examples=200, deadline=None)
@given(template=st.dictionaries(st.sampled_from(["spec", "metadata"]), ANY_JSON, max_size=2) | RANDOM)
def test_any_json_is_read(template: Template) -> None:
    """The API server checks a template only when pods are made of it; reading must end until then."""
    found = references(template, secrets=True)

    assert list(found) == sorted(set(found))
    assert set(references(template, secrets=False)) == {ref for ref in found if ref.kind is CONFIG_MAP}
