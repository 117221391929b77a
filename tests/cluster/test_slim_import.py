"""The library is imported in the parts that are used: the models stay away, and nobody else gets a crippled library."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from typing import Any

from rollouts.cluster import slim_import

_OF_CLIENT = {"client", *(f"client.{each}" for each in ("configuration", "exceptions", "rest"))}
BOTH = {"config", "config.config_exception", *_OF_CLIENT}
INCLUSTER = {*BOTH, "config.incluster_config"}
KUBECONFIG = {
    *BOTH,
    *(f"config.{each}" for each in ("dateutil", "exec_provider", "google_auth", "kube_config", "openid")),
}


def printed(program: str, **more: Any) -> str:
    """What a Python of its own prints."""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, **more)
    return str(done.stdout.strip())


def test_the_library_is_the_version_that_was_read() -> None:
    """The slim import relies on the library's inner layout, so a new version is looked at before it is taken."""
    assert version("kubernetes_asyncio") == "36.1.0"


def test_exactly_the_modules_that_are_used_are_imported() -> None:
    """The 1,295 generated modules cost 0.2 s of CPU and 35 MiB; one import too many in a parent brings them all back."""
    for found, parts in ((slim_import.incluster(), INCLUSTER), (slim_import.kubeconfig(), KUBECONFIG)):
        assert set(found.modules) == {"kubernetes_asyncio", *(f"kubernetes_asyncio.{each}" for each in parts)}


def test_the_connection_room_imports_no_model_and_stays_small() -> None:
    """The whole controller may take 70 MiB at its first watch; this room alone must leave room for the others."""
    program = (
        "import sys; import rollouts.cluster.connection; from rollouts.cluster import slim_import; slim_import.kubeconfig();"
        "print(sum(m.startswith('kubernetes_asyncio') for m in sys.modules), len(sys.modules),"
        "int(open('/proc/self/statm').read().split()[1]) // 256)"
    )
    leaked, modules, resident_mib = map(int, printed(program).split())

    assert leaked == 0
    assert modules < 600
    assert resident_mib < 55


def test_a_later_ordinary_import_gets_the_whole_library() -> None:
    """The empty parent packages are an inner matter: somebody else's `client.CoreV1Api` must be there."""
    program = (
        "from rollouts.cluster import slim_import; slim_import.kubeconfig();"
        "from kubernetes_asyncio import client; print(client.CoreV1Api.__name__)"
    )
    assert printed(program) == "CoreV1Api"


def test_a_user_without_a_home_can_import_the_kubeconfig_reader() -> None:
    """Containers run as user ids without an account, for whom the library cannot find a home folder."""
    program = (
        "import pwd; from rollouts.cluster import slim_import\n"
        "def nobody(uid): raise KeyError(uid)\n"
        "pwd.getpwuid = nobody; slim_import.kubeconfig(); import os; print('HOME' in os.environ)"
    )
    bare = {"PYTHONPATH": ":".join(filter(None, sys.path)), "PATH": "/usr/bin:/bin"}
    assert printed(program, env=bare) == "False"
