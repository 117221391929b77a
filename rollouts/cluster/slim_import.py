"""Imports the few modules of kubernetes_asyncio that this program uses, without the 1,295 that its `__init__` imports.

An ordinary import of any submodule runs the package's `__init__`, which imports every generated model: about 0.2 s of CPU and
35 MiB. So the wanted modules are imported below empty parent packages, which are then removed from `sys.modules` together with
the modules: a later ordinary `import kubernetes_asyncio` elsewhere in the process finds the whole library, not this part.
`tests/cluster/test_slim_import.py` pins the version and the list of modules.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct

PACKAGE = "kubernetes_asyncio"
_EMPTY_PARENTS = ("", ".client", ".config")


class Library(Struct, frozen=True):
    """The parts of the library that are used.

    Args:
        rest: module of `RESTClientObject`, which builds the TLS context and the aiohttp session.
        config: module of one configuration loader: `incluster_config` or `kube_config`.
        modules: names of all the library's modules that were imported, for the test that pins them.
    """

    configuration: Any
    rest: Any
    config: Any
    config_exception: type[Exception]
    modules: tuple[str, ...]


def incluster() -> Library:
    """The modules that a pod needs, without a YAML parser.

    Raises: ImportError when the library is not installed or has changed its layout.
    """
    return _load("incluster_config")


def kubeconfig() -> Library:
    """The modules that a kubeconfig needs. Raises: ImportError when the library is not installed or has changed its layout."""
    # The module looks for the home folder during its import, which fails for a user id without an account.
    homeless = "HOME" not in os.environ
    if homeless:
        os.environ["HOME"] = "/"
    try:
        return _load("kube_config")
    finally:
        if homeless:
            del os.environ["HOME"]


def _load(loader: str) -> Library:
    hidden = _take_ours_out()
    spec = importlib.util.find_spec(PACKAGE)  # this runs none of its code
    if spec is None or spec.origin is None:
        raise ImportError(f"{PACKAGE} is not installed")
    root = Path(spec.origin).parent
    try:
        for parent in _EMPTY_PARENTS:
            package = ModuleType(PACKAGE + parent)
            package.__path__ = [str(root.joinpath(*parent.split(".")[1:]))]
            sys.modules[package.__name__] = package
        client: Any = sys.modules[f"{PACKAGE}.client"]
        configuration = importlib.import_module(f"{PACKAGE}.client.configuration")
        rest = importlib.import_module(f"{PACKAGE}.client.rest")
        client.Configuration = configuration.Configuration
        # kube_config names ApiClient in the signatures of functions that we do not call.
        client.ApiClient = object
        config = importlib.import_module(f"{PACKAGE}.config.{loader}")
        exceptions = importlib.import_module(f"{PACKAGE}.config.config_exception")
        return Library(
            configuration=configuration,
            rest=rest,
            config=config,
            config_exception=exceptions.ConfigException,
            modules=tuple(sorted(_take_ours_out())),
        )
    finally:
        _take_ours_out()
        sys.modules.update(hidden)


def _take_ours_out() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name == PACKAGE or name.startswith(f"{PACKAGE}.")]
    return {name: sys.modules.pop(name) for name in names}
