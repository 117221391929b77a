"""Promise: the chart's dashboard behind a proxy may impersonate those who are listed, nobody else, and nothing besides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from rollouts.cli.main import app
from tests.lab.chart import RELEASE_NAMESPACE, render
from tests.packaging.rendered import Documents
from tests.packaging.test_the_charts_values_reach_its_objects import templated
from tests.packaging.test_the_dashboard_runs_without_rights import ON, of_the_dashboard

pytestmark = pytest.mark.controlplane

PROXY = (*ON, "--set", "dashboard.auth=proxy,dashboard.proxy.secretName=of-the-proxy")


def with_lists(helm: Path, **lists: list[str]) -> Documents:
    """The chart with these values of `dashboard.proxy`."""
    words = (
        word for name, value in lists.items() for word in ("--set-json", f"dashboard.proxy.{name}={json.dumps(value)}")
    )
    return render(helm, *PROXY, *words)


def test_its_account_may_impersonate_and_read_nothing(helm: Path) -> None:
    """Groups by name alone, since RBAC would give `system:masters` too; users as the list says, and all without one."""
    users = {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}
    groups = {**users, "resources": ["groups"]}
    named = {"groups": ["shop readers", "shop-releasers"], "users": ["alice@example.com"]}

    assert of_the_dashboard(render(helm, *PROXY))["ClusterRole"]["rules"] == [users]
    own = of_the_dashboard(with_lists(helm, **named))
    assert own["ClusterRole"]["rules"] == [
        {**users, "resourceNames": named["users"]},
        {**groups, "resourceNames": named["groups"]},
    ]
    account = {"kind": "ServiceAccount", "name": "rollouts-dashboard", "namespace": RELEASE_NAMESPACE}
    assert own["ClusterRoleBinding"]["subjects"] == [account]
    without_rbac = of_the_dashboard(render(helm, *PROXY, "--set", "rbac.create=false"))
    assert set(without_rbac) == {"ServiceAccount", "Service", "Deployment", "NetworkPolicy"}


def test_it_starts_with_the_secret_and_the_lists(helm: Path) -> None:
    """The words are the command line's own, and its pod has a token, which the account of tokens has not."""
    own = of_the_dashboard(with_lists(helm, groups=["shop readers", "shop-releasers"], users=["alice@example.com"]))
    pod: dict[str, Any] = own["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (volume,) = pod["volumes"]

    assert container["args"][:8] == [
        "dashboard",
        "--auth=proxy",
        "--proxy-secret=/var/run/rollouts/proxy/secret",
        "--user-header=X-Forwarded-User",
        "--groups-header=X-Forwarded-Groups",
        "--allow-user=alice@example.com",
        "--allow-group=shop readers",
        "--allow-group=shop-releasers",
    ]
    command: Any = typer.main.get_command(app)
    command.commands["dashboard"].callback = None  # it is read, and not carried out
    assert command.main(container["args"], standalone_mode=False) in (None, 0)
    assert pod["automountServiceAccountToken"] is True
    assert volume["secret"] == {"secretName": "of-the-proxy", "items": [{"key": "secret", "path": "secret"}]}
    assert container["volumeMounts"] == [{"name": "proxy", "mountPath": "/var/run/rollouts/proxy", "readOnly": True}]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("dashboard.proxy.secretName=", "set dashboard.proxy.secretName to a Secret"),
        ("dashboard.proxy.groups={system:masters}", "/dashboard/proxy/groups/0"),
        ("dashboard.proxy.groups={System:masters}", "/dashboard/proxy/groups/0"),
        ("dashboard.proxy.groups={a\\,b}", "/dashboard/proxy/groups/0"),
        ("dashboard.proxy.users={system:admin}", "/dashboard/proxy/users/0"),
        ("dashboard.proxy.users={ü}", "/dashboard/proxy/users/0"),
        ("dashboard.proxy.userHeader=X_User", "/dashboard/proxy/userHeader"),
        ("dashboard.auth=none", "/dashboard/auth"),
    ],
)
def test_what_would_let_too_much_in_is_refused(helm: Path, values: str, said: str) -> None:
    """Before anything is installed, with the value's name."""
    done = templated(helm, "rollouts", *PROXY, "--set", values)

    assert done.returncode != 0
    assert said in done.stderr, done.stderr
